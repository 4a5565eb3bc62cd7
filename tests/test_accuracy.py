"""Every row of the table of scalar operations that rounds, against correctly rounded values."""

import math
import re

import mpmath as mp
import numpy as np
import pytest

import elemc as ec
from elemc import build, build_listing
from elemc.array import apply
from elemc.ops import OPS

from .helpers import quiet, sample, specials
from .test_mathlib import polygamma, polygamma_term
from .test_ops import EXACT

pytestmark = pytest.mark.optimized

ULPS = 4
DTYPES = (np.float16, np.float32, np.float64)
COMPLEX_DTYPES = (np.complex64, np.complex128)


def _sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def _log_of_sum(x, y, base):
    larger, smaller = max(x, y), min(x, y)
    return larger + mp.log1p(base ** (smaller - larger)) / mp.log(base)


REFERENCES = {
    "exp2": lambda x: mp.mpf(2) ** x, "log2": lambda x: mp.log(x, 2),
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)), "arcsin": mp.asin, "arccos": mp.acos,
    "arctan": mp.atan, "arctan2": mp.atan2, "arcsinh": mp.asinh, "arccosh": mp.acosh,
    "arctanh": mp.atanh, "power": mp.power, "float_power": mp.power, "divide": lambda x, y: x / y,
    "reciprocal": lambda x: 1 / x, "angle": lambda x: mp.pi if x < 0 else mp.mpf(0),
    "deg2rad": mp.radians, "rad2deg": mp.degrees, "lgamma": lambda x: mp.log(abs(mp.gamma(x))),
    "polygamma": polygamma, "sinc": mp.sincpi, "sigmoid": _sigmoid, "logit": lambda x: mp.log(x / (1 - x)),
    "softplus": lambda x: _log_of_sum(x, mp.mpf(0), mp.e), "silu": lambda x: x * _sigmoid(x),
    "gelu": lambda x: x * mp.erfc(-x / mp.sqrt(2)) / 2,
    "logaddexp": lambda x, y: _log_of_sum(x, y, mp.e),
    "logaddexp2": lambda x, y: _log_of_sum(x, y, mp.mpf(2)),
    "xlogy": lambda x, y: x * mp.log(y) if x else mp.mpf(0),
    "xlog1py": lambda x, y: x * mp.log1p(y) if x else mp.mpf(0),
    **{name: getattr(mp, name) for name in ("exp expm1 log log10 log1p sin cos tan sinh cosh tanh "
                                            "hypot erf erfc erfinv gamma digamma").split()},
}  # fmt: skip

# Where the interval of the table leaves out what is hard.
HARD = {
    "gelu": [(-39, 9), (-39, -37), (-37.1, -36.9), (-14.5, -12), (-1, 1)],
    "silu": [(-760, 40), (-752, -700), (-108, -80)], "sigmoid": [(-745, 40), (-104, -85)],
    "softplus": [(-745, 40), (-104, -85)], "logit": [(0, 1), (0.2, 0.3), (0.49, 0.51), (0.7, 0.8)],
    "sinc": [(-300, 300), (-2, 2)], "xlogy": [(-3, 3), (0.99, 1.01)], "xlog1py": [(-1e-3, 1e-3)],
    "logaddexp": [(-1, 1), (-40, 3), (-800, 800)], "logaddexp2": [(-1.1, -0.9), (-40, 3)],
    "gamma": [(-170, 171), (-5, 5)], "lgamma": [(-30, 30), (0.9, 2.1)], "digamma": [(-30, 3)],
    "polygamma": [(-30, 3), (0, 1), (-1e4, 1e4)],
    "power": [(-9, 9), (0.5, 300)], "float_power": [(-9, 9)], "erfc": [(-6, 27)],
}  # fmt: skip


