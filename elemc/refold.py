"""Folds that are quicker as other folds: of axes apart in memory, of masks, and of places.

What is folded over axes between which kept ones lie is folded along rows first, and extrema along
rows of a few elements, for vectors go along the axes around.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import numpy as np

from . import places
from .accesses import memory_order, order_in_memory
from .accumulators import ACCUMULATORS
from .close import INDEX, fold_program
from .ops import OPS
from .values import (
    BLOCK,
    FEW,
    LONGEST,
    SELECT,
    SHORT,
    Convert,
    Fold,
    Literal,
    Load,
    Op,
    Scan,
    Specialized,
    Value,
    is_fold,
    rewrite,
    walk,
)


def refold(spec: Specialized) -> Specialized:
    """The same with quicker folds."""
    folds: dict[tuple[Any, ...], Fold] = {}

    def shared(fold: Fold) -> Fold:
        return folds.setdefault((fold.program, fold.arg, fold.over, fold.where), fold)

    def change(value: Value) -> Value:
        if not isinstance(value, Fold) or isinstance(value, Scan):
            return value
        value = _of_booleans(value)
        axes = order_in_memory(loads_of(value, spec), spec)
        rows = list(takewhile(value.over.__contains__, reversed(axes)))
        narrow = bool(axes) and not rows and spec.between(axes[-1])[1] <= 2 * SHORT
        value = _chosen(value, narrow)
        if value.where is not None or value.initial is not None:
            return value
        value = places.counted(_counted(value), spec)
        apart = _apart(value, axes, rows)
        if value.program.place_of and value.arg.dtype.kind != "c":
            return places.quicker(value, axes, [] if apart else rows, spec, shared)
        if not rows or not value.program.nests:
            return _masked(value)
        if across := _few_across(value, rows[0], spec):
            return shared(_split(value, across))
        low, high = spec.between(rows[0])
        few = value.program.exact and low == high <= FEW and len(value.over) > 1
        apart &= not (value.program.exact and low > SHORT and _few_rows(value, rows, spec))
        return shared(_split(value, rows[:1] if few else rows) if apart or few else _masked(value))

    return replace(spec, stores=rewrite(spec.stores, change, lambda access: access))


def _of_booleans(fold: Fold) -> Fold:
    """Extrema of booleans as `any` and `all`, which are decided early."""
    for extremum, other in (("max", "any"), ("min", "all")):
        if fold.arg.dtype == bool and fold.program is fold_program(
                ACCUMULATORS[extremum], fold.arg.dtype):
            return replace(fold, program=fold_program(ACCUMULATORS[other], fold.arg.dtype))
    return fold


def _chosen(fold: Fold, narrow: bool) -> Fold:
    """Folds of some numbers as folds of all, the others neutral: no element waits for a choice.

    Of small integers only extrema of `narrow` tables, in which gcc 12 fails at such choices.
    """
    program, some = fold.program, fold.arg
    small = program.exact and some.dtype.kind in "iu" and some.dtype.itemsize <= 2
    if fold.where is None or not program.nests or not (
            some.dtype.kind == "f" or narrow and small):
        return fold
    assert program.neutral is not None
    axes = some.axes | fold.where.axes
    rest = Literal(frozenset(), some.dtype, program.neutral[0])
    return replace(fold, where=None, arg=Op(axes, some.dtype, SELECT, (fold.where, some, rest)))


def _counted(fold: Fold) -> Fold:
    """Sums of small integers as float64, such as those of means, by integers: none is rounded."""
    of = fold.arg.arg if isinstance(fold.arg, Convert) else fold.arg
    sums = fold.program is fold_program(ACCUMULATORS["sum"], fold.arg.dtype)
    if not sums or fold.dtype != np.float64 or of.dtype.kind not in "biu" or of.dtype.itemsize > 2:
        return fold
    program = fold_program(ACCUMULATORS["sum"], INDEX)
    return replace(fold, arg=Convert(of.axes, INDEX, of), program=program)


def _masked(fold: Fold) -> Fold:
    """Sums of integers or 0 as sums of some integers: of `s + (c ? x : 0)` gcc makes no vectors."""
    whole = fold.arg.arg if isinstance(fold.arg, Convert) else fold.arg
    sums = fold.program is fold_program(ACCUMULATORS["sum"], fold.arg.dtype)
    if not sums or whole.dtype.kind not in "iu" or not isinstance(whole, Op) or (
            whole.op is not SELECT):
        return fold
    mask, some, rest = whole.args
    if isinstance(some, Literal):
        mask = Op(mask.axes, mask.dtype, OPS["logical_not"], (mask,))
        some, rest = rest, some
    if some.axes != whole.axes or not isinstance(rest, Literal) or rest.value != 0:
        return fold
    arg = Convert(some.axes, fold.arg.dtype, some) if isinstance(fold.arg, Convert) else some
    return replace(fold, where=mask, arg=arg)


def _apart(fold: Fold, axes: Sequence[str], rows: Sequence[str]) -> bool:
    """Whether axes that are kept lie between those of `rows` and others that are folded."""
    rest = set(fold.over).difference(rows)
    return any(a in rest for a in axes[:len(axes) - len(rows)])


def _few_across(fold: Fold, row: str, spec: Specialized) -> list[str]:
    """The axis of a few elements across rows that are not short, if lines lie along it alone.

    It is folded first, then, while vectors go along the rows: each of these would take the same
    lines from memory again.
    """
    orders = [memory_order(v, spec) for v in loads_of(fold, spec)]
    lines = {axes[-1] for axes in orders if row in axes and axes[-1] != row}
    few = [a for a in lines.intersection(fold.over)
           if spec.between(a)[0] == spec.between(a)[1] <= FEW]
    return few if len(lines) == 1 and spec.between(row)[0] >= SHORT else []


def _few_rows(fold: Fold, rows: Sequence[str], spec: Specialized) -> bool:
    """Whether `FEW` rows are folded together, which may lie anywhere and share their lanes."""
    every = [spec.between(a) for a in fold.over if a not in rows]
    return all(low == high for low, high in every) and math.prod(n for _, n in every) <= FEW


def _split(fold: Fold, rows: Sequence[str]) -> Fold:
    """Along rows, then along what is left.

    So memory is read in its order, and little is left to be folded with strides.
    """
    over = tuple(a for a in fold.over if a in rows)
    return replace(fold, over=tuple(a for a in fold.over if a not in rows), arg=replace(
        fold, axes=fold.arg.axes.difference(over), over=over, dtype=fold.program.dtype))


def loads_of(fold: Fold, spec: Specialized) -> list[Load]:
    """What a fold reads: first of the most axes, then in short rows, but not too short for vectors.

    So where operands are folded along different rows, the lines of one that lies across are still
    in the caches in the next row; first if all that is folded together lies together, for what is
    apart is folded along its rows only.  Of the rest, first what lies as most operands do, then,
    of narrow elements, what may not be turned itself, so that others are, and along what is folded,
    for rows of others are turned sooner than columns are gathered; short are rows of at most
    `BLOCK` elements, and of as many operands the shorter ones.
    """
    loads = [v for v in walk(fold.args) if isinstance(v, Load)]
    own = [v for v in walk(fold.args, is_fold) if isinstance(v, Load)]
    if any(v.axes == fold.arg.axes for v in own):  # nor what other folds read
        loads = own
    if len(loads) < 2:
        return loads
    most = max(len(v.axes) for v in loads)
    order = {v: memory_order(v, spec) for v in loads}
    inner = {v: axes[-1:] for v, axes in order.items()}
    folded = all(a in fold.over for v in loads if len(v.axes) == most for a in inner[v])

    def length(load: Load) -> int:
        known = max((spec.between(a)[1] for a in inner[load]), default=0)
        return known if folded and known > SHORT else LONGEST

    def apart(load: Load) -> bool:
        kept = [a for a in order[load] if a in fold.axes]
        return folded and order[load][:len(kept)] != (*kept,)

    narrow = all(v.dtype.itemsize <= 4 for v in loads)
    turns = {v: of.squares and of.layout.unit for v in loads for of in (spec.operands[v.operand],)}
    stored = (memory_order(s, spec) for s in spec.stores)
    alike = Counter(axes[-1:] for axes in (*order.values(), *stored) if len(axes) == most)
    return sorted(loads, key=lambda v: (
        -len(v.axes), apart(v), length(v) > BLOCK, -alike[inner[v]],
        narrow and turns[v], narrow and fold.axes.issuperset(inner[v]), length(v), v.operand))
