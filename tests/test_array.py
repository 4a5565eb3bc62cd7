"""The symbolic array: operators, indexing, NumPy's functions, dtypes, and what it refuses."""

import contextlib
import copy
import operator
import pickle

import numpy as np
import pytest

import elemc as ec
from elemc import ops_docs
from elemc.accumulators import ACCUMULATORS
from elemc.errors import (
    ArgumentError,
    AxisError,
    DtypeError,
    ElemcError,
    ShapeError,
    TraceError,
    UnsupportedError,
)
from elemc.ops import OPS, UFUNCS
from elemc.ops_table import ALIASES

from .helpers import (
    DTYPES,
    assert_same_bits,
    compile_together,
    quiet,
    sample,
)

# Operands: dtype and shape.
M, V, S = ("float64", (4, 5)), ("float64", (5,)), ("float64", ())
COLUMN, T, ONE = ("float64", (4,)), ("float64", (2, 3, 4)), ("float64", (4, 1, 5))
R, Q, Q2 = ("float64", (5, 3)), ("float64", (2, 4, 5)), ("float64", (2, 5, 3))
F, C, N, B = ("float32", (4, 5)), ("complex128", (4, 5)), ("int32", (4, 5)), ("bool", (4, 5))
IR, IV, BR, BV = ("int32", (5, 3)), ("int32", (5,)), ("bool", (5, 3)), ("bool", (5,))
I8, U8 = ("int8", (4, 5)), ("uint8", (4, 5))


def both(fn, *operands):
    """What elemc and NumPy make of the same code."""
    arrays = [sample(dtype, shape, k, (-3, 3)) for k, (dtype, shape) in enumerate(operands)]
    inputs = [ec.array("xyz"[k], len(shape), dtype) for k, (dtype, shape) in enumerate(operands)]
    return ec.function(inputs, fn(*inputs))(*arrays), np.asarray(quiet(fn, *arrays))


def check(fn, *operands):
    got, want = both(fn, *operands)
    assert_same_bits(got, want)


# -- indexing and shape --------------------------------------------------------------------------

INDEXING = [
    (lambda x: x[0], M), (lambda x: x[-1], M), (lambda x: x[:, 1], M), (lambda x: x[1:3], M),
    (lambda x: x[::-1], M), (lambda x: x[::2, ::-2], M), (lambda x: x[-2:], M),
    (lambda x: x[10:], M), (lambda x: x[-100:100:3], M), (lambda x: x[4:1], M),
    (lambda x: x[3:0:-1], M), (lambda x: x[1:][::-1][0], M), (lambda x: x[:-1] - x[1:], M),
    (lambda x: x[()], M), (lambda x: x[...], S), (lambda x: x[..., 0], T),
    (lambda x: x[0, ..., None], T), (lambda x: x[None], M), (lambda x: x[:, None, 1:], M),
    (lambda x: x[..., None, 1, None], T), (lambda x: x[np.int64(1), np.uint8(2)], M),
    (lambda x: x.T, T), (lambda x: x.T[1], T), (lambda x: x.mT, T),
    (lambda x: x.transpose(1, 0, 2), T), (lambda x: x.transpose((2, 0, -2)), T),
    (lambda x: x.transpose(None), T), (lambda x: np.transpose(x, axes=(2, 0, 1)), T),
    (lambda x: np.permute_dims(x, (1, 0, 2)), T), (np.matrix_transpose, T),
    (lambda x: x.swapaxes(0, -1), T), (lambda x: np.swapaxes(x, 0, 1), T),
    (lambda x: np.moveaxis(x, 0, -1), T), (lambda x: np.moveaxis(x, (0, 1), (2, 0)), T),
    (lambda x: np.moveaxis(x, source=2, destination=0), T),
    (lambda x: np.moveaxis(x, np.int64(0), 1), T), (lambda x: np.flip(x, np.int64(0)), T),
    (lambda x: np.expand_dims(x, np.int64(0)), T), (lambda x: x.transpose(()), S),
    (lambda x: ec.transpose(x, (1, 0, 2)), T), (ec.transpose, T), (lambda x: ec.swapaxes(x, 0, 1), T),
    (lambda x: ec.squeeze(x, 1), ONE),
    (lambda x: np.expand_dims(x, (0, -1)), M), (lambda x: np.expand_dims(x, 1), M),
    (lambda x: np.squeeze(x, axis=1), ONE), (lambda x: x.squeeze(1), ONE),
    (np.flip, T), (lambda x: np.flip(x, (0, 2)), T), (np.fliplr, T), (np.flipud, T),
    (lambda x, y: x[:, None] * y[None, :], V, COLUMN),
    (lambda x: x * x.shape[0] - x.shape[1], M), (lambda x: x + np.shape(x)[1], M),
    (lambda x: x / x.size, M), (lambda x: x * np.size(x, 1), M),
]


