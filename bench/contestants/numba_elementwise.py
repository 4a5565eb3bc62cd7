"""The loops that a user of numba would write for elementwise work.

`parts` is the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
from numba import prange

from ..gradients import CUBE, WIDTH

Maker = Callable[[Any, int], Any]


def _madd(T: Any, parts: int) -> Any:
    def loop(x, y, out):  # type: ignore[no-untyped-def]
        for i in prange(x.size):
            out[i] = x[i] * y[i] + T(1)

    return loop


def _axpy(T: Any, parts: int) -> Any:
    def loop(x, y, out):  # type: ignore[no-untyped-def]
        for i in prange(x.size):
            out[i] = T(2) * x[i] + y[i]

    return loop


def _poly(T: Any, parts: int) -> Any:
    def loop(x, y, out):  # type: ignore[no-untyped-def]
        for i in prange(x.size):
            a, b = x[i], y[i]
            out[i] = a * b + (a - b) / (a * a + b * b + T(1))

    return loop


def _transcendental(T: Any, parts: int) -> Any:
    def loop(x, y, out):  # type: ignore[no-untyped-def]
        for i in prange(x.size):
            out[i] = math.exp(-x[i] * x[i] / T(2)) * math.sin(y[i]) + math.log1p(abs(x[i]))

    return loop


def _gelu(T: Any, parts: int) -> Any:
    def loop(x, out):  # type: ignore[no-untyped-def]
        for i in prange(x.size):
            u = T(WIDTH) * (x[i] + T(CUBE) * x[i] * x[i] * x[i])
            out[i] = T(0.5) * x[i] * (T(1) + math.tanh(u))

    return loop


def _standardize(T: Any, parts: int) -> Any:
    def loop(x, mu, sd, g, b, out):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = (x[i, j] - mu[j]) / sd[j] * g[j] + b[j]

    return loop


def _row_broadcast(T: Any, parts: int) -> Any:
    def loop(x, g, b, out):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = x[i, j] * g[j] + b[j]

    return loop


def _lead_broadcast(T: Any, parts: int) -> Any:
    def loop(x, s, t, out):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = x[i, j] * s[i] + t[i]

    return loop


def _black_scholes(T: Any, parts: int) -> Any:
    @numba.njit
    def phi(x):  # type: ignore[no-untyped-def]
        k = T(1) / (T(1) + T(0.2316419) * abs(x))
        poly = k * (T(0.319381530) + k * (T(-0.356563782) + k * (T(1.781477937)
                    + k * (T(-1.821255978) + k * T(1.330274429)))))
        tail = T(0.3989422804014327) * math.exp(T(-0.5) * x * x) * poly
        return T(1) - tail if x > 0 else tail

    def loop(s, k, t, call, put):  # type: ignore[no-untyped-def]
        for i in prange(s.size):
            spread = T(0.2) * math.sqrt(t[i])
            d1 = (math.log(s[i] / k[i]) + T(0.05) * t[i]) / spread
            discounted = k[i] * math.exp(T(-0.03) * t[i])
            call[i] = s[i] * phi(d1) - discounted * phi(d1 - spread)
            put[i] = call[i] - s[i] + discounted

    return loop


def _transposed(T: Any, parts: int) -> Any:
    def loop(a, b, out):  # type: ignore[no-untyped-def]
        for i in prange(a.shape[0]):
            for j in range(a.shape[1]):
                out[i, j] = a[i, j] + b[j, i]

    return loop


ELEMENTWISE: dict[str, Maker] = {
    "madd": _madd, "axpy": _axpy, "poly": _poly, "transcendental": _transcendental, "gelu": _gelu,
    "standardize": _standardize, "row_broadcast": _row_broadcast,
    "lead_broadcast": _lead_broadcast, "black_scholes": _black_scholes, "transposed": _transposed,
}
