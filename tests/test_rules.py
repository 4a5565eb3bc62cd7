"""Gradient rules of scalar operations, by the table: a row without a rule or a test cannot exist."""

import math
from dataclasses import replace

import numpy as np
import pytest

import elemc as ec
from elemc.array import apply
from elemc.errors import UnsupportedError
from elemc.ops import OPS
from elemc.rules import FLAT, RULES

from .helpers import quiet

DTYPES = ("float64", "complex128")
# Away from kinks and poles, where the table's domains of values are too wide.
DOMAINS = {"tan": ((-0.7, 0.7),), "tanh": ((-0.7, 0.7),), "erfinv": ((-0.9, 0.9),),
           "arcsin": ((-0.9, 0.9),), "arccos": ((-0.9, 0.9),), "arctanh": ((-0.9, 0.9),),
           "cbrt": ((0.3, 4.0),), "log": ((0.3, 4.0),), "log10": ((0.3, 4.0),),
           "log2": ((0.3, 4.0),), "xlogy": ((-2.0, 2.0), (0.3, 4.0)),
           "reciprocal": ((0.3, 2.0),), "digamma": ((0.4, 4.0),), "lgamma": ((0.4, 4.0),),
           "polygamma": (range(8), (0.4, 4.0)),
           "sqrt": ((0.3, 4.0),), "gamma": ((0.2, 4.0),), "remainder": ((0.1, 5.0), (0.6, 2.0)),
           "fmod": ((0.1, 5.0), (0.6, 2.0)), "arccosh": ((1.1, 5.0),), "logit": ((0.05, 0.95),)}


def exists(name, dtype):
    try:
        loop, out = OPS[name].resolve([np.dtype(dtype)] * OPS[name].nin)
    except ec.DtypeError:
        return False
    return out.kind in "fc" and all(d == np.dtype(dtype) for d in loop)


# Operands that the rules take for constants.
CONSTANT = {("copysign", 1), ("nextafter", 1), ("ldexp", 1), ("polygamma", 0)}
CASES = [(n, d) for n in sorted(RULES.keys() & OPS.keys()) for d in DTYPES if exists(n, d)]


def sample(name, dtype, count=40):
    rng = np.random.default_rng(len(name))
    arrays = []
    for domain in DOMAINS.get(name, OPS[name].domain or ((-2.0, 2.0),) * OPS[name].nin):
        if isinstance(domain, range):
            arrays.append(rng.choice(domain, count).astype(dtype))
            continue
        low, high = max(domain[0], -4.0), min(domain[1], 4.0)
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
    assert set(RULES) | FLAT | {"where"} >= set(OPS)
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
        if (name, k) in CONSTANT:
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
    ("gelu", (INF,), (1.0,)), ("gelu", (-INF,), (0.0,)), ("silu", (INF,), (1.0,)),
    ("silu", (-INF,), (0.0,)), ("silu", (-1e308,), (0.0,)), ("sinc", (1.7e308,), (1 / 1.7e308,)),
    ("sinc", (2.0**53,), (2.0**-53,)), ("sinc", (-1e15 - 1,), (1 / (1e15 + 1),)),
    ("hypot", (INF, 1e5), (1.0, 0.0)), ("hypot", (3.0, -INF), (0.0, -1.0)),
    ("hypot", (-INF, INF), (-math.sqrt(0.5), math.sqrt(0.5))), ("hypot", (NAN, 1.0), (NAN, NAN)),
    ("arctan2", (INF, 1e5), (0.0, 0.0)), ("arctan2", (1.0, -INF), (0.0, 0.0)),
    ("arctan2", (INF, INF), (0.0, 0.0)), ("arctan2", (1e155, 1e155), (5e-156, -5e-156)),
    ("power", (0.5, INF), (0.0, 0.0)), ("power", (2.0, -INF), (0.0, 0.0)),
    ("logaddexp", (INF, INF), (0.5, 0.5)), ("logaddexp", (-INF, 3.0), (0.0, 1.0)),
    ("logaddexp", (-1e308, 1e308), (0.0, 1.0)), ("logaddexp", (INF, 1e5), (1.0, 0.0)),
    ("polygamma", (2.0, INF), (0.0, 0.0)), ("polygamma", (1.0, 1e100), (0.0, -1e-200)),
    ("logit", (0.5,), (4.0,)), ("arccos", (0.0,), (-1.0,)), ("heaviside", (0.0, 3.0), (0.0, 1.0)),
]


