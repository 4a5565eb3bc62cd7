"""Sums of gradients, out of which common factors are moved: the same values, less work."""

import pickle

import numpy as np
import pytest

import elemc as ec
from elemc.errors import UnsupportedError
from elemc.interp import interpret
from elemc.toolchain import machine

ROWS, COLUMNS = 70, 37


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    x, c = rng.standard_normal((2, ROWS, COLUMNS))
    return x, c, 0.5 + rng.random(COLUMNS), 0.5 + rng.random((ROWS, 1))


def layer_norm(x, c, g):
    d = x - x.mean(axis=1, keepdims=True)
    return ec.sum(d / ec.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5) * g * c)


def test_the_gradient_of_a_layer_norm_goes_over_its_rows_three_times():
    x, c, g, _ = arrays()
    text = ec.grad(ec.compile(layer_norm), (0, 2)).dump(x, c, g)
    rows = text[text.index("phase == 0"):text.index("phase == 1")]
    assert rows.count(", in lanes") == 2
    assert rows.count("INDEPENDENT for (int64_t i1 = 0;") == 1
    elements = [line for line in rows.splitlines() if "i1 * " in line and "=" in line]
    assert len(elements) > 10 and not any(" / " in line for line in elements)
    assert text.count("= 1 / t") == 1  # per row


def test_the_gradient_of_a_layer_norm():
    x, c, g, _ = arrays()
    got = ec.grad(ec.compile(layer_norm), (0, 1, 2))(x, c, g)
    x, c, g = (a.astype(np.longdouble) for a in (x, c, g))
    d = x - x.mean(1, keepdims=True)
    width = np.sqrt((d * d).mean(1, keepdims=True) + np.longdouble(1e-5))
    z, cg = d / width, c * g
    want = ((cg - cg.mean(1, keepdims=True) - z * (cg * z).mean(1, keepdims=True)) / width,
            z * g, (c * z).sum(0))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b.astype(float), rtol=1e-12, atol=1e-14)


CASES = {
    "quotient by column": lambda x, c, g, s: ec.sum((x - g) / (g * g) * c),
    "quotient by row": lambda x, c, g, s: ec.sum(x * g / s * c),
    "terms by row": lambda x, c, g, s: ec.sum(ec.tanh((x - s) * s + g * c)),
    "negated terms": lambda x, c, g, s: ec.sum(-((x / s - g) * -s) * -c),
    "squares": lambda x, c, g, s: ec.sum(((x - g) / s) ** 2),
    "cosine": lambda x, c, g, s: ec.sum(x * g / ec.sqrt((x * x).sum(1, keepdims=True))),
    "chosen": lambda x, c, g, s: ec.sum(ec.where(c == x, g, x / g * s)),
    "constants": lambda x, c, g, s: ec.sum(3 * (x - g) / 7 - (s + g) * 2),
}


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "complex128"])
@pytest.mark.parametrize("name", CASES)
def test_the_same_as_the_interpreter(name, dtype):
    given = [a.astype(dtype) for a in arrays()]
    symbols = [ec.array(n, a.ndim, dtype=dtype) for n, a in zip("xcgs", given, strict=True)]
    cost = CASES[name](*symbols)
    f = ec.function(symbols, ec.grad(cost.real if dtype == "complex128" else cost, symbols))
    want = interpret(f.close(tuple(a.dtype for a in given)).graph, given)
    loose = {"float64": 1e-11, "float32": 1e-3, "float16": 0.3, "complex128": 1e-11}[dtype]
    for a, b in zip(f(*given), want, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=loose, atol=loose * np.abs(b).max())


NORMS = {  # of x: a constant keeps their inverses in range, and what is divided by them is in them
    "rows": lambda x: np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6),
    "squares": lambda x: np.sqrt(np.square(x).sum(axis=1, keepdims=True) / 3 + 1e-6),
    "columns": lambda x: np.sqrt((x * x).sum(axis=0) + 1e-6),
    "with others": lambda x: np.sqrt((x * x + abs(x)).sum(axis=1, keepdims=True) + 1),
    "twice": lambda x: np.sqrt(np.sqrt((x * x).sum(axis=1, keepdims=True) + 1e-6)),
}


def over_norm(x, g, norm):
    return ec.sum(x / NORMS[norm](x) * g)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("scale", [1e-200, 1e-60, 1, 1e60, 1e110])
