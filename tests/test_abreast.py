"""What goes along an axis one element after the other: several rows of it at once, side by side."""

import numpy as np
import pytest

import elemc as ec

from .helpers import assert_same_bits, compile_together

RNG = np.random.default_rng(0)
FEW = 7  # rows that go one by one

DECAY = ec.Accumulator("decay", 0.0, lambda a, v: a * 0.75 + v)
MEAN = ec.Accumulator("mean_so_far", (0.0, 0.0), lambda n, m, v: (n + 1, m + (v - m) / (n + 1)),
                      finish=lambda n, m: m)
LATEST = ec.Accumulator("latest", None, lambda a, v: np.where(v > 0, v, a + 0 * v))
CELL = ec.Accumulator("cell", 0.0, lambda a, v: np.tanh(a * 0.5 + v))
COUNT = ec.Accumulator("count", 0, lambda a, v: a * 3 + v)

FUNCTIONS = {
    "scan": lambda x: ec.scan(DECAY, x, 1),
    "back": lambda x: ec.scan(DECAY, x, 1, reverse=True, exclusive=True) * 2 + x,
    "both": lambda x: ec.scan(MEAN, x, 1) * ec.scan(DECAY, x * x, 1, reverse=True),
    "nested": lambda x: ec.scan(DECAY, ec.scan(CELL, x, 1), 1, reverse=True),
    "fold": lambda x: ec.accumulate(MEAN, x, axis=1),
    "fold and scan": lambda x: ec.scan(CELL, x, 1) - ec.accumulate(DECAY, x, axis=1)[:, None],
    "folded": lambda x: (ec.scan(DECAY, x, 1) ** 2).sum(axis=1),
    "greatest": lambda x: ec.scan(DECAY, x, 1).max(axis=1),
    "places": lambda x: (ec.scan(DECAY, x, 1).argmax(axis=1), x.argmin(axis=1), x.max(axis=1)),
    "normalised": lambda x: ec.scan(DECAY, x / (1 + abs(x).sum(axis=1, keepdims=True)), 1),
    "first": lambda x: ec.scan(LATEST, x, 1),
    "logarithm": lambda x: ec.logcumsumexp(x, 1),
    "shifted": lambda x: ec.scan(DECAY, x, 1)[:, 1:] - x[:, :-1],
    "gradient": ec.grad(lambda x: (ec.scan(CELL, x, 1) ** 2).sum()),
    "gradient of a fold": ec.grad(lambda x: (ec.accumulate(MEAN, x * x, axis=1) ** 2).sum()),
    "two": lambda x: (ec.scan(DECAY, x, 1), ec.accumulate(DECAY, x, axis=1)),
}


def in_parts(f, x):
    """The results of a few rows at a time."""
    parts = [f(x[k:k + FEW]) for k in range(0, len(x), FEW)]
    if isinstance(parts[0], tuple):
        return tuple(map(np.concatenate, zip(*parts, strict=True)))
    return np.concatenate(parts)


def same(got, want, check=assert_same_bits):
    if isinstance(want, tuple):
        for one, other in zip(got, want, strict=True):
            check(one, other)
    else:
        check(got, want)


def close(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.optimized] * (name in ("nested", "gradient")))
    for name in FUNCTIONS])
