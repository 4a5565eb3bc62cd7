"""Operations that are written out as others, so that the functions in them may go by blocks.

As helpers they would be one function of the C, which calls for vectors; the results are the same,
bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from .ops import OPS
from .values import Value

BOOL = np.dtype(bool)


class Maker(Protocol):
    """What makes values: `lower`."""

    def literal(self, value: np.generic) -> Value:
        """A constant."""

    def op(self, name: str, dtype: np.dtype, *args: Value) -> Value:
        """An operation on values."""


def written_out(op: object, make: Maker, args: list[Value]) -> Value | None:
    """The value of an operation on floats or doubles, if it is written out."""
    if not args or args[0].dtype.char not in "fd":
        return None
    return next((write(make, *args) for name, write in _WRITTEN.items() if OPS[name] is op), None)


def _decay(make: Maker, x: Value) -> Value:
    """Give exp(-|x|)."""
    size = make.op("negative", x.dtype, make.op("absolute", x.dtype, x))
    return make.op("exp", x.dtype, size)


def _sigmoid(make: Maker, x: Value) -> Value:
    """1 / (1 + exp(-x)), by exp(-|x|)."""
    e, one = _decay(make, x), make.literal(x.dtype.type(1))
    below = make.op("less", BOOL, x, make.literal(x.dtype.type(0)))
    top = make.op("where", x.dtype, below, e, one)
    return make.op("divide", x.dtype, top, make.op("add", x.dtype, one, e))


def _softplus(make: Maker, x: Value) -> Value:
    """log(1 + exp(x)), by exp(-|x|)."""
    rest = make.op("log1p", x.dtype, _decay(make, x))
    above = make.op("greater", BOOL, x, make.literal(x.dtype.type(0)))
    nan = make.op("where", x.dtype, make.op("not_equal", BOOL, x, x), x, rest)
    return make.op("where", x.dtype, above, make.op("add", x.dtype, x, rest), nan)


def _logaddexp(make: Maker, a: Value, b: Value) -> Value:
    """log(exp(a) + exp(b)), by exp(-|a - b|)."""
    gap = make.op("subtract", a.dtype, a, b)
    larger = make.op("where", a.dtype, make.op("greater", BOOL, a, b), a, b)
    total = make.op("add", a.dtype, larger, make.op("log1p", a.dtype, _decay(make, gap)))
    twice = make.op("add", a.dtype, a, make.literal(a.dtype.type(np.log(2))))
    nan = make.op("add", a.dtype, a, b)  # of infinities of one sign, or NaN
    other = make.op("where", a.dtype, make.op("not_equal", BOOL, gap, gap), nan, total)
    return make.op("where", a.dtype, make.op("equal", BOOL, a, b), twice, other)


_WRITTEN: dict[str, Callable[..., Value]] = {
    "sigmoid": _sigmoid, "softplus": _softplus, "logaddexp": _logaddexp}
