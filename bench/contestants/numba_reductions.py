"""The loops that a user of numba would write for sums, and for what is done by rows.

Threads share the rows; sums by column are made by each thread for its own, and then added.

`parts` is the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import prange

Maker = Callable[[Any, int], Any]


def _sum(T: Any, parts: int) -> Any:
    def loop(x, y, out):  # type: ignore[no-untyped-def]
        total = T(0)
        for i in prange(x.shape[0]):
            row = T(0)
            for j in range(x.shape[1]):
                row += x[i, j] * y[i, j]
            total += row
        out[()] = total

    return loop


def _squared_distance(T: Any, parts: int) -> Any:
    def loop(x, y, out):  # type: ignore[no-untyped-def]
        total = T(0)
        for i in prange(x.shape[0]):
            row = T(0)
            for j in range(x.shape[1]):
                row += (x[i, j] - y[i, j]) * (x[i, j] - y[i, j])
            total += row
        out[()] = total

    return loop


def _row_sums(T: Any, parts: int) -> Any:
    def loop(x, y, out):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
            row = T(0)
            for j in range(x.shape[1]):
                row += x[i, j] * y[i, j]
            out[i] = row

    return loop


def _row_norms(T: Any, parts: int) -> Any:
    def loop(x, v, out):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
            row = T(0)
            for j in range(x.shape[1]):
                row += x[i, j] * x[i, j]
            out[i] = math.sqrt(row) + v[i]

    return loop


def _column_sums(T: Any, parts: int) -> Any:
    def loop(x, y, out):  # type: ignore[no-untyped-def]
        m, n = x.shape
        sums = np.zeros((parts, n), x.dtype)
        for k in prange(parts):
            for i in range(k * m // parts, (k + 1) * m // parts):
                for j in range(n):
                    sums[k, j] += x[i, j] * y[i, j]
        out[:] = sums.sum(axis=0)

    return loop


def _weighted_columns(T: Any, parts: int) -> Any:
    def loop(x, w, out):  # type: ignore[no-untyped-def]
        m, n = x.shape
        sums = np.zeros((parts, n), x.dtype)
        for k in prange(parts):
            for i in range(k * m // parts, (k + 1) * m // parts):
                for j in range(n):
                    sums[k, j] += x[i, j]
        out[:] = sums.sum(axis=0) * w

    return loop


def _row_max(T: Any, parts: int) -> Any:
    def loop(x, out):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
            top = x[i, 0]
            for j in range(1, x.shape[1]):
                top = max(top, x[i, j])
            out[i] = top

    return loop


def _row_product(T: Any, parts: int) -> Any:
    def loop(x, out):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
            row = T(1)
            for j in range(x.shape[1]):
                row *= x[i, j]
            out[i] = row

    return loop


def _softmax(T: Any, parts: int) -> Any:
    def loop(x, out):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
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


def _logsumexp(T: Any, parts: int) -> Any:
    def loop(x, out):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
            top = x[i, 0]
            for j in range(1, x.shape[1]):
                top = max(top, x[i, j])
            total = T(0)
            for j in range(x.shape[1]):
                total += math.exp(x[i, j] - top)
            out[i] = math.log(total) + top

    return loop


def _layer_norm(T: Any, parts: int) -> Any:
    def loop(x, g, b, out):  # type: ignore[no-untyped-def]
        n = T(x.shape[1])
        for i in prange(x.shape[0]):
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


REDUCTIONS: dict[str, Maker] = {
    "sum": _sum, "squared_distance": _squared_distance, "row_sums": _row_sums,
    "row_norms": _row_norms, "column_sums": _column_sums, "weighted_columns": _weighted_columns,
    "row_max": _row_max, "row_product": _row_product, "softmax": _softmax, "logsumexp": _logsumexp,
    "layer_norm": _layer_norm,
}
