"""NumPy's functions on symbolic arrays: values, shapes and dtypes are NumPy's; refusals name what works."""

import itertools
import re

import numpy as np
import pytest

import elemc as ec
from elemc import protocol
from elemc.close import close
from elemc.errors import (
    ArgumentError,
    AxisError,
    DtypeError,
    ElemcError,
    ShapeError,
    UnsupportedError,
)
from elemc.graph import Graph
from elemc.interp import interpret
from elemc.ops import UFUNCS

from .helpers import DTYPES, compile_together, quiet, sample

RTOL = {"float16": 4e-3, "float32": 2e-6, "complex64": 2e-6}


def agree(got, want):
    """The same dtypes, shapes and values; tuples of arrays are told apart from arrays."""
    assert isinstance(got, tuple) == isinstance(want, tuple)
    for g, w in zip(*((v if isinstance(v, tuple) else (v,)) for v in (got, want)), strict=True):
        g, w = np.asarray(g), np.asarray(w)
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        if w.dtype.kind in "biu":
            np.testing.assert_array_equal(g, w)
        else:
            rtol = RTOL.get(w.dtype.name, 1e-13)
            np.testing.assert_allclose(g, w, rtol=rtol, atol=rtol)


def function_of(text):
    """The function of the names in `text` that are operands."""
    names = [n for n in OPERANDS if re.search(rf"\b{n}\b", text)]
    return eval(f"lambda {', '.join(names)}: {text}", {"np": np}), names


# -- functions -------------------------------------------------------------------------------

