"""What is dear and needed again waits in the output that is made of it."""

import numpy as np
import pytest

import elemc as ec
from elemc import binding, build, runtime, schedule

X = np.random.default_rng(0).standard_normal((70, 130))


def columns(x):
    e = ec.exp(x - x.max(axis=0, keepdims=True))
    return e / e.sum(axis=0, keepdims=True)


def everything(x):
    t = ec.tanh(x) * ec.exp(x)
    return t - t.mean()


def twice(x):  # first t waits, then what is made of it
    t = ec.exp(-ec.fabs(x))
    e = ec.exp(t - t.max(axis=0, keepdims=True))
    return e / e.sum(axis=0, keepdims=True)


def several(x):
    t = ec.exp(x)
    return [t - t.mean(axis=0), t / t.sum(axis=0), ec.log(t) * t.max(axis=0)]


def numpy_of(fn, x):
    names = "exp tanh fabs log".split()
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(ec, name, getattr(np, name))
        return fn(x)


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, lambda a: a[:, ::-1]])
@pytest.mark.parametrize("fn", [columns, everything, twice, several])
def test_values(fn, layout):
    s = ec.matrix("x")
    made = fn(s)
    f = ec.function([s], made)
    x = layout(X)
    want = numpy_of(fn, x)
    want = want if isinstance(made, list) else [want]
    for again in range(3):
        got = f(x)
        for g, w in zip(got if isinstance(made, list) else [got], want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-13), again
    if not isinstance(made, list):
        place = x.copy(order="K")
        assert f(place, out=place) is place  # what is kept there may not be read as the input
        np.testing.assert_allclose(place, want[0], rtol=1e-12, atol=1e-13)
        wide = np.zeros((70, 131))
        wide[:, :-1] = x
        f(wide[:, :-1], out=wide[:, 1:])
        np.testing.assert_allclose(wide[:, 1:], want[0], rtol=1e-12, atol=1e-13)


def test_once():
    s = ec.matrix("x")
    # declared, and called
    assert ec.function([s], columns(s)).dump(X).count(" elemc_exp_each(") == 2
    lines = ec.function([s], everything(s)).dump(X)
    assert lines.count("elemc_tanh(") == 4  # declared; in lanes, again at the end, one by one
    both = ec.function([s], twice(s)).dump(X)
    assert both.count(" elemc_exp_each(") == 3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [2, 3, 7, 9, 15])
def test_narrow_rows_side_by_side(width, dtype):
    """Rows of a narrow table are taken together; what waits in the output goes back there."""
    s = ec.matrix("x", dtype)
    x = np.random.default_rng(1).standard_normal((2500, width)).astype(dtype)
    x[1111, 1], x[2345, -1] = np.nan, np.inf
    for fn in (columns, twice, lambda x: [e := ec.exp(-ec.fabs(x)), e.sum(axis=0)]):
        f = ec.function([s], fn(s))
        assert "PACK" in f.dump(x)
        got = f(x)
        with np.errstate(all="ignore"):
            want = numpy_of(fn, x.astype(float))
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-5 if dtype == "float32" else 1e-12)
        if fn is columns:
            place = x.copy()
            np.testing.assert_array_equal(f(place, out=place), got)


def test_masked_and_added_outputs_keep_nothing():
    s = ec.matrix("x")
    f = ec.function([s], columns(s))
    out, mask = np.full(X.shape, 7.0), X > 0
    f(X, out=out, where=mask)
    want = np.where(mask, numpy_of(columns, X), 7)
    np.testing.assert_allclose(out, want, rtol=1e-12)
    out[...] = 1
    f(X, out=out, req="add")
    np.testing.assert_allclose(out, 1 + numpy_of(columns, X), rtol=1e-12)