def test_what_is_divided_by_its_norm_is_summed_before(norm, scale):
    """And no product is out of range that was in it, whatever the size of the cotangent."""
    x, g = arrays(3)[:2]
    x *= scale
    f = ec.grad(ec.compile(lambda x, g: over_norm(x, g, norm)))
    assert "sum0: sum, sum1: sum along" in f.dump(x, g)
    for size in (1e-40, 1, 1e80):
        got = f(x, size * g)
        np.testing.assert_allclose(got / size, f(x, g), rtol=1e-9, atol=1e-12 * abs(f(x, g)).max())
    for at in [(3, 4), (69, 36)]:
        ends, step = [], 1e-6 * scale
        for side in (1, -1):
            moved = x.copy()
            moved[at] += side * step
            ends.append(np.sum((moved / NORMS[norm](moved) - x / NORMS[norm](x)) * g))
        np.testing.assert_allclose(f(x, g)[at], (ends[0] - ends[1]) / (2 * step), rtol=1e-4)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1, 1e12, 1e16])
@pytest.mark.parametrize("size", [1, 1e15, 1e20])
def test_floats_are_divided_by_their_norm_first(norm, scale, size):
    """Whose products would leave their range."""
    x, g = arrays(3)[:2]
    x *= scale
    f = ec.grad(ec.compile(lambda x, g: over_norm(x, g, norm)))
    want = f(x, size * g)
    got = f(x.astype("float32"), (size * g).astype("float32"))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=4e-6 * abs(want).max() + 1e-37)


