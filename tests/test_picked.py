"""Rows of elements a few apart: whole vectors are loaded, but nothing beyond the rows is touched."""

import numpy as np
import pytest

import elemc as ec

from .helpers import compile_together, guarded

FOLDS = {
    "products": lambda a, b: np.sum(a * b, axis=-1),
    "differences": lambda a, b: np.max(a - b, axis=-1),
    "everything": lambda a, b: np.sum(a + b),
    "deviations": lambda a, b: np.min((b - np.min(b, axis=-1, keepdims=True)) * a, axis=-1),
    "both": lambda a, b: np.sum(b[..., 1:] * b[..., :-1], axis=-1),
}


def rows_apart(shape, dtype, step, at_end):
    """Random rows of elements `step` apart, the first or last of which is at a guarded page."""
    size = np.dtype(dtype).itemsize
    flat = guarded(((shape[0] * shape[1] - 1) * abs(step) + 1) * size, at_end).view(dtype)
    flat[:] = np.random.default_rng(len(flat)).integers(0, 9, len(flat))
    rows = np.lib.stride_tricks.as_strided(
        flat, shape, (shape[1] * abs(step) * size, abs(step) * size))
    return rows if step > 0 else rows[::-1, ::-1]


@pytest.mark.parametrize("step", [2, 3, 4, -2])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint64", "int8"])
def test_nothing_else_is_touched(dtype, step):
    compiled, lengths = {name: ec.compile(fold) for name, fold in FOLDS.items()}, (
        2, 15, 16, 17, 18, 32, 33, 65, 4096, 4097, 4113, 8193)
    samples = [rows_apart((rows, n), dtype, step, True) for n in lengths for rows in (1, 3)]
    compile_together((f, [np.zeros(b.shape, dtype), b]) for b in samples for f in compiled.values())
    for columns in lengths:
        for rows in (1, 3):
            for at_end in (False, True):
                b = rows_apart((rows, columns), dtype, step, at_end)
                a = np.random.default_rng(0).integers(0, 9, b.shape).astype(dtype)
                for name, fold in FOLDS.items():  # small integers, whose sums are exact
                    np.testing.assert_array_equal(compiled[name](a, b), fold(a, b), name)


@pytest.mark.parametrize("dtype, picked", [("float32", True), ("int64", True), ("int16", False)])
def test_what_is_picked(dtype, picked):
    x = np.ones((5, 400), dtype)
    f = ec.compile(lambda a, b: np.sum(a * b, axis=1))
    place = ec.compile(lambda a, b: np.argmax(np.exp(a) * b, axis=1))  # goes with the extremum
    for rows, where in ((x[:, :300:3], picked), (x[:, ::4], picked), (x[:, ::-4], picked),
                        (x[:, :100], False), (x[:, ::5], False)):
        assert ("every_" in f.dump(rows, x[:, :rows.shape[1]])) == where
        assert "every_" not in place.dump(rows, x[:, :rows.shape[1]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_steps_change_no_bit(dtype):
    rng = np.random.default_rng(0)
    for columns in (20, 64, 300, 9000):
        x, y = (rng.standard_normal((7, 4 * columns)).astype(dtype) for _ in range(2))
        for f in (lambda a, b: np.sum(np.exp(a) * b, axis=1), lambda a, b: np.mean(a - b),
                  lambda a, b: np.var(a * b, axis=1), lambda a, b: a / np.sum(a * b, axis=1)[:, None]):
            f = ec.compile(f)
            for step in (2, 3, 4):
                a, b = x[:, :step * columns:step], y[:, :columns]
                np.testing.assert_array_equal(f(a, b), f(a.copy(), b))


def test_names_of_two_turns():
    x = np.random.default_rng(0).random((67, 600)).astype("f4")[:, ::2]
    f = ec.compile(lambda x, other_x: np.sum(x * other_x, axis=1) / np.sum(x * x, axis=1))
    np.testing.assert_array_equal(f(x, x), np.ones(67))
    assert "x_apart2" in f.dump(x, x)
