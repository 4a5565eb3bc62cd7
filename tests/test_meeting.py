"""Folds in which operands meet: products of matrices, distances; rows that turns share."""

import numpy as np
import pytest

import elemc as ec

from .helpers import assert_same_bits, compile_together, guarded, layouts

RNG = np.random.default_rng(49)


def softmax(s):
    e = np.exp(s - np.max(s, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


FUNCTIONS = {
    "rows by columns": lambda a, b: np.sum(a[:, :, None] * b.T[None], axis=1),
    "rows by rows": lambda a, b: np.sum(a[:, None] * b[None], axis=2),
    "columns by columns": lambda a, b: np.sum(a.T[:, :, None] * b.T[:, None], axis=0),
    "distances": lambda a, b: np.sum((a[:, None] - b[None]) ** 2, axis=2),
    "greatest": lambda a, b: np.max(a[:, :, None] - b.T[None], axis=1),
    "nearest": lambda a, b: np.min(abs(a[:, None] - b[None]), axis=2),
    "functions": lambda a, b: np.tanh(np.sum(a[:, :, None] * b.T, axis=1)) + b[:, 0],
    "kernel": lambda a, b: np.exp(-0.1 * np.sum((a[:, None] - b[None]) ** 2, axis=2)),
    "chosen": lambda a, b: np.sum(np.where(a[:, None] > b[None], a[:, None], 0), axis=2),
    "weighted": lambda a, b: np.sum(a[:, None] * b[None] * a[0], axis=2) * a[:, :1],
    "together": lambda a, b: (np.sum(a[:, None] * b[None], axis=2), np.sum(b, axis=0)),
    "and all": lambda a, b: np.sum(np.sum(a[:, None] * b[None], axis=2) ** 2),
    "turned": lambda a, b: np.sum(a[:, None] * b[None], axis=2).T,
    "with itself": lambda a, b: np.mean(a[:, :, None] * a[:, None], axis=0),
    "of three": lambda a, b: np.einsum("ij,kj,j->ik", a, b, a[0]),
    "product": lambda a, b: (a @ b.T) * 2,
    "norms": lambda a, b: (a @ b.T) / np.sqrt(np.sum(a * a, axis=1))[:, None],
    "softmax": lambda a, b: (lambda e: e / e.sum(axis=1, keepdims=True))(np.exp(a @ b.T / 9)),
    "attention": lambda a, b: softmax(a @ b.T / 9) @ b,
    "kernel sums": lambda a, b: np.sum(np.exp(
        -0.01 * np.sum((a[:, None] - b[None]) ** 2, axis=2)), axis=1),
    "twice": lambda a, b: np.tanh(a @ b.T / 9) @ b @ b.T,
    "both ways": lambda a, b: (lambda e: (e @ b, e.T @ a, np.sum(e)))(np.maximum(a @ b.T, 0) / 9),
}
SIZES = [(1, 1, 1), (2, 9, 17), (5, 3, 40), (6, 16, 16), (7, 64, 33), (8, 8, 8), (13, 70, 65),
         (40, 12, 300), (3, 800, 20), (1100, 20, 9), (9, 2000, 10), (5, 0, 20), (0, 3, 4)]


def pair(rows, folded, columns, dtype="f8"):
    return [(9 * RNG.uniform(-1, 1, shape)).astype(dtype) for shape in (
        (rows, folded), (columns, folded))]


def compare(f, args, rtol, compiled=None):
    made = (compiled or ec.compile(f))(*args)
    want = f(*(a.astype("c16" if a.dtype.kind == "c" else "f8") for a in args))
    for got, other in zip(*((r if isinstance(r, tuple) else (r,)) for r in (made, want)),
                          strict=True):
        np.testing.assert_allclose(got, other, rtol=rtol, atol=100 * rtol)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results(name):
    f = FUNCTIONS[name]
    sizes = [s for s in SIZES if 0 not in s or name in ("product", "distances", "turned")]
    every = [pair(*size) for size in sizes]
    compiled = ec.compile(f)
    compile_together((compiled, args) for args in every)
    for args in every:
        compare(f, args, 1e-10, compiled)


@pytest.mark.parametrize("dtype", ["f4", "i4", "c16", "f2", "i1"])
@pytest.mark.parametrize("name", ["rows by columns", "rows by rows", "columns by columns"])
def test_dtypes(name, dtype):
    for size in (7, 20, 33), (13, 9, 40), (1100, 5, 17):
        a, b = pair(*size, dtype)
        if dtype == "i1":
            a, b = a % 3, b % 3
        got, want = ec.compile(FUNCTIONS[name])(a, b), FUNCTIONS[name](a, b)
        assert got.dtype == want.dtype
        tolerance = {"f4": 1e-4, "f2": 5e-2}.get(dtype, 1e-12)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=100 * tolerance)


@pytest.mark.parametrize("name", ["rows by columns", "rows by rows", "kernel", "functions"])
def test_layouts(name):
    a, b = pair(13, 21, 35)
    want, made = FUNCTIONS[name](a, b), ec.compile(FUNCTIONS[name])
    for (how, x), (_, y) in zip(layouts(a), layouts(b), strict=True):
        np.testing.assert_allclose(made(x, y), want, rtol=1e-11, atol=1e-11, err_msg=how)
    for how, out in layouts(np.zeros_like(want)):
        if out.flags.writeable:
            made(a, b, out=out)
            np.testing.assert_allclose(out, want, rtol=1e-11, atol=1e-11, err_msg=how)


@pytest.mark.parametrize("name", ["rows by columns", "rows by rows", "columns by columns"])
@pytest.mark.parametrize("at_end", [False, True])
def test_nothing_else_is_read(name, at_end):
    for size in (7, 19, 33), (8, 70, 65), (1030, 9, 17):
        a, b = pair(*size)
        x, y = (guarded(v.nbytes, at_end).view("f8").reshape(v.shape) for v in (a, b))
        x[:], y[:] = a, b
        np.testing.assert_allclose(ec.compile(FUNCTIONS[name])(x, y), FUNCTIONS[name](a, b),
                                   rtol=1e-11, atol=1e-11)


def test_threads_give_the_same_bits():
    before = ec.get_num_threads()
    try:
        for f in FUNCTIONS.values():
            for size in (200, 40, 70), (30, 3000, 20):
                found, args = [], pair(*size)
                for threads in (1, 2):
                    ec.set_num_threads(threads)
                    found.append(ec.compile(f)(*args))
                for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in found),
                                strict=True):
                    assert_same_bits(a, b)
    finally:
        ec.set_num_threads(before)