@pytest.mark.parametrize("case", INDEXING, ids=range(len(INDEXING)))
def test_indexing_and_shape(case):
    check(*case)


def test_sizes_are_those_of_the_call():
    x = ec.matrix("x")
    f = ec.function([x], [x.shape[0], x.shape[1], x.size, ec.length(x), ec.arange(x.shape[1])])
    for shape in [(2, 3), (0, 4), (1, 1)]:
        rows, columns, size, length, steps = f(np.zeros(shape))
        assert (rows, columns, size, length) == (*shape, shape[0] * shape[1], shape[0])
        assert_same_bits(steps, np.arange(shape[1]))


def test_a_constant_index_is_checked_when_called():
    x = ec.vector("x")
    f = ec.function([x], x[3] + x[-2])
    assert f(np.arange(4.0)) == 3 + 2
    with pytest.raises(ElemcError, match="3"):
        f(np.arange(3.0))


def test_squeeze_is_checked_when_called():
    x = ec.matrix("x")
    f = ec.function([x], x.squeeze(0))
    assert_same_bits(f(np.ones((1, 3))), np.ones(3))
    with pytest.raises(ElemcError, match="2"):
        f(np.ones((2, 3)))


# -- elementwise ---------------------------------------------------------------------------------

OPERATORS = [
    (lambda x: -x, M), (lambda x: +x, M), (abs, M), (lambda x: ~x, N), (lambda x: ~x, B),
    (lambda x: x // 0.7, M), (lambda x: x % 0.7, M), (lambda x: 5 % x, M), (lambda x: 7 // x, N),
    (lambda x: divmod(x, 2)[1], M), (lambda x: divmod(7, x)[0], M),
    (lambda x: np.divmod(x, 2)[0], N), (lambda x: x & 3, N), (lambda x: 3 | x, N),
    (lambda x: x ^ x[0], N), (lambda x: x << 2, N), (lambda x: x >> 1, N),
    (lambda x: 1 << abs(x), N), (lambda x: x == 1, N), (lambda x: x != x[0], M),
    (lambda x: 1 < x, M), (lambda x: x >= 0, M), (lambda x: np.float64(1) < x, M),
    (lambda x: np.ones(5) < x, M), (lambda x: np.ones(5) + x, M),
    (lambda x: x + [1, 2, 3, 4, 5], M), (lambda x: np.float64(2) * x, F), (lambda x: 2.5 * x, F),
    (lambda x: x + True, I8), (lambda x: x + 100, I8), (lambda x: x * np.int16(300), I8),
    (lambda x: x - 1j, F), (lambda x: np.float32(2) * x, F), (lambda x: 2 - x, U8),
    (lambda x: x.real, C), (lambda x: x.imag, C), (lambda x: x.imag, N), (lambda x: x.conj(), C),
    (np.real, C), (np.imag, M), (np.conj, C), (np.isreal, C), (np.iscomplex, C),
    (np.round, M), (np.around, F), (lambda x: x.round(), F), (np.round, N), (np.fix, M),
    (lambda x: x.astype("int16"), M), (lambda x: x.astype(dtype=np.float32, copy=False), M),
    (lambda x: np.astype(x, np.float32), M), (lambda x: x.astype(bool).astype(int), M),
    (np.zeros_like, M), (lambda x: np.ones_like(x, dtype="int8"), M),
    (lambda x: np.full_like(x, 3.7), N), (lambda x, y: np.full_like(x, y), M, V),
    (lambda x: np.clip(x, -1, 1), M), (lambda x: np.clip(x, None, 1), M),
    (lambda x: np.clip(x, -1, 1), N), (lambda x: np.clip(x, 0.5, 1.5), N),
    (lambda x, y: np.clip(x, y, 1.5), M, V), (lambda x: np.clip(x, 1, -1), M),
    (lambda x: x.clip(-1), M), (lambda x: x.clip(max=0.5), M),
    (lambda x: np.clip(x, min=-1, max=0.5), M), (lambda x: np.clip(x, a_min=-1, a_max=0.5), M),
    (lambda x, y: np.where(x > 0, x, y), M, V), (lambda x: np.where(x > 0, 1, x), F),
    (lambda x: np.where(x, 1.5, 2), B), (lambda x, y: np.minimum(x, y), M, V),
    (lambda x, y: np.isclose(x, y, atol=0.5), M, V), (np.square, N), (np.copy, M),
    (lambda x: x.copy(), M), (lambda x: x.copy("F"), M), (lambda x: np.copy(x, order="F"), M),
    (np.angle, B), (np.angle, I8),
    (lambda x, y: np.add(x, y, dtype="float64"), F, F), (np.isposinf, M), (np.isneginf, M),
]


@pytest.mark.parametrize("case", OPERATORS, ids=range(len(OPERATORS)))
def test_elementwise(case):
    check(*case)


@pytest.mark.parametrize("bounds", [(0, 300), (None, 300), (-300, None), (-300, 300), (-300, 5)])
def test_bounds_that_no_value_reaches(bounds):
    x = ec.vector("x", "int8")
    data = np.array([-128, -1, 0, 5, 127], np.int8)
    want = np.clip(data.astype(int), *bounds).astype(np.int8)
    assert_same_bits(ec.function([x], x.clip(*bounds))(data), want)
    assert_same_bits(ec.function([x], np.clip(x, *bounds))(data), want)
    with pytest.raises(DtypeError, match="300"):
        ec.function([x], x.clip(300, None))


@pytest.mark.parametrize("number", [-1, -200, 255, 256, 300, 2**31, 2**63, -2**63])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "uint64"])
def test_comparison_with_any_python_integer(dtype, number):
    x = ec.vector("x", dtype)
    tests = (operator.lt, operator.le, operator.eq, operator.ne, operator.ge, operator.gt)
    f = ec.function([x], [test(x, number) for test in tests] + [number < x])
    info = np.iinfo(dtype)
    data = np.array([0, 1, 5, info.min, info.max], dtype)
    want = [test(data, number) for test in tests] + [number < data]
    for got, expected in zip(f(data), want, strict=True):
        assert_same_bits(got, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, 0.5, 2.0])