def largest_term(name, args):
    """The largest of the terms whose sum may vanish at a root that no float hits."""
    x = args[0]
    if name in ("logaddexp", "logaddexp2"):
        return max(map(abs, args))
    if name == "lgamma" and x < 0:
        return max(abs(mp.loggamma(1 - x)), abs(mp.log(abs(mp.pi / mp.sinpi(x)))))
    if name == "polygamma":
        return polygamma_term(*args)
    if name == "digamma" and x < 0:
        return max(abs(mp.digamma(1 - x)), abs(mp.pi * mp.cot(mp.pi * x)))
    return mp.mpf(0)


def points(name, dtype):
    """Arguments of every magnitude, in the row's domain, where it is hard, and special ones."""
    rng = np.random.default_rng(11)
    op, info = OPS[name], np.finfo(dtype)
    exponents = rng.integers(info.minexp - info.nmant, info.maxexp, (op.nin, 40))
    spread = np.ldexp(rng.uniform(0.5, 1, (op.nin, 40)), exponents)
    inside = np.stack([sample(np.float64, 40, k, d) for k, d in enumerate(op.domain)])
    hard = [rng.uniform(*interval, (op.nin, 60)) for interval in HARD.get(name, [])]
    special = [specials(dtype).astype(np.float64)] * op.nin
    edge = np.stack([a.ravel() for a in np.meshgrid(*special)])
    drawn = np.concatenate([spread, -spread, inside, *hard], axis=1)
    for operand, domain in zip(drawn, op.domain, strict=True):
        if isinstance(domain, range):
            operand[:] = rng.choice(domain, operand.shape)
    with np.errstate(over="ignore"):
        return np.concatenate([drawn, edge], axis=1).astype(dtype)


def ulp(value, dtype):
    """The spacing of `dtype` at the magnitude of `value`."""
    info = np.finfo(dtype)
    exponent = int(mp.frexp(value)[1]) if value else info.minexp
    return mp.ldexp(1, max(exponent - 1, info.minexp) - info.nmant)


def exact_value(name, args):
    """The exact value, or None where there is none that is real and finite."""
    if not all(map(math.isfinite, args)) or (0 in args and name in ("arctan2", "angle")):
        return None  # mpmath has no -0
    if name in ("power", "float_power") and abs(args[1] * math.log(abs(args[0]) or 1)) > 2000:
        return None
    if args[0] < {"gamma": -400, "lgamma": -1e9, "digamma": -1e9}.get(name, -math.inf):
        return None
    if name == "gamma" and args[0] > 400:
        return None
    with mp.workprec(1400 if name in ("softplus", "logaddexp", "logaddexp2", "logit") else 300):
        try:
            value = REFERENCES[name](*map(mp.mpf, args))
        except (ValueError, ZeroDivisionError, OverflowError):
            return None
        return value if isinstance(value, mp.mpf) and mp.isfinite(value) else None


def error(exact, value, dtype, term):
    """The error of `value` in ULP of the exact value, or of a larger intermediate term."""
    info = np.finfo(dtype)
    if not np.isfinite(value) or abs(exact) > mp.mpf(float(info.max)):
        near = float(info.max) * (1 - ULPS * float(info.eps))
        return 0.0 if abs(exact) > near and abs(value) > near else math.inf
    return float(abs(mp.mpf(value) - exact) / ulp(max(abs(exact), term), dtype))


def compiled(name, dtype):
    xs = [ec.array(f"x{k}", 1, dtype) for k in range(OPS[name].nin)]
    return ec.function(xs, apply(OPS[name], *xs))


def worst(name, dtype):
    """The largest error in ULP, and where it is."""
    args = points(name, dtype)
    got = compiled(name, dtype)(*args)
    most, where = 0.0, None
    for place, value in zip(args.T.tolist(), got.tolist(), strict=True):
        exact = exact_value(name, place)
        if exact is not None:
            with mp.workprec(300):
                term = largest_term(name, [mp.mpf(v) for v in place])
                found = error(exact, value, got.dtype, term)
            if found > most:
                most, where = found, (place, value, mp.nstr(exact, 20))
    return most, where


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REFERENCES)
def test_accuracy(name, dtype):
    most, where = worst(name, dtype)
    assert most <= (1 if dtype is np.float16 else ULPS), (most, where)


