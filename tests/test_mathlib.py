"""The math library against mpmath and NumPy, and its vector variants against its scalar ones."""

import ctypes
import math
from functools import cache

import mpmath as mp
import numpy as np
import pytest

import elemc as ec
from elemc import build, build_listing, mathlib, variants

from .helpers import assert_same_bits

pytestmark = pytest.mark.optimized

ULPS = 4
DTYPES = (np.float32, np.float64)
COMPLEX_DTYPES = (np.complex64, np.complex128)
C_TYPES = {np.float32: "float", np.float64: "double",
           np.complex64: "float _Complex", np.complex128: "double _Complex"}  # fmt: skip
LARGE, WIDE, UNIT = [(-1e5, 1e5), (-1e22, 1e22)], [(-50, 50), (-1e3, 1e3)], [(-1, 1)]

# Intervals to draw points from, besides points of all magnitudes and the special ones.
DOMAINS = {
    "exp": WIDE, "exp2": WIDE, "expm1": [(-1, 1), *WIDE], "log": [(0.5, 2)], "log2": [(0.5, 2)],
    "log10": [(0.5, 2)], "log1p": UNIT, "sin": [(-8, 8), *LARGE], "cos": [(-8, 8), *LARGE],
    "tan": [(-8, 8), *LARGE], "asin": UNIT, "acos": UNIT, "atan": [(-3, 3)], "sinh": WIDE,
    "cosh": WIDE, "tanh": [(-20, 20)], "asinh": [(-3, 3)], "acosh": [(1, 1.1), (1, 50)],
    "atanh": UNIT, "cbrt": WIDE, "erf": [(-1, 1), (-6, 6)], "erfc": [(-6, 6), (0, 27)],
    "gamma": [(-5, 5), (-25, 25), (-180, 172)], "lgamma": [(-5, 5), (0.9, 2.1), *WIDE],
    "digamma": [(-5, 5), (1.4, 1.5), *WIDE], "erfinv": [(-1, 1), (0.99, 1)],
    "sinc": [(-1, 1), (-5, 5), (-1e4, 1e4)], "sech": WIDE, "pow": [(0, 3), (-30, 30)], "atan2": [(-3, 3)],
    "hypot": [(-3, 3)], "fmod": [(-9, 9)], "nextafter": [(-9, 9)],
    "polygamma": [(-5, 5), (0, 1), (-30, 30), *WIDE],
}  # fmt: skip
SPECIAL = np.array([
    0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 20, 22, -20, np.inf, -np.inf, np.nan, 88.7, -87.4,
    -103.9, 128, -149, 709.78, -708.4, -745.1, 1024, -1074, 171.6, -171.5, 1e22, 1e-45, -1e-45,
    1e-40, 1e-310, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7e308, -1.7e308, 3.4e38,
])  # fmt: skip


def _hurwitz(s, x):
    """Hurwitz's zeta function for x > 0; mpmath takes minutes for large arguments."""
    count = max(int(mp.ceil(40 + s - x)), 0)
    a = x + count
    series, rising = a / (s - 1) + mp.mpf(1) / 2, s / a
    for j in range(1, 30):
        series += mp.bernoulli(2 * j) / mp.factorial(2 * j) * rising
        rising *= (s + 2 * j - 1) * (s + 2 * j) / a**2
    return mp.fsum((x + k) ** -s for k in range(count)) + a**-s * series


def polygamma(n, x):
    """By the sum over (x + k)**-(n + 1); below 0, over all k less those for k < 0."""
    if not (0 <= n < 400 and n == int(n)) or (n == 0 and x < -1e9):
        raise ValueError
    if n == 0:
        return mp.digamma(x)
    s, f = int(n) + 1, x - mp.nint(x)
    if x > 0:
        return (-1) ** s * mp.factorial(s - 1) * _hurwitz(s, x)
    with mp.extraprec(4 * s):
        left = _hurwitz(s, 1 - f) - _hurwitz(s, 1 - x)
        total = f**-s + _hurwitz(s, 1 + f) + (-1) ** s * left
    return (-1) ** s * mp.factorial(s - 1) * total