def test_powers_have_numpys_dtype_and_value(dtype, exponent):
    data = sample(dtype, (20,), 3, (0.5, 3))
    x = ec.vector("x", dtype)
    if exponent == -1 and data.dtype.kind in "biu":
        with pytest.raises((ElemcError, OverflowError)):
            ec.function([x], x ** exponent)(data)
        return
    got, want = ec.function([x], x ** exponent)(data), data ** exponent
    assert got.dtype == want.dtype
    exact = want.dtype.kind in "biu"
    np.testing.assert_allclose(got, want, rtol=0 if exact else 4 * np.finfo(want.dtype).eps)


# -- accumulations -------------------------------------------------------------------------------

FOLDS = [
    (lambda x: np.sum(x, axis=(0, -1)), T), (lambda x: np.sum(x, 1), T), (lambda x: x.sum(1), T),
    (lambda x: x.sum(axis=1, keepdims=True), T), (lambda x: x.sum(dtype="float32"), N),
    (lambda x: x.sum(0, "float32"), N), (lambda x: np.mean(x, 0, "float32"), N),
    (lambda x: x.max(0), M), (lambda x: np.max(x), M), (lambda x: np.amax(x, 0), M),
    (lambda x: x.mean(0), M), (lambda x: x.std(axis=0, ddof=1), M),
    (lambda x: np.std(x, 0, ddof=1), M), (lambda x: np.var(x, correction=1, axis=0), M),
    (lambda x: x.any(axis=0), B), (lambda x: x.argmax(1), M),
    (lambda x: np.argmax(x, axis=1, keepdims=True), M), (np.argmin, M),
    (lambda x: np.ptp(x, axis=1), M), (lambda x: np.count_nonzero(x, axis=1), N),
    (lambda x: np.nansum(x, axis=0), M), (lambda x: np.sum(x, axis=0, where=x > 0), M),
    (lambda x: np.max(x, axis=0, initial=0), M),
    (lambda x: x.max(axis=0, initial=0, where=x > 0), M),
    (lambda x: x.mean(axis=0, where=x > -9), M), (lambda x: x.sum(axis=np.int64(1)), T),
    (lambda x: x.sum(axis=()), T), (np.add.reduce, M),
    (lambda x: np.maximum.reduce(x, axis=None), M), (lambda x: np.logical_or.reduce(x, 1), B),
    (lambda x: np.add.reduce(x, axis=0, keepdims=True), M),
    (lambda x: np.add.reduce(x, axis=0, dtype="float64"), N), (np.allclose, M, M),
]


