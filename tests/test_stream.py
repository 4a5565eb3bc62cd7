"""Streamed evaluation: the same bits for any block size, NumPy's answers, nothing half-written."""

import os
import re
import subprocess
import sys
import textwrap
from collections import namedtuple

import numpy as np
import pytest

import elemc as ec
from elemc import stream
from elemc.stream_files import progress

rng = np.random.default_rng(5)
X = rng.random((1500, 501))  # 6 MB: blocks of 1 to 5 are several
TALL = rng.random((300_001, 3))
LONG = rng.random(300_001) * 2


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def save(function, arrays):
    files = {}
    for node, array in zip(function.graph.inputs, arrays, strict=True):
        files[node.name] = f"{node.name}.npy"
        np.save(files[node.name], array)
    return files


def streamed(function, *arrays, block=1):
    files = save(function, arrays)
    names = [f"out{k}.npy" for k in range(function.nout)]
    stream.run(lambda _: function, files, names, block)
    return [np.load(name) for name in names]


def check(function, *arrays, exact=True, rtol=1e-12):
    """Compare with a call on whole arrays, and several block sizes with one another."""
    want = function(*arrays)
    want = want if isinstance(want, tuple) else (want,)
    first = streamed(function, *arrays)
    for got, whole in zip(first, want, strict=True):
        assert got.dtype == np.asarray(whole).dtype
        assert got.shape == np.shape(whole)
        if exact:
            assert got.tobytes() == np.asarray(whole).tobytes()
        else:
            np.testing.assert_allclose(got, whole, rtol=rtol, atol=1e-14 * np.abs(whole).max())
    for block in (1.7, 5, 64):
        for got, other in zip(streamed(function, *arrays, block=block), first, strict=True):
            assert got.tobytes() == other.tobytes()
    assert not [name for name in os.listdir(".") if name.endswith(".tmp")]


def inputs(*specs):
    return [ec.array(name, ndim, dtype) for name, ndim, dtype in specs]


x, = inputs(("x", 2, "float64"))
v, = inputs(("v", 1, "float64"))


