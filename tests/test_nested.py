"""Folds of axes between which kept ones lie in memory: first along rows, then what these give."""

import numpy as np
import pytest

import elemc as ec

from .helpers import compile_together, quiet

SHAPES = [(3, 1907, 17), (976, 32, 33), (70, 5, 2), (2, 3, 4), (1, 7, 9), (5, 1, 9), (0, 3, 4),
          (4, 3, 0), (300, 4, 40)]
FOLDS = {
    "sum": lambda x: x.sum(axis=(0, 2)),
    "product": lambda x: np.prod(1 + x / 1e4, axis=(0, 2)),
    "mean": lambda x: x.mean(axis=(0, 2)),
    "variance": lambda x: x.var(axis=(0, 2)),
    "centred": lambda x: x - x.mean(axis=(0, 2), keepdims=True),
    "any": lambda x: (x > 2).any(axis=(0, 2)),
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(axis=(0, 2), keepdims=True),
    "counted": lambda x: np.count_nonzero(x > 1, axis=(0, 2)),
    "greatest": lambda x: x.max(axis=(0, 2)),
}


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i4"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_same_as_numpy(shape, dtype):
    x = (np.random.default_rng(0).standard_normal(shape) * 2).astype(dtype)
    left = ("greatest",) * (0 in shape) + ("product", "softmax") * (dtype == "f2")
    compiled = {name: ec.compile(fold) for name, fold in FOLDS.items() if name not in left}
    compile_together((f, [x]) for f in compiled.values())
    for name, f in compiled.items():
        want = quiet(FOLDS[name], x.astype("f8") if dtype == "f2" else x)
        got = f(x)
        tolerance = {"f8": 1e-11, "f4": 1e-3, "f2": 0.02, "i4": 1e-11}[dtype]
        np.testing.assert_allclose(got, want, tolerance, tolerance, err_msg=name)


def test_float16_is_rounded_once():
    x = np.ones((2, 3, 5000), "f2") * 20
    x[1] *= -1
    x[1, :, 0] = -19
    np.testing.assert_array_equal(ec.compile(lambda x: x.sum(axis=(0, 2)))(x), np.ones(3, "f2"))
    p = np.full((2, 2, 20), 2, "f2")
    p[1] = 0.5
    np.testing.assert_array_equal(ec.compile(lambda p: np.prod(p, axis=(0, 2)))(p), np.ones(2, "f2"))


def test_rows_come_first():
    x = np.random.default_rng(0).standard_normal((40, 30, 50))
    f = ec.compile(lambda x: x.sum(axis=(0, 2)))
    text = f.dump(x)
    assert "phase == 1" in text and "buffer0" in text
    assert "buffer" not in f.dump(x.transpose(1, 0, 2)[:, ::2]) and "phase" not in (
        ec.compile(lambda x: x.sum(axis=(1, 2))).dump(x).partition("int kernel")[2].partition("{")[2])
    np.testing.assert_allclose(f(x.transpose(2, 1, 0)), f(x), rtol=1e-12)  # another memory order


def test_users_accumulators_are_not_taken_for_sums():
    square = ec.Accumulator("square_sum", identity=0.0, combine=lambda s, x: s + x * x,
                            merge=lambda a, b: a + b, commutative=True)
    x = np.random.default_rng(0).standard_normal((6, 5, 40))
    f = ec.compile(lambda x: ec.accumulate(square, x, axis=(0, 2)))
    np.testing.assert_allclose(f(x), (x * x).sum(axis=(0, 2)), rtol=1e-12)


def test_many_axes_in_between():
    x = np.random.default_rng(0).standard_normal((4, 5, 6, 7, 8))
    for axes in ((0, 2, 4), (1, 3), (0, 3), (2, 4), (0, 1, 4)):
        for order in ((0, 1, 2, 3, 4), (4, 2, 0, 1, 3)):
            y = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
            f = ec.compile(lambda y: y.sum(axis=axes))  # noqa: B023 - called in this turn
            np.testing.assert_allclose(f(y), x.sum(axis=axes), rtol=1e-11, atol=1e-12)
            np.testing.assert_array_equal(f(y), f(y))