@pytest.mark.parametrize("case", FOLDS, ids=range(len(FOLDS)))
def test_accumulations(case):
    check(*case)


@pytest.mark.parametrize("name", ACCUMULATORS)
def test_the_dtype_of_an_accumulation_is_known_at_once(name):
    calls = []
    for dtype in DTYPES:
        x = ec.vector("x", dtype)
        y = ec.accumulate(name, x)
        with contextlib.suppress(DtypeError):  # bools are not subtracted, and the like
            f = ec.function([x], y)
            f.example([np.ones(3, dtype)])
            calls.append((f, [np.ones(3, dtype)], y.dtype))
    compile_together((f, arrays) for f, arrays, _ in calls)
    assert len(calls) >= 4
    for f, arrays, dtype in calls:
        assert f(*arrays).dtype == dtype


# -- sums of products ----------------------------------------------------------------------------

PRODUCTS = [
    (operator.matmul, M, R), (operator.matmul, M, V), (operator.matmul, V, R),
    (operator.matmul, V, V), (operator.matmul, Q, Q2), (operator.matmul, Q, R), (np.matmul, M, Q2),
    (operator.matmul, N, IR), (operator.matmul, B, BR), (operator.matmul, N, BR),
    (operator.matmul, N, IV), (operator.matmul, Q, V), (operator.matmul, V, Q2),
    (lambda x: np.ones(4) @ x, M), (np.dot, M, R), (np.dot, Q, Q2), (np.dot, S, V),
    (lambda x, y: x.dot(y), M, V), (np.dot, BV, BV), (lambda x: np.dot(x, 3), V),
    (np.inner, M, V), (np.inner, Q, M), (np.outer, V, COLUMN), (np.vdot, C, C), (np.vdot, V, V),
    (np.vecdot, M, V), (np.vecdot, C, C), (lambda x, y: np.tensordot(x, y, 1), Q, R),
    (lambda x, y: np.tensordot(x, y, axes=([1, 2], [0, 1])), Q, M),
    (lambda x, y: np.tensordot(x, y, axes=(-1, 0)), M, R),
    (lambda x, y: np.tensordot(x, y, 0), V, COLUMN), (np.linalg.norm, M),
    (lambda x: np.linalg.norm(x, axis=1, keepdims=True), M),
    (lambda x: np.linalg.norm(x, ord=1, axis=0), M), (lambda x: np.linalg.norm(x, np.inf, 0), M),
    (lambda x: np.linalg.vector_norm(x, axis=0), M),
    (lambda x: np.logaddexp.reduce(x, axis=1), M), (lambda x: np.multiply.reduce(x, axis=1), M),
    (lambda x: np.angle(x, deg=True), C),
]
EINSUMS = [
    ("ij,jk->ik", M, R), ("ij,jk", M, R), (" ij , jk -> ki", M, R), ("ij->ji", M), ("ji", M),
    ("ij->", M), ("ij->i", M), ("ij,jk,i->k", M, R, COLUMN), ("ij,jk->ik", N, IR), ("i,j->ij", V, V),
    ("...j,j->...", Q, V), ("...ij,...jk->...ik", Q, Q2), ("...ij,jk", Q, R), ("i...->...", Q),
    (",i->i", S, V), ("ij,jk->ik", B, BR),
]


@pytest.mark.parametrize("case", PRODUCTS, ids=range(len(PRODUCTS)))
def test_products(case):
    got, want = both(*case)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("case", EINSUMS, ids=lambda case: case[0])
def test_einsum(case):
    text, *operands = case
    got, want = both(lambda *arrays: np.einsum(text, *arrays, optimize=False), *operands)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)


# -- what is refused -----------------------------------------------------------------------------

