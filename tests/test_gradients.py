"""The transformer: maps swapped, sizes that are 1 in a call, accumulators, nesting, errors."""

import itertools
import math

import numpy as np
import pytest

import elemc as ec
from elemc.accumulators import ACCUMULATORS
from elemc.errors import ArgumentError, DtypeError, ShapeError, UnsupportedError

RNG = np.random.default_rng(0)
START = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def numbers_do_not_depend_on_other_tests():
    RNG.bit_generator.state = START


X, Y, W = (np.random.default_rng(k).normal(size=s) for k, s in enumerate([(4, 5), 5, (4, 5)]))


def differences(fn, args, k, eps=1e-4):
    """Central differences of fourth order of a scalar function."""
    found = np.zeros(args[k].shape)
    for at in np.ndindex(found.shape):
        values = []
        for step in (1, -1, 2, -2):
            moved = [a.copy() for a in args]
            moved[k][at] += step * eps
            values.append(fn(*moved))
        found[at] = (8 * (values[0] - values[1]) - values[2] + values[3]) / (12 * eps)
    return found


def check(fn, *args):
    """`ec.grad` of NumPy code against differences of that code."""
    found = ec.grad(fn, tuple(range(len(args))))(*args)
    for k, got in enumerate(found):
        assert got.shape == args[k].shape
        want = differences(fn, args, k)
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-8 * max(1, np.abs(want).max()))


@pytest.mark.parametrize("fn", [
    lambda x, y: (x * y).sum(), lambda x, y: np.exp(np.sin(x) + y).sum(),
    lambda x, y: (x @ y).sum() ** 2, lambda x, y: np.dot(y, y) * x.mean(),
    lambda x, y: ((x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True) * y).sum()**3,
    lambda x, y: (x[1:] * x[:-1]).sum() + y[-1] * y[0], lambda x, y: (x[::-1].T @ x @ y)[1:4].sum(),
    lambda x, y: np.trace(x[:, :4] * y[:4]) + np.einsum("ii->i", x[:, 1:]).max(),
    lambda x, y: np.where(x > 0, np.log(np.abs(x)), y).sum(), lambda x, y: x[2, 3] * y[1] * x[0, 0],
    lambda x, y: (x[:, None, :] * y[:, None]).sum(axis=(0, 2)).max(),
    lambda x, y: np.maximum(x, y).min(axis=0).sum(), lambda x, y: x.T[1].sum() * np.ptp(y),
    lambda x, y: (np.exp(x) / np.exp(x).sum(axis=1, keepdims=True) * y).sum(),
    lambda x, y: np.einsum("ij,kj,j->ik", x, x, y).sum(), lambda x, y: (x**2 / (1 + y**2)).mean(),
    lambda x, y: np.sqrt((x - y) ** 2 + 1).sum(axis=0).max(),
])
def test_of_numpy_code(fn):
    check(fn, X, Y)


FOLDS = {"sum": {}, "mean": {}, "max": {}, "min": {}, "fmax": {}, "fmin": {}, "var": {"ddof": 1},
         "std": {}, "logsumexp": {}, "norm": {"ord": 3}, "norm1": {}, "norm2": {}, "norminf": {},
         "ptp": {}, "nansum": {}, "nanmean": {}, "nanvar": {}, "nanstd": {}, "nanmax": {},
         "nanmin": {}, "prod": {}, "nanprod": {}}
FLAT = {"any", "all", "argmin", "argmax", "count_nonzero", "nanargmin", "nanargmax"}

def folded(name, x, axis):
    if isinstance(x, np.ndarray) and name in ("fmin", "fmax"):
        return getattr(np, name).reduce(x, axis=axis)
    of = ec.accumulate if name in ("fmin", "fmax") else None
    return of(name, x, axis) if of else getattr(ec, name)(x, axis=axis, **FOLDS[name])


def test_every_accumulator_is_known():
    assert set(FOLDS) | FLAT == set(ACCUMULATORS)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2)])
@pytest.mark.parametrize("name", FOLDS)
def test_accumulators(name, axis):
    x = RNG.normal(size=(3, 4, 2))
    weights = RNG.normal(size=np.sum(x, axis=axis).shape)

    def cost(x):
        return (folded(name, x, axis) * weights).sum()

    check(cost, x)


@pytest.mark.parametrize("name", FOLDS)
def test_second_order_of_accumulators(name):
    x, d = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4))

    def cost(x):
        return (folded(name, x * x, 1) ** 2).sum()

    first = ec.grad(cost)
    along = ec.grad(lambda x: (first(x) * d).sum())(x)
    eps = 1e-4
    want = (8 * (first(x + eps * d) - first(x - eps * d))
            - (first(x + 2 * eps * d) - first(x - 2 * eps * d))) / (12 * eps)
    np.testing.assert_allclose(along, want, rtol=1e-5, atol=1e-6 * np.abs(want).max())


def test_masks_and_initial_values():
    m = X > 0

    def cost(x, s):
        return (x.sum(axis=0, where=m) * Y).sum() + (x.max(axis=1, where=m, initial=-5) ** 2).sum() + (
            x * 3).min(axis=0, initial=0.1).sum() + s * np.sum(x, initial=3.0)

    def numpys(x, s):
        return cost(x, s[()])

    found = ec.grad(cost, (0, 1))(X, 2.0)
    np.testing.assert_allclose(found[0], differences(numpys, [X, np.array(2.0)], 0), rtol=1e-7)
    np.testing.assert_allclose(found[1], np.sum(X) + 3)


TIES = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [np.nan, 5.0, np.nan]])


def test_ties_share():
    got = ec.grad(lambda x: x.max(axis=1).sum())(TIES)
    np.testing.assert_array_equal(got, [[0, 0.5, 0.5], [1 / 3] * 3, [0.5, 0, 0.5]])
    got = ec.grad(lambda x: ec.nanmax(x, axis=1).sum())(TIES)
    np.testing.assert_array_equal(got, [[0, 0.5, 0.5], [1 / 3] * 3, [0, 1, 0]])


