"""Rows that read operands across their lines: some rows of these are copied along them at a time."""

import numpy as np
import pytest

import elemc as ec

from .helpers import assert_same_bits, compile_together, guarded, quiet

BY_ROWS = {
    "sums": lambda x, y: (x - y).sum(axis=-1),
    "centred": lambda x, y: (x - y) - (x - y).mean(axis=-1, keepdims=True),
    "running": lambda x, y: np.cumsum(x * y, axis=-1),
    "any": lambda x, y: (x != y).any(axis=-1),
}
OF_ALL = {
    "product": lambda x, y: (x * y).sum(),
    "distance": lambda x, y: np.abs(x - y).max(),
}
SHAPES = [(7, 700), (600, 9), (33, 1025), (5, 9, 600)]


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i2", "f2", "?", ">f8"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_as_numpy_and_as_what_lies_along(shape, dtype):
    """Along whichever axis the lines of `y` lie."""
    rng = np.random.default_rng(0)
    x, y = ((9 * rng.standard_normal(shape)).astype(dtype) for _ in range(2))
    if x.dtype.kind == "b":
        x, y = (rng.random(shape) > 0.5 for _ in range(2))
    functions = {name: ec.compile(f) for name, f in {**BY_ROWS, **OF_ALL}.items()
                 if not (name in ("sums", "centred", "distance") and dtype == "?")}
    for axis in range(len(shape) - 1):
        across = np.moveaxis(np.ascontiguousarray(np.moveaxis(y, axis, -1)), -1, axis)
        compile_together((f, [x, other]) for f in functions.values() for other in (across, y))
        for name, f in functions.items():
            got = f(x, across)
            if name in BY_ROWS:
                assert_same_bits(got, f(x, y))
                continue
            wide = {"f": "f8", "c": "c16"}.get(x.dtype.kind, dtype)
            want = quiet(OF_ALL[name], x.astype(wide), across.astype(wide))
            np.testing.assert_allclose(got, want, rtol=1e-2 if dtype == "f2" else 1e-4,
                                       atol=1e-4 * x.size if wide != dtype else 0)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_threads_begin_anywhere(dtype):
    """The first rows of one, and the last, are fewer than are copied at a time."""
    x, y = np.random.default_rng(0).standard_normal((2, 1111, 1111)).astype(dtype)
    f = ec.compile(BY_ROWS["centred"])
    before = ec.get_num_threads()
    try:
        ec.set_num_threads(1)
        want = f(x, y.T)
        ec.set_num_threads(2)
        np.testing.assert_array_equal(f(x, y.T), want)
    finally:
        ec.set_num_threads(before)
    np.testing.assert_allclose(want, BY_ROWS["centred"](x, y.T), atol=1e-4)


@pytest.mark.parametrize("dtype", ["f4", "i2", "i1"])
@pytest.mark.parametrize("gap", [0, 3, 40, -5])
def test_short_lines(dtype, gap):
    """Squares reach from lines that fill none into those that follow, but not beyond the last."""
    f = ec.compile(BY_ROWS["sums"])
    for rows in (9, 13):
        for columns in (15, 700, 1025):
            step = rows + abs(gap)
            for at_end in (False, True):
                flat = guarded(((columns - 1) * step + rows) * np.dtype(dtype).itemsize, at_end)
                flat = flat.view(dtype)
                flat[:] = np.random.default_rng(0).integers(0, 9, len(flat))
                lines = np.lib.stride_tricks.as_strided(
                    flat, (columns, rows), (step * flat.itemsize, flat.itemsize))
                y = (lines[::-1] if gap < 0 else lines).T
                x = np.arange(y.size).reshape(y.shape).astype(dtype) % 7
                np.testing.assert_array_equal(f(x, y), f(x, y.copy()))
                np.testing.assert_array_equal(f(x, y), quiet(BY_ROWS["sums"], x, y))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("shape", [(301, 17, 7), (40, 90, 5), (70, 100, 3), (600, 3, 100)], ids=str)
