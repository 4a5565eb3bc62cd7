"""numba: the loops a user would write, constants in the operands' dtype.

Sums may be reassociated (and only that), for otherwise LLVM leaves them scalar.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from ..workloads import Workload
from .numba_gradients import GRADIENTS

VERSION = numba.__version__


def set_threads(count: int) -> None:
    """Do nothing: these loops are serial, as `@njit` alone makes them."""


def _axpy(T: Any) -> Any:
    def loop(x, y, out):  # type: ignore[no-untyped-def]
        for i in range(x.size):
            out[i] = T(2) * x[i] + y[i]

    return loop


def _poly(T: Any) -> Any:
    def loop(x, y, out):  # type: ignore[no-untyped-def]
        for i in range(x.size):
            a, b = x[i], y[i]
            out[i] = a * b + (a - b) / (a * a + b * b + T(1))

    return loop


def _transcendental(T: Any) -> Any:
    def loop(x, y, out):  # type: ignore[no-untyped-def]
        for i in range(x.size):
            out[i] = math.exp(-x[i] * x[i] / T(2)) * math.sin(y[i]) + math.log1p(abs(x[i]))

    return loop


def _row_broadcast(T: Any) -> Any:
    def loop(x, g, b, out):  # type: ignore[no-untyped-def]
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = x[i, j] * g[j] + b[j]

    return loop


def _lead_broadcast(T: Any) -> Any:
    def loop(x, s, t, out):  # type: ignore[no-untyped-def]
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = x[i, j] * s[i] + t[i]

    return loop


def _sum(T: Any) -> Any:
    def loop(x, y, out):  # type: ignore[no-untyped-def]
        total = T(0)
        for i in range(x.shape[0]):
            row = T(0)
            for j in range(x.shape[1]):
                row += x[i, j] * y[i, j]
            total += row
        out[()] = total

    return loop


def _row_sums(T: Any) -> Any:
    def loop(x, y, out):  # type: ignore[no-untyped-def]
        for i in range(x.shape[0]):
            row = T(0)
            for j in range(x.shape[1]):
                row += x[i, j] * y[i, j]
            out[i] = row

    return loop


def _column_sums(T: Any) -> Any:
    def loop(x, y, out):  # type: ignore[no-untyped-def]
        out[:] = T(0)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[j] += x[i, j] * y[i, j]

    return loop


def _softmax(T: Any) -> Any:
    def loop(x, out):  # type: ignore[no-untyped-def]
        for i in range(x.shape[0]):
            top = x[i, 0]
            for j in range(1, x.shape[1]):
                top = max(top, x[i, j])
            total = T(0)
            for j in range(x.shape[1]):
                out[i, j] = math.exp(x[i, j] - top)
                total += out[i, j]
            for j in range(x.shape[1]):
                out[i, j] /= total

    return loop


def _layer_norm(T: Any) -> Any:
    def loop(x, g, b, out):  # type: ignore[no-untyped-def]
        n = T(x.shape[1])
        for i in range(x.shape[0]):
            total = T(0)
            for j in range(x.shape[1]):
                total += x[i, j]
            mean = total / n
            squares = T(0)
            for j in range(x.shape[1]):
                squares += (x[i, j] - mean) * (x[i, j] - mean)
            width = math.sqrt(squares / n + T(1e-5))
            for j in range(x.shape[1]):
                out[i, j] = (x[i, j] - mean) / width * g[j] + b[j]

    return loop


def _black_scholes(T: Any) -> Any:
    @numba.njit
    def phi(x):  # type: ignore[no-untyped-def]
        k = T(1) / (T(1) + T(0.2316419) * abs(x))
        poly = k * (T(0.319381530) + k * (T(-0.356563782) + k * (T(1.781477937)
                    + k * (T(-1.821255978) + k * T(1.330274429)))))
        tail = T(0.3989422804014327) * math.exp(T(-0.5) * x * x) * poly
        return T(1) - tail if x > 0 else tail

    def loop(s, k, t, call, put):  # type: ignore[no-untyped-def]
        for i in range(s.size):
            spread = T(0.2) * math.sqrt(t[i])
            d1 = (math.log(s[i] / k[i]) + T(0.05) * t[i]) / spread
            discounted = k[i] * math.exp(T(-0.03) * t[i])
            call[i] = s[i] * phi(d1) - discounted * phi(d1 - spread)
            put[i] = call[i] - s[i] + discounted

    return loop


def _transposed(T: Any) -> Any:
    def loop(a, b, out):  # type: ignore[no-untyped-def]
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                out[i, j] = a[i, j] + b[j, i]

    return loop


LOOPS: dict[str, Callable[[Any], Any]] = {
    "axpy": _axpy, "poly": _poly, "transcendental": _transcendental,
    "row_broadcast": _row_broadcast, "lead_broadcast": _lead_broadcast, "sum": _sum,
    "row_sums": _row_sums, "column_sums": _column_sums, "softmax": _softmax,
    "layer_norm": _layer_norm, "black_scholes": _black_scholes, "transposed": _transposed,
    **GRADIENTS,
}

SUMS = ("sum", "row_sums", "column_sums", "softmax", "layer_norm", *GRADIENTS)


def prepare(work: Workload, operands: list[Any], outs: list[Any] | None) -> Any:
    """Given calls fill the outputs; natural ones allocate them in Python first."""
    make = LOOPS.get(work.name)
    if make is None:
        return None
    loop = numba.njit(fastmath={"reassoc"} if work.name in SUMS else False)(
        make(operands[0].dtype.type)
    )
    if outs is not None:
        def call() -> list[Any]:
            loop(*operands, *outs)
            return outs
        return call
    results = work.reference(*operands)
    specs = [(np.shape(r), r.dtype)
             for r in (results if isinstance(results, tuple) else (results,))]

    def natural() -> list[Any]:
        new = [np.empty(shape, dtype) for shape, dtype in specs]
        loop(*operands, *new)
        return new

    return natural
