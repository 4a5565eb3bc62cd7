"""The forward and backward loops that a user of numba would write for the gradients.

Gradients of what was broadcast by column are added to row by row, for rows are contiguous.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..gradients import CUBE, FREEDOM, WIDTH


def _gelu(T: Any) -> Any:
    def loop(x, g, b, gx, gg, gb):  # type: ignore[no-untyped-def]
        gg[:] = T(0)
        gb[:] = T(0)
        share = T(0.5) / T(x.size)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                u = x[i, j] * g[j] + b[j]
                t = math.tanh(T(WIDTH) * u * (T(1) + T(CUBE) * u * u))
                d = share * (T(1) + t + T(WIDTH) * u * (T(1) - t * t)
                             * (T(1) + T(3 * CUBE) * u * u))
                gx[i, j] = d * g[j]
                gg[j] += d * x[i, j]
                gb[j] += d

    return loop


def _layer_norm(T: Any) -> Any:
    def loop(x, g, b, c, gx, gg, gb):  # type: ignore[no-untyped-def]
        n = T(x.shape[1])
        gg[:] = T(0)
        gb[:] = T(0)
        for i in range(x.shape[0]):
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
                gg[j] += c[i, j] * z
                gb[j] += c[i, j]

    return loop


def _cross_entropy(T: Any) -> Any:
    def loop(x, t, gx):  # type: ignore[no-untyped-def]
        m = T(x.shape[0])
        for i in range(x.shape[0]):
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


def _product(T: Any) -> Any:
    def loop(x, w, gx):  # type: ignore[no-untyped-def]
        for i in range(x.shape[0]):
            before = w[i]
            for j in range(x.shape[1]):
                gx[i, j] = before
                before *= x[i, j]
            after = T(1)
            for j in range(x.shape[1] - 1, -1, -1):
                gx[i, j] *= after
                after *= x[i, j]

    return loop


def _logistic(T: Any) -> Any:
    def loop(x, w, b, t, gx, gw, gb):  # type: ignore[no-untyped-def]
        gw[:] = T(0)
        gb[:] = T(0)
        size = T(x.size)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                u = x[i, j] * w[j] + b[j]
                e = math.exp(-abs(u))
                d = ((T(1) if u > 0 else e) / (T(1) + e) - t[i, j]) / size
                gx[i, j] = d * w[j]
                gw[j] += d * x[i, j]
                gb[j] += d

    return loop


def _student_t(T: Any) -> Any:
    def loop(x, mu, s, gmu, gs):  # type: ignore[no-untyped-def]
        gmu[:] = T(0)
        gs[:] = T(0)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                z = (x[i, j] - mu[j]) / s[j]
                d = T(FREEDOM + 1) * z / (T(FREEDOM) + z * z)
                gmu[j] -= d
                gs[j] += d * z
        for j in range(x.shape[1]):
            gmu[j] /= s[j]
            gs[j] = (T(x.shape[0]) - gs[j]) / s[j]

    return loop


GRADIENTS: dict[str, Callable[[Any], Any]] = {
    "gelu_grad": _gelu, "layer_norm_grad": _layer_norm, "cross_entropy_grad": _cross_entropy,
    "product_grad": _product, "logistic_grad": _logistic, "student_t_grad": _student_t,
}