@pytest.mark.parametrize("ties, rows", [
    ("split", [[0, 0.5, 0.5], [1 / 3] * 3, [0.5, 0, 0.5]]), ("all", [[0, 1, 1], [1] * 3, [1, 0, 1]]),
    ("first", [[0, 1, 0], [1, 0, 0], [1, 0, 0]])])
def test_who_gets_the_cotangent_of_an_extremum(ties, rows):
    def slope(fn, *args):
        return ec.grad(lambda x: fn(x).sum())(*args)
    np.testing.assert_array_equal(slope(lambda x: ec.max(x, axis=1, ties=ties), TIES), rows)
    np.testing.assert_array_equal(slope(lambda x: x.T.max(axis=0, ties=ties), TIES), rows)
    np.testing.assert_array_equal(slope(lambda x: -ec.min(-x, axis=1, ties=ties), TIES), rows)
    share = {"split": 0.2, "all": 1, "first": 0}[ties]
    got = slope(lambda x: ec.max(x, initial=2.0, ties=ties), np.full((2, 2), 2.0))
    np.testing.assert_array_equal(got, np.full((2, 2), share))
    got = slope(lambda x: ec.max(x, initial=0.0, where=x < 5, ties=ties), TIES[::-1])
    best = np.flatnonzero(TIES[::-1] == 3)
    want = np.zeros(9)
    want[best[:1] if ties == "first" else best] = 0.5 if ties == "split" else 1
    np.testing.assert_array_equal(got.ravel(), want)
    got = slope(lambda x: ec.nanmax(x, axis=1, ties=ties), TIES)
    np.testing.assert_array_equal(got, [*rows[:2], [0, 1, 0]])
    with pytest.raises(ArgumentError, match="sum has no option ties"):
        ec.sum(ec.vector("x"), ties=ties)


def test_an_extremum_computed_again_has_the_same_bits():
    x = np.random.default_rng(3).normal(size=(50, 301))
    for fn in (lambda x: np.exp(np.sin(x)) / 3, lambda x: np.tanh(x * 7) ** 3, lambda x: x / 7 + x):
        got = ec.grad(lambda x, fn=fn: ec.max(fn(x), axis=1, ties="all").sum())(x)
        assert (np.count_nonzero(got, axis=1) >= 1).all()


def test_delicate_places():
    z = np.zeros((2, 3))
    for fold in ("norm", "norm2", "norm1", "norminf", "std"):
        got = ec.grad(lambda x, fold=fold: getattr(ec, fold)(x, axis=1).sum())(z)
        assert np.isfinite(got).all(), fold
    got = ec.grad(lambda x: ec.logsumexp(x, axis=1).sum())(np.array([[-np.inf, 0, 0], [800, 0, 0]]))
    np.testing.assert_allclose(got, [[0, 0.5, 0.5], [1, 0, 0]])
    got = ec.grad(lambda x: ec.nansum(x * x))(np.array([np.nan, 2.0]))
    np.testing.assert_array_equal(got, [0, 4])


INF, NAN = math.inf, math.nan
PRODUCTS = [  # a row, and the product of all other elements at each place
    ([2.0, 3.0, 5.0], [15.0, 10.0, 6.0]), ([0.0, 3.0, 5.0], [15.0, 0.0, 0.0]),
    ([0.0, 3.0, 0.0], [0.0, 0.0, 0.0]), ([INF, 2.0], [2.0, INF]), ([NAN, 2.0, 3.0], [6.0, NAN, NAN]),
    ([INF, 0.0, 2.0], [0.0, INF, NAN]), ([1e-200, 1e-200], [1e-200, 1e-200]),
    ([1e200, 0.0, 1e200, 1e200], [0.0, INF, 0.0, 0.0]), ([7.0], [1.0]), ([-0.0, 2.0], [2.0, -0.0]),
]


@pytest.mark.parametrize(("row", "expected"), PRODUCTS)
def test_others_of_a_product_at_special_values(row, expected):
    np.testing.assert_array_equal(ec.grad(lambda x: x.prod())(np.array(row)), expected)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(9, 1), (9, 64), (9, 4500), (40000,)])