def polygamma_term(n, x):
    """The largest term of the sum, where terms of both signs may cancel; else 0."""
    if not (n >= 0 and x < 0 and n % 2 == 0):
        return mp.mpf(0)
    if n == 0:
        return max(abs(mp.digamma(1 - x)), abs(mp.pi * mp.cot(mp.pi * x)))
    return mp.factorial(n) * abs(x - mp.nint(x)) ** -(n + 1)


OF_MANY = sorted(n for n in mathlib.SIMD if mathlib.FUNCTIONS[n] == 1)
REFERENCES = {
    "exp2": lambda x: mp.mpf(2) ** x, "log2": lambda x: mp.log(x, 2),
    "lgamma": lambda x: mp.log(abs(mp.gamma(x))), "sinc": lambda x: mp.sinpi(x) / (mp.pi * x),
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)), "pow": mp.power,
    "polygamma": polygamma,
    "fmod": lambda x, y: mp.sign(x) * mp.fmod(abs(x), abs(y)),
}  # fmt: skip


def largest_term(name, x, y=None):
    """What lgamma and digamma of a negative number are the difference of; else 0."""
    if name == "polygamma":
        return polygamma_term(x, y)
    if name == "lgamma" and x < 0:
        return max(abs(mp.loggamma(1 - x)), abs(mp.log(abs(mp.pi / mp.sinpi(x)))))
    if name == "digamma" and x < 0:
        return max(abs(mp.digamma(1 - x)), abs(mp.pi * mp.cot(mp.pi * x)))
    return mp.mpf(0)


def ulp(value, dtype):
    """The spacing of `dtype` at the magnitude of `value`."""
    info = np.finfo(dtype)
    exponent = int(mp.frexp(value)[1]) if value else info.minexp
    return mp.ldexp(1, max(exponent - 1, info.minexp) - info.nmant)


def points(name, dtype):
    """As many arguments per function as it takes: of every magnitude, in its domain, special."""
    rng = np.random.default_rng(7)
    info = np.finfo(dtype)
    count = mathlib.FUNCTIONS[name]
    exponents = rng.integers(info.minexp - info.nmant, info.maxexp, (count, 70))
    spread = np.ldexp(rng.uniform(0.5, 1, (count, 70)), exponents)
    drawn = [rng.uniform(low, high, (count, 70)) for low, high in DOMAINS[name]]
    if name == "polygamma":
        for part in (spread, *drawn):
            part[0] = rng.choice([*range(8), 22, 23, 100, 300], part.shape[1])
    special = [np.broadcast_to(SPECIAL, (1, len(SPECIAL)))]
    if count == 2:
        special = [np.stack([a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL)])]
    with np.errstate(over="ignore"):
        return np.concatenate([spread, -spread, *drawn, *special], axis=1).astype(dtype)


def suffixed(name, dtype):
    return name + "f" * (dtype in (np.float32, np.complex64))


def loop(name, dtype, count, simd, suffix):
    """C of a loop over a function, and of one that calls it in a way no compiler vectorizes."""
    f, c = f"elemc_{suffixed(name, dtype)}", C_TYPES[dtype]
    takes = ", ".join([c] * count)
    arrays = ", ".join(f"const {c} *{a}" for a in "xy"[:count])
    values = ", ".join(f"{a}[i]" for a in "xy"[:count])
    return f"""
extern {c} {f}({takes}){simd};
void many{suffix}_{f}(long n, {c} *out, {arrays}) {{
  for (long i = 0; i < n; i++) out[i] = {f}({values});
}}
void single{suffix}_{f}(long n, {c} *out, {arrays}) {{
  {c} (*volatile one)({takes}) = {f};
  for (long i = 0; i < n; i++) out[i] = one({values});
}}
"""


def block(name, dtype):
    """C of a function that calls the library for all elements at once."""
    f, c = f"elemc_{suffixed(name, dtype)}_each", C_TYPES[dtype]
    return f"""
extern void {f}({c} *, const {c} *, __INT64_TYPE__);
void block_{f.removesuffix("_each")}(long n, {c} *out, const {c} *x) {{ {f}(out, x, n); }}
"""


