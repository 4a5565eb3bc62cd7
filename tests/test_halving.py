"""float16 that is converted block by block, before and after loops over floats."""

import numpy as np
import pytest

import elemc as ec

from .helpers import layouts, sample

EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.float16)

VALUES = {
    "sum": lambda x, y, f: x + y,
    "rounded": lambda x, y, f: x * y + x / y - 1,
    "chosen": lambda x, y, f: np.where(x > 0, x, y),
    "compared": lambda x, y, f: x > y,
    "floats": lambda x, y, f: x * f + y,
    "function": lambda x, y, f: np.exp(-abs(x)),
    "bytes": lambda x, y, f: (abs(x) * 10).astype("uint8"),
    "two": lambda x, y, f: (x - y, x * f),
    "shifted": lambda x, y, f: x[1:] - x[:-1],
    "every other": lambda x, y, f: x[::2] * 2,
    "reversed": lambda x, y, f: x[::-1] + y,
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name):
    """Blocks that are full, and the ends of them; nothing behind these is written."""
    of = VALUES[name]
    compiled, add = ec.compile(of), ec.compile(lambda x, y: x + y)
    for size in (1, 2, 15, 16, 17, 127, 128, 129, 1000):
        x, y = sample("float16", (2, size + 1), size, (-5, 5))
        x, y, f = x[1:], y[:-1], sample("float32", size, 3)
        got, want = compiled(x, y, f), of(x, y, f)
        for g, w in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, want)), strict=True):
            assert g.dtype == w.dtype
            rtol = {"function": 2e-3, "floats": 1e-6, "two": 1e-6}.get(name, 0)
            np.testing.assert_allclose(g, w, rtol=rtol, atol=rtol)
        wide = np.full(size + 40, 7, np.float16)
        add(x, y, out=wide[20:-20])
        np.testing.assert_array_equal(wide[20:-20], x + y)
        assert (wide[:20] == 7).all() and (wide[-20:] == 7).all()


def test_every_number_there_and_back():
    """Subnormal numbers, infinities, signs of zeros and NaN are what they were."""
    f = ec.compile(lambda x: np.where(x != 0, x, x))
    got = f(EVERY)
    nan = np.isnan(EVERY)
    np.testing.assert_array_equal(np.isnan(got), nan)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(EVERY))
    np.testing.assert_array_equal(got[~nan].view("u2"), EVERY[~nan].view("u2"))
    with np.errstate(all="ignore"):
        for of in (lambda x: x * x, lambda x: x / 3, lambda x: x + np.float16(0.1)):
            np.testing.assert_array_equal(ec.compile(of)(EVERY), of(EVERY))


def test_layouts_and_modes():
    """Lines of memory are converted in blocks, all else one by one."""
    f, r = ec.compile(lambda x, r: x * r + x), sample("float16", 200, 1)
    for name, x in layouts(sample("float16", (30, 200))):
        want = np.array(x) * r + np.array(x)
        np.testing.assert_array_equal(f(x, r), want, err_msg=name)
        out = np.full((30, 200), 7, np.float16)
        f(x, r, out=out, where=want > 0)
        np.testing.assert_array_equal(out, np.where(want > 0, want, 7), err_msg=name)
        out[:] = 7
        f(x, r, out=out, req="add")
        np.testing.assert_array_equal(out, want + np.float16(7), err_msg=name)
    x = sample("float16", (30, 200))
    want = x * r + x
    f(x, r, out=x)
    np.testing.assert_array_equal(x, want)


def test_where_blocks_are_worth_it():
    """Not for what is only converted to be stored, and along lines only."""
    def blocks(of, *arrays):
        return "elemc_floats_of_halves(" in ec.compile(of).dump(*arrays).split("int kernel")[1]

    x = np.ones((300, 300), np.float16)
    assert blocks(lambda x: x * 2, x) and blocks(lambda x: x > 1, x)
    assert blocks(lambda x: x * x[0], x) and not blocks(lambda x: x.astype("f4"), x)
    assert not blocks(lambda x: x[:, ::2] > 1, x) and not blocks(lambda x: x.sum(axis=1), x)