def softmax(a, axis):
    e = ec.exp(a - a.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


EXACT = {
    "elementwise": ([x, v], ec.exp(x) * v + 1, (X, X[0])),
    "row softmax": ([x], softmax(x, -1), (X,)),
    "column softmax": ([x], softmax(x, 0), (X,)),
    "centred": ([x], x - x.mean(axis=0), (X,)),
    "transposed": ([x], x.T + 1, (X,)),
    "two axes": ([x], [x.sum(axis=0), x.sum(axis=1)], (X,)),
    "products of rows": ([x], ec.sum(x[:, None] * x[None], axis=-1), (X[:400],)),
    "differences along the other axis": ([x], x[:, 1:] - x[:, :-1], (X,)),
    "positions": ([v], v * ec.arange(v.shape[0]), (LONG,)),
    "argmax along the other axis": ([x], x.argmax(axis=1), (X,)),
    "captured": ([x], x * X[0] + X[:, :1], (X,)),
    "nothing": ([x], [x * 2, x.sum(axis=0)], (X[:0],)),
    "no columns": ([x], [x * 2, x.sum(axis=1)], (X[:, :0],)),
    "one element": ([x], [x * 2, x.sum()], (X[:1, :1],)),
    "a scalar": (inputs(("s", 0, "float64")), None, (np.array(2.5),)),
    "small and sliced": ([v], v[::-1] - v, (LONG[:50],)),
    "Fortran order": ([x], x * 2, (np.asfortranarray(X),)),
    "byte order": ([x], x * 2, (X.astype(">f8"),)),
    "stretched": ([x, v], x + v, (X[:, :1], X[0])),
}


@pytest.mark.parametrize("name", EXACT)
def test_no_accumulation_crosses_the_blocks(name):
    ends, outputs, arrays = EXACT[name]
    check(ec.function(ends, ends[0] * 2 if outputs is None else outputs), *arrays)


CROSSED = {
    "folds": ([v], [v.sum(), v.max(), v.min(), v.prod(), (v > 1.9).any(), (v >= 0).all(),
                    ec.logsumexp(v), ec.count_nonzero(v > 1)], (LONG,)),
    "z score": ([v], (v - v.mean()) / v.std(), (LONG,)),
    "softmax of a vector": ([v], softmax(v, 0), (LONG,)),
    "tall sum": ([x], x.sum(axis=0), (TALL,)),
    "tall centred": ([x], [x - x.mean(axis=0), x.var()], (TALL,)),
    "tall softmax": ([x], softmax(x, 0), (TALL,)),
    "several ranks": ([x], [x - x.mean(), x.var(axis=1), x.sum(), x.max(axis=0)], (X,)),
    "initial": ([x], [x.sum(axis=0, initial=5.0), x.max(axis=0, initial=0.5)], (TALL,)),
    "where": ([v], [v.sum(where=v > 1), v.max(initial=0.5, where=v < 0.4), v.mean(where=v > 1)],
              (LONG,)),
    "one long row": ([x], x.sum(axis=1), (LONG[None],)),
    "rows of rows": (inputs(("c", 3, "float64")), lambda c: c / c.mean(axis=(0, 1)),
                     (TALL[:-1].reshape(3000, 100, 3),)),
    "a matrix of states": (inputs(("c", 3, "float64")), lambda c: c / c.max(axis=0),
                           (TALL[:-1].reshape(100_000, 3, 3),)),
    "the middle axis": (inputs(("c", 3, "float64")), lambda c: c / c.mean(axis=1, keepdims=True),
                        (TALL[:-1].reshape(2, 150_000, 3),)),
}


@pytest.mark.parametrize("name", CROSSED)
def test_an_accumulation_crosses_the_blocks(name):
    ends, outputs, arrays = CROSSED[name]
    check(ec.function(ends, outputs(*ends) if callable(outputs) else outputs), *arrays,
          exact=False)


COLUMNS = rng.standard_normal((50_003, 21))  # of fewer, several rows go at once


@pytest.mark.parametrize("make", [
    lambda x: x - x.mean(axis=0),
    lambda x: (x - x.mean(axis=0)) / x.std(axis=0),
    lambda x: x / x.sum(axis=0),
    lambda x: softmax(x, 0),
    lambda x: [x.sum(axis=0), x - x.min(axis=0), ec.logsumexp(x, axis=0)],
    lambda x: (x - x.mean(axis=1, keepdims=True)) / x.mean(axis=0),
    lambda x: x - x.mean(axis=0) - (x / x.max(axis=0)).sum(axis=0),
])
def test_statistics_of_columns_feed_elementwise_work(make):
    """Two columns need 1.5 MiB, so rows are cut, and the chunks' states are rows.

    The tree that joins them is that of the kernel, which joins blocks of rows: the same bits.
    """
    check(ec.function([x], make(x)), COLUMNS)


def test_the_size_of_blocks_does_not_choose_the_axis():
    """With larger blocks, columns would do, which add in another order."""
    function = ec.function([x], x - x.mean(axis=1, keepdims=True) - x.std())
    data = rng.standard_normal((40, 60_001))
    small, = streamed(function, data, block=1)
    for block in (2, 19, 64, 1000):
        assert streamed(function, data, block=block)[0].tobytes() == small.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "bool", "complex128"])
def test_dtypes(dtype):
    a, = inputs(("a", 1, dtype))
    data = (rng.random(2_000_003) * 3).astype(dtype)
    check(ec.function([a], [a.sum(), a.mean(), a.prod(where=a != a)]), data, exact=False,
          rtol={"float32": 1e-6, "float16": 2e-3}.get(dtype, 1e-10))


def welford():
    def combine(n, mean, m2, value):
        step = value - mean
        mean = mean + step / (n + 1)
        return n + 1, mean, m2 + step * (value - mean)

    def merge(n, mean, m2, n_b, mean_b, m2_b):
        total, step = n + n_b, mean_b - mean
        return total, mean + step * n_b / total, m2 + m2_b + step * step * n * n_b / total

    return ec.Accumulator("welford", (0.0, 0.0, 0.0), combine, finish=lambda n, _, m2: m2 / n,
                          merge=merge)