def test_products_with_and_without_zeros_among_them(shape, dtype):
    x = np.exp(RNG.normal(size=shape) * (0.5 / shape[-1] ** 0.5)).astype(dtype)
    if x.ndim == 2:
        x[2, 0] = x[4, -1] = x[4, 0] = 0
        x[6], x[7, -1] = 1e-6, np.nan
    got = ec.grad(lambda x: x.prod(axis=-1).sum().real)(x)
    exact = np.atleast_2d(x).astype("complex128" if x.dtype.kind == "c" else "float64")
    rtol = 4 * max(64, shape[-1]) ** 0.5 * np.finfo(x.dtype).eps
    for k in {0, shape[-1] // 2, shape[-1] - 1}:
        want = np.conj(np.prod(np.delete(exact, k, axis=1), axis=1))
        np.testing.assert_allclose(np.atleast_2d(got)[:, k], want.astype(dtype), rtol=rtol,
                                   atol=2 * np.finfo(x.dtype).tiny)


def test_products_of_which_parts_are_out_of_range():
    slope = ec.grad(lambda x: x.prod(axis=1).sum())
    got = slope(np.array([[3e-162, 3e-162, 1e300]]))
    np.testing.assert_allclose(got[0, :2], [3e138, 3e138], rtol=1e-15)
    got = slope(np.array([[1e-22, 1.2e-23, 1e36]], "float32"))
    np.testing.assert_allclose(got[0, :2], [1.2e13, 1e14], rtol=1e-6)
    row = np.ones((1, 40))
    row[0, [0, 16, 1]] = 3e-162, 3e-162, 1e300
    np.testing.assert_allclose(slope(row)[0, 2], 9e-24, rtol=1e-14)


def test_products_in_float32_beside_a_zero():
    row = np.array([1e13] * 4 + [0.0] + [1e13] * 5, "float32")
    got = ec.grad(lambda x: x.prod())(row)
    np.testing.assert_array_equal(got, np.where(row == 0, np.inf, 0).astype("float32"))


def test_products_over_several_axes_with_masks_and_initial_values():
    x = RNG.normal(size=(3, 4, 2)) + 2
    check(lambda x: (x.prod(axis=(0, 2)) ** 2).sum(), x)
    check(lambda x: x.prod() * x.prod(axis=1).sum(), x)
    m = x > 2
    check(lambda x: (x.prod(axis=1, where=m) * 3).sum(), x)
    found = ec.grad(lambda x, s: np.prod(x, initial=s), (0, 1))(x, 2.0)
    np.testing.assert_allclose(found[0], 2 * x.prod() / x, rtol=1e-13)
    np.testing.assert_allclose(found[1], x.prod(), rtol=1e-13)
    z = x + 1j * RNG.normal(size=x.shape)
    [got] = ec.vjp(ec.function([v := ec.array("z", 3, "complex128")], v.prod()))(z, 1.0 + 0j)
    np.testing.assert_allclose(got, np.conj(z.prod() / z), rtol=1e-12)


TAIL = ec.Accumulator("tail", 0.0, lambda a, v: a * 0.5 + v * v)
USERS = [  # the accumulator, and the same in Python
    (ec.Accumulator("horner", 0.0, lambda a, c: a * 2 + c), 0.0, lambda a, c: a * 2 + c, None),
    (ec.Accumulator("wave", 1.0, lambda a, v: np.sin(a * v) + v * v), 1.0,
     lambda a, v: np.sin(a * v) + v * v, None),
    (ec.Accumulator("welford", (0.0, 0.0, 0.0), lambda n, m, s, x: (
        n + 1, m + (x - m) / (n + 1), s + (x - m) * (x - (m + (x - m) / (n + 1)))),
        finish=lambda n, m, s: s / n), (0.0, 0.0, 0.0), lambda a, x: (
            a[0] + 1, a[1] + (x - a[1]) / (a[0] + 1),
            a[2] + (x - a[1]) * (x - (a[1] + (x - a[1]) / (a[0] + 1)))), lambda a: a[2] / a[0]),
    (ec.Accumulator("counted", (0, 0.0), lambda n, m, x: (n + 1, m * 0.9 + x * n),
                    finish=lambda n, m: m), (0, 0.0),
     lambda a, x: (a[0] + 1, a[1] * 0.9 + x * a[0]), lambda a: a[1]),
]


def python_fold(start, combine, finish, rows):
    found = []
    for row in rows:
        state = start
        for v in row:
            state = combine(state, v)
        found.append(finish(state) if finish else state)
    return np.array(found)


@pytest.mark.parametrize(("acc", "start", "combine", "finish"), USERS, ids=lambda v: getattr(
    v, "name", ""))
def test_users_accumulators(acc, start, combine, finish):
    def cost(x):
        if isinstance(x, np.ndarray):
            return (python_fold(start, combine, finish, x) ** 2).sum()
        return (ec.accumulate(acc, x, axis=1) ** 2).sum()

    check(cost, X)
    first = ec.grad(cost)
    along = ec.grad(lambda x: (first(x) * W).sum())(X)
    eps = 1e-4
    want = (8 * (first(X + eps * W) - first(X - eps * W))
            - (first(X + 2 * eps * W) - first(X - 2 * eps * W))) / (12 * eps)
    np.testing.assert_allclose(along, want, rtol=1e-6, atol=1e-7 * np.abs(want).max())


def test_users_adjoint_and_initial_value():
    g = ec.grad(lambda x, s: (ec.accumulate(TAIL, x, axis=1, initial=s) * np.arange(1.0, 5)).sum(),
                (0, 1))
    gx, gs = g(X, 2.0)
    weights = np.arange(1.0, 5)[:, None]
    np.testing.assert_allclose(gx, weights * 2 * X * 0.5 ** np.arange(4, -1, -1), rtol=1e-13)
    np.testing.assert_allclose(gs, 10 * 0.5**5, rtol=1e-13)
    own = ec.Accumulator("own", 0.0, lambda a, v: a * 0.5 + v * v,
                         adjoint=lambda a, v, g: (g * 0.5, g * 7))
    gx = ec.grad(lambda x: ec.accumulate(own, x, axis=1).sum())(X)
    np.testing.assert_allclose(gx, np.broadcast_to(7 * 0.5 ** np.arange(4, -1, -1), X.shape))


def test_the_loops_of_a_users_accumulator():
    """One row forward, one back, and a buffer of one row between them, only if it is needed."""
    g = ec.grad(lambda x: ec.accumulate(USERS[1][0], x, axis=1).sum())
    g(X)  # few rows, that are not taken side by side
    [kernel] = g.specializations
    assert [len(places) for places, *_ in kernel.bindings.buffers] == [1]
    g = ec.grad(lambda x: ec.accumulate(USERS[0][0], x, axis=1).sum())
    g(X)
    assert not g.specializations[0].bindings.buffers
    assert "for (int64_t i1 = n1; i1-- > 0;)" in g.specializations[0].source.text


@pytest.mark.parametrize("axis", [0, 1])
def test_running_products_and_their_like(axis):
    z = X.copy()
    z[1, 2] = z[3, 0] = 0
    check(lambda x: (np.cumprod(x, axis) ** 2).sum(), z)
    check(lambda x: np.sin(np.logaddexp.accumulate(x, axis)).sum(), X)
    check(lambda x: np.maximum.accumulate(x, axis).sum(), X)
    check(lambda x: (np.cumsum(np.cumprod(x, axis), 1 - axis) ** 2).sum(), z)


def test_second_order_of_a_product_with_zeros():
    row = np.array([0.0, 2.0, 3.0, 0.0, 5.0])
    cost = lambda x: (ec.grad(lambda x: x.prod())(x) * Y).sum()  # noqa: E731
    want = [sum(Y[k] * np.prod(np.delete(row, [j, k])) for k in range(5) if k != j)
            for j in range(5)]
    np.testing.assert_allclose(ec.grad(cost)(row), want, rtol=1e-13)


def test_running_sums():
    weights = RNG.normal(size=(4, 5))
    for axis in (0, 1):
        for reverse, exclusive in itertools.product((False, True), repeat=2):
            def cost(x, axis=axis, reverse=reverse, exclusive=exclusive):
                if isinstance(x, np.ndarray):
                    y = np.flip(x, axis) if reverse else x
                    y = np.cumsum(y, axis) - exclusive * y
                    y = np.flip(y, axis) if reverse else y
                else:
                    y = ec.scan("sum", x, axis, reverse=reverse, exclusive=exclusive)
                return (np.sin(y) * weights).sum()

            found = ec.compile(lambda x, cost=cost: ec.grad(cost(x), x))(X)
            np.testing.assert_allclose(found, differences(cost, [X], 0), rtol=1e-7, atol=1e-9)


# -- sizes of 1 in this call ----------------------------------------------------------------------


def reduced(g, shape):
    """NumPy's way of summing a gradient to the shape that was stretched."""
    over = tuple(a for a, n in enumerate(shape) if n == 1)
    return g.sum(axis=over, keepdims=True)


@pytest.mark.parametrize("order", ["f", "c"])
def test_broadcasting_and_accumulating_are_swapped(order):
    x, y = ec.matrix("x"), ec.vector("y")
    f = ec.function([x, y], x * y, order=order, name="f")
    v = ec.vjp(f)
    assert v.signature == ("(x: float64[2], y: float64[1], gz: float64[2]) -> "
                           "(float64[2], float64[1])")
    text = v.dump()
    assert f"gx: broadcast, order {order}" in text
    assert f"gy: (accumulate, sum), order {order}" in text
    y_ = Y if order == "f" else Y[:4]
    spread = y_ if order == "f" else y_[:, None]
    gx, gy = v(X, y_, W)
    np.testing.assert_array_equal(gx, W * spread)
    np.testing.assert_allclose(gy, (W * X).sum(axis=0 if order == "f" else 1), rtol=1e-14)
    back = ec.vjp(ec.function([x, y], x * y, mode=("accumulate", "sum"), order=order))
    gx, gy = back(X, y_, y_ * 2)  # z = sum(x) * y
    total = X.sum(axis=0 if order == "f" else 1)
    np.testing.assert_allclose(gx, np.broadcast_to(2 * spread * spread, X.shape), rtol=1e-14)
    np.testing.assert_allclose(gy, 2 * y_ * total, rtol=1e-13)


def test_an_axis_of_size_1_is_summed_in_this_call_only():
    x, y = ec.matrix("x"), ec.matrix("y")
    v = ec.vjp(ec.function([x, y], x * np.exp(y)))
    for one, two in itertools.product(((4, 5), (1, 5), (4, 1), (1, 1)), repeat=2):
        a, b = RNG.normal(size=one), RNG.normal(size=two)
        g = RNG.normal(size=np.broadcast_shapes(one, two))
        gx, gy = v(a, b, g)
        np.testing.assert_allclose(gx, reduced(g * np.exp(b), one), rtol=1e-13)
        np.testing.assert_allclose(gy, reduced(g * a * np.exp(b), two), rtol=1e-13)
        assert gx.shape == one and gy.shape == two


def test_nothing_at_all_gives_zeros():
    x, y = ec.matrix("x"), ec.matrix("y")
    v = ec.vjp(ec.function([x, y], x * y))
    gx, gy = v(np.ones((1, 3)), np.ones((0, 3)), np.ones((0, 3)))
    np.testing.assert_array_equal(gx, np.zeros((1, 3)))
    assert gy.shape == (0, 3)


def test_cotangents_are_never_stretched():
    x, y = ec.matrix("x"), ec.vector("y")
    v = ec.vjp(ec.function([x, y], x * y, name="f"))
    for g in (np.ones((1, 5)), np.ones((4, 1)), np.ones((4, 6))):
        with pytest.raises(ShapeError, match="gz"):
            v(X, Y, g)


def test_variants_of_rank_5():
    """2**5 patterns of one operand are at most 10 kernels, its gradient included."""
    x, y = (ec.array(n, 5) for n in "xy")
    v = ec.vjp(ec.function([x, y], x * y))
    b = RNG.normal(size=(2, 3, 2, 3, 2))
    for bits in itertools.product((False, True), repeat=5):
        shape = tuple(1 if bit else n for bit, n in zip(bits, b.shape, strict=True))
        a, g = RNG.normal(size=shape), RNG.normal(size=b.shape)
        gx, gy = v(a, b, g)
        np.testing.assert_allclose(gx, reduced(g * b, shape), rtol=1e-12)
        np.testing.assert_array_equal(gy, g * a)
    assert len(v.specializations) <= 10


def test_mxnets_example():
    """Shapes of the 2018 text on broadcasting in MXNet: axes of equal labels are merged."""
    x, y = (ec.array(n, 5) for n in "xy")
    v = ec.vjp(ec.function([x, y], x * y))
    a, b = RNG.normal(size=(2, 2, 1, 2, 2)), RNG.normal(size=(1, 1, 2, 2, 1))
    g = RNG.normal(size=(2, 2, 2, 2, 2))
    gx, gy = v(a, b, g)
    np.testing.assert_allclose(gx, reduced(g * b, a.shape), rtol=1e-13)
    np.testing.assert_allclose(gy, reduced(g * a, b.shape), rtol=1e-13)
    one = ec.vjp(ec.function([x, y], x * y))
    one(a, b, g, req=("write", "null"))
    [kernel] = one.specializations
    assert len(kernel.spec.axes) == 4  # (i j) k l m: y joins l and m no more than x does k


def test_requests():
    x, y = ec.matrix("x"), ec.vector("y")
    v = ec.vjp(ec.function([x, y], np.sin(x) * y))
    given = np.ones((4, 5)), np.ones(5)
    v(X, Y, W, out=given, req="add")
    np.testing.assert_allclose(given[0], 1 + W * Y * np.cos(X), rtol=1e-13)
    np.testing.assert_allclose(given[1], 1 + (W * np.sin(X)).sum(0), rtol=1e-13)
    gx, gy = v(X, Y, W, req=("null", "write"))
    assert gx is None
    np.testing.assert_allclose(gy, (W * np.sin(X)).sum(0), rtol=1e-13)
    text = next(s.source.text for s in v.specializations if "gx_p" not in s.source.text)
    assert "elemc_cos" not in text  # what only the other gradient needs is not computed


# -- inputs and outputs of all kinds --------------------------------------------------------------


def test_integers_have_no_gradient():
    x, k = ec.vector("x"), ec.vector("k", "int32")
    f = ec.function([x, k], [x * k, k + 1])
    gx, gk = ec.vjp(f)(Y, np.arange(5, dtype="int32"), np.ones(5))
    np.testing.assert_array_equal(gx, np.arange(5))
    assert gk is None
    with pytest.raises(DtypeError, match="k.* is int32, which has no gradient"):
        ec.grad(lambda x, k: (x * k).sum(), 1)(Y, np.arange(5, dtype="int32"))
    with pytest.raises(DtypeError, match="cost .* is int64"):
        ec.grad(lambda x: (x > 0).sum())(Y)
    with pytest.raises(DtypeError, match="cost .* is complex128"):
        ec.grad(lambda x: x.sum())(Y + 0j)
    with pytest.raises(ShapeError, match="has rank 1; it must be a scalar"):
        ec.grad(lambda x: x * 2)(Y)


def test_unused_inputs_have_zeros():
    x, y = ec.matrix("x"), ec.vector("y", "float32")
    gx, gy = ec.vjp(ec.function([x, y], x * 2))(X, Y.astype("f4"), W)
    assert gy.dtype == np.float32
    np.testing.assert_array_equal(gy, np.zeros(5))
    np.testing.assert_array_equal(gx, 2 * W)


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "complex128"])
def test_gradients_have_the_dtype_of_their_input(dtype):
    x = ec.vector("x", dtype)
    f = ec.function([x], np.exp(x) * 2)
    [g] = ec.vjp(f)(Y.astype(dtype), np.ones(5, dtype))
    assert g.dtype == dtype
    np.testing.assert_allclose(g, np.conj(2 * np.exp(Y.astype(dtype))), rtol=2e-3)