@pytest.mark.parametrize("columns", [17, 24, 40])
def test_all_of_a_short_row_from_memory_is_asked_for(columns):
    f = ec.compile(lambda x: ec.sum(x, axis=1))
    x = np.random.default_rng(1).standard_normal((2_400_000 // columns, columns + 9))[:, :columns]
    for rows in (x, x[::-1], x[:50]):
        np.testing.assert_allclose(f(rows), rows.sum(axis=1), atol=1e-11)
    text = f.dump(x)
    assert "FETCH_STREAM(x_p + i0 * x_s0 + (n1 - 1) * x_s1 + x_ahead);" in text
    assert "FETCH" not in f.dump(x[:50])


ROWS = {
    "max": (lambda x, v: np.max(x, axis=1), True), "sum": (lambda x, v: np.sum(x, axis=1), True),
    "product of a vector": (lambda x, v: np.sum(x * v, axis=1), True),
    "norm": (lambda x, v: np.sqrt(np.sum(x * x, axis=1)), True),
    "mean and scale": (lambda x, v: np.mean(x, axis=1) * 2 + v[0], True),
    "written": (lambda x, v: x - np.max(x, axis=1, keepdims=True), False),
    "two arrays": (lambda x, v: np.sum(x * x[::-1], axis=1), False),
    "dear": (lambda x, v: np.sum(np.exp(x), axis=1), False),
    "places": (lambda x, v: np.argmax(x, axis=1), False)}


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("name", ROWS)
def test_long_rows_from_memory_go_by_fours(name, rows, monkeypatch):
    """Of one array; their bits are those of rows alone, and of a machine that prefers one stream."""
    real = build.machine_constants(build.toolchain())
    monkeypatch.setattr(build, "machine_constants", lambda tool: real._replace(sum_rows=rows))
    function, fours = ROWS[name]
    f = ec.compile(function)
    x, v = np.random.default_rng(1).standard_normal((2103, 1024)), np.linspace(-1, 1, 1024)
    got = f(x, v)
    assert ("STREAMS &&" in f.dump(x, v)) == fours
    assert "STREAMS" not in f.dump(x[:, :1023], v[:1023]) and "STREAMS" not in f.dump(x[:50], v)
    for count in (1, 2, 3, 5, 2102) if name != "two arrays" else ():
        np.testing.assert_array_equal(f(x[:count], v), got[:count])
    np.testing.assert_allclose(got, function(x, v), rtol=1e-10, atol=1e-11)


def moment(x):
    """What lies at each place, times the place."""
    return np.sum(x * (np.arange(x.size) if isinstance(x, np.ndarray) else ec.arange(x.size)))


EVERYTHING = {
    "sum": (lambda x: np.sum(x), True), "max": (lambda x: np.max(x), True),
    "mean and variance": (lambda x: (np.mean(x), np.var(x)), True),
    "bytes": (lambda x: np.sum(x), True), "moment": (moment, True),
    "count": (lambda x: np.count_nonzero(x > 0), True),
    "rows": (lambda x: np.sum(x, axis=1), True),
    "two arrays": (lambda x: np.sum(x * x[::-1]), True),
    "three": (lambda x: np.sum(x[2:] * x[1:-1] * x[:-2]), False), "any": (lambda x: np.any(x > 9), False),
    "dear": (lambda x: np.sum(np.exp(x)), False)}


@pytest.mark.parametrize("name", EVERYTHING)
def test_chunks_and_trees_from_memory_go_by_fours(name, monkeypatch):
    """Of one array; their bits are those of a machine that prefers one stream."""
    real = build.machine_constants(build.toolchain())
    function, fours = EVERYTHING[name]
    x = np.random.default_rng(1).standard_normal(2_200_000)
    x = np.repeat(x > 0, 8) if name == "bytes" else x
    sizes = [x.size - less for less in (0, 1, 4543, 4544, 29_115)]
    some = [x[:n - n % 7].reshape(7, -1) if name == "rows" else x[:n] for n in sizes]
    got = []
    for rows in (1, 4):
        monkeypatch.setattr(build, "machine_constants", lambda tool, n=rows: real._replace(
            sum_rows=n))
        f = ec.compile(function)
        got.append([f(part) for part in some])
        assert ("STREAMS &&" in f.dump(some[0])) == fours
        assert "STREAMS" not in f.dump(some[0][..., :2100])
    np.testing.assert_equal(*got)
    np.testing.assert_allclose(got[0][0], function(some[0]), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("way", [0, 1, 2, 8])
@pytest.mark.parametrize("fetch", ["AHEAD", "SUM"])
def test_rows_from_memory_are_asked_for_in_advance(fetch, way, monkeypatch):
    """By what does little besides as the machine's own sums are fastest."""
    real = build.machine_constants(build.toolchain())
    monkeypatch.setattr(build, "machine_constants", lambda tool: real._replace(
        asks=way, sum_asks=way))
    s = ec.matrix("x")
    f = ec.function([s], [s.sum(axis=1), s.argmax(axis=1) if fetch == "AHEAD" else s.max(axis=1)])
    x = np.random.default_rng(1).standard_normal((2200, 1000))
    assert f"FETCH_{fetch}(x_p" in f.dump(x) and "FETCH" not in f.dump(x[:30])
    wants = x.sum(axis=1), x.argmax(axis=1) if fetch == "AHEAD" else x.max(axis=1)
    for got, part, want in zip(f(x), f(x[:100]), wants, strict=True):
        assert np.array_equal(got[:100], part)
        np.testing.assert_allclose(got, want, atol=1e-11)


@pytest.mark.parametrize("columns", [21, 31, 37, 48, 100])
def test_rows_that_end_in_lanes_in_place(columns):
    """The last elements of a row are taken again, though some may be overwritten by then."""
    x = np.random.default_rng(0).normal(size=(5, columns))
    f = ec.compile(lambda x: (np.tanh(x) * np.exp(x), x.sum(axis=1), x.max(axis=1),
                              (np.tanh(x) * np.exp(x)).sum(axis=1), x.argmin(axis=1)))
    want = [np.array(a) for a in f(x)]
    np.testing.assert_allclose(want[1], x.sum(axis=1), rtol=1e-12)
    np.testing.assert_array_equal(want[4], x.argmin(axis=1))
    for _ in range(2):
        again = x.copy()
        for got, same in zip(f(again, out=(again, None, None, None, None)), want, strict=True):
            np.testing.assert_array_equal(got, same)


@pytest.mark.parametrize("columns", [17, 31, 37, 100])
def test_rows_that_end_in_lanes_and_one_by_one_in_place(columns):
    """What does not end in lanes is read before these store."""
    horner = ec.Accumulator("horner", 0.0, lambda a, v: a / 2 + v)
    x = np.random.default_rng(0).normal(size=(40, columns))
    for of in (lambda x: ec.accumulate(horner, x, axis=1), lambda x: np.cumsum(x, 1)):
        f = ec.compile(lambda x: (np.tanh(x) * np.exp(x), x.sum(axis=1), of(x)))  # noqa: B023
        want = [np.array(a) for a in f(x)]
        for given in (k for k in (0, 2) if want[k].shape == x.shape):
            again = x.copy()
            outs = tuple(again if k == given else None for k in range(3))
            for got, same in zip(f(again, out=outs), want, strict=True):
                np.testing.assert_array_equal(got, same)


def test_where_new_outputs_begin():
    """As an input does, unless functions fill them: then no vector fills a line (docs/kernels.md).

    What goes past the caches begins with a line.
    """
    f = ec.compile(lambda x: (np.exp(x), x + np.exp(x.sum())))
    for n in (100_000, runtime.large_bytes() // 32):
        f(np.zeros(n))  # the call that compiles lets NumPy find memory
        for _ in range(2):
            x = np.zeros(n)
            assert [y.ctypes.data % 64 for y in f(x)] == [32, x.ctypes.data % 64]


def test_strips_that_compute_ask_for_the_next_row():
    x = np.random.default_rng(2).random((1500, 2000))
    f = ec.compile(lambda x, y, m: (lambda e: (e / 2, np.sum(e * y, axis=0)))(np.exp(x - m)))
    text = f.dump(x, x, x[0])
    for fetch in ("FETCH_NEXT, x", "FETCH_NEXT, y", "FETCH_OUT, z0"):
        name = fetch.split()[-1]
        assert text.count(f"FETCH_LINE({fetch}_p + i0 * {name}_s0 + (b1 + at) * {name}_s1 + "
                          f"{name}_s0, STAGE * 8);") == 1
    assert "STAGE = 64" in text
    assert "FETCH" not in f.dump(x[:9], x[:9], x[0])
    for n in (1993, 2000):
        got = f(x[:, :n], x[:, :n], x[0, :n])
        e = np.exp(x[:, :n] - x[0, :n])
        np.testing.assert_allclose(got[0], e / 2, rtol=1e-13)
        np.testing.assert_allclose(got[1], np.sum(e * x[:, :n], axis=0), rtol=1e-12)


def test_strips_that_wait_for_memory_are_wide():
    f = ec.compile(lambda x: (x.sum(axis=0), x.max(axis=0)))
    x = np.random.default_rng(4).random((530, 4100))
    assert "STRIP = 2048" in f.dump(x) and "STRIP = 512" in f.dump(x[:100])
    for got, want in zip(f(x), (x.sum(axis=0), x.max(axis=0)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)
    for got, part in zip(f(x), f(x[:, 40:60]), strict=True):
        assert np.array_equal(got[40:60], part)
    third = x[:100]  # several streams of it
    for of, arrays, wide in ((lambda x: np.sum(x, axis=0), [third], False),
                             (lambda x, y: np.sum(x * y, axis=0), [third, third + 1], True),
                             (lambda x: np.sum(np.exp(x), axis=0), [x], True),
                             (lambda x: (np.exp(x).sum(axis=0), np.sin(x).max(axis=0)), [x], False)):
        compiled = ec.compile(of)
        np.testing.assert_allclose(compiled(*arrays), of(*arrays), rtol=1e-12)
        assert ("STRIP = 4096" in compiled.dump(*arrays)) == wide


def test_strips_ask_for_the_next_row():
    f = ec.compile(lambda x: np.sum(np.exp(x), axis=0))
    x = np.random.default_rng(3).random((9000, 600))
    for y in (x, x[:, :500], x.reshape(-1, 300), x[:, :300], x.reshape(-1, 20)):
        assert "FETCH_LINE(FETCH_NEXT" in f.dump(y)
        np.testing.assert_allclose(f(y), np.sum(np.exp(y), axis=0), rtol=1e-12)


def test_what_waits_in_an_output_is_not_kept_by_rows_as_well():
    def loss(x, y, c):
        a, b = np.sqrt(1 + x * x), 0.1 * np.exp(-y * y)
        return np.sum((a - np.mean(a, axis=1, keepdims=True)) * np.sqrt(1 + b * b) * c)

    x, y, c = np.random.default_rng(3).standard_normal((3, 40, 30))
    gradient = ec.grad(ec.compile(loss), (0, 1))
    want = gradient(x, y, c)
    for got, other in zip(gradient(x, np.asfortranarray(y), c), want, strict=True):
        np.testing.assert_allclose(got, other, rtol=1e-12, atol=1e-14)
    ways = np.random.default_rng(4).standard_normal((2, 40, 30))
    step = 1e-6
    more, less = (loss(x + s * ways[0], y + s * ways[1], c) for s in (step, -step))
    assert abs((more - less) / (2 * step) - np.sum(ways * want)) < 1e-6


def test_folds_below_what_will_wait_in_an_output_are_buffered():
    def loss(x, y, c):
        e = np.exp(x * y - np.max(x * y, axis=1, keepdims=True))
        return np.sum(e / np.sum(e, axis=1, keepdims=True) * c)

    rng = np.random.default_rng(3)
    x, c = rng.standard_normal((2, 65, 2, 16))
    y = rng.standard_normal((2, 16))
    gradient = ec.grad(ec.compile(loss), (0, 1))
    for got, want in zip(gradient(np.asfortranarray(x), y, c), gradient(x, y, c), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("axis", [0, 1])
def test_what_lies_across_is_read_once(axis):
    def centred(x, y):
        t = x + y
        return t - np.mean(t, axis=axis, keepdims=True)

    f, x, y = ec.compile(centred), *np.random.default_rng(5).random((2, 70, 70))
    text, plain = f.dump(x, y.T), f.dump(x, y)
    if axis == 1:  # a row of it in a buffer, else all of it in the output, as of any two operands
        assert text.count("y_p,") < plain.count("y_p,")
        assert "buffer0[i1] = " in text and "buffer" not in plain
    else:
        assert text.count("z_p,") == plain.count("z_p,") > 1
    assert np.array_equal(f(x, y.T), f(x, np.ascontiguousarray(y.T)))


@pytest.mark.parametrize("of, axis, kept", [
    (lambda x, y: x * y, None, True), (lambda x, y: x * y, 0, True), (lambda x, y: x * y, 1, False),
    (lambda x, y: 2 * x, None, False), (lambda x, y: 2 * x, 0, False),
    (lambda x, y: np.sqrt(x), 0, True), (lambda x, y: np.sqrt(x), 1, True),
    (lambda x, y: 1 / (1 + x), None, True), (lambda x, y: 1 / (1 + x), 1, True),
    (lambda x, y: np.sqrt(x[:, :16]), 1, True), (lambda x, y: np.sqrt(x[:, :15]), 1, False)])
def test_what_several_operands_make_or_takes_long_waits_in_the_output(of, axis, kept):
    """Of several operands if a loop passes over many rows; roots and quotients in long rows, too."""
    x, y = np.random.default_rng(2).random((2, 300, 200))
    for fold in (np.mean, np.max, np.sum):
        def function(x, y):
            t = of(x, y)
            return t / fold(t, axis=axis, keepdims=True)  # noqa: B023

        f = ec.compile(function)
        text = f.dump(x, y)
        assert (text.count("AT(double, z_p") + text.count(" z_p + ") > 1) == kept
        np.testing.assert_allclose(f(x, y), function(x, y), rtol=1e-12)
        if of(x, y).shape == x.shape:
            again = x.copy()
            np.testing.assert_array_equal(f(again, y, out=again), f(x, y))


def beside_its_sum(x, c):
    e = np.exp(x)
    s = e.sum(axis=1, keepdims=True)
    return e * (c * e / s).sum(axis=1, keepdims=True), e / s


def beside_its_mean(x, c):
    v = np.exp(x)
    w = v - v.mean()
    return v - np.mean(w * c), w + x


@pytest.mark.parametrize("function", [beside_its_sum, beside_its_mean])
@pytest.mark.parametrize("shape", [(20, 13), (105, 3), (40, 200), (300, 200)])
@pytest.mark.parametrize("orders", ["CC", "CF", "FC", "FF"])
def test_an_output_is_not_written_before_what_waits_there_is_read(function, shape, orders):
    rng = np.random.default_rng(3)
    x, c = (np.asarray(rng.random(shape), order=o) for o in orders)
    for f in (function, lambda x, c: function(x, c)[::-1]):
        for out, want in zip(ec.compile(f)(x, c), f(x, c), strict=True):
            np.testing.assert_allclose(out, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("orders", ["CF", "FC", "FF"])
def test_gradients_of_layer_norms_in_any_order(orders):
    def cost(x, c):
        d = x - x.mean(axis=1, keepdims=True)
        return (d / np.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5) * c).sum()

    rng = np.random.default_rng(4)
    grad, x, c = ec.grad(ec.compile(cost), (0, 1)), rng.random((200, 100)), rng.random((200, 100))
    again = (np.asarray(a, order=o) for a, o in zip((x, c), orders, strict=True))
    for out, want in zip(grad(*again), grad(x, c), strict=True):
        np.testing.assert_allclose(out, want, rtol=1e-9, atol=1e-11)


def scaled(x):
    v = x * x.sum(axis=1, keepdims=True)
    return v - v.mean(), v


def centred(c):
    w = c - c.mean(axis=1, keepdims=True)
    u = np.tanh(w)
    return w * c, u - u.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("shape", [(8, 3, 13), (8, 13), (8, 300, 20)])
def test_what_is_stored_as_it_is_waits_there(shape):
    x = np.random.default_rng(5).random(shape)
    for out, want in zip(ec.compile(scaled)(x), scaled(x), strict=True):
        np.testing.assert_allclose(out, want, rtol=1e-12, atol=1e-11)


def test_what_waits_for_other_loops_is_made_where_it_was_to_be():
    c = np.random.default_rng(6).random((11, 98))
    outs = np.zeros((98, 11)).T, np.zeros((11, 98))
    for out, want in zip(ec.compile(centred)(c, out=outs), centred(c), strict=True):
        np.testing.assert_allclose(out, want, rtol=1e-12, atol=1e-14)

    def cost(x, c):
        t = x - np.mean(c)
        w = t - np.mean(t, axis=1, keepdims=True)
        return np.mean(np.exp(w) * c)

    x, c = np.random.default_rng(7).random((2, 20, 30))
    both = ec.grad(cost, wrt=(0, 1))(x, c)
    for k in (0, 1):
        np.testing.assert_allclose(both[k], ec.grad(cost, wrt=k)(x, c), rtol=1e-9, atol=1e-12)


def test_what_is_chosen_before_short_rows_is_written_where_it_waits():
    def function(x, c):
        t = c - c.mean(axis=0, keepdims=True)
        u = np.where(t > 0, t, t * 0.5)
        v = u / np.sqrt((u * u).mean(axis=0, keepdims=True) + 1)
        return v - x.mean(), v

    x, c = np.random.default_rng(8).random((2, 9, 9))
    c, outs = np.asfortranarray(c), (np.zeros((9, 9)), np.zeros((9, 9), order="F"))
    f = ec.compile(function)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binding, "FEW", 1)  # kernels of known lengths
        for out, want in zip(f(x, c, out=outs), function(x, c), strict=True):
            np.testing.assert_allclose(out, want, rtol=1e-13, atol=1e-15)


def test_what_waits_is_not_stored_over_before_all_folds_of_the_loop_have_ended():
    def function(x, c):
        t = x / (np.abs(x) + 1).sum(axis=1, keepdims=True)
        u = t / (np.abs(t) + 1).sum(axis=1, keepdims=True)
        return (t + x.sum(axis=0, keepdims=True) / 10) * np.abs(c).max(axis=1, keepdims=True), u

    x, c = (np.repeat(a, 2, axis=-1)[..., ::2] for a in np.random.default_rng(9).random((2, 8, 39)))
    outs = tuple(np.zeros((8, 39), order="F") for _ in range(2))
    for out, want in zip(ec.compile(function)(x, c, out=outs), function(x, c), strict=True):
        np.testing.assert_allclose(out, want, rtol=1e-13, atol=1e-15)


def test_what_waits_in_one_output_does_not_move_to_another():
    def function(x, c):
        v = np.sin(x * x) / (1 + c * c)
        return v / (np.abs(v) + 1).sum(axis=0), x * x * np.abs(c).max(axis=0), v

    given = np.random.default_rng(3).normal(size=(5, 31, 36))
    pull = ec.vjp(ec.compile(function))
    mixed = [a if k == 3 else np.asfortranarray(a) for k, a in enumerate(given)]
    for got, want in zip(pull(*mixed), pull(*given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("rows", [20, 400, 5000])
@pytest.mark.parametrize("dtype", ["i8", "i4", "u1", "f4"])
def test_what_narrow_tables_convert_waits_in_outputs(rows, dtype):
    """Rows that are taken side by side write it, too."""
    x = (np.arange(rows * 7).reshape(rows, 7) % 5).astype(dtype)
    f = ec.compile(lambda x: (np.exp(x.astype("f8")), x.astype("f8").std(axis=0)))
    g = ec.compile(lambda x: (np.exp(x), x.std(axis=0)))
    for h in (f, g):
        for got, want in zip(h(x), (np.exp(x), x.std(axis=0)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-3 if x.itemsize < 4 else 1e-5)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_row_of_what_lies_apart_and_what_does_not_is_in_a_buffer(dtype):
    f = ec.compile(lambda x, y: x * y - np.mean(x * y, axis=1, keepdims=True))
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal((5, 3 * 300)).astype(dtype) for _ in range(2))
    for step, where in ((1, False), (2, True), (3, True)):
        a, b = x[:, :step * 300:step], y[:, :300]
        assert ("buffer0[i1] = " in f.dump(a, b)) == (where and dtype == "f8")
        np.testing.assert_array_equal(f(a, b), f(a.copy(), b))
    assert "buffer0" not in f.dump(x[:, ::3], y[:, ::3])  # of one step, nothing is gained
    assert "buffer0" not in f.dump(x[:, :300:3], y[:, :100])  # short
    long = np.ones((2, 10_000), dtype)
    assert "buffer0" not in f.dump(long[:, ::2], long[:, :5000])  # more than the first cache holds


def test_what_another_loop_within_the_same_needs_is_not_stored_over():
    """A store goes before a fold of the same rows in another loop, which needs what waited there."""
    def f(q, k, v, w):
        s = np.sum((q[..., :, None, :] - k[..., None, :, :]) ** 2, axis=-1)
        e = np.where(w > 0, s, -9.0)
        e = np.exp(e - np.max(e, axis=-1, keepdims=True))
        weights = np.swapaxes(e - np.sum(e * w, axis=-1, keepdims=True), -1, -2)
        return e * ((e @ v) @ np.swapaxes(v, -1, -2)), weights @ q

    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=shape) for shape in ((5, 33, 17), (5, 7, 17), (5, 7, 7)))
    w = rng.normal(size=(7, 34, 3))[:, :33, 0].T  # a mask that lies across
    for got, want in zip(ec.compile(f)(q, k, v, w), f(q, k, v, w), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", [(5, 3), (5, 300), (70, 40)])
def test_what_a_fold_of_a_scan_needs_is_not_stored_over_within_the_scan(shape):
    """The gradient of an accumulator is a scan, in whose loop its results are stored."""
    half = ec.Accumulator("half", 0.0, lambda a, v: a + v / 2.0, merge=np.add)

    def loss(halves):
        def of(x, w):
            y = np.tanh(x) * w
            return np.var(y + halves(y * w)[:, None], axis=0).sum()
        return ec.compile(ec.grad(of, wrt=(0, 1)))

    rng = np.random.default_rng(0)
    arrays = rng.random(shape), rng.random((shape[0], 1))
    found = loss(lambda v: ec.accumulate(half, v, axis=1))(*arrays)
    wanted = loss(lambda v: np.sum(v, axis=1) / 2)(*arrays)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("shape", [(70_001,), (1501, 130), (3, 23_000)])
@pytest.mark.parametrize("function, waits", [
    (lambda x, y, z: (lambda t: t - t.mean(axis=0))(x * y + z), True),  # three operands
    (lambda x, y, z: (lambda t: t / np.sqrt((t * t).sum(axis=0)))(np.sin(x) * y), True),  # dear
    (lambda x, y, z: (lambda t: t - t.mean(axis=0))(x * y), False)])  # as soon computed again
def test_what_takes_longer_to_compute_again_than_memory_waits_in_large_outputs(
        large, shape, function, waits):
    random = np.random.default_rng(3)
    x, y, z = (random.random(shape) + 0.5 for _ in range(3))
    f = ec.compile(function)
    if shape[0] > 10:  # else strips of columns go from the fold to the store
        assert ("y_p" not in f.dump(x, y, z).rpartition("_rest[REST]")[2]) == waits
    np.testing.assert_allclose(f(x, y, z), function(x, y, z), rtol=1e-12, atol=1e-13)
    out = x.copy()
    np.testing.assert_array_equal(f(out, y, z, out=out), f(x, y, z))


@pytest.mark.parametrize("columns", [300, 2500, 7485])
def test_what_waits_in_an_output_of_rows_by_fours(large, columns):
    """Every turn at once has names of its own for the lanes at the end of its row."""
    def function(a, h):
        t = np.sin(a) * h
        d = t - np.mean(t, axis=(0, 1), keepdims=True)
        return d / (np.sum(d * d, axis=(0, 1), keepdims=True) + 1.0), np.sin(h) * 2.0

    random = np.random.default_rng(4)
    a, h = random.random((6, columns)), random.random((6, 1))
    for got, want in zip(ec.compile(function)(a, h), function(a, h), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-15)


def test_what_is_taken_for_a_kept_value_alone_is_not_kept_beside_it():
    """The exponential of `logaddexp` is, of a gradient whose quotient by it waits in its output."""
    def cost(x):
        greatest = ec.where(x < 9, x, x).max()
        return ec.log(ec.logaddexp(greatest, x)).sum()

    gradient, both = ec.grad(cost), ec.compile(cost)
    for n in (5, 16, 100, 5000):
        x, way = np.random.default_rng(n).random((2, n))
        slope = (both(x + 1e-6 * way) - both(x - 1e-6 * way)) / 2e-6
        np.testing.assert_allclose((gradient(x) * way).sum(), slope, rtol=1e-6)


@pytest.mark.parametrize("last", [np.tanh, lambda v: v], ids=["tanh", "product"])
@pytest.mark.parametrize("lines", [(2, 0, 1), (0, 1, 2)], ids=["turned", "rows"])
def test_another_store_of_the_same_loops_needs_what_waits(last, lines):
    """What is kept in an output next must not take the place of what another store has yet to read."""
    def function(x, c):
        v = c / np.sqrt(np.mean(c * c, axis=2, keepdims=True) + 1)
        w = last(v * np.sum(v * c, axis=2, keepdims=True))
        return w * np.sum(w * x, axis=2, keepdims=True), v

    def lay(array, axes):
        return array.transpose(axes).copy().transpose(np.argsort(axes))

    x, c = np.random.default_rng(5).standard_normal((2, 8, 8, 9))
    out = lay(np.zeros(x.shape), (2, 0, 1)), np.zeros(x.shape)
    made = ec.compile(function)(lay(x, lines), lay(c, (1, 0, 2)), out=out)
    for got, want in zip(made, function(x, c), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def test_what_waits_for_a_fold_needs_another_one_that_ended_elsewhere():
    """Of what waits until a sum ends, another factor is in a buffer, which the sum does not take."""
    def function(h, w, a, b):
        k = h @ w
        return np.exp((k @ b) @ np.swapaxes(k @ a, -1, -2) * 0.1)

    random = np.random.default_rng(6)
    h, a, b, slope = (random.random(s) for s in ((6, 7, 4), (4, 2), (4, 2), (6, 7, 7)))
    w = np.broadcast_to(random.random((4, 1)), (4, 4))  # so that k has one column
    pull = ec.vjp(ec.compile(function))
    for got, want in zip(pull(h, w, a, b, slope), pull(h, w.copy(), a, b, slope), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_strips_store_over_what_rows_behind_them_need():
    """Two stores that go through the same axes share no loop where one of them goes in strips."""
    def function(h, w, gain, bias, outer):
        t = h - np.mean(h, axis=-1, keepdims=True)
        t = t / np.sqrt(np.mean(t * t, axis=-1, keepdims=True) + 0.1) * gain + 1
        u = t @ w
        v = u + bias
        return t, v / (1 + np.exp(-v)) @ outer + t, u

    random = np.random.default_rng(7)
    h = random.random((2, 33, 16)).transpose(1, 2, 0)
    gain, w = np.broadcast_to(1.5, 2), np.broadcast_to(random.random((2, 1)), (2, 33))
    arrays = h, w, gain, random.random(33), random.random((33, 4))[:, ::2]
    for got, want in zip(ec.compile(function)(*arrays), function(*arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11)


@pytest.mark.parametrize("shape", [(2, 5), (40, 70), (300, 300)])
def test_what_is_looked_for_makes_nothing_that_waits(shape):
    """Its loop may have it from a stage before, in an array of its own."""
    def function(x):
        e = np.exp(x - np.max(x, axis=1, keepdims=True))
        return np.argmax(e > 0.5), e - np.mean(x)

    x = np.random.default_rng(8).standard_normal(shape)
    for got, want in zip(ec.compile(function)(x), function(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-15)


def test_loops_are_laid_out_twice_at_most(monkeypatch):
    """What is needed in the end, and would be stored over again and again, stays."""
    def function(x):
        for k in range(5):
            e = np.exp(x - np.max(x, axis=k % 2, keepdims=True))
            x = 9 * e / np.sum(e, axis=k % 2, keepdims=True)
        return (x * x).sum()

    laid_out = []
    made = schedule._Scheduler.__init__
    monkeypatch.setattr(schedule._Scheduler, "__init__",
                        lambda *args: laid_out.append(made(*args)))
    f = ec.grad(function)
    assert "\nint kernel_" in f.dump(X)
    assert len(laid_out) == 2
    x, step = X[:6, :7], 1e-6 * np.random.default_rng(9).standard_normal((6, 7))
    np.testing.assert_allclose((f(x) * step).sum(), (function(x + step) - function(x - step)) / 2,
                               rtol=1e-6)
