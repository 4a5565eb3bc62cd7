"""Modes, orders and run-time broadcasting, against a direct reading of their meaning."""

import itertools

import numpy as np
import pytest

import elemc as ec
from elemc.errors import ModeError, ShapeError

from .helpers import compile_together, layouts, sample

FOLD = {"sum": np.sum, "prod": np.prod, "max": np.max, "mean": np.mean}
EXPRESSIONS = [lambda x, y: x * y + 1, lambda x, y: x - y * y]


def aligned(array, ndim, order):
    """`array` with axes of size 1 added in front (f) or behind (c)."""
    lacking = ndim - array.ndim
    shape = (1,) * lacking + array.shape if order == "f" else array.shape + (1,) * lacking
    return array.reshape(shape)


def meaning(expression, arrays, mode, order):
    """What DESIGN's definition says, in NumPy."""
    if mode == "broadcast":
        ndim = max(a.ndim for a in arrays)
        return expression(*(aligned(a, ndim, order) for a in arrays))
    ndim = min(a.ndim for a in arrays)
    folded = []
    for a in arrays:
        lacking = a.ndim - ndim
        axes = range(lacking) if order == "f" else range(ndim, a.ndim)
        folded.append(FOLD[mode[1]](a, axis=tuple(axes)) if lacking else a)
    return expression(*folded)


@pytest.mark.parametrize(("dtype", "order"), [
    pytest.param("float64", "c", marks=pytest.mark.optimized), ("float64", "f"), ("int32", "f")])
@pytest.mark.parametrize(("rx", "ry"), [(2, 1), (1, 2), (3, 2), (2, 0)])
def test_meaning(rx, ry, order, dtype):
    sizes = [3, 4, 5, 6]
    x, y = ec.array("x", rx, dtype), ec.array("y", ry, dtype)
    modes = ["broadcast", *(("accumulate", a) for a in FOLD)]
    cases = list(itertools.product(EXPRESSIONS, modes))
    f = ec.function([x, y], [expression(x, y) for expression, _ in cases],
                    mode=[mode for _, mode in cases], order=order)
    whole = sizes[:max(rx, ry)]
    shapes = [whole[:r] if order == "c" else whole[len(whole) - r:] for r in (rx, ry)]
    values = [sample(dtype, s, k, (1, 3)) for k, s in enumerate(shapes)]
    wanted = [meaning(expression, values, mode, order) for expression, mode in cases]
    pairs = [(a, b) for (_, a), (_, b) in itertools.product(
        layouts(values[0]), list(layouts(values[1]))[:2])]
    compile_together((f, pair) for pair in pairs)
    for a, b in pairs:
        for got, want in zip(f(a, b), wanted, strict=True):
            assert got.dtype == np.asarray(want).dtype
            np.testing.assert_allclose(got, want, rtol=1e-12)


def test_order_c_is_the_transpose_of_order_f():
    x, y = ec.tensor3("x"), ec.vector("y")
    for mode in ("broadcast", ("accumulate", "sum")):
        c = ec.function([x, y], x * y, mode=mode, order="c")
        f = ec.function([x, y], x * y, mode=mode, order="f")
        a, b = sample("float64", (3, 4, 5)), sample("float64", 3, 1)
        np.testing.assert_allclose(c(a, b), f(a.T, b).T, rtol=1e-12)


@pytest.mark.parametrize("order", ["c", "f"])
def test_each_input_folds_its_own_axes(order):
    x, w, y = ec.matrix("x"), ec.matrix("w"), ec.vector("y")
    f = ec.function([x, w, y], x * w + y, mode=("accumulate", "sum"), order="c")
    a, b, c = sample("float64", (3, 5)), sample("float64", (3, 1), 1), sample("float64", 3, 2)
    np.testing.assert_allclose(f(a, b, c), a.sum(axis=1) * b.sum(axis=1) + c)
    assert order in "cf"


def test_sizes_of_one_stretch():
    x, y = ec.tensor3("x"), ec.tensor3("y")
    f = ec.function([x, y], [x + y, ec.sum(x, axis=0, keepdims=True) * y, (x * y).sum(axis=(0, 2))])
    for bits in itertools.product([False, True], repeat=6):
        full = (3, 4, 5)
        shapes = [[1 if b else n for b, n in zip(part, full, strict=True)]
                  for part in (bits[:3], bits[3:])]
        a, b = (sample("float64", s, k) for k, s in enumerate(shapes))
        got = f(a, b)
        np.testing.assert_array_equal(got[0], a + b)
        np.testing.assert_allclose(got[1], np.sum(a, axis=0, keepdims=True) * b)
        np.testing.assert_allclose(got[2], (a * b).sum(axis=(0, 2)))


def test_merged_axes_share_kernels():
    """After merging, at most 2n variants of one operand of rank n: here all 32 patterns."""
    x, y = ec.array("x", 5), ec.array("y", 5)
    f = ec.function([x, y], x * y)
    b = sample("float64", (2, 3, 2, 3, 2))
    for bits in itertools.product([False, True], repeat=5):
        a = sample("float64", [1 if one else n for one, n in zip(bits, b.shape, strict=True)], 1)
        np.testing.assert_array_equal(f(a, b), a * b)
    assert len(f.specializations) <= 10


def test_align_and_local_order():
    x, y = ec.matrix("x"), ec.vector("y")
    a, b = sample("float64", (3, 3)), sample("float64", 3, 1)
    f = ec.function([x, y], x * ec.align(y, "c") + y)
    np.testing.assert_allclose(f(a, b), a * b[:, None] + b)


def test_errors():
    x, y = ec.matrix("x"), ec.vector("y")
    with pytest.raises(ModeError, match="unknown mode 'sum'"):
        ec.function([x], x, mode="sum")
    with pytest.raises(ModeError, match="unknown order 'k'"):
        ec.function([x], x, order="k")
    with pytest.raises(ModeError, match="write the accumulation in the expression"):
        ec.function([x, y], x.sum(axis=0) * y, mode=("accumulate", "sum"))
    f = ec.function([x, y], x * y, order="c", name="scaled")
    with pytest.raises(ShapeError, match=r"scaled: axis 0 of x of size 3 and axis 0 of y of size 5.*'c'"):
        f(np.ones((3, 5)), np.ones(5))
