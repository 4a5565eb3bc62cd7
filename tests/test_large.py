"""Outputs that outgrow the caches: written in blocks, with the same bits as any other."""

import re
import threading

import numpy as np
import pytest

import elemc as ec
from elemc import build, runtime
from elemc import values as elements

from .helpers import compile_together

pytestmark = pytest.mark.optimized

DTYPES = ("float64", "float32", "float16", "int8", "bool", "complex64", "complex128")
SIZES = (1, 7, 511, 512, 513, 4096, 10_000)


@pytest.fixture(params=[0, 1], ids=["past", "through"])
def stores(request, monkeypatch):
    """Write what outgrows the caches past them, or through them, whatever this machine does sooner."""
    found = build.machine_constants(build.toolchain())._replace(through=request.param)
    monkeypatch.setattr(build, "machine_constants", lambda tool: found)


def values(shape, dtype):
    x = np.random.default_rng(0).standard_normal(shape) * 3
    return (x > 0) if dtype == "bool" else x.astype(dtype)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_blocks_of_every_dtype_and_size(large, stores, dtype, size):
    s = ec.array("x", ndim=1, dtype=dtype)
    f = ec.function([s], ec.where(s == s, s, s))
    x = values(size, dtype)
    assert np.array_equal(f(x), x)
    assert ("elemc_stream" in f.dump(x)) == (size > 1)
    for offset in (0, 1, 3):  # an output that starts anywhere
        out = np.zeros(size + 10, dtype)
        f(x, out=out[offset:offset + size])
        assert np.array_equal(out[offset:offset + size], x)
        assert not out[:offset].any() and not out[offset + size:].any()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("length", [1, 3, 7, 8, 31, 64, 70, 129, 300])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8"])
def test_lines_that_rows_do_not_fill(large, stores, dtype, length, threads):
    """Rows that go on in the line where the one before ended, and others; nothing beside them."""
    x = values((41, length), "float64").astype(dtype)
    f = ec.compile(lambda x: (x - x.max(axis=1, keepdims=True), x[:, ::-1] + x))
    want = (x - x.max(axis=1, keepdims=True), x[:, ::-1] + x)
    before = ec.get_num_threads()
    ec.set_num_threads(threads)
    try:
        for offset, gap in ((0, 0), (1, 0), (5, 0), (0, 1), (3, 64), (2, 67)):
            memory = np.full((2, 41 * (length + gap) + offset + 9), 77, dtype)
            outs = tuple(m[offset:offset + 41 * (length + gap)].reshape(41, -1)[:, :length]
                         for m in memory)
            beside = np.ones(memory.shape, bool)
            for b in beside:
                b[offset:offset + 41 * (length + gap)].reshape(41, -1)[:, :length] = False
            f(x, out=outs)
            assert all(map(np.array_equal, outs, want))
            assert (memory[beside] == 77).all()
    finally:
        ec.set_num_threads(before)


def test_rows_of_several_lengths_that_share_a_loop(large):
    """As many of them go past the caches together as a block holds of the longest."""
    x = values(3001, "float64")
    vectors = [np.arange(n, dtype=dtype) for n, dtype in ((3, "f8"), (60, "f8"), (1, "f4"), (17, "f4"))]
    for some in (vectors, vectors[::-1], vectors[:2], vectors[1:3]):
        f = ec.compile(lambda x, *v: tuple(x[:, None].astype(w.dtype) * w for w in v))
        for got, w in zip(f(x, *some), some, strict=True):
            np.testing.assert_array_equal(got, x[:, None].astype(w.dtype) * w)


def test_several_outputs_of_several_dtypes_and_layouts(large):
    a, b = ec.matrix("a"), ec.array("b", ndim=1, dtype="float32")
    f = ec.function([a, b], [a * 2 + b, a > b, a.sum(axis=1), a.T + 1])
    x, y = values((37, 700), "float64"), values(700, "float32")
    got = f(x, y)
    want = (x * 2 + y, x > y, x.sum(axis=1), x.T + 1)
    for g, w in zip(got, want, strict=True):
        assert np.allclose(g, w)
    flipped = f(x[::-1, ::-1], y[::-1])
    assert np.allclose(flipped[0], got[0][::-1, ::-1])
    outs = tuple(np.zeros_like(w, order="F") for w in want)
    for g, o, w in zip(f(x, y, out=outs), outs, want, strict=True):
        assert g is o and np.allclose(o, w)


def test_in_place_masked_and_added(large):
    s = ec.matrix("x")
    shifted = s - s.max(axis=1, keepdims=True)
    e = ec.exp(shifted)
    f = ec.function([s], e / e.sum(axis=1, keepdims=True))
    x = values((50, 300), "float64")
    want = f(x)
    again = x.copy()
    assert f(again, out=again) is again and np.array_equal(again, want)
    overlapping = np.zeros((51, 300))
    overlapping[:-1] = x
    assert np.array_equal(f(overlapping[:-1], out=overlapping[1:]), want)
    total = np.ones_like(x)
    assert np.array_equal(f(x, out=total, req="add"), 1 + want)
    part = np.zeros_like(x)
    f(x, out=part, where=x > 0)
    assert np.array_equal(part, np.where(x > 0, want, 0))


def test_what_is_chosen_from_is_asked_for_in_advance(large):
    x, y = values((2, 10_001), "float64")
    f = ec.compile(lambda c, x, y: ec.where(c, x, y * 2) + ec.maximum(x, 1))
    np.testing.assert_array_equal(f(x > 0, x, y), np.where(x > 0, x, y * 2) + np.maximum(x, 1))
    assert f.dump(x > 0, x, y).count("FETCH_LINE(") == 2  # its definition, and y: x is loaded once for both
    assert "FETCH" not in ec.compile(lambda x, y: x + y).dump(x, y)


