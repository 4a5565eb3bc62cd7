"""Rows too short for vectors: other kernels, the same bits."""

import numpy as np
import pytest

import elemc as ec
from elemc import binding
from elemc.values import ORDERED

from .helpers import compile_together

pytestmark = pytest.mark.optimized


def softmax(x):
    e = ec.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


CASES = {
    "softmax": softmax,
    "logsumexp": lambda x: ec.logsumexp(x, axis=-1),
    "sum of exp": lambda x: ec.exp(x).sum(axis=-1),
    "mean and variance": lambda x: [ec.tanh(x).mean(axis=-1), ec.tanh(x).var(axis=-1)],
    "elementwise": lambda x: ec.sin(x) * 2 + x,
    "over both": lambda x: ec.exp(x).sum(axis=(-1, -2)),
    "of everything": lambda x: ec.exp(x).sum(),
    "columns": lambda x: ec.exp(x).sum(axis=-2),
    "best": lambda x: ec.exp(x).argmax(axis=-1),
    "scan": lambda x: ec.exp(x).cumsum(axis=-1),
}

LAYOUTS = {
    "C": lambda x: x,
    "sliced": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "reversed": lambda x: x[..., ::-1].copy()[..., ::-1],
    "F": np.asfortranarray,
}


@pytest.mark.parametrize("layout", [
    pytest.param(layout, marks=pytest.mark.optimized(layout == "C")) for layout in LAYOUTS])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(1003, 3), (203, 3), (70, 15), (7, 11, 5), (0, 3), (1, 4)], ids=str)
