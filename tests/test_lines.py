"""Loops that write lines of memory: they find where a line begins, wherever their outputs do."""

import numpy as np
import pytest

import elemc as ec

LENGTHS = (1, 7, 127, 128, 129, 191, 300)
SUMS = {1: lambda x: x + 1, 2: lambda x, y: x + y + 1, 3: lambda x, y, z: x + y + z + 1}


def placed(shape, dtype, place):
    """A new array of noughts that begins `place` bytes into a page."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    whole = np.zeros(size + 2 * 4096, np.uint8)
    start = -whole.ctypes.data % 4096 + place
    return whole[start:start + size].view(dtype).reshape(shape), whole


@pytest.mark.parametrize("dtype", ["i1", "f2", "f4", "f8", "c16"])
@pytest.mark.parametrize("place", [0, 1, 16, 24, 63])
def test_outputs_may_begin_anywhere(dtype, place):
    f = ec.compile(lambda x, y: x * y + x)
    rng = np.random.default_rng(0)
    for n in LENGTHS:
        for shape in ((n,), (5, n)):
            x = rng.integers(-5, 5, shape).astype(dtype)
            y = rng.integers(-5, 5, shape[-1:]).astype(dtype)
            out, whole = placed(shape, dtype, place)
            assert f(x, y, out=out) is out
            np.testing.assert_array_equal(out, x * y + x)
            out[...] = 0
            assert not whole.any()  # nothing beside it was written


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4"])
def test_three_operands_are_read_in_lines_of_the_largest(dtype):
    f = ec.compile(lambda x, g, b: x * g + b)
    for n in (130, 300, 1100):
        for place in (0, 8, 40):
            x, _ = placed((4, n), dtype, place)
            g, b = np.arange(2 * n).reshape(2, n).astype(dtype)
            x[:] = np.arange(4 * n).reshape(4, n).astype(dtype)
            out, whole = placed((4, n), dtype, 48)
            np.testing.assert_array_equal(f(x, g, b, out=out), x * g + b)
            out[...] = 0
            assert not whole.any()  # nothing beside it was written
    assert "TO_LINE(x_p" in f.dump(x, g, b)


@pytest.mark.parametrize("n", LENGTHS)
def test_an_output_may_be_an_input(n):
    f = ec.compile(lambda x, y: x * y + x)
    for place in (0, 8, 40):
        x, _ = placed((4, n), "f8", place)
        x[:] = np.arange(4 * n).reshape(4, n)
        want = x * x[:1].copy() + x
        f(x, x[:1].copy(), out=x)
        np.testing.assert_array_equal(x, want)


def test_short_rows_do_not_look_for_lines():
    f = ec.compile(lambda x, y: x * y[:, None])
    for n, expected in ((16, False), (100, False), (128, True), (1000, True)):
        text = f.dump(np.ones((50, n)), np.ones(50))
        assert ("TO_LINE(z_p" in text) == expected


def test_functions_do_not_fill_lines_at_once():
    x = np.ones(1000)
    assert "TO_LINE" not in ec.compile(lambda x: np.exp(x)).dump(x)
    assert "TO_LINE" in ec.compile(lambda x: np.sqrt(x)).dump(x)


@pytest.mark.parametrize("places", [(16,), (2000,), (16, 2064), (3152, 352), (100, 3000, 2040)])
def test_new_outputs_are_not_just_ahead_of_inputs(places):
    arrays = [placed((1 << 16,), "f8", place)[0] for place in places]
    f = ec.compile(SUMS[len(arrays)])
    for _ in range(3):
        out = f(*arrays)
    assert out.ctypes.data % 64 in [a.ctypes.data % 64 for a in arrays]
    ahead = [(out.ctypes.data - a.ctypes.data) % 4096 for a in arrays]
    assert min(d or 4096 for d in ahead) >= (2048 if len(arrays) < 3 else 1024) - 64
    np.testing.assert_array_equal(out, 1)
