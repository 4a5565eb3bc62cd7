"""What fills no vector at the end of a row is computed in one, with elements that are there."""

import ctypes
import mmap
import sys

import numpy as np
import pytest

import elemc as ec
from elemc import build

from .helpers import assert_same_bits, compile_together

pytestmark = pytest.mark.optimized

RNG = np.random.default_rng(5)
LENGTHS = [*range(1, 36), 47, 63, 64, 65, 100]


def bell(x, y):
    return np.exp(-(x + y) * x)


def both(x, y):
    return np.exp(x * y), np.exp(x * y).sum(axis=1), np.exp(x * y).max(axis=1)


def softmax(x, y):
    e = np.exp(x * y - (x * y).max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def normal(*shape, dtype):
    return RNG.normal(size=shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", ">f4", "i4"])
def test_rows_of_every_length_have_the_bits_of_one_row(dtype):
    f = ec.compile(bell)
    pairs = [(normal(7, length, dtype=dtype), normal(length, dtype=dtype)) for length in LENGTHS]
    compile_together((f, (z, y)) for x, y in pairs for z in (
        x, x[:, ::-1], np.repeat(x, 2, axis=1)[:, ::2]))
    for x, y in pairs:
        want = f(x.ravel(), np.tile(y, 7)).reshape(x.shape)
        assert_same_bits(f(x, y), want)
        assert_same_bits(f(x[:, ::-1], y)[:, ::-1], f(x, y[::-1]))
        assert_same_bits(f(np.repeat(x, 2, axis=1)[:, ::2], y), want)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_in_place_masked_and_added(dtype):
    f = ec.compile(bell)
    for length in LENGTHS:
        x, y = normal(5, length, dtype=dtype), normal(length, dtype=dtype)
        want, mask = f(x, y), normal(5, length, dtype=dtype) > 0
        out = x.copy()
        f(x, y, out=out, req="add")
        np.testing.assert_array_equal(out, x + want)
        out = x.copy()
        f(x, y, out=out, where=mask)
        np.testing.assert_array_equal(out, np.where(mask, want, x))
        f(x, y, out=x)
        assert_same_bits(x, want)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("function", [both, softmax])
def test_rows_that_are_folded_too(function, dtype):
    f, product, pairs = ec.compile(function), ec.compile(lambda x, y: np.exp(x * y)), [
        (normal(9, length, dtype=dtype), normal(length, dtype=dtype)) for length in LENGTHS]
    compile_together((g, pair) for g in (f, product)[:1 + (function is both)] for pair in pairs)
    for x, y in pairs:
        results, wants = f(x, y), function(x, y)
        for got, want in zip(np.atleast_1d(results) if function is softmax else results,
                             np.atleast_1d(wants) if function is softmax else wants, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5 if dtype == "f4" else 1e-13)
        if function is both:
            assert_same_bits(results[0], product(x, y))
            assert_same_bits(results[2], results[0].max(axis=1))


def test_a_fold_of_what_goes_on_from_element_to_element():
    decay = ec.Accumulator("decay", 0.0, lambda a, v: a * 0.75 + v)
    f = ec.compile(lambda x: (ec.scan(decay, x, 1).max(axis=1), ec.scan(decay, x, 1), np.exp(x)))
    for length in LENGTHS:
        x = normal(3, length, dtype="f8")
        states = np.zeros((3, length))
        for k in range(length):
            states[:, k] = (states[:, k - 1] if k else 0) * 0.75 + x[:, k]
        most, scanned, exp = f(x)
        np.testing.assert_allclose(scanned, states, rtol=1e-12)
        np.testing.assert_array_equal(most, scanned.max(axis=1))
        assert_same_bits(exp, ec.compile(np.exp)(x.ravel()).reshape(x.shape))


def columns(x, y):
    e = np.exp(x * y - (x * y).max(axis=0))
    return e / e.sum(axis=0), np.sin(x).max(axis=0), np.exp(x).sum(axis=0)


def staged(x, y):
    return np.sin(np.exp(-np.abs(x * y))) + y


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("function", [columns, staged])
def test_strips(function, dtype):
    f = ec.compile(function)
    pairs = [(normal(70, n, dtype=dtype), normal(n, dtype=dtype)) for n in LENGTHS[::2]]
    compile_together((f, pair) for pair in pairs)
    for x, y in pairs:
        results, wants = f(x, y), function(x, y)
        for got, want in zip(results if function is columns else [results],
                             wants if function is columns else [wants], strict=True):
            np.testing.assert_allclose(got, want, **(
                {"rtol": 2e-5, "atol": 1e-6} if dtype == "f4" else {"rtol": 1e-13, "atol": 1e-15}))
        if function is columns:
            assert_same_bits(results[1], ec.compile(np.sin)(x).max(axis=0))
        else:
            assert_same_bits(results, f(x.ravel(), np.tile(y, 70)).reshape(x.shape))


def test_strips_of_what_goes_on_from_row_to_row():
    cell = ec.Accumulator("cell", 0.0, lambda a, v: np.tanh(a * 0.5 + v))
    f = ec.compile(lambda x: (ec.scan(cell, x, 0), ec.accumulate(cell, x, axis=0)))
    for length in LENGTHS:
        x = normal(20, length, dtype="f8")
        states, last = f(x)
        apart = np.stack([f(x[:, k:k + 1])[0][:, 0] for k in range(length)], axis=1)
        assert_same_bits(states, apart)
        assert_same_bits(last, apart[-1])


@pytest.mark.parametrize("dtype", [
    pytest.param(dtype, marks=pytest.mark.optimized(dtype in ("f4", "f8")))
    for dtype in ("f4", "f8", "u1", "f2")])
@pytest.mark.parametrize("step", [2, 3, -2, 5])
def test_what_lies_between_is_dropped(dtype, step):
    total, norms = ec.compile(lambda x: np.sum(x)), ec.compile(lambda x: (x * x).sum(axis=-1))
    lowest = ec.compile(lambda x: x.min(axis=-1))
    calls = []
    for shape in [(10_003,), (9, 16), (9, 17), (3, 331)]:
        near = (RNG.random((*shape, abs(step))) * 9).astype(dtype)
        if near.dtype.kind == "f":
            near[..., 1:] = RNG.choice([np.nan, np.inf, 1e-42], size=near[..., 1:].shape)
        x = near.reshape(*shape[:-1], -1)[..., ::abs(step)]
        x = x if step > 0 else x[..., ::-1]
        calls += [(f, x) for f in (norms, lowest, *[total] * (len(shape) == 1))]
    compile_together((f, [y]) for f, x in calls for y in (x, x.copy()))
    for f, x in calls:
        assert_same_bits(f(x), f(x.copy()))


@pytest.mark.parametrize("dtype, step, lanes", [
    ("i2", 2, "LANES_64"), ("i2", 3, "LANES_32"), ("i2", 5, None), ("f8", 2, None)])
def test_extrema_have_fewer_lanes_where_more_do_not_fit(dtype, step, lanes):
    highest = ec.compile(lambda x: x.max())
    x = (RNG.random(1000 * step) * 1000).astype(dtype)
    text = highest.dump(x[::step])
    assert (f"_wide[{lanes} * {step}]" in text) == (lanes is not None) == ("_wide" in text)
    assert highest(x[::step]) == x[::step].max()


def test_steps_are_known_beside_lanes():
    """But not in them, and not where functions are called."""
    centred, softmax = (ec.compile(lambda x, f=f: f(x) - f(x).mean()) for f in (lambda x: x, np.exp))
    x = RNG.random(200)[::2]
    text = centred.dump(x)
    assert "AT(const double, x_p, i0 * 16) - " in text
    assert "x_s0 = s[0]" in text and "i0 * 16" not in softmax.dump(x)
    np.testing.assert_allclose(centred(x), x - x.mean(), atol=1e-15)


APART = [2, 3, 5, -1, -2, -4]


def few_apart(x, step):
    """The elements of `x` in another array, of which they lie `step` apart."""
    near = np.full((len(x), x.shape[1] * abs(step)), -1, x.dtype)
    there = near[:, ::step]
    there[:] = x
    return there


@pytest.mark.parametrize("step, dtype, other", [
    (2, "f8", "f4"), (3, "f4", "u1"), (5, "i2", "f8"), (-1, "f8", "f4"), (-2, "f4", "u1"),
    (-4, "i2", "f8")])
def test_calls_and_choices_of_what_lies_apart(step, dtype, other):
    for function in (
        lambda x, y: np.where(x > y, 1.5, -1) * np.tanh(x),
        lambda x, y: np.where(x > y, x, y * x),
        lambda x, y: (x > y).any(axis=1),
        lambda x, y: np.log1p(np.abs(x)) - (x * y).sum(axis=1, keepdims=True),
    ):
        f, pairs = ec.compile(function), []
        for length in (8, 17, 33):
            x, y = (RNG.normal(size=(5, length)) * 3).astype(dtype), normal(length, dtype="f8")
            pairs.append((x, np.abs(y * 3).astype(other)))
        compile_together((f, [z, y]) for x, y in pairs for z in (x, few_apart(x, step)))
        for x, y in pairs:
            want = f(x, y)
            assert_same_bits(f(few_apart(x, step), y), want)
            if want.ndim == 2:
                np.testing.assert_array_equal(f(few_apart(x, step), y, out=want * 0), want)


@pytest.mark.parametrize("step", APART)
@pytest.mark.parametrize("function", [
    np.exp, lambda x: np.where(x > 0.5, x, -x), lambda x: np.where(x > 0.5, 1.5, -1),
    lambda x: (x > 0.5) * np.float64(1), lambda x: (x > 0.5).astype("int16")])
def test_what_lies_apart_is_computed_in_vectors(function, step):
    if build.toolchain().family != "gcc":
        pytest.skip("what gcc makes vectors of")
    for dtype, length in (("f4", 40), ("f8", 100)):
        x = few_apart(normal(4, length, dtype=dtype), step)
        text = ec.compile(lambda x: function(x)).dump(x, stage="vectorization")
        assert "scalar" not in text, text


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape, axis", [
    ((40, 3, 7), None), ((40, 2, 9), None), ((40, 3, 7), 0), ((40, 2, 9), 0),
    ((40, 3, 2, 8), (0, 3)), ((40, 3, 12), (0, 2)), ((40, 3, 15), (0, 2)), ((40, 2, 11), 2)])