def test_an_accumulator_of_the_users_own_is_merged():
    check(ec.function([v], ec.accumulate(welford(), v)), LONG, exact=False)
    check(ec.function([x], ec.accumulate(welford(), x, axis=0)), TALL, exact=False)


@pytest.mark.parametrize("make, words", [
    (lambda: v[::-1] * 2, "reverses the axis"),
    (lambda: v[1:] - v[:-1], "slices the axis"),
    (lambda: v.argmax(), "minds the index"),
    (lambda: ec.accumulate(ec.Accumulator("horner", 0.0, lambda a, b: a * 0.5 + b), v), "no merge"),
])
def test_what_cannot_be_cut_says_why(make, words):
    function = ec.function([v], make())
    with pytest.raises(ec.UnsupportedError, match=words) as error:
        streamed(function, LONG)
    assert re.search(r"axis 0 of [vz] \(size 30000[01]\): ", str(error.value))
    assert os.listdir(".") == ["v.npy"]
    enough = re.search(r"--block (\d+) \(MiB\) is enough", str(error.value))[1]
    got, = streamed(function, LONG, block=int(enough))
    assert got.tobytes() == np.asarray(function(LONG)).tobytes()


def test_every_axis_that_cannot_be_cut_is_named():
    with pytest.raises(ec.UnsupportedError) as error:
        streamed(ec.function([x], x[1:] - x[:-1].argmax(axis=0)), np.repeat(TALL, 2, axis=0))
    assert str(error.value) == (
        "f cannot be computed in blocks of 1 MiB: axis 0 of z (size 600001): x[1:, :] slices the "
        "axis; axis 1 of z (size 3): blocks take 18.4 MiB or more. --block 19 (MiB) is enough.")
    with pytest.raises(ec.UnsupportedError, match=r"axis 0 of z \(size 300001\) and axis 1 of z "
                       r"\(size 3\): needs argmax\(x\) first \(.*minds the index"):
        streamed(ec.function([x], x - x.argmax()), TALL)


def test_single_indices_are_blocks_of_elementwise_work():
    """A column takes 0.8 MiB, so blocks have one; only accumulations want two."""
    check(ec.function([x], x[1:] - x[:-1]), COLUMNS)


def test_archives(tmp_path):
    function = ec.function([x, v], [x + v, x.sum()])
    np.savez_compressed("in.npz", x=X, v=X[0])
    stream.run(lambda _: function, {"x": "in.npz:x", "v": "in.npz:v"}, ["out.npz"], 1)
    with np.load("out.npz") as out:
        assert sorted(out) == ["z0", "z1"]
        np.testing.assert_array_equal(out["z0"], X + X[0])
        np.testing.assert_allclose(out["z1"], X.sum())
    assert sorted(os.listdir(".")) == ["in.npz", "out.npz"]


def test_an_archive_of_one_member_needs_no_name():
    np.savez("in.npz", whatever=X)
    stream.run(lambda _: ec.function([x], x * 2), {"x": "in.npz"}, ["out.npy"], 1)
    np.testing.assert_array_equal(np.load("out.npy"), X * 2)


def test_outputs_are_named_by_keys_and_fields():
    @ec.compile
    def two(x):
        return {"m": x.mean(axis=0), "s": x * 2}

    Pair = namedtuple("Pair", "low high")
    both = ec.compile(lambda x: Pair(x.min(), x.max()), name="both")
    np.save("x.npy", X)
    for function, names in ((two, ["m", "s"]), (both, ["low", "high"])):
        def make(arrays, function=function):
            return function.trace(**arrays)

        stream.run(make, {"x": "x.npy"}, ["out.npz"], 1)
        with np.load("out.npz") as out:
            assert list(out) == names
            stream.run(make, {"x": "x.npy"}, [f"{n}={n}.npy" for n in reversed(names)], 1)
            for name in names:
                np.testing.assert_array_equal(np.load(f"{name}.npy"), out[name])
    with pytest.raises(ec.ArgumentError, match="output high has no file: -o high=FILE.npy"):
        stream.run(make, {"x": "x.npy"}, ["low=o.npy"], 1)
    stream.run(make, {"x": "x.npy"}, ["./low=a.npy", "b.npy"], 1)
    assert os.path.exists("low=a.npy") and os.path.exists("b.npy")


