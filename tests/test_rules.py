"""Gradient rules of scalar operations, by the table: a row without a rule or a test cannot exist."""

import math

import numpy as np
import pytest

import elemc as ec
from elemc.array import apply
from elemc.errors import UnsupportedError
from elemc.ops import OPS
from elemc.rules import FLAT, RULES

DTYPES = ("float64", "complex128")
# Away from kinks and poles, where the table's domains of values are too wide.
DOMAINS = {"tan": ((-0.7, 0.7),), "tanh": ((-0.7, 0.7),), "erfinv": ((-0.9, 0.9),),
           "arcsin": ((-0.9, 0.9),), "arccos": ((-0.9, 0.9),), "arctanh": ((-0.9, 0.9),),
           "cbrt": ((0.3, 4.0),), "log": ((0.3, 4.0),), "log10": ((0.3, 4.0),),
           "log2": ((0.3, 4.0),), "xlogy": ((-2.0, 2.0), (0.3, 4.0)),
           "reciprocal": ((0.3, 2.0),), "digamma": ((0.4, 4.0),), "lgamma": ((0.4, 4.0),),
           "sqrt": ((0.3, 4.0),), "gamma": ((0.2, 4.0),), "remainder": ((0.1, 5.0), (0.6, 2.0)),
           "fmod": ((0.1, 5.0), (0.6, 2.0)), "arccosh": ((1.1, 5.0),), "logit": ((0.05, 0.95),)}


def exists(name, dtype):
    try:
        loop, out = OPS[name].resolve([np.dtype(dtype)] * OPS[name].nin)
    except ec.DtypeError:
        return False
    return out.kind in "fc" and all(d == np.dtype(dtype) for d in loop)


CASES = [(n, d) for n in sorted(RULES.keys() & OPS.keys()) for d in DTYPES if exists(n, d)]


def sample(name, dtype, count=40):
    rng = np.random.default_rng(len(name))
    arrays = []
    for low, high in DOMAINS.get(name, OPS[name].domain or ((-2.0, 2.0),) * OPS[name].nin):
        low, high = max(low, -4.0), min(high, 4.0)
        part = rng.uniform(low, high, (2, count))
        arrays.append(part[0] + 1j * part[1] / 2 if dtype == "complex128" else part[0])
    if name in ("absolute", "fabs", "sign", "relu"):  # away from the kink
        arrays[0] = np.where(np.abs(arrays[0]) < 0.1, 0.5, arrays[0])
    if name in ("remainder", "fmod"):  # away from the steps
        quotient = arrays[0] / arrays[1]
        arrays[0] = arrays[0] + (np.abs(quotient - np.rint(quotient)) < 0.05) * 0.2 * arrays[1]
    return arrays


def smooth_step(name, arrays, k, direction, eps):
    """A central difference of higher order along a direction of operand `k`."""
    def at(t):
        moved = [a + t * eps * direction if j == k else a for j, a in enumerate(arrays)]
        return OPS[name].numpy(*moved)
    with np.errstate(all="ignore"):
        return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * eps)


def test_every_row_has_a_rule_or_is_flat():
    own = {"where", "positive", "trigamma"}  # the last has none
    assert set(RULES) | FLAT | own >= set(OPS)
    assert not set(RULES) & FLAT


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_rule(name, dtype):
    """Against central differences; of complex ones, along both axes of the plane."""
    arrays = sample(name, dtype)
    xs = [ec.vector(f"x{k}", dtype) for k in range(len(arrays))]
    f = ec.function(xs, apply(name, *xs))
    z = f(*arrays)
    rng = np.random.default_rng(1)
    g = rng.normal(size=z.shape)
    g = g + 1j * rng.normal(size=z.shape) if z.dtype.kind == "c" else g
    found = ec.vjp(f)(*arrays, g)
    for k, got in enumerate(found):
        assert got.dtype == arrays[k].dtype
        if name in ("copysign", "nextafter", "ldexp") and k == 1:
            assert not got.any()
            continue
        eps = 1e-3 if dtype == "float64" else 2e-3
        # Re <g, J d> for the directions 1 and i
        by_real = np.real(np.conj(g) * smooth_step(name, arrays, k, 1.0, eps))
        want = by_real
        if dtype == "complex128":
            want = by_real + 1j * np.real(np.conj(g) * smooth_step(name, arrays, k, 1j, eps))
        if name == "nextafter":
            want = np.real(g)
        if name == "heaviside":
            want = np.zeros(len(g))
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7 * np.abs(want).max())


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_jvp_is_the_transpose(name, dtype):
    arrays = sample(name, dtype)
    xs = [ec.vector(f"x{k}", dtype) for k in range(len(arrays))]
    f = ec.function(xs, apply(name, *xs))
    rng = np.random.default_rng(2)

    def draw(like):
        v = rng.normal(size=like.shape)
        return v + 1j * rng.normal(size=like.shape) if like.dtype.kind == "c" else v

    u, directions = draw(f(*arrays)), [draw(a) for a in arrays]
    value, along = ec.jvp(f)(*arrays, *directions)
    np.testing.assert_array_equal(value, f(*arrays))
    back = ec.vjp(f)(*arrays, u)
    left = np.real(np.conj(u) * along)
    right = sum(np.real(np.conj(b) * d) for b, d in zip(back, directions, strict=True))
    np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-10)