def test_functions_of_rows_of_a_few_elements(shape, axis, dtype):
    """They are called of vectors, also where gcc would unroll the loop, or add one by one."""
    x, g = normal(*shape[:-1], shape[-1] + 1, dtype=dtype)[..., :-1], normal(*shape[1:], dtype=dtype)
    x = x.copy() if axis in (None, 0) else x  # whose rows of 3 times 7 are one

    def function(x, g):
        return np.exp(x) * g if axis is None else (np.exp(x) * g).sum(axis=axis)

    f = ec.compile(function)
    np.testing.assert_allclose(f(x, g), function(x, g), rtol=1e-5, atol=1e-5)
    if build.toolchain().family == "gcc" and build.toolchain().simd:
        text = f.dump(x, g, stage="vectorization")
        loops = [line for line in text.splitlines() if "INDEPENDENT" in line or "UNROLL" in line]
        assert loops and all("vectorized, " in line for line in loops), text


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect")
@pytest.mark.parametrize("step", [2, 3, 4])
def test_nothing_beyond_the_ends_is_read(step):
    total, top = ec.compile(lambda x: np.sum(x)), ec.compile(lambda x: np.max(x))
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 6 * page)
    whole = np.frombuffer(memory, np.float32)
    whole[:] = 1
    libc = ctypes.CDLL(None, use_errno=True)
    for at in (0, 5 * page):  # as if nothing were there
        assert libc.mprotect(ctypes.c_void_p(whole.ctypes.data + at), page, 0) == 0
    inside = whole[page // 4:-page // 4]
    for length in (16, 17, 32, 33, 1000):
        last, first = inside[-1 - (length - 1) * step::step], inside[:1 + (length - 1) * step:step]
        for x in (last, first, last[::-1], first[::-1]):
            assert len(x) == length and total(x) == length and top(x) == 1


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int16"])
def test_masks_choose_in_vectors(dtype):
    """Beside masks rows have as many lanes as a vector has bytes; no other fold has a say in that."""
    rng = np.random.default_rng(5)
    s, m = ec.matrix("s", dtype), ec.matrix("m", bool)
    alone = ec.function([s], s.sum(axis=1))
    both = ec.function([s, m], [s.sum(axis=1), ec.where(m, s, 0).sum(axis=1), (s * m).sum(axis=1),
                                ec.where(m, 0, s).sum(axis=1), ec.where(m, s, -9).max(axis=1)])
    mean = ec.compile(lambda x, m: np.mean(x, where=m))
    pairs = [((rng.random((40, n)) * 90).astype(dtype), rng.random((40, n)) < 0.5)
             for n in (3, 9, 16, 17, 63, 64, 65, 130, 5000)]
    compile_together((f, pair) for pair in pairs for f in (both, mean))
    for x, mask in pairs:
        mask[3], mask[4] = False, True
        got = both(x, mask)
        np.testing.assert_array_equal(got[0], alone(x))
        zero = np.zeros_like(x)
        for g, kept in zip(got[1:4], (np.where(mask, x, zero), x * mask, np.where(mask, zero, x)),
                           strict=True):
            np.testing.assert_allclose(g, kept.sum(axis=1), rtol=1e-5 if dtype == "float32" else 1e-13)
        np.testing.assert_array_equal(got[4], np.where(mask, x, -9).max(axis=1))
        np.testing.assert_allclose(mean(x, mask), np.mean(x, where=mask), rtol=1e-5)
    assert "LANES_64" in both.dump(x, mask)


def test_truth_is_0_or_1():
    odd = np.array([0, 1, 2, 128, 255] * 40, "u1").view(bool)
    x = np.arange(200.0)
    np.testing.assert_array_equal(ec.compile(lambda m, x: m * x)(odd, x), (odd != 0) * x)
    assert ec.compile(lambda m, x: np.sum(m * x))(odd, x) == np.sum((odd != 0) * x)


@pytest.mark.parametrize("n", [17, 40, 300, 5000])
def test_what_is_stored_beside_folds_of_scans(n):
    """A fold of a scan does not end in lanes: these are merged before it goes on."""
    f = ec.compile(lambda x: (x + 1, x.cumsum(axis=1).sum(axis=1), x.sum(axis=1),
                              x.cumsum(axis=1).max(axis=1)))
    x = RNG.standard_normal((16, n))
    c = x.cumsum(axis=1)
    for out, want in zip(f(x), (x + 1, c.sum(axis=1), x.sum(axis=1), c.max(axis=1)), strict=True):
        np.testing.assert_allclose(out, want, rtol=1e-10, atol=1e-10)
    again = x.copy()
    assert_same_bits(f(again, out=(again, None, None, None))[1], f(x)[1])


@pytest.mark.parametrize("flags", ["", "-mno-avx512f", "-mno-avx"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lanes_of_extrema_are_searched_for_nan(dtype, flags, monkeypatch):
    """The lanes of short rows are merged by a function, with the results of any others."""
    monkeypatch.setenv("ELEMC_CFLAGS", flags)
    x = np.random.default_rng(0).standard_normal((40, 520)).astype(dtype)
    x[:, ::7] *= 0.0  # of either sign
    f = ec.compile(lambda x: (x.max(axis=1), x.min(axis=1), x.max(axis=1) - x.sum(axis=1) * 0))
    every = 16, 17, 31, 32, 33, 64, 100, 511, 512, 513
    compile_together((f, [x[:, :columns]]) for columns in every)
    for odd in (0, 0.01):
        x[np.random.default_rng(1).random(x.shape) < odd] = np.nan
        for columns in every:
            part = x[:, :columns]
            for got, want in zip(f(part), (part.max(axis=1), part.min(axis=1), part.max(axis=1)),
                                 strict=True):
                np.testing.assert_array_equal(got, want)
            assert ("maximum_of_lanes" in f.dump(part)) == (columns < 512)
    assert "of_lanes" not in ec.compile(lambda x: x.max(axis=1)).dump(np.ones((40, 20), int))


@pytest.mark.parametrize("columns", [16, 17, 24, 25, 31, 33, 40, 47, 127])
def test_of_what_is_dear_only_the_lanes_that_are_left(columns):
    """Half of them, if as many fill a vector; the others keep what they have."""
    x = np.random.default_rng(columns).standard_normal((40, columns))
    sums, most = ec.compile(lambda x: np.exp(x).sum(axis=1)), ec.compile(
        lambda x: np.sin(x).max(axis=1))
    np.testing.assert_allclose(sums(x), np.exp(x).sum(axis=1), rtol=1e-14)
    np.testing.assert_allclose(most(x), np.sin(x).max(axis=1), rtol=1e-15)
    assert np.isnan(most(np.where(np.arange(columns) == columns - 1, np.nan, x))).all()
    halves = "LANES / 2; l < LANES; l++"
    assert halves in sums.dump(x) and halves not in sums.dump(x.astype("f4"))
    assert halves not in sums.dump(np.ones((40, 300)))