def test_short_rows_of_what_is_dear(shape, dtype, threads):
    """Functions let no line be asked for: rows are turned, however short, and then are one."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, *shape)).astype(dtype)
    maps = [lambda x, y: np.exp(x - y), lambda x, y: np.sin(y) * x, lambda x, y: np.exp(x - y) > 1]
    before = ec.get_num_threads()
    try:
        ec.set_num_threads(threads)
        for function in maps:
            f = ec.compile(function)
            want = f(x, y)
            np.testing.assert_allclose(want, function(x, y), rtol=1e-5)
            for axes in (2, 1, 0), (1, 2, 0), (0, 2, 1):
                across = np.ascontiguousarray(y.transpose(axes)).transpose(np.argsort(axes))
                assert_same_bits(f(x, across), want)
            assert "turn_" in f.dump(x, y.T.copy().T)
    finally:
        ec.set_num_threads(before)


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i2"])
def test_few_lines(dtype):
    """From 4 on they are turned, narrow ones from 8; the last may have none that follows.

    Strips go around the elements of longer ones, but not where these fill vectors.
    """
    rng = np.random.default_rng(0)
    f = ec.compile(lambda x, y: x * x - y)
    for columns in (3, 4, 7, 8):
        x = rng.integers(0, 9, (701, columns)).astype(dtype)
        y, out = np.asfortranarray(x + 1), np.asfortranarray(0 * x)
        for z in (x, x[::-1]):
            np.testing.assert_array_equal(f(z, y, out=out), z * z - y)
        text, size = f.specializations[-1].source.text, x.itemsize
        around = columns > 4 and size >= 4 and columns * size != 64
        assert ("RECORDS" in text) == around, columns
        assert ("x_tile" in text) == (columns >= (8 if size < 4 else 4) and not around), columns


@pytest.mark.parametrize("dtype", ["f8", "f4", "c8", "i4", "i2"])
@pytest.mark.parametrize("record", [(5,), (3, 3), (2, 9), (35,), (30, 3), (100, 2), (2, 5, 3)])
def test_strips_around_records(record, dtype):
    """Outputs whose lines lie across what is read: whatever the order of axes, and beside others."""
    rng = np.random.default_rng(0)

    def two(x, y, m):
        return np.where(m > 4, x + y, y), x * 2 - m

    for rows in (128, 131, 700):
        x, y, m = (rng.integers(0, 9, (rows, *record)).astype(dtype) for _ in range(3))
        m = m.real.astype("f8")
        for axes in ([*range(1, x.ndim), 0], [*range(x.ndim - 1, 0, -1), 0]):
            across = np.transpose(np.empty([x.shape[a] for a in axes], dtype), np.argsort(axes))
            for a, b in ((x, y), (x[::-1], y), (x, np.asfortranarray(y)), (x[:, :1], y)):
                want = two(a, b, m)
                outs = tuple(np.zeros_like(across, w.dtype) for w in want)
                for out, right in zip(ec.compile(two)(a, b, m, out=outs), want, strict=True):
                    np.testing.assert_array_equal(out, right)


def test_rows_that_are_one():
    """What is turned lies as all else does: short rows of these are one long row."""
    x, y = np.zeros((301, 17, 7)), np.zeros((7, 17, 301)).T
    f = ec.compile(lambda x, y: np.exp(x - y))
    assert "b2 < n1 * n2" in f.dump(x, y)
    for a, b in ((x[:, ::2], y[:, ::2]),  # rows apart; then, what is not turned, and few elements
                 (x.astype("c16"), y.astype("c16")), (x[:9].copy(), y[:9].copy().T.copy().T),
                 (x[:, :4].copy(), y[:, :4].T.copy().T)):
        assert "b2 < n1 * n2" not in f.dump(a, b)


def test_whatever_is_made_of_rows_that_are_one():
    """Several outputs, what each row shares, masks, and additions."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 301, 17, 7))
    w, s, mask = rng.standard_normal(7), rng.standard_normal((17, 1)), rng.random(x.shape) > 0.5
    across = y.T.copy().T
    f = ec.compile(lambda x, y, w, s: (np.exp(x - y), np.exp(x - y) * w, np.exp(x - y) + s))
    for got, want in zip(f(x, across, w, s), f(x, y, w, s), strict=True):
        assert_same_bits(got, want)
    g = ec.compile(lambda x, y: np.exp(x - y))
    assert_same_bits(g(x, across, where=mask), g(x, y, where=mask))
    np.testing.assert_array_equal(g(x, across, out=x + 1, req="add"), g(x, y, out=x + 1, req="add"))