@pytest.mark.parametrize("way", [0, 1, 2, 8])
def test_one_stream_past_the_caches_is_asked_for_as_its_machine_wants(large, way, monkeypatch):
    """And one of several that are chosen from, as what several are folded of is."""
    real = build.machine_constants(build.toolchain())
    monkeypatch.setattr(build, "machine_constants", lambda tool: real._replace(
        asks=way, map_asks=way))
    x, y = values((2, 10_001), "float64")
    for function, args, fetch in ((lambda x: 2 * x, (x,), "FETCH_MAP"),
                                  (lambda x, y: np.maximum(x, y), (x, y), "FETCH_AHEAD")):
        f = ec.compile(function)
        assert f.dump(*args).count(f"FETCH_LINE({fetch}, ") == len(args)
        np.testing.assert_array_equal(f(*args), function(*args))


def rms(t, axes):
    return t / np.sqrt(np.mean(t * t, axis=axes, keepdims=True) + 0.1), np.sum(t, axis=axes)


def norm(t, axes):
    d = t - np.mean(t, axis=axes, keepdims=True)
    return d / np.sqrt(np.mean(d * d, axis=axes, keepdims=True) + 0.1)


@pytest.mark.parametrize("shape", [(40, 257), (5, 127), (127, 5), (9, 513), (7, 33, 64)])
@pytest.mark.parametrize("function", [rms, norm])
def test_what_lies_across_waits_in_outputs(large, shape, function):
    """Even if these come from memory; elements at the ends of rows, which go twice, change once."""
    f = ec.compile(lambda a, b, axes: function(np.exp(-np.abs(a)) * b, axes), static="axes")
    g = ec.compile(lambda a, b, axes: function(a * b, axes), static="axes")
    a, b = np.asfortranarray(values(shape, "float64")), values(shape[::-1], "float64").T * 1
    b = np.ascontiguousarray(b)
    for axes in (tuple(range(len(shape))), (0,), (1,)):
        for made, t in ((f, np.exp(-np.abs(a)) * b), (g, a * b)):
            want = function(t, axes)
            got = made(a, b, axes)
            for x, y in zip(*((z if isinstance(z, tuple) else (z,)) for z in (got, want)),
                            strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)
    if shape == (40, 257):  # read across once
        assert len(re.findall(r"a_in_p \+", f.dump(a, b, (0, 1)))) == 1


def test_short_rows_that_follow_each_other_are_asked_for_as_one(large):
    x, row, apart = np.ones((500, 20)), np.ones(20), np.ones((500, 25))[:, :20]
    f = ec.compile(lambda x, y: x * y + 1)
    assert "FETCH_LINE(FETCH_MAP, x_p + b0 * x_s0, LINE * 8)" in f.dump(x, row)
    for args in (apart, row), (x, x + 1):  # the latter are foreseen
        assert "FETCH" not in f.dump(*args)
    assert np.array_equal(f(x, row), x * row + 1)



def test_rows_that_do_not_follow_each_other_are_asked_for_in_advance(large):
    x, y = values((40, 300), "float64"), values((40, 300), "float64")
    f = ec.compile(lambda x, y: 2 * x + y)
    for far in (x[::-1], values((40, 307), "float64")[:, :300]):
        np.testing.assert_array_equal(f(far, y), 2 * far + y)
        text = f.dump(far, y)
        assert text.count("FETCH_LINE(") == 2 and "+ x_ahead, LINE * 8" in text
        assert "x_ahead = n1 * 8 < 4 * AHEAD ? (1 + AHEAD / (n1 * 8 + 1)) * x_s0 : AHEAD;" in text
    x, y = values((3, 20, 6, 50), "float64")[:, ::-1], values((3, 20, 6, 50), "float64")
    np.testing.assert_array_equal(f(x, y), 2 * x + y)
    assert "x_ahead = n2 * 8 < 4 * AHEAD ? (1 + AHEAD / (n2 * 8 + 1)) * x_s1 : AHEAD" in f.dump(x, y)  # two axes are one