@pytest.mark.parametrize(("name", "operands", "expected"), HARD)
def test_hard_places(name, operands, expected):
    xs = [ec.scalar(f"x{k}") for k in range(len(operands))]
    found = ec.vjp(ec.function(xs, apply(name, *xs)))(*operands, 1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


SOFTMAX = [
    ([-INF, 0.0, 1.0], [0.0, 1 / (1 + math.e), math.e / (1 + math.e)]), ([INF, 0.0], [1.0, 0.0]),
    ([-INF, -INF], [0.5, 0.5]), ([INF, INF], [0.5, 0.5]), ([INF, -INF, INF], [0.5, 0.0, 0.5]),
    ([1e308, -1e308], [1.0, 0.0]), ([-800.0, -INF], [1.0, 0.0]), ([NAN, 0.0], [NAN, NAN]),
    ([INF, NAN], [NAN, NAN]),
]


@pytest.mark.parametrize(("x", "expected"), SOFTMAX)
def test_gradients_of_logsumexp_beside_infinities(x, expected):
    x = np.array(x)
    for cost in (lambda x: ec.logsumexp(x), lambda x: np.logaddexp.reduce(x),
                 lambda x: ec.logsumexp(x[:, None] * np.ones(40), axis=0).mean()):
        np.testing.assert_allclose(ec.grad(cost)(x), expected, rtol=1e-14)
    np.testing.assert_allclose(ec.logsumexp(x), quiet(np.logaddexp.reduce, x), rtol=1e-15)
    if len(x) == 2:
        pair = ec.grad(lambda x, y: np.logaddexp(x, y), (0, 1))(*x)
        np.testing.assert_allclose(pair, expected, rtol=1e-14)
    first = ec.grad(lambda x: ec.logsumexp(x))
    weights = np.arange(float(len(x)))
    curved = ec.grad(lambda x: (first(x) * weights).sum())(x)
    assert np.isnan(curved).any() == np.isnan(x).any()


@pytest.mark.parametrize(("x", "expected"), [
    ([-INF, 0.0, 1.0], [0.0, 1 / (1 + math.e), math.e / (1 + math.e)]),
    ([INF, 0.0], [1.0, 0.0]), ([0.0, INF, INF], [0.0, 0.5, 0.5])])
def test_gradients_of_logcumsumexp_beside_infinities(x, expected):
    found = ec.grad(lambda x: ec.logcumsumexp(x)[-1])(np.array(x))
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "below", "above"), [
    ("gelu", 0, 1), ("silu", 0, 1), ("softplus", 0, 1), ("sigmoid", 0, 0), ("tanh", 0, 0),
    ("erf", 0, 0), ("erfc", 0, 0), ("expm1", 0, INF), ("exp", 0, INF), ("arctan", 0, 0),
    ("arcsinh", 0, 0), ("cbrt", 0, 0), ("log1p", None, 0), ("sinc", 0, 0)])
def test_far_from_0_gradients_have_reached_their_limits(name, below, above, dtype):
    far = [1e5, 1e20, float(np.finfo(dtype).max)] + [1e155] * (dtype == "float64")
    far = np.array(far + [INF] * (name != "sinc"), dtype)  # NumPy's sinc has no limit there
    x = ec.vector("x", dtype)
    gradient = ec.vjp(ec.function([x], apply(name, x)))
    for limit, at in ((below, -far), (above, far)):
        if limit is not None:
            np.testing.assert_allclose(gradient(at, np.ones_like(at)), limit, atol=2e-4)
            np.testing.assert_allclose(gradient(at[2:], np.ones_like(at[2:])), limit, atol=1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["hypot", "arctan2", "logaddexp", "logaddexp2"])
