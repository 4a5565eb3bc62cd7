"""Short rows that go several at a time, with copies of what they share beside each other."""

import numpy as np
import pytest

import elemc as ec

from .helpers import compile_together, layouts, sample

VALUES = {
    "less": lambda x, r, s: x > r,
    "scaled": lambda x, r, s: (x - r) * s,
    "chosen": lambda x, r, s: np.where(x > 0, x, x[0]),
    "function": lambda x, r, s: np.exp(-np.abs(x * r)) + s,
    "hoisted": lambda x, r, s: x * np.exp(r * 0.1),
    "centered": lambda x, r, s: x - x.mean(axis=0, dtype="f8"),
    "waiting": lambda x, r, s: np.log(1 + np.exp(x * 0.1 - np.exp(r * 0.1))),
    "two": lambda x, r, s: (x * r, x + s[0]),
}
ROWS = (1, 2, 8, 9, 64, 65, 700)
COLUMNS = (2, 3, 5, 8, 17, 20, 33, 64, 100, 127, 128)


def tables(dtype):
    """Tables of many sizes, with two rows each."""
    for k, columns in enumerate(COLUMNS):
        for n in {ROWS[k % len(ROWS)], ROWS[-1 - k % 2]}:
            yield (sample(dtype, (n, columns), k, (-5, 5)),
                   *sample("float32" if dtype != "float64" else dtype, (2, columns), n, (1, 3)))


def same(got, want):
    """Equal but for the last digits of functions and sums."""
    for g, w in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, want)), strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape
        rtol = {"f": 2e-3, "e": 4e-3, "d": 1e-6}.get(w.dtype.char, 0)
        np.testing.assert_allclose(g, w, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "float16", "float32", "float64"])
@pytest.mark.parametrize("name", VALUES)
def test_values(name, dtype):
    """Rows of any number and length; what elements are does not depend on what lies beside them."""
    of = VALUES[name]
    if dtype == "bool":
        of = {"less": lambda x, r, s: x & (r > 2), "chosen": lambda x, r, s: x | x[0]}.get(name, of)
    f = ec.compile(of)
    every = [*tables(dtype)]
    compile_together((f, args) for args in every)
    for args in every:
        same(f(*args), of(*args))


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64"])
def test_layouts(dtype):
    """Only rows that lie one behind the other are one: in any order of memory."""
    f = ec.compile(lambda x, r: x * r + r)
    r = sample("float32", 20, 1)
    for name, x in layouts(sample(dtype, (70, 20))):
        want = np.array(x) * r + r
        np.testing.assert_allclose(f(x, r), want, rtol=1e-6, err_msg=name)
        out = np.full((72, 20), 7, want.dtype)
        f(x, r, out=out[1:-1])
        np.testing.assert_allclose(out[1:-1], want, rtol=1e-6, err_msg=name)
        assert (out[[0, -1]] == 7).all()


def test_crops_channels_and_masks():
    """Rows within rows; what has a size of its own in either is in the way."""
    image = sample("uint8", (31, 42, 3), 2, (0, 9))
    weights, row = sample("float32", 3, 3), sample("float32", (42, 1), 4)
    f = ec.compile(lambda x, w: (x - w) * 2)
    for part in (image, image[3:-3, 5:-5], image[::2, ::2], image[::-1, ::-1, ::-1],
                 np.moveaxis(image, 2, 0).copy().transpose(1, 2, 0)):
        np.testing.assert_allclose(f(part, weights), (part - weights) * 2, rtol=1e-6)
    both = ec.compile(lambda x, w, r: x * w + r)
    np.testing.assert_allclose(both(image, weights, row), image * weights + row, rtol=1e-6)
    out, mask = np.zeros((31, 42, 3), "f4"), image > 4
    f(image, weights, out=out, where=mask)
    np.testing.assert_allclose(out, np.where(mask, (image - weights) * 2, 0), rtol=1e-6)


@pytest.mark.parametrize("threads", [1, 3])
def test_any_number_of_threads(threads):
    """Each begins where it begins, with copies of its own."""
    f, before = ec.compile(lambda x, r: np.exp(x * r)), ec.get_num_threads()
    x, r = sample("float32", (40001, 7), 1, (0, 1)), sample("float32", 7, 2)
    ec.set_num_threads(threads)
    try:
        np.testing.assert_allclose(f(x, r), np.exp(x * r), rtol=1e-6)
    finally:
        ec.set_num_threads(before)


def test_the_row_is_one_of_the_rows_that_are_written():
    """It is copied before it changes."""
    f = ec.compile(lambda x: x - x[3])
    x = sample("float32", (500, 20))
    want = x - x[3]
    f(x, out=x)
    np.testing.assert_array_equal(x, want)


@pytest.mark.parametrize("dtype, columns, repeated", [
    ("float32", 20, True), ("float32", 16, False), ("float64", 20, True), ("float64", 70, False),
    ("float64", 8, False), ("uint8", 100, True), ("uint8", 128, False), ("float32", 3, True)])
def test_where_it_pays(dtype, columns, repeated):
    """Rows that fill vectors, and long ones, are left as they are."""
    x = np.ones((1000, columns), dtype)
    assert ("repeat(" in ec.compile(lambda x: x + x[0]).dump(x)) == repeated
    nest = ec.compile(lambda x: x + x[0]).dump(x, stage="nest")
    assert ("repeated for some" in nest) == repeated