X = ec.matrix("x")
REFUSED = [
    (lambda: bool(X), TraceError, "where for a branch"),
    (lambda: X.max() < 0 or X, TraceError, "max"),
    (lambda: 0 < X < 1, TraceError, "&"), (lambda: float(X), TraceError, "float"),
    (lambda: int(X), TraceError, "int"), (lambda: len(X), TraceError, r"x\.shape\[0\]"),
    (lambda: list(X), TraceError, "iteration"), (lambda: 3 in X, TraceError, "any"),
    (lambda: np.asarray(X), TraceError, "an array already"), (lambda: [1, 2][X], TraceError, "index"),
    (lambda: np.arange(X.shape[0]), TraceError, r"elemc\.arange\(x\.shape\[0\]\)"),
    (lambda: range(X.shape[0] - 1), TraceError, r"elemc\.arange\(x\.shape\[0\]\)"),
    (lambda: int(X.shape[0]), TraceError, r"elemc\.arange"), (lambda: float(X.size), TraceError, r"elemc\.arange"),
    (lambda: np.asarray(X.shape[0]), TraceError, r"elemc\.arange"),
    (lambda: np.arange(1, X.shape[0]), TraceError, r"elemc\.arange"),
    (lambda: np.zeros(X.shape), TraceError, r"elemc\.zeros_like\(x\)"),
    (lambda: range(ec.scalar("n", int)), TraceError, "static="),
    (lambda: X.sum(axis=X), AxisError, "x is a symbolic array.*compile with static='x'"),
    (lambda: X.sum(axis=(0, ec.scalar("k"))), AxisError, "static='k'"),
    (lambda: X.max(axis=X.shape[0]), AxisError, "static='axis'"),
    (lambda: np.squeeze(X, X), AxisError, "static='x'"), (lambda: np.flip(X, X), AxisError, "static='x'"),
    (lambda: np.expand_dims(X, X), AxisError, "static='x'"), (lambda: np.moveaxis(X, X, 0), AxisError, "static='x'"),
    (lambda: X.transpose(X), AxisError, "static='x'"), (lambda: X.transpose(X, 0), AxisError, "static='x'"),
    (lambda: X.swapaxes(0, X), AxisError, "static='x'"), (lambda: X[ec.scalar("k")], UnsupportedError, "static="),
    (lambda: X.var(ddof=ec.scalar("k")), ArgumentError, "static='ddof'"),
    (lambda: ec.array(3, 1, "d"), ArgumentError, r"array\(name, ndim, dtype\): the name comes first, and 3"),
    (lambda: ec.vector(np.float32), ArgumentError, r"vector\(name, dtype\): the name comes first"),
    (lambda: ec.tensor3(3), ArgumentError, r"tensor3\(name, dtype\): the name"),
    (lambda: ec.array("a", 33), ArgumentError, "a: a rank is an integer from 0 to 32, not 33"),
    (lambda: ec.array("a", 1.0), ArgumentError, "not 1.0"), (lambda: ec.array("a", True), ArgumentError, "not True"),
    (lambda: ec.array("a", "f4", 2), ArgumentError, "not 'f4'"), (lambda: ec.vector("a", 2), DtypeError, "a: 2 is not"),
    (lambda: ec.vector("a", "f8,,"), DtypeError, "a: 'f8,,' is not a dtype"),
    (lambda: np.zeros(X.shape), TraceError, r"x\.shape\[0\]"),
    (lambda: X + [X], TraceError, "asarray"), (lambda: X[X > 0], UnsupportedError, "where"),
    (lambda: X[[0, 1]], UnsupportedError, "gather"), (lambda: X[True], UnsupportedError, "bool"),
    (lambda: X[:X.shape[0]], UnsupportedError, "slice bound"),
    (lambda: X[0, 0, 0], AxisError, "x of rank 2 has too many"),
    (lambda: X[..., ...], AxisError, r"one \.\.\."), (lambda: X[::0], ArgumentError, "step"),
    (lambda: operator.setitem(X, 0, 1), UnsupportedError, "where"),
    (lambda: setattr(X, "node", 1), AttributeError, "never changed"),
    (lambda: X.sum(axis=2), AxisError, "axis 2 is out of range for rank 2"),
    (lambda: X.sum(axis=(0, -2)), AxisError, "twice"), (lambda: X.sum(axis="1"), AxisError, "str"),
    (lambda: X.sum(axis=1.0), AxisError, "float"), (lambda: X.sum(foo=1), ArgumentError, "foo"),
    (lambda: X.max(ties="some"), ArgumentError, "ties='some'"),
    (lambda: X.sum(where=X), DtypeError, "mask"),
    (lambda: X.sum(out=np.ones(5)), UnsupportedError, "out="),
    (lambda: X.transpose(0, 0), AxisError, "permutation"), (lambda: X.transpose(0), AxisError, "2"),
    (lambda: X.squeeze(), UnsupportedError, "axis="), (lambda: X.round(1.5), UnsupportedError, "decimals"),
    (lambda: X.reshape(-1), UnsupportedError, "transpose"), (lambda: X.tolist(), TypeError, "call"),
     (lambda: X.flatten(), UnsupportedError, "axis"),
    (lambda: X + "a", ArgumentError, "str is no operand"), (lambda: X + None, ArgumentError, "None"),
    (lambda: X + [1, "a"], DtypeError, "no dtype"), (lambda: X + 2**64, DtypeError, "64 bits"),
    (lambda: ~X, DtypeError, "invert does not exist.*float64.*test_array.py"),
    (lambda: X << 1, DtypeError, "left_shift"), (lambda: X @ 3, ShapeError, "rank 1"),
    (lambda: ec.exp(X, X), ArgumentError, "exp takes 1"), (lambda: ec.arange(3), UnsupportedError, "shape"),
    (lambda: ec.align(X, "k"), ArgumentError, "'k'"), (lambda: ec.array("a", -1), ArgumentError, "32"),
    (lambda: ec.array("a", 1, "U3"), DtypeError, "no dtype"), (lambda: ec.length(ec.scalar()), AxisError, "0"),
    (lambda: ec.full_like(ec.vector(dtype=None), 1), DtypeError, "dtype="),
    (lambda: ec.accumulate("summ", X), ArgumentError, "no accumulator 'summ'"),
    (lambda: np.moveaxis(X, 5, 0), AxisError, "5"), (lambda: np.moveaxis(X, (0, 0), (0, 1)), AxisError, "twice"),
    (lambda: np.expand_dims(X, 5), AxisError, "5"), (lambda: np.flip(X, 7), AxisError, "7"),
    (lambda: np.sort(X), UnsupportedError, "max and min"), (lambda: np.where(X), UnsupportedError, "where"),
    (lambda: np.concatenate([X, X]), UnsupportedError, "out="),
    (lambda: np.stack([X, X[0]]), ShapeError, "ranks 2 and 1"), (lambda: np.stack([X, X], axis=5), AxisError, "5"),
    (lambda: np.stack([X, X], dtype="int8"), DtypeError, "int8"), (lambda: np.vstack([X, X]), UnsupportedError, "np.stack"),
    (lambda: np.column_stack([X[0], X]), UnsupportedError, "rank 1 and 2"), (lambda: np.hstack([X[0], X[0]]), UnsupportedError, "out="),
    (lambda: np.meshgrid(X, X), ShapeError, "rank 2"), (lambda: np.meshgrid(X[0], indexing="yx"), ArgumentError, "'xy' or 'ij'"),
    (lambda: np.fft.fft(X), UnsupportedError, "np.fft.fft"), (lambda: np.linalg.inv(X), UnsupportedError, "dot"),
    (lambda: np.broadcast_to(X, (3, 3)), UnsupportedError, "expand_to"),

    (lambda: np.add.at(X, 0, 1), UnsupportedError, "where"), (lambda: np.add(X, 1, out=np.ones(3)), UnsupportedError, "out"),
    (lambda: np.exp(X, where=False), UnsupportedError, "where="), (lambda: np.sum(X, out=np.ones(3)), UnsupportedError, "out="),
    (lambda: np.ones_like(X, shape=(3,)), UnsupportedError, "shape"),
    (lambda: np.zeros(3).__iadd__(X), UnsupportedError, "out="),
    (lambda: ec.einsum("ij", X, X), ArgumentError, "1 terms for 2"), (lambda: ec.einsum("i", X), ShapeError, "rank 2"),
    (lambda: ec.einsum("ij->k", X), ArgumentError, "'k'"), (lambda: ec.einsum("ij->ii", X), ArgumentError, "repeats"),
    (lambda: ec.einsum("i1->i", X), ArgumentError, "letters"),
    (lambda: ec.einsum("ijk...", X), ShapeError, "rank 2"), (lambda: ec.einsum("i...->i", X), ArgumentError, r"\.\.\."),
    (lambda: ec.tensordot(X, X, 3), AxisError, "3"), (lambda: ec.tensordot(X, X, ([5], [0])), AxisError, "5"),
    (lambda: ec.tensordot(X, X, ([0], [0, 1])), AxisError, "pair"), (lambda: ec.outer(X, X), UnsupportedError, "None"),
    (lambda: ec.vdot(X, ec.vector()), ShapeError, "2 and 1"), (lambda: X.nonsense, AttributeError, "nonsense"),
]


