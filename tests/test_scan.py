"""Running states along an axis: directions, buffers, what shares their loops."""

import numpy as np
import pytest

import elemc as ec
from elemc import runtime
from elemc.errors import ArgumentError, AxisError, UnsupportedError

from .helpers import assert_same_bits

RNG = np.random.default_rng(0)
X, T = RNG.normal(size=(4, 5)), RNG.normal(size=(3, 4, 5))


def exclusive(v, axis):
    total = np.cumsum(np.insert(v, 0, 0, axis=axis), axis)
    return np.delete(total, -1, axis=axis)


def turned(fn, v, axis):
    return np.flip(fn(np.flip(v, axis), axis), axis)


def same(f, want, *arrays):
    compiled = ec.compile(f)
    for _ in range(2):  # the second time through the call path in C
        got = compiled(*arrays)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-14)
    return compiled


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("x", [T, T.T, T[::-1, :, ::2], T.astype("float32"), (T * 9).astype("int16"),
                               T > 0, T + 1j, T[:, :1], T[:, :, :0]], ids=str)
def test_numpys(x, axis):
    for fn in (np.cumsum, np.cumprod):
        compiled = ec.compile(lambda x, fn=fn: fn(x, axis=axis))
        got, want = compiled(x), fn(x, axis=axis)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if x.dtype.kind == "c":
            np.testing.assert_allclose(got, want, rtol=1e-13)
        else:
            assert_same_bits(got, want)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_directions(axis):
    same(lambda x: ec.scan("sum", x, axis, exclusive=True) * 2, 2 * exclusive(T, axis), T)
    same(lambda x: ec.scan("prod", x, axis, reverse=True), turned(np.cumprod, T, axis), T)
    same(lambda x: ec.scan("sum", x, axis, reverse=True, exclusive=True),
         turned(exclusive, T, axis), T)


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.logaddexp,
                                   np.logical_or, np.logical_and])
def test_ufuncs_accumulate(ufunc):
    x = np.where(X > 1, np.nan, X) if ufunc in (np.maximum, np.fmax) else X
    want = ufunc.accumulate(x, axis=1)
    same(lambda x: ufunc.accumulate(x, axis=1), want, x)
    same(lambda x: ufunc.accumulate(x), ufunc.accumulate(x), x)


def test_other_names():
    same(lambda x: x.cumsum(1) + x.cumprod(0), X.cumsum(1) + X.cumprod(0), X)
    same(lambda x: np.nancumsum(x), np.nancumsum(X[0]), X[0])
    same(lambda x: ec.cumsum(x, 1) * ec.cumprod(x, 1), np.cumsum(X, 1) * np.cumprod(X, 1), X)
    same(lambda x: ec.logcumsumexp(x, 1), np.logaddexp.accumulate(X, 1), X)
    same(lambda x: np.cumsum(x, 0, dtype="float32"), np.cumsum(X, 0, dtype="float32"), X)


