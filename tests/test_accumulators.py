"""Every accumulator over dtypes, axes, layouts and sizes against NumPy; accumulators of users."""

import itertools

import numpy as np
import pytest
import scipy.special

import elemc as ec
from elemc import accumulators_docs
from elemc.accumulators import ACCUMULATORS, FOLDS
from elemc.errors import ArgumentError, AxisError, ElemcError, ShapeError
from elemc.ops import OPS

from .helpers import DTYPES, assert_same_bits, compile_together, layouts, quiet

AXES = [None, 0, -1, 1, (0, 2), (1, -1), (0, 1, 2)]
SIZES = [1, 2, 3, 4, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 511, 512, 513,
         1023, 1024, 1025, 4095, 4096, 4097]
NORMS = {"norm": 2, "norm1": 1, "norm2": 2, "norminf": np.inf}


def data(dtype, shape, seed=0):
    """Values whose products neither overflow nor vanish, with some zeros and ties."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.6
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -9, 10, shape).astype(dtype)
    values = rng.choice([-1.25, -1, -0.75, 0.5, 0.875, 1, 1.5, 2], shape) + rng.normal(0, .01, shape)
    if dtype.kind == "c":
        values = values + 1j * rng.normal(size=shape)
    return values.astype(dtype)


def each_over(name, x, axis, **options):
    """The rows that `axis` folds, as the last axis, for functions that know one axis only."""
    axes = tuple(range(x.ndim)) if axis is None else tuple(
        a % x.ndim for a in (axis if isinstance(axis, tuple) else (axis,)))
    kept = [a for a in range(x.ndim) if a not in axes]
    return x.transpose((*kept, *sorted(axes))).reshape(*(x.shape[a] for a in kept), -1)


def numpy_says(name, x, axis=None, **options):
    """What NumPy (SciPy for logsumexp) says, and the dtype of its result."""
    if name in NORMS:
        rows = each_over(name, x, axis)
        rows = rows.astype(float) if rows.dtype.kind in "biu" else rows
        return np.linalg.norm(rows, NORMS[name] if name != "norm" else options.get("ord", 2), axis=-1)
    if name == "logsumexp":
        rows = each_over(name, x, axis)
        return scipy.special.logsumexp(rows.astype(float) if rows.dtype.kind in "biu" else rows, axis=-1)
    if name in ("fmin", "fmax"):
        return getattr(np, name).reduce(x, axis=axis, **options)
    if name.removeprefix("nan") in ("argmin", "argmax", "count_nonzero"):
        return np.asarray(getattr(np, name)(each_over(name, x, axis), axis=-1, **options))
    return getattr(np, name)(x, axis=axis, **options)


def wide(x):
    """`x` in the widest floating dtype of its kind."""
    return x.astype({"c": np.clongdouble, "f": np.longdouble}.get(x.dtype.kind, x.dtype))


def check(name, x, got, axis=None, **options):
    """Exact where no rounding is involved, else to a few roundings of the largest term."""
    expected = np.asarray(quiet(lambda: numpy_says(name, x, axis, **options)))
    got = np.asarray(got)
    assert got.shape == expected.shape
    if name not in (*NORMS, "logsumexp") or x.dtype.kind in "biu":
        assert got.dtype == expected.dtype
    else:
        assert got.dtype == np.zeros(0, x.dtype).real.dtype or name == "logsumexp"
    if got.dtype.kind in "biu" or name in ("min", "max", "fmin", "fmax", "nanmin", "nanmax"):
        np.testing.assert_array_equal(got, expected)
        return
    eps = np.finfo(got.dtype).eps
    n = max(1, x.size // max(1, expected.size))
    values = x if x.dtype.kind in "fc" else x.astype(float)
    exact = wide(values) if name not in (*NORMS, "logsumexp") else values.astype(
        np.complex128 if x.dtype.kind == "c" else np.float64)
    exact_options = {k: v for k, v in options.items() if k != "dtype"}
    want = np.asarray(quiet(lambda: numpy_says(name, exact, axis, **exact_options)))
    known = ~np.isnan(exact)
    largest = float(np.max(np.abs(exact), initial=1, where=known & np.isfinite(exact)))
    scale = largest * n if name.endswith("sum") else largest**2 if "var" in name else largest
    room = eps * (8 + 2 * np.log2(n + 1)) * scale
    if "prod" in name:
        room = 2 * n * eps * np.abs(want)
    with np.errstate(all="ignore"):
        near = np.abs(got - want) <= room + 4 * eps * np.abs(want)
        same = near | (got == want.astype(got.dtype)) | (np.isnan(got) & np.isnan(want))
    assert np.all(same), (name, axis, got, want)


def fold(name, dtype, ndim, axis, keepdims=False, **options):
    x = ec.array("x", ndim, dtype)
    return ec.function([x], ec.accumulate(name, x, axis, keepdims, **options), name=name)


def exists(name, dtype):
    """Whether NumPy has this reduction for this dtype."""
    try:
        quiet(lambda: numpy_says(name, data(dtype, (2, 2)), 0))
    except TypeError:
        return False
    return True


@pytest.mark.parametrize("name", ACCUMULATORS)
def test_every_dtype(name):
    """Each dtype with one axis, each axis with some dtype, keepdims with every other one."""
    made = []
    for k, dtype in enumerate(DTYPES):
        axis = AXES[(k + len(name)) % len(AXES)]
        if exists(name, dtype):
            x = data(dtype, (5, 9, 6), k)
            made += [(fold(name, dtype, 3, axis, kept), x, axis, kept) for kept in [False, True][:1 + (k % 6 == 3)]]
    compile_together((f, [x]) for f, x, *_ in made)
    for f, x, axis, kept in made:
        got, shape = f(x), np.sum(x, axis=axis).shape
        assert got.shape == (np.sum(x, axis=axis, keepdims=True).shape if kept else shape)
        check(name, x, got.reshape(shape), axis)


GROUPS = [("sum", "prod", "max", "all"), ("argmin", "norm1"), ("mean", "var"), ("logsumexp", "nanmean")]


@pytest.mark.parametrize("names", GROUPS, ids=" ".join)
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
def test_layouts(names, axis):
    """The value is the same however the array lies in memory; several folds share a kernel."""
    v = ec.array("x", 3, "float32")
    f = ec.function([v], [ec.accumulate(n, v, axis) for n in names])
    for shape in [(4, 33, 17), (3, 1, 5)]:
        x = data("float32", shape, 3)
        arrays = [a for _, a in layouts(x)]
        arrays.append(np.ascontiguousarray(x.transpose(2, 0, 1)).transpose(1, 2, 0))
        for array in arrays if shape[1] > 1 else arrays[:3]:
            for name, got in zip(names, f(array), strict=True):
                check(name, x, got, axis)
    same = np.broadcast_to(x[:, :1], (3, 20, 5))
    for name, got in zip(names, f(same), strict=True):
        check(name, same, got, axis)


@pytest.mark.parametrize("name", ["sum", "max", "argmax", "any", "std", "logsumexp", "prod"])
def test_sizes(name):
    """Lanes, blocks and strips end anywhere."""
    f = fold(name, "float64", 1, 0)
    g = [fold(name, "float64", 2, axis) for axis in (0, 1, None)]
    for n in SIZES:
        x = data("float64", n, n)
        check(name, x, f(x), 0)
        check(name, x[::-1], f(x[::-1]), 0)
    for n in SIZES[:16] + [1023, 1025]:
        for shape in [(n, 3), (3, n), (n, 1), (1, n)]:
            x = data("float64", shape, n)
            for axis, h in zip((0, 1, None), g, strict=True):
                check(name, x, h(x), axis)


@pytest.mark.parametrize("name", ACCUMULATORS)
def test_empty_axes(name):
    """Empty axes give what NumPy gives: an error where there is no identity."""
    f = fold(name, "float64", 2, 1)
    for shape in [(3, 0), (0, 4), (0, 0)]:
        x = np.zeros(shape)
        if shape[1] == 0 and name in NO_IDENTITY:
            with pytest.raises(ValueError, match="size|empty|identity"):
                quiet(lambda x=x: getattr(np, name.replace("fm", "m"))(x, 1))
            with pytest.raises(ShapeError, match="size 0"):
                f(x)
            continue
        got = f(x)
        assert got.shape == shape[:1]
        want = {"norminf": 0.0, "logsumexp": -np.inf}.get(name)
        if want is None and shape[0]:
            want = quiet(lambda x=x: numpy_says(name, x, 1))
        np.testing.assert_array_equal(got, np.full(shape[0], want) if np.ndim(want) == 0 else want)


NO_IDENTITY = ("min max fmin fmax argmin argmax nanmin nanmax nanargmin nanargmax ptp").split()


@pytest.mark.parametrize("name", ACCUMULATORS)
def test_nan_and_infinities(name):
    """NaNs and infinities anywhere, also in the tails of vector loops."""
    f = fold(name, "float64", 2, 1)
    rows = []
    for at, value in itertools.product((0, 3, 16, 18), (np.nan, np.inf, -np.inf, -0.0)):
        row = data("float64", 19, at)
        row[at] = value
        rows.append(row)
        rows.append(np.where(np.arange(19) == 5, np.nan, row))
        rows.append(np.where(np.arange(19) == 7, -np.inf, row))
    if name.startswith("nanarg"):
        with pytest.raises(ec.DomainError, match="All-NaN slice"):
            f(np.array([rows[0], np.full(19, np.nan)]))
    else:
        rows += [np.full(19, v) for v in (np.nan, np.inf, -np.inf, -0.0, 0.0)]
    x = np.array(rows)
    got = f(x)
    if name == "logsumexp":
        want = quiet(lambda: np.logaddexp.reduce(x, axis=1))
    elif name in NORMS:
        want = quiet(lambda: np.linalg.norm(x, NORMS[name], axis=1))
    else:
        want = quiet(lambda: numpy_says(name, x, 1))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)
    if name not in ("mean", "nanmean"):
        zero = (want == 0) & (got == 0) if want.dtype.kind == "f" else np.zeros(len(x), bool)
        if name in ("sum", "prod"):
            np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if np.dtype(d).kind in "iu"])
def test_integers_wrap(dtype):
    """Sums and products wrap in the dtype that NumPy chooses; extremes survive."""
    info = np.iinfo(dtype)
    x = np.array([info.max, info.max, info.min, 3, info.max, info.max - 1] * 7, dtype)
    v = ec.array("x", 1, dtype)
    names = ["sum", "prod", "min", "max", "argmin", "argmax", "ptp", "mean"]
    got = ec.function([v], [getattr(ec, n)(v) for n in names])(x)
    for name, value in zip(names, got, strict=True):
        want = quiet(lambda name=name: getattr(np, name)(x))
        assert value.dtype == want.dtype
        if name == "mean":
            np.testing.assert_allclose(value, want, rtol=1e-15)
        else:
            assert value == want, name


def test_dtype_option():
    x = data("int8", (6, 40), 1)
    v = ec.array("x", 2, "int8")
    f = ec.function([v], [v.sum(axis=1, dtype="int16"), v.mean(axis=1, dtype="float32"),
                          v.prod(axis=0, dtype="float64"), v.var(axis=0, dtype="float32"),
                          v.std(axis=1, dtype="float64", ddof=1), v.sum(dtype="complex64")])
    want = (x.sum(axis=1, dtype="int16"), x.mean(axis=1, dtype="float32"),
            x.prod(axis=0, dtype="float64"), x.var(axis=0, dtype="float32"),
            x.std(axis=1, dtype="float64", ddof=1), x.sum(dtype="complex64"))
    for g, w in zip(f(x), want, strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=2e-6)


def test_ddof():
    x = data("float64", (5, 8), 2)
    v = ec.matrix("x")
    f = ec.function([v], [getattr(ec, n)(v, axis=1, ddof=d) for n in ("var", "std", "nanvar", "nanstd")
                          for d in (0, 1, 8, 9)])
    x[1, 3] = np.nan
    got = iter(f(x))
    for n, d in itertools.product(("var", "std", "nanvar", "nanstd"), (0, 1, 8, 9)):
        np.testing.assert_allclose(next(got), quiet(lambda n=n, d=d: getattr(np, n)(x, axis=1, ddof=d)),
                                   rtol=1e-12, err_msg=f"{n} ddof={d}")


def test_initial_and_where():
    x = data("float64", (7, 20), 4)
    mask = np.random.default_rng(1).random((7, 20)) < 0.5
    mask[2] = False
    v, m = ec.matrix("x"), ec.array("m", 2, "bool")
    cases = [("sum", {"initial": 2.5}), ("prod", {"initial": -3}), ("max", {"initial": 1.6}),
             ("min", {"initial": 9.0}), ("max", {"initial": -9.0}), ("sum", {}),
             ("nansum", {"initial": 2.5}), ("nanmax", {"initial": 1.6})]
    for axis in (0, 1, None):
        plain = ec.function([v], [getattr(ec, n)(v, axis=axis, **o) for n, o in cases])
        for (n, o), got in zip(cases, plain(x), strict=True):
            np.testing.assert_allclose(got, getattr(np, n)(x, axis=axis, **o), rtol=1e-13)
        where = ec.function([v, m], [getattr(ec, n)(v, axis=axis, where=m, **o) for n, o in cases])
        for (n, o), got in zip(cases, where(x, mask), strict=True):
            want = getattr(np, n)(x, axis=axis, where=mask, **o)
            np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-14)
        more = ["any", "all", "mean", "var", "std"]
        some = ec.function([v, m], [getattr(ec, n)(v, axis=axis, where=m) for n in more])
        for n, got in zip(more, some(x, mask), strict=True):
            want = quiet(lambda n=n, axis=axis: getattr(np, n)(x, axis=axis, where=mask))
            np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-14, err_msg=n)
    line = ec.array("m", 1, "bool")
    stretched = ec.function([v, line], v.sum(axis=0, where=line))
    np.testing.assert_allclose(stretched(x, mask[0]), x.sum(axis=0, where=mask[0]))
    with pytest.raises(ArgumentError, match="identity"):
        ec.function([v, m], v.max(where=m))
    for name in ("mean", WELFORD):
        with pytest.raises(ArgumentError, match="initial"):
            ec.function([v], ec.accumulate(name, v, initial=1.0))
    assert ec.function([v], v.max(axis=1, initial=0.0))(np.zeros((2, 0))).tolist() == [0, 0]


def test_wrong_arguments():
    v = ec.matrix("x")
    with pytest.raises(AxisError, match="2"):
        v.sum(axis=2)
    with pytest.raises(AxisError, match="twice"):
        v.sum(axis=(0, -2))
    with pytest.raises(ArgumentError, match="no accumulator 'total'"):
        ec.accumulate("total", v)
    with pytest.raises(ElemcError, match="option"):
        ec.function([v], ec.accumulate("sum", v, speed=1))


@pytest.mark.parametrize("shape", [(10_000_000,), (2500, 4000)])
@pytest.mark.parametrize("kind", ["uniform", "cancelling", "ramp"])
def test_large_sums_are_blocked(shape, kind):
    """The error of a sum of ten million float32 is far below 1e-6 of the sum of magnitudes."""
    rng = np.random.default_rng(7)
    x = rng.random(shape, np.float32)
    if kind == "cancelling":
        x[..., 1::2] = -x[..., ::2]
        x += np.float32(1e-4) * rng.random(shape, np.float32)
        x[::2] *= 1000
    elif kind == "ramp":
        x = np.linspace(0, 1, x.size, dtype=np.float32).reshape(shape)
    v = ec.array("x", len(shape), "float32")
    axes = [None] if len(shape) == 1 else [None, 0, 1]
    for axis in axes:
        f = ec.function([v], v.sum(axis=axis))
        for array in (x, x[..., ::-1], np.asfortranarray(x), x[..., ::3]):
            exact = array.sum(axis=axis, dtype=np.float64)
            size = np.abs(array).sum(axis=axis, dtype=np.float64)
            assert np.all(np.abs(f(array) - exact) <= 1e-6 * size)


def test_long_thin_sums():
    """Sums along a long axis that is not the innermost are blocked too."""
    x = np.random.default_rng(1).random((3_000_000, 3), np.float32) + np.float32(1)
    v = ec.array("x", 2, "float32")
    f, g = ec.function([v], v.sum(axis=0)), ec.function([v], v.sum(axis=1))
    exact = x.sum(axis=0, dtype=np.float64)
    np.testing.assert_allclose(f(x), exact, rtol=1e-6)
    np.testing.assert_allclose(f(np.asfortranarray(x)), exact, rtol=1e-6)
    np.testing.assert_allclose(g(np.ascontiguousarray(x.T).T[:, ::-1]), x.sum(axis=1), rtol=1e-6)


def test_half_precision_is_summed_in_float32():
    x = np.full(5000, 0.5, np.float16)
    v = ec.array("x", 1, "float16")
    total, mean, top = ec.function([v], [v.sum(), v.mean(), v.max()])(x)
    assert (total, mean, top) == (2500, 0.5, 0.5)
    assert {r.dtype for r in (total, mean, top)} == {np.dtype(np.float16)}


def test_logsumexp_is_stable():
    x = np.array([[1000.0, 1000.0], [-1000.0, -1000.0], [-np.inf, -np.inf], [np.inf, 1.0],
                  [0.0, 1e-300], [710.0, -710.0]])
    v = ec.matrix("x")
    got = ec.function([v], ec.logsumexp(v, axis=1))(x)
    np.testing.assert_allclose(got, scipy.special.logsumexp(x, axis=1), rtol=1e-15)


def test_norms():
    x = data("float64", (4, 30), 5)
    v = ec.matrix("x")
    orders = [0, 1, 2, 3, 0.5, np.inf, -np.inf]
    got = ec.function([v], [ec.norm(v, axis=1, ord=o) for o in orders])(x)
    for o, g in zip(orders, got, strict=True):
        np.testing.assert_allclose(g, np.linalg.norm(x, o, axis=1), rtol=1e-13)
    np.testing.assert_allclose(ec.function([v], np.linalg.norm(v))(x), np.linalg.norm(x))
    z = data("complex64", 33, 1)
    c = ec.array("z", 1, "complex64")
    np.testing.assert_allclose(ec.function([c], ec.norm(c))(z), np.linalg.norm(z), rtol=1e-6)


# -- accumulators of users ---------------------------------------------------------------------


def welford(n, mean, m2, v):
    n = n + 1.0
    apart = v - mean
    mean = mean + apart / n
    return n, mean, m2 + apart * (v - mean)


def chan(n, mean, m2, n2, mean2, m22):
    total, apart = n + n2, mean2 - mean
    share = np.where(total == 0, 0.0, n2 / np.maximum(total, 1.0))
    return total, mean + apart * share, m2 + m22 + apart * apart * n * share


WELFORD = ec.Accumulator("welford", (0.0, 0.0, 0.0), welford, finish=lambda n, m, s: s / n)
CHAN = ec.Accumulator("chan", (0.0, 0.0, 0.0), welford, finish=lambda n, m, s: s / n, merge=chan,
                      commutative=True)
HORNER = ec.Accumulator("horner", 0.0, lambda a, v: a * 0.5 + v)
LAST = ec.Accumulator("last", None, lambda a, v: v)
PLACE = ec.Accumulator("place", -1, lambda a, v, k: np.where(v > 0, k, a), index=True)
SPAN = ec.Accumulator("span", None, lambda lo, hi, v: (np.minimum(lo, v), np.maximum(hi, v)),
                      start=lambda v: (v, v), finish=lambda lo, hi: hi - lo)
LSE = ec.Accumulator("lse", -np.inf, lambda a, v: np.logaddexp(a, v))
JOIN = ec.Accumulator("join", 0, lambda a, v: a * 3 + v, dtype=np.int64)


def left_fold(x, axes, start, step, finish=lambda s: s):
    """A left fold in C order of the reduced axes, by Python."""
    axes = tuple(range(x.ndim)) if axes is None else axes
    kept = [a for a in range(x.ndim) if a not in axes]
    rows = x.transpose((*kept, *axes)).reshape(*(x.shape[a] for a in kept), -1)
    out = np.empty(rows.shape[:-1])
    for at in np.ndindex(out.shape):
        state, values = start, list(rows[at])
        if start is None:
            state, values = values[0], values[1:]
        for k, v in enumerate(values):
            state = step(state, v, k)
        out[at] = finish(state)
    return out


@pytest.mark.parametrize("axis", [None, (0,), (1,), (2,), (0, 2), (0, 1), (1, 2)])
def test_user_folds_run_in_c_order_in_every_layout(axis):
    x = np.random.default_rng(0).normal(size=(3, 5, 4))
    v = ec.tensor3("x")
    f = ec.function([v], [ec.accumulate(a, v, axis=axis) for a in (HORNER, LAST, PLACE)])
    wants = (left_fold(x, axis, 0.0, lambda a, v, k: a * 0.5 + v), left_fold(x, axis, None, lambda a, v, k: v),
             left_fold(x, axis, -1, lambda a, v, k: k if v > 0 else a))
    for name, array in layouts(x):
        for got, want in zip(f(array), wants, strict=True):
            np.testing.assert_array_equal(got, want, err_msg=name)


@pytest.mark.parametrize("acc", [WELFORD, CHAN], ids=str)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_states_of_several_values(acc, axis):
    x = np.random.default_rng(0).normal(1e3, 1, (37, 41))
    v = ec.matrix("x")
    f = ec.function([v], ec.accumulate(acc, v, axis=axis))
    for _, array in layouts(x):
        np.testing.assert_allclose(f(array), x.var(axis=axis), rtol=1e-9)


def test_more_user_accumulators():
    x = np.random.default_rng(3).normal(size=(6, 50))
    v = ec.matrix("x")
    f = ec.function([v], [ec.accumulate(SPAN, v, axis=1), ec.accumulate(LSE, v, axis=0),
                          ec.accumulate(LSE, v, axis=0, keepdims=True) + v])
    span, lse, kept = f(x)
    np.testing.assert_allclose(span, np.ptp(x, axis=1))
    np.testing.assert_allclose(lse, scipy.special.logsumexp(x, axis=0), rtol=1e-13)
    np.testing.assert_allclose(kept, lse + x, rtol=1e-15)
    with pytest.raises(ShapeError, match="span"):
        f(np.zeros((6, 0)))
    digits = np.array([[1, 2, 0], [2, 2, 1]], np.int8)
    i = ec.array("i", 2, "int8")
    got = ec.function([i], ec.accumulate(JOIN, i, axis=1))(digits)
    assert_same_bits(got, np.array([15, 25]))


NAMED = ["int */ for", "", "*/\n", "i", "n", "x", "x_s", "x0", "3x", "row", "elemc_exp", "a\\", "{0}", "/*", "\u00e9"]


@pytest.mark.parametrize("name", NAMED)
def test_names_of_user_accumulators_are_harmless(name):
    both = {"commutative": True}
    total = ec.Accumulator(name, 0.0, np.add, merge=np.add, **both)
    product = ec.Accumulator(name, 1.0, np.multiply, merge=np.multiply, **both)  # of the same name
    mean = ec.Accumulator(name, (0.0, 0), lambda a, n, v: (a + v, n + 1), lambda a, n: a / n)
    x, values = ec.matrix("x"), data("float64", (70, 40))
    f = ec.function([x], [ec.accumulate(acc, x, axis) for acc in (total, product, mean)
                          for axis in (0, 1)], name=name or "f")
    wants = [fn(values, axis=axis) for fn in (np.sum, np.prod, np.mean) for axis in (0, 1)]
    for got, want in zip(f(values), wants, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_associative_merges_keep_the_order():
    """2x2 integer matrices multiply associatively, not commutatively."""
    def combine(a, b, c, d, v):
        return a + b * v, a, c + d * v, c

    def merge(a, b, c, d, e, f, g, h):
        return a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h

    acc = ec.Accumulator("matrices", (1, 0, 0, 1), combine, finish=lambda a, b, c, d: a * 7 + b,
                         merge=merge, dtype=np.int64)
    x = np.random.default_rng(0).integers(-2, 3, (4, 3000))
    v = ec.array("x", 2, "int64")
    f = ec.function([v], ec.accumulate(acc, v, axis=1))
    want = []
    for row in x:
        m = np.eye(2, dtype=np.int64)
        for n in row:
            m = m @ np.array([[1, 1], [n, 0]], np.int64)
        want.append(m[0, 0] * 7 + m[0, 1])
    assert_same_bits(f(x), np.array(want))


@pytest.mark.parametrize("name", ACCUMULATORS)
def test_every_accumulator_says_what_it_does(name):
    """The documentation has the keywords and dtypes that work, and no others."""
    assert name in accumulators_docs.SUMMARIES
    text = accumulators_docs.docstring(name)
    assert name in OPS or getattr(ec, name).__doc__ == text  # ec.fmax is the operation
    x, mask = ec.vector("x"), ec.vector("m", "bool")
    for option, value in {"where": mask, "initial": 1.0, "dtype": "float32", "ddof": 1, "ord": 1}.items():
        more = {"initial": 1.0} if option == "where" and "needs initial=" in text else {}
        try:
            ec.function([x, mask], ec.accumulate(name, x, **{option: value}, **more))
            works = True
        except ArgumentError:
            works = False
        assert works == (f"    {option}: " in text), option
    for dtype in DTYPES:
        try:
            result = ec.function([v := ec.vector("x", dtype)], ec.accumulate(name, v)).types[0][-1]
        except ElemcError:
            result = None
        rows = [r.strip().split(" -> ") for r in text.splitlines() if " -> " in r]
        said = [dtype if out == "the same" else out for names, out in rows if dtype in names.split(", ")]
        assert said == ([] if result is None else [np.dtype(result).name])


def test_errors_of_user_accumulators():
    v = ec.vector("x")
    with pytest.raises(ArgumentError, match="'a': commutative needs merge"):
        ec.Accumulator("a", 0, lambda a, v: a + v, commutative=True)
    arrays = ec.Accumulator("arrays", 0.0, lambda a, v: np.sum(a + v))
    with pytest.raises(ArgumentError):
        ec.function([v], ec.accumulate(arrays, v))



def first(*state):
    return state[0]


@pytest.mark.parametrize(("make", "says"), [
    (lambda: ec.Accumulator("a", 0.0, lambda a: a), r"'a': combine\(a\) is called with 2 values"),
    (lambda: ec.Accumulator("a", 0.0, lambda a, v: a, index=True), r"combine\(a, v\) .* 3 values"),
    (lambda: ec.Accumulator("a", (0.0, 1), lambda a, v: a, first), "combine.* 3 values"),
    (lambda: ec.Accumulator("a", 0.0, np.add, merge=lambda a: a), r"merge\(a\) .* 2 values"),
    (lambda: ec.Accumulator("a", (0.0, 1), lambda a, b, v: (a, b), lambda a: a), "finish.* 2 values"),
    (lambda: ec.Accumulator("a", None, np.add, start=lambda: 0), r"start\(\) .* 1 value,"),
    (lambda: ec.Accumulator("a", 0, np.add, start=lambda v: v), "start= is for identity=None"),
    (lambda: ec.Accumulator("a", 0, 3), "'a': combine= is a function, not int"),
    (lambda: ec.Accumulator("a", (0.0, 0.0), lambda a, b, v: (a, b)), "has 2 parts; finish= says"),
    (lambda: ec.Accumulator("a", (None, 0.0), lambda a, b, v: (a, b), first), "'a': identity= is a number"),
    (lambda: ec.Accumulator("a", (), first), "identity= is a number"),
    (lambda: ec.Accumulator("a", [0.0, 1.0], first), "identity= is a number"),
    (lambda: ec.Accumulator("a", "0", np.add), "identity= is a number"),
    (lambda: ec.Accumulator(0.0, np.add, "a"), "the name comes first, and 0.0")])
def test_accumulators_that_cannot_be(make, says):
    with pytest.raises(ArgumentError, match=says):
        make()


@pytest.mark.parametrize(("acc", "says"), [
    (ec.Accumulator("a", (0.0, 0.0), lambda a, b, v: (a, b, v), first), "'a': combine gives 3 values.* 2$"),
    (ec.Accumulator("a", (0.0, 0.0), lambda a, b, v: v, first), "combine gives 1 value, .* 2$"),
    (ec.Accumulator("a", 0.0, lambda a, v: (a, v)), "combine gives 2 values, .* 1$"),
    (ec.Accumulator("a", (0.0, 0.0), lambda a, b, v: (a, v), lambda a, b: (a, b)), "finish gives 2 values"),
    (ec.Accumulator("a", (0.0, 0), lambda a, b, v: (a, v), first, lambda a, b, c, d: a), "merge gives 1 value,"),
    (ec.Accumulator("a", None, lambda a, v: a, first, start=lambda v: (v, v)), r"combine\(a, v\) .* 3 values"),
    (ec.Accumulator("a", None, lambda a, b, v: (a, b), start=lambda v: (v, v)), "start gives 2 values, and without")])
def test_accumulators_that_lose_count(acc, says):
    v = ec.vector("x")
    with pytest.raises(ArgumentError, match=says.replace("$", r"( \(in the expression at .*)?$")):
        ec.function([v], ec.accumulate(acc, v))


def test_the_dtype_of_the_state_settles():
    v = ec.array("x", 1, "int32")
    mean = ec.Accumulator("half", 0, lambda a, v: (a + v) / 2)
    got = ec.function([v], ec.accumulate(mean, v))(np.array([1, 2, 3], np.int32))
    assert got == (((0 + 1) / 2 + 2) / 2 + 3) / 2
    assert got.dtype == np.float64


@pytest.mark.parametrize("row", FOLDS, ids=str)
def test_merge_agrees_with_combine(row):
    """A fold in two parts, merged, is the fold of the whole."""
    if row.merge is None:
        pytest.skip("folds without merge are not split")
    x = data("float64", 12, 3)
    state = {"sum": 0.0, "prod": 1.0, "any": False, "all": True}
    start = state.get(row.name)
    parts = []
    for part in (x[:5], x[5:], x):
        total = start if start is not None else part[0]
        for value in part if start is not None else part[1:]:
            total = row.combine(total, value if start is None or row.dtype is None or
                                row.name in ("sum", "prod") else bool(value))
        parts.append(total)
    np.testing.assert_allclose(row.merge(*parts[:2]), parts[2], rtol=1e-14)


DECAY = ec.Accumulator("decay", identity=0.0, combine=lambda a, v: 0.5 * a + v)


def folded(acc, x, axis):
    """An accumulator of the user's, of symbolic or NumPy arrays."""
    if not isinstance(x, np.ndarray):
        return ec.accumulate(acc, x, axis)
    state = x.take(0, axis) * 0
    for row in np.moveaxis(x, axis, 0):
        state = acc.combine(state, row)
    return state


