"""Loops that part where all that slices read is there."""

import numpy as np
import pytest

import elemc as ec

from .helpers import assert_same_bits, compile_together

RNG = np.random.default_rng(50)
FUNCTIONS = {
    "differences": lambda u: np.sum((u[:, 1:] - u[:, :-1]) ** 4),
    "of rows, too": lambda u: np.sum((u[1:, 1:] * u[:-1, :-1]) ** 2),
    "laplacian": lambda u: np.sum((u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
                                   - 4 * u[1:-1, 1:-1]) ** 2),
    "window": lambda u: np.sum((0.1 * u[:, :-4] + 0.2 * u[:, 1:-3] - u[:, 2:-2]
                                + 0.3 * u[:, 4:]) ** 3),
    "halves": lambda u: np.sum(u[:, :64] ** 3) + np.sum(u[:, 64:] ** 2),
    "steps": lambda u: np.sum(u[:, ::2] ** 3) + np.sum(u[:, 1:] * u[:, :-1]),
    "reversed": lambda u: np.sum((u[:, ::-1][:, 1:] * u[:, 1:]) ** 3),
    "functions": lambda u: np.sum(np.sin(u[:, 1:] * u[:, :-1])),
    "choices": lambda u: np.sum(np.where(u[:, 1:] > -5, u[:, 1:] * u[:, :-1], u[:, 1:] ** 2)),
    "sums of rows": lambda u: np.sum(np.sum(u[:, 1:] * u[:, :-1], axis=1) ** 2),
    "one row": lambda u: np.sum((u[0, 2:] - u[0, :-2]) ** 3),
}


def differences(f, u):
    """The gradient by differences along a few directions, and these."""
    for _ in range(3):
        v, h = RNG.standard_normal(u.shape), 1e-4
        yield v, (f(u + h * v) - f(u - h * v)) / (2 * h)