@pytest.mark.parametrize(("f", "want"), [
    (lambda x: np.cumsum(x, 1) * ec.scan("sum", x, 1, reverse=True),
     np.cumsum(X, 1) * turned(np.cumsum, X, 1)),
    (lambda x: np.cumsum(np.cumsum(x, 1), 1), np.cumsum(np.cumsum(X, 1), 1)),
    (lambda x: np.cumsum(np.maximum.accumulate(x, 0), 1),
     np.cumsum(np.maximum.accumulate(X, 0), 1)),
    (lambda x: np.cumsum(x, 1) / x.sum(axis=1, keepdims=True),
     np.cumsum(X, 1) / X.sum(axis=1, keepdims=True)),
    (lambda x: np.cumsum(x - x.mean(axis=1, keepdims=True), 1).max(axis=1),
     np.cumsum(X - X.mean(axis=1, keepdims=True), 1).max(axis=1)),
    (lambda x: np.cumsum(x, 1).sum(axis=0), np.cumsum(X, 1).sum(axis=0)),
    (lambda x: np.cumsum(x[0])[:, None] * np.cumsum(x[1]),
     np.cumsum(X[0])[:, None] * np.cumsum(X[1])),
    (lambda x: np.cumsum(x[0])[:, None] * np.cumsum(x[0]),
     np.cumsum(X[0])[:, None] * np.cumsum(X[0])),
    (lambda x: np.cumsum(x, 1) + np.cumsum(x, 0), np.cumsum(X, 1) + np.cumsum(X, 0)),
    (lambda x: np.cumsum(x.T, 0) + x.T, np.cumsum(X.T, 0) + X.T),
    (lambda x: np.cumsum(x, 1).mean(), np.cumsum(X, 1).mean()),
    (lambda x: np.cumsum(x.sum(axis=1)), np.cumsum(X.sum(axis=1))),
    (lambda x: np.cumsum(x, 0)[:, 1:3], np.cumsum(X, 0)[:, 1:3]),
])
def test_within_expressions(f, want):
    same(f, want, X)


def test_one_buffer_per_row():
    """What goes forward waits in a buffer of one row for what comes back; a store needs none."""
    f = ec.compile(lambda x: np.cumsum(x, 1) * ec.scan("sum", x, 1, reverse=True))
    f(X)
    [kernel] = f.specializations
    assert [len(places) for places, *_ in kernel.bindings.buffers] == [1]
    assert "for (int64_t i1 = n1; i1-- > 0;)" in kernel.source.text
    f = ec.compile(lambda x: np.cumsum(x, 1) * 2)
    f(X)
    assert not f.specializations[0].bindings.buffers


def test_users_accumulators():
    mean = ec.Accumulator("mean_so_far", (0, 0.0), lambda n, m, x: (n + 1, m + (x - m) / (n + 1)),
                          finish=lambda n, m: m)
    same(lambda x: ec.scan(mean, x, 1), np.cumsum(X, 1) / np.arange(1, 6), X)
    first = ec.Accumulator("first", None, lambda a, x: a)
    same(lambda x: ec.scan(first, x, 1), np.broadcast_to(X[:, :1], X.shape), X)
    with pytest.raises(ArgumentError, match="first has no identity, and so no exclusive scan"):
        ec.compile(lambda x: ec.scan(first, x, 1, exclusive=True))(X)


def test_in_place_and_long():
    x = RNG.normal(size=100_000)
    f = ec.compile(lambda x: np.cumsum(x))
    y = x.copy()
    f(y, out=y)
    assert_same_bits(y, np.cumsum(x))
    f = ec.compile(lambda x: np.cumsum(x) - ec.scan("max", x, reverse=True))
    y = x.copy()
    f(y, out=y)
    assert_same_bits(y, np.cumsum(x) - turned(np.maximum.accumulate, x, 0))


def test_interpreter_and_c_agree():
    from elemc.interp import interpret

    x = ec.tensor3("x")
    f = ec.function([x], [ec.scan("sum", x, 1, exclusive=True), ec.scan("max", x, 2, reverse=True)])
    for got, want in zip(f(T), interpret(f.close((np.dtype(float),)).graph, [T]), strict=True):
        np.testing.assert_array_equal(got, want)