def softmax(x, axis=1, top=np.max):
    e = np.exp(x - top(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_gradient_of_a_softmax(dtype, axis):
    """Of which no exponential, and not their sum, is out of range."""
    x, g = (a.astype(dtype) for a in arrays(4)[:2])
    x *= 20
    x[0], x[1, 1], x[5, 7] = 1, -np.inf, 1e4
    f = ec.grad(ec.compile(lambda x, g: ec.sum(softmax(x, axis) * g)))
    text = f.dump(x, g)
    assert "quotient_f" not in text
    assert "sum1" in text and "sum2" not in text and "== max0" not in text
    tiny = float(np.finfo(dtype).tiny) ** 0.9
    wide = x.astype(np.longdouble)
    z = np.exp(wide - wide.max(axis, keepdims=True))
    z /= z.sum(axis, keepdims=True)
    for size in (tiny, 1e-6, 1, 1e12, 1 / tiny):
        c = (size * g).astype(dtype)
        want = z * (c - (z * c).sum(axis, keepdims=True))
        np.testing.assert_allclose(f(x, c), want.astype(float), rtol=0,
                                   atol=64 * np.finfo(dtype).eps * np.abs(c).max())


LIKE_SOFTMAX = {  # of which nothing is known to be 1, or more may be
    "of another axis": lambda x: softmax(x, top=lambda x, axis, keepdims: np.max(x, axis=0)),
    "of others": lambda x: softmax(x, top=lambda x, axis, keepdims: np.max(x * x, 1, keepdims=True)),
    "least": lambda x: softmax(x, top=np.min),
    "started": lambda x: softmax(
        x, top=lambda x, **of: np.max(x, initial=3.0, **of)),
    "masked": lambda x: softmax(
        x, top=lambda x, **of: np.max(x, initial=-np.inf, where=x < 1, **of)),
}


@pytest.mark.parametrize("like", LIKE_SOFTMAX)
def test_what_is_like_a_softmax_is_divided_first(like):
    x, g, *_ = arrays(4)
    f = ec.grad(ec.compile(lambda x, g: ec.sum(LIKE_SOFTMAX[like](x) * g)))
    assert "quotient_f64" in f.dump(x, g)


OTHERS = {  # which may be finite where squares of x are not, or so small that nothing is left
    "a choice": lambda x: np.sqrt(np.minimum((x * x).sum(axis=1, keepdims=True), 1e30) + 1e-6),
    "masked": lambda x: np.sqrt(np.sum(x * x, axis=1, keepdims=True, where=abs(x) < 1) + 1e-6),
    "another": lambda x: np.sqrt((x[:, ::-1] * x).sum(axis=1, keepdims=True) ** 2 + 1),
    "no constant": lambda x: np.sqrt((x * x).sum(axis=1, keepdims=True)),
    "no root": lambda x: (x * x).sum(axis=1, keepdims=True) + 1,
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_is_no_norm_is_divided_by_first(other):
    x, g = arrays(3)[:2]
    text = ec.grad(ec.compile(lambda x, g: ec.sum(x / OTHERS[other](x) * g))).dump(x, g)
    assert "sum0: sum, sum1: sum along" not in text


@pytest.mark.parametrize("scale", [1, 1e18, 1e30, 1e-18, 1e-30])
def test_products_stay_in_range(scale):
    """A norm that is scaled by its maximum, and factors that bring products back into range."""
    x = (np.array([[3.0, 4.0], [6.0, 8.0]]) * scale).astype("float32")

    def norm(x):
        m = ec.abs(x).max(axis=1, keepdims=True)
        return ec.sum(m * ec.sqrt(((x / m) ** 2).sum(axis=1, keepdims=True)))

    np.testing.assert_allclose(ec.grad(norm)(x), [[0.6, 0.8]] * 2, rtol=1e-5)
    s = np.full((2, 1), 1 / scale, "float32")
    got = ec.grad(lambda x, s: ec.sum((x * s) * (x * s)), 1)(x, s)
    wide = x.astype(float)
    np.testing.assert_allclose(got, (2 * s * wide * wide).sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_divisors_of_every_size(dtype):
    info = np.finfo(dtype)
    c = np.array([[0, 1, -3, info.tiny, info.max / 8]], dtype)
    x = np.ones_like(c)
    small = info.smallest_subnormal * 4
    for s in (small, info.tiny, 1.0, info.max / 2, info.max, 0, np.inf, -small):
        s = np.array([[s]], dtype)
        with np.errstate(all="ignore"):
            want = c / s
            np.testing.assert_allclose(
                ec.grad(lambda x, s, c: ec.sum(x / s * c))(x, s, c), want, rtol=4 * info.eps,
                atol=info.smallest_subnormal)


WIDTHS = {  # of x and s: never so small that their inverses overflow, or maybe
    "root": (lambda x, s: ec.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6), True),
    "exponential": (lambda x, s: ec.exp(s) + 0.5, True),
    "maximum": (lambda x, s: ec.maximum(s, 1e-3), True),
    "softmax": (lambda x, s: ec.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True),
                True),
    "softmax, less": (lambda x, s: ec.exp(x - x.max(axis=1, keepdims=True)).sum(
        axis=1, keepdims=True, initial=-1.0), False),
    "highest": (lambda x, s: (abs(x) + 2).max(axis=1, keepdims=True), True),
    "wrapping": (lambda x, s: ec.sum(x > 0, axis=1, keepdims=True).astype(x.dtype) + 1, False),
    "chosen": (lambda x, s: ec.where(s > 0, 2 + s * s, 3.0), True),
    "sum": (lambda x, s: (x * x).sum(axis=1, keepdims=True), False),
    "signed": (lambda x, s: ec.sqrt(s * x.sum(axis=1, keepdims=True)) + s, False),
    "least": (lambda x, s: ec.minimum(s, 1.0), False),
    "tiny": (lambda x, s: s * s + 1e-310, False),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", WIDTHS)
def test_rows_are_multiplied_by_inverses_that_cannot_overflow(width, dtype):
    """And in the range of all others, too."""
    info = np.finfo(dtype)
    divisor, multiplies = WIDTHS[width]
    x = np.array([[0, 1, -3, info.tiny, info.max ** 0.25]] * 6, dtype)
    s = np.array([[1], [0], [-2], [np.inf], [np.nan], [info.tiny]], dtype)
    f = ec.grad(ec.compile(lambda c, x, s: ec.sum(x / divisor(x, s) * c)))
    assert ("quotient_f" in f.dump(x, x, s)) != multiplies
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(f(x, x, s), ec.compile(lambda x, s: x / divisor(x, s))(x, s),
                                   rtol=2 * info.eps, atol=info.smallest_subnormal)


NEAR_ZERO = {  # of s, which is 0 but for the number at the end; and what s is
    "wraps": (lambda s: s.astype("int8").astype("float64") + 2. + 1e-310, np.uint8(254)),
    "wraps, 64 bits": (lambda s: s.astype("int64").astype("float64") + 2.**63 + 1e-310,
                       np.uint64(2**63)),
    "bool": (lambda s: ec.maximum(s, 300.).astype("bool").astype("float64") + (-1.) + 1e-310, 300.),
    "rounded": (lambda s: (ec.maximum(s, 1 + 2**-30).astype("float32") + (-1.)) + 1e-40, 0.),
    "underflow": (lambda s: ec.sqrt(ec.maximum(s, 1e-60).astype("float32")) + 1e-40, 0.),
    "absorbed": (lambda s: ((ec.maximum(s, 1.) + 1e-9) + (-1.)) + 1e-40, np.float32(1)),
}


@pytest.mark.parametrize("name", NEAR_ZERO)
def test_divisors_that_only_look_large_are_divided_by(name):
    divisor, s = NEAR_ZERO[name]
    tiny = 1e-40 if name in ("rounded", "underflow", "absorbed") else 1e-310
    x = np.full((1, 3), tiny, "float32" if tiny == 1e-40 else "float64")
    got = ec.grad(ec.compile(lambda c, x, s: ec.sum(x / divisor(s) * c)))(
        np.ones_like(x), x, np.array([[s]]))
    np.testing.assert_allclose(got, 1, rtol=1e-6)


def test_bounds_beyond_the_range_of_the_divisor():
    s, x = np.ones((1, 1), "float32"), np.ones((1, 3), "float32")
    with np.errstate(all="raise"):
        f = ec.grad(ec.compile(
            lambda c, x, s: ec.sum(x / (ec.maximum(s, 3e38) + ec.maximum(s, 2e38)) * c)))
        assert not np.any(f(x, x, s))


def test_what_is_called_a_sum_may_be_anything():
    less = ec.Accumulator("sum", identity=0.0, combine=lambda a, v: a - v)
    x = np.ones((2, 3))
    f = ec.grad(ec.compile(
        lambda c, x: ec.sum(x / (ec.accumulate(less, x * x, 1)[:, None] + 4) * c)))
    assert "quotient_f64" in f.dump(x, x)
    np.testing.assert_array_equal(f(x, x), x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quotients_without_divisions(dtype):
    """The gradient in c of sum(x / s * c) is x / s, of which no bit is lost where there is FMA."""
    rng, info = np.random.default_rng(1), np.finfo(dtype)
    s = (rng.choice([-1, 1], 200) * np.exp2(rng.uniform(-20, 20, 200))).astype(dtype)
    special = [0, -0.0, np.inf, -np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal]
    x = np.concatenate([rng.standard_normal((20, 200)), np.full((8, 200), np.c_[special])])
    x = np.concatenate([x, s[None], -s[None]]).astype(dtype)
    f = ec.grad(ec.compile(lambda c, x, s: ec.sum(x / s * c)))
    assert "quotient_f" in f.dump(x, x, s)
    with np.errstate(all="ignore"):
        want, got = x / s, f(x, x, s)
    np.testing.assert_array_equal(np.signbit(got[:24]), np.signbit(want[:24]))
    np.testing.assert_array_equal(got[20:24], want[20:24])
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got[~finite], want[~finite])
    np.testing.assert_allclose(got[finite], want[finite], 2 * info.eps, info.smallest_subnormal)
    if "fma" in machine():
        ordinary = np.r_[0:20, 28:30]
        np.testing.assert_array_equal(got[ordinary], want[ordinary])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("c", [1.0, -1.0, 2.0, -0.5, 2.0**60, 3.0, -0.1, 1e-30])
def test_quotients_by_constants(dtype, c):
    """The gradient in m of sum(m / c * g) is g / c."""
    m, g = ec.array("m", 2, dtype), ec.array("g", 1, dtype)
    f = ec.function([m, g], ec.grad(((m / c) * g).sum(), [m])[0])
    info, c = np.finfo(dtype), np.dtype(dtype).type(c)
    values = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -3, info.max, info.tiny], dtype)
    with np.errstate(all="ignore"):
        got, want = f(np.ones((2, values.size), dtype), values)[1], values / c
    np.testing.assert_allclose(got, want, info.eps, info.smallest_subnormal)
    signs = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[signs]), np.signbit(want[signs]))


