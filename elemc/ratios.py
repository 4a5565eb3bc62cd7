"""Quotients of integers by constants: products, and as exact as divisions.

What integers are as floating-point numbers is in the range of what `divide_by` divides (see
quotients.py); and if they have few bits, no quotient is so close to the middle of two numbers that
`ratio`, of two products, could miss the nearer one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from .ops import DIVIDE_BY, RATIO, inverse_of
from .quotients import divides, operation
from .values import Convert, Literal, Op, Specialized, Value, rewrite, roots_of, walk

# By bytes of the floating-point numbers: bits that a divisor and its inverse may have, ...
DIVISOR_BITS = {4: 24, 8: 60}
# ... integers that `divide_by` divides, ...
INTEGER_BITS = {4: 100, 8: 960}
# ... and those of which `ratio` is right.  With p bits of precision, what it computes of x / y is
# off by less than 2**(2 - 2*p) of it before it is rounded, and a middle of two numbers, which has
# p + 1 bits, by 2**(-1 - p - b) at least, where x has b.
FEW_BITS = {4: 20, 8: 48}
BITS: dict[str, Callable[..., float]] = {  # of results whose arguments have so many
    "add": lambda a, b: max(a, b) + 1, "subtract": lambda a, b: max(a, b) + 1,
    "multiply": lambda a, b: a + b, "negative": lambda a: a, "absolute": lambda a: a}


def by_constants(spec: Specialized) -> Specialized:
    """The same, with divisions of integers by constants as products."""
    if not any(map(_constant, walk(roots_of(spec.stores)))):
        return spec
    bits: dict[Value, float] = {}  # of integers, at most

    def change(value: Value) -> Value:
        if (found := _bits(value, bits)) is not None:
            bits[value] = found
        return _product(value, bits) if _constant(value) else value

    return replace(spec, stores=rewrite(spec.stores, change, lambda access: access))


def _constant(value: Value) -> bool:
    """Whether this is a quotient by a constant with which products stay in range."""
    y = value.args[1] if divides(value) else None
    if not isinstance(y, Literal):
        return False
    fraction, exponent = math.frexp(abs(float(y.value)))
    # 0, infinity and NaN have none in between; by powers of two compilers multiply
    return 0.5 < fraction < 1 and abs(exponent) < DIVISOR_BITS[y.dtype.itemsize]


def _bits(value: Value, bits: Mapping[Value, float]) -> float | None:
    """How many bits an integer among floating-point numbers has, at most; None of others."""
    if isinstance(value, Convert) and value.arg.dtype.kind in "biu":
        return 8 * value.arg.dtype.itemsize
    if isinstance(value, Literal) and value.dtype.kind == "f" and float(value.value).is_integer():
        return int(value.value).bit_length()
    if isinstance(value, Op) and value.op.name in BITS and all(a in bits for a in value.args):
        return BITS[value.op.name](*(bits[a] for a in value.args))
    return None


def _product(value: Value, bits: Mapping[Value, float]) -> Value:
    """A quotient by a constant as a product, if it is one of integers."""
    x, y = value.args
    size, many = y.dtype.itemsize, bits.get(x, math.inf)
    if many > INTEGER_BITS[size]:
        return value
    if many > FEW_BITS[size]:
        return operation(DIVIDE_BY, y.dtype, x, y, operation("reciprocal", y.dtype, y))
    assert isinstance(y, Literal)
    high, low = (Literal(y.axes, y.dtype, part) for part in inverse_of(y.value))
    return operation(RATIO, y.dtype, x, y, high, low)