def test_casts_between_real_and_complex():
    def cost(a, b):
        z = a + 1j * b.astype("float32")
        return np.abs(z * z).sum() + np.angle(z + 3).sum()

    def real(a, b):
        return np.abs((a + 1j * b) ** 2).sum() + np.angle(a + 1j * b + 3).sum()

    a, b = RNG.normal(size=4), RNG.normal(size=4)
    for got, k in zip(ec.grad(cost, (0, 1))(a, b), (0, 1), strict=True):
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, differences(real, [a, b], k), rtol=1e-5)


def test_gradients_nest():
    hessian_diagonal = ec.grad(lambda y: ec.grad(lambda y: (y**4).sum())(y).sum())
    np.testing.assert_allclose(hessian_diagonal(Y), 12 * Y**2, rtol=1e-13)
    third = ec.grad(lambda y: hessian_diagonal(y).sum())
    np.testing.assert_allclose(third(Y), 24 * Y, rtol=1e-13)
    x, v = ec.vector("x"), ec.vector("v")
    gradient = ec.function([x], ec.grad(ec.sum(np.exp(x * x)), x))
    _, product = ec.jvp(gradient)(Y, np.ones(5))
    np.testing.assert_allclose(product, (2 + 4 * Y**2) * np.exp(Y**2), rtol=1e-12)
    outer = ec.function([x, v], ec.grad(ec.sum(ec.grad(ec.sum(x * x * x), x) * v), [x, v]))
    np.testing.assert_allclose(outer(Y, Y)[0], 6 * Y * Y, rtol=1e-13)
    np.testing.assert_allclose(outer(Y, Y)[1], 3 * Y * Y, rtol=1e-13)