OPERANDS = {"x": (3, 4), "y": (3, 4), "v": (4,), "u": (3,), "w": (5, 4), "t": (2, 3, 4), "s": ()}
TEXTS = """
np.average(x); np.average(x, axis=0); np.average(x, weights=y); np.average(x, 1, y); np.average(x, axis=1, weights=v)
np.average(x, axis=(0,), weights=u); np.average(t, axis=(1, 2), weights=x); np.average(t, axis=(2, 1), weights=x.T)
np.average(x, axis=-1, weights=[1, 2, 3, 4]); np.average(x, 0, u, returned=True); np.average(x, axis=1, returned=True)
np.average(x, axis=0, weights=u, keepdims=True); np.average(t, (0, -1), weights=y[:2]); np.average(v, weights=v)
np.nan_to_num(x); np.nan_to_num(x / y); np.nan_to_num(x / y, nan=1, posinf=7, neginf=-np.inf)
np.nan_to_num(y, nan=2.5); np.nan_to_num(np.log(x) + x / y, nan=-1.5, posinf=1e30)
np.diff(x); np.diff(x, axis=0); np.diff(x, 2); np.diff(t, n=2, axis=1); np.diff(v, 0); np.diff(u, n=np.int64(1)); np.diff(v[:1])
np.round(x, 1); np.round(x, decimals=-1); np.around(x * 7, 2); np.round(x, -3); np.round(x); x.round(1); x.round(); np.round(t, np.int8(1)); np.round(x, 0)
np.linalg.norm(x, "fro"); np.linalg.norm(t, "f", axis=(0, 2)); np.linalg.norm(x, 1); np.linalg.norm(x, np.inf)
np.linalg.norm(x, -1); np.linalg.norm(x, -np.inf, keepdims=True); np.linalg.norm(t, 1, (2, 0)); np.linalg.norm(t, 1, (0, 2))
np.linalg.norm(t, np.inf, axis=(-1, 1), keepdims=True); np.linalg.norm(x, "fro", keepdims=True)
np.linalg.matrix_norm(t); np.linalg.matrix_norm(t, ord=np.inf); np.linalg.matrix_norm(x, keepdims=True, ord="fro")
np.linalg.matmul(x, w.T); np.linalg.vecdot(x, y); np.linalg.vecdot(x, y, axis=0); np.vecdot(x, y, axis=0); np.vecdot(x, v)
np.linalg.outer(u, v); np.linalg.trace(t[:, :, 1:]); np.linalg.trace(t[:, :, :3], offset=1, dtype="float64"); np.linalg.diagonal(t[..., :3])
np.linalg.diagonal(x[:, 1:], offset=-1); np.linalg.tensordot(x, w, axes=((1,), (1,))); np.linalg.tensordot(t, x)
np.matvec(x, v); np.matvec(t, v); np.matvec(t, w[:2]); np.vecmat(u, x); np.vecmat(u, t); np.vecmat(t[0, :2, :3], t)
np.select([x > 1, x > 0], [x, y]); np.select([x > 1, v > 0], [x, 2.5], default=-1); np.select([x > 0], [3])
np.select([v > 0, u[:, None] > 0], [u[:, None], x], default=7); np.select([x > 0, np.ones(4, bool)], [1, np.float32(2)], s)
np.polyval([1, -2, 3], x); np.polyval(np.array([0.5, 2]), x); np.polyval([s, 2, s], x); np.polyval([], x); np.polyval((1.5,), v)
np.trapezoid(x); np.trapezoid(x, dx=0.5, axis=0); np.trapezoid(x, v); np.trapezoid(x, u, axis=0); np.trapezoid(t, x=x, axis=1)
np.trapezoid(v, v); np.trapezoid(x, [0, 1, 3, 7.5]); np.trapezoid(t, axis=-3); np.empty_like(x) * 0 + x
np.multiply.outer(x, v); np.add.outer(u, v); np.less.outer(s, x); np.add.outer(x, 2); np.multiply.outer(2.5, x)
np.maximum.outer(v, [1, 2]); np.add.outer(u, v, dtype="float64"); np.divmod.outer(u, v + 9)
np.atleast_1d(s); np.atleast_1d(v); np.atleast_1d(s, x); np.atleast_2d(s); np.atleast_2d(v); np.atleast_2d(x, 1)
np.atleast_3d(s); np.atleast_3d(v); np.atleast_3d(x); np.atleast_3d(t)
np.iscomplexobj(x) + x; np.isrealobj(x) + x; x.astype(np.result_type(x, np.float32)); x.astype(np.result_type(x, 2.5, v))
x.astype(np.result_type(x, x.shape[0] / 2)); np.can_cast(x, "float32") + x; np.can_cast(x, np.int8, "unsafe") + x
np.var(x, axis=0, mean=x.mean(axis=0, keepdims=True)); np.std(x, axis=1, mean=x.mean(axis=1, keepdims=True), correction=1)
np.var(x, correction=2); np.std(t, axis=(0, 2), correction=1); np.var(t, (0, 1), mean=1, keepdims=True, ddof=1)
np.var(x, axis=0, mean=2.5, where=x > -9); np.std(x, axis=1, mean=0.5, where=v > -9); np.var(x, dtype="float64", mean=1)
np.std(t, mean=t.mean(axis=None, keepdims=True)); np.tril(x); np.triu(x); np.tril(t, 1); np.triu(t, k=-1); np.tril(v); np.triu(v, 2)
np.tril(w, -2); np.triu(w, 30); np.tril(x.T, np.int64(-1)); np.triu(x[:, :1]); np.tril(x[:0]); np.broadcast_to(v, x.shape)
np.broadcast_to(s, t.shape) + 1; np.broadcast_to(x, t.shape); np.broadcast_to(x[:, :1], x.shape) * 2; np.exp(x, where=True)
np.add(x, y, casting="same_kind", order="K", subok=True); np.size(x, 1) / 2 + x; np.einsum("ij,kj", x, w, optimize=True)
np.bitwise_or.reduce(x > 0); np.bitwise_and.reduce(x > 0, axis=1); np.bitwise_or.reduce(x > 1, axis=None, keepdims=True)
np.stack([x, y]); np.stack((x, y * 2), axis=-1); np.stack([x, y, x * y], 1); np.stack([x]); np.stack([s, 2.5, s * s]); np.stack([x > 0, y])
np.stack([x, 7 * y], axis=2, dtype="float64"); np.stack([np.stack([u, u + 1]), x[:2, :3]], axis=1).sum(axis=2); np.stack([t, t + x, t[::-1]], -2)
np.vstack([v, v + 1]); np.vstack([s, s]); np.column_stack([v, 2 * v]); np.column_stack((s, s + 1)); np.dstack([x, y]); np.dstack([v, v]); np.dstack([s, 2])
np.hstack([s, 1, 2.5]); np.stack([x.max(axis=0), v, x.sum(axis=0) / 2]); np.stack([x, y[:, ::-1]], 1) * np.array([[1], [2]])
np.meshgrid(v, u); np.meshgrid(u, v, indexing="ij"); np.meshgrid(v, u, v); np.meshgrid(v); np.meshgrid(s, u); np.meshgrid(v, u, sparse=True)
np.cross(u, 2 * u[::-1]); np.cross(x, y, axis=0); np.cross(x, u, 0); np.cross(t, u, axisa=1, axisc=0); np.cross(w[:, 1:], [1, 2, 3]); np.linalg.cross(x.T, u)
np.broadcast_arrays(v, x); np.broadcast_arrays(v, u[:, None], 2); np.broadcast_arrays(x)
"""
LINES = list(filter(None, map(str.strip, TEXTS.replace(";", "\n").splitlines())))