@pytest.mark.parametrize("case", REFUSED, ids=range(len(REFUSED)))
def test_refusals_say_what_works(case):
    make, error, match = case
    with pytest.raises(error, match=match):
        make()


def test_probing_for_attributes_is_harmless():
    assert not hasattr(X, "reshape")
    assert not hasattr(X, "__array_interface__")
    assert getattr(X, "tolist", None) is None
    assert not np.iterable(X)


# -- values in their own right -------------------------------------------------------------------


def test_arrays_are_keys_and_copies():
    x, y = ec.matrix("x"), ec.matrix("x")
    table = {x: 1, y: 2}
    assert (table[x], table[y]) == (1, 2)
    assert copy.copy(x) is x
    assert copy.deepcopy([x])[0] is x
    double = x * 2
    assert hash(double) == hash(x * 2)


def test_expressions_survive_pickle():
    x = ec.vector("x")
    y = x
    for k in range(3000):  # deeper than the recursion limit
        y = y * 0.5 + k
    x2, y2 = pickle.loads(pickle.dumps((x, y)))
    assert y2.node is y.node
    assert x2.node is x.node


def test_what_is_captured_is_copied():
    data = np.arange(3.0)
    x = ec.vector("x")
    y = x + data
    data[:] = 99
    assert_same_bits(ec.function([x], y)(np.zeros(3)), np.arange(3.0))