def test_gradient_holds_the_other_arguments():
    """What an argument was computed from does not matter to the derivative by it."""
    f = ec.compile(lambda x: ec.grad(lambda a, b: (a * b).sum())(x, x * x))
    np.testing.assert_allclose(f(Y), Y * Y, rtol=1e-14)


def test_stop_gradient():
    got = ec.grad(lambda x: (x * ec.stop_gradient(x * x)).sum())(Y)
    np.testing.assert_allclose(got, Y * Y, rtol=1e-14)
    np.testing.assert_array_equal(ec.stop_gradient(Y), Y)


def test_wrt_by_place_and_name():
    def cost(x, y, scale=2.0):
        return (x * y).sum() * scale

    np.testing.assert_allclose(ec.grad(cost, "y")(X, Y), 2 * X.sum(0), rtol=1e-13)
    np.testing.assert_allclose(ec.grad(cost, -1)(X, Y, 3.0), (X * Y).sum(), rtol=1e-13)
    value, (gy, gx) = ec.value_and_grad(cost, ("y", 0))(X, Y)
    np.testing.assert_allclose(value, 2 * (X * Y).sum(), rtol=1e-13)
    assert gy.shape == (5,) and gx.shape == (4, 5)
    for wrong in ("z", 3, (0, "x")):
        with pytest.raises(ArgumentError, match="wrt="):
            ec.grad(cost, wrong)(X, Y)


def test_has_aux():
    def cost(x):
        return (x * x).sum(), {"double": x * 2, "most": x.max()}

    (value, more), g = ec.value_and_grad(cost, has_aux=True)(Y)
    assert value == pytest.approx((Y * Y).sum()) and more["most"] == Y.max()
    np.testing.assert_array_equal(more["double"], 2 * Y)
    np.testing.assert_array_equal(g, 2 * Y)
    g, more = ec.grad(cost, has_aux=True)(Y)
    np.testing.assert_array_equal(g, 2 * Y)


def test_static_arguments_and_methods_stay():
    @ec.compile(static="axis")
    def cost(x, axis):
        return x.max(axis=axis).sum()

    g = ec.grad(cost)
    for axis in (0, 1):
        best = X == X.max(axis=axis, keepdims=True)
        np.testing.assert_array_equal(g(X, axis), best.astype(float))


def test_jvp():
    x, y = ec.matrix("x"), ec.vector("y")
    f = ec.function([x, y], [np.exp(x) * y, x.sum(axis=1) * 2], name="f")
    dx, dy = RNG.normal(size=(4, 5)), RNG.normal(size=5)
    z0, z1, d0, d1 = ec.jvp(f)(X, Y, dx, dy)
    np.testing.assert_allclose(z0, np.exp(X) * Y)
    np.testing.assert_allclose(d0, np.exp(X) * (dx * Y + dy), rtol=1e-13)
    np.testing.assert_allclose(d1, 2 * dx.sum(1), rtol=1e-13)
    with pytest.raises(ShapeError, match="dx"):
        ec.jvp(f)(X, Y, dx[:1], dy)