@pytest.mark.parametrize("name, size, word", [
    ("rows by columns", (100, 50, 70), "sixes"), ("rows by rows", (100, 50, 70), "sixes"),
    ("functions", (100, 50, 70), "sixes"), ("columns by columns", (4000, 30, 20), "fives")])
def test_turns_share_rows(name, size, word):
    if name == "columns by columns":
        args = [RNG.random((size[0], 10)).T, RNG.random((size[0], 20)).T]
    else:
        args = pair(*size)
    text = ec.compile(FUNCTIONS[name]).dump(*args)
    assert f"by {word}, which fold the same rows" in text


def test_rows_lie_side_by_side():
    text = ec.compile(FUNCTIONS["rows by rows"]).dump(*pair(100, 50, 70))
    assert "elemc_turn_64(b_in_rows0, SIDED * 8" in text and text.count("elemc_turn_64(") == 2


def test_what_a_turn_leaves_in_an_array_of_its_own_is_not_shared():
    """A row that the loop goes over again is that of one turn."""
    def f(x, y):
        return (x[::-1].T @ x @ y)[1:4].sum()

    x, y = RNG.standard_normal((3, 5)), RNG.standard_normal(5)
    np.testing.assert_allclose(ec.grad(ec.compile(f), 1)(x, y), (x[::-1].T @ x)[1:4].sum(axis=0))


@pytest.mark.parametrize("rows", [5, 7, 13, 30, 1100])
@pytest.mark.parametrize("f", [lambda a, b, c: c + a @ b, lambda a, b, c: c * (a @ b) + c,
                               lambda a, b, c: np.exp(c) * np.sum(a[:, None] * b.T, axis=2)])