@pytest.mark.parametrize("shape", [(3, 5), (1, 5), (5, 1), (0, 5), (5, 0), (130, 7), (65, 300), (64, 33)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("order", "CF")
def test_columns_of_what_rows_decide(shape, dtype, order):
    """Folds over rows and over columns in one loop over the rows."""
    x = np.asarray(np.random.default_rng(0).normal(size=shape).astype(dtype), order=order)
    if 0 in shape[1:]:
        x = x.T
    empty = 0 in x.shape

    def fn(x):
        z = (x - x.mean(axis=1, keepdims=True)) / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1)
        top = (z * x).sum(axis=0)
        more = {} if empty else {"left": folded(DECAY, z, 0), "means": folded(DECAY, x.mean(axis=1), 0),
                                 "best": np.argmax(z, axis=0)}
        return {**more,
                "z": z * 2, "columns": top, "squares": (z * z).sum(axis=0), "most": (x + z).max(axis=0, initial=-9),
                "all": (z * x).sum(), "rows": x.sum(axis=1) * 3, "scaled": z + top}

    f = ec.compile(fn)
    rtol = 1e-5 if dtype == "float32" else 1e-12
    for again in range(2):
        got = f(x)
        for name, want in fn(x).items():
            np.testing.assert_allclose(got[name], want, rtol=rtol, atol=rtol * 10, err_msg=f"{name} {again}")
            assert got[name].dtype == want.dtype


def test_columns_of_what_rows_decide_take_one_pass():
    x = ec.matrix("x")
    z = x / np.sqrt((x * x).sum(axis=1, keepdims=True))
    text = ec.function([x], [z, z.sum(axis=0)]).dump()
    assert text.count("if (phase ==") == 3 and "double *const sum0 = parts0" in text
    first = text[text.index("phase == 0"):text.index("phase == 1")]
    assert "z0_p" in first and "z1_p" not in first
