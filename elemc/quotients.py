"""Quotients of rows by what many of them share: products, and as exact as divisions.

Many processors divide a vector in the time of ten multiplications.  Where many `x` meet one `y`,
or many rows of `x` one row of `y`, `x * (1 / y)` and two corrections by what the multiplication
shows to be left of `x` give the same bits (`divide_by`), if nothing on the way is out of range.  So
rows are looked at, beside what is folded of them anyway, and those with a number out of range are
divided.  The condition is one for a row, for which C compilers make two loops.  Where nothing is
folded, looking takes a loop more, which is worth it for doubles that are cheap to compute again, in
rows that the first cache holds.  On processors that divide sooner, `constants.Constants.divides`,
the C divides and does not look.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .accumulators import ACCUMULATORS
from .close import fold_program
from .cost import DEAR, HEAVY, HELD, cost
from .ops import DIVIDE_BY, ODD, ODD_DIVISOR, OPS, SHORTCUT
from .ops_base import ScalarOp
from .refold import memory_order
from .values import (
    AGAIN,
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
        inverses[y] = operation("reciprocal", y.dtype, y)
    quick = operation(DIVIDE_BY, value.dtype, x, y, inverses[y])
    return operation(SHORTCUT, value.dtype, _fine(x, y, row), quick, value)


def folds(spec: Specialized) -> bool:
    """Whether anything is folded as it was written, not to look for what is odd."""
    return any(isinstance(v, Fold) and not (isinstance(v.arg, Op) and v.arg.op is ODD)
               for v in walk(roots_of(spec.stores)))


def divides(value: Value) -> bool:
    """Whether a value is a quotient of floating-point numbers that can be made of products."""
    return isinstance(value, Op) and value.op is OPS["divide"] and value.dtype.char in "fd"


def _divides_rows(value: Op, order: Sequence[str], spec: Specialized, maps: bool) -> bool:
    """Whether many numbers of a row, which is looked at, too, are divided by what others are."""
    if not divides(value) or not order:
        return False
    x, y = value.args
    row, (low, high) = order[-1], spec.between(order[-1])
    if row not in x.axes or not y.axes or not y.axes < x.axes:
        return False
    # what comes from memory is waited for, but not what is dear, which waits in a buffer: of floats
    # that, too, as twice as many are divided at a time
    own, size = cost(walk([x], lambda v: isinstance(v, Fold))), x.dtype.itemsize
    waits = spec.large and (size == 4 or own < HEAVY)
    if maps:
        columns = row in y.axes  # of which `once` computes the inverses
        again = math.prod(spec.between(a)[0] for a in x.axes - y.axes) >= AGAIN
        cheap = again and own == 0 if columns else own < DEAR
        looked_at = size == 8 and cheap and high <= _most(y, row) and _goes_along(x, order, spec)
    else:
        looked_at = row not in y.axes and any(
            isinstance(v, Fold) and row in v.over for v in walk([y]))
    return looked_at and low >= LEAST[size] and not waits


def _most(y: Value, row: str) -> int:
    """Elements, at most, of rows of which the first cache holds all that is read twice."""
    return HELD if row in y.axes else BLOCK


def marks(value: Value, row: str, maps: bool) -> list[int]:
    """The lengths of rows that decide whether this is a quotient that products are made of."""
    if not divides(value):
        return []
    size, y = value.dtype.itemsize, value.args[1]
    if not maps:
        return [LEAST[size] - 1]
    return [LEAST[8] - 1, _most(y, row)] if size == 8 and y.axes and y.axes < value.axes else []


def _goes_along(x: Value, order: Sequence[str], spec: Specialized) -> bool:
    """Whether a value is computed in all loops, and read along lines, so that twice is cheap."""
    return x.axes.issuperset(order) and all(
        memory_order(v.access, spec.operands[v.operand])[-1] == order[-1]
        for v in walk([x]) if isinstance(v, Load) and order[-1] in v.axes)


def _fine(x: Value, y: Value, row: str) -> Value:
    """Whether `divide_by` divides a whole row: nothing in it is odd."""
    divisor = operation(ODD_DIVISOR, y.dtype, y)
    none = Literal(frozenset(), x.dtype, x.dtype.type(0))
    columns = row in y.axes
    odd = operation(ODD, x.dtype, x, divisor if columns else none)
    program = fold_program(ACCUMULATORS["sum"], x.dtype)
    found: Value = Fold(odd.axes.difference((row,)), x.dtype, program, odd, (row,), None, None)
    if not columns:
        found = operation("add", x.dtype, found, divisor)
    return operation("equal", BOOL, found, none)


def operation(op: ScalarOp | str, dtype: np.dtype, *args: Value) -> Op:
    """An operation on values."""
    axes = frozenset[str]().union(*(a.axes for a in args))
    return Op(axes, dtype, OPS[op] if isinstance(op, str) else op, args)