def test_copies_of_gradients_are_the_same():
    s, m = ec.matrix("s"), ec.vector("m")
    f = ec.function([s, m], ec.grad(ec.sum(ec.tanh(s / m)), [s, m]))
    again = pickle.loads(pickle.dumps(f))
    x, _, g, _ = arrays()
    assert again.dump(x, g) == f.dump(x, g) and "quotient_f64" in f.dump(x, g)
    for a, b in zip(again(x, g), f(x, g), strict=True):
        np.testing.assert_array_equal(a, b)


def test_users_operations_have_rules_of_their_own():
    near = ec.scalar_op("near", c="{x} * {x}", numpy=lambda x: x * x, arity=1)
    with pytest.raises(UnsupportedError, match="near has no gradient"):
        ec.grad(lambda x: ec.sum(near(x)))(np.ones(3))


def test_the_value_beside_its_gradient_is_exact():
    x, _, g, _ = arrays()
    both = ec.compile(lambda x, g: (x / g, ec.grad(ec.sum(ec.exp(x / g)), x)))
    z, dz = both(x, g)
    np.testing.assert_array_equal(z, x / g)
    np.testing.assert_allclose(dz, np.exp(x / g) / g, rtol=1e-14)


def test_sums_of_users_are_left_alone():
    x, _, g, s = arrays()
    f = ec.compile(lambda x, s: (x / s).sum(axis=1))
    np.testing.assert_array_equal(f(x, s), ec.compile(lambda y: y.sum(axis=1))(x / s))