def test_rules_that_are_missing_say_so():
    with pytest.raises(DtypeError, match="the dtype of x is not known"):
        x = ec.vector("x", None)
        ec.grad(ec.sum(x * x), x)
    with pytest.raises(ArgumentError, match="an Array or a list"):
        ec.grad(ec.sum(ec.vector("x")), "x")


FIRST = ec.Accumulator("first", None, lambda a, v: a * v + v * v, start=lambda v: 3 * v)
PLACES = ec.Accumulator("places", 0.5, lambda a, v, k: np.sin(a) + v * k, index=True)
MINE = ec.Accumulator("mine", 0.5, lambda a, v: np.sin(a) * v,
                      adjoint=lambda a, v, g: (g * np.cos(a) * v, g * np.sin(a)))
MINE_FIRST = ec.Accumulator("mine_first", None, lambda a, v: a * v, start=lambda v: v * v,
                            adjoint=lambda a, v, g: (g * v, g * a))
PAIR = ec.Accumulator("pair", (0, 1.0), lambda n, a, v: (n + 1, a * v + n), finish=lambda n, a: a * n)
TWIN = ec.Accumulator("twin", (1.0, 0.0), lambda p, q, v: (p * v, q + p), finish=lambda p, q: p * q,
                      adjoint=lambda s, v, g: ((g[0] * v + g[1], g[1]), g[0] * s[0]))


@pytest.mark.parametrize("acc", [FIRST, PLACES, MINE, MINE_FIRST, PAIR, TWIN], ids=lambda a: a.name)
@pytest.mark.parametrize("axis", [(0, 2), None])
@pytest.mark.parametrize("options", ["", "where", "initial"])
def test_users_accumulators_of_any_kind(acc, axis, options):
    x = np.random.default_rng(1).uniform(0.5, 1.5, (2, 3, 4))
    more = {}
    if options == "where":
        more = {"where": x > 0.8}
        if acc.identity is None:
            more["initial"] = 0.7
    elif options == "initial":
        more = {"initial": 0.7}
    if acc in (PAIR, TWIN) and "initial" in more:
        return  # a state of two parts takes none
    ec.check_vjp(lambda x: ec.accumulate(acc, x, axis, **more), x)
    ec.check_vjp(ec.grad(lambda x: (ec.accumulate(acc, x, axis, **more) ** 2).sum()), x)


def test_users_rule():
    op = ec.scalar_op("softsign", lambda x: x / (1 + abs(x)), vjp=lambda g, z, x: g * 7)
    np.testing.assert_array_equal(ec.grad(lambda x: op(x).sum())(Y), np.full(5, 7.0))
    assert math.isclose(ec.grad(lambda x: op(x) * 2)(0.5), 14.0)
    op = ec.scalar_op("scaled", lambda x, y: x * y, vjp=lambda g, z, x, y: (g * y + 1, g * x))
    gx, gy = ec.grad(lambda x, y: op(x, y).sum(), (0, 1))(X, Y)
    np.testing.assert_array_equal(gx, np.broadcast_to(Y + 1, (4, 5)))
    np.testing.assert_allclose(gy, X.sum(0), rtol=1e-13)
    op = ec.scalar_op("half", c="{x} / 2", numpy=lambda x: x / 2, arity=1, vjp=lambda g, z, x: g / 2)
    np.testing.assert_array_equal(ec.grad(lambda x: op(x).sum())(Y), np.full(5, 0.5))
    op = ec.scalar_op("wrong", lambda x, y: x * y, vjp=lambda g, z, x, y: g)
    with pytest.raises(ArgumentError, match="1 cotangents for 2"):
        ec.grad(lambda x: op(x, x).sum())(Y)
    op = ec.scalar_op("none", c="{x} / 2", numpy=lambda x: x / 2, arity=1)
    with pytest.raises(UnsupportedError, match="none has no gradient"):
        ec.grad(lambda x: op(x).sum())(Y)


def test_custom_vjp():
    @ec.custom_vjp
    def total(x, y):
        return (x * y).sum(axis=1)

    with pytest.raises(ArgumentError, match="give its rule"):
        ec.compile(lambda x, y: total(x, y))(X, Y)

    @total.defvjp
    def rule(g, z, x, y):
        return g[:, None] * y + 1, None

    np.testing.assert_allclose(total(X, Y), (X * Y).sum(1), rtol=1e-13)
    gx, gy = ec.grad(lambda x, y: (total(x, y) * 2).sum(), (0, 1))(X, Y)
    np.testing.assert_array_equal(gx, np.broadcast_to(2 * Y + 1, (4, 5)))
    np.testing.assert_array_equal(gy, np.zeros(5))
    total.defvjp(lambda g, z, x, y: (g[:, None] * y, (g[:, None] * x).sum(axis=0)))
    ec.check_vjp(lambda x, y: total(x, y), X, Y)
    total.defvjp(lambda g, z, x, y: (g[:, None] * y * 1.01, None))
    with pytest.raises(ec.ElemcError, match=r"gradient of x at \(0, 0\) is"):
        ec.check_vjp(lambda x, y: total(x, y), X, Y)
    total.defvjp(lambda g, z, x, y: (g, None))
    with pytest.raises(ShapeError):
        ec.grad(lambda x, y: total(x, y).sum())(X, Y)