def test_an_input_may_be_overwritten():
    function = ec.function([x], x * 2)
    files = save(function, [X])
    stream.run(lambda _: function, files, ["x.npy"], 1)
    np.testing.assert_array_equal(np.load("x.npy"), X * 2)


@pytest.mark.parametrize("files, out, words", [
    ({"x": "no.npy"}, ["o.npy"], "x: no.npy cannot be read: No such file"),
    ({"x": "text.npy"}, ["o.npy"], "no .npy file"),
    ({"x": "short.npy"}, ["o.npy"], "cannot be read"),
    ({"x": "objects.npy"}, ["o.npy"], "cannot be read"),
    ({"x": "in.npz"}, ["o.npy"], "in.npz:y"),
    ({"x": "in.npz:q"}, ["o.npy"], "no member q; it has y, t"),
    ({"x": "empty.npz"}, ["o.npy"], "empty.npz holds no array"),
    ({"y": "x.npy"}, ["o.npy"], "input x is missing"),
    ({"x": "x.npy", "y": "x.npy"}, ["o.npy"], "no input y"),
    ({"x": "x.npy"}, ["o.txt"], "a .npy or a .npz"),
    ({"x": "x.npy"}, ["no/o.npy"], "no directory no"),
    ({"x": "x.npy"}, ["o.npy", "p.npy"], r"the outputs are z \(1\)"),
    ({"x": "x.npy"}, ["m=o.npy"], "-o m=o.npy: there is no output m; there are z. .*./m=o.npy"),
    ({"x": "x.npy"}, ["z=o.npz"], "NAME=FILE is for .npy"),
    ({"x": "x.npy"}, ["z=o.npy", "z=p.npy"], "output z goes to o.npy already"),
    ({"x": "x.npy"}, ["z=o.npy", "p.npy"], "some -o have names"),
    ({"x": "x.npy"}, [], "-o OUT.npy"),
    ({"x": "v.npy"}, ["o.npy"], "rank"),
])
def test_errors_of_files(files, out, words):
    np.save("x.npy", X[:5])
    np.save("v.npy", X[0])
    with open("x.npy", "rb") as whole, open("short.npy", "wb") as short:
        short.write(whole.read()[:1000])
    np.save("objects.npy", np.array([[{}]]), allow_pickle=True)
    np.savez("in.npz", y=X, t=X)
    np.savez("empty.npz")
    with open("text.npy", "w") as text:
        text.write("hello, world")
    before = sorted(os.listdir("."))
    with pytest.raises(ec.ElemcError, match=words):
        stream.run(lambda _: ec.function([x], x * 2), files, out, 1)
    assert sorted(os.listdir(".")) == before


def test_nothing_is_left_after_an_interrupt(monkeypatch):
    calls = []

    def interrupt(array):
        calls.append(array)
        if len(calls) > 3:
            raise KeyboardInterrupt

    np.save("out0.npy", X[0])
    monkeypatch.setattr(stream, "release", interrupt)
    with pytest.raises(KeyboardInterrupt):
        streamed(ec.function([x], x * 2), X)
    assert sorted(os.listdir(".")) == ["out0.npy", "x.npy"]
    np.testing.assert_array_equal(np.load("out0.npy"), X[0])


def test_errors_of_data_leave_nothing():
    n, = inputs(("n", 1, "int64"))
    with pytest.raises(ec.DomainError):
        streamed(ec.function([n], 2 ** n), np.arange(-1, 10))
    assert os.listdir(".") == ["n.npy"]