def test_far_from_0_gradients_of_two_operands_are_finite(name, dtype):
    far = np.array([1e5, 1e20, float(np.finfo(dtype).max), INF, 1e-30, 0.0], dtype)
    operands = [a.ravel() for a in np.meshgrid([*far, *-far], [*far, *-far])]
    xs = [ec.vector(f"x{k}", dtype) for k in range(2)]
    found = ec.vjp(ec.function(xs, apply(name, *xs)))(
        *operands, np.ones_like(operands[0]))
    for part in found:
        assert part.dtype == dtype
        assert np.isfinite(part).all() or name == "arctan2"  # its own are infinite next to (0, 0)
        assert not np.isnan(part).any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_higher_derivatives_of_tanh_end_at_0(dtype):
    x = np.array([-1e5, -90, 90, 1e20, INF], dtype)
    f = np.tanh
    for _ in range(4):
        f = ec.grad(lambda x, f=f: f(x).sum())
        np.testing.assert_allclose(f(x), 0, atol=1e-30)


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
    "polygamma", "maximum", "minimum", "fmax", "fmin", "remainder", "fmod",
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


def test_derivatives_of_lgamma_of_every_order():
    """(-1)**n (n - 1)! sum 1 / (x + k)**n; at 1 the sum is Riemann's zeta function."""
    zeta = {2: math.pi**2 / 6, 3: 1.2020569031595942, 4: math.pi**4 / 90, 5: 1.0369277551433699,
            6: math.pi**6 / 945}
    x = np.array([1.0])
    f = ec.lgamma
    for order in range(1, 7):
        f = ec.grad(lambda x, f=f: f(x).sum())
        if order > 1:
            want = (-1) ** order * math.factorial(order - 1) * zeta[order]
            np.testing.assert_allclose(f(x), [want], rtol=1e-15)
            np.testing.assert_allclose(f(x), ec.polygamma(order - 1, x), rtol=1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_order_of_polygamma_may_be_an_array(dtype):
    orders, x = np.arange(5), np.linspace(0.5, 3, 5).astype(dtype)
    value = ec.polygamma(orders[:, None].astype(dtype), x)
    assert value.dtype == x.dtype == ec.polygamma(2, x).dtype
    gradient = ec.grad(lambda x: ec.polygamma(orders.astype(dtype)[:, None], x).sum())(x)
    above = ec.polygamma((orders[:, None] + 1).astype(dtype), x)
    np.testing.assert_allclose(gradient, above.sum(axis=0), rtol=1e-6)


def test_operations_without_a_rule_say_so():
    x = ec.vector("x")
    op = replace(OPS["exp"], name="unheard_of")
    with pytest.raises(UnsupportedError, match="unheard_of has no gradient"):
        ec.vjp(ec.function([x], apply(op, x)))


def test_check_vjp_allows_for_the_rounding_of_its_differences():
    """At an optimum the gradient is 0, and its differences are the rounding of the cost."""
    for seed in range(9):
        y = np.random.default_rng(seed).normal(size=100)
        for offset in (0.0, 1e6):
            ec.check_vjp(lambda p, y, c: c + ((y - p) ** 2).mean(), y.mean(), y, offset)


@pytest.mark.parametrize(("p", "place"), [(2.0, "p is"), (np.ones((2, 3)), r"p at \(0, 0\) is")])
def test_check_vjp_names_the_argument(p, place):
    square = ec.custom_vjp(lambda x: x * x)
    square.defvjp(lambda g, z, x: g * x * 2.001)
    with pytest.raises(ec.ElemcError, match=f"the gradient of {place} .*, and by differences"):
        ec.check_vjp(lambda p: square(p), p)


@pytest.mark.parametrize("dtype, large", [("f2", 4e4), ("f4", 3e38), ("f8", 1.5e308)])
@pytest.mark.parametrize("square", [lambda x: x * x, np.square, lambda x: x**2])
def test_squares_do_not_double_the_cotangent(square, dtype, large):
    grad = ec.grad(ec.compile(lambda x, c: (square(x) * c).sum()), "x")
    x, c = np.full(3, 0.1, dtype), np.full(3, large, dtype)
    np.testing.assert_allclose(grad(x, c), 0.2 * large, rtol=1e-2)
