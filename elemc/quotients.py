"""Quotients of rows by what many of them share: products, and as exact as divisions.

Many processors divide a vector of doubles in the time of ten multiplications.  Where many `x` meet
one `y`, or many rows of `x` one row of `y`, `x * (1 / y)` and two corrections by what the
multiplication shows to be left of `x` give the same bits (`divide_by`), if nothing on the way is
out of range.  So a function of the library takes a block of them (`calling`), looks at it, and
multiplies or divides.  On processors that divide sooner, `constants.Constants.divides`, it divides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .accesses import may_repeat, memory_order
from .cost import HEAVY, cost
from .mathlib import WHOLE
from .ops import OPS, OVER
from .ops_base import ScalarOp
from .values import (
    AGAIN,
    LINED,
    Literal,
    Load,
    Op,
    Specialized,
    Store,
    Value,
    is_fold,
    over_new,
    roots_of,
    walk,
)

MANY = 256  # short rows, at least, whose quotients are worth blocks


def by_inverses(spec: Specialized) -> Specialized:
    """The same, with divisions of whole rows by one number, or one row, as `OVER`.

    What is folded, too, or stored otherwise, stays one value.
    """
    chosen: dict[Value, bool] = {}
    for store in spec.stores:
        order = memory_order(store, spec)
        plain = store.mask is None and store.mode == "write"
        values = walk([store.value], is_fold)
        along: list[Load | Store] = [store, *(v for v in values if isinstance(v, Load)
                                              and not v.axes.isdisjoint(order[-2:-1]))]
        for value in values:
            if isinstance(value, Op) and divides(value):
                goes = plain and _divides_rows(value, order, along, spec)
                chosen[value] = goes and chosen.get(value, True)
    folded = walk(a for v in walk(roots_of(spec.stores)) if is_fold(v) for a in v.args)
    chosen |= dict.fromkeys(folded, False)
    if not any(chosen.values()):
        return spec
    new: dict[Value, Value] = {}
    inverses: dict[Value, Value] = {}
    for value in walk((s.value for s in spec.stores), is_fold):
        same = is_fold(value) or all(new[a] is a for a in value.args)
        made = new[value] = value if same else over_new(value, new)
        if chosen.get(value) and isinstance(made, Op):
            x, y = made.args
            if y not in inverses:
                inverses[y] = operation("reciprocal", y.dtype, y)
            new[value] = operation(OVER, value.dtype, x, y, inverses[y])
    return replace(spec, stores=tuple(replace(s, value=new[s.value]) for s in spec.stores))


def folds(spec: Specialized) -> bool:
    """Whether anything is folded."""
    return any(map(is_fold, walk(roots_of(spec.stores))))


def divides(value: Value) -> bool:
    """Whether a value is a quotient of floating-point numbers."""
    return isinstance(value, Op) and value.op in (OPS["divide"], OVER) and value.dtype.char in "fd"


def divides_whole(value: Value) -> bool:
    """Whether 64-bit integers are divided, which a function of the library does as doubles.

    If a block of them is near enough to 0: that takes a tenth of the time.
    """
    return isinstance(value, Op) and value.op.name in WHOLE and all(
        a.dtype == np.int64 for a in value.args)


def _divides_rows(value: Op, order: Sequence[str], along: Sequence[Load | Store],
                  spec: Specialized) -> bool:
    """Whether many doubles of a row are divided by one, or many rows by the same row.

    Many short rows, `along` which a store and its loads go, may be one (`repeating`).  Vectors of
    floats are divided in half the time, so that nothing is left to gain.
    """
    x, y = value.args
    if value.dtype.itemsize < 8 or not order:
        return False
    if order[-1] not in x.axes or not y.axes < x.axes:
        return False
    if spec.between(order[-1])[0] < LINED and not (
            y.axes.isdisjoint(order[-2:]) and may_repeat(order, along, MANY, spec)):
        return False
    # what comes from memory is waited for, but not what is dear, which waits in a buffer
    if spec.large and cost(walk([x], is_fold)) < HEAVY:
        return False
    if order[-1] not in y.axes:  # by powers of two compilers multiply
        return not isinstance(y, Literal) or abs(math.frexp(float(y.value))[0]) != 0.5
    rows = math.prod(spec.between(a)[0] for a in x.axes - y.axes)  # `once` computes the inverses
    waits = not any(isinstance(v, Load) for v in walk([y], is_fold))  # in a buffer, as folds do
    return rows >= AGAIN and (waits or isinstance(y, Load))


def operation(op: ScalarOp | str, dtype: np.dtype, *args: Value) -> Op:
    """An operation on values."""
    axes = frozenset[str]().union(*(a.axes for a in args))
    return Op(axes, dtype, OPS[op] if isinstance(op, str) else op, args)