@pytest.mark.parametrize("name", sorted(set(REFERENCES) - set(
    "lgamma digamma logaddexp logaddexp2".split())))  # whose roots no float hits
def test_float32_densely(name):
    """Many more points than mpmath has time for; the float64 function is exact enough here."""
    op = OPS[name]
    rng = np.random.default_rng(5)
    args = []
    for k, domain in enumerate(op.domain):
        if isinstance(domain, range):
            args.append(rng.choice(domain, 150_000))
            continue
        near = [rng.uniform(*interval, 50_000) for interval in HARD.get(name, [])]
        spread = np.exp(rng.uniform(-20, 20, 100_000)) * rng.choice([-1, 1], 100_000)
        args.append(np.concatenate([rng.uniform(*domain, 100_000), *near, spread])[:150_000 + k])
    args = [a[:min(map(len, args))].astype(np.float32) for a in args]
    got = compiled(name, np.float32)(*args).astype(np.float64)
    want = compiled(name, np.float64)(*(a.astype(np.float64) for a in args))
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(want), np.finfo(np.float32).tiny)
        away = np.abs(got - want) / np.ldexp(1.0, np.frexp(size)[1] - 24)
        inside = np.isfinite(want) & (np.abs(want) < np.finfo(np.float32).max)
    worst_place = np.argmax(np.where(inside, away, 0))
    assert away[worst_place] <= ULPS + 1e-6, [float(a[worst_place]) for a in args]
    assert inside.any()


def test_every_row_is_exact_or_has_a_reference():
    floating = {name for name, op in OPS.items() if set(op.kinds) & set("fc")}
    assert floating - EXACT == set(REFERENCES) - EXACT


COMPLEX = {
    "absolute": abs, "divide": lambda z, w: z / w, "reciprocal": lambda z: 1 / z,
    "exp2": lambda z: mp.power(2, z), "log2": lambda z: mp.log(z) / mp.log(2),
    "log10": lambda z: mp.log(z) / mp.log(10), "angle": mp.arg, "sign": lambda z: z / abs(z),
    "multiply": lambda z, w: z * w, "square": lambda z: z * z, "sqrt": mp.sqrt,
}  # fmt: skip


@pytest.mark.parametrize("dtype", COMPLEX_DTYPES)
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_accuracy(name, dtype):
    """4 ULP norm-wise."""
    rng = np.random.default_rng(5)
    op = OPS[name]
    size = np.ldexp(rng.uniform(-1, 1, (op.nin, 2, 120)), rng.integers(-30, 7, (op.nin, 1, 120)))
    args = (size[:, 0] + 1j * size[:, 1]).astype(dtype)
    got = compiled(name, dtype)(*args)
    real = np.zeros(0, dtype).real.dtype
    for place, value in zip(args.T.tolist(), got.tolist(), strict=True):
        with mp.workprec(300):
            exact = COMPLEX[name](*map(mp.mpc, place))
            away = abs(mp.mpc(value) - exact) / ulp(abs(exact), real)
        assert away <= ULPS, (place, value)


