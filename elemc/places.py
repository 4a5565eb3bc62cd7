"""Places of extrema as folds that go in vectors.

The place of a maximum along long rows goes with the maximum, a lane of either.  In rows of narrow
elements, and of all, it is looked for once the maximum is known, and only in the chunks that have
it; so is the first of booleans that is true.  Along columns of narrow tables and in short rows it
is the least of all places where the maximum is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from .accumulators import ACCUMULATORS
from .close import INDEX, Program, fold_program
from .cost import HEAVY, cost
from .nest import LANES
from .nest_leaves import FoldIndex
from .ops import BEFORE, OPS
from .ops_base import ScalarOp
from .programs import convert
from .values import (
    FEW,
    LONGEST,
    NARROW,
    SELECT,
    SHORT,
    Affine,
    First,
    Fold,
    Literal,
    Op,
    Place,
    Position,
    Specialized,
    Value,
    is_fold,
    walk,
)

BOOL = np.dtype(bool)
COUNTS = (np.dtype(np.int16), np.dtype(np.int32))  # what places are counted in, if they are few
ENOUGH = 24  # elements of a row, at least, for vectors of an extremum, and then of its place
PLACED = 64  # elements of a row, at most, whose extremum's place is found with those of other rows
Shared = Callable[[Fold], Fold]  # gives the fold like this one that there is already


def quicker(fold: Fold, axes: Sequence[str], rows: Sequence[str], spec: Specialized,
            shared: Shared) -> Value:
    """The same place; `axes` are in the order of memory, `rows` those that rows consist of."""
    several = len(fold.over) > 1
    low, high = spec.between(rows[0]) if rows else (LONGEST, LONGEST)
    if fold.arg.dtype.kind == "b" and not several and rows and (
            low >= 2 * LANES or not fold.axes and high > PLACED):
        return _first_true(fold, shared)
    if not rows:
        few, most = spec.between(axes[-1]) if axes and not several else (LONGEST, LONGEST)
        twice = few <= NARROW and _same_twice(fold.arg) or most <= SHORT and _same_twice(
            fold.arg, spec.loose)  # where vectors would be short
        return _first(fold, shared, False) if twice else fold
    if several:
        in_order = [a for a in axes if a in fold.over] == [*fold.over]
        return _of_several(fold, low, high, in_order, spec.far, shared)
    enough = ENOUGH if fold.arg.dtype.itemsize >= 4 else 2 * LANES
    if enough <= low and high <= PLACED and _same_twice(fold.arg, spec.loose):
        return _first(fold, shared)
    narrow = low >= 2 * LANES and fold.arg.dtype.char in "bBhH"
    if (narrow or not fold.axes and high > PLACED) and _same_twice(fold.arg, spec.loose):
        top = _extremum(fold, shared)
        limit = _limit(top, fold.program)
        return _sought(fold, _reaches(fold.arg, limit, fold.program), top, limit)
    if low == high <= FEW and fold.arg.dtype.kind == "f" and _same_twice(fold.arg, spec.loose):
        return _first(fold, shared, False)  # gcc makes vectors along the axis around
    if high <= PLACED:
        return fold  # short rows go side by side
    return _along(_wider(fold) if fold.arg.dtype.kind == "u" else fold, shared)


def _of_several(fold: Fold, low: int, high: int, in_order: bool, far: bool, shared: Shared) -> Fold:
    """A place among all elements of rows of `low` to `high`; in memory's order, these share lanes.

    Floats wait twice for each other, which takes longer in few lanes than to read them twice.
    """
    if not in_order and high > PLACED:
        return _along(fold, shared)
    enough = 4 * LANES if fold.arg.dtype.kind == "f" and not far else LANES
    few = low < enough and fold.arg.dtype.itemsize > 1
    if (few or not in_order) and _same_twice(fold.arg):
        return _first(fold, shared)
    return _along(_wider(fold), shared) if in_order and low >= LANES else fold


def counted(fold: Fold, spec: Specialized) -> Fold:
    """Places in integers as wide as what they are places of, if those are enough for so many."""
    if not fold.program.place_of:
        return fold
    most = math.prod(spec.between(a)[1] for a in fold.over)
    size = fold.program.value.itemsize
    index = next((d for d in COUNTS if d.itemsize >= size and most <= np.iinfo(d).max), INDEX)
    acc = ACCUMULATORS[fold.program.name]
    return replace(fold, program=fold_program(acc, fold.arg.dtype, index))


def _wider(fold: Fold) -> Fold:
    """Places of bytes as those of int16, which gcc chooses in vectors, beside those of places."""
    if fold.arg.dtype.itemsize > 1:
        return fold
    wide = np.dtype(np.int16)
    program = fold_program(ACCUMULATORS[fold.program.name], wide, fold.program.index_dtype)
    return replace(fold, arg=convert(fold.arg, wide), program=program)


def _along(fold: Fold, shared: Shared) -> Fold:
    """The place of an extremum, which may be wanted for itself, too."""
    assert fold.program.neutral is not None
    least = fold_program(ACCUMULATORS["min"], fold.program.index_dtype)  # place
    program = replace(fold.program, state=least.state, neutral=fold.program.neutral[1:],
                      merge=least.merge, finish=least.finish, exact=True)
    top = _extremum(fold, shared)
    return Place(fold.axes, fold.dtype, program, fold.arg, fold.over, None, None, top)


def _extremum(fold: Fold, shared: Shared) -> Fold:
    """What a fold is the place of."""
    program = fold_program(ACCUMULATORS[fold.program.place_of], fold.arg.dtype)
    return shared(replace(fold, dtype=program.dtype, program=program))


def _first(fold: Fold, shared: Shared, lanes: bool = True) -> Fold:
    """The place of an extremum as the least of all where that is, once it is known.

    Both are folds as others are, of one state each.
    """
    limit = _limit(_extremum(fold, shared), fold.program)
    return _least(fold, _reaches(fold.arg, limit, fold.program), lanes=lanes)


def _first_true(fold: Fold, shared: Shared) -> Value:
    """The first place of a boolean that is true, or false; of none 0."""
    place = shared(_sought(
        fold, _not(fold.arg) if fold.program.place_of == "min" else fold.arg))
    none, zero = (Literal(frozenset(), fold.dtype, fold.dtype.type(k))
                  for k in (np.iinfo(place.program.dtype).max, 0))
    nowhere = Op(place.axes, BOOL, OPS["equal"], (place, none))
    return Op(place.axes, fold.dtype, SELECT, (nowhere, zero, place))


def _limit(top: Value, program: Program) -> Value:
    """What an extremum reaches that is `top`: it, or of floats what nothing else but NaN is beyond.

    So one comparison finds either; where one is NaN, so is `top`.
    """
    def of(op: ScalarOp, arg: Value) -> Value:
        return Op(arg.axes, arg.dtype, op, (arg,))

    if top.dtype.kind != "f":
        return top
    if program.place_of == "max":
        return of(BEFORE, top)
    return of(OPS["negative"], of(BEFORE, of(OPS["negative"], top)))


def falls_short(value: Value, limit: Value, program: Program) -> Value:
    """Whether a value is not the extremum whose place is folded."""
    either = value, limit
    pair = either if program.place_of == "max" or value.dtype.kind != "f" else either[::-1]
    op = OPS["less_equal" if value.dtype.kind == "f" else "not_equal"]
    return Op(value.axes | limit.axes, BOOL, op, pair)


def _reaches(value: Value, limit: Value, program: Program) -> Value:
    short = falls_short(value, limit, program)
    return Op(short.axes, BOOL, OPS["equal"], short.args) if value.dtype.kind != "f" else (
        _not(short))


def _not(value: Value) -> Value:
    return Op(value.axes, BOOL, OPS["logical_not"], (value,))


def _sought(fold: Fold, here: Value, top: Fold | None = None, limit: Value | None = None
            ) -> First:
    """The first place along a row where this holds, which is looked for until it is found."""
    least = _least(fold, here)
    return First(least.axes, least.dtype, least.program, least.arg, least.over, None, None, here,
                 top, limit)


def _least(fold: Fold, here: Value, lanes: bool = True) -> Fold:
    """The least of all places where this holds; of none the greatest number."""
    least, index = fold_program(ACCUMULATORS["min"], fold.program.index_dtype), _index(fold)
    axes, dtype = here.axes | index.axes, least.dtype
    one, most = (Literal(frozenset(), dtype, dtype.type(k)) for k in (1, np.iinfo(dtype).max))
    if not lanes:
        place = Op(axes, dtype, SELECT, (here, index, most))
    else:  # beyond all others by arithmetic: of a choice in lanes gcc makes branches
        number = convert(here, dtype)
        beyond: Value = Op(here.axes, dtype, OPS["subtract"], (number, one))  # 0 or -1
        beyond = Op(here.axes, dtype, OPS["bitwise_and"], (beyond, most))
        place = Op(axes, dtype, OPS["bitwise_or"], (beyond, index))
    return replace(fold, program=replace(least, place_of=fold.program.place_of), arg=place)


def _index(fold: Fold) -> Value:
    """The place of an element among those that are folded."""
    over, dtype = frozenset(fold.over), fold.program.index_dtype
    if len(over) > 1:
        return FoldIndex(over, dtype, fold.over)
    return convert(Position(over, INDEX, Affine(terms=((fold.over[0], 1),))), dtype)


def _same_twice(value: Value, loose: bool = True) -> bool:
    """Whether a value is cheap, and the same wherever it is computed, even in `loose` functions."""
    operations = [v for v in walk([value], is_fold) if isinstance(v, Op)]
    return cost(operations) < HEAVY and (len(operations) < 2 or not loose)
