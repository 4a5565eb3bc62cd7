"""Products of complex numbers are rounded as written: nothing is contracted, wherever it stands."""

import operator
from dataclasses import dataclass

import numpy as np
import pytest

import elemc as ec
from elemc import build

from .helpers import assert_same_bits, compile_together

pytestmark = pytest.mark.optimized


@dataclass
class Parts:
    """Complex numbers whose parts NumPy computes apart, without vectors of both."""

    real: np.ndarray
    imag: np.ndarray

    def __add__(self, other):
        return Parts(self.real + other.real, self.imag + other.imag)

    def __sub__(self, other):
        return Parts(self.real - other.real, self.imag - other.imag)

    def __mul__(self, other):
        return Parts(self.real * other.real - self.imag * other.imag,
                     self.real * other.imag + self.imag * other.real)

    def __neg__(self):
        return Parts(-self.real, -self.imag)

    def conj(self):
        return Parts(self.real, -self.imag)


UNIFORM = [
    operator.mul, lambda x, y: x * x, lambda x, y: x * y + x, lambda x, y: x - x * y,
    lambda x, y: x * y - y, lambda x, y: x * y.conj(), lambda x, y: (x * y).conj() + y * y,
    lambda x, y: x.conj() - x * y, lambda x, y: -(x * y) + x.conj(), lambda x, y: x * y * x * y,
    lambda x, y: (x - y.conj()) * (x + y.conj()), lambda x, y: x * y - (x * y).conj(),
    lambda x, y: x.conj() * y.conj() + x * -y, lambda x, y: -x * -y - -(y * x.conj()),
    lambda x, y: (-x).conj() * y + y.conj() * -y,
]


def parts(x):
    return Parts(x.real.copy(), x.imag.copy())


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("of", UNIFORM)
def test_bits(of, dtype):
    rng = np.random.default_rng(0)
    f = ec.compile(lambda x, y: of(x, y))
    pairs = []
    for n in (1, 3, 8, 17, 1001):
        x, y = ((rng.standard_normal(3 * n) + 1j * rng.standard_normal(3 * n)).astype(dtype)
                for _ in range(2))
        pairs += [(x, y), (x[::3], y[::-3]), (x[:n], y[:1]),
                  (x[:3 * (n // 3)].reshape(-1, 3), y[:3])]
    compile_together((f, pair) for pair in pairs)
    for a, b in pairs:
        got, want = f(a, b), of(parts(a), parts(b))
        assert_same_bits(got.real.copy(), want.real)
        assert_same_bits(got.imag.copy(), want.imag)


@pytest.mark.parametrize("of", [
    lambda x, y, r: r * x + y.conj(), lambda x, y, r: (r * r - 0.5) + 1j * (r * r + 0.25),
    lambda x, y, r: np.where(r > 0, x * y, x - y), lambda x, y, r: x * y / (x - y),
    lambda x, y, r: (x * y).real * r - (x * y).imag * r, lambda x, y, r: 1j * r * r - x * r,
    lambda x, y, r: np.exp(x) * y - x * y, lambda x, y, r: x * (0.3 + 1j) + y,
    lambda x, y, r: x * (1 - 0.3j), lambda x, y, r: x * (0.3 - 0.7j) - y, lambda x, y, r: 2j * x,
    lambda x, y, r: 2 * x - 1, lambda x, y, r: x * -1.5 + y.conj(), lambda x, y, r: x * y - 0.3j,
    lambda x, y, r: r * x * r - y, lambda x, y, r: -0.7 * x * y.conj() - 1, lambda x, y, r: (x * y - y).real * r + x * y.conj(),
])
def test_what_is_mixed_with_real_numbers_does_not_depend_on_its_place(of):
    rng = np.random.default_rng(1)
    f = ec.compile(lambda x, y, r: of(x, y, r))
    for dtype in ("c8", "c16"):
        x, y = ((rng.standard_normal(99) + 1j * rng.standard_normal(99)).astype(dtype)
                for _ in range(2))
        r = rng.standard_normal(99).astype(x.real.dtype)
        whole = f(x, y, r)
        alone = np.concatenate([f(x[k:k + 1], y[k:k + 1], r[k:k + 1]) for k in range(99)])
        assert_same_bits(whole, alone)
        assert_same_bits(f(x[::-1], y[::-1], r[::-1])[::-1], whole)


def test_vectors_are_whole():
    if build.toolchain().family != "gcc":
        pytest.skip("flags of gcc")
    x, r = np.ones(100, "c8"), np.ones(100, "f4")

    def flags(function, *arrays):
        f = ec.compile(function)
        f(*arrays)
        return f.specializations[0].kernel.path.with_name("meta.json").read_text()

    narrow = build.toolchain().simd[-1:] in ("c", "d")  # vectors: they subtract and add at once
    assert ("-mno-fma" in flags(lambda x: x * x[::-1] + x.conj(), x)) == narrow
    assert ("-mno-fma" in flags(lambda x, r: abs(x * r).sum(), x, r)) == narrow
    assert "-mno-fma" in flags(lambda x, r: (r * r - 1) + x * r, x, r)
    assert "-mno-fma" in flags(lambda x: x * (1 + 2j), x)
