"""Quotients of rows by what is one number for a row: products, and as exact as divisions.

Many processors divide a vector in the time of ten multiplications.  Where many `x` meet one `y`,
`x * (1 / y)` and two corrections by what the multiplication shows to be left of `x` give the same
bits (`divide_by`), if nothing on the way is out of range.  So rows are looked at, beside what is
folded of them anyway, and those with a number out of range are divided.  The condition is one for
a row, for which C compilers make two loops.  Where nothing is folded, looking takes a loop more,
which is worth it for doubles that are cheap to compute again, in rows that the first cache holds.
On processors that divide sooner, `constants.Constants.divides`, the C divides and does not look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

import numpy as np

from .accumulators import ACCUMULATORS
from .close import fold_program
from .cost import DEAR, HEAVY, cost
from .ops import DIVIDE_BY, ODD, OPS, SHORTCUT
from .refold import memory_order
from .values import (
    BLOCK,
    LINED,
    Fold,
    Literal,
    Load,
    Op,
    Specialized,
    Value,
    over_new,
    roots_of,
    walk,
)

BOOL = np.dtype(bool)
# |y| is within 2**-DIVISOR and 2**DIVISOR: no x / y leaves the range then, unless x is odd.
DIVISOR = {4: 24, 8: 60}
# Elements of a row from which on that is faster: vectors of floats are divided in half the time.
LEAST = {4: 4 * LINED, 8: LINED}


def by_inverses(spec: Specialized) -> Specialized:
    """The same, with divisions of whole rows by one number as products where that is exact."""
    ways: dict[tuple[str, ...], dict[Value, Value]] = {}
    inverses: dict[Value, Value] = {}
    stores, maps = [], not folds(spec)
    for store in spec.stores:
        if store.mask is not None:
            stores.append(store)
            continue
        order = memory_order(store.access, spec.operands[store.operand])
        new = ways.setdefault(order, {})
        for value in walk([store.value], lambda v: isinstance(v, Fold)):
            if value not in new:
                same = isinstance(value, Fold) or all(new[a] is a for a in value.args)
                new[value] = value if same else over_new(value, new)
                if isinstance(value, Op) and _divides_rows(value, order, spec, maps):
                    new[value] = _shortcut(new[value], order[-1], inverses)
        stores.append(replace(store, value=new[store.value]))
    return replace(spec, stores=tuple(stores))


def _shortcut(value: Value, row: str, inverses: dict[Value, Value]) -> Value:
    """A quotient as a product where that is exact in the whole row."""
    x, y = value.args
    if y not in inverses:
        inverses[y] = _op("reciprocal", y.dtype, y)
    quick = Op(value.axes, value.dtype, DIVIDE_BY, (x, y, inverses[y]))
    return Op(value.axes, value.dtype, SHORTCUT, (_fine(x, y, row), quick, value))


def folds(spec: Specialized) -> bool:
    """Whether anything is folded as it was written, not to look for what is odd."""
    return any(isinstance(v, Fold) and not (isinstance(v.arg, Op) and v.arg.op is ODD)
               for v in walk(roots_of(spec.stores)))


def divides(value: Value) -> bool:
    """Whether a value is a quotient of floating-point numbers that can be made of products."""
    return isinstance(value, Op) and value.op is OPS["divide"] and value.dtype.char in "fd"


def _divides_rows(value: Op, order: Sequence[str], spec: Specialized, maps: bool) -> bool:
    """Whether many numbers of a row, which is looked at, too, are divided by one."""
    if not divides(value) or not order:
        return False
    x, y = value.args
    rows = order[-1] in x.axes and y.axes and y.axes < x.axes and order[-1] not in y.axes
    low, high = spec.between(order[-1])
    # what comes from memory is waited for, but not what is dear, which waits in a buffer: of floats
    # that, too, as twice as many are divided at a time
    own, size = cost(walk([x], lambda v: isinstance(v, Fold))), x.dtype.itemsize
    waits = spec.large and (size == 4 or own < HEAVY)
    if maps:
        looked_at = size == 8 and own < DEAR and high <= BLOCK and _goes_along(x, order, spec)
    else:
        looked_at = any(isinstance(v, Fold) and order[-1] in v.over for v in walk([y]))
    return bool(rows) and looked_at and low >= LEAST[size] and not waits


def _goes_along(x: Value, order: Sequence[str], spec: Specialized) -> bool:
    """Whether a value is computed in all loops, and read along lines, so that twice is cheap."""
    return x.axes.issuperset(order) and all(
        memory_order(v.access, spec.operands[v.operand])[-1] == order[-1]
        for v in walk([x]) if isinstance(v, Load) and order[-1] in v.axes)


def _fine(x: Value, y: Value, row: str) -> Value:
    """Whether `divide_by` divides a whole row."""
    dtype, size = x.dtype, _op("absolute", x.dtype, y)
    odd = Fold(x.axes.difference((row,)), dtype, fold_program(ACCUMULATORS["sum"], dtype),
               Op(x.axes, dtype, ODD, (x,)), (row,), None, None)
    bits = DIVISOR[dtype.itemsize]
    least, most = _literal(dtype, 2.0**-bits), _literal(dtype, 2.0**bits)
    return reduce(partial(_op, "logical_and", BOOL), (
        _op("greater_equal", BOOL, size, least), _op("less_equal", BOOL, size, most),
        _op("equal", BOOL, odd, _literal(dtype, 0))))


def _literal(dtype: np.dtype, value: float) -> Literal:
    return Literal(frozenset(), dtype, dtype.type(value))


def _op(name: str, dtype: np.dtype, *args: Value) -> Op:
    return Op(frozenset[str]().union(*(a.axes for a in args)), dtype, OPS[name], args)