def test_the_same_bits(shape, dtype, layout, monkeypatch):
    """But of columns of 256 rows and more, which are added in the order of 16 rows side by side."""
    x = LAYOUTS[layout](np.random.default_rng(0).standard_normal(shape).astype(dtype))
    s = ec.array("x", ndim=len(shape), dtype=dtype)
    made = {name: CASES[name](s) for name in CASES}
    outputs = [o for m in made.values() for o in (m if isinstance(m, list) else [m])]
    names = [name for name, m in made.items() for _ in (m if isinstance(m, list) else [m])]
    f = ec.function([s], outputs)
    monkeypatch.setattr(binding, "FEW", 1)
    turned, again = f(x), f(x)
    monkeypatch.setattr(binding, "bounds_of_rows", lambda spec, sizes: {})
    rows = ec.function([s], outputs)(x)
    for name, a, b, c in zip(names, turned, again, rows, strict=True):
        assert np.array_equal(a, b)
        if name == "columns" and len(x) >= ORDERED:
            np.testing.assert_allclose(a, c, rtol=1e-5 if dtype == "float32" else 1e-14)
        else:
            assert np.array_equal(a, c)
    np.testing.assert_allclose(turned[0].sum(axis=-1), 1, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int16"])
@pytest.mark.parametrize("n", [17, 31, 32, 63, 64])
def test_rows_of_less_than_two_vectors(dtype, n):
    a = np.arange(100 * n).reshape(100, n).astype(dtype)
    c = a[7].copy()
    x, row = ec.array("x", ndim=2, dtype=dtype), ec.array("c", ndim=1, dtype=dtype)
    f = ec.function([x, row], [(x > row) & (x < 2 * row), x + row, ec.maximum(x, row)])
    assert (f"n1 = {n};" in f.dump(a, c)) == (n < 64)  # for it stores bools
    for got, want in zip(f(a, c), ((a > c) & (a < 2 * c), a + c, np.maximum(a, c)), strict=True):
        np.testing.assert_array_equal(got, want)
    lines = ec.function([x, row], x + row)
    assert (f"n1 = {n};" in lines.dump(a, c)) == (n < {4: 32, 8: 17}.get(a.itemsize, 64))
    np.testing.assert_array_equal(lines(a, c), a + c)


def test_vectors_go_along_the_axis_before():
    s = ec.matrix("x")
    f = ec.function([s], softmax(s))
    assert "w0" in f.dump(np.ones((1000, 3))) and "w0" not in f.dump(np.ones((1000, 40)))
    assert "w0" not in ec.function([s], s - s.max(axis=1, keepdims=True)).dump(np.ones((1000, 3)))
    assert "_lane" not in f.dump(np.ones((1000, 3)))


def test_strips_without_states():
    s = ec.matrix("x")
    x = np.linspace(0, 1, 210).reshape(70, 3)
    f = ec.function([s], ec.exp(s.T.T[::-1]))
    exp = ec.function([s], ec.exp(s))
    assert np.array_equal(f(x[:, ::-1]), exp(np.ascontiguousarray(x[::-1, ::-1])))


@pytest.mark.parametrize("length", [6, 10, 18, 34])
def test_what_vectors_leave_of_a_row(length):
    """gcc 11 and 12 made the last two sums of 10 one vector, which missed a turn of their loop."""
    gradient = ec.vjp(ec.compile(lambda x, c: np.exp(
        0.3 * x / np.sqrt(np.mean(x * x, axis=0, keepdims=True) + 1)) - np.mean(c - np.mean(x))))
    x, c, g = np.random.default_rng(0).standard_normal((3, 11, 9, length))
    lines = np.asfortranarray(g)
    [got, _], [want, _] = gradient(x, c, lines), gradient(*map(np.asfortranarray, (x, c, lines)))
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def test_rows_of_known_lengths():
    s = ec.matrix("x")
    f = ec.function([s], s.sum(axis=1))
    assert "n1 = 3;" in f.dump(np.ones((1000, 3))) and "x_s0 = 24" in f.dump(np.ones((1000, 3)))
    assert "n1 = n[1];" in f.dump(np.ones((40, 3)))  # 960 bytes
    assert "tree" not in f.dump(np.ones((10, 4096))) and "tree" in f.dump(np.ones((10, 4097)))
    for n in (1, 2, 3, 16, 17, 100, 4096, 4097, 3, 100, 0):
        x = np.random.default_rng(n).standard_normal((400, n))
        np.testing.assert_allclose(f(x), x.sum(axis=1), atol=1e-11)


@pytest.mark.parametrize("length", [1, 2, 3, 8, 9])
@pytest.mark.parametrize("order", ["C", "F"])
def test_vectors_go_along_other_axes_than_that_of_few(length, order):
    x = np.asarray(np.random.default_rng(0).standard_normal((700, length)), order=order)
    f = ec.compile(lambda x: x - x.mean(axis=1, keepdims=True))
    np.testing.assert_allclose(f(x), x - x.mean(axis=1, keepdims=True), atol=1e-14)
    np.testing.assert_array_equal(f(x), f(np.ascontiguousarray(x)))
    assert ("STRIP" in f.dump(x)) == (order == "F" and length > 8)
    if 1 < length <= 8:
        assert ("INDEPENDENT for (int64_t i0" in f.dump(x)) == (order == "F")
    want = f(x)
    whole = np.asarray(np.concatenate([x, x[:3]]), order=order)
    np.testing.assert_array_equal(f(whole[:-3], out=whole[3:]), want)
    cube = np.moveaxis(np.stack([x, x + 1], 1), 0, -1)  # in the middle, or two of them
    g = ec.compile(lambda x: (x.sum(axis=1), x.max(axis=(0, 1))))
    sums, greatest = g(cube)
    np.testing.assert_allclose(sums, cube.sum(axis=1), atol=1e-13)
    np.testing.assert_array_equal(greatest, cube.max(axis=(0, 1)))


@pytest.mark.parametrize("dtype", [
    pytest.param(dtype, marks=pytest.mark.optimized(dtype == "float64"))
    for dtype in ("float64", "float32", "float16", "int16", "complex64")])
@pytest.mark.parametrize("width", [2, 7, 15])
def test_rows_of_narrow_tables_go_side_by_side(width, dtype):
    rng = np.random.default_rng(width)
    real = dtype != "complex64"

    def fold(xp, x, w, s):
        """Sums of one column, one row, both, and positions; and what has no tree."""
        t = xp.tanh(x) * w + s[:, None]
        more = (x.max(axis=0), xp.where(x > w, x, s[:, None]).min(axis=0)) if real else ()
        return (x.sum(axis=0), t.sum(axis=0), (x * xp.arange(x.shape[1])).mean(axis=0), *more)

    f = ec.compile(lambda x, w, s: fold(ec, x, w, s))
    calls = [[(10 * rng.standard_normal(shape)).astype(dtype) for shape in ((n, width), width, n)]
             for n in (1023, 1031, 9001)]
    compile_together((f, call) for call in calls)
    for x, w, s in calls:
        n = len(x)
        with np.errstate(all="ignore"):
            wide = (a.astype("complex128" if not real else "float64") for a in (x, w, s))
            want = fold(np, *wide)
        for got, right in zip(f(x, w, s), want, strict=True):
            loose = {"float16": 3e-2, "float64": 1e-11}.get(dtype, 1e-4)
            np.testing.assert_allclose(got, right, rtol=loose, atol=loose * n)
    assert ("PACK" in f.dump(x, w, s))
    g = ec.compile(lambda x: x.sum(axis=0))
    few = 64 // (4 if dtype in ("float32", "float16") else 8)  # as many states as registers hold
    assert ("PACK" in g.dump(x)) == (width <= few)
    assert "PACK" in ec.compile(lambda x: x.max(axis=0)).dump(x)
    beside = np.concatenate([x, np.ones((n, 20), x.dtype)], 1)[:, :width]
    got = g(x), g(beside)
    np.testing.assert_array_equal(*got)
    before = ec.get_num_threads()
    try:
        for threads in (1, 2):
            ec.set_num_threads(threads)
            np.testing.assert_array_equal(g(x), got[0])
    finally:
        ec.set_num_threads(before)
    if dtype == "float64":  # what is infinite, or not a number, stays in its column
        x[5, 0], x[700, 1] = np.inf, np.nan
        np.testing.assert_array_equal(np.isfinite(g(x)), [k > 1 for k in range(width)])
        lanes = [ec.compile(lambda x: x.sum())(np.ascontiguousarray(x[:, k])) for k in range(width)]
        np.testing.assert_allclose(g(x), lanes, rtol=1e-13)


@pytest.mark.parametrize("width", [3, 7])
def test_what_waits_in_outputs_is_written_row_by_row(width):
    """As long as a later loop reads there what this one has computed."""
    x = np.random.default_rng(0).standard_normal((1100, 5, width))

    def softmax(xp, x):
        e = xp.exp(x - x.max(axis=(0, 1), keepdims=True))
        return e / e.sum(axis=(0, 1), keepdims=True)

    for a in (x, x[:, 0], x.transpose(1, 0, 2), np.ascontiguousarray(x.transpose(1, 0, 2))):
        a = a if a.ndim == 3 else a[:, None]
        np.testing.assert_allclose(ec.compile(lambda x: softmax(ec, x))(a), softmax(np, a),
                                   rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_calls_before_change_no_bit(name):
    s = ec.matrix("x")
    x = np.random.default_rng(1).standard_normal((500, 4))
    made = [ec.function([s], CASES[name](s)) for _ in range(3)]
    fresh = made[0](x[:30]), made[0](x)
    after_large = made[1](x), made[1](x[:30])
    made[2](np.zeros((0, 4)))
    after_empty = made[2](x[:30]), made[2](x)
    for few, many in (after_large[::-1], after_empty):
        for got, want in zip(np.atleast_1d(few, many), np.atleast_1d(*fresh), strict=True):
            assert np.array_equal(got, want)


def test_other_outputs_change_no_bit_of_a_sum():
    s = ec.matrix("x")
    x = np.random.default_rng(2).standard_normal((800, 4))
    alone = ec.function([s], s.sum(axis=0))(x)
    assert np.array_equal(alone, ec.function([s], [s.sum(axis=0), ec.exp(s)])(x)[0])


@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
def test_stretched_operands_are_read_once(axis):
    u, v = ec.matrix("u"), ec.matrix("v")
    f = ec.function([u, v], [u * v - v, (u * v).sum(axis=axis), v.cumsum(axis=1)])
    x = np.random.default_rng(3).standard_normal((50, 7))
    for view in (np.broadcast_to(x[0], x.shape), np.broadcast_to(x[:, :1], x.shape),
                 np.broadcast_to(x[0, 0], x.shape)):
        for got, want in zip(f(x, view), f(x, view.copy()), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    assert "v_p, 0)" in f.dump(x, np.broadcast_to(x[0, 0], x.shape))


def test_elements_without_size_are_an_error():
    s = ec.vector("x")
    f = ec.function([s], s + 1)
    f(np.ones(3))
    with pytest.raises(ec.ElemcError):
        f(np.zeros(4, dtype=[("a", "V0"), ("b", "f8")])["a"])


@pytest.mark.parametrize("columns", [2, 5, 8, 9])
def test_narrow_tables_of_what_other_loops_leave(columns):
    x = np.random.default_rng(0).random((17, 40, columns))
    f = lambda x: (np.cumsum(x, 2)[:, :, -1:] + x).max(axis=0)  # noqa: E731
    np.testing.assert_allclose(ec.compile(f)(x), f(x), rtol=1e-15)


def test_narrow_tables_and_indices():
    last = ec.Accumulator("place", -1, lambda a, v, k: np.where(v > 0, k, a), index=True,
                          merge=lambda a, b: np.maximum(a, b), commutative=True)
    x = np.ones((2068, 3), int)
    x[60:, 1] = 0
    got = ec.compile(lambda x: ec.accumulate(last, x, axis=0))(x)
    np.testing.assert_array_equal(got, [2067, 59, 2067])


@pytest.mark.parametrize("width", [1, 2, 3, 8, 9])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
def test_extrema_of_few_elements_are_those_of_vectors(width, dtype):
    rng = np.random.default_rng(width)
    f = ec.compile(lambda x, w: (np.max(x * w), np.min(abs(x + w)), np.max(x - w, axis=(1, 2))))
    pairs = [(rng.integers(-99, 99, (7, n, width)).astype(dtype),
              rng.integers(-9, 9, (7, n, 1)).astype(dtype)) for n in (1, 31, 64, 4101)]
    compile_together((f, pair) for pair in pairs)
    for x, w in pairs:
        for _ in range(2):
            want = np.max(x * w), np.min(abs(x + w)), np.max(x - w, axis=(1, 2))
            for g, h in zip(f(x, w), want, strict=True):
                np.testing.assert_array_equal(g, h)
            if dtype != "int16":
                x[3, x.shape[1] // 2, -1] = np.nan
    if 1 < width <= 8:
        assert "in lanes" in ec.compile(lambda x, w: np.max(x * w)).dump(x, w)


def test_choices_of_few_elements_within_extrema():
    rng = np.random.default_rng(2)
    x, m = rng.integers(0, 90, (70, 9, 8)), rng.random((70, 9, 11))[..., 1:9] < 0.5
    y = np.asfortranarray(rng.integers(0, 9, (8, 3)))
    for n in (1, 5, 70):
        f = ec.compile(lambda x, m: (np.max(np.where(m, x, 0)), np.min(x * 1.5)))
        for got, want in zip(f(x[:n], m[:n]), (np.max(np.where(m, x, 0)[:n]), np.min(x[:n] * 1.5)),
                             strict=True):
            assert got == want
        z = x[:n, :8, :3].copy()
        assert ec.compile(lambda z, y: np.max(np.where(z > 3, y, 1) * 2))(z, y) == (
            np.max(np.where(z > 3, y, 1) * 2))


def test_maps_of_eight_neighbours_stay_loops():
    a, narrow = np.ones((300, 16)), np.ones((300, 16), "f4")

    def rolled(f, *arrays):
        return "ROLLED for" in ec.compile(f).dump(*arrays)

    assert rolled(lambda x, y: x + y, a[:, :8], np.ones((300, 1)))
    assert rolled(lambda x: x * 2, narrow[:, :8])
    assert rolled(lambda x: np.exp(x), a[:, :8])
    assert not rolled(lambda x: np.exp(x), narrow[:, :8])  # half a register
    assert not rolled(lambda x: x * 2, a[:, ::2])  # to be gathered
    assert not rolled(lambda x, y: x * y, np.asfortranarray(a[:, :8]), a[:, :8])
    assert not rolled(lambda x: x - np.max(x, axis=1, keepdims=True), a[:, :8])
    assert not rolled(lambda x: x > 0, a[:, :8])  # bytes


@pytest.mark.parametrize(("width", "dtype"), [(8, "f8"), (16, "f8"), (16, "f4"), (4, "c16"), (8, "i8")])
def test_rows_that_fill_a_vector_are_told_only_where_one_does(width, dtype):
    """Loops across rows that gcc unrolls, or that go across themselves; not those along rows."""
    x = (np.random.default_rng(0).standard_normal((1000, width)) * 9).astype(dtype)
    y, stride = np.asfortranarray(x[::-1]), width * x.itemsize
    given = f"x_s0 = TOLD({stride}, s["
    scan, outer = ec.compile(lambda x: np.cumsum(x, axis=1)), ec.compile(lambda x, y: x + y)
    np.testing.assert_array_equal(scan(x), np.cumsum(x, axis=1))
    np.testing.assert_array_equal(outer(x, y), x + y)
    assert given in scan.dump(x) and (given in outer.dump(x, y)) == (dtype != "c16")
    shift = ec.compile(lambda x: x + x[0])
    np.testing.assert_array_equal(shift(x), x + x[0])
    assert f"x_s0 = {stride}, " in shift.dump(x) and "TOLD" not in shift.dump(x)
    assert "TOLD" not in scan.dump(x[:, :2].copy())
