"""Results are rounded to nearest and subnormal numbers kept, whatever modes the thread is in."""

import contextlib
import ctypes
import platform
import sys

import numpy as np
import pytest

import elemc as ec

from .helpers import assert_same_bits, sample
from .test_accuracy import REFERENCES, compiled, points

pytestmark = [
    pytest.mark.optimized,
    pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64",
                       reason="sets the modes of x86-64's vectors, by glibc")]

# Bits of the register MXCSR; "subnormals are 0" is what code linked with -ffast-math leaves behind.
MODES = {"down": 0x2000, "up": 0x4000, "towards 0": 0x6000, "subnormals are 0": 0x8040}
RAISED = 0x3F  # bits that tell what happened
MXCSR = 7  # its place among the words of glibc's fenv_t

FUNCTIONS = [*REFERENCES, *"add multiply sqrt rint round floor ceil trunc remainder fmod".split()]


@contextlib.contextmanager
def modes(bits):
    """This thread in other modes, in which it has to be at the end."""
    libm = ctypes.CDLL("libm.so.6")
    usual, other, after = ((ctypes.c_uint32 * 8)() for _ in range(3))
    libm.fegetenv(usual)
    other[:] = usual[:]
    other[MXCSR] |= bits
    libm.fesetenv(other)
    try:
        yield
        libm.fegetenv(after)
    finally:
        libm.fesetenv(usual)
    assert after[MXCSR] & ~RAISED == other[MXCSR] & ~RAISED


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, dtype):
    f, args = compiled(name, dtype), points(name, dtype)
    want = f(*args)
    for bits in MODES.values():
        with modes(bits):
            got = f(*args)
        assert_same_bits(got, want)


CASES = {
    "elementwise": lambda x: ec.sin(x) / 3,
    "sums of rows": lambda x: x.sum(axis=1),
    "softmax": lambda x: ec.exp(x - x.max(axis=1, keepdims=True)) / ec.exp(x).sum(axis=1, keepdims=True),
    "variance": lambda x: x.var(),
    "subnormal": lambda x: x * 1e-310,
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mode", MODES)
def test_threads_and_call_paths(case, mode):
    x = sample("float64", (700, 513), 1)
    before = ec.get_num_threads()
    try:
        ec.set_num_threads(1)
        f = ec.compile(CASES[case]).trace(x)
        want = f(x)
        for threads in 1, 3:  # workers start in the modes of the thread that starts them
            ec.set_num_threads(threads)
            with modes(MODES[mode]):
                got = f(x), f._call(x)
            assert_same_bits(got[0], want)
            assert_same_bits(got[1], want)
    finally:
        ec.set_num_threads(before)


@pytest.mark.parametrize("mode", MODES)
def test_first_calls(mode):
    """What is traced and compiled there is kept, and serves calls in the usual modes."""
    x = np.linspace(-2, 2, 9)
    for k, (fn, a) in enumerate([
            (lambda x: x * 0.1 + 0.7, x.astype("f4")), (lambda x: x * 1e-310, x),
            (lambda x: np.round(x * 1.1234, 2), x), (lambda x: abs(x) ** 1.7, x.astype("f4"))]):
        f, g = (ec.compile(fn, name=f"{name}_{list(MODES).index(mode)}_{k}") for name in "fg")
        with modes(MODES[mode]):
            got = f(a)
        assert_same_bits(got, g(a))
        assert_same_bits(f(a), g(a))
        assert f.dump(a).replace("kernel_f_", "kernel_g_").splitlines()[8:] == g.dump(a).splitlines()[8:]


@pytest.mark.parametrize("mode", MODES)
def test_numbers_as_arguments(mode):
    x = np.linspace(-2, 2, 9, dtype="f4")
    f = ec.compile(lambda x, y: x + y)
    for number in 0.1, -0.3, 1e-40:
        want = f(x, number)
        with modes(MODES[mode]):
            got = f(x, number)
        assert_same_bits(got, want)