def operands(names, dtype):
    arrays = {n: sample(dtype, OPERANDS[n], 5 + k, (-3, 3)) for k, n in enumerate(OPERANDS)}
    return [np.asarray(arrays[n]) for n in names]


@pytest.mark.parametrize("text", LINES)
def test_functions_are_numpys(text):
    fn, names = function_of(text)
    f, wanted = ec.compile(fn), []
    for dtype in ["float64", "float32", "int16", "bool"]:
        arrays = operands(names, dtype)
        try:
            wanted.append((arrays, quiet(fn, *arrays)))
        except (TypeError, ValueError):
            with pytest.raises(ElemcError):
                f(*arrays)
    compile_together((f, arrays) for arrays, _ in wanted)
    for arrays, want in wanted:
        agree(f(*arrays), want)


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize("text", [
    "np.average(x, weights=y)", "np.average(x, axis=0, weights=v[:3] * 0 + 2, returned=True)", "np.diff(x)",
    "np.linalg.norm(x, 'fro')", "np.linalg.norm(x, 1)", "np.linalg.vecdot(x, y)", "np.vecmat(u, x)", "np.matvec(x, v)",
    "np.var(x, mean=x.mean(axis=0, keepdims=True), axis=0)", "np.std(x, mean=1j, axis=1)", "np.tril(x)", "np.round(x)",
    "np.select([x.real > 0], [x], default=y)", "np.polyval([1j, 2, s], x)", "np.trapezoid(x, axis=0)",
    "np.multiply.outer(x, v)", "np.iscomplexobj(x) + x"])
def test_functions_of_complex_numbers(text, dtype):
    fn, names = function_of(text)
    arrays = operands(names, dtype)
    agree(ec.compile(fn)(*arrays), quiet(fn, *arrays))


SPECIAL_VALUES = np.array([np.nan, np.inf, -np.inf, 1e300, -1e300, -0.0, 2.675, 0.5, 1.5, -2.5, 1e-320])


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("text", [
    "np.nan_to_num(x)", "np.nan_to_num(x, nan=np.inf, posinf=np.nan)", "np.nan_to_num(x, nan=1e300)",
    "np.nan_to_num(x, nan=True, posinf=np.float64(7), neginf=np.float32(0.1))", "np.round(x, 2)", "np.round(x, -2)",
    "np.round(x, 5)", "np.round(x, 320)", "np.round(x, -320)", "np.diff(x)", "np.trapezoid(x)", "np.tril(x)", "np.linalg.norm(x, 1)"])
def test_special_values_are_numpys(text, dtype):
    fn, _ = function_of(text)
    x = quiet(SPECIAL_VALUES.astype, dtype)
    agree(ec.compile(fn)(x), quiet(fn, x))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
