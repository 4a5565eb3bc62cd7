"""Integers divided by constants: products, with the bits of divisions."""

import numpy as np
import pytest

import elemc as ec
from elemc import build

from .helpers import assert_same_bits, compile_together

pytestmark = pytest.mark.optimized

RNG = np.random.default_rng(3)
CONSTANTS = [3, 10, -7, 255, 127.5, 1e6, 1 / 3, 2.0**23 - 1, -1.7e-7, 1 + 2.0**-23, 2 - 2.0**-23,
             2.0**20 - 1, -(2.0**-20) * (2.0**20 - 3)]
# By these, two products give another number than the nearest for 137, 119, 61, 89; 11, 21, 251.
CLOSE = {"f4": [1.2255758, 1.47099817, 1.946545, 1.762236],
         "f8": [1.2295316137140675, 1.649658962044408, 1.312382225751734, 2.0**49 - 1]}


@pytest.fixture(params=[0, 1], ids=["multiplies", "divides"], autouse=True)
def machine(request, monkeypatch):
    """Machines that are slow and quick to divide."""
    real = build.machine_constants(build.toolchain())
    monkeypatch.setattr(build, "machine_constants", lambda tool: real._replace(divides=request.param))


def integers(dtype):
    """All of them, or the ends, zeros, and some of every number of bits."""
    info = np.iinfo(dtype)
    if info.bits <= 16:
        return np.arange(info.min, info.max + 1).astype(dtype)
    few = np.arange(1, 256).astype(dtype)
    some = RNG.integers(0, 2**63, 20_000) >> RNG.integers(0, 63, 20_000)
    return np.concatenate([few, some.astype(dtype), np.array([0, info.min, info.max, 1], dtype),
                           np.array([info.max], dtype) // RNG.integers(1, 9, 50).astype(dtype)])


def over(y, dtype):
    """A function that divides by this constant."""
    return lambda x: x.astype(dtype) / y


@pytest.mark.parametrize("flags", ["", "-mno-fma -mno-avx512f"], ids=["", "no fma"])
@pytest.mark.parametrize("result", ["f4", "f8"])
@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u8"])
def test_every_bit(dtype, result, flags, monkeypatch):
    monkeypatch.setenv("ELEMC_CFLAGS", flags)
    x, numbers = integers(dtype), np.array(CONSTANTS + CLOSE[result], result)
    if result == "f8":
        numbers = np.concatenate([numbers, np.exp(RNG.normal(size=5) * 9)])
    quotients = [ec.compile(over(y, result)) for y in numbers]
    compile_together((f, [x]) for f in quotients)
    for f, y in zip(quotients, numbers, strict=True):
        assert_same_bits(f(x), x.astype(result) / y)


@pytest.mark.parametrize("of", [
    lambda x, y: (x - 128) / 127.5, lambda x, y: -(x * y) / 3, lambda x, y: abs(x + y) / -7,
    lambda x, y: (x * x * x - y) / 1e6, lambda x, y: (0 - x) / 9, lambda x, y: (x - 0.5) / 9,
    lambda x, y: x * x * (x * x) * (x * x) / 3, lambda x, y: np.maximum(x, y) / 11,
])
@pytest.mark.parametrize("result", ["f4", "f8"])
@pytest.mark.parametrize("dtype", ["u1", "i2", "i8"])
def test_what_is_made_of_integers(dtype, result, of):
    x, y = RNG.permutation(integers(dtype))[:250], RNG.permutation(integers(dtype))[:250]

    def function(x, y):
        return of(x.astype(result), y.astype(result))

    with np.errstate(all="ignore"):
        want = function(x, y)
    assert_same_bits(ec.compile(function)(x, y), want)


def test_booleans_and_folds():
    x, m = RNG.integers(0, 255, (40, 300)).astype("u1"), RNG.random((40, 300)) > 0.5
    assert_same_bits(ec.compile(lambda m: m / 3)(m), m / 3)
    np.testing.assert_allclose(ec.compile(lambda x: (x / 255).sum())(x), (x / 255).sum(), 1e-13)
    assert ec.compile(lambda x: (x / 255).max())(x) == (x / 255).max()


def test_the_c():
    def text(function, dtype="u1"):
        return ec.compile(function).dump(np.ones(9, dtype))

    assert "ratio_f64((double)" in text(lambda x: x / 255)
    assert "ratio_f64(f64_of_i64(" in text(lambda x: (x / 255).sum(), "i8")
    assert "ratio_f32((float)" in text(lambda x: x.astype("f4") / 255)
    assert "divide_by_f64((double)" in text(lambda x: x / 0.3)
    assert "divide_by_f32((float)" in text(lambda x: x.astype("f4") / np.float32(2**21 - 1), "i4")
    for function in (lambda x: x / 256, lambda x: x / 1e40, lambda x: x / 0, lambda x: 255 / x,
                     lambda x: np.sqrt(x) / 3, lambda x: x.astype("f2") / 255):
        assert "ratio_" not in text(function) and "divide_by_" not in text(function)


def test_without_fused_multiplications_they_are_divided():
    z, k = np.ones(9, "c16"), np.arange(9)
    f = ec.compile(lambda z, k: z * (k / 0.3))
    assert_same_bits(f(z, k), z * (k / 0.3))
    meta = f.specializations[0].kernel.path.with_name("meta.json").read_text()
    assert "-DDIVIDES=1" in meta or "-mno-fma" not in meta
