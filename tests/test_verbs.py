"""What elemc makes of NumPy code: texts evaluated in both, sizes, orders, random indices."""

import math
import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import elemc as ec
from elemc.array import as_node
from elemc.errors import (
    ArgumentError,
    AxisError,
    DtypeError,
    ShapeError,
)
from elemc.graph import Const, Index

from .helpers import quiet, sample

A, B = sample("float64", (3, 4), 1, (-3, 3)), sample("float64", (3, 4), 2, (0.5, 3))
T = sample("float64", (2, 3, 4), 3, (-3, 3))
V = sample("float64", 4, 4, (-3, 3))
Z = sample("complex128", (3, 4), 5)
K, J = sample("int16", (3, 4), 6), np.abs(sample("int16", (3, 4), 7)) % 9 + 1
M, N = sample("bool", (3, 4), 8), sample("bool", (3, 4), 9)
VALUES = {"a": A, "b": B, "t": T, "v": V, "z": Z, "i": K, "j": J, "m": M, "n": N}


def symbols():
    return {n: ec.array(n, x.ndim, x.dtype) for n, x in VALUES.items()}


def both(fn):
    """What `fn` of the arrays gives in elemc and in NumPy; its arguments have their names."""
    names = fn.__code__.co_varnames[:fn.__code__.co_argcount]
    inputs = [symbols()[n] for n in names]
    got = ec.function(inputs, fn(*inputs))(*(VALUES[n] for n in names))
    return got, quiet(fn, *(VALUES[n] for n in names))


def agree(got, want, rtol=1e-12):
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-12)


def listed(text):
    """A list of one function for each line, with a line's arguments found by name."""
    found = []
    for line in filter(None, map(str.strip, text.replace(";", "\n").splitlines())):
        names = [n for n in VALUES if n in compile(line, "line", "eval").co_names]
        fn = eval(f"lambda {', '.join(names)}: {line}", {"np": np})
        found.append(pytest.param(fn, id=line))
    return found


VERBS = """
a[0]; a[-1]; a[1:]; a[:-1]; a[::2]; a[::-1]; a[:, 1]; a[1, 2]; a[..., 0]; a[0, ...]; a[None]; a[:, None]
a[..., None]; a[None, :, None]; a[1:3, ::-2]; a[-2:, :2]; a[5:]; a[2:1]; a[-100:100]; a[::-3, None, 1]
t[1, :, None, ::-1]; t[..., 1:, 0]; t[:, 0]; t[np.int64(1)]; v[:]; a[()]; a.T; t.T; v.T; t.mT + 0
a.transpose(); t.transpose(1, 2, 0); t.transpose((2, 0, 1)); t.transpose(-1, 0, 1); t.swapaxes(0, 2)
np.transpose(t); np.transpose(t, (1, 0, 2)); np.swapaxes(t, -1, 0); np.moveaxis(t, 0, -1)
np.moveaxis(t, 2, 0); np.expand_dims(a, 0); np.expand_dims(a, -1); np.expand_dims(a, (0, 2))
np.squeeze(a[None], 0); a[:, None].squeeze(axis=1); a[None, ..., None].squeeze((0, -1)); np.flip(a)
np.flip(t, 1); np.flip(t, (0, -1)); np.flipud(a); np.fliplr(a); a.astype("float32"); a.astype(int)
a.astype(bool); z.real; z.imag; a.real; np.real(z); np.imag(z); np.angle(z); z.conj(); a.conjugate()
a.round(); np.round(a); np.around(a); a.clip(-1, 1); np.clip(a, None, 0.5); np.clip(a, b, None)
a.clip(min=0); a.clip(max=1); np.clip(i, 2, 9); np.where(a > 0, a, b); np.where(m, i, 0); np.where(m, 1, 2)
np.zeros_like(a); np.ones_like(i); np.full_like(a, 3); np.full_like(a, 2.5, dtype="float32") + a
np.zeros_like(a, dtype=int) + a[0]; a.shape[0] * a; np.shape(a)[1] * a; a.size + v; a.size * v
np.ndim(t) * v; len(a.shape) * a; a[1:] - a[:-1]; a[:, None] * b[None]; (a.T + b.T).T; np.copy(a) + 1
a[:, :, None] * v; a[a.ndim - 2]; np.sinc(a); np.isneginf(a); np.isposinf(a / 0.0)
"""


@pytest.mark.parametrize("fn", listed(VERBS))
def test_verbs(fn):
    agree(*both(fn))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "float32", "complex64"])