def test_names_and_dtypes():
    assert ec.scalar("a").name == "a"
    assert ec.scalar().name
    assert (ec.vector("v", "float32") * 2).dtype == np.float32
    assert (ec.vector("v", "int8") / 2).dtype == np.float64
    assert (ec.vector("v", None) / 2).dtype is None
    assert ec.constant(2.0, "float32").dtype == np.float32
    assert (X.ndim, X.T.ndim, X[0].ndim, X.sum().ndim, X[None].ndim) == (2, 2, 1, 0, 3)
    big = ec.array("b", 1, np.dtype(">f8"))
    assert big.dtype.isnative


FORMULAS = [
    (lambda x, y: (x + y) * 2 - x / y, "(x + y) * 2 - x / y"),
    (lambda x, y: x - (y - x), "x - (y - x)"), (lambda x, y: -x ** 2, "-x ** 2"),
    (lambda x, y: (x > 1) & (y <= 2), "(x > 1) & (y <= 2)"),
    (lambda x, y: np.exp(x - x.max(axis=-1, keepdims=True)), "exp(x - max(x, axis=1)[:, None])"),
    (lambda x, y: x.sum(axis=(0, 1)), "sum(x)"), (lambda x, y: x[1:, ::-1], "x[1:, ::-1]"),
    (lambda x, y: (x + y).T, "(x + y).T"), (lambda x, y: x.var(ddof=1), "var(x, ddof=1)"),
    (lambda x, y: x.astype("int8"), "x.astype(int8)"), (lambda x, y: x[0, None], "x[0, None, :]"),
    (lambda x, y: np.where(x > 0, x, -1), "where(x > 0, x, -1)"),
    (lambda x, y: ec.align(y, "c") * x.shape[0], "align(y, 'c') * x.shape[0]"),
]


@pytest.mark.parametrize("case", FORMULAS, ids=lambda case: case[1])
def test_formulas_read_like_the_code(case):
    fn, text = case
    x, y = ec.matrix("x"), ec.matrix("y")
    assert repr(fn(x, y)).startswith(f"<elemc {text}: ")