@pytest.mark.parametrize("columns", [3, 64, 127, 128, 129, 2050, 5000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_several_rows_that_are_read_again_are_asked_for_a_block_at_a_time(large, dtype, columns):
    x, (m, g) = values((7, columns), dtype), values((2, columns), dtype)
    f = ec.compile(lambda x, m, g: (x - m) * g)
    memory = np.zeros(x.size + 20, dtype)
    for start in range(9):
        out = memory[start:start + x.size].reshape(x.shape)
        np.testing.assert_array_equal(f(x, m, g, out=out), (x - m) * g)
        assert not memory[:start].any() and not memory[start + x.size:].any()
        memory[:] = 0
    assert ("ROWS_IN_TURN" in f.dump(x, m, g)) == (columns * 2 * x.itemsize > 16384)
    assert "ROWS_IN_TURN" not in ec.compile(lambda x, m: x - m).dump(x, m)


@pytest.mark.parametrize("columns", [2100, 4321])
@pytest.mark.parametrize("dtypes", ["f8 f8 f8", "f4 f4 f4", "i1 f8 f4", "f4 i1 i1"])
def test_blocks_of_rows_in_turn(large, stores, dtypes, columns):
    """All rows, some of the last, and of two outputs; the arrays begin anywhere in a line."""
    x, m, g = (values(shape, d) for shape, d in zip(
        ((19, columns), (columns,), (columns,)), dtypes.split(), strict=True))
    f = ec.compile(lambda x, m, g: ((x - m) * g, (x + g) * m))
    for rows in (8, 19):
        for start in (0, 5):
            for got, want in zip(f(x[:rows, start:], m[start:], g[start:]), (
                    (x[:rows, start:] - m[start:]) * g[start:],
                    (x[:rows, start:] + g[start:]) * m[start:]), strict=True):
                np.testing.assert_array_equal(got, want)


def test_rows_in_turn_are_not_those_of_tiles(large):
    x, y = values((19, 2100), "float64"), values((2100, 19), "float64")
    m, g = values((2100,), "float64"), values((2100,), "float64")
    for f in (lambda x, y, m, g: (x * y.T - m) * g, lambda x, y, m, g: x * m + y.T * g):
        np.testing.assert_array_equal(ec.compile(f)(x, y, m, g), f(x, y, m, g))


@pytest.mark.parametrize("dtype, expected", [("int8", False), ("int16", True), ("float32", True)])
def test_rows_in_turn_do_not_overrun_the_blocks_of_others(large, dtype, expected):
    """LINE is as short as complex numbers in another loop want it."""
    x, (m, g) = values((9, 9001), dtype), values((2, 9001), dtype)
    w = values((300,), "float64")
    f = ec.compile(lambda x, m, g, w: (x * m + g, (w * 2).astype("c16")))
    np.testing.assert_array_equal(f(x, m, g, w)[0], x * m + g)
    assert ("ROWS_IN_TURN" in f.dump(x, m, g, w)) == expected


def test_rows_that_share_nothing_do_not_go_in_turn(large):
    x, (m, g) = values((3, 5, 4000), "float64"), values((2, 5, 4000), "float64")
    f = ec.compile(lambda x, m, g: x[:, :, :3000] * m[:, :3000] + g[:, :3000])
    np.testing.assert_array_equal(f(x, m, g), x[:, :, :3000] * m[:, :3000] + g[:, :3000])
    assert "ROWS_IN_TURN" not in f.dump(x, m, g)


def layer_norm(x, g):
    d = x - np.mean(x, axis=-1, keepdims=True)
    return d / np.sqrt(np.mean(d * d, axis=-1, keepdims=True)) * g[:, None]


def softmax(x, g):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True) * g[:, None]


def log_sum(x, g):
    top = np.max(x, axis=-1, keepdims=True)
    return np.log(np.sum(np.exp(x - top), axis=-1)) + top[:, 0] * g


@pytest.mark.parametrize("function, asking", [
    (layer_norm, "z_line[i1 - b1]"), (softmax, "elemc_exp"), (log_sum, "elemc_exp")])
def test_of_several_loops_the_dearest_asks_for_the_next_row(large, function, asking):
    far, near = ec.compile(function, name="far"), ec.compile(function, name="near")
    for columns in (511, 512, 700, 4096, 5000):
        x, g = values((5, columns), "float64"), values(5, "float64")
        text = far.dump(x, g)
        lines = text[text.index("\n{"):].splitlines()
        asked = [k for k, line in enumerate(lines) if "FETCH" in line and "x_p" in line]
        if columns < 512:
            assert lines[asked[0]].strip().startswith("FETCH_AHEAD(x_p")  # the first one
        else:
            assert len(asked) == (3 if function is log_sum and columns > 4096 else 1)
            assert all("FETCH_ROW" in lines[k] and "x_ahead" in lines[k] for k in asked)
            after = next(k for k in range(asked[-1], len(lines)) if asking in lines[k])
            assert after - asked[-1] < 5
            assert "x_ahead = n1 * 8 < 16 * AHEAD ? (1 + AHEAD / (n1 * 8 + 1)) * x_s0 : AHEAD" in text
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runtime, "large_bytes", lambda: 2**40)
            patch.setattr(runtime, "outgrows_caches", lambda lines, sizes: False)
            want = near(x, g)
        np.testing.assert_array_equal(far(x, g), want)


def test_what_asks_for_the_next_row_does_so_in_step_with_its_own(large):
    f = ec.compile(lambda x: np.sum(np.exp(x - np.max(x, axis=1, keepdims=True)), axis=0))
    for columns in (700, 900):  # the sum goes by rows, in chunks or not
        text = f.dump(values((300, columns), "float64"))
        assert "FETCH_LINE(FETCH_ROW, x_p + i0 * x_s0 + b1 * x_s1 + x_ahead" in text
    x = values((30, 2700), "float64")
    g = np.ones(30)
    f = ec.compile(softmax)
    assert "STAGE = 16," in f.dump(x[:, ::3], g)  # vectors fill it
    for view in (x[:, ::-1], x[:, ::5]):  # which nobody asks for, and so nothing is cut
        assert "FETCH" not in f.dump(view, g) and "STAGE" not in f.dump(view, g)
        np.testing.assert_array_equal(f(view, g)[3], f(np.ascontiguousarray(view), g)[3])


def test_rows_of_dear_doubles_are_divided_by_products(large):
    def rows(x):
        return np.sum(x, axis=1, keepdims=True)

    for function, dtype, quick in (
            (lambda x: np.exp(x) / rows(np.exp(x)), "float64", True),
            (lambda x: np.exp(x) / rows(np.exp(x)), "float32", False),
            (lambda x: (x - np.max(np.exp(x), axis=1, keepdims=True)) / rows(x), "float64", False)):
        x, f = values((5, 900), dtype), ec.compile(function)
        assert ("elemc_quotients(" in f.dump(x)) == quick
        np.testing.assert_allclose(f(x), function(x), rtol=1e-4 if dtype == "float32" else 1e-11)


def test_rows_that_are_cut_for_asking_end_anywhere(large):
    f = ec.compile(softmax)
    for dtype in ("float32", "float64"):
        for columns in (*range(512, 530), *range(575, 580), *range(633, 648)):
            x, g = values((3, columns), dtype), values(3, dtype)
            np.testing.assert_array_equal(f(x, g)[1], f(x[1:2], g[1:2])[0])
            np.testing.assert_allclose(f(x, g), softmax(x, g), rtol=1e-4 if dtype == "float32" else 1e-12)