@pytest.mark.parametrize("columns", [70, 127, 128, 129, 131, 300])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name, columns):
    f = FUNCTIONS[name]
    for rows in (3, 4, 9):
        u = RNG.uniform(-1, 1, (rows, columns))
        got = ec.grad(ec.compile(f))(u)
        for v, want in differences(f, u):
            np.testing.assert_allclose(np.sum(got * v), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits_do_not_depend_on_where_a_row_ends(name):
    """Elements whose neighbours are the same have the same gradient, at the ends or between."""
    f = FUNCTIONS[name]
    if name in ("halves", "steps", "reversed", "one row", "sums of rows"):
        return
    u = RNG.uniform(-1, 1, (5, 140)).astype("f4")
    wide, narrow = (ec.grad(ec.compile(f))(a) for a in (u, np.ascontiguousarray(u[:, :100])))
    assert_same_bits(wide[:, :90], narrow[:, :90])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_threads_give_the_same_bits(name):
    before, u = ec.get_num_threads(), RNG.uniform(-1, 1, (400, 300))
    try:
        found = []
        for threads in (1, 2):
            ec.set_num_threads(threads)
            found.append(ec.grad(ec.compile(FUNCTIONS[name]))(u))
        assert_same_bits(*found)
    finally:
        ec.set_num_threads(before)


@pytest.mark.parametrize("name, parts", [
    ("differences", 1), ("laplacian", 1), ("window", 1), ("choices", 1), ("functions", 0)])
def test_what_parts(name, parts):
    text = ec.grad(ec.compile(FUNCTIONS[name])).dump(np.ones((50, 300)))
    assert text.count("between these all that is read is there") == parts
    assert ec.grad(ec.compile(FUNCTIONS[name])).dump(np.ones((50, 40))).count("low1") == 0


def test_nothing_asks_in_between():
    text = ec.grad(ec.compile(FUNCTIONS["laplacian"])).dump(np.ones((50, 300)))
    between = text[text.index("TO_LINE(z_p"):text.index("} else {")]
    assert "?" not in between and "u_p" in between


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_tiles_are_counted_from_their_own_beginning(dtype):
    """Lines that lie across are copied in tiles, of which loops go on whole."""
    def f(u, v):
        return np.sum((np.abs(v[0:9, 61:] - 3) - u[0:9, 512:60:-1]) ** 2)

    u = np.asfortranarray(RNG.uniform(-1, 1, (9, 513)).astype(dtype))
    v = RNG.uniform(-1, 1, (9, 513)).astype(dtype)
    for x in (v, v[::-1], v[:, ::-1]):
        got = ec.grad(ec.compile(f), 1)(u, x)
        want = np.zeros((9, 513))
        want[:, 61:] = -2 * (3 - x[:, 61:] - u[:, 512:60:-1])
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_arrays_of_chunks_are_counted_from_their_own_beginning_in_tiles():
    def f(u, v):
        a, b, c = u[1:9, 16:200:3], v[1:9, 16:200:3], u[1:9, 11:195:3]
        y = np.maximum(np.sin(b) * np.tanh(a) + 0.5 * v[0:8, 16:200:3], u[0:8, 0:62] ** 2)
        y = np.where(y > -9, y, c)
        return np.sum(y * c / (np.sum(y * c**2, axis=0, keepdims=True) + 1))

    u, v = RNG.uniform(-1, 1, (2, 9, 200))
    g = ec.grad(ec.compile(f))
    want, out = g(u, v), np.full((9, 200), 7.0, order="F")
    g(u, np.repeat(v, 2, axis=0)[::2], out=out)
    np.testing.assert_allclose(out, want, rtol=1e-12, atol=1e-14)


def test_ends_of_vectors():
    f = ec.grad(ec.compile(lambda u: np.sum((u[1:] - u[:-1]) ** 2)))
    for n in (1, 2, 127, 128, 129, 1000):
        u = RNG.standard_normal(n)
        want = np.zeros(n)
        want[1:] += 2 * np.diff(u)
        want[:-1] -= 2 * np.diff(u)
        np.testing.assert_allclose(f(u), want, rtol=1e-12, atol=1e-12)


def products(one, other):
    """Functions whose gradients in `w` have elements of `x` and `w` at these places, and zeros."""
    return (lambda w, x: np.sum(w[one] * x[one]), lambda w, x: np.sum(w[one] * x[other]),
            lambda w, x: np.sum(w[one] * w[other]))


@pytest.mark.optimized
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2"])
@pytest.mark.parametrize("row", [(2,), (3,), (4,), (5,), (7,), (8,), (12,), (2, 3), (3, 1), (7, 3), (3, 4)], ids=str)
def test_rows_of_a_few_elements(row, dtype):
    """Of loops over 3, 5, ... elements that a guard holds for, or not, gcc 12 makes wrong vectors."""
    w, x = RNG.integers(1, 9, (2, 300, *row)).astype(dtype)
    cases = []
    for axis in range(w.ndim - 1):
        after, before = ((slice(None),) * axis + (part,) for part in (slice(1, None), slice(None, -1)))
        wants = [np.zeros_like(w) for _ in range(3)]
        wants[0][after], wants[1][after] = x[after], x[before]
        wants[2][after] += w[before]
        wants[2][before] += w[after]
        cases += zip([ec.grad(f) for f in products(after, before)], wants, strict=True)
    compile_together((f, (w, x)) for f, _ in cases)
    for f, want in cases:
        np.testing.assert_array_equal(f(w, x), want)
        assert row != (3,) or "ROLLED for (int64_t i1" in f.dump(w, x)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("along", [0, 1, (0, 1)])
def test_of_what_has_no_strides(name, along):
    """A guard has axes that what it guards has not."""
    u = RNG.uniform(-1, 1, (4, 70))
    u = np.broadcast_to(np.max(u, axis=along, keepdims=True), u.shape)
    for f in (FUNCTIONS[name], lambda u: FUNCTIONS[name](u - np.mean(u, axis=0))):
        gradient = ec.grad(ec.compile(f))
        np.testing.assert_allclose(gradient(u), gradient(u.copy()), rtol=1e-12, atol=1e-13)


def test_several_operands_without_strides():
    x, w = np.broadcast_to(RNG.normal(size=(1, 5)), (4, 5)), np.broadcast_to(2.0, (4, 5))
    for wrt in (0, 1):
        f = ec.grad(lambda x, w: np.sum((x - np.mean(x, axis=0))[:, 1:] * w[:, :-1]), wrt=wrt)
        np.testing.assert_allclose(f(x, w), f(x.copy(), w.copy()), atol=1e-14)