def test_products_keep_their_dtype_whether_it_is_known_or_not(dtype):
    x, y = sample(dtype, (3, 5), 1, (0, 2)), sample(dtype, (5, 4), 2, (0, 2))
    for known in (dtype, None):
        s, t = ec.array("s", 2, known), ec.array("t", 2, known)
        agree(ec.function([s, t], s @ t)(x, y), x @ y, 1e-2 if dtype == "float16" else 1e-5)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "int64", "float16", "float32",
                                   "complex64"])
@pytest.mark.parametrize("scalar", [2, 2.5, 1j, True, np.int8(2), np.float32(2), np.float64(2)])
def test_scalars_promote_as_in_numpy(dtype, scalar):
    x = sample(dtype, 5)
    try:
        want = quiet(operator.add, x, scalar)
    except TypeError:
        return
    for known in (dtype, None):
        s = ec.array("s", 1, known)
        agree(ec.function([s], s + scalar)(x), want, 1e-2 if dtype == "float16" else 1e-5)


# -- what is elemc's own ----------------------------------------------------------------------


@pytest.mark.parametrize("condition", [True, False])
def test_the_side_of_a_constant_condition_that_is_not_taken_stretches_the_other(condition):
    x, y = np.arange(2.0), np.arange(6.0).reshape(3, 2)
    for choice in (lambda x, y: (x, y), lambda x, y: (y, x), lambda x, y: (x, 1.0),
                   lambda x, y: (x, x)):
        want = np.where(condition, *choice(x, y))
        got = ec.compile(lambda x, y: ec.where(condition, *choice(x, y)))(x, y)  # noqa: B023
        np.testing.assert_array_equal(got, want, strict=True)
    with pytest.raises(ec.ShapeError):
        ec.compile(lambda x, y: ec.where(condition, x, y))(np.zeros(3), y)


def test_constants():
    agree(ec.function([x := ec.vector("x")], x + ec.constant(2))(V), V + 2)
    assert isinstance(as_node(2), Const) and as_node(2).weak and not as_node(np.int8(2)).weak
    assert ec.constant(2, "float32").dtype == np.float32
    assert (ec.vector("x", "float32") * ec.constant(2.0)).dtype == np.float32
    assert (ec.vector("x", "float32") * np.float64(2)).dtype == np.float64
    assert (ec.vector("x", "uint64") + 2**63).dtype == np.uint64


def test_align():
    x, y = ec.matrix("x"), ec.vector("y")
    agree(ec.function([x, y], x * ec.align(y, "c") + y)(A[:, :3], B[0, :3]),
          A[:, :3] * B[0, :3, None] + B[0, :3])
    agree(ec.function([x, y], x * ec.align(y, "f") + y, order="c")(A[:, :3], B[0, :3]),
          A[:, :3] * B[0, :3] + B[0, :3, None])


@pytest.mark.parametrize("order", ["f", "c"])
def test_expand_to(order):
    x, y = ec.matrix("x"), ec.vector("y")
    row = V[:3] if order == "c" else V
    want = np.broadcast_to(row if order == "f" else row[:, None], A.shape)
    agree(ec.function([y, x], ec.expand_to(y, x), order=order)(row, A), want)
    agree(ec.function([y, x], ec.expand_to(y, x).sum(axis=0), order=order)(row, A), want.sum(0))
    agree(ec.function([x], ec.expand_to(2.5, x))(A), np.full((3, 4), 2.5))
    agree(ec.expand_to(V, A), np.broadcast_to(V, A.shape))
    with pytest.raises(ShapeError, match="rank 2 does not stretch to rank 1"):
        ec.expand_to(x, y)
    with pytest.raises(ShapeError):
        ec.function([y, x], ec.expand_to(y, x), order=order)(np.ones(7), A)


def test_arange_and_length():
    x = ec.matrix("x")
    agree(ec.function([x], ec.arange(x.shape[1]) * 2 + 1)(A), np.arange(4) * 2 + 1)
    agree(ec.function([x], ec.arange(x.shape[0])[:, None] * x)(A), np.arange(3)[:, None] * A)
    agree(ec.function([x], ec.length(x) * x)(A), 3 * A)
    with pytest.raises(AxisError, match="rank 0"):
        ec.length(x[0, 0])


def test_public_functions_compute_on_numpy_arrays_too():
    agree(ec.exp(A), np.exp(A))
    agree(ec.erf(np.float32(0.5)), np.float32(math.erf(0.5)), 1e-6)
    assert ec.exp(2).dtype == np.float64 and ec.sqrt(K).dtype == np.float32
    assert ec.where(M, A, 0).shape == (3, 4)
    with pytest.raises(ArgumentError, match="exp takes 1"):
        ec.exp(A, A)


@pytest.mark.parametrize("ties", ["split", "all", "first"])
def test_ties_are_accepted(ties):
    x = ec.matrix("x")
    agree(ec.function([x], x.max(axis=1, ties=ties))(A), A.max(axis=1))
    agree(ec.function([x], ec.min(x, ties=ties))(A), A.min())


