"""Places of extrema, of what is read and of what is computed: ties, NaN, infinities, all lengths."""

import numpy as np
import pytest

import elemc as ec

from .helpers import compile_together

RNG = np.random.default_rng(0)
FUNCTIONS = {
    "read": lambda a: a, "negative": lambda a: -a, "computed": lambda a: a * 3 + 1,
    "distance": lambda a: abs(a - 2), "functions": lambda a: np.exp(a / 8)}


def tables(rows, columns, dtype):
    """Few different numbers, so that there are ties; of floats also NaN, infinities, all alike."""
    a = RNG.integers(0, 9, (rows, columns)).astype(dtype)
    yield a
    yield np.zeros_like(a)
    if a.dtype.kind == "f":
        for value in (np.nan, np.inf, -np.inf):
            some = a.copy()
            some[rows // 2, columns // 2] = some[rows - 1, columns - 1] = value
            yield some
        yield np.full_like(a, -np.inf)
        yield np.full_like(a, np.nan)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "int64", "uint8"])
@pytest.mark.parametrize("place", [np.argmax, np.argmin])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_first_of_all(name, place, dtype):
    shapes = (2, 40), (5, 300), (8, 70), (9, 33), (16, 64), (17, 65), (40, 1024), (3, 1025)
    for axis in (0, 1):
        def fold(a):
            return place(FUNCTIONS[name](a), axis=axis)  # noqa: B023

        f = ec.compile(fold)
        every = [a for shape in shapes for turned in (1, -1) for a in tables(*shape[::turned], dtype)]
        every += [a[::-1, ::-1] for a in every]
        compile_together((f, [a]) for a in {(a.shape, a.strides): a for a in every}.values())
        for a in every:
            np.testing.assert_array_equal(f(a), fold(a))


@pytest.mark.parametrize("column", [np.arange(9.0), np.where(np.arange(9) == 3, np.nan, 1)])
def test_places_along_what_is_the_same_everywhere(column):
    """A fold of an operand without a stride does not vary along the axis that is looked along."""
    x = np.broadcast_to(column[:, None], (9, 20))
    def places(x):
        return (np.argmax(x.max(axis=0)), np.argmin(x.sum(axis=0)), np.argmax(x.mean(axis=0), keepdims=True) + 1,
                np.argmax((x > 2).any(axis=0)), np.argmin(x[:, ::-1].max(axis=0)), np.argmax(x, axis=1))
    for got, want in zip(ec.compile(places)(x), places(x), strict=True):
        np.testing.assert_array_equal(got, want)
    apart = ec.compile(lambda a, b: np.argmax((a + 0 * b).max(axis=0)))
    assert apart(np.ones((9, 1)), np.ones((9, 20))) == 0


@pytest.mark.parametrize("loose", ["contract", "reassociate"])
@pytest.mark.parametrize("shape", [(5000, 3), (3, 5000), (300, 7), (50, 40), (9, 400)])
def test_loose_functions_find_a_place(shape, loose):
    """The compiler may round a value in two ways: it is not looked for by what it is."""
    a, b = RNG.standard_normal((2, *shape))
    for axis in (0, 1):
        f = ec.compile(lambda a, b: np.argmax(a * b + a - b, axis=axis), **{loose: True})  # noqa: B023
        found = np.take_along_axis(a * b + a - b, np.expand_dims(f(a, b), axis), axis)
        np.testing.assert_allclose(found.squeeze(axis), (a * b + a - b).max(axis=axis), rtol=1e-13)


def test_passes():
    """Where two passes take less time than one, and every loop rounds alike, there are two."""

    a = RNG.standard_normal((3000, 5))
    assert "min1" in ec.compile(lambda a: np.argmin(a * 3 + 1, axis=0)).dump(a)
    assert "argmin0_1" in ec.compile(lambda a: np.argmin(a * 3 + 1, axis=0), contract=True).dump(a)
    for columns, twice in ((8, True), (20, False), (30, True), (60, True), (100, False)):
        rows = a.reshape(-1, columns) if columns != 8 else a[:, :4]
        assert (": min along" in ec.compile(lambda a: np.argmax(a, axis=1)).dump(rows)) == twice
    assert ": min along" not in ec.compile(lambda a: np.argmax(np.exp(a), axis=1)).dump(a.reshape(-1, 60))