def test_an_output_that_is_an_input(f, rows):
    """What turns fold twice is stored once, so that nothing reads what it has written."""
    a, b, c = (RNG.random(shape) for shape in ((rows, 20), (20, 33), (rows, 33)))
    want, made = f(a, b, c), ec.compile(f)
    made(a, b, c, out=c)
    np.testing.assert_allclose(c, want, rtol=1e-12)
    assert (3, 2) in made.specializations[-1].in_place


@pytest.mark.parametrize("rows", [5, 7, 30])
def test_an_output_that_is_added_to(rows):
    a, b, c = (RNG.random(shape) for shape in ((rows, 20), (20, 33), (rows, 33)))
    made, want = ec.compile(lambda a, b: a @ b), c + a @ b
    made(a, b, out=c, req="add")
    np.testing.assert_allclose(c, want, rtol=1e-12)
    assert "which fold the same rows" in made.specializations[-1].source.text


def test_the_ends_of_strips_where_values_are_chosen():
    """What a strip's vectors leave is added for all turns."""
    def f(u, v, w):
        y = u @ v.T
        return np.sum((y - np.max(y, axis=0, keepdims=True) + w[0])[1:4] ** 2)

    u, v, w = (RNG.uniform(-1, 1, shape).astype("f4") for shape in ((30, 3), (2, 3), (30, 2)))
    made, h = ec.grad(ec.compile(f), 1), 1e-5
    for z in (w, np.asfortranarray(w)):
        got, d = made(u, v, z), RNG.standard_normal(v.shape)
        wide = [x.astype("f8") for x in (u, v, z)]
        want = (f(wide[0], wide[1] + h * d, wide[2]) - f(wide[0], wide[1] - h * d, wide[2])) / (2*h)
        np.testing.assert_allclose(np.sum(got * d), want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_what_one_turn_keeps_no_other_phase_reads(dtype):
    """Arrays of a thread's own hold what its last turn left; phases that follow have buffers."""
    def f(u, v, w):
        y = np.tanh(np.sum(u[:, None] * v[None] * w[:, :, None], axis=2))
        return np.sum((y - np.mean(y, axis=1, keepdims=True)) * w)

    u, v, w = (RNG.uniform(0, 1, shape).astype(dtype) for shape in ((3, 6), (7, 6), (3, 7)))
    for z in (v, v[:, ::-1]):
        got = ec.grad(ec.compile(f), (0, 1, 2))(u, z, w)
        every = [x.astype("f8") for x in (u, z, w)]
        for k, found in enumerate(got):
            d = RNG.standard_normal(found.shape)
            ahead, back = ([x + s * d if j == k else x for j, x in enumerate(every)]
                           for s in (1e-5, -1e-5))
            np.testing.assert_allclose(np.sum(found * d), (f(*ahead) - f(*back)) / 2e-5,
                                       rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("rows, inner, columns", [(40, 20, 30), (300, 8, 8), (2000, 16, 10)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_gradients_of_dense_layers(rows, inner, columns, dtype):
    def loss(x, w, b):
        return np.sum(np.tanh(np.sum(x[:, :, None] * w, axis=1) + b) ** 2)

    x, w, b = (RNG.uniform(-1, 1, shape).astype(dtype) for shape in (
        (rows, inner), (inner, columns), columns))
    got = ec.grad(ec.compile(loss), (0, 1, 2))(x, w, b)
    x, w, b = (v.astype("f8") for v in (x, w, b))
    y = np.tanh(x @ w + b)
    d = 2 * y * (1 - y * y)
    tolerance = 1e-11 if dtype == "f8" else 2e-4
    for a, want in zip(got, (d @ w.T, x.T @ d, d.sum(axis=0)), strict=True):
        np.testing.assert_allclose(a, want, rtol=tolerance, atol=tolerance * 20)


@pytest.mark.parametrize("rows, inner, columns", [(33, 16, 40), (7, 9, 3), (130, 24, 100)])
def test_attention(rows, inner, columns):
    """All that meets goes in strips that six rows share; gradients are those of difference quotients."""
    q, k, v = RNG.normal(size=(rows, inner)), *RNG.normal(size=(2, columns, inner))
    f = ec.compile(lambda q, k, v: softmax(q @ k.T / 4) @ v)
    np.testing.assert_allclose(f(q, k, v), softmax(q @ k.T / 4) @ v, rtol=1e-11, atol=1e-12)
    if rows > 30:
        assert f.dump(q, k, v).count("by sixes") == 2
    gradient = ec.grad(ec.compile(lambda q, k, v: np.sum((softmax(q @ k.T / 4) @ v) ** 2)), (0, 1, 2))
    if rows == 130:
        assert gradient.dump(q, k, v).count("by sixes") == 6
    found = gradient(q, k, v)
    for place, array in enumerate((q, k, v)):
        way = RNG.normal(size=array.shape)
        near = [[q, k, v], [q, k, v]]
        for sign, args in zip((-1, 1), near, strict=True):
            args[place] = array + sign * 1e-6 * way
        low, high = (np.sum((softmax(a @ b.T / 4) @ c) ** 2) for a, b, c in near)
        np.testing.assert_allclose(np.sum(found[place] * way), (high - low) / 2e-6, rtol=1e-5)


def test_batches():
    """What is turned for a strip is turned for each table of a batch."""
    def t(k):
        return np.swapaxes(k, -1, -2)

    f, g = lambda q, k: q @ t(k), lambda q, k: np.tanh(q @ t(k)) @ k
    h = lambda q, k: np.sum(q[..., :, None, :] * k[..., None, :, :], axis=-1)  # noqa: E731
    o = lambda q, k: (lambda s: s - np.sum(s, axis=-1, keepdims=True))(q @ t(k))  # noqa: E731
    for shapes in (((2, 64, 32), (2, 64, 32)), ((3, 16, 8), (3, 20, 8)), ((2, 17, 9), (2, 1, 130, 9)),
                   ((2, 2, 4, 32), (2, 1, 127, 32)), ((64, 32), (2, 40, 32))):
        q, k = (RNG.normal(size=shape) for shape in shapes)
        for function in (f, g, h, o):
            np.testing.assert_allclose(ec.compile(function)(q, k), function(q, k),
                                       rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("few", [2, 3, 4, 5])
def test_few_folded_elements_beside_many(few):
    """How many rows are added at a time is the same for all folds of a kernel."""
    for rows in (31, 65, 100, 200):
        e, v, k = (RNG.normal(size=s) for s in ((31, rows), (rows, few), (few, 65)))
        compare(lambda e, v, k: np.tanh(e @ v) @ k, (e, v, k), 1e-10)
        x, y = RNG.normal(size=(2, rows, few))
        compare(lambda x, y: np.exp(-np.sum((x[:, None] - y[None]) ** 2, axis=-1)) @ y, (x, y), 1e-10)
        compare(lambda x, y: softmax(-np.sum((x[:, None] - y[None]) ** 2, axis=-1)) @ y, (x, y), 1e-10)


def test_many_rows_do_not_wait_for_folds():
    """Their results would take memory that grows with the square of the rows."""
    nearest = ec.compile(lambda a, b: np.min(np.sum((a[:, None] - b[None]) ** 2, axis=2), axis=1))
    attention = ec.compile(lambda a, b: FUNCTIONS["attention"](a, b))
    for rows, waits in (2048, True), (2049, False):
        a, b = np.zeros((rows, 16)), np.zeros((2000, 16))
        for made in nearest, attention:
            nest = made.dump(a, b, stage="nest")
            assert ("per i0, i1, shared" in nest or "per i0, i2, shared" in nest) == waits


def test_what_is_folded_again_is_kept_as_it_is_read():
    """The layer's derivatives lie as all but one of the loops over them go."""
    def loss(x, w, b):
        return np.sum(np.tanh(np.sum(x[:, :, None] * w, axis=1) + b) ** 2)

    f = ec.grad(ec.compile(loss), (0, 1, 2))
    text = f.dump(np.ones((300, 32)), np.ones((32, 32)), np.ones(32), stage="nest")
    assert "buffer buffer0: float64 per i0, i2, shared" in text
    assert text.count("at once") == 3 and "t1 = sech" in text
