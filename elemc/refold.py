"""Folds that are quicker as other folds: of axes apart in memory, and of places.

What is folded over axes between which kept ones lie is folded along rows first.  The place of a
maximum along rows is the least index at which the maximum stands, which are two folds in vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import takewhile
from typing import Any

import numpy as np

from .accumulators import ACCUMULATORS
from .close import INDEX, fold_program
from .layout import Operand
from .ops import OPS
from .values import (
    LONGEST,
    SELECT,
    SHORT,
    Access,
    Affine,
    Convert,
    Extent,
    Fold,
    Literal,
    Load,
    Op,
    Position,
    Scan,
    Specialized,
    Value,
    rewrite,
    walk,
)

BOOL = np.dtype(bool)
# Beyond all indices.  Of the largest integer, from which minima start, gcc would make a branch.
NOWHERE = 1 << 62


def refold(spec: Specialized, strict: bool) -> Specialized:
    """The same with quicker folds.

    If `strict`, an operation gives the same bits wherever it is compiled; if not, what is computed
    may not be found again where it is greatest.
    """
    folds: dict[tuple[Any, ...], Fold] = {}

    def split(fold: Fold, axes: Sequence[str], rows: Sequence[str]) -> Fold:
        key = (fold.program, fold.arg, fold.over)
        if key not in folds:  # a maximum may be wanted for itself, too
            folds[key] = _split(fold, axes, rows)
        return folds[key]

    def change(value: Value) -> Value:
        if not isinstance(value, Fold) or isinstance(value, Scan) or (
                value.initial is not None or value.where is not None):
            return value
        value = _counted(value)
        axes = order_in_memory(loads_of(value, spec), spec.operands)
        rows = list(takewhile(value.over.__contains__, reversed(axes)))
        if rows and value.program.nests:
            return split(value, axes, rows)
        found = rows and value.program.place_of and (strict or isinstance(value.arg, Load))
        if not found or value.arg.dtype.kind == "c" or spec.between(rows[0])[1] <= SHORT:
            return value  # so few the compiler unrolls
        extremum = fold_program(ACCUMULATORS[value.program.place_of], value.arg.dtype)
        top = replace(value, dtype=extremum.dtype, program=extremum)
        return _place(value, split(top, axes, rows), spec)

    return replace(spec, stores=rewrite(spec.stores, change, lambda access: access))


def _counted(fold: Fold) -> Fold:
    """Sums of small integers as float64, such as those of means, by integers: none is rounded."""
    of = fold.arg.arg if isinstance(fold.arg, Convert) else fold.arg
    sums = fold.program is fold_program(ACCUMULATORS["sum"], fold.arg.dtype)
    if not sums or fold.dtype != np.float64 or of.dtype.kind not in "biu" or of.dtype.itemsize > 2:
        return fold
    program = fold_program(ACCUMULATORS["sum"], INDEX)
    return replace(fold, arg=Convert(of.axes, INDEX, of), program=program)


def _split(fold: Fold, axes: Sequence[str], rows: Sequence[str]) -> Fold:
    """Along rows, then along what is left, if axes that are kept lie in between.

    So memory is read in its order, and little is left to be folded with strides.
    """
    rest = tuple(a for a in fold.over if a not in rows)
    if not any(a in rest for a in axes[:len(axes) - len(rows)]):
        return fold
    over = tuple(a for a in fold.over if a in rows)
    return replace(fold, arg=replace(
        fold, axes=fold.arg.axes.difference(over), over=over, dtype=fold.program.dtype), over=rest)


def _place(fold: Fold, top: Fold, spec: Specialized) -> Fold:
    """The least index of what equals the extremum `top`; NaN is one if there is one."""
    arg, nothing = fold.arg, frozenset[str]()
    found = Op(arg.axes, BOOL, OPS["equal"], (arg, top))
    if arg.dtype.kind == "f":
        unordered = Op(arg.axes, BOOL, OPS["isnan"], (arg,))
        found = Op(arg.axes, BOOL, OPS["bitwise_or"], (found, unordered))
    place: Value | None = None
    for axis in fold.over:
        index: Value = Position(frozenset({axis}), INDEX, Affine(terms=((axis, 1),)))
        if place is not None:
            place = reduce(lambda a, e: Op(a.axes, INDEX, OPS["multiply"], (
                a, Extent(nothing, INDEX, e))), spec.axes[axis], place)
            index = Op(place.axes | index.axes, INDEX, OPS["add"], (place, index))
        place = index
    assert place is not None
    last = Literal(nothing, INDEX, np.int64(NOWHERE))
    least = fold_program(ACCUMULATORS["min"], INDEX)
    return replace(fold, program=least, arg=Op(
        arg.axes | place.axes, INDEX, SELECT, (found, place, last)))


def loads_of(fold: Fold, spec: Specialized) -> list[Load]:
    """What a fold reads: first of the most axes, then in short rows, but not too short for vectors.

    So where operands are folded along different rows, the lines of one that lies across are still
    in the caches in the next row.
    """
    loads = [v for v in walk(fold.args) if isinstance(v, Load)]
    most = max((len(v.axes) for v in loads), default=0)
    inner = {v: memory_order(v.access, spec.operands[v.operand])[-1:] for v in loads}
    folded = all(a in fold.over for v in loads if len(v.axes) == most for a in inner[v])

    def length(load: Load) -> int:
        known = max((spec.between(a)[1] for a in inner[load]), default=0)
        return known if folded and known > SHORT else LONGEST

    return sorted(loads, key=lambda v: (-len(v.axes), length(v), v.operand))


def order_in_memory(loads: Iterable[Load], operands: Sequence[Operand]) -> list[str]:
    """The axes of `loads`, from the largest stride to the smallest; the first ones decide."""
    found: dict[str, None] = {}
    for load in loads:
        found.update(dict.fromkeys(memory_order(load.access, operands[load.operand])))
    return list(found)


def memory_order(access: Access, operand: Operand) -> tuple[str, ...]:
    """The axes of an access, from the largest stride to the smallest."""
    dims = [*operand.layout.perm, *(d for d in range(operand.ndim) if d not in operand.layout.perm)]
    found: dict[str, None] = {}
    for dim in dims:
        found.update(dict.fromkeys(axis for axis, _ in access[dim].terms))
    return tuple(found)