def test_errors():
    x = ec.matrix("x")
    for make, error, say in [
        (lambda: ec.scan("sum", x), AxisError, "does not flatten"),
        (lambda: np.cumsum(x, 2), AxisError, "out of range"),
        (lambda: ec.scan("mean", x, 0), UnsupportedError, "several folds"),
        (lambda: ec.scan("summ", x, 0), ArgumentError, "no accumulator"),
    ]:
        with pytest.raises(error, match=say):
            make()


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("shape", [(60, 300), (9, 40, 17), (300, 5), (2, 3000)])
def test_functions_beside_states_from_memory(shape, dtype, monkeypatch):
    """Strips go in parts there, to ask for memory: no function is called before its state is there."""
    monkeypatch.setattr(runtime, "large_bytes", lambda: 3000)
    x = RNG.uniform(0.1, 1, shape).astype(dtype)
    for axis in range(x.ndim):
        for y in (x, np.asfortranarray(x), x[..., ::-1]):
            up, most = np.cumsum(y, axis), np.maximum.accumulate(y, axis)
            for f, want in [
                    (lambda x: np.sin(np.cumsum(x, axis)), np.sin(up)),  # noqa: B023
                    (lambda x: (np.exp(-np.cumsum(x, axis)), np.cumsum(x, axis)), (np.exp(-up), up)),  # noqa: B023
                    (lambda x: np.tanh(np.maximum.accumulate(x, axis)), np.tanh(most)),  # noqa: B023
                    (lambda x: np.cumsum(np.exp(-np.cumsum(x, axis)), axis),  # noqa: B023
                     np.cumsum(np.exp(-up), axis)),
                    (lambda x: np.exp(-ec.scan("sum", x, axis, exclusive=True)),  # noqa: B023
                     np.exp(x.dtype.type(0) - up + y))]:
                for one, other in zip(np.atleast_1d(ec.compile(f)(y)), np.atleast_1d(want), strict=True):
                    np.testing.assert_allclose(one, other, rtol=1e-12 if dtype == "f8" else 1e-3)


@pytest.mark.optimized
@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 7, 9])
@pytest.mark.parametrize("shape", [(300,), (20, 50), (1,), (0,)])
def test_few_columns(shape, columns):
    x = RNG.uniform(0.1, 1, (*shape, columns))
    for y in (x, x[..., ::-1], np.asfortranarray(x)):
        up = np.cumsum(y, -2)
        same(lambda x: np.cumsum(x, -2), up, y)
        same(lambda x: np.exp(-np.cumsum(x, -2)), np.exp(-up), y)
        same(lambda x: np.log(np.cumsum(np.exp(x), -2)) - x, np.log(np.cumsum(np.exp(y), -2)) - y, y)
        same(lambda x: ec.scan("max", x, -2, reverse=True) - x,
             turned(np.maximum.accumulate, y, -2) - y, y)


@pytest.mark.parametrize("columns", [2, 3, 40, 1030])
def test_buffers_of_columns_are_as_wide_as_these(columns):
    x = RNG.uniform(size=(300, columns))
    f = same(lambda x: np.cumsum(x, 0) / np.sum(x, 0), np.cumsum(x, 0) / np.sum(x, 0), x)
    [kernel] = f.specializations
    [(places, size, _)] = kernel.bindings.buffers
    rows, (kind, (most, _)) = (kernel.bindings.sizes[k] for k in places)
    assert (rows[0], kind, size) == ("product", "most", 8) and most >= 128


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("length", [2, 5, 8, 13, 16, 17, 64, 65, 700])
@pytest.mark.parametrize("rows", [1, 7, 40])
def test_functions_before_and_after(rows, length, dtype):
    """They are called for blocks of what is scanned, or what scans give, and for rows abreast."""
    x = RNG.uniform(0.1, 1, (rows, length)).astype(dtype)
    up, mask, tolerance = np.cumsum(x, 1), x > 0.5, {"f8": 1e-12, "f4": 2e-4}[dtype]

    def close(f, want):
        got = ec.compile(f)(x)
        assert isinstance(got, tuple) == isinstance(want, tuple)
        for one, other in zip(np.atleast_1d(got), np.atleast_1d(want), strict=True):
            np.testing.assert_allclose(one, other, rtol=tolerance)

    close(lambda x: np.cumsum(np.exp(x), 1), np.cumsum(np.exp(x), 1))
    close(lambda x: np.log(np.cumsum(np.exp(x), 1)), np.log(np.cumsum(np.exp(x), 1)))
    close(lambda x: x * np.exp(-np.cumsum(x, 1)), x * np.exp(-up))
    close(lambda x: (np.cumsum(x, 1), np.exp(np.cumsum(x, 1) / 700), np.cumprod(1 + x / 700, 1)),
          (up, np.exp(up / 700), np.cumprod(1 + x / 700, 1)))
    close(lambda x: np.log1p(ec.scan("sum", x, axis=1, exclusive=True)), np.log1p(exclusive(x, 1)))
    close(lambda x: np.exp(-ec.scan("sum", x, axis=1, reverse=True)), np.exp(-turned(np.cumsum, x, 1)))
    close(lambda x: np.cumsum(np.log(np.cumsum(x, 1) + 1), 1), np.cumsum(np.log(up + 1), 1))
    close(lambda x: np.exp(-np.cumsum(x, 1)).sum(axis=1), np.exp(-up).sum(axis=1))
    close(lambda x: np.where(x > 0.5, np.log(np.cumsum(x, 1)), x), np.where(mask, np.log(up), x))
    f, out = ec.compile(lambda x: np.exp(-np.cumsum(x, 1))), x.copy()
    f(out, out=out)  # in place
    np.testing.assert_array_equal(out, f(x))
    some = np.zeros_like(x)
    f(x, out=some, where=mask)
    np.testing.assert_array_equal(some, np.where(mask, out, 0))