@cache
def loops(bits):
    """The loops over all functions, vectorized with vectors of so many bits."""
    build._support(build.toolchain(), *sorted({*mathlib.LIBRARIES.values()}))
    text = "".join(
        loop(name, dtype, count, " SIMD" * (name in mathlib.SIMD), "")
        for name, count in mathlib.FUNCTIONS.items() for dtype in DTYPES
    ) + "".join(
        loop(f"c{name}", dtype, 1 + (name == "pow"), "", "")
        for name in sorted(mathlib.COMPLEX) for dtype in COMPLEX_DTYPES
    ) + "".join(block(name, dtype) for name in OF_MANY for dtype in DTYPES)  # fmt: skip
    flags = (f"-mprefer-vector-width={bits}",) if build.toolchain().simd else ()
    return ctypes.CDLL(str(build.compile_shared(text, f"mathlib_loops_{bits}", flags)))


def evaluate(name, *arrays, how="many", bits=512):
    """Elementwise, in the dtype of the arrays."""
    dtype = arrays[0].dtype.type
    out = np.empty_like(arrays[0])
    run = getattr(loops(bits), f"{how}_elemc_{suffixed(name, dtype)}")
    kept = [np.ascontiguousarray(a) for a in (out, *arrays)]
    run(ctypes.c_long(out.size), *(ctypes.c_void_p(a.ctypes.data) for a in kept))
    return kept[0]


def true_value(name, args):
    """The exact value, or None where there is none that is real and finite."""
    if not np.isfinite(args).all() or (name in ("atan2", "fmod") and 0 in args):
        return None  # mpmath has no -0
    with mp.workprec(200):
        try:
            result = REFERENCES.get(name, getattr(mp, name, None))(*map(mp.mpf, args))
        except (ValueError, ZeroDivisionError, OverflowError):
            return None
        return result if isinstance(result, mp.mpf) and mp.isfinite(result) else None


def skipped(name, place):
    """Far over- or underflow, which takes mpmath very long."""
    if name == "pow":
        return not abs(place[1] * math.log(abs(place[0]) or 1)) < 1e4
    return name == "gamma" and place[0] < -200


def error(exact, value, dtype, term=0):
    """The error of `value` in ULP, or in ULP of a larger intermediate term."""
    info = np.finfo(dtype)
    if abs(exact) > info.max or not np.isfinite(value):
        # an overflow: a few ULP decide whether it is one
        near = float(info.max) * (1 - ULPS * float(info.eps))
        return 0.0 if abs(exact) > near and abs(value) > near else math.inf
    return float(abs(mp.mpf(value) - exact) / ulp(max(abs(exact), term), dtype))


def worst(name, dtype):
    """The largest error in ULP, and where it is."""
    args = points(name, dtype)
    got = evaluate(name, *args)
    most, where = 0.0, None
    for place, value in zip(args.T.tolist(), got.tolist(), strict=True):
        exact = None if skipped(name, place) else true_value(name, place)
        if exact is not None:
            found = error(exact, value, dtype, largest_term(name, *map(mp.mpf, place)))
            if found > most:
                most, where = found, (place, value)
    return most, where


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", mathlib.FUNCTIONS)
def test_accuracy(name, dtype):
    if name == "nextafter":
        x, y = points(name, dtype)
        np.testing.assert_array_equal(evaluate(name, x, y), np.nextafter(x, y))
        return
    most, where = worst(name, dtype)
    assert most <= ULPS, where


@pytest.mark.parametrize("bits", (128, 256, 512))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", mathlib.FUNCTIONS)
def test_vector_variants_agree_with_the_scalar_one(name, dtype, bits):
    args = points(name, dtype)
    args = args[:, np.random.default_rng(1).permutation(args.shape[1])]
    for start in (0, 1, 5):
        part = args[:, start:]
        many = evaluate(name, *part, bits=bits)
        single = evaluate(name, *part, how="single", bits=bits)
        np.testing.assert_array_equal(many, single)
        np.testing.assert_array_equal(np.signbit(many[many == 0]), np.signbit(single[many == 0]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OF_MANY)
def test_functions_of_many_agree_with_that_of_one(name, dtype):
    """However many there are, and also where they are written over; nothing behind them is."""
    [x] = points(name, dtype)
    x = np.random.default_rng(1).permutation(x)
    low, high = DOMAINS[name][0]
    plain = np.random.default_rng(2).uniform(low, high, 300).astype(dtype)  # none is special, but one
    some = np.where(np.arange(300) == 170, dtype(np.inf), plain)
    run = getattr(loops(512), f"block_elemc_{suffixed(name, dtype)}")
    for n in (*range(1, 36), 63, 64, 129, 300):
        for given in (x, x[1:], x[5:], plain, some):
            part = given[:n].copy()
            want = evaluate(name, part, how="single")
            for in_place in (False, True):
                out = np.append(part, np.full(9, 7, dtype))
                run(ctypes.c_long(len(part)), ctypes.c_void_p(out.ctypes.data),
                    ctypes.c_void_p((out if in_place else part).ctypes.data))
                got = out[:len(part)]
                np.testing.assert_array_equal(got, want)
                np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(want[got == 0]))
                assert (out[len(part):] == 7).all()


