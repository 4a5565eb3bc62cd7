"""Places of extrema as folds that go in vectors.

The place of a maximum along long rows goes with the maximum, a lane of either; along columns of
narrow tables it is the least of all places where that is, once it is known; and of booleans the
least where one is true.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from .accumulators import ACCUMULATORS
from .close import INDEX, fold_program
from .cost import calls
from .ops import OPS
from .values import (
    NARROW,
    PLACED,
    SELECT,
    Affine,
    Fold,
    Literal,
    Op,
    Place,
    Position,
    Specialized,
    Value,
    convert,
    walk,
)

BOOL = np.dtype(bool)
COUNTS = (np.dtype(np.int16), np.dtype(np.int32))  # what places are counted in, if they are few


def quicker(fold: Fold, axes: Sequence[str], rows: Sequence[str], spec: Specialized,
            shared: Callable[[Fold], Fold]) -> Value:
    """The same place; `axes` are in the order of memory, `rows` those that rows consist of."""
    if len(fold.over) == 1 and fold.arg.dtype == bool:
        return _first_true(fold, shared)
    if axes and not rows and len(fold.over) == 1 and _same_twice(fold.arg) and (
            spec.between(axes[-1])[0] <= NARROW[False]):
        return _first(fold, shared)
    if not rows or len(fold.over) == 1 and spec.between(rows[0])[1] <= PLACED:
        return fold  # rows go side by side
    if [a for a in axes if a in fold.over] != [*fold.over]:
        return fold  # of those that are as good the first place counts, wherever that lies
    return _along(_wider(fold) if len(fold.over) > 1 else fold, shared)


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


def _along(fold: Fold, shared: Callable[[Fold], Fold]) -> Fold:
    """The place of an extremum, which may be wanted for itself, too."""
    assert fold.program.neutral is not None
    extremum = fold_program(ACCUMULATORS[fold.program.place_of], fold.arg.dtype)
    least = fold_program(ACCUMULATORS["min"], fold.program.index_dtype)  # place
    program = replace(fold.program, state=least.state, neutral=fold.program.neutral[1:],
                      merge=least.merge, finish=least.finish, exact=True)
    top = shared(replace(fold, dtype=extremum.dtype, program=extremum))
    return Place(fold.axes, fold.dtype, program, fold.arg, fold.over, None, None, top)


def _first(fold: Fold, shared: Callable[[Fold], Fold]) -> Fold:
    """The place of an extremum as the least of all where that is, once it is known.

    Both are folds as others are, of one state each.  Where one is NaN, so is the extremum.
    """
    value = fold.arg
    extremum = fold_program(ACCUMULATORS[fold.program.place_of], value.dtype)
    top = shared(replace(fold, dtype=extremum.dtype, program=extremum))
    here: Value = Op(value.axes, BOOL, OPS["equal"], (value, top))
    if value.dtype.kind == "f":
        unknown = Op(value.axes, BOOL, OPS["not_equal"], (value, value))
        here = Op(value.axes, BOOL, OPS["logical_or"], (here, unknown))
    index = _index(fold)
    rest = Literal(frozenset(), index.dtype, index.dtype.type(np.iinfo(index.dtype).max))
    return _least(fold, Op(here.axes, index.dtype, SELECT, (here, index, rest)))


def _first_true(fold: Fold, shared: Callable[[Fold], Fold]) -> Value:
    """The first place of a boolean that is true, or false; of none 0."""
    beside = fold.arg if fold.program.place_of == "min" else Op(
        fold.arg.axes, BOOL, OPS["logical_not"], (fold.arg,))
    number = fold.program.index_dtype
    most = Literal(frozenset(), number, number.type(np.iinfo(number).max))
    beyond = Op(beside.axes, number, OPS["multiply"], (convert(beside, number), most))
    place = shared(_least(fold, Op(beside.axes, number, OPS["bitwise_or"], (
        beyond, _index(fold)))))  # of a choice between masks gcc makes branches
    none, zero = convert(most, fold.dtype), Literal(frozenset(), fold.dtype, fold.dtype.type(0))
    nowhere = Op(place.axes, BOOL, OPS["equal"], (place, none))
    return Op(place.axes, fold.dtype, SELECT, (nowhere, zero, place))


def _least(fold: Fold, places: Value) -> Fold:
    """The least of places that a fold is the place of an extremum of."""
    least = fold_program(ACCUMULATORS["min"], fold.program.index_dtype)
    return replace(fold, program=replace(least, place_of=fold.program.place_of), arg=places)


def _index(fold: Fold) -> Value:
    """The place of an element along the one axis of a fold."""
    [axis] = fold.over
    index = Position(frozenset(fold.over), INDEX, Affine(terms=((axis, 1),)))
    return convert(index, fold.program.index_dtype)


def _same_twice(value: Value) -> bool:
    """Whether a value is cheap, and the same wherever it is computed, contracted or not."""
    operations = [v for v in walk([value], lambda v: isinstance(v, Fold)) if isinstance(v, Op)]
    return len(operations) < 2 and not calls(operations)