def test_as_few_rows_at_a_time(name):
    f = ec.compile(FUNCTIONS[name])
    arrays = [RNG.normal(size=(rows, length)) for rows in (8, 15, 70)
              for length in (1, 5, 8, 37, 100)]
    # vectors go along rows that are next to each other in memory
    turned = {k: np.asfortranarray(x) for k, x in enumerate(arrays) if x.shape[1] == 37}
    compile_together((f, [x]) for x in [*arrays, *turned.values(), *(x[:FEW] for x in arrays),
                                        *(x[len(x) // FEW * FEW:] for x in arrays)])
    for k, x in enumerate(arrays):
        want = in_parts(f, x)
        same(f(x), want)
        same(f(x), want)  # now through the call path in C
        if k in turned:
            same(f(turned[k]), want, close)


def log_softmax(x):
    top = x.max(axis=1, keepdims=True)
    return x - top - np.log(np.exp(x - top).sum(axis=1, keepdims=True))


SHORT = {
    "logarithm": log_softmax,
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(axis=1, keepdims=True),
    "kept": lambda x: (np.exp(x), np.exp(x).sum(axis=1), x - np.exp(x).max(axis=1)[:, None]),
    "variance": lambda x: np.var(np.exp(x), axis=1),
    "several": lambda x: np.tanh(x).sum(axis=1) * x.max(axis=1) + np.sin(x).prod(axis=1),
    "weighted": lambda x: x * np.exp(x).mean(axis=1, keepdims=True, where=x > 0),
    "gradient": ec.grad(lambda x: np.sum(log_softmax(x)[:, 0])),
    "place": lambda x: (np.exp(x).argmax(axis=1), np.exp(x).sum(axis=1)),
    "normalized": lambda x: (x - x.mean(axis=1, keepdims=True)) / np.sqrt(1 + x.var(axis=1, keepdims=True)),
}


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i2"])
@pytest.mark.parametrize("name", SHORT)
def test_functions_of_short_rows(name, dtype):
    """They are folded in order, as many as there are: bits do not depend on how many rows are."""
    if name == "gradient" and dtype == "i2":
        pytest.skip("integers have no gradient")
    f, of = ec.compile(SHORT[name]), SHORT[name]
    scale = 1 if dtype == "f2" else 3
    arrays = [(RNG.normal(size=(rows, length)) * scale).astype(dtype)
              for rows, length in ((400, 10), (37, 8), (33, 15), (200, 9))]
    laid = [*arrays, arrays[0][::-1, ::-1], arrays[1][::3], np.asfortranarray(arrays[3])]
    compile_together((f, [x]) for x in [*laid, *(x[:FEW] for x in arrays)])
    for k, x in enumerate(laid):
        got = f(x)
        if k < len(arrays):
            same(got, in_parts(f, x))
            same(f(x), got)
        if name != "gradient":
            tolerance = {"f8": 1e-12, "f4": 1e-5}.get(dtype, 1e-2)
            same(got, of(x), lambda a, b: np.testing.assert_allclose(
                a, b, rtol=tolerance, atol=tolerance))  # noqa: B023


def test_short_rows_lie_side_by_side():
    x = np.ones((500, 10), np.float32)
    for name, beside in (("logarithm", True), ("softmax", True), ("several", True), ("normalized", True)):
        assert ("rows side by side" in ec.compile(SHORT[name]).dump(x)) == beside
    assert "rows side by side" not in ec.compile(SHORT["normalized"]).dump(x[:, :8])  # which are a vector
    assert "rows side by side" not in ec.compile(lambda x: x / np.sum(x, axis=1, keepdims=True)).dump(x)
    alone = ec.compile(lambda x: np.log(np.exp(x).sum(axis=1)))
    assert "rows side by side" not in alone.dump(x)
    assert "rows side by side" in alone.dump(x.astype("f2"))
    f, held = ec.compile(SHORT["softmax"]), RNG.normal(size=(500, 10))
    want = f(held)
    f(held, out=held)
    same(held, want)
    memory = np.zeros((501, 10))
    memory[:500] = want
    f(memory[:500], out=memory[1:])
    same(memory[1:], f(want))


@pytest.mark.parametrize("dtype", ["f2", "f4", "i1", "i4", "i8", "u2", "c8", "c16", ">f8", ">i4"])
def test_dtypes(dtype):
    f = ec.compile(lambda x: (ec.scan(COUNT, x, 1), ec.accumulate(COUNT, x, axis=1)))
    x = (RNG.normal(size=(37, 21)) * 9).astype(dtype)
    with np.errstate(over="ignore"):
        same(f(x), in_parts(f, x))


def test_layouts():
    f = ec.compile(lambda x, y: ec.scan(DECAY, x * y, 1))
    x, y = RNG.normal(size=(2, 40, 60))
    want = in_parts(lambda t: f(t, np.ones(60)), x * y)
    wide = RNG.normal(size=(40, 120))
    wide[:, ::2] = x
    unaligned = np.frombuffer(b"." + x.tobytes(), np.uint8)[1:].view(float).reshape(x.shape)
    for a in (x, x[::-1][::-1], wide[:, ::2], np.asfortranarray(x), unaligned,
              x[:, ::-1].copy()[:, ::-1], x.astype(">f8")):
        for b in (y, np.asfortranarray(y), y[:, ::-1].copy()[:, ::-1]):
            same(f(a, b), want)
            out = np.empty((40, 120))[:, ::2]
            same(f(a, b, out=out), want)
            out = np.empty((60, 40)).T
            same(f(a, b, out=out), want)
    same(f(x, y[0]), f(x, np.tile(y[0], (40, 1))))
    same(f(x, y[:, :1]), f(x, np.tile(y[:, :1], (1, 60))))


def test_outputs():
    f = ec.compile(lambda x: ec.scan(DECAY, x, 1))
    x = RNG.normal(size=(40, 60))
    want = f(x)
    held = np.ones_like(x)
    same(f(x, out=held, req="add"), 1 + want)
    held, mask = np.zeros_like(x), x > 0
    f(x, out=held, where=mask)
    same(held, np.where(mask, want, 0))
    held = x.copy()
    f(held, out=held)
    same(held, want)
    memory = np.zeros((41, 60))
    memory[:40] = x
    f(memory[:40], out=memory[1:])
    same(memory[1:], want)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads(threads):
    f = ec.compile(lambda x: ec.scan(CELL, x, 2))
    x = RNG.normal(size=(3, 211, 501))
    rows = ec.compile(lambda x: ec.scan(CELL, x, 1))
    want = np.stack([in_parts(rows, part) for part in x])
    before = ec.get_num_threads()
    ec.set_num_threads(threads)
    try:
        same(f(x), want)
    finally:
        ec.set_num_threads(before)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(9, 2000), (300, 3), (70, 130), (5, 6, 7)])
def test_along_an_outer_axis(axis, shape):
    """There vectors go along the axis that is innermost in memory."""
    x = RNG.normal(size=shape)
    for fn in (np.cumsum, np.cumprod, np.maximum.accumulate):
        same(ec.compile(lambda x, fn=fn: fn(x, axis=axis))(x), fn(x, axis=axis))
    f = ec.compile(lambda x: ec.scan(MEAN, x, axis, reverse=True) + ec.scan(DECAY, x, axis))
    g = ec.compile(lambda x: ec.scan(MEAN, x, -1, reverse=True) + ec.scan(DECAY, x, -1))
    lines = np.moveaxis(x, axis, -1)
    want = np.moveaxis(in_parts(g, np.ascontiguousarray(lines)), -1, axis)
    same(f(x), want)
    for loss in (lambda x, axis: (ec.scan(CELL, x, axis) * np.exp(x)).sum(),
                 lambda x, axis: (ec.accumulate(MEAN, x * x, axis=axis) ** 2).sum()):
        gradient = ec.grad(lambda x, loss=loss: loss(x, axis))
        by_lines = ec.grad(lambda x, loss=loss: loss(x, -1))
        want = np.moveaxis(by_lines(np.ascontiguousarray(lines)), -1, axis)
        close(gradient(x), want)


def test_the_loops():
    """Strips of rows lie side by side where a step takes more than an addition, and are not few."""
    f = ec.compile(lambda x: ec.scan(DECAY, x, 1))
    many, few = RNG.normal(size=(64, 64)), RNG.normal(size=(7, 64))
    assert "ABREAST" in f.dump(many)
    assert "ABREAST" not in f.dump(few)
    assert "ABREAST" not in f.dump(RNG.normal(size=(64, 5000)))
    assert "ABREAST" not in ec.compile(lambda x: np.cumsum(x, 1)).dump(many)
    assert "STRIP" in ec.compile(lambda x: np.cumsum(x, 0)).dump(many)
    assert "ABREAST" not in ec.compile(FUNCTIONS["folded"]).dump(many)
    assert all("ABREAST" in ec.compile(FUNCTIONS[name]).dump(many)
               for name in ("both", "nested", "fold and scan", "greatest", "normalised", "gradient"))
    assert "ABREAST" in ec.compile(lambda x: ec.scan(CELL, x, 1)).dump(RNG.normal(size=(64, 5000)))


def test_what_else_a_kernel_does():
    """Strips of several lengths, folds within the argument, diagonals."""
    x, z = RNG.normal(size=(40, 60)), RNG.normal(size=(40, 60, 60))
    both = ec.compile(lambda x: ec.scan(DECAY, x, 0) * ec.scan(DECAY, x, 0, reverse=True))
    f = ec.compile(lambda x, y: (ec.scan(DECAY, x, 0) * ec.scan(DECAY, x, 0, reverse=True),
                                 np.tanh(np.exp(y))))
    y = RNG.normal(size=900)
    got, staged = f(x, y)
    same(got, both(x))
    close(staged, np.tanh(np.exp(y)))
    f = ec.compile(lambda x, y: (ec.scan(CELL, x, 1) * ec.scan(CELL, x, 1, reverse=True),
                                 np.tanh(np.exp(y))))
    got, staged = f(x, y)
    same(got, in_parts(ec.compile(lambda x: ec.scan(CELL, x, 1) * ec.scan(CELL, x, 1, reverse=True)), x))
    close(staged, np.tanh(np.exp(y)))
    rows = ec.compile(lambda x: ec.scan(DECAY, x, 1))
    # folds of rows come first: no running state has to wait in memory as large as the operand
    f = ec.compile(lambda x: ec.scan(DECAY, x, 1) - x.mean(axis=1, keepdims=True))
    same(f(x), in_parts(f, x))
    assert "buffer1" not in f.dump(x)
    for fn in (lambda z: z.sum(axis=0), lambda z: z.sum(axis=0) + z[0], lambda z: z.max(axis=1),
               lambda z: z.mean(axis=2), lambda z: np.diagonal(z, axis1=1, axis2=2),
               lambda z: np.diagonal(z, 1, axis1=1, axis2=2)):
        close(ec.compile(lambda z, fn=fn: ec.scan(DECAY, fn(z), 1))(z), rows(fn(z)))


@pytest.mark.parametrize("rows", [7, 70])
@pytest.mark.parametrize("length", [5, 37, 5001])
def test_beside_extrema(rows, length):
    """What takes the last elements of a row again must not let others do so."""
    x = RNG.normal(size=(rows, length))
    f = ec.compile(lambda x: (ec.accumulate(DECAY, x, axis=1), x.max(axis=1), x.argmin(axis=1)))
    want = ec.compile(lambda x: ec.accumulate(DECAY, x, axis=1))(x), x.max(axis=1), x.argmin(axis=1)
    same(f(x), want)


def softmax(x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def test_rows_of_many_operands_go_one_by_one():
    """Each operand has to be turned: the more there are, the shorter rows lie side by side."""
    f = ec.compile(lambda x, y, z: softmax(x * y + z))
    for length, abreast in (13, True), (25, True), (38, False):
        x = np.random.default_rng(0).normal(size=(70, length)).astype("f4")
        np.testing.assert_allclose(f(x, x, x), softmax(x * x + x), rtol=1e-5, atol=1e-7)
        assert ("ABREAST" in f.dump(x, x + 1, x + 2)) == abreast, length
        assert "ABREAST" in f.dump(x, x[0], x[1])  # two of which are the same for all rows


@pytest.mark.optimized
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("length", [16, 17, 23, 31, 40, 47])
def test_functions_along_rows_of_some_vectors(length, dtype):
    """Rows that waste lanes lie side by side, too; so do those of few rows, which are known."""
    f = ec.compile(softmax)
    gradient = ec.grad(ec.compile(lambda x: np.sum(softmax(x) ** 2)))
    tolerance = {"rtol": 1e-4, "atol": 1e-6} if dtype == "f4" else {"rtol": 1e-11, "atol": 1e-14}
    every = [np.random.default_rng(rows).normal(size=(rows, length)).astype(dtype)
             for rows in (1, 7, 9, 33, 70)]
    compile_together((g, [x]) for g in (f, gradient) for x in every)
    for x in every:
        p = softmax(x.astype("f8"))
        np.testing.assert_allclose(f(x), p, **tolerance)
        want = 2 * p * (p - np.sum(p * p, axis=1, keepdims=True))
        np.testing.assert_allclose(gradient(x), want, **tolerance)
    x = np.ones((70, length), dtype)
    assert ("ABREAST" in f.dump(x)) == (
        length != 16 and length < (40 if dtype == "f4" else 24))
    assert "bool_t row" not in gradient.dump(x)  # masks are asked again: loops have vectors