def test_large_outputs_are_recognised_on_both_call_paths():
    s = ec.vector("x")
    f = ec.function([s], s + 1)
    n = runtime.large_bytes() // 8
    for size in (n - 1, n, n + 1, 10):
        x = np.arange(float(size))
        for _ in range(2):
            assert np.array_equal(f(x), x + 1)
        closed, signature = f.example((x,))
        assert signature.large == (size >= n)
        assert ("elemc_stream" in f.dump(x)) == (size >= n)
    assert [c.spec.large for c in f.specializations] == [False, True]
    assert getattr(f, "_hits", 4) == 6  # all but the first call of each kind


@pytest.mark.skipif(runtime.second_bytes() >= runtime.large_bytes(), reason="the third cache is small")
@pytest.mark.parametrize("shape", [(), (200,)])
def test_where_the_inputs_of_folds_come_from(shape):
    """What is more than the second cache holds is asked for, of everything and of rows."""
    s = ec.array("x", ndim=1 + len(shape))
    f = ec.function([s], ec.sum(s, axis=-1))
    n = runtime.second_bytes() // (8 * 200 if shape else 8)
    for size in (n, n + 1, n - 1):
        x = np.ones((size, *shape))
        for _ in range(2):
            assert np.array_equal(f(x), x.sum(axis=-1))
        third = x.nbytes > runtime.second_bytes()
        assert f.example((x,))[1].third == third
        assert ("FETCH_STREAM(x_p" in f.dump(x)) == third
    assert {c.spec.third for c in f.specializations} == {False, True}
    assert getattr(f, "_hits", 6 - len(f.specializations)) == 6 - len(f.specializations)


@pytest.mark.parametrize("columns", [17, 127, 128, 384, 385, 768, 769])
def test_rows_of_several_operands_are_added_by_ones_or_twos(columns, large):
    """In the same order as those of one, of which 1 to 3 KiB go by ones, too."""
    f, g = ec.compile(lambda x, y: (x * y).sum(axis=0)), ec.compile(lambda x: x.sum(axis=0))
    x = values((131, columns), "float64")
    y = x + 1
    assert np.array_equal(f(x, y), g(x * y))
    alone = columns not in (17, 769)
    assert ("RUN" not in f.dump(x, y)) == alone and ("RUN = 2," in f.dump(x, y)) != alone
    rows = {128: 1, 384: 1, 769: 8}.get(columns, 4)
    assert f"RUN = {rows}," in g.dump(x) if rows > 1 else "RUN" not in g.dump(x)


@pytest.mark.parametrize("columns", [17, 63, 64, 300])
def test_rows_of_several_operands_from_the_third_cache(columns, monkeypatch):
    """They are added one by one as those from memory, and by twos in the second one."""
    x = values((131, columns), "float64")
    want = ec.compile(lambda x: x.sum(axis=0))(x * (x + 1))
    for second in (x.nbytes * 2, x.nbytes):
        monkeypatch.setattr(runtime, "second_bytes", lambda held=second: held)
        f, twos = ec.compile(lambda x, y: (x * y).sum(axis=0)), columns < 64 or second > x.nbytes
        assert np.array_equal(f(x, x + 1), want)
        assert ("RUN = 2," in f.dump(x, x + 1)) == twos and ("RUN" in f.dump(x, x + 1)) == twos