def test_rounding_of_integers(dtype):
    info = np.iinfo(dtype)
    x = np.array([0, 5, 15, 25, 49, 51, info.max // 2, info.min // 2], dtype)
    for decimals in (0, 1, -1, -2):
        agree(ec.compile(lambda x, d: np.round(x, d), static="d")(x, decimals), np.round(x, decimals))


@pytest.mark.parametrize("shapes", [[(3, 4), (1, 4)], [(3, 4), (3, 1)], [(3, 4), (1,)], [(3, 1), (3, 4)]])
def test_weights_of_size_one_are_stretched_or_refused(shapes):
    """NumPy refuses them all; none may be counted once."""
    a, w = (sample("float64", s, 3, (1, 2)) for s in shapes)
    f = ec.compile(lambda a, w: np.average(a, axis=0 if w.ndim > 1 else 1, weights=w))
    if shapes[0][1] == 1:
        with pytest.raises(ShapeError):
            f(a, w)
    else:
        want = np.average(a, axis=0 if w.ndim > 1 else 1, weights=np.broadcast_to(w, a.shape))
        agree(f(a, w), want)


def test_weights_that_sum_to_zero_leave_nan():
    """Where NumPy raises an error: no kernel looks at sums."""
    assert np.isnan(ec.compile(lambda x: np.average(x, weights=x - x))(np.ones(3)))


def test_questions_about_dtypes_are_answered_at_once():
    x, z = ec.vector("x", "float32"), ec.vector("z", "complex64")
    assert (np.iscomplexobj(x), np.iscomplexobj(z), np.isrealobj(x)) == (False, True, True)
    assert np.result_type(x, z) == "complex64" and np.result_type(x, np.ones(2)) == "float64"
    assert np.result_type(x, x.shape[0], 2.5) == "float32" and np.result_type(x, "i8") == "float64"
    assert np.can_cast(x, "float64") and not np.can_cast(z, "float64", casting="same_kind")


def test_order_c_aligns_what_broadcasts_and_nothing_inside():
    x, w = ec.tensor3("x"), ec.vector("w")
    data = sample("float64", (2, 3, 4), 1)
    for fn in (lambda x: np.tril(x), lambda x: np.average(x, axis=1, weights=[1, 2, 3]),
               lambda x: np.trapezoid(x, np.arange(3.0) ** 2, axis=1), lambda x: np.nan_to_num(x),
               lambda x: np.linalg.norm(x, 1, axis=(0, 2)), lambda x: np.round(x, 1)):
        agree(ec.function([x], fn(x), order="c")(data), fn(data))
    agree(ec.function([w, x], np.multiply.outer(w, x), order="c")(data[0, 0], data),
          np.multiply.outer(data[0, 0], data))


# -- dtype= of ufuncs ------------------------------------------------------------------------

LOOPS = "bool int8 uint16 int64 float16 float32 float64 complex64 complex128".split()
SECOND = (None, 1, 0.5, np.int16(1), 1j)


def ufunc_cases(fn):
    """Operands of every dtype, the second also a scalar, and a dtype=."""
    domain = (1, 3) if fn in (np.power, np.left_shift, np.right_shift) else (0.1, 0.9)
    for dtype, loop, second in itertools.product(DTYPES, LOOPS, SECOND if fn.nin == 2 else (None,)):
        arrays = [sample(dtype, 4, k, domain) for k in range(fn.nin)]
        yield (arrays if second is None else [arrays[0], second]), loop


def meaning(result, inputs, arrays):
    """What a result means, by the interpreter; a tuple for several."""
    several = result if isinstance(result, tuple) else (result,)
    values = interpret(close(Graph(tuple(i.node for i in inputs), tuple(r.node for r in several))), arrays)
    return tuple(values) if isinstance(result, tuple) else values[0]


@pytest.mark.parametrize("fn", sorted({*UFUNCS, np.divmod}, key=lambda fn: fn.__name__), ids=lambda fn: fn.__name__)
def test_dtype_chooses_numpys_loop(fn):
    """A loop of NumPy's, or an error in both."""
    for operands, loop in ufunc_cases(fn):
        symbols = [ec.array("xy"[k], 1, a.dtype) if isinstance(a, np.ndarray) else a for k, a in enumerate(operands)]
        try:
            want = quiet(lambda fn=fn, a=operands, loop=loop: fn(*a, dtype=loop))
        except TypeError:
            with pytest.raises(DtypeError, match=rf"{fn.__name__} does not exist .*dtype={loop}"):
                fn(*symbols, dtype=loop)
            continue
        got = fn(*symbols, dtype=loop)
        inputs = [s for s in symbols if isinstance(s, ec.Array)]
        agree(quiet(meaning, got, inputs, [a for a in operands if isinstance(a, np.ndarray)]), want)


@pytest.mark.parametrize("text", [
    "np.isnan(v, dtype=bool)", "np.less(v, .7, dtype=bool)", "np.add(v, v, dtype='float32')", "np.exp(v, dtype='f4')",
    "np.logical_and(v, 2, dtype=bool)", "np.matmul(x, v, dtype='float32')", "np.divide(x, 3, dtype='f4')",
    "np.vecdot(x, v, dtype='complex64')", "np.divmod(x, 2, dtype='f4')[1]", "np.equal(x, x.shape[0], dtype=bool)",
    "np.multiply(x, x.shape[0], dtype='f4')", "np.multiply.outer(u, v, dtype='f4')", "np.exp(v, dtype=None)"])
def test_dtype_in_kernels(text):
    fn, names = function_of(text)
    arrays = operands(names, "float64")
    agree(ec.compile(fn)(*arrays), fn(*arrays))


# -- ufuncs of others ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("name", "erf erfc erfinv gamma gammaln psi digamma expit logit xlogy xlog1py cbrt exp2 expm1 log1p round".split())
def test_ufuncs_of_scipy(name, dtype):
    fn = getattr(pytest.importorskip("scipy.special"), name)
    x = sample(dtype, 20, 3, (0.1, 0.9))
    got, want = ec.compile(lambda x: fn(*[x] * fn.nin))(x), quiet(fn, *[x] * fn.nin)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=2e-6 if want.dtype == "float32" else 1e-13)


class Foreign:
    """What stands for a ufunc that is not NumPy's."""

    signature = None

    def __init__(self, name, nin=1, nout=1):
        self.__name__, self.nin, self.nout = name, nin, nout

    def resolve_dtypes(self, dtypes, signature):
        return (np.exp if self.nin == 1 else np.arctan2).resolve_dtypes(dtypes, signature=signature)

    def __call__(self, *args, **named):
        return protocol.ufunc(self, "__call__", args, named)


def test_ufuncs_are_known_by_name():
    x, z = ec.vector("x", "int32"), ec.vector("z", "complex64")
    assert repr(Foreign("gammaln")(x)) == repr(ec.lgamma(x.astype("float64")))
    assert repr(Foreign("xlogy", 2)(2, x)) == repr(ec.xlogy(2, x.astype("float64")))
    assert Foreign("expit")(x).dtype == "float64"
    assert Foreign("psi")(x, dtype="float32").dtype == "float32"
    with pytest.raises(DtypeError, match="exist for operands of dtype complex64"):
        Foreign("erf")(z)
    with pytest.raises(DtypeError, match="the ufunc erf does not exist .* complex64 and dtype=float32"):
        Foreign("erf")(z, dtype="float32")
    with pytest.raises(DtypeError, match="the ufunc erf: .* not known yet"):
        Foreign("erf")(ec.vector("x", None))


@pytest.mark.parametrize(("fn", "words"), [
    (Foreign("erfcx"), "no counterpart of the ufunc erfcx"), (Foreign("erf", 2), "the ufunc erf"),
    (Foreign("erf", 1, 2), "the ufunc erf"), (Foreign("gelu"), "the ufunc gelu"), (Foreign("add", 2), "the ufunc add"),
    (np.frompyfunc(abs, 1, 1), "the ufunc abs .vectorized")], ids=lambda case: getattr(case, "__name__", ""))
def test_ufuncs_of_others_are_not_numpys(fn, words):
    """A user's own `gelu` need not be elemc's."""
    with pytest.raises(UnsupportedError, match=words) as caught:
        fn(*[ec.vector("x")] * fn.nin)
    assert "np." not in str(caught.value)


# -- what is refused -------------------------------------------------------------------------

X, V, U = ec.matrix("X"), ec.vector("V"), ec.vector("U", None)
K, Z = ec.array("K", 2, "int32"), ec.array("Z", 2, "complex128")
REFUSED = [
    ("np.where(X)", UnsupportedError, "np.where(condition, x, y)"), ("np.where(X > 0)", UnsupportedError, "count_nonzero"),
    ("np.where(X, V)", UnsupportedError, "selects"), ("np.gradient(X)", UnsupportedError, "(x[2:] - x[:-2]) / 2"),
    ("np.modf(X)", UnsupportedError, "trunc(x)"), ("np.frexp(X)", UnsupportedError, "log2"),
    ("np.searchsorted(V, X)", UnsupportedError, "sum(edges < x[..., None], axis=-1)"), ("np.isin(X, [1])", UnsupportedError, "any("),
    ("np.rot90(X)", UnsupportedError, "flip(swapaxes(x, 0, 1), 0)"), ("np.kron(X, X)", UnsupportedError, "x[:, None, :, None]"),
    ("np.hstack([X, X])", UnsupportedError, "several outputs"), ("np.vstack([X, X])", UnsupportedError, "several outputs"),
    ("np.dstack([X[None], X[None]])", UnsupportedError, "out="), ("np.column_stack([X, V])", UnsupportedError, "out="),
    ("np.split(X, 2)", UnsupportedError, "x[:k]"), ("np.hstack([V, V])", UnsupportedError, "np.stack"),
    ("np.cov(X)", UnsupportedError, "d @ d.T"), ("np.corrcoef(X)", UnsupportedError, "diagonal"),
    ("np.percentile(X, 5)", UnsupportedError, "sort the arrays outside"), ("np.quantile(X, .5)", UnsupportedError, "max and min"),
    ("np.unique(X)", UnsupportedError, "count_nonzero"), ("np.convolve(V, [1, 2])", UnsupportedError, "w[0] * x[2:]"),
    ("np.correlate(V, V)", UnsupportedError, "slices"), ("np.dot([V, V], V)", UnsupportedError, "several outputs"),
    ("np.inner(V, [V])", UnsupportedError, "np.stack of them"),
    ("np.linalg.svd(X)", UnsupportedError, "numpy.linalg"),
    ("np.linalg.norm(X, 2)", UnsupportedError, "'fro'"), ("np.linalg.norm(X, 'nuc')", UnsupportedError, "ord='nuc'"), ("np.linalg.norm(X[None], None, (0, 1, 2))", UnsupportedError, "3 axes"),
    ("np.linalg.norm(V, 'fro')", ArgumentError, "ord= is a number"), ("np.linalg.norm(X, 1, (0, 0))", AxisError, "twice"),
    ("np.linalg.norm(X, 1, (0, 2))", AxisError, "axis 2"), ("np.outer(X, X)", UnsupportedError, "None"),
    ("np.linalg.outer(X, X)", UnsupportedError, "None"), ("np.matvec(V, V)", ShapeError, "rank 1"), ("np.vecmat(V, V)", ShapeError, "matrix"),
    ("np.broadcast_to(V, (3, 5))", UnsupportedError, "expand_to"), ("np.broadcast_to(V, 5)", UnsupportedError, "y.shape"),
    ("np.broadcast_to(V, X.shape[1:])", UnsupportedError, "expand_to"), ("np.broadcast_to(X, V.shape)", ShapeError, "rank 2"),
    ("np.broadcast_to(V, (X.shape[0], 3))", UnsupportedError, "expand_to"),
    ("np.average(X, weights=V)", ShapeError, "axis="), ("np.average(X, (0, 1), V)", ShapeError, "rank 1"),
    ("np.average(V, weights=X)", ShapeError, "rank"), ("np.average(U, weights=V)", DtypeError, "not known yet"),
    ("np.nan_to_num(Z)", UnsupportedError, "x.real"), ("np.nan_to_num(X, copy=False)", UnsupportedError, "use the result"),
    ("np.nan_to_num(X, nan=1j)", DtypeError, "float64"), ("np.nan_to_num(U)", DtypeError, "not known yet"),
    ("np.diff(X, -1)", ArgumentError, "-1"), ("np.diff(X, axis=2)", AxisError, "axis 2"), ("np.diff(X, prepend=0)", UnsupportedError, "prepend"),
    ("np.diff(X, n=X)", UnsupportedError, "constant integer"), ("np.round(Z, 1)", UnsupportedError, "x.real"),
    ("np.round(X > 0, 1)", UnsupportedError, "bool"), ("np.round(U, 1)", DtypeError, "not known yet"),
    ("np.round(X, V)", UnsupportedError, "static="), ("np.select([X], [X])", DtypeError, "bools"),
    ("np.select([X > 0], [X, X])", ArgumentError, "2 choices"), ("np.select([X > 0, X > 1], [X])", ArgumentError, "1 choices"),
    ("np.select([X > 0], [U])", DtypeError, "not known yet"), ("np.polyval(V, X)", UnsupportedError, "Horner"),
    ("np.tril(X[0, 0])", AxisError, "rank 0"), ("np.triu(X, V)", UnsupportedError, "constant integer"), ("np.tril(U)", DtypeError, "not known"),
    ("np.var(X, ddof=1, correction=2)", (ArgumentError, ValueError), "ddof"), ("np.var(U, mean=0)", DtypeError, "mean="),
    ("np.result_type(U, X)", DtypeError, "not known yet"), ("np.iscomplexobj(U)", DtypeError, "not known yet"),
    ("np.add(U, X, dtype='f4')", DtypeError, "not known yet"), ("np.isnan(X, dtype='f4')", DtypeError, "dtype=float32"),
    ("np.add(X, X, dtype=int)", DtypeError, "np.add does not exist for operands of dtype float64, float64 and dtype=int64"),
    ("np.add(X, X, dtype=object)", DtypeError, "no dtype object"), ("np.add(X, X, dtype='nonsense')", DtypeError, "nonsense"),
    ("np.add(X, X, casting='unsafe')", UnsupportedError, "casting="), ("np.add(X, X, casting='safe')", UnsupportedError, "same_kind"),
    ("np.add(X, X, signature='dd->d')", UnsupportedError, "signature="), ("np.exp(X, where=X > 0)", UnsupportedError, "where="),
    ("np.exp(X, where=np.ones(3, bool))", UnsupportedError, "where="), ("np.exp(X, out=np.ones(3))", UnsupportedError, "out="),
    ("np.exp(X, order='F')", UnsupportedError, "order="), ("np.matmul(X, X, axes=[(0, 1)] * 3)", UnsupportedError, "axes="),
    ("np.bitwise_or.reduce(K)", UnsupportedError, "identity=0"), ("np.bitwise_xor.reduce(X > 0)", UnsupportedError, "a ^ v"),
    ("np.bitwise_and.reduce(K, axis=1)", UnsupportedError, "identity=-1"), ("np.bitwise_or.reduce(X > 0, dtype=int)", UnsupportedError, "Accumulator"),
    ("np.hypot.reduce(X)", UnsupportedError, "Accumulator of your own"),
    ("np.add.reduceat(X, [0])", UnsupportedError, "reduceat"),
    ("np.heaviside.outer(X, U, dtype='f4')", DtypeError, "not known yet"),
    ("np.array_equal(X, X)", UnsupportedError, "all(x == y)"), ("np.interp(V, V, V)", UnsupportedError, "where"),
    ("np.bincount(K)", UnsupportedError, "sum("), ("np.digitize(V, V)", UnsupportedError, "edges <="), ("np.diag(X)", UnsupportedError, "np.diagonal"),
]


@pytest.mark.parametrize(("text", "error", "words"), REFUSED, ids=[case[0] for case in REFUSED])
def test_refusals_name_what_works(text, error, words):
    with pytest.raises(error) as caught:
        eval(text)
    said = str(caught.value)
    assert words in said or re.search(words, said)
    assert "np.np" not in said


@pytest.mark.parametrize("sign", ["|", "&", "^"])
def test_the_accumulator_that_a_refusal_names_works(sign):
    name = {"|": "or", "&": "and", "^": "xor"}[sign]
    fn = getattr(np, f"bitwise_{name}")
    with pytest.raises(UnsupportedError) as caught:
        fn.reduce(K)
    text = re.search(r"elemc\.accumulate\(.*axis=0\)", str(caught.value)).group()
    data = sample("int32", (5, 4), 2)
    agree(ec.function([K], eval(text, {"elemc": ec, "x": K}))(data), fn.reduce(data))


HINTS = [
    ("np.rot90(x)", "np.flip(np.swapaxes(x, 0, 1), 0)"), ("np.isin(x, [0.5, 2])", "np.any(x[..., None] == [0.5, 2], axis=-1)"),
    ("np.searchsorted([-1, 0, 2], x)", "np.sum([-1, 0, 2] < x[..., None], axis=-1)"), ("np.diag(v)", "np.where(i[:, None] == i, v, 0)"),
    ("np.digitize(x, [-1, 0, 2])", "np.sum([-1, 0, 2] <= x[..., None], axis=-1)"), ("np.tri(3, 4)", "np.tril(np.ones_like(x))"),
    ("np.convolve(v, [1, 2, 5], 'valid')", "1 * v[2:] + 2 * v[1:-1] + 5 * v[:-2]"), ("np.gradient(v)[1:-1]", "(v[2:] - v[:-2]) / 2"),
    ("np.correlate(v, [1, 2, 5])", "1 * v[:-2] + 2 * v[1:-1] + 5 * v[2:]"), ("np.cov(x)", "d @ d.T / 3"),
    ("np.kron(x, x).reshape(3, 3, 4, 4)", "x[:, None, :, None] * x[None, :, None, :]"), ("np.modf(x)", "(x - np.trunc(x), np.trunc(x))"),
]


@pytest.mark.parametrize(("numpys", "instead"), HINTS, ids=[case[0] for case in HINTS])
def test_what_refusals_name_is_right(numpys, instead):
    data = dict(zip("xv", operands("xv", "float64"), strict=True))

    def made(x, v):
        names = {"x": x, "v": v, "i": ec.arange(v.shape[0]), "d": x - np.mean(x, axis=1, keepdims=True), "np": np}
        return eval(instead, names)

    agree(ec.compile(made)(**data), eval(numpys, {"np": np, **data}))


@pytest.mark.parametrize(("code", "dtypes"), [
    ("a += b", ("float32", "float64")), ("a += b", ("int8", "int64")), ("a *= 2.5", ("float32", None)),
    ("a //= b", ("int16", "int8")), ("a **= 2", ("float64", None)), ("a &= b", ("uint8", "uint8")),
    ("a += 0.5", ("int32", None)), ("a /= 3", ("int32", None)), ("a -= b", ("float32", "complex64")),
])
def test_in_place_operators_keep_the_dtype(code, dtypes):
    def f(a, b):
        names = {"a": a.copy(), "b": b}
        exec(code, {}, names)
        return names["a"]

    a = np.arange(1, 7).astype(dtypes[0])
    b = np.arange(2, 8).astype(dtypes[1] or dtypes[0])
    try:
        want = f(a, b)
    except TypeError:
        with pytest.raises(DtypeError, match="does not become"):
            ec.compile(f)(a, b)
        return
    got = ec.compile(f)(a, b)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_in_place_operators_keep_the_rank():
    with pytest.raises(ShapeError, match="rank 2 does not fit one of rank 1"):
        v = ec.vector("v")
        v += ec.matrix("m")
