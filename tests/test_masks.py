"""Folds of what masks choose, of narrow elements beside wide ones, in rows of any length."""

import numpy as np
import pytest

import elemc as ec
from elemc import build

from .helpers import compile_together
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
    lambda x, y, m: np.where(m, x * 1.0, -9.0),
]
FOLDS = [
    lambda a, x, m, axis: np.sum(a, axis=axis),
    lambda a, x, m, axis: np.mean(a, axis=axis) + np.max(x * 1.0, axis=axis),
    lambda a, x, m, axis: np.max(a, axis=axis) - np.min(x * 1.0, axis=axis),
    lambda a, x, m, axis: np.sum(a, axis=axis, where=m),
    lambda a, x, m, axis: np.std(a, axis=axis),
    lambda a, x, m, axis: np.min(a, axis=axis) + np.max(a * 1.0, axis=axis, where=m, initial=2),
    lambda a, x, m, axis: np.max(a * 1.0, axis=axis, where=m, initial=0.5),
    lambda a, x, m, axis: np.prod(a * 0.01, axis=axis, where=m),
    lambda a, x, m, axis: a - np.max(a * 1.0, axis=-1, keepdims=True),
    lambda a, x, m, axis: np.argmax(a, axis=axis if isinstance(axis, int) else None),
    lambda a, x, m, axis: a,
]


def fold_of_a_choice(number):
    """A function, its arrays, and what it should give."""
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
    f = ec.compile(lambda x, y, m: fold(value(x, y, m), x, m, axis))
    return f, (x, y, m), np.asarray(fold(value(x, y, m), x, m, axis))


@pytest.mark.parametrize("first", range(0, 154, 11))
def test_folds(first):
    cases = [fold_of_a_choice(number) for number in range(first, first + 11)]
    compile_together((f, arrays) for f, arrays, _ in cases)
    for f, arrays, want in cases:
        single = np.float32 in (want.dtype, arrays[0].dtype, arrays[1].dtype)
        np.testing.assert_allclose(f(*arrays), want, rtol=1e-4 if single else 1e-11,
                                   atol=1e-3 if single else 1e-10)
        np.testing.assert_array_equal(f(*arrays), f(*arrays))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "uint8"])
@pytest.mark.parametrize("columns", [2, 5, 8, 63])
def test_short_rows(columns, dtype):
    """What a mask chooses of a row, of a column, and of all, with rows that fill no vector."""
    rng = np.random.default_rng(columns)
    x = rng.integers(0, 90, (37, columns)).astype(dtype)
    m = rng.random(x.shape) < 0.5
    zero, last = x.dtype.type(0), x.dtype.type(99)
    every = (
        lambda x, m: np.where(m, x, x[:, :1]),
        lambda x, m: np.sum(np.where(m, x, zero), axis=1),
        lambda x, m: np.sum(np.where(m, x, zero), axis=0),
        lambda x, m: np.sum(x, axis=1, where=m) + np.min(np.where(m, x, last), axis=1),
        lambda x, m: np.max(np.where(m, x, zero), axis=(0, 1)),
        lambda x, m: x - np.max(np.where(m, x, zero), axis=1, keepdims=True),
    )
    compiled, laid = [ec.compile(of) for of in every], (x, x[::-1], np.asfortranarray(x))
    compile_together((f, [shown, m]) for f in compiled for shown in laid)
    for f, of in zip(compiled, every, strict=True):
        for shown in laid:
            np.testing.assert_array_equal(f(shown, m), of(shown, m))


def test_no_branch_chooses():
    """Processors do not foresee masks: a row that fills no vector chooses by bits."""
    x, m = np.ones((50, 20)), np.ones((50, 20), bool)
    text = ec.compile(lambda x, m: np.where(m, x, x[:, :1])).dump(x, m)
    assert "choose_f64(" in text.split("kernel__lambda_")[-1]
    # one vector after the other chooses in flat arrays
    text = ec.compile(lambda x, m: np.where(m, x, 0.0)).dump(x[:, 0].copy(), m[:, 0].copy())
    assert "choose_f64(" not in text


NUMBERS = [
    lambda x, y: ((x > 0) & (y < 1)) * 1.5,
    lambda x, y: np.sqrt((x > 0) | (y < 1)),
    lambda x, y: np.sum(((x > 0) ^ (y < 1)) * 1.5, axis=-1),
    lambda x, y: np.mean(np.where((x > 0) & (y < 1), x, y) * (x > 0), axis=-1),
    lambda x, y: x * 2 + x.astype("float16") * y - np.where(x, y, 1.5),
    lambda x, y: (x.astype("float32") < x * 2) * 1.5 + (y > 0),
    lambda x, y: np.prod(np.where(y > 0, y.astype("float64"), 1), axis=-1),
    lambda x, y: np.max((x > 0) * y, axis=-1),
]


@pytest.mark.parametrize("x_dtype", ["bool", "uint8", "float16"])
@pytest.mark.parametrize("y_dtype", ["float32", "uint8", "bool"])
@pytest.mark.parametrize("place", [slice(None), slice(None, None, 3), slice(None, None, -1)])
def test_masks_as_numbers(x_dtype, y_dtype, place):
    """What masks, or bools with other bytes than 0 and 1, are as numbers, in vectors or alone."""
    rng = np.random.default_rng(0)
    compiled = [ec.compile(of) for of in NUMBERS]

    def made(dtype):
        bytes_ = rng.integers(0, 3, (3, 500)).astype("uint8")
        return bytes_.view(bool)[:, place] if dtype == "bool" else bytes_.astype(dtype)[:, place]

    pairs = [(made(x_dtype)[:, :n], made(y_dtype)[:, :n]) for n in (9, 70, 150)]
    compile_together((f, pair) for f in compiled for pair in pairs)
    for pair in pairs:
        plain = [a & True if a.dtype == bool else a for a in pair]  # NumPy counts bytes
        for f, of in zip(compiled, NUMBERS, strict=True):
            want = of(*plain)
            single = 1e-2 if want.dtype == np.float16 else 1e-5
            np.testing.assert_allclose(f(*pair), want, rtol=single)
            assert f(*pair).dtype == want.dtype


