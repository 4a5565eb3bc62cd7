"""Quotients of integers by constants: products, and as exact as divisions.

What integers are as floating-point numbers is in the range of what `divide_by` divides (see
quotients.py); and if the constant has few bits, as 255 and 1e6 have, no quotient is so close to the
middle of two numbers that `ratio`, of two products, could miss the nearer one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from .ops import DIVIDE_BY, RATIO, inverse_of
from .quotients import divides, operation
from .values import Convert, Literal, Op, Specialized, Value, rewrite, roots_of, walk

# By bytes of the floating-point numbers: exponents that a divisor and its inverse may have, and the
# integers that are divided.
DIVISORS, INTEGERS = {4: 24, 8: 60}, {4: 100, 8: 960}
# Bits, the zeros at their end apart, of constants for which `ratio` is right.  With p bits of
# precision, what it computes of x / y is off by less than 2**(2 - 2*p) of it before it is rounded.
# The middle m of two numbers has p + 1 bits, and is off by |x - m*y| / x: if y has c bits,
# 2**(-1 - p - c) at least.
FEW = {4: 20, 8: 49}
EXPONENTS: dict[str, Callable[..., float]] = {  # of results whose arguments have these
    "add": lambda a, b: max(a, b) + 1, "subtract": lambda a, b: max(a, b) + 1,
    "multiply": lambda a, b: a + b, "negative": lambda a: a, "absolute": lambda a: a}


def by_constants(spec: Specialized) -> Specialized:
    """The same, with divisions of integers by constants as products."""
    if not any(map(_constant, walk(roots_of(spec.stores)))):
        return spec
    exponents: dict[Value, float] = {}  # of integers, at most

    def change(value: Value) -> Value:
        if (found := _exponent(value, exponents)) is not None:
            exponents[value] = found
        return _product(value, exponents) if _constant(value) else value

    return replace(spec, stores=rewrite(spec.stores, change, lambda access: access))


def _constant(value: Value) -> bool:
    """Whether this is a quotient by a constant with which products stay in range."""
    y = value.args[1] if divides(value) else None
    if not isinstance(y, Literal):
        return False
    fraction, exponent = math.frexp(abs(float(y.value)))
    # 0, infinity and NaN have none in between; by powers of two compilers multiply
    return 0.5 < fraction < 1 and abs(exponent) < DIVISORS[y.dtype.itemsize]


def _exponent(value: Value, exponents: Mapping[Value, float]) -> float | None:
    """The e of a floating-point number that is an integer below 2**e; None of others."""
    if value.dtype.kind != "f":
        return None
    if isinstance(value, Convert) and value.arg.dtype.kind in "biu":
        return 8 * value.arg.dtype.itemsize
    if isinstance(value, Literal) and float(value.value).is_integer():
        return int(value.value).bit_length()
    if isinstance(value, Op) and value.op.name in EXPONENTS and exponents.keys() >= {*value.args}:
        return EXPONENTS[value.op.name](*(exponents[a] for a in value.args))
    return None


def _product(value: Value, exponents: Mapping[Value, float]) -> Value:
    """A quotient by a constant as a product, if it is one of integers."""
    x, y = value.args
    assert isinstance(y, Literal)
    size = y.dtype.itemsize
    if exponents.get(x, math.inf) > INTEGERS[size]:
        return value
    numerator = abs(float(y.value).as_integer_ratio()[0])
    if (numerator // (numerator & -numerator)).bit_length() > FEW[size]:
        return operation(DIVIDE_BY, y.dtype, x, y, operation("reciprocal", y.dtype, y))
    high, low = (Literal(y.axes, y.dtype, part) for part in inverse_of(y.value))
    return operation(RATIO, y.dtype, x, y, high, low)