def powers(dtype):
    """Bases, exponents and powers that all are numbers of the type."""
    most = 1 << np.finfo(dtype).nmant + 1
    found = [(base / part, e, base**e / part**e) for base in range(2, 100) for part in (1, 4, 8)
             for e in range(1, 54) if base**e < most]
    found += [(2.0**k, -e, 2.0**(-k * e)) for k in (-3, -1, 1, 2) for e in range(1, 30)]
    return np.array(found).T.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_that_are_numbers(dtype):
    """The last of few roundings is nearly the only one, so that these are exact."""
    base, exponent, want = powers(dtype)
    np.testing.assert_array_equal(evaluate("pow", base, exponent), want)


@pytest.mark.parametrize("flags", [("-mno-avx512f",), ("-mno-avx512f", "-mno-fma")])
@pytest.mark.parametrize("dtype", DTYPES)
def test_of_older_processors(dtype, flags):
    """What is computed here is computed otherwise with AVX2, and by libmvec without that."""
    if not build.toolchain().simd:
        pytest.skip("there is no libmvec")
    source = mathlib.functions_source(C_TYPES[dtype], *mathlib.WIDE)
    flags = (f"-DELEMC_LIBMVEC={variants.open_libmvec()}", *flags)
    library = ctypes.CDLL(str(build.compile_shared(source, "older_math", flags, ("-lm",))))
    for name in mathlib.WIDE:
        function = getattr(library, f"elemc_{suffixed(name, dtype)}")
        args = points(name, dtype)[:, :400]
        number = np.ctypeslib.as_ctypes_type(dtype)
        function.restype, function.argtypes = number, [number] * len(args)
        many, arg = evaluate(name, *args), args[0].copy()
        own = many.tolist()
        if name in OF_MANY:
            each = getattr(library, f"elemc_{suffixed(name, dtype)}_each")
            each(*(ctypes.c_void_p(a.ctypes.data) for a in (many, arg)), ctypes.c_int64(len(arg)))
        for place, mine, of_many in zip(args.T.tolist(), own, many.tolist(), strict=True):
            exact = None if skipped(name, place) else true_value(name, place)
            for got in (function(*place), of_many):
                same = got == mine or got != got and mine != mine  # special, or hardly finite
                assert same or exact is not None and error(exact, got, dtype) <= ULPS, (name, place)
    power = getattr(library, suffixed("elemc_pow", dtype))
    assert [place for *place, want in powers(dtype).T.tolist() if power(*place) != want] == []


def test_vectorized():
    """The loops do call vector variants, where there are any."""
    if not build.toolchain().simd:
        pytest.skip("no libmvec here")
    text = "".join(loop(name, np.float64, mathlib.FUNCTIONS[name], " SIMD", "")
                   for name in sorted(mathlib.SIMD))  # fmt: skip
    assembly = build_listing.assembly(text)
    assert [n for n in mathlib.SIMD if f"_elemc_{n}" not in assembly.replace("\telemc_", "")] == []


UFUNCS = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "pow": np.power, "atan2": np.arctan2,
}  # fmt: skip
AS_NUMPY = [name for name in mathlib.FUNCTIONS if name in UFUNCS or hasattr(np, name)]