@pytest.mark.parametrize("columns", [5, 33, 129, 512, 513, 2000])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_short_rows_that_go_back_are_asked_for(large, dtype, columns):
    """From the last element of a block, which lies first, some rows ahead; longer ones are not."""
    f = ec.compile(lambda x, g: np.exp(x) * g)
    x, g = values((70, columns), dtype), values(columns, dtype)
    for rows in (x[:, ::-1], x[::-1, ::-1], x[:, ::-1][::2], x[:1, ::-1]):
        np.testing.assert_array_equal(f(rows, g), f(rows.copy(), g))
        asked = "(b1 + LINE - 1) * x_s1 + x_ahead" in f.dump(rows, g)
        apart = len(rows) > 1 and not (rows.strides[0] < 0)
        assert asked == (apart and 33 < columns <= 4096 // x.itemsize)
    apart = np.repeat(x, 2, axis=1)[:, ::2]  # blocks are half as long
    h = ec.compile(lambda x, y: x * y)
    np.testing.assert_array_equal(h(x[:, ::-1], apart), x[:, ::-1] * x)
    halves = "(b1 + LINE / 2 - 1) * x_s1 + x_ahead, LINE / 2 *" in h.dump(x[:, ::-1], apart)
    assert halves == (33 < columns <= 4096 // x.itemsize)
    out = np.empty_like(x)
    f(x[:, ::-1], g, out=out[::-1])
    np.testing.assert_array_equal(out[::-1], f(x[:, ::-1].copy(), g))


def test_lines_that_are_worth_it():
    """Short ones that follow each other; longer ones that wait for divisions, or functions."""
    f, g, h = (ec.compile(lambda x, v, op=op: op(x) * v)
               for op in (lambda x: x, lambda x: 2 / x, np.exp))
    for length, plain, dividing, calling in (
            (1, True, True, True), (3, True, False, False), (15, True, False, False),
            (16, True, True, False), (127, True, True, False), (128, True, True, True)):
        rows = runtime.large_bytes() // (8 * length) + 1
        x, v = np.ones((rows, length)), np.full((rows, 1), 2.0)
        for function, large in ((f, plain), (g, dividing), (h, calling)):
            for _ in range(2):
                assert np.allclose(function(x, v), function(x[:1], v[:1])[0])
            assert ("elemc_stream" in function.dump(x, v)) == large


def test_short_lines_do_not_go_past_the_caches():
    s, v = ec.matrix("x"), ec.array("v", ndim=2)
    f = ec.function([s, v], s * v)
    rows = runtime.large_bytes() // 8
    x, column = np.ones((rows, 3)), np.arange(float(rows))[:, None]
    place = np.zeros((rows, 4))[:, :3]  # between the lines is something else
    assert np.array_equal(f(x, column, out=place), x * column)
    assert [c.spec.large for c in f.specializations] == [False]
    assert f.example((x, x))[1].large  # one line, when axes are merged


@pytest.mark.parametrize(
    "shape", [(1, 1), (3, 70), (9, 70), (64, 64), (65, 127), (200, 130), (130, 1)])
def test_what_lies_across_is_read_in_tiles(large, shape):
    a, b, h = ec.matrix("a"), ec.matrix("b"), ec.array("h", ndim=2, dtype="float16")
    x, y = values(shape, "float64"), values(shape[::-1], "float64")
    z = values(shape[::-1], "float16")
    f = ec.function([a, b, h], [a + b.T, h.T * b.T - a, a.T * 2])
    for got, want in zip(f(x, y, z), (x + y.T, z.T * y.T - x, x.T * 2), strict=True):
        assert np.array_equal(got, want)
    assert ("_tile[TILE][TILE + PAD]" in f.dump(x, y, z)) == (min(shape) >= 8)
    cube, other = ec.tensor3("x"), ec.tensor3("y")
    g = ec.function([cube, other], cube - other.transpose(0, 2, 1))
    many = values((5, *shape), "float64")
    flipped = np.ascontiguousarray(many.transpose(0, 2, 1)) + 1
    assert np.array_equal(g(many, flipped), many - flipped.transpose(0, 2, 1))


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u4", "c8", "i2", "u1", "?", "c16", ">f8"])
def test_tiles_of_all_dtypes(large, stores, dtype):
    """Squares of lines, and what is left of them on either side."""
    f = ec.compile(lambda a, b: ec.where(a == b.T, a, b.T))
    pairs = []
    for shape in ((16, 16), (7, 300), (300, 7), (129, 257), (281, 133)):
        x, y = (np.random.default_rng(k).integers(0, 100, shape[::(-1) ** k]).astype(dtype)
                for k in (0, 1))
        pairs += [(x, y), (x[:-1], y[:, :-1])]  # lines further apart than they are long
    compile_together((f, pair) for pair in pairs)
    for x, y in pairs:
        assert np.array_equal(f(x, y), np.where(x == y.T, x, y.T))
    assert ("turn_" in f.dump(x, y)) == (dtype not in ("?", "c16", ">f8"))


@pytest.mark.parametrize(("shape", "tiled"), [
    ((100, 100), False), ((128, 128), True), ((129, 129), False), ((256, 40), True),
    ((40, 256), False), ((513, 511), False), ((130, 600), True), ((600, 30), False),
    ((30, 600), False)])  # strips of these go around records
def test_lines_that_the_first_cache_does_not_hold(shape, tiled):
    """Those that are a multiple of a power of 2 apart meet in few of its sets."""
    a, b = ec.matrix("a"), ec.matrix("b")
    f = ec.function([a, b], a - b)
    x, y, small = values(shape, "float64"), values(shape[::-1], "float64"), values((20, 20), "float64")
    assert np.array_equal(f(x, y.T), x - y.T)
    assert ("_tile" in f.dump(x, y.T)) == tiled
    assert "_tile" not in f.dump(x, x)
    assert np.array_equal(f(small, small.T), small - small.T)
    for _ in range(2):  # the call path in C agrees on which kernel it is
        hits = f._hits
        assert np.array_equal(f(x, y.T), x - y.T) and np.array_equal(f(y.T, x), y.T - x)
        assert np.array_equal(f(small, small.T), small - small.T)
        for part in (x[:, :20], x[::-1], x[:, ::-1], x[::2]):
            other = np.asfortranarray(part)
            assert np.array_equal(f(part, other), part - other)
    assert f._hits - hits == 7


def test_what_is_read_across_in_some_dimensions():
    f = ec.compile(lambda x, y: x * y + 1)
    x, y = values((6, 64, 9, 64), "float64"), values((64, 9, 64, 6), "float64")
    for axes in ((3, 0, 1, 2), (3, 2, 1, 0), (3, 0, 1, 2)):
        assert np.array_equal(f(x, y.transpose(axes)), x * y.transpose(axes) + 1)
        assert np.array_equal(f(x, y.transpose(axes)), x * y.transpose(axes) + 1)


def test_many_tiles_are_smaller(large):
    given = [np.random.default_rng(k).random((300, 290)) for k in range(6)]
    f = ec.compile(lambda a, *rest: a * sum(b.T for b in rest))
    x = given[0].T.copy()
    np.testing.assert_allclose(f(x, *given[1:]), x * sum(b.T for b in given[1:]))
    assert "TILE = 64" in f.dump(x, *given[1:])


def test_columns_in_a_thread_with_a_small_stack():
    f = ec.compile(lambda x: tuple((x * (k + 1.5)).sum(axis=0) for k in range(8)))
    x = np.ones((20000, 1024))
    found = []
    before = threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(target=lambda: found.extend(f(x)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert [float(part[-1]) for part in found] == [20000 * (k + 1.5) for k in range(8)]


FOLDS = {
    "sum": lambda x: x.sum(axis=0), "max": lambda x: x.max(axis=0),
    "masked": lambda x: np.sum(x, axis=0, where=x > 0), "several": lambda x: (
        (x * x).sum(axis=0), np.abs(x).min(axis=0), x.mean(axis=0, keepdims=True)),
    "variance": lambda x: x.var(axis=0), "centred": lambda x: x - x.mean(axis=0),
    "weighted": lambda x: (x * x[:, :1]).sum(axis=0), "of functions": lambda x: np.exp(x).sum(axis=0),
    "rows too": lambda x: (x.sum(axis=0), x.sum(axis=1)), "places": lambda x: (x * x - x).argmax(axis=0),
    "places of elements": lambda x: x.argmax(axis=0),
    "running": lambda x: np.cumsum(x, 0).sum(axis=0), "all": lambda x: (x.sum(axis=0), x.sum()),
}


SHAPES = [(200, 512), (4097, 21), (2500, 7), (600, 5, 20), (3, 200), (130, 769), (0, 9)]


@pytest.mark.parametrize("dtype, name", [
    pytest.param(dtype, name, marks=pytest.mark.optimized(
        dtype == "float64" and name == "places"))
    for dtype in ("float64", "float32") for name in FOLDS
    if dtype == "float64" or name in ("sum", "max", "places of elements", "rows too", "all")])
def test_chunks_of_short_rows_have_the_same_bits(monkeypatch, name, dtype):
    """Many short rows, and few slices of them, are folded in chunks; others in strips of columns.

    Longer rows are not, nor rows so few that the compiler unrolls their loop, nor what is empty;
    from memory, they are longer, but for places.  Slices that are not one row go by rows, in
    chunks however many they are, of several operands or from memory.
    """
    def by_rows(x, far):
        return x.ndim == 3 and (name == "weighted" or name == "rows too" and far)

    shapes = SHAPES[:-1] if name in ("max", "several") or "places" in name else SHAPES
    tables = [values(shape, dtype) for shape in shapes]

    def folds(large, least):
        with monkeypatch.context() as patch:
            patch.setattr(runtime, "large_bytes", lambda: large)
            for short in elements.CHUNKED:
                patch.setitem(elements.CHUNKED, short, least)
            f = ec.compile(FOLDS[name])
            compile_together((f, (x,)) for x in tables)
            for x in tables:
                found = f(x)
                yield (found if isinstance(found, tuple) else (found,),
                       "chunks)" in f.dump(x, stage="nest"))

    wants = []
    for x, (want, chunked) in zip(tables, folds(elements.LONGEST, elements.LONGEST), strict=True):
        # whose length nobody told
        assert chunked == (name == "all" and x.size == 0 or by_rows(x, far=False))
        wants.append(want)
    for large, least in ((elements.LONGEST, 1), (0, elements.LONGEST), (0, 1)):
        far = large == 0 and name != "places of elements"
        for x, want, (got, chunked) in zip(tables, wants, folds(large, least), strict=True):
            if x.size == 0 or x.shape[1] > (elements.FAR_NARROW if far else elements.NARROW):
                assert chunked == (name == "all" and (x.size == 0 or least == 1))
            elif len(x) > elements.FEW:
                whole = name == "running" or name == "places" and x.shape[-1] > elements.SHORT
                assert chunked == (least == 1 and not whole or by_rows(x, far))
            for one, other in zip(got, want, strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["sum", "max", "masked", "several", "centred", "of functions", "places",
                                  "places of elements"])
def test_what_lies_across_slices_goes_by_rows(name):
    f, plain = ec.compile(lambda x, y: FOLDS[name](x - y)), ec.compile(lambda x, y: FOLDS[name](x - y))
    x, y = values((150, 5, 300), "float32"), values((150, 300, 5), "float32").transpose(0, 2, 1)
    assert ("parts0" in f.dump(x, y)) == (name != "places")
    got, want = f(x, y), plain(x, np.ascontiguousarray(y))
    for one, other in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, want)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_lies_across_slices_stays_in_a_cache():
    """Where several axes are folded, or one of few elements, which threads could not share."""
    x, y = values((20, 5, 300), "float32"), values((20, 300, 5), "float32").swapaxes(1, 2)
    f = ec.compile(lambda x, y: np.max(x - y, axis=0))
    assert "SLICED" in f.dump(x, y)
    np.testing.assert_array_equal(f(x, y), np.max(x - y, axis=0))
    x, y = values((3, 7, 5, 300), "float32"), values((3, 7, 300, 5), "float32").swapaxes(2, 3)
    f = ec.compile(lambda x, y: np.sum(x[:, ::-1] - y, axis=(0, 1)))
    assert "SLICED" in f.dump(x, y)
    np.testing.assert_array_equal(f(x, y), f(x, np.ascontiguousarray(y)))


@pytest.mark.parametrize("shape", [(17, 70, 31), (70, 17, 5), (3, 40, 300), (0, 4, 7)])
def test_of_few_turns_each_is_a_chunk(monkeypatch, shape):
    """Threads share them, and the bits are the same."""
    x, y = values(shape, "float64"), values(shape[::-1], "float64").T
    for fold in (lambda x, y: np.sum(x * y), lambda x, y: (np.sum(np.exp(x) * y), np.min(x + y, initial=9), x * y),
                 lambda x, y: x * y / np.sqrt(np.mean(x * y) ** 2 + 1)):
        found = []
        for least in (1, elements.LONGEST):
            monkeypatch.setitem(elements.CHUNKED, False, least)
            f = ec.compile(fold)
            got = f(x, y)
            found.append(got if isinstance(got, tuple) else (got,))
            assert ("chunks)" in f.dump(x, y, stage="nest")) == (least == 1 or x.size == 0)
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("columns, asks", [(12, True), (20, True), (127, True), (128, False)])
def test_short_rows_that_are_folded_side_by_side_are_asked_for(large, columns, asks):
    """Those that follow each other in memory, of less than 1024 bytes, which processors foresee late."""
    x = np.random.default_rng(3).standard_normal((1100, columns))
    apart = np.random.default_rng(4).standard_normal((1100, 3, columns))[:, 1]
    f = ec.compile(lambda x: np.max(x, axis=0))
    assert ("FETCH_SHORT" in f.dump(x)) == asks and "FETCH" not in f.dump(apart)
    np.testing.assert_array_equal(f(x), np.max(x, axis=0))
    for function in (lambda x: np.var(x, axis=0), lambda x: np.mean(np.max(x * x, axis=0))):  # again, and folded
        f = ec.compile(function)
        assert ("FETCH_SHORT" in f.dump(x)) == asks
        np.testing.assert_allclose(f(x), function(x), rtol=1e-13)


@pytest.mark.parametrize("shape, asks", [((1100, 3, 17), True), ((1100, 3, 42), True), ((1100, 3, 43), False)])
def test_rows_of_two_axes_are_as_long_as_both(large, shape, asks):
    x = np.random.default_rng(3).standard_normal(shape)
    f = ec.compile(lambda x: np.sum(x, axis=0))
    assert ("FETCH_SHORT" in f.dump(x)) == asks
    np.testing.assert_allclose(f(x), np.sum(x, axis=0), atol=1e-12)


def test_what_is_folded_within_lanes_is_not_asked_for(large):
    """At one place, for it is read at many."""
    f = ec.compile(lambda x, y: ((x + y[:, None, :]).sum(axis=1), y.sum(axis=1)))
    x = values((5, 7, 64), "int32").swapaxes(0, 1)
    y = values((7, 64), "int32")
    for got, want in zip(f(x, y), ((x + y[:, None, :]).sum(axis=1), y.sum(axis=1)), strict=True):
        assert np.array_equal(got, want)
    text = f.dump(x, y)
    assert "i2 * x_s2" in text and not re.search(r"FETCH_(AHEAD|SUM)\(x_p", text)


@pytest.mark.parametrize("step", [-3, -2, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_lies_apart_among_others_is_asked_for(large, dtype, step):
    x, apart = values(5000, dtype), values(5000 * abs(step), dtype)[::step]
    f = ec.compile(lambda x, y: x * y + 1)
    np.testing.assert_array_equal(f(x, apart), x * apart + 1)
    text = f.dump(x, apart)
    assert ("FETCH_LINE(FETCH_APART, y_p + b0 * y_s0, LINE / 2" in text) == (step in (2, 3, 4))
    assert (", LINE / 2);" in text) == (step in (-3, -2, 2, 3, 4))
    both = f.dump(apart, apart[:])
    assert "FETCH_APART" not in both and (", LINE / 2);" in both) == (step in (-3, -2, 2, 3, 4))


@pytest.mark.parametrize("threads", [1, 2])
def test_blocks_of_narrow_outputs_beside_wide_ones(large, threads):
    """A block has elements of the widest output; the narrowest has more of them in a line."""
    x, m = values(6000, "float64")[::2], values(3000, "float64")
    table, rows = values((40, 600), "float64"), values((2, 600), "float64")
    f = ec.compile(lambda x, m: (x != m, (x + m).astype("c16"), (x * m).astype("c8")))
    g = ec.compile(lambda x, m, g: (x > m, (x * g).astype("c16"), (x * g + m).sum(axis=1)))
    before = ec.get_num_threads()
    ec.set_num_threads(threads)
    try:
        for start in range(0, 64, 5):
            memory = np.zeros(3100, bool)
            out = memory[start:start + 3000]
            f(x, m, out=(out, np.empty(3000, "c16"), np.empty(3000, "c8")))
            assert np.array_equal(out, x != m)
            assert not memory[:start].any() and not memory[start + 3000:].any()
            flags = np.zeros(24_100, bool)[start:start + 24_000].reshape(40, 600)
            g(table, *rows, out=(flags, np.empty((40, 600), "c16"), np.empty(40)))
            assert np.array_equal(flags, table > rows[0])
    finally:
        ec.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("shape", "axis"), [
    ((19, 5000), 0), ((300, 2100), 0), ((2, 4000), 0), ((3, 40, 2050), 1), ((7, 3, 2049), (0, 1))])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_strips_are_stored_where_their_columns_are_folded(monkeypatch, dtype, shape, axis, threads):
    """What functions give waits in the strip's output, or is computed again: the same bits."""
    def softmax(x):
        e = np.exp(x - np.max(x, axis=axis, keepdims=True))
        return e / np.sum(e, axis=axis, keepdims=True)

    x = values(shape, dtype)
    want = ec.compile(softmax)(x)
    np.testing.assert_allclose(want, softmax(x), rtol=1e-5 if dtype == "float32" else 1e-13)
    monkeypatch.setattr(runtime, "large_bytes", lambda: 0)
    monkeypatch.setattr(runtime, "outgrows_caches", lambda lines, sizes: bool(lines))
    f = ec.compile(softmax)
    exp = "elemc_exp(" if dtype == "float64" else "elemc_expf("
    assert f.dump(x).count(exp) == ec.compile(lambda x: np.exp(x).sum(axis=axis)).dump(x).count(exp)
    assert "phase == 1" not in f.dump(x) and "elemc_stream" not in f.dump(x)
    mean = ec.compile(lambda x: x - np.mean(x, axis=axis, keepdims=True))  # is soon read again
    assert "phase == 1" in mean.dump(x) or len(shape) == 3 or shape[0] == 2
    before = ec.get_num_threads()
    ec.set_num_threads(threads)
    try:
        np.testing.assert_array_equal(f(x), want)
        memory = np.full(x.size + 5, 7, dtype)
        out = memory[3:-2].reshape(shape)
        np.testing.assert_array_equal(f(x, out=out, req="add"), want + 7)
        out[:] = x
        assert f(out, out=out) is out
        np.testing.assert_array_equal(out, want)
        assert (memory[:3] == 7).all() and (memory[-2:] == 7).all()
    finally:
        ec.set_num_threads(before)


@pytest.mark.parametrize("shape", [(600, 40), (1100, 300), (40, 7, 300), (3000, 5)])
@pytest.mark.parametrize("axis", [0, 1, -1, (0, -1)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_functions_that_are_computed_again_for_what_is_streamed(large, shape, axis, dtype):
    def softmax(x):
        e = np.exp(x - np.max(x, axis=axis, keepdims=True))
        return e / np.sum(e, axis=axis, keepdims=True)

    x = values(shape, dtype)
    np.testing.assert_allclose(ec.compile(softmax)(x), softmax(x), rtol=3e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("rows, columns, step, asked", [
    (7, 63, 1, False), (7, 64, 1, True), (2, 200, 1, True), (9, 64, 1, False), (7, 32, 2, True),
    (3, 800, 1, False)])
def test_few_rows_side_by_side_ask_for_the_next(rows, columns, step, asked, monkeypatch):
    monkeypatch.setattr(runtime, "large_bytes", lambda: 0)
    monkeypatch.setattr(runtime, "outgrows_caches", lambda lines, sizes: False)
    x = values((20, rows, columns * step), "float64")[:, :, ::step]
    for function in (lambda x: np.sum(x, axis=1), lambda x: np.max(x * x, axis=1)):
        f = ec.compile(function)
        assert ("FETCH_LINE(FETCH_NEXT, x_p + i0 * x_s0 + i2 * x_s2 + x_s0," in f.dump(x)) == asked
        np.testing.assert_allclose(f(x), function(x), rtol=1e-13)


@pytest.mark.parametrize("length, streamed", [(300, False), (4096, False), (4097, True), (9000, True)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_few_rows_that_are_folded_side_by_side_past_the_caches(large, dtype, length, streamed):
    x = values((3, length), dtype)
    for function in (lambda x: np.sum(x, axis=0), lambda x: np.max(x, axis=0), lambda x: np.std(x, axis=0),
                     lambda x: x - np.mean(x, axis=0)):
        f, each = ec.compile(function), function(x).ndim == 2
        assert "STRIP" not in f.dump(x) and "phase == 1" not in f.dump(x)
        assert ("elemc_stream" in f.dump(x)) == (streamed and not each)
        want = function(x)
        np.testing.assert_allclose(f(x), want, rtol=1e-5 if dtype == "float32" else 1e-13, atol=1e-6 if dtype == "float32" else 1e-14)
        wide = np.full((*want.shape[:-1], length + 5), 7, want.dtype)
        f(x, out=wide[..., 3:-2])
        np.testing.assert_array_equal(wide[..., 3:-2], f(x))
        assert (wide[..., :3] == 7).all() and (wide[..., -2:] == 7).all()
        np.testing.assert_array_equal(f(x[:, 5:200]), f(x)[..., 5:200])


@pytest.mark.parametrize("columns, several, chosen", [
    (300, False, False), (500, False, True), (1536, False, True), (1537, False, False),
    (500, True, False), (1000, True, True), (1537, True, False)])
def test_columns_go_row_by_row_where_one_stream_is_foreseen(large, monkeypatch, columns, several, chosen):
    """That is, where sums ask for nothing, and the states of a row stay in the first cache."""
    x, y = values((2, 300, columns), "float64")
    folds = [np.sum, np.max]
    functions = [(lambda x, y, fold=fold: fold(x * y, axis=0)) for fold in folds] if several else [
        (lambda x, fold=fold: fold(x, axis=0)) for fold in folds]
    args = (x, y) if several else (x,)
    real = build.machine_constants(build.toolchain())
    for function in functions:
        found = []
        for way in (0, 1):
            monkeypatch.setattr(build, "machine_constants", lambda tool, way=way: real._replace(sum_asks=way))
            f = ec.compile(function, static="fold")
            found.append(f(*args))
            assert ("BY_RUNS" in f.dump(*args)) == chosen
        np.testing.assert_allclose(found[0], function(*args), rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(*found)


def test_few_rows_beside_what_lies_apart_or_is_read_again(large):
    """These are not asked for before the loop: each is in several places."""
    x, y, w = values((3, 9002), "float64")[:, ::2], values((3, 4501), "float64"), values((20, 3, 4501), "float64")
    for function, args in (
            (lambda x, y: np.sum(x * y, axis=0), (x, y)),
            (lambda w, x: np.max(w - x, axis=1), (w, x)),
            (lambda w, y, v: np.sum(w * y, axis=1) * v[0] + v[1], (w, y, y[:2]))):
        f = ec.compile(function)
        assert "elemc_stream" in f.dump(*args)
        np.testing.assert_allclose(f(*args), function(*args), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rows", [7, 9, 16, 33])
def test_chunks_have_no_tiles(rows):
    """What is read across in chunks of an axis is not turned in tiles along that."""
    def function(h, w):
        a = h @ np.swapaxes(h, -1, -2)
        return np.exp((a @ (h @ w) + h) * 0.1), a

    random = np.random.default_rng(rows)
    h, *slopes = (random.random(s) for s in ((3, rows, 1), (3, rows, 1), (3, rows, rows)))
    pull, w = ec.vjp(ec.compile(function)), random.random((1, 1))
    for got, want in zip(pull(np.asfortranarray(h), w, *slopes), pull(h, w, *slopes), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("rows", [61, 300])
def test_what_is_folded_across_in_chunks_has_no_tiles(rows):
    """Tiles begin no fold: one by rows has begun around them, or goes without."""
    def function(c):
        t = c + np.sum(c, axis=1, keepdims=True) / 10
        t = t / np.sum(np.abs(t) + 1, axis=0, keepdims=True)
        return t / np.sqrt(np.mean(t * t, axis=0, keepdims=True) + 1)

    c, slope = np.random.default_rng(rows).random((2, rows, rows))
    pull = ec.vjp(ec.compile(function))
    np.testing.assert_allclose(pull(c, np.asfortranarray(slope)), pull(c, slope), rtol=1e-11)