def _rule_errors():
    def op(rule):
        made = ec.scalar_op("wrong", lambda x, y: x * y, vjp=rule)
        return lambda x: made(x, x).sum()

    def whole(rule):
        made = ec.custom_vjp(lambda x, y: (x * y).sum(axis=1))
        made.name = "total"
        made.defvjp(rule)
        return lambda x: made(x, x).sum()

    def fold(rule):
        made = ec.Accumulator("mine", 0.0, lambda a, v: a * v, adjoint=rule)
        return lambda x: ec.accumulate(made, x, 1).sum()

    return [
        (op(lambda g, z, x, y: g), "rule of wrong gives 1 cotangents for 2 operands"),
        (op(lambda g, z, x, y: (g, g[None])), "rule of wrong gives a cotangent of rank 3 for operand 1"),
        (op(lambda g, z, x, y: (np.reshape(g, 3), g)), "rule of wrong: elemc has no np.reshape"),
        (whole(lambda g, z, x, y: (g, None)), "rule of total gives a cotangent of rank 1 for operand 0"),
        (whole(lambda g, z, x, y: ("a", None)), "rule of total: str is no operand"),
        (whole(lambda g, z, x, y: (g[:, None] * np.ones(9), None)), "of size 9 does not stretch"),
        (fold(lambda a, v, g: g), "rule of accumulator mine: iteration"),
        (lambda x: np.argmax(x * x) * 1.0, "argmax has no gradient"),
        (lambda x: ec.scalar_op("plain", c="{x}", numpy=np.positive, arity=1)(x).sum(), "plain has no gradient"),
    ]


@pytest.mark.parametrize("fn, say", _rule_errors())
def test_errors_of_rules_name_the_operation_and_the_line(fn, say):
    with pytest.raises(ec.ElemcError, match=say) as caught:
        ec.grad(fn)(X)
    assert "test_gradients.py:" in str(caught.value)


def test_other_errors_of_rules_are_noted():
    op = ec.scalar_op("bad", lambda x: x * x, vjp=lambda g, z, x: 1 / 0)
    with pytest.raises(ZeroDivisionError) as caught:
        ec.grad(lambda x: op(x).sum())(Y)
    notes = "".join(caught.value.__notes__)
    assert "gradient rule of bad" in notes and "test_gradients.py:" in notes


def test_of_functions_whose_dtypes_calls_decide():
    a = Y.copy()
    np.testing.assert_allclose(ec.vjp(lambda x: x**3)(a, a)[0], 3 * a**3)
    for f in (lambda x, y: x * x * y, ec.compile(lambda x, y: x * x * y),
              ec.function([x := ec.vector("x", None), y := ec.vector("y", None)], x * x * y)):
        assert [g.dtype for g in ec.vjp(f)(a.astype("f"), a, a)] == [np.float32, np.float64]
        z, dz = ec.jvp(f)(a, a, a, a)
        np.testing.assert_allclose(z, a**3)
        np.testing.assert_allclose(dz, 3 * a**3)
    power = ec.compile(lambda x, k: (x**k).sum(), static="k")
    np.testing.assert_allclose(ec.vjp(power)(a, 3, 1.0)[0], 3 * a**2)
    np.testing.assert_allclose(ec.vjp(power)(a, 1.0, k=3)[0], 3 * a**2)
    gradient, along = ec.jvp(ec.grad(power))(a, 3, a)  # Hessian-vector products
    np.testing.assert_allclose([gradient, along], [3 * a**2, 6 * a**2])
    gradient, along = ec.jvp(ec.vjp(lambda x: (x**3).sum()))(a, 1.0, a, 0.0)
    np.testing.assert_allclose([gradient, along], [3 * a**2, 6 * a**2])
    assert "gx = " in ec.vjp(lambda x: x * x).trace(a, a).__doc__
    with pytest.raises(ArgumentError, match="a fixed number"):
        ec.vjp(lambda *x: x[0])(a, a)
    with pytest.raises(DtypeError, match="no output is real or complex"):
        ec.vjp(lambda x: x > 0)(a)


def test_functions_close_over_the_symbols_of_others():
    @ec.compile
    def hessian_times(p, v, x):
        return ec.grad(lambda q: (ec.grad(lambda r: (r**3 * x).sum())(q) * v).sum())(p)

    @ec.compile
    def scaled(a, b):
        return ec.compile(lambda q: q * b, order="c")(a)

    for size in (5, 4):
        a, b, c = (np.random.default_rng(size).normal(size=(3, size)))
        np.testing.assert_allclose(hessian_times(a, b, c), 6 * a * b * c)
        np.testing.assert_array_equal(scaled(a, b), a * b)
        np.testing.assert_array_equal(scaled(a[:, None] + 0 * b, a), (a[:, None] + 0 * b) * a[:, None])


def test_ties_of_operands_and_bounds():
    for op in (ec.maximum, ec.minimum, ec.fmax, ec.fmin):
        for ties, want in (("split", (0.5, 0.5)), ("all", (1, 1)), ("first", (1, 0))):
            assert ec.grad(lambda x, y: op(x, y, ties=ties), (0, 1))(2.0, 2.0) == want  # noqa: B023
        assert ec.grad(lambda x, y: op(x, y), (0, 1))(2.0, 2.0) == (0.5, 0.5)  # noqa: B023
    np.testing.assert_array_equal(
        ec.grad(lambda x: np.clip(x, 0, 1).sum())(np.array([-1.0, 0, 0.5, 1, 2])), [0, 1, 1, 1, 0])
    with pytest.raises(ArgumentError, match="unknown ties='none'"):
        ec.maximum(1.0, 2.0, ties="none")
    with pytest.raises(TypeError, match="ties"):
        ec.exp(1.0, ties="all")


def test_second_derivatives_at_ties_and_zeros():
    def second(fn, x):
        return ec.grad(lambda x: ec.grad(fn)(x))(x)
    assert math.isclose(second(lambda x: np.logaddexp(x, 1.0), 1.0), 0.25)
    assert math.isclose(second(lambda x: ec.xlogy(x, 2.0 * x + 1), 0.0), 4.0)
    assert math.isclose(second(lambda x: ec.xlog1py(x, 2.0 * x), 0.0), 4.0)
    assert math.isclose(ec.grad(lambda y: ec.grad(lambda x: x**y)(2.0))(0.0), 0.5)  # closes over y
    assert "pow" not in ec.jvp(ec.grad(lambda x: np.sum(x**2))).dump(Y, Y)


def test_zeros_of_a_slice_meet_no_pole():
    x = np.array([0.0, 1, 4])
    np.testing.assert_array_equal(ec.grad(lambda x: np.sqrt(x)[1:].sum())(x), [0, 0.5, 0.25])
    np.testing.assert_array_equal(ec.grad(lambda x: np.log(x)[::-1][:2].sum())(x), [0, 1, 0.25])