INF, NAN = math.inf, math.nan
HARD = [  # operation, operands, expected gradients for a cotangent of 1
    ("sqrt", (0.0,), (INF,)), ("absolute", (0.0,), (0.0,)), ("absolute", (-0.0,), (0.0,)),
    ("relu", (0.0,), (0.0,)), ("sign", (0.0,), (0.0,)), ("power", (0.0, 0.0), (0.0, 0.0)),
    ("power", (0.0, 1.0), (1.0, 0.0)), ("power", (0.0, 2.0), (0.0, 0.0)),
    ("power", (3.0, 0.0), (0.0, math.log(3))), ("power", (-2.0, 2.0), (-4.0, NAN)),
    ("hypot", (0.0, 0.0), (0.0, 0.0)), ("hypot", (1e200, 1e200), (math.sqrt(0.5),) * 2),
    ("arctan2", (0.0, 0.0), (0.0, 0.0)), ("arctan2", (1e-200, 1e-200), (5e199, -5e199)),
    ("xlogy", (0.0, 0.0), (0.0, 0.0)), ("xlogy", (0.0, 2.0), (math.log(2), 0.0)),
    ("xlog1py", (0.0, -1.0), (0.0, 0.0)), ("log1p", (-0.5,), (2.0,)), ("log1p", (1e-300,), (1.0,)),
    ("logaddexp", (-INF, -INF), (0.5, 0.5)), ("logaddexp", (INF, 1.0), (1.0, 0.0)),
    ("logaddexp", (-INF, 1.0), (0.0, 1.0)), ("logaddexp", (800.0, -800.0), (1.0, 0.0)),
    ("logaddexp2", (3.0, 3.0), (0.5, 0.5)), ("maximum", (2.0, 2.0), (0.5, 0.5)),
    ("maximum", (NAN, 1.0), (1.0, 0.0)), ("fmax", (NAN, 1.0), (0.0, 1.0)),
    ("minimum", (-0.0, 0.0), (0.5, 0.5)), ("minimum", (1.0, 2.0), (1.0, 0.0)),
    ("sigmoid", (40.0,), (math.exp(-40),)), ("sigmoid", (-800.0,), (0.0,)),
    ("softplus", (800.0,), (1.0,)), ("softplus", (-40.0,), (math.exp(-40),)),
    ("tanh", (20.0,), (4 * math.exp(-40),)), ("tanh", (400.0,), (0.0,)),
    ("tanh", (-1000.0,), (0.0,)), ("expm1", (-40.0,), (math.exp(-40),)),
    ("arcsinh", (1e200,), (1e-200,)), ("sinc", (0.0,), (0.0,)),
    ("sinc", (1e-5,), (-math.pi**2 * 1e-5 / 3 + math.pi**4 * 1e-15 / 30,)), ("gelu", (-1000.0,), (0.0,)),
    ("gelu", (1000.0,), (1.0,)), ("silu", (-800.0,), (0.0,)), ("silu", (800.0,), (1.0,)),
    ("erf", (0.0,), (2 / math.sqrt(math.pi),)), ("remainder", (7.5, 2.0), (1.0, -3.0)),
    ("copysign", (3.0, -1.0), (-1.0, 0.0)), ("floor", (1.5,), (0.0,)),
    ("logit", (0.5,), (4.0,)), ("arccos", (0.0,), (-1.0,)), ("heaviside", (0.0, 3.0), (0.0, 1.0)),
]


@pytest.mark.parametrize(("name", "operands", "expected"), HARD)
def test_hard_places(name, operands, expected):
    xs = [ec.scalar(f"x{k}") for k in range(len(operands))]
    found = ec.vjp(ec.function(xs, apply(name, *xs)))(*operands, 1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_branches_not_taken_contribute_nothing():
    """Whatever their derivative, and in second order too."""
    def cost(x):
        safe = np.where(x > 0, np.log(x) * np.sqrt(x), 0.0)
        return (safe + np.where(x > 0, x ** 0.5, -x) ** 2).sum()

    x = np.array([-1.0, 0.0, 0.25, 4.0])
    first = ec.grad(cost)
    second = ec.grad(lambda x: first(x).sum())
    p = x[2:]
    np.testing.assert_allclose(
        first(x), [-2.0, 0.0, *(np.log(p) / (2 * np.sqrt(p)) + 1 / np.sqrt(p) + 1)], rtol=1e-13)
    np.testing.assert_allclose(second(x), [2.0, 2.0, *(-np.log(p) / (4 * p**1.5))], atol=1e-14)


SMOOTH = [n for n, d in CASES if d == "float64" and n not in (
    "digamma", "maximum", "minimum", "fmax", "fmin", "remainder", "fmod",
    "copysign", "nextafter", "ldexp", "heaviside", "absolute", "fabs", "sign", "angle", "relu",
    "imag")]


@pytest.mark.parametrize("name", SMOOTH)
def test_second_order(name):
    arrays = sample(name, "float64")
    weights = np.random.default_rng(3).uniform(0.5, 1.5, (len(arrays), 40))
    first = ec.compile(lambda *xs: ec.grad(
        ec.sum(apply(name, *xs)), list(xs)))
    second = ec.compile(lambda *xs: ec.grad(ec.sum(sum(
        w * g for w, g in zip(weights, ec.grad(ec.sum(apply(name, *xs)), list(xs)), strict=True))),
        list(xs)))
    for k, got in enumerate(second(*arrays)):
        eps, want = 1e-3, 0.0
        for t, c in ((1, 8), (-1, -8), (2, -1), (-2, 1)):
            moved = [a + t * eps * (j == k) for j, a in enumerate(arrays)]
            want = want + c * sum(w * g for w, g in zip(weights, first(*moved), strict=True))
        np.testing.assert_allclose(got, want / (12 * eps), rtol=1e-5, atol=1e-6 * np.abs(want).max())


def test_rows_without_a_derivative_say_so():
    x = ec.vector("x")
    with pytest.raises(UnsupportedError, match="trigamma has no gradient"):
        ec.vjp(ec.function([x], apply("trigamma", x)))