def test_indices_out_of_range_are_found_when_called():
    f = ec.function([x := ec.matrix("x")], x[:, 5], name="pick")
    agree(f(np.ones((2, 6))), np.ones(2))
    with pytest.raises(ShapeError, match="pick: index 5 is out of range for axis 1 of x of size 4"):
        f(A)
    with pytest.raises(ShapeError, match="index -9"):
        ec.function([x], x[-9])(A)


@pytest.mark.parametrize(("fold", "say"), [
    (lambda x, y: y.sum(where=x > 0), "where= has rank 2"),
    (lambda x, y: y.mean(where=x > 0), "where= has rank 2"),
    (lambda x, y: x.sum(initial=y), "initial= has rank 1"),
    (lambda x, y: np.nansum(x, initial=y), "initial= has rank 1")])
def test_masks_and_starts_of_too_high_rank(fold, say):
    x, y = ec.matrix("x"), ec.vector("y")
    with pytest.raises(ShapeError, match=say):
        ec.function([x, y], fold(x, y))


def test_sums_of_bools_in_their_own_dtype():
    x = ec.array("x", 2, "bool")
    for dtype in (bool, "int8", None):
        agree(ec.function([x], x.sum(axis=0, dtype=dtype))(M), M.sum(axis=0, dtype=dtype))
        agree(ec.function([x], x.prod(axis=1, dtype=dtype))(M), M.prod(axis=1, dtype=dtype))


@pytest.mark.parametrize("wrong", [lambda x: x.var(ddof=x.sum()), lambda x: x.std(ddof=[1]),
                                   lambda x: np.linalg.norm(x[0], ord=x[0, 0])])
def test_options_are_numbers(wrong):
    x = ec.matrix("x")
    for _ in range(2):
        with pytest.raises(ArgumentError, match="is a number, not"):
            wrong(x)


def test_constants_that_do_not_fit():
    x = ec.vector("x", "int8")
    for wrong in (lambda: x + 300, lambda: ec.full_like(x, np.nan), lambda: x * -129):
        with pytest.raises(DtypeError, match="does not fit int8"):
            ec.function([x], wrong())
    with pytest.raises(ArgumentError, match="a list is no array"):
        x + [[1], [2, 3]]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "int16"])
@pytest.mark.parametrize("fn", [
    lambda x: x.sum(axis=0) / x.shape[0], lambda x: x.sum() / x.size, lambda x: x * x.shape[1]**-0.5,
    lambda x: x / np.sqrt(x.shape[0]), lambda x: x * 0.5 - (x.shape[0] - 1) * 2,
    lambda x: x * (x.shape[0] / 2), lambda x: x < x.shape[1], lambda x: x[0] * 1.5 * -x.shape[0]])
def test_sizes_are_numbers_whose_dtype_gives_way(fn, dtype):
    x = sample(dtype, (3, 4), 1, (0, 3))
    for known in (dtype, None):
        s = ec.array("s", 2, known)
        agree(ec.function([s], fn(s))(x), fn(x), 2e-3 if dtype == "float16" else 1e-6)
    s = ec.array("s", 2, dtype)
    assert fn(s).dtype == fn(x).dtype


def test_sizes_among_integers_are_int64():
    s = ec.array("s", 1, "int8")
    agree(ec.function([s], s + s.shape[0])(np.ones(300, "int8")), np.full(300, 301))


BOUND = st.none() | st.integers(-7, 7)
KEY = st.one_of(st.builds(slice, BOUND, BOUND, st.none() | st.sampled_from([-3, -2, -1, 1, 2, 3])),
                st.none(), st.integers(-2, 1), st.just(Ellipsis))


@settings(max_examples=60, deadline=None)
@given(st.lists(KEY, max_size=5).map(tuple))
def test_any_index_reads_what_numpy_reads(key):
    x = ec.tensor3("x")
    try:
        want = T[key]
    except IndexError:
        with pytest.raises(AxisError):
            x[key]
        return
    assert isinstance(x[key].node, Index)
    agree(ec.function([x], x[key] * 2)(T), want * 2)


@pytest.mark.parametrize(("product", "shapes"), [
    (np.matmul, [(3, 5), (1, 2)]), (np.matmul, [(3, 1), (5, 2)]), (np.matmul, [(2, 3, 5), (2, 1, 4)]),
    (np.dot, [(5,), (1,)]), (np.dot, [(1,), (5,)]), (np.inner, [(2, 5), (3, 1)]),
    (np.vecdot, [(2, 5), (2, 1)]), (np.tensordot, [(2, 3, 4), (3, 1)])])