INF, NAN = math.inf, math.nan
TABLES = {
    "sigmoid": [(-INF, 0.0), (INF, 1.0), (NAN, NAN), (0.0, 0.5)],
    "softplus": [(-INF, 0.0), (INF, INF), (NAN, NAN)],
    "logit": [(0.0, -INF), (-0.0, -INF), (1.0, INF), (0.5, 0.0), (-1.0, NAN), (-INF, NAN),
              (2.0, NAN), (INF, NAN), (NAN, NAN), (-1e-30, NAN)],
    "gelu": [(0.0, 0.0), (-0.0, -0.0), (-INF, -0.0), (-100.0, -0.0), (-1e30, -0.0), (INF, INF),
             (1e30, 1e30), (41.0, 41.0), (NAN, NAN)],
    "silu": [(0.0, 0.0), (-0.0, -0.0), (-INF, -0.0), (-2000.0, -0.0), (-1e30, -0.0), (INF, INF),
             (1e30, 1e30), (NAN, NAN)],
    "xlogy": [(0.0, 0.0, 0.0), (-0.0, 2.0, 0.0), (0.0, INF, 0.0), (0.0, -1.0, 0.0), (0.0, NAN, NAN),
              (2.0, 0.0, -INF), (INF, 1.0, NAN), (1.0, -1.0, NAN), (NAN, 1.0, NAN)],
    "xlog1py": [(0.0, -1.0, 0.0), (-0.0, 2.0, 0.0), (0.0, INF, 0.0), (0.0, NAN, NAN),
                (2.0, -1.0, -INF), (1.0, -2.0, NAN)],
    "logaddexp": [(-INF, -INF, -INF), (INF, INF, INF), (INF, -INF, INF),
                  (-INF, 1.0, 1.0), (NAN, 1.0, NAN)],
    "logaddexp2": [(-INF, -INF, -INF), (INF, INF, INF), (INF, -INF, INF),
                  (-INF, 1.0, 1.0), (1.0, NAN, NAN)],
}  # fmt: skip


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
@pytest.mark.parametrize("name", TABLES)
def test_special_values(name, dtype):
    *args, want = np.array(TABLES[name] * 9, dtype).T  # enough for whole vectors
    for got in (compiled(name, dtype)(*args), np.asarray(quiet(OPS[name].numpy, *args))):
        np.testing.assert_array_equal(got, want)
        zero = want == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


COMPOSED = "logaddexp logaddexp2 sigmoid logit softplus gelu silu xlogy xlog1py".split()


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
@pytest.mark.parametrize("name", COMPOSED)
def test_compositions_keep_loops_vectorized(name, dtype):
    """A branch around a call would make the loop scalar."""
    if not build.toolchain().simd:
        pytest.skip("no libmvec here")
    text = compiled(name, dtype).dump(*(np.ones(64, dtype) for _ in range(OPS[name].nin)))
    called = set(re.findall(r"elemc_\w+", text))
    assert called
    assembly = build_listing.assembly(text)
    assert [f for f in called if not (
        f.endswith("_each") or re.search(rf"_ZGV\w+_{f}\b", assembly))] == []


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [
    -63, -12, -7, -6, -5, -4, -3, -2.5, -2, -1.5, -1, -0.5, -0.25, 0.25, 1.5, 2, 2.5, 3, 4, 5, 6,
    7, 8, 12, 15, 33, 63])
def test_powers_that_are_products(n, dtype):
    """Constant powers, of few factors, are as close as `pow`, and as special."""
    info, wide = np.finfo(dtype), np.longdouble if dtype == np.float64 else np.float64
    rng = np.random.default_rng(7)
    low, high = math.log(info.smallest_subnormal), math.log(info.max)
    x = np.concatenate([
        rng.uniform(-3, 3, 3000), np.exp(rng.uniform(low, high, 3000)), specials(np.dtype(dtype)),
        [info.tiny / 4, info.max]]).astype(dtype)
    x = np.concatenate([x, -x])
    f = ec.compile(lambda x: x**n)
    assert "pow(" not in f.dump(x)
    got, want = f(x), quiet(lambda: np.power(x.astype(wide), wide(n)))
    rounded = quiet(lambda: want.astype(dtype))
    finite = np.isfinite(rounded) & np.isfinite(got)
    np.testing.assert_array_equal(got[~finite], rounded[~finite])
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(rounded[got == 0]))
    apart = abs(got[finite].astype(wide) - want[finite]) / np.spacing(abs(rounded[finite]))
    assert apart.max() <= ULPS
