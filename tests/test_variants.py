"""Every compiler calls vector variants of the math library's functions from its loops."""

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import elemc as ec
from elemc import build, mathlib, variants

FAMILIES = ["gcc", "clang", "zig"]


@pytest.fixture(params=FAMILIES)
def compiler(request, monkeypatch):
    """Each of the compilers that are there, in turn."""
    if request.param == "zig":
        if importlib.util.find_spec("ziglang") is None:
            pytest.skip("the package ziglang is not installed")
        monkeypatch.setenv("ELEMC_CC", f"{sys.executable} -m ziglang cc")
    elif shutil.which(request.param) is None:
        pytest.skip(f"there is no {request.param}")
    else:
        monkeypatch.setenv("ELEMC_CC", request.param)
    tool = build.toolchain()
    assert tool.family == request.param
    if not tool.simd:
        pytest.skip("there is no libmvec")
    return tool


@pytest.mark.optimized
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_loops_call_functions_in_vectors(compiler, dtype):
    f = ec.compile(lambda x, y: np.arctan2(x, y) * np.power(x, y))
    x = np.linspace(0.1, 20, 1003).astype(dtype)
    y = np.linspace(-2, 2, 1003).astype(dtype)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(f(x, y), np.arctan2(x, y) * np.power(x, y), rtol=8 * eps)
    assembly = f.dump(x, y, stage="asm")
    lanes = max(variants.ISAS[isa] for isa in compiler.simd) // x.itemsize
    end = "f" * (dtype == np.float32)
    assert f"N{lanes}vv_elemc_atan2{end}" in assembly and f"N{lanes}vv_elemc_pow{end}" in assembly
    assert "1 of 1 innermost loops vectorized" in f.dump(x, y, stage="vectorization")


def test_an_element_does_not_depend_on_its_place(compiler):
    f = ec.compile(lambda x: np.tanh(x) + np.cos(x))
    x = np.linspace(-3, 3, 41)
    whole = f(x)
    for first in range(0, 41, 3):
        np.testing.assert_array_equal(f(x[first:]), whole[first:])


def test_flags_that_leave_instructions_out(compiler, monkeypatch):
    """The variants are those that the math library has with these flags."""
    monkeypatch.setenv("ELEMC_CFLAGS", "-mno-avx512f")
    x = np.linspace(0, 1, 41)
    np.testing.assert_allclose(ec.compile(lambda x: np.exp(x))(x), np.exp(x), rtol=1e-15)


def test_libmvec_need_not_be_linked(tmp_path):
    """zig's own files of glibc do not name it."""
    if importlib.util.find_spec("ziglang") is None or not build.toolchain().simd:
        pytest.skip("the package ziglang is not installed, or there is no libmvec")
    script = "import numpy as np, elemc as ec; print(ec.compile(lambda x: np.tan(x))(np.ones(9))[0])"
    env = os.environ | {
        "ELEMC_CACHE_DIR": str(tmp_path),
        "ELEMC_CC": f"{sys.executable} -m ziglang cc -target x86_64-linux-gnu.2.36"}
    for _ in range(2):  # cold and warm
        done = subprocess.run([sys.executable, "-W", "error", "-c", script], env=env, check=False,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        np.testing.assert_allclose(float(done.stdout), np.tan(1.0), rtol=1e-15)


def test_libmvec_of_an_older_glibc(monkeypatch, tmp_path):
    """Functions that it lacks are those of libm."""
    if not build.toolchain().simd:
        pytest.skip("there is no libmvec")
    monkeypatch.setattr(variants, "LATER", "_ZGVbN2v_elemc_nothing")
    source = mathlib.functions_source("double", "tan", "sin", "asinh", "cbrt")
    for flags in ((), ("-mno-avx512f",)):
        old = ctypes.CDLL(str(build.compile_shared(source, "old_math", (
            f"-DELEMC_LIBMVEC={variants.open_libmvec()}", *flags), ("-lm",))))
        for name, number in (("tan", 0.7), ("sin", 0.7), ("asinh", -3.0), ("cbrt", 1e100)):
            function = getattr(old, f"elemc_{name}")
            function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double]
            want = getattr(np, {"asinh": "arcsinh"}.get(name, name))(number)
            np.testing.assert_allclose(function(number), want, rtol=1e-15)
        assert hasattr(old, "_ZGVbN2v_elemc_cbrt")


def test_what_clang_is_told():
    text, flags = variants.for_clang("extern double elemc_exp(double) SIMD;\n", "bd")
    assert text.splitlines()[1:] == [
        "typedef double double16 __attribute__((vector_size(16)));",
        "typedef double double32 __attribute__((vector_size(32)));",
        "extern double16 _ZGVbN2v_elemc_exp(double16);",
        "extern double32 _ZGVdN4v_elemc_exp(double32);",
        "__attribute__((used)) static void *const elemc_variants[] = "
        "{_ZGVbN2v_elemc_exp, _ZGVdN4v_elemc_exp};"]
    assert flags == (
        "-Xclang", "-default-function-attr", "-Xclang", "vector-function-abi-variant="
        "_ZGVbN2v_elemc_exp(_ZGVbN2v_elemc_exp),_ZGVdN4v_elemc_exp(_ZGVdN4v_elemc_exp)")
    assert variants.for_clang("extern double elemc_gamma(double) PURE;\n", "bd") == ("", ())