def method(name, **options):
    """A method of arrays, compiled."""
    return ec.compile(lambda x: getattr(x, name)(**options))


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "u1", "?"])
def test_places_along_rows(dtype):
    rng = np.random.default_rng(3)
    functions = {(name, axis): method(name, axis=axis) for name in ("argmax", "argmin")
                 for axis in (None, 0, -1)}
    for shape in ((4, 17), (3, 1000), (2, 9001), (70, 20, 3)):
        x = rng.integers(0, 50, shape).astype(dtype)
        given = [x, np.zeros(shape, dtype), x.transpose()]
        if x.dtype.kind == "f":
            holes = np.where(rng.random(shape) < 0.01, np.nan, x).astype(dtype)
            given += [holes, np.full(shape, np.nan, dtype), np.full(shape, -np.inf, dtype),
                      np.where(x > 25, -0.0, 0.0).astype(dtype)]
        compile_together((f, [y]) for f in functions.values() for y in given)
        for y in given:
            for (name, axis), f in functions.items():
                want = getattr(y, name)(axis=axis)
                np.testing.assert_array_equal(f(y), want)
                np.testing.assert_array_equal(f(y), want)


@pytest.mark.parametrize("dtype", ["f8", "f2", "i2", "u1", "?"])
@pytest.mark.parametrize("length", [3, 15, 17, 45, 700])
def test_places_in_rows_apart(dtype, length):
    rng = np.random.default_rng(length)
    whole = rng.integers(0, 50, (70, length + 3))
    functions = {name: method(name) for name in ("argmax", "argmin", "max", "min")}
    for full in (whole, np.minimum(whole, 48)):
        x = full.astype(dtype)[:, :length]
        laid = (x, x.T, x[::-1], x[:, ::-1])
        compile_together((f, [y]) for f in functions.values() for y in laid)
        for y in laid:
            for name, f in functions.items():
                assert f(y) == getattr(y, name)()
    if length > 16:
        assert "along i0, i1, in lanes" in ec.compile(lambda x: x.argmax()).dump(x)


def test_places_in_another_order_than_memory():
    """A lane keeps the first of memory, so the lanes of each row are merged."""
    f, x = ec.compile(lambda x: x.argmax()), np.zeros((70, 200))
    assert "max1: max along i1, in lanes" in f.dump(x.T)
    x[1, 3], x[3, 1] = 1, 1
    assert f(x.T) == 70 + 3 and f(x) == 200 + 3


def test_extrema_of_booleans_are_decided_early():
    x = np.zeros((300, 700), bool)
    for f, other in ((ec.compile(lambda x: x.max()), "any"), (ec.compile(lambda x: x.min()), "all")):
        text = f.dump(x)
        assert f"{other} along" in text and "*decided" in text
        assert not f(x)


