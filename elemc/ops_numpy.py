"""The special functions in NumPy and the standard library, for the interpreter.

They are slow and plain.  Compiled code uses the math library instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def _elementwise(fn: Callable[..., float]) -> Callable[..., np.ndarray]:
    """`fn`, a function of floats, on arrays of any floating dtype."""

    def on_array(*xs: Any) -> np.ndarray:
        arrays = np.broadcast_arrays(*xs)
        columns = [a.astype(np.float64).ravel().tolist() for a in arrays]
        values = [fn(*v) for v in zip(*columns, strict=True)]
        return np.array(values, np.float64).reshape(arrays[0].shape).astype(arrays[0].dtype)

    return on_array


def _gamma(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    try:
        return math.gamma(x)
    except OverflowError:
        return math.inf if x > 0 or math.floor(x) % 2 == 0 else -math.inf
    except ValueError:
        return math.nan


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (OverflowError, ValueError):
        return math.inf


def _digamma(x: float) -> float:
    """Reflection, recurrence to x >= 10, asymptotic series (Abramowitz and Stegun, 6.3)."""
    if x == 0:
        return math.copysign(math.inf, -x)
    if math.isinf(x) or math.isnan(x):
        return x if x != -math.inf else math.nan
    if x < 0:
        if x == math.floor(x):
            return math.nan
        part = x - round(x)  # exact
        return _digamma(1 - x) - math.pi / math.tan(math.pi * part)
    shift = 0.0
    while x < 10:
        shift, x = shift - 1 / x, x + 1
    y = 1 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (
        1 / 132 - y * (691 / 32760 - y / 12))))))
    return math.log(x) - 0.5 / x - series + shift


def _polygamma(n: float, x: float) -> float:
    """Hurwitz's zeta function times n!; the sum below 0 is that of x's fractional part, less the rest."""
    if not (0 <= n < 2.0**40 and n == math.floor(n)) or math.isnan(x) or x == -math.inf:
        return math.nan
    if n == 0:
        return _digamma(x)
    sign = -1.0 if n % 2 == 0 else 1.0
    if x > 0:
        return sign * _hurwitz(n, x)
    part = x - round(x)  # exact
    if part == 0:
        return math.inf if n % 2 else math.copysign(math.inf, -x) if x == 0 else math.nan
    if abs(part) == 0.5 and n % 2 == 0:
        return -_hurwitz(n, 1 - x)
    nearest = _over_power(n, abs(part)) * (1 if part > 0 else sign)
    if math.isinf(nearest):
        return sign * nearest
    others = _hurwitz(n, 1 - part) - _hurwitz(n, 1 - x)
    return sign * (nearest + _hurwitz(n, 1 + part) + sign * others)


def _over_power(n: float, x: float) -> float:
    """N! / x**(n + 1)."""
    try:
        return math.exp(math.lgamma(n + 1) - (n + 1) * math.log(x))
    except OverflowError:
        return math.inf


BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def _hurwitz(n: float, x: float) -> float:
    """N! zeta(n + 1, x), by the formula of Euler and Maclaurin (Abramowitz and Stegun, 23.1.30)."""
    total, first = 0.0, _over_power(n, x)
    while x < 10 + n:
        term = _over_power(n, x)
        total, x = total + term, x + 1
        if term <= first * 1e-18:
            return total
    series, factor = 0.5, (n + 1) / x / 2
    for j, number in enumerate(BERNOULLI):
        series += number * factor
        factor *= (n + 2 * j + 2) / x * ((n + 2 * j + 3) / x) / ((2 * j + 3) * (2 * j + 4))
    return total + _over_power(n - 1, x) * (1 + n / x * series)


def _erfinv(x: float) -> float:
    """Winitzki's start, then Newton's method on erf, or on log(erfc) near the ends."""
    if not -1 <= x <= 1:
        return math.nan
    if abs(x) == 1 or x == 0:
        return math.copysign(math.inf, x) if x else x
    a = 0.147
    w = math.log1p(-x * x)
    b = 2 / (math.pi * a) + w / 2
    y = math.sqrt(math.sqrt(b * b - w / a) - b)
    target = abs(x)
    for _ in range(4):
        error = math.erf(y) - target if y < 1 else (1 - target) - math.erfc(y)
        step = error / (2 / math.sqrt(math.pi) * math.exp(-y * y))
        y -= step / (1 + y * step)
    return math.copysign(y, x)


erf = _elementwise(math.erf)
erfc = _elementwise(math.erfc)
erfinv = _elementwise(_erfinv)
gamma = _elementwise(_gamma)
lgamma = _elementwise(_lgamma)
digamma = _elementwise(_digamma)
polygamma = _elementwise(_polygamma)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)) without overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def logit(x: Any) -> Any:
    """log(x / (1 - x)), accurate around 1/2."""
    twice = 2 * x - 1  # exact around 1/2, as is 1 - x above it
    near = np.log1p(np.abs(twice) / np.where(x < 0.5, x, 1 - x))
    return np.where(np.abs(twice) < 0.5, np.copysign(near, twice), np.log(x / (1 - x)))


def softplus(x: Any) -> Any:
    """log(1 + exp(x)) without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def relu(x: Any) -> Any:
    """max(x, 0)."""
    return np.maximum(x, np.asarray(x).dtype.type(0))


def gelu(x: Any) -> Any:
    """Give x times the normal distribution function of x."""
    wide = np.asarray(x).astype(np.float64)
    value = np.where(np.isneginf(wide), -0.0, wide * (erfc(-wide * math.sqrt(0.5)) / 2))
    return value.astype(np.asarray(x).dtype)


def silu(x: Any) -> Any:
    """Give x * sigmoid(x)."""
    return np.where(np.isneginf(x), np.asarray(x).dtype.type(-0.0), x * sigmoid(x))


def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x); the sine's argument is reduced exactly."""
    wide = np.asarray(x).astype(np.float64)
    rest = np.fmod(np.abs(wide), 2.0)
    rest = np.where(rest > 1, rest - 2, rest)
    rest = np.where(np.abs(rest) > 0.5, np.copysign(1, rest) - rest, rest)
    value = np.where(wide == 0, 1.0, np.sin(np.pi * rest) / (np.pi * np.where(wide == 0, 1, np.abs(wide))))
    return value.astype(np.asarray(x).dtype)


def xlogy(x: Any, y: Any) -> Any:
    """Give x * log(y), 0 where x is 0 and y is no NaN."""
    return np.where((x == 0) & ~np.isnan(y), np.asarray(x).dtype.type(0), x * np.log(y))


def xlog1py(x: Any, y: Any) -> Any:
    """Give x * log1p(y), 0 where x is 0 and y is no NaN."""
    return np.where((x == 0) & ~np.isnan(y), np.asarray(x).dtype.type(0), x * np.log1p(y))
