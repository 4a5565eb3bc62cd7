"""Costs whose gradients are workloads, and the same gradients written by hand in NumPy.

A cost is NumPy-like code, as the other workloads are, and every contestant differentiates it in
its own way.  What is written by hand is what the answers are held against: it takes the cost's
operands, gives a tuple, and stays right where exponentials saturate and where factors are 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[..., Any]

WIDTH = 0.7978845608028654  # sqrt(2 / pi)
CUBE = 0.044715
FREEDOM = 5.0  # degrees of freedom of Student's t


def gelu(xp: Any) -> Function:
    """Mean of the tanh-approximated GELU of x scaled and shifted by column."""

    def gelu(x: Any, g: Any, b: Any) -> Any:
        u = x * g + b
        return xp.mean(0.5 * u * (1 + xp.tanh(WIDTH * (u + CUBE * u**3))))

    return gelu


def gelu_by_hand(x: Any, g: Any, b: Any) -> tuple[Any, ...]:
    """In x, g and b."""
    u = x * g + b
    u2 = u * u
    t = np.tanh(WIDTH * u * (1 + CUBE * u2))
    d = (0.5 * (1 + t) + 0.5 * WIDTH * u * (1 - t * t) * (1 + 3 * CUBE * u2)) / x.size
    return d * g, np.sum(d * x, axis=0), np.sum(d, axis=0)


def layer_norm_by_hand(x: Any, g: Any, b: Any, c: Any) -> tuple[Any, ...]:
    """In x, g and b, for the cotangent c."""
    d = x - np.mean(x, axis=-1, keepdims=True)
    width = np.sqrt(np.mean(d * d, axis=-1, keepdims=True) + 1e-5)
    z, cg = d / width, c * g
    along = np.mean(cg * z, axis=-1, keepdims=True)
    gx = (cg - np.mean(cg, axis=-1, keepdims=True) - z * along) / width
    return gx, np.sum(c * z, axis=0), np.sum(c, axis=0)


def cross_entropy(xp: Any) -> Function:
    """Mean over rows of the cross entropy between targets t and the softmax of x."""

    def cross_entropy(x: Any, t: Any) -> Any:
        d = x - xp.max(x, axis=-1, keepdims=True)
        logs = d - xp.log(xp.sum(xp.exp(d), axis=-1, keepdims=True))
        return -xp.mean(xp.sum(t * logs, axis=-1))

    return cross_entropy


def cross_entropy_by_hand(x: Any, t: Any) -> tuple[Any, ...]:
    """In x; the targets of a row need not add up to 1."""
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    share = np.sum(t, axis=-1, keepdims=True) / np.sum(e, axis=-1, keepdims=True)
    return ((e * share - t) / x.shape[0],)


def one_hot(x: Any, t: Any) -> tuple[Any, ...]:
    """Targets that choose a column of each row.

    The gradient that flows through `max` is what rounding left of a sum that is 0: beside targets
    that choose nothing, an error of n epsilons in float32.
    """
    return x, (t == np.max(t, axis=-1, keepdims=True)).astype(t.dtype)


def product(xp: Any) -> Function:
    """Weighted sum of the products of the rows."""
    return lambda x, w: xp.sum(w * xp.prod(x, axis=1))


def product_by_hand(x: Any, w: Any) -> tuple[Any, ...]:
    """In x: the products of what stands before and after each factor, right at 0 as well."""
    before, after = np.empty_like(x), np.empty_like(x)
    before[:, 0] = w
    np.multiply(np.cumprod(x[:, :-1], axis=1), w[:, None], out=before[:, 1:])
    after[:, -1] = 1
    np.cumprod(x[:, :0:-1], axis=1, out=after[:, -2::-1])
    return (before * after,)


def logistic(xp: Any) -> Function:
    """Mean logistic loss, between logits x*w + b and targets t, without overflow."""

    def logistic(x: Any, w: Any, b: Any, t: Any) -> Any:
        u = x * w + b
        return xp.mean(xp.log1p(xp.exp(-xp.abs(u))) + xp.maximum(u, 0) - t * u)

    return logistic


def logistic_by_hand(x: Any, w: Any, b: Any, t: Any) -> tuple[Any, ...]:
    """In x, w and b."""
    u = x * w + b
    e = np.exp(-np.abs(u))
    d = (np.where(u > 0, 1, e) / (1 + e) - t) / x.size
    return d * w, np.sum(d * x, axis=0), np.sum(d, axis=0)


def student_t(xp: Any) -> Function:
    """Minus the log-likelihood of x under Student's t, located and scaled by column."""

    def student_t(x: Any, mu: Any, s: Any) -> Any:
        z = (x - mu) / s
        return xp.sum(0.5 * (FREEDOM + 1) * xp.log1p(z**2 / FREEDOM) + xp.log(s))

    return student_t


def student_t_by_hand(x: Any, mu: Any, s: Any) -> tuple[Any, ...]:
    """In mu and s."""
    z = (x - mu) / s
    d = (FREEDOM + 1) * z / (FREEDOM + z * z)
    return -np.sum(d, axis=0) / s, (x.shape[0] - np.sum(d * z, axis=0)) / s