def test_differences_are_left_together():
    x = 1e9 + arrays()[0]
    f = ec.compile(lambda x, s: ec.sum(ec.square((x - x.mean(axis=1, keepdims=True)) * s)) / 2)
    got = ec.grad(f, 1)(x, np.ones((ROWS, 1)))
    d = x - x.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(got, (d * d).sum(axis=1, keepdims=True), rtol=1e-9)


def test_any_depth_and_empty():
    def f(x, s):
        for _ in range(300):
            x = x * s / 1.01
        return ec.sum(x)

    x, s = np.ones((4, 3)), np.full(3, 1.01)
    np.testing.assert_allclose(ec.grad(f, 1)(x, s), np.full(3, 4 * 300 / 1.01), rtol=1e-9)
    np.testing.assert_array_equal(ec.grad(f, 1)(x[:0], s), np.zeros(3))


def var(x, mean=np.mean, **axis):
    return np.square(x - mean(x, **axis)).mean(**axis)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("offset", [0, 1e6])
def test_differences_from_the_mean_add_up_to_nothing(axis, offset):
    """So the gradient of a variance goes over rows twice, not three times."""
    x, c, *_ = arrays(6)
    x += offset
    c = c.mean(axis=axis)
    f = ec.grad(ec.compile(lambda x, c: ec.sum(var(x, axis=axis, keepdims=True).squeeze(axis) * c)))
    assert "sum1" not in f.dump(x, c)
    wide = x.astype(np.longdouble)
    d = wide - wide.mean(axis=axis, keepdims=True)
    want = 2 * d * np.expand_dims(c, axis) / x.shape[axis]
    np.testing.assert_allclose(f(x, c), want.astype(float), rtol=0, atol=1e-15 * (1 + offset))
    x[3, 4] = np.nan
    got = np.isnan(f(x, c))
    assert got[3].all() if axis else got[:, 4].all()
    assert got.sum() == x.shape[axis]


def test_means_that_are_not_finite_are_not_taken_for_0():
    x, y, *_ = arrays()
    x[0, 0], x[1, 0] = np.nan, np.inf
    f = ec.grad(ec.compile(lambda x, y: ((x - x.mean(axis=1, keepdims=True)) * y).sum()), 1)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(np.isnan(f(x, y[:, :1])[:, 0]), np.arange(ROWS) < 2)


NO_MEANS = {
    "of others": lambda x, g: np.sum(np.mean(np.square(x - np.mean(x * g, 1, keepdims=True)), 1)),
    "masked": lambda x, g: np.sum(np.mean(np.square(x - np.mean(
        x, 1, keepdims=True, where=x < 1)), 1)),
    "less": lambda x, g: np.sum(np.mean(np.square(x - np.sum(x, 1, keepdims=True) / 36), 1)),
    "of columns": lambda x, g: np.sum(np.mean(np.square(x - np.mean(x, 0)), 1)),
    "of a part": lambda x, g: np.sum(np.mean(np.square(x[:, 1:] - np.mean(
        x, 1, keepdims=True)), 1)),
    "started": lambda x, g: np.sum(np.mean(np.square(x - np.sum(
        x, 1, keepdims=True, initial=2.0) / x.shape[1]), 1)),
}


@pytest.mark.parametrize("name", NO_MEANS)
def test_differences_from_something_else_do_not(name):
    x, _, g, _ = arrays(6)
    got = ec.grad(ec.compile(NO_MEANS[name]))(x, g)
    for at in [(0, 0), (3, 4), (69, 36)]:
        ends = []
        for step in (1e-6, -1e-6):
            moved = x.copy()
            moved[at] += step
            ends.append(NO_MEANS[name](moved, g))
        np.testing.assert_allclose(got[at], (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-7)