def test_products_stretch_no_summed_axis(product, shapes):
    arrays = [sample("float64", s) for s in shapes]
    with pytest.raises(ValueError):
        product(*arrays)
    with pytest.raises(ShapeError, match="does not stretch"):
        ec.compile(lambda a, b: product(a, b))(*arrays)
    fitting = [np.ones([5 if n in (1, 5) else n for n in s]) for s in shapes]
    if product is np.tensordot:
        fitting[1] = np.ones((3, 4))
    np.testing.assert_allclose(ec.compile(lambda a, b: product(a, b))(*fitting), product(*fitting))


X = np.linspace(-1, 2, 20).reshape(4, 5)


@pytest.mark.parametrize(("computed", "expected"), [
    (lambda: ec.sum(X), lambda: X.sum()),
    (lambda: ec.sum(X, 0), lambda: X.sum(0)),
    (lambda: ec.sum(X[0] > 0), lambda: (X[0] > 0).sum()),
    (lambda: ec.var(X, axis=0, ddof=1), lambda: X.var(0, ddof=1)),
    (lambda: ec.max(X, axis=1, where=X < 1, initial=0), lambda: X.max(1, where=X < 1, initial=0)),
    (lambda: ec.mean([1, 2, 3]), lambda: np.mean([1, 2, 3])),
    (lambda: ec.norm(X, axis=1, ord=1), lambda: np.linalg.norm(X, 1, axis=1)),
    (lambda: ec.dot(X, X.T), lambda: X @ X.T),
    (lambda: ec.einsum("ij,kj->ik", X, X), lambda: X @ X.T),
    (lambda: ec.tensordot(X, X, axes=([1], [1])), lambda: X @ X.T),
])
def test_functions_of_numpy_arrays_compute_at_once(computed, expected):
    got, want = computed(), expected()
    assert type(got) is type(want)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-14)


Q = np.arange(64.0).reshape(4, 4, 4) / 7


@pytest.mark.parametrize("code", [
    "np.einsum('ii', q[0])", "np.einsum('ii->i', q[0])", "np.einsum('iji->j', q[:, :3])",
    "np.einsum('iji->ij', q[:, :3])", "np.einsum('iii->i', q)", "np.einsum('nii->n', q[:2])",
    "np.einsum('...ii->...i', q)", "np.einsum('iij,jj->i', q, q[1])", "np.trace(q[1])",
    "q.trace(1, 2, 0)", "q.diagonal(-1) + q[1, :, :3]", "np.diagonal(q, 2, 0, 2)",
    "q[0] / np.sqrt(np.diagonal(q[0]) + 1)[:, None]", "np.diagonal(q - q.mean(axis=1)).sum()",
    "np.diagonal(q[0].T[::-1])", "np.diagonal(q.sum(axis=0) / q.sum())",
    "np.diagonal(q[:1, :1] + q[:1, 1:2])",
])
def test_diagonals(code):
    f = eval(f"lambda q: {code}", {"np": np})
    for q in (Q, Q.T, Q[::-1, :, ::-1], Q.astype("int16")):
        got, want = ec.compile(f)(q), f(q)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-14)


def test_diagonals_are_of_squares():
    f = ec.compile(lambda x: np.diagonal(x) * 2)
    assert f(np.zeros((0, 0))).shape == (0,)
    agree(ec.diagonal(A[:, :3], 1), np.diagonal(A[:, :3], 1))
    for shape in ((3, 4), (1, 4), (4, 1)):
        with pytest.raises(ShapeError, match="size 4"):
            f(np.ones(shape))
    with pytest.raises(AxisError, match="both 1"):
        ec.diagonal(ec.matrix("x"), 0, 1, -1)


def test_dot_of_bools_is_bool():
    flags = np.array([True, True, False])
    for f in (np.vdot, np.dot, np.vecdot, np.inner):
        got = ec.compile(lambda a, b, f=f: f(a, b))(flags, flags)
        assert type(got) is np.bool_
        assert got == f(flags, flags)


def test_likes_of_numpy_arrays_compute_at_once():
    for got, want in ((ec.zeros_like(X), np.zeros_like(X)), (ec.ones_like(X, "i4"),
                      np.ones_like(X, "i4")), (ec.full_like(X, 2), np.full_like(X, 2))):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_astype_heeds_casting():
    x = ec.vector("x")
    assert x.astype("f4", casting="same_kind").dtype == np.float32
    with pytest.raises(DtypeError, match="casting='safe'"):
        x.astype("f4", casting="safe")


def test_inputs_of_one_name_are_passed_by_position():
    v, w = ec.vector("v"), ec.vector("v")
    f = ec.function([v, w], v - w)
    assert f([3.0], [1.0]) == [2.0]
    with pytest.raises(ArgumentError, match="two inputs are called v: pass them by position"):
        f(v=[3.0])
