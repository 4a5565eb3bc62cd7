"""The forward and backward loops that a user of numba would write for the gradients.

Gradients of what was broadcast by column are added to row by row, for rows are contiguous; each
thread has sums of its own, in one of `parts` rows, which are added at the end.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange

from ..gradients import CUBE, FREEDOM, WIDTH
from .numba_reductions import Maker


def _gelu(T: Any, parts: int) -> Any:
    def loop(x, g, b, gx, gg, gb):  # type: ignore[no-untyped-def]
        share = T(0.5) / T(x.size)
        m = x.shape[0]
        ggs = np.zeros((parts, x.shape[1]), x.dtype)
        gbs = np.zeros((parts, x.shape[1]), x.dtype)
        for k in prange(parts):
            for i in range(k * m // parts, (k + 1) * m // parts):
                for j in range(x.shape[1]):
                    u = x[i, j] * g[j] + b[j]
                    t = math.tanh(T(WIDTH) * u * (T(1) + T(CUBE) * u * u))
                    d = share * (T(1) + t + T(WIDTH) * u * (T(1) - t * t)
                                 * (T(1) + T(3 * CUBE) * u * u))
                    gx[i, j] = d * g[j]
                    ggs[k, j] += d * x[i, j]
                    gbs[k, j] += d
        gg[:] = ggs.sum(axis=0)
        gb[:] = gbs.sum(axis=0)

    return loop


def _layer_norm(T: Any, parts: int) -> Any:
    def loop(x, g, b, c, gx, gg, gb):  # type: ignore[no-untyped-def]
        n = T(x.shape[1])
        m = x.shape[0]
        ggs = np.zeros((parts, x.shape[1]), x.dtype)
        gbs = np.zeros((parts, x.shape[1]), x.dtype)
        for k in prange(parts):
            for i in range(k * m // parts, (k + 1) * m // parts):
                total = T(0)
                level = T(0)
                for j in range(x.shape[1]):
                    total += x[i, j]
                    level += c[i, j] * g[j]
                mean = total / n
                level /= n
                squares = T(0)
                along = T(0)
                for j in range(x.shape[1]):
                    squares += (x[i, j] - mean) * (x[i, j] - mean)
                    along += c[i, j] * g[j] * (x[i, j] - mean)
                scale = T(1) / math.sqrt(squares / n + T(1e-5))
                along *= scale / n
                for j in range(x.shape[1]):
                    z = (x[i, j] - mean) * scale
                    gx[i, j] = (c[i, j] * g[j] - level - z * along) * scale
                    ggs[k, j] += c[i, j] * z
                    gbs[k, j] += c[i, j]
        gg[:] = ggs.sum(axis=0)
        gb[:] = gbs.sum(axis=0)

    return loop


def _cross_entropy(T: Any, parts: int) -> Any:
    def loop(x, t, gx):  # type: ignore[no-untyped-def]
        m = T(x.shape[0])
        for i in prange(x.shape[0]):
            top = x[i, 0]
            for j in range(1, x.shape[1]):
                top = max(top, x[i, j])
            total = T(0)
            targets = T(0)
            for j in range(x.shape[1]):
                gx[i, j] = math.exp(x[i, j] - top)
                total += gx[i, j]
                targets += t[i, j]
            share = targets / total
            for j in range(x.shape[1]):
                gx[i, j] = (gx[i, j] * share - t[i, j]) / m

    return loop


def _product(T: Any, parts: int) -> Any:
    def loop(x, w, gx):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
            before = w[i]
            for j in range(x.shape[1]):
                gx[i, j] = before
                before *= x[i, j]
            after = T(1)
            for j in range(x.shape[1] - 1, -1, -1):
                gx[i, j] *= after
                after *= x[i, j]

    return loop


def _logistic(T: Any, parts: int) -> Any:
    def loop(x, w, b, t, gx, gw, gb):  # type: ignore[no-untyped-def]
        size = T(x.size)
        m = x.shape[0]
        gws = np.zeros((parts, x.shape[1]), x.dtype)
        gbs = np.zeros((parts, x.shape[1]), x.dtype)
        for k in prange(parts):
            for i in range(k * m // parts, (k + 1) * m // parts):
                for j in range(x.shape[1]):
                    u = x[i, j] * w[j] + b[j]
                    e = math.exp(-abs(u))
                    d = ((T(1) if u > 0 else e) / (T(1) + e) - t[i, j]) / size
                    gx[i, j] = d * w[j]
                    gws[k, j] += d * x[i, j]
                    gbs[k, j] += d
        gw[:] = gws.sum(axis=0)
        gb[:] = gbs.sum(axis=0)

    return loop


def _student_t(T: Any, parts: int) -> Any:
    def loop(x, mu, s, gmu, gs):  # type: ignore[no-untyped-def]
        m = x.shape[0]
        gmus = np.zeros((parts, x.shape[1]), x.dtype)
        gss = np.zeros((parts, x.shape[1]), x.dtype)
        for k in prange(parts):
            for i in range(k * m // parts, (k + 1) * m // parts):
                for j in range(x.shape[1]):
                    z = (x[i, j] - mu[j]) / s[j]
                    d = T(FREEDOM + 1) * z / (T(FREEDOM) + z * z)
                    gmus[k, j] -= d
                    gss[k, j] += d * z
        gmu[:] = gmus.sum(axis=0)
        gs[:] = gss.sum(axis=0)
        for j in range(x.shape[1]):
            gmu[j] /= s[j]
            gs[j] = (T(x.shape[0]) - gs[j]) / s[j]

    return loop


GRADIENTS: dict[str, Maker] = {
    "gelu_grad": _gelu, "layer_norm_grad": _layer_norm, "cross_entropy_grad": _cross_entropy,
    "product_grad": _product, "logistic_grad": _logistic, "student_t_grad": _student_t,
}