def test_places_share_the_extremum():
    x = np.random.default_rng(0).standard_normal((100, 1100))
    f = ec.compile(lambda x: (x.argmax(axis=1), x.max(axis=1), x.argmax(axis=1)))
    assert f.dump(x).count("argmax0: argmax, max0: max along i1, in lanes") == 1
    assert f.dump(x).count(", in lanes") == 1
    for got, want in zip(f(x), (x.argmax(1), x.max(1), x.argmax(1)), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("loose", ["contract", "reassociate"])
def test_places_of_what_is_not_rounded_as_written(loose):
    a, b = np.random.default_rng(0).standard_normal((2, 40, 1003))
    f = ec.compile(lambda a, b: (a * b + a - b).argmax(axis=1), **{loose: True})
    np.testing.assert_array_equal(f(a, b), (a * b + a - b).argmax(axis=1))
    assert "in lanes" in f.dump(a, b)  # all is computed once


PLACES = {
    "argmax": lambda x: x.argmax(axis=0), "argmin": lambda x: x.argmin(axis=0),
    "of sums": lambda x: (x + 1).argmax(axis=0), "of products": lambda x: (x * x + x).argmin(axis=0),
    "beside sums": lambda x: (x.argmax(axis=0), x.max(axis=0), x.sum(axis=0)),
    "of waiting": lambda x: (x - x.mean(axis=0)).argmax(axis=0),
}


FLOATS = ("float64", "float32", "float16")


@pytest.mark.parametrize("name, dtype", [
    (name, dtype) for name in PLACES for dtype in (*FLOATS, "int64", "int8", "bool")
    if dtype not in FLOATS[1:] or name not in ("of waiting", "beside sums")])  # these round
@pytest.mark.parametrize("shape", [(9000, 1), (2000, 10), (1033, 33), (30, 900)],
                         ids=str)
def test_places(name, dtype, shape):
    """Along columns and along rows, first of all that are as good."""
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 3, shape).astype(dtype)
    if dtype == "bool":
        x = x & (rng.random(shape) > 0.9)
    g = ec.compile(PLACES[name])
    tables = (x, x.T.copy().T, np.where(x > 0, x, x[0, 0])[::-1, ::-1])
    compile_together((g, [table]) for table in tables)
    with np.errstate(over="ignore"):
        for table in tables:
            got, want = g(table), PLACES[name](table)
            for a, b in zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]:
                np.testing.assert_allclose(a, b, rtol=1e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32", "uint8", "bool"])
@pytest.mark.parametrize("n", [2, 5, 9, 20, 40, 70, 100, 1000])
def test_places_among_extremes(dtype, n):
    """NaN, infinities, the least there is, and ties of these."""
    rng = np.random.default_rng(0)
    kind = np.dtype(dtype).kind
    least = -np.inf if kind == "f" else False if kind == "b" else np.iinfo(dtype).min
    most = np.inf if kind == "f" else True if kind == "b" else np.iinfo(dtype).max
    x = np.full((12000 // n, n), least, dtype)
    x[1] = most
    x[3:, n // 2], x[5:, n - 1] = most, most
    x[7, :] = np.where(np.arange(n) % 2, 0, least)
    if kind == "f":
        x[8, n // 2:], x[9, n - 1], x[10, 0] = np.nan, np.nan, np.nan
        x[11, :] = np.nan
    f = ec.compile(lambda x: (x.argmax(axis=1), x.argmin(axis=1), x.argmax(axis=0), x.argmin(axis=0)))
    for table in (x, rng.permuted(x, axis=1), x.T.copy().T):
        for got, want in zip(f(table), (table.argmax(1), table.argmin(1), table.argmax(0),
                                        table.argmin(0)), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("rows", [65, 300, 4096, 5000, 9000])
@pytest.mark.parametrize("columns", [2, 3, 5, 8, 12, 15, 20])
def test_places_in_narrow_tables_beside_rows(rows, columns):
    """What is the same for all rows is copied once for each fold that reads it."""
    x = np.random.default_rng(0).standard_normal((rows, columns))
    y, z = x[3].copy(), x[5].copy()

    def several(x, y, z):
        return (np.argmax(x - y, axis=0), np.argmin(x * z, axis=0), np.argmax(x + z, axis=0),
                (x - y).max(axis=0), (x * y).sum(axis=0), (x - y).var(axis=0), (x * z).min(axis=0))

    for got, want in zip(ec.compile(several)(x, y, z), several(x, y, z), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
    assert ec.compile(lambda x, y: np.argmax(x - y, axis=0))(x, y).tolist() == np.argmax(
        x - y, axis=0).tolist()


def test_places_are_counted_in_what_is_wide_enough():
    x = np.zeros((2, 40000), np.int8)
    f = ec.compile(lambda x: x.argmax(axis=1))
    x[0, 33000], x[1, 100] = 1, 1
    assert f(x).tolist() == [33000, 100] and "int16_t argmax0" not in f.dump(x)
    assert f(x[:, 32000:39000]).tolist() == [1000, 0] and "int16_t first0" in f.dump(x[:, :3000])
    assert f(np.zeros((2, 32767), np.int8)).tolist() == [0, 0]
    g = ec.compile(lambda x: x.argmax(axis=0))
    assert g(x.T.copy()).tolist() == [33000, 100]


@pytest.mark.parametrize("loose", ["contract", "reassociate"])
def test_places_along_columns_of_what_is_not_rounded_as_written(loose):
    a, b = np.random.default_rng(0).standard_normal((2, 20003, 3))
    f = ec.compile(lambda a, b: ((a * b + a - b).argmax(axis=0), (a * b).argmax(axis=0)),
                   **{loose: True})
    for got, want in zip(f(a, b), ((a * b + a - b).argmax(0), (a * b).argmax(0)), strict=True):
        np.testing.assert_array_equal(got, want)


def test_places_are_found_in_vectors():
    x = np.random.default_rng(0).standard_normal((100, 1000))
    f = ec.compile(lambda x: x.argmax(axis=1))
    assert f.dump(x).count(", in lanes") == 1 and "in lanes" not in f.dump(x[:, :7])
    assert "in lanes" not in ec.compile(lambda x: x.argmax(axis=0)).dump(x)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 0, 3, 1), (2, 3, 0, 1), (3, 1, 2, 0)])
def test_what_waits_for_folds_that_end_in_different_loops(order):
    rng = np.random.default_rng(0)
    x, y = rng.random((9, 4, 17, 2)) + 0.5, rng.random((9, 1, 17, 2)) + 0.5
    g = rng.random(x.shape)

    def ratio(x, y):
        t = (x + (x / y).sum(axis=(1, 3), keepdims=True)) / y
        return t / (1 + (t * t).sum())

    turned = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
    for got, want in zip(ec.vjp(ratio)(turned, y, g), ec.vjp(ratio)(x, y, g), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11)


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_what_waits_within_a_strip(dtype):
    """A row's folds that end before another fold does, for every element of the strip."""
    x = np.random.default_rng(0).normal(size=(2, 33, 2, 2, 2))
    x = x[..., 0].astype(dtype) if dtype == "float64" else x.view("complex128")[..., 0].astype(dtype)

    def distances(x):
        least = np.fmin.reduce(np.fmin.reduce(x, axis=3), axis=0)
        return np.exp(least - least.max(axis=1, keepdims=True))

    np.testing.assert_allclose(ec.compile(distances)(x), distances(x), rtol=1e-5)


BESIDE = {
    "doubles": lambda x: x.astype("float64").max(axis=1), "functions": lambda x: np.exp(x).sum(axis=1),
    "columns": lambda x: (x - x.sum(axis=1, keepdims=True)).sum(axis=0), "scans": lambda x: x.cumsum(1),
    "stores": lambda x: x / x.sum(axis=1, keepdims=True), "places": lambda x: x.argmax(axis=1),
    "all": lambda x: sum(f(x).sum() for name, f in BESIDE.items() if name != "all"),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", BESIDE)
def test_what_else_a_kernel_does_changes_no_bit_of_a_sum(name, dtype):
    for columns in (5, 17, 100, 317, 5000):
        x = np.random.default_rng(0).random((40, columns)).astype(dtype)
        both = ec.compile(lambda x: (x.sum(axis=1), BESIDE[name](x)))(x)
        np.testing.assert_array_equal(both[0], ec.compile(lambda x: x.sum(axis=1))(x))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8", "complex64"])
def test_every_number_of_elements_that_fills_no_lanes(dtype):
    """What is left of rows is folded once, beside stores, scans and places, and functions of it."""
    f = ec.compile(lambda x: (
        x.sum(axis=1), (x * x * 0.49).prod(axis=1), x.max(axis=1), x.argmax(axis=1),
        np.sin(x / 16).sum(axis=1), x.cumsum(axis=1), x - x.sum(axis=1, keepdims=True)))
    alone = ec.compile(lambda x: x.sum(axis=1))
    for columns in (*range(1, 85), 127, 131, 4096, 4101, 8205):
        x = np.random.default_rng(columns).integers(1, 3, (3, columns)).astype(dtype)
        x[:, columns // 2] += 1
        wide = x.astype("complex128" if x.dtype.kind == "c" else "float64")
        got = f(x)
        np.testing.assert_array_equal(got[0], x.sum(axis=1))
        np.testing.assert_array_equal(got[0], alone(x))
        np.testing.assert_allclose(got[1], (wide * wide * 0.49).prod(axis=1),
                                   rtol=1e-3, atol=1e-30)
        np.testing.assert_array_equal(got[2], x.max(axis=1))
        np.testing.assert_array_equal(got[3], x.argmax(axis=1))
        np.testing.assert_allclose(got[4], np.sin(wide / 16).sum(axis=1),
                                   rtol=1e-2 if dtype == "int8" else 1e-5)
        np.testing.assert_array_equal(got[5], x.cumsum(axis=1))
        np.testing.assert_array_equal(got[6], x - x.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1"])
@pytest.mark.parametrize("shape", [(9, 80), (1000, 97), (1500, 40), (3, 5, 70), (40, 7, 3, 33)])
def test_rows_of_extrema_share_their_lanes(shape, dtype):
    """Which are merged once, and not in every row, if these do not follow each other."""
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((*shape[:-1], shape[-1] + 3)) * 40).astype(dtype)[..., :-3]
    highest, all_of_first = ec.compile(lambda x: x.max()), ec.compile(
        lambda x: (x.min(axis=tuple(range(1, x.ndim))), x.max(axis=tuple(range(1, x.ndim)))))
    total = ec.compile(lambda x: x.sum())
    assert highest(x) == x.max()
    for got, want in zip(all_of_first(x), all_of_first(x.copy()), strict=True):
        assert np.array_equal(got, want)
    if dtype != "u1":  # of which 17 do not fill 64 lanes
        assert "(lanes of all i" in highest.dump(x, stage="nest")
        assert ("(lanes of all i" in all_of_first.dump(x, stage="nest")) == (x.ndim > 2)
    assert total(x) == pytest.approx(x.sum(dtype=total(x).dtype), rel=1e-4)
    if dtype[0] == "f":  # sums mind in which order they are merged
        assert "lanes of all" not in total.dump(x, stage="nest")
        x[-1, ..., -1] = np.nan
        assert np.isnan(highest(x)) and np.isnan(all_of_first(x)[1][-1])


def test_rows_by_twos_share_their_lanes():
    f = ec.compile(lambda x, y: ((x & (y > 0)[:, None, :]).sum(axis=(1, 2), dtype=np.int32), y.sum(axis=1)))
    x, y = np.ones((3, 9, 203), np.int32)[:, :, :-3], np.ones((3, 200), np.float32)
    assert "other_sum1_lane" in f.dump(x, y)
    assert np.array_equal(f(x, y)[0], (x & 1).sum(axis=(1, 2)))


@pytest.mark.parametrize("dtype", ["u4", "f8"])
def test_lanes_are_not_shared_beside_what_goes_on_one_by_one(dtype):
    f = ec.compile(lambda x: (x.max(axis=(1, 2)), x.argmin(axis=None)))
    x = np.random.default_rng(0).integers(0, 1000, (8, 9, 43)).astype(dtype)[..., :-3]
    assert np.array_equal(f(x)[0], x.max(axis=(1, 2))) and f(x)[1] == x.argmin()


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "float32"])
@pytest.mark.parametrize("columns", [2, 3, 4, 5, 8])
def test_places_in_rows_of_a_few_numbers(columns, dtype):
    """The compiler makes vectors of several rows, but not of five integers: these go side by side."""
    x = np.random.default_rng(1).integers(0, 4, (501, columns)).astype(dtype)
    f = ec.compile(lambda x: (np.argmax(x, axis=-1), np.argmin(x, axis=-1), np.max(x, axis=-1)))
    alone = ec.compile(lambda x: np.argmax(x, axis=-1))
    aside = "ABREAST" in alone.dump(x)
    assert aside == (columns == 5 and dtype != "float32")
    tables = x, x[:, ::-1], x[::2], np.asfortranarray(x), x.reshape(3, 167, columns)
    compile_together((function, (table,)) for table in tables for function in (f, alone))
    for table in tables:
        want = np.argmax(table, axis=-1), np.argmin(table, axis=-1), np.max(table, axis=-1)
        for g, w in zip(f(table), want, strict=True):
            np.testing.assert_array_equal(g, w)
        np.testing.assert_array_equal(alone(table), want[0])