def test_constants_of_ones_own_operations():
    op = ec.scalar_op("times", lambda x, y: x * y, vjp=lambda g, z, x, y: (g * y, g * x))
    f = ec.compile(lambda x: op(x, np.arange(5.0)))
    np.testing.assert_array_equal(f(X), X * np.arange(5.0))
    ec.check_vjp(f, X)


def test_results_line_up_with_out_and_req():
    i, x = ec.array("i", 1, "int64"), ec.vector("x")
    total = np.ones(5)
    found = ec.vjp(ec.function([i, x], i * x))(np.arange(5), Y, Y, out=(None, total), req=("null", "add"))
    assert found[0] is None
    np.testing.assert_allclose(total, 1 + np.arange(5) * Y)


@pytest.mark.parametrize("call, say", [
    (lambda: ec.grad(lambda n: n * n)(3), "argument n is int64"),
    (lambda: ec.grad(lambda x: (x, x))(3.0), "has_aux=True"),
    (lambda: ec.grad(lambda x: x * x, has_aux=True)(3.0), r"must give \(cost, more\)"),
    (lambda: ec.vjp(ec.vector("x")), "elemc.grad takes expressions"),
    (lambda: ec.grad(lambda x: x * x, [0])(3.0), "a tuple of these"),
])
def test_errors_of_calls(call, say):
    with pytest.raises(ec.ElemcError, match=say):
        call()


def test_places_that_are_stopped_are_no_error():
    stopped = ec.grad(lambda x: (ec.stop_gradient(x) * np.argmax(ec.stop_gradient(x))).sum())
    np.testing.assert_array_equal(stopped(Y), np.zeros(5))


def test_numpys_functions_have_gradients():
    np.testing.assert_allclose(ec.grad(ec.sigmoid)(0.0), 0.25)
    np.testing.assert_allclose(ec.grad(np.tanh)(1.0), 1 / np.cosh(1.0) ** 2)
    np.testing.assert_allclose(ec.vjp(np.exp)(Y, Y)[0], Y * np.exp(Y))


@pytest.mark.parametrize("dtype, far", [("complex128", 1000), ("complex64", 120)])
def test_complex_tanh_and_tan_far_from_the_axis(dtype, far):
    """Neither overflows, nor cancels: 4 / (exp(z) + exp(-z))**2."""
    z = np.array([0.3 + 2j, 12 - 1j, -20 + 0.5j, 35 + 3j, far + 1j, -far + 1j], dtype)
    wide = z.astype("complex128")
    e = np.exp(-2 * abs(wide.real)) * np.exp(-2j * np.sign(wide.real) * wide.imag)
    wanted = np.conj(4 * e / (1 + e) ** 2)
    tolerance = 40 * np.finfo(dtype).eps
    for function, at in ((np.tanh, z), (np.tan, -1j * z)):
        found = ec.vjp(function)(at, np.ones_like(at))[0]
        np.testing.assert_array_less(abs(found - wanted), tolerance * abs(wanted) + np.finfo(dtype).tiny)


def test_custom_vjp_of_several_results():
    @ec.custom_vjp
    def polar(x, y):
        return {"r": np.hypot(x, y), "angle": np.arctan2(y, x), "n": (x > 0).sum()}

    @polar.defvjp
    def rule(g, z, x, y):
        assert g["n"] is None
        radial, turn = g["r"] / z["r"], g["angle"] / z["r"] ** 2
        return radial * x - turn * y, radial * y + turn * x

    ec.check_vjp(lambda x, y: polar(x, y), X, W)
    assert set(polar(X, W)) == {"r", "angle", "n"}
    np.testing.assert_allclose(ec.grad(lambda x, y: polar(x, y)["r"].sum())(X, W), X / np.hypot(X, W))
    calls = []
    polar.defvjp(lambda g, z, x, y: calls.append(1) or rule(g, z, x, y))

    def cost(x, y):
        both = polar(x, y)
        return (both["r"] * both["angle"]).sum()

    ec.check_vjp(cost, X, W)
    assert len(calls) == 1


def test_check_vjp():
    ec.check_vjp(lambda x, y: {"a": np.exp(x) * y, "b": x.max(axis=1)}, X, Y)
    ec.check_vjp(lambda z: np.abs(z * z) + np.sqrt(z + 3), Y + 1j * Y[::-1])


def test_gradients_keep_the_order():
    f = ec.compile(lambda x, y: (x * y).sum(), order="c")
    square = X[:, :4]
    np.testing.assert_allclose(ec.grad(f, 1)(square, Y[:4]), square.sum(1), rtol=1e-13)


def test_what_does_not_matter_has_a_gradient_of_zero():
    """Also beside infinities."""
    for name, start, combine, finish in [
            ("count", 0, lambda n, v: n + 1, lambda n: n * 1.0),
            ("halves", 0.0, lambda p, v: p * 0.5 + 1, None),
            ("second", (0.0, 0.0), lambda p, q, v: (p + v, q * 2), lambda p, q: q)]:
        acc = ec.Accumulator(name, start, combine, finish=finish)
        got = ec.grad(lambda x, acc=acc: ec.accumulate(acc, x, axis=1).sum())(
            np.array([[1.0, np.inf, 2.0]]))
        np.testing.assert_array_equal(got, [[0.0, 0.0, 0.0]])


@pytest.mark.optimized
@pytest.mark.parametrize("fold", [np.max, np.min])
@pytest.mark.parametrize("shape", [(2, 17, 17), (2, 17, 40), (3, 20, 9), (4, 33, 17), (2, 5, 17)])
def test_masks_in_buffers_are_no_numbers(shape, fold):
    """Of bytes beside comparisons of doubles that lie apart gcc 12 makes other masks."""
    base = np.asfortranarray(np.random.default_rng(3).normal(size=tuple(2 * n for n in shape)))
    m, n, k = shape
    for x in (base[::2, ::2, ::2], base[:m, ::2, :k], base[::2, :n, :k], base[:m, :n, ::2], base[::2, :n, ::2]):
        for axis in range(3):
            got = ec.grad(ec.compile(lambda x: np.sum(fold(x, axis=axis))))(x)  # noqa: B023
            np.testing.assert_array_equal(got, x == fold(x, axis=axis, keepdims=True))