inf, nan = np.inf, np.nan
TABLES = {
    "erf": [(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (nan, nan)],
    "erfc": [(0.0, 1.0), (inf, 0.0), (-inf, 2.0), (nan, nan)],
    "gamma": [(0.0, inf), (-0.0, -inf), (inf, inf), (-inf, nan), (-1.0, nan), (-2.0, nan),
              (nan, nan), (1.0, 1.0), (2.0, 1.0), (5.0, 24.0), (11.0, 3628800.0), (180.0, inf),
              (-200.5, -0.0), (-201.5, 0.0)],
    "lgamma": [(0.0, inf), (-0.0, inf), (inf, inf), (-inf, inf), (-1.0, inf), (nan, nan),
               (1.0, 0.0), (2.0, 0.0)],
    "digamma": [(0.0, -inf), (-0.0, inf), (inf, inf), (-inf, nan), (-1.0, nan), (nan, nan)],
    "polygamma": [(0.0, 0.0, -inf), (0.0, inf, inf), (0.0, -1.0, nan),
                  (1.0, 0.0, inf), (1.0, -0.0, inf), (1.0, inf, 0.0), (1.0, -inf, nan), (1.0, -1.0, inf),
                  (2.0, 0.0, -inf), (2.0, -0.0, inf), (2.0, inf, -0.0), (2.0, -inf, nan), (2.0, -1.0, nan),
                  (3.0, -2.0, inf), (3.0, inf, 0.0), (2.0, nan, nan), (nan, 2.0, nan), (-1.0, 2.0, nan),
                  (0.5, 2.0, nan), (inf, 2.0, nan), (2e12, 1.0, nan), (1e9, 1.0, -inf), (1e9, 1e12, -0.0),
                  (501.0, -0.3, inf), (500.0, -0.7, -inf), (500.0, -0.3, inf)],
    "erfinv": [(0.0, 0.0), (-0.0, -0.0), (1.0, inf), (-1.0, -inf), (1.5, nan), (-inf, nan),
               (nan, nan)],
    "sech": [(0.0, 1.0), (-0.0, 1.0), (inf, 0.0), (-inf, 0.0), (2000.0, 0.0), (-2000.0, 0.0), (nan, nan)],
}  # fmt: skip


def assert_same(got, wanted):
    """NaN, infinities, zeros and their signs alike; other values are compared elsewhere."""
    plain = np.isfinite(wanted) & (wanted != 0) & np.isfinite(got) & (got != 0)
    got, wanted = np.where(plain, 1, got), np.where(plain, 1, wanted)
    np.testing.assert_array_equal(got, wanted)
    zero = wanted == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(wanted[zero]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", AS_NUMPY)
def test_special_values_are_those_of_numpy(name, dtype):
    special = np.array([0.0, -0.0, 1, -1, 0.5, 2, -2, 3, inf, -inf, nan, 2000, -2000], dtype)
    args = (special,)
    if mathlib.FUNCTIONS[name] == 2:
        args = tuple(a.ravel() for a in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        wanted = UFUNCS.get(name, getattr(np, name, None))(*args)
    got = evaluate(name, *args)
    if name == "sinc":  # NumPy's is not quite 0 at integers
        wanted[np.isfinite(special) & (special == np.rint(special)) & (special != 0)] = 0
        got = np.where(got == 0, 0, got)
    if name in ("sin", "cos", "tan"):
        got, wanted = got[np.abs(args[0]) < inf], wanted[np.abs(args[0]) < inf]
    assert_same(got, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", TABLES)
def test_special_values(name, dtype):
    *args, wanted = np.array(TABLES[name], dtype).T
    got = evaluate(name, *args)
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(np.signbit(got[wanted == 0]), np.signbit(wanted[wanted == 0]))


def test_every_function_has_special_values():
    assert set(AS_NUMPY) | set(TABLES) >= set(mathlib.FUNCTIONS)


def complex_points(name, dtype):
    """Within the unit disc, about 1, -1, i and -i, and of many magnitudes."""
    rng = np.random.default_rng(3)

    def spread(low, high):
        return np.ldexp(rng.uniform(-1, 1, 40), rng.integers(low, high, 40))

    near = rng.choice([1, -1, 1j, -1j, 0], 40) + spread(-20, 0) + 1j * spread(-20, 0)
    z = np.concatenate([near, spread(-2, 4) + 1j * spread(-2, 4),
                        spread(-100, 100) + 1j * spread(-100, 100)]).astype(dtype)  # fmt: skip
    return (z, rng.permutation(z[:80])[np.arange(120) % 80]) if name == "pow" else (z,)


@pytest.mark.parametrize("dtype", COMPLEX_DTYPES)
@pytest.mark.parametrize("name", sorted(mathlib.COMPLEX))
def test_complex_accuracy(name, dtype):
    references = {"log1p": lambda z: mp.log(1 + z), "expm1": lambda z: mp.exp(z) - 1}
    reference = references.get(name) or (mp.power if name == "pow" else getattr(mp, name))
    args = complex_points(name, dtype)
    got = evaluate(f"c{name}", *args)
    real = np.finfo(dtype)
    for place, value in zip(np.stack(args, 1).tolist(), got.tolist(), strict=True):
        with mp.workprec(500):
            exact = reference(*(mp.mpc(z) for z in place))
            if max(abs(exact.real), abs(exact.imag)) > real.max * 0.9999:
                continue
            if name == "pow" and abs(place[1]) * abs(np.log(place[0])) > 2000:
                continue
            unit = ulp(abs(exact), real.dtype.type)
            assert abs(mp.mpc(value) - exact) <= ULPS * unit, (place, value, exact)


@pytest.mark.parametrize("dtype", COMPLEX_DTYPES)
@pytest.mark.parametrize("name", sorted(mathlib.COMPLEX))
def test_complex_special_values_are_those_of_numpy(name, dtype):
    parts = (0.0, -0.0, 1, -1, 2.5, -2.5, inf, -inf, nan)
    z = np.array([complex(a, b) for a in parts for b in parts], dtype)
    args = (z,)
    if name == "pow":
        args = tuple(a.ravel() for a in np.meshgrid(z, z))
    with np.errstate(all="ignore"):
        wanted = UFUNCS.get(name, getattr(np, name, None))(*args)
    got = evaluate(f"c{name}", *args)
    for g, w in ((got.real, wanted.real), (got.imag, wanted.imag)):
        tiny = (np.abs(g) < 1e-4) & (np.abs(w) < 1e-4) & ((g != 0) | (w != 0))
        if name == "pow":
            g, w = g + 0.0, w + 0.0  # the sign of a zero is an accident of NumPy's divisions
            g, w = np.where(g == 0, 0.0, g), np.where(w == 0, 0.0, w)
        assert_same(g[~tiny], w[~tiny])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_remainders_are_exact(dtype):
    """Of all magnitudes, of multiples and their neighbours, of subnormal numbers and of specials."""
    rng = np.random.default_rng(0)
    f = ec.compile(lambda x, y: (np.fmod(x, y), x % y, x // y))
    bits = f"u{np.dtype(dtype).itemsize}"
    cases = [tuple(rng.integers(0, np.iinfo(bits).max, 20_000, bits).view(dtype) for _ in range(2))]
    cases += [(rng.normal(size=20_000).astype(dtype) * np.array(scale, dtype),
               rng.normal(size=20_000).astype(dtype)) for scale in (1e-3, 1, 1e6, 1e12, 1e25)]
    for unit in (0.1, 1e-40, 1e30):
        y = rng.integers(-50, 50, 20_000).astype(dtype) * np.array(unit, dtype)
        x = rng.integers(-1000, 1000, 20_000).astype(dtype) * y
        cases.append((np.nextafter(x, x + y * rng.integers(-1, 2, 20_000).astype(dtype)), y))
    ends = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2.5, np.finfo(dtype).tiny, np.finfo(dtype).max]
    cases.append(tuple(v.ravel() for v in np.meshgrid(*[np.array(ends, dtype)] * 2)))
    with np.errstate(all="ignore"):
        for x, y in cases:
            for got, want in zip(f(x, y), (np.fmod(x, y), x % y, x // y), strict=True):
                assert_same_bits(got, want)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_scaling_rounds_once(dtype):
    rng = np.random.default_rng(0)
    f = ec.compile(lambda x, n: np.ldexp(x, n))
    bits = f"u{np.dtype(dtype).itemsize}"
    x = np.concatenate([rng.integers(0, np.iinfo(bits).max, 20_000, bits).view(dtype),
                        np.array([0, -0.0, np.inf, -np.inf, np.nan], dtype)])
    for most in (5, 30, 160, 1100, 2200, 2**31 - 1):
        n = rng.integers(-most, most, x.size, dtype="int32")
        with np.errstate(all="ignore"):
            assert_same_bits(f(x, n), np.ldexp(x, n))


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_of_all_kinds_of_numbers(dtype):
    """Negative and zero bases, roots of these, and results beyond all limits, in any company."""
    info = np.finfo(dtype)
    some = [0.0, 0.5, 1, 1.5, 2, 3, 7, 8, 1e10, 1e10 + 1, 2.0**24 + 1, 2.0**53, 2.0**53 + 2, 709,
            746, 1024, info.max, info.tiny, info.smallest_subnormal, 1 + info.eps, np.inf]
    every = np.array([*some, *(-n for n in some), np.nan], dtype)
    x, y = (a.ravel() for a in np.meshgrid(every, every))
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.longdouble), y.astype(np.longdouble)).astype(dtype)
    alone = evaluate("pow", x, y, how="single")
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(x.size)
        got = evaluate("pow", x[order], y[order])
        np.testing.assert_array_equal(got, alone[order])
    np.testing.assert_array_equal(np.isnan(alone), np.isnan(want))
    np.testing.assert_array_equal(np.signbit(alone[~np.isnan(want)]), np.signbit(want[~np.isnan(want)]))
    finite = np.isfinite(want)
    np.testing.assert_array_equal(alone[~finite], want[~finite])
    error = np.abs(alone[finite].astype(np.longdouble) - want[finite])
    with np.errstate(over="ignore"):  # beside the largest number
        assert (error <= ULPS * np.spacing(np.abs(want[finite]))).all()


@pytest.mark.parametrize("dtype", COMPLEX_DTYPES)
@pytest.mark.parametrize("name", ["exp", "log", "sqrt"])
def test_functions_of_complex_numbers(name, dtype):
    """In vectors: as exact as libm's, special values as NumPy has them, the same bits anywhere."""
    of, rng = getattr(np, name), np.random.default_rng(4)
    f = ec.compile(lambda z: of(z))
    [z], real = complex_points(name, dtype), np.finfo(dtype)
    if name != "exp":  # of all magnitudes, in either part
        size = rng.uniform(-1, 1, (2, 300)) * 2.0 ** rng.integers(real.minexp - 20, real.maxexp, (2, 300))
        z = np.concatenate([z, (size[0] + 1j * size[1]).astype(dtype), np.conj(z) * dtype(1j),
                            np.exp(1j * rng.uniform(-4, 4, 100)).astype(dtype)])
        z = z[z != 0]
    got = f(z)
    for place, value in zip(z.tolist(), got.tolist(), strict=True):
        with mp.workprec(500):
            exact = getattr(mp, name)(mp.mpc(place))
            if max(abs(exact.real), abs(exact.imag)) < real.max * 0.9999:
                unit = ulp(abs(exact), real.dtype.type)
                assert abs(mp.mpc(value) - exact) <= ULPS * unit, (place, value, exact)
    assert_same_bits(np.array([f(z[k:k + 1])[0] for k in range(z.size)]), got)
    parts = (0.0, -0.0, 1, -1, np.pi / 2, inf, -inf, nan, 80, 89, 700, 709.5, 710, 720, 1400, -745,
             -746, 1e30, -1e-30)
    z = np.array([complex(a, b) for a in parts for b in parts], dtype)
    with np.errstate(all="ignore"):
        want = of(z)
    got = f(z)
    for g, w in ((got.real, want.real), (got.imag, want.imag)):
        some = ~np.isfinite(w) | (w == 0)
        assert_same(g[some], w[some])
        with np.errstate(over="ignore", under="ignore"):
            assert (abs(g[~some] - w[~some]) <= 8 * np.spacing(abs(w[~some]))).all()


@pytest.mark.parametrize("dtype", COMPLEX_DTYPES)
@pytest.mark.parametrize("n", [0.5, -1, 2, 3, 4, 5, 8, -2, -3, -8, 12, -12, 64])
def test_powers_of_complex_numbers(n, dtype):
    """By constants, and by arrays: products, in twice the precision where there are more of them."""
    [z], real = complex_points("pow", dtype)[:1], np.finfo(dtype)
    z = z[z != 0]
    for got in (ec.compile(lambda z: z**n)(z), ec.compile(lambda z, n: z**n)(z, np.full(z.size, n, dtype))):
        for place, value in zip(z.tolist(), got.tolist(), strict=True):
            with mp.workprec(500):
                exact = mp.power(mp.mpc(place), n)
                if real.tiny * 1e9 < abs(exact) < real.max / 1e9:
                    unit = ulp(abs(exact), real.dtype.type)
                    assert abs(mp.mpc(value) - exact) <= ULPS * unit, (place, value, exact)