def test_graphs_and_kernels_print_in_a_line():
    x, y = ec.matrix("x"), ec.vector("y", None)
    f = ec.function([x, y], [x * y + 1, x.sum()], name="f")
    assert repr(f.graph) == "Graph(x: float64[2], y: any dtype[1] -> x * y + 1, sum(x))"
    assert repr(f.graph.outputs[0]) == "<node x * y + 1>"
    f(np.ones((2, 3)), np.ones(3))
    [compiled] = f.specializations
    lines = len(f.dump(np.ones((2, 3)), np.ones(3)).splitlines())
    assert repr(compiled) == (
        "<elemc kernel_f(in x[i0, i1]: float64, contiguous; out z0[i0, i1]: float64, contiguous; "
        "in y[i1]: float64, contiguous; out z1[]: float64), "
        f"{lines} lines of C>")


def test_long_formulas_are_abbreviated():
    x = ec.vector("x")
    y = x
    for _ in range(5000):
        y = y + x
    assert len(repr(y)) < 1000
    assert "..." in repr(y)


def test_functions_compute_on_numpy_arrays():
    data = sample("float32", (3, 4), 0, (0.1, 3))
    assert_same_bits(ec.sqrt(data), np.sqrt(data))
    assert_same_bits(ec.add(data, 1), data + 1)
    assert_same_bits(ec.arctan2([1, 2], 3.0), np.arctan2([1, 2], 3.0))
    assert ec.erf(0.0) == 0
    assert ec.erf(data).dtype == np.float32
    for got, want in zip(ec.divmod(data, 0.7), np.divmod(data, np.float32(0.7)), strict=True):
        assert_same_bits(got, want)
    assert_same_bits(ec.transpose(data, (1, 0)), data.T)
    assert_same_bits(ec.swapaxes(data, 0, 1), data.T)
    assert_same_bits(ec.squeeze(data[None], 0), data)
    assert_same_bits(ec.clip(data, 1, 2), np.clip(data, 1, 2))
    assert_same_bits(ec.astype(data, int), data.astype(int))
    assert_same_bits(ec.divmod(7, -2), (np.int64(-4), np.int64(-1)))


def test_numpys_names_of_rows():
    """Every ufunc of NumPy that is a row of the table is there, under all of its names."""
    names = [n for n, v in vars(np).items() if isinstance(v, np.ufunc) and v in UFUNCS]
    assert {"acos", "atan2", "pow", "mod", "bitwise_invert", "conj", "abs"} <= {*names}
    assert [n for n in names if not hasattr(ec, n) or n not in ec.__all__] == []
    for alias, name in ALIASES.items():
        assert getattr(ec, alias) is getattr(ec, name)
    assert ec.expit is ec.sigmoid
    x = ec.vector("x")
    quotient, rest = ec.divmod(x, 2)
    assert (repr(quotient), repr(rest)) == (repr(x // 2), repr(x % 2))


@pytest.mark.parametrize("name", OPS)
def test_every_operation_says_what_it_does(name):
    assert name in ops_docs.SUMMARIES
    text = ops_docs.docstring(OPS[name])
    assert "->" in text
    for row in filter(lambda line: "->" in line, text.splitlines()):
        operands, result = row.strip().split(" -> ")
        for dtype in operands.split(", "):
            rest = [np.dtype(np.int32 if name == "ldexp" else dtype)] * (OPS[name].nin - 1)
            assert OPS[name].resolve((np.dtype(dtype), *rest))[1] == (dtype if result == "the same" else result)


def test_methods_are_named():
    for name in "erfinv gamma lgamma digamma polygamma sinc softplus logaddexp logit gelu".split():
        assert "\n\nMethod: " in getattr(ec, name).__doc__, name
    assert "Wichura" in ec.erfinv.__doc__


@pytest.mark.parametrize("body, say", [
    (lambda x: x * np.ones(x.shape[1]), "elemc.ones_like"),
    (lambda x: x * np.hanning(x.shape[1]), "elemc.arange"),
    (lambda x: x[: x.shape[0] // 2], r"a slice bound is a constant integer, not x.shape\[0\] // 2"),
    (lambda x: x[x.argmax()], "static="),
])
def test_sizes_where_numbers_are_needed(body, say):
    """The message says what to write, and names the user's line, not one within NumPy."""
    with pytest.raises(ec.ElemcError, match=say) as error:
        ec.compile(body)(np.ones((4, 6)))
    assert "test_array.py:" in str(error.value)