def test_what_is_turned():
    """More lines than the first cache holds, or of narrow elements than 16; whole squares of them."""
    def text(shape, dtype, name="sums"):
        x = np.zeros(shape, dtype)
        return ec.compile(BY_ROWS[name]).dump(x, x.T.copy().T)

    for shape, dtype in (((40, 600), "f8"), ((40, 17), "f4"), ((600, 600), "i8"), ((90, 300), "f4"),
                         ((40, 300), "u1"), ((90, 30), "i2")):
        assert "turn_" in text(shape, dtype) and "TURN rows" in text(shape, dtype), (shape, dtype)
    for shape, dtype in (((40, 300), "f8"), ((40, 12), "f4"), ((7, 600), "f8"),
                         ((600, 600), "c16"), ((600, 600), "f2"), ((600, 600), ">f8")):
        assert "TURN" not in text(shape, dtype), (shape, dtype)
    assert "y_rows0[i0 % TURN * n1 + i1]" in text((40, 600), "f8")
    assert "buffer0" not in text((40, 600), "f8", "centred")  # what is turned is read again


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_out_of_the_way_of_what_is_written(dtype):
    """A result may take the place of the operand that is turned: that is copied before."""
    x, y = np.random.default_rng(0).standard_normal((2, 600, 600)).astype(dtype)
    f = ec.compile(BY_ROWS["centred"])
    want, into = f(x, y.T), y.copy()
    f(x, into.T, out=into)
    np.testing.assert_array_equal(into, want)
    f(x, y.T, out=x)
    np.testing.assert_array_equal(x, want)


def test_rows_that_come_last_first_are_not_turned():
    """A sum from the end, in the gradient of a running one, goes along them with it."""
    x, y = np.random.default_rng(0).standard_normal((2, 40, 600))
    f = ec.compile(lambda x, y: np.cumsum((x * y).sum(axis=1)))
    gradient = ec.vjp(f)
    g = np.arange(40.0)
    want = np.cumsum(g[::-1])[::-1, None]
    across = y.T.copy().T
    for got, other in zip(gradient(x, across, g), (y, x), strict=True):
        np.testing.assert_allclose(got, want * other, rtol=1e-12)


@pytest.mark.parametrize("columns", [8, 700, (70, 20)], ids=str)
@pytest.mark.parametrize("rows", [45, 1003])
def test_folds_of_several_columns_share_the_rows(rows, columns):
    """Each load is copied along its own; around a few elements lanes go back, where nothing is."""
    rng = np.random.default_rng(0)
    shape = (rows, *(columns if isinstance(columns, tuple) else (columns,)))
    x, z = rng.standard_normal(shape), rng.standard_normal((rows, 900))
    y, w = (np.asfortranarray(rng.standard_normal(a.shape)) for a in (x, z))
    axes = tuple(range(1, x.ndim))
    for function in (
        lambda x, y, z, w: (x * y).sum(axis=axes) + (z * w).sum(axis=1),
        lambda x, y, z, w: (x * y).max(axis=axes) + (z * w).sum(axis=1),
        lambda x, y, z, w: (x * y).max(axis=axes).min() + (z * w).sum(axis=1),
    ):
        np.testing.assert_allclose(ec.compile(function)(x, y, z, w), function(x, y, z, w),
                                   rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("step", [-1, 2, 3])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_beside_what_cannot_be_turned(axis, step):
    """Of floats, rows of whole lines are turned for those that have gaps or go back."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((90 * abs(step), 70 * abs(step))).astype("f4")[::abs(step), ::step]
    y = rng.standard_normal((70, 90)).astype("f4").T
    f = ec.compile(lambda x, y: (x * y).sum(axis=axis))
    if axis != 0:
        assert "elemc_turn_32(&y_rows" in f.dump(x, y)
    np.testing.assert_allclose(f(x, y), np.sum(x * y, axis=axis), rtol=1e-4, atol=1e-4)