@pytest.mark.optimized
@pytest.mark.parametrize("number", range(len(NUMBERS)))
@pytest.mark.parametrize("step", [1, 3])
def test_masks_fill_vectors(number, step):
    if build.toolchain().family != "gcc" or not build.toolchain().simd:
        pytest.skip("what gcc makes vectors of")
    x, y = np.ones(3000 * step, bool)[::step], np.ones(3000 * step, np.float32)[::step]
    text = ec.compile(NUMBERS[number]).dump(x, y, stage="vectorization")
    loops = [line for line in text.splitlines() if "INDEPENDENT" in line or "UNROLL" in line]
    assert loops and not any("scalar" in line or "no remark" in line for line in loops), text


@pytest.mark.parametrize("storage", ["native", "swapped", "unaligned"])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16"])
@pytest.mark.parametrize("step", [-7, 2])
def test_narrow_elements_apart_beside_wide_ones(dtype, step, storage):
    """They are copied one by one for the vectors, here and at the end of the row."""
    rng = np.random.default_rng(0)
    folds = [lambda x, y: np.sum(x * y, axis=1), lambda x, y: np.max(x + y, axis=1),
             lambda x, y: np.count_nonzero(x > y, axis=1), lambda x, y: np.sum(x * y)]
    compiled = [ec.compile(fold) for fold in folds]

    def placed(array):
        array = np.ascontiguousarray(array[:, ::-1 if step < 0 else 1])
        apart = np.zeros((len(array), array.shape[1] * abs(step)), array.dtype)
        apart[:, ::abs(step)] = array
        if storage == "swapped":
            apart = apart.astype(apart.dtype.newbyteorder())
        elif storage == "unaligned":
            room = np.zeros(apart.nbytes + 1, "u1")[1:].view(apart.dtype).reshape(apart.shape)
            room[:] = apart
            apart = room
        return apart[:, ::step] if step > 0 else apart[:, ::abs(step)][:, ::-1]

    pairs = [(placed(rng.integers(0, 2, (3, n)).astype(dtype)),
              placed(rng.integers(-9, 9, (3, n)).astype(wide)))
             for n in (40, 64, 65, 300) for wide in ("float64", "int32")]
    compile_together((f, pair) for f in compiled for pair in pairs)
    for pair in pairs:
        for f, fold in zip(compiled, folds, strict=True):
            np.testing.assert_array_equal(f(*pair), fold(*pair))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_unsigned_extrema(dtype):
    """Of unsigned numbers gcc 12 makes `c ? min(a, b) : 0`, which it cannot compile if narrow."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.integers(0, 90, (5, 17, 33)).astype(dtype), 2, axis=-1)[..., ::2]
    m = (rng.random(x.shape) < 0.5)[..., ::-1]
    zero, last = x.dtype.type(0), x.dtype.type(np.iinfo(dtype).max)
    for f in (
        lambda x, m: np.min(np.where(m, x, zero), axis=1),
        lambda x, m: np.max(np.where(m, x, last), axis=1),
        lambda x, m: np.min(np.where(m, x, zero), axis=1) + np.max(x, axis=1),
        lambda x, m: np.max(np.where(m, x, zero), axis=1) - np.min(x, axis=1),
    ):
        np.testing.assert_array_equal(ec.compile(f)(x, m), f(x, m))


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "f4", "f8"])
@pytest.mark.parametrize("shape, axis", [((200, 16), 0), ((64, 12), 0), ((15, 3, 64, 16), (0, 2)),
                                         ((5, 40, 16), (0, 1)), ((300, 70), 0), ((40, 300), 1)])
def test_extrema_of_some_numbers_from_an_initial_one(dtype, shape, axis):
    """Narrow tables of small integers among them, at which gcc 12 failed."""
    rng = np.random.default_rng(0)
    x, m = rng.integers(0, 99, shape).astype(dtype), rng.random(shape) < 0.3
    def folded(name, initial):
        return lambda y, m: getattr(np, name)(y, axis=axis, where=m, initial=initial)

    folds, laid = [folded("min", 50), folded("max", 50), folded("sum", 3)], (
        x, np.repeat(x, 2, axis=-1)[..., ::2])
    compiled = [ec.compile(fold) for fold in folds]
    compile_together((f, [y, m]) for f in compiled for y in laid)
    for y in laid:
        for f, fold in zip(compiled, folds, strict=True):
            np.testing.assert_array_equal(f(y, m), fold(y, m))


def test_masks_beside_0():
    """What is greater than 0, or not 0, of masks are these."""
    mask = np.array([0, 1, 2, 1], "uint8").view(bool)
    for of in (lambda m: m > 0, lambda m: 0 < m, lambda m: m != 0, lambda m: m != np.False_):
        compiled = ec.compile(lambda m, of=of: np.where(of(m), 1.5, -1), static="of")
        np.testing.assert_array_equal(compiled(mask), [-1, 1.5, 1.5, 1.5])
        assert ", m_p, i0 * m_s0) != 0 ? 1.5 : -1.0;" in compiled.dump(mask)
