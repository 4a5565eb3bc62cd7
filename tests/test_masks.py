"""Folds of what masks choose, of narrow elements beside wide ones, in rows of any length."""

import numpy as np
import pytest

import elemc as ec

from .test_orders import LAYOUTS

DTYPES = "float64 float32 int64 int32 int16 uint8 int8 bool".split()
LENGTHS = [1, 2, 3, 5, 7, 8, 9, 11, 15, 16, 17, 31, 33, 63, 64, 65, 100, 129]
VALUES = [
    lambda x, y, m: np.where(m, x, y),
    lambda x, y, m: x * m,
    lambda x, y, m: np.where(m, x, 0),
    lambda x, y, m: np.where(m, 0, y),
    lambda x, y, m: np.where(x > y, x, y) + m,
    lambda x, y, m: np.where(x > 3, y, 1) * 1.5,
    lambda x, y, m: x * 1.0 + y,
]
FOLDS = [
    lambda a, x, m, axis: np.sum(a, axis=axis),
    lambda a, x, m, axis: np.mean(a, axis=axis) + np.max(x * 1.0, axis=axis),
    lambda a, x, m, axis: np.max(a, axis=axis) - np.min(x * 1.0, axis=axis),
    lambda a, x, m, axis: np.sum(a, axis=axis, where=m),
    lambda a, x, m, axis: np.std(a, axis=axis),
    lambda a, x, m, axis: np.argmax(a, axis=axis if isinstance(axis, int) else None),
    lambda a, x, m, axis: a,
]


@pytest.mark.parametrize("number", range(224))
def test_folds(number):
    rng = np.random.default_rng(number)
    fold, value = FOLDS[number % len(FOLDS)], VALUES[rng.integers(len(VALUES))]
    shape = tuple(rng.choice(LENGTHS, rng.integers(1, 4)))
    axes = [None, *range(len(shape)), *([(0, len(shape) - 1)] if len(shape) > 1 else [])]
    axis = axes[rng.integers(len(axes))]

    def made(dtype, shape):
        array = rng.random(shape) < 0.5 if dtype == "bool" else rng.integers(0, 90, shape)
        return LAYOUTS[rng.integers(len(LAYOUTS))](array.astype(dtype))

    inner = shape, shape, shape[1:] or shape, (*shape[:-1], 1)
    x, y = made(rng.choice(DTYPES), shape), made(rng.choice(DTYPES), inner[rng.integers(4)])
    m = made("bool", shape)
    if x.dtype.kind == "f" and rng.random() < 0.3:
        x[(0,) * x.ndim] = np.nan
    want = np.asarray(fold(value(x, y, m), x, m, axis))
    f = ec.compile(lambda x, y, m: fold(value(x, y, m), x, m, axis))
    single = np.float32 in (want.dtype, x.dtype, y.dtype)
    np.testing.assert_allclose(f(x, y, m), want, rtol=1e-4 if single else 1e-11,
                               atol=1e-3 if single else 1e-10)
    np.testing.assert_array_equal(f(x, y, m), f(x, y, m))