@pytest.mark.parametrize("fn", [
    lambda x: np.cumsum(x, 1)[:, 1:], lambda x: np.cumsum(x, 1)[:, ::-2] + np.cumsum(x[1:], 0)[0, ::2],
    lambda x: np.diff(np.cumsum(x * x, 1), axis=1), lambda x: np.cumprod(x, 0)[-1] + x,
    lambda x: np.cumsum(np.cumsum(x, 1)[:, ::-1], 1)[::-1], lambda x: np.cumsum(x[:1], 0)[0] * x,
])
def test_scans_are_read_anywhere(fn):
    np.testing.assert_allclose(ec.compile(fn)(X), fn(X), rtol=1e-12)
    ec.check_vjp(fn, X)


@pytest.mark.parametrize("first", [False, True])
def test_scans_from_either_end_share_a_loop(first):
    x = np.random.default_rng(0).standard_normal((3, 70))
    a = np.ones((3, 1))
    sums = [lambda x, a: ec.scan("sum", np.exp(x) * np.exp(x), 1, reverse=first),
            lambda x, a: ec.scan("sum", x * np.exp(a) * np.exp(a), 1, reverse=not first)]
    f = ec.compile(lambda x, a: (sums[0](x, a) * sums[1](x, a)).max(axis=1))
    one, other = (ec.compile(s)(x, a) for s in sums)
    np.testing.assert_array_equal(f(x, a), (one * other).max(axis=1))
    product = ec.compile(lambda x: (ec.scan("prod", x, 1, reverse=first, exclusive=True) * ec.scan(
        "prod", x, 1, reverse=not first, exclusive=True)).max(axis=1))
    assert " - 1 - i" in product.dump(x)
    want = np.max([np.prod(np.delete(x, k, 1), axis=1) for k in range(70)], axis=0)
    np.testing.assert_allclose(product(x), want, rtol=1e-12)


@pytest.mark.parametrize("columns", [2, 3, 5, 8, 12])
def test_rows_that_fill_no_lanes_begin_their_scans(columns):
    """Where such rows are gone through once more, their scans begin as the others do."""
    def shifted(x):
        v = np.cumsum(x, axis=1)
        return v + np.mean(np.sum(v, axis=1))

    def scaled(x):
        v = np.maximum.accumulate(x, axis=1)
        return v * np.max(v), np.sum(np.max(v, axis=1))

    f, g = ec.compile(shifted), ec.compile(scaled)
    for rows in (9, 17, 40, 300, 1024):
        x = RNG.normal(size=(rows, columns))
        np.testing.assert_allclose(f(x), shifted(x), rtol=1e-10, atol=1e-12)
        for a, b in zip(g(x), scaled(x), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