def test_progress_without_tqdm(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with progress(100, True) as tell:
        for _ in range(100):
            tell(1)
    assert capsys.readouterr().err.split("\n")[:3] == ["10 %", "20 %", "30 %"]


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 7, 10, 11, 100])
@pytest.mark.parametrize("rows", [1, 2, 3, 10, 1000])
@pytest.mark.parametrize("least", [1, 2])
def test_blocks(length, rows, least):
    found = list(stream.blocks(length, rows, least))
    assert found[0][0] == 0 and found[-1][1] == length
    assert all(a[1] == b[0] for a, b in zip(found, found[1:], strict=False))
    most = max(3, rows) if least == 2 else rows
    assert length == 1 or all(least <= end - begin <= most for begin, end in found)


@pytest.mark.serial
def test_memory_is_bounded():
    """Half a gigabyte in and out, in a few MiB; pages of mapped files do not add up."""
    script = textwrap.dedent("""
        import resource
        import numpy as np
        import elemc as ec
        from elemc import stream
        big = np.lib.format.open_memmap("x.npy", "w+", "float64", (2**17, 256))
        del big
        x = ec.matrix("x")
        f = ec.function([x], [x + 1, x.sum(), x - x.mean(axis=0)])
        np.save("warm.npy", np.ones((5, 256)))
        outs = ["a.npy", "b.npy", "c.npy"]
        stream.run(lambda _: f, {"x": "warm.npy"}, outs, 4)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        stream.run(lambda _: f, {"x": "x.npy"}, outs, 4)
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert int(done.stdout) < 40


def test_scans_go_by_blocks_along_other_axes():
    x = ec.matrix("x")
    smooth = ec.Accumulator("smooth", identity=0.0, combine=lambda a, v: 0.75 * a + 0.25 * v)
    for node in (np.cumsum(x, axis=0), np.cumprod(x, axis=1) + 1, ec.scan(smooth, x, axis=1),
                 np.cumsum(x, axis=1) - np.max(x, axis=0)):
        check(ec.function([x], node), X)
    check(ec.function([x], np.sum(np.cumsum(x, axis=0), axis=1)), X, exact=False)


def test_a_scan_of_everything_takes_it_at_once():
    v = ec.vector("v")
    f = ec.function([v], np.cumsum(v))
    np.testing.assert_array_equal(streamed(f, LONG, block=8)[0], f(LONG))
    with pytest.raises(ec.ElemcError, match="goes on from one element to the next"):
        streamed(f, LONG, block=1)


def test_gradients_go_by_blocks():
    x, y = ec.matrix("x"), ec.vector("y")
    f = ec.vjp(ec.function([x, y], x * y))
    check(f, X, X[0], X + 1)
    g = ec.function([x], ec.grad(np.sum(x[1:] * x[:-1]), [x]))
    np.testing.assert_array_equal(streamed(g, X, block=40)[0], g(X)[0])
    with pytest.raises(ec.ElemcError, match="does not go by blocks"):
        streamed(g, X)


@pytest.mark.parametrize("columns", [3, 15, 16, 17, 21])
def test_columns_add_up_the_same_however_many_a_block_has(columns):
    """Though a narrow table adds in another order than a wide one."""
    data = np.random.default_rng(columns).standard_normal((20_011, columns))
    for make in (lambda x: x / x.std(axis=0), lambda x: softmax(x, 0), lambda x: x - x.max(axis=0)):
        check(ec.function([x], make(x)), data, exact=columns in (16, 21))
    weights = np.random.default_rng(1).standard_normal((1, columns))
    a, b = ec.matrix("a"), ec.matrix("b")
    gradient = ec.function([a, b], ec.grad(np.sum(ec.tanh(a * b)), [b]))
    check(gradient, data, weights, exact=False)


@pytest.mark.parametrize("shape", [(40, 6, 6, 700), (40, 3, 8, 1000), (200, 5, 4, 30), (1200, 17, 3)])
def test_slices_add_up_the_same_however_many_a_block_has(shape):
    data = np.random.default_rng(0).standard_normal(shape)
    s = ec.array("s", len(shape))
    for make in (lambda s: s.sum(axis=(0, 2)), lambda s: s - s.mean(axis=(0, 2), keepdims=True)):
        check(ec.function([s], make(s)), data, exact=False)
