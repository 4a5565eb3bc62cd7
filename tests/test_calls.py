"""Calls: out=, where=, req=, arguments, aliasing, threads, pickling, and `elemc.compile`."""

import collections
import copy
import itertools
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time

import cloudpickle
import numpy as np
import pytest

import elemc as ec
from elemc.errors import ArgumentError, DtypeError, ElemcError, ShapeError, TraceError

from .helpers import assert_same_bits, layouts, sample


def softmax_of(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


X2, Y2 = ec.matrix("x"), ec.matrix("y")
ADD = ec.function([X2, Y2], X2 * 2 + Y2, name="add")
SOFTMAX = ec.function([X2], softmax_of(X2), name="softmax")
CENTRED = ec.function([X2], X2 - ec.mean(X2, axis=0), name="centred")
PAIR = ec.function([X2, Y2], [X2 + Y2, (X2 * Y2).sum(axis=1)], name="pair")


def arrays(shape=(5, 7), count=2):
    return [sample("float64", shape, k, (-3, 3)) for k in range(count)]


# -- results -----------------------------------------------------------------------------------


def test_results_are_those_of_a_ufunc():
    a, b = arrays()
    assert type(ADD(a, b)) is np.ndarray
    assert type(PAIR(a, b)) is tuple
    one = ec.function([X2], [X2])
    assert type(one(a)) is tuple
    s, t = ec.scalar("s"), ec.scalar("t")
    f = ec.function([s, t], s * t)
    assert type(f(2, 3.5)) is np.float64
    assert f(np.float64(2), np.array(3.5)) == 7
    out = np.zeros(())
    assert f(2, 3, out=out) is out
    assert out == 6
    total = ec.function([X2], X2.sum())
    assert type(total(a)) is np.float64
    assert ADD(a.tolist(), b) == pytest.approx(a * 2 + b)
    assert ADD(np.ones((5, 7), np.int32), np.ones((1, 7), bool))[0, 0] == 3


def test_results_keep_the_layout_of_their_operands():
    a, b = arrays()
    for left, right in [(a, b), (np.asfortranarray(a), np.asfortranarray(b))]:
        want, got = left * 2 + right, ADD(left, right)
        assert got.strides == want.strides
    x = ec.tensor3("x")
    f = ec.function([x], x + 1)
    v = sample("float64", (3, 4, 5)).transpose(1, 2, 0)
    assert f(v).strides == (v + 1).strides
    flipped = v[::-1, :, ::-1]
    assert_same_bits(f(flipped), flipped + 1)


def test_results_are_in_c_order_where_the_operands_disagree():
    f = ec.compile(lambda x, y: x * y + 1)
    cube = sample("float64", (3, 3, 3))
    for one, two in itertools.product(itertools.permutations(range(3)), repeat=2):
        x, y = cube.transpose(one), cube.transpose(two)
        assert f(x, y).strides == (x * y + 1).strides


@pytest.mark.parametrize("shape", [(0, 7), (5, 0), (0, 0), (1, 1), (1, 7), (5, 1)])
def test_small_and_empty_shapes(shape):
    a, b = arrays(shape)
    assert_same_bits(ADD(a, b), a * 2 + b)
    for got, want in zip(PAIR(a, b), (a + b, (a * b).sum(axis=1)), strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-14)


# -- arguments ---------------------------------------------------------------------------------


def test_arguments_by_name():
    a, b = arrays()
    want = a * 2 + b
    for got in (ADD(a, y=b), ADD(x=a, y=b), ADD(y=b, x=a)):
        assert_same_bits(got, want)
    x = ec.vector("x")
    for call, match in [(lambda: ec.function(x, x + 1), "a list of arrays"),
                        (lambda: ADD(a), "y is missing"), (lambda: ADD(a, b, a), "takes 2 arrays"),
                        (lambda: ADD(a, b, x=a), "x was given twice"),
                        (lambda: ADD(a, y=b, q=1), "no argument q")]:
        with pytest.raises(ArgumentError, match=match):
            call()


def test_wrong_arguments():
    a, b = arrays()
    with pytest.raises(ShapeError, match="add: y has rank 1.*rank 2"):
        ADD(a, b[0])
    with pytest.raises(DtypeError, match="x has dtype complex128"):
        ADD(a + 0j, b)
    with pytest.raises(ShapeError, match="5.*4|4.*5"):
        ADD(a, b[:4])
    with pytest.raises(ElemcError):
        ADD(np.array([["a"]]), b)
    with pytest.raises(ElemcError):
        ADD(a, None)
    with pytest.raises(ElemcError):
        ADD(a, np.zeros((5, 7), "M8[s]"))


def test_python_numbers():
    i = ec.array("i", 0, "int32")
    f = ec.function([i], i + 1)
    assert f(3) == 4
    assert f(True) == 2
    with pytest.raises(DtypeError, match="out of bounds for int32"):
        f(2**40)
    with pytest.raises(DtypeError):
        f(1.5)


def test_lists_give_way_like_numbers():
    i = ec.array("i", 1, "int8")
    f = ec.function([i], i + 1)
    assert_same_bits(f([1, 2]), np.array([2, 3], np.int8))
    for bad in ([1, 200], [1.5], [1 + 2j], ["a"], [np.array([1.0])]):
        with pytest.raises((DtypeError, ShapeError)):
            f(bad)
    with pytest.raises(ArgumentError, match="f: i: .*inhomogeneous"):
        f([[1], [1, 2]])


@pytest.mark.parametrize("count", [120, 300])
def test_many_inputs(count):
    xs = [ec.array(f"x{k}", 1) for k in range(count)]
    total = xs[0]
    for x in xs[1:]:
        total = total + x
    values = arrays((9,), count)
    want = values[0]
    for v in values[1:]:
        want = want + v
    assert_same_bits(ec.function(xs, total)(*values), want)


def test_deep_and_large_expressions():
    start = time.monotonic()
    x = ec.vector("x")
    value = np.linspace(0, 1, 67)
    chain, want = x, value
    for k in range(2000):
        chain, want = chain * 0.999 + (k % 7), want * 0.999 + (k % 7)
    assert_same_bits(ec.function([x], chain)(value), want)

    def tree(depth, a, mark):
        if depth == 0:
            return a * mark[0]
        mark[0] += 1
        return tree(depth - 1, a, mark) - tree(depth - 1, a, mark) * 0.5

    assert_same_bits(ec.function([x], tree(10, x, [1]))(value), tree(10, value, [1]))
    nested, want = x, value
    for _ in range(32):  # each level uses the one below twice: a graph, not a tree
        nested, want = nested * nested * 0.5 + nested, want * want * 0.5 + want
        nested, want = np.minimum(nested, 1), np.minimum(want, 1)
    assert_same_bits(ec.function([x], nested)(value), want)
    folds, want = x, value
    for _ in range(32):
        folds, want = folds - ec.max(folds) * 0.5, want - np.max(want) * 0.5
    np.testing.assert_allclose(ec.function([x], folds)(value), want, rtol=1e-12)
    assert time.monotonic() - start < 60


# -- out ---------------------------------------------------------------------------------------


def test_out_in_every_layout():
    a, b = arrays()
    want = a * 2 + b
    for name, out in layouts(np.zeros_like(a)):
        if out.flags.writeable:
            out.flat = 7
            assert ADD(a, b, out=out) is out, name
            np.testing.assert_array_equal(out, want, err_msg=name)
    single = np.zeros(a.shape, np.float32)
    ADD(a, b, out=(single,))
    assert_same_bits(single, want.astype(np.float32))
    complex_out = np.zeros(a.shape, complex)
    assert_same_bits(ADD(a, b, out=complex_out), want.astype(complex))


def test_outs_of_several_outputs():
    a, b = arrays()
    total, row = a + b, (a * b).sum(axis=1)
    out = np.zeros_like(a)
    first, second = PAIR(a, b, out=(out, None))
    assert first is out
    assert_same_bits(out, total)
    np.testing.assert_allclose(second, row)
    first, second = PAIR(a, b, out=(out, None), req=("null", "write"))
    assert first is None
    np.testing.assert_allclose(second, row)
    both = np.ones((2, 5))
    _, second = PAIR(a, b, out=[None, both[1]], req=["null", "add"])
    np.testing.assert_allclose(both[1], row + 1)
    assert both[0].tolist() == [1] * 5
    assert PAIR(a, b, req="null") == (None, None)


REJECTED = [
    (lambda o: (o[:, :6], None), ShapeError, "axis 1 has size 6 and not 7"),
    (lambda o: (o[0], None), ShapeError, "shape"),
    (lambda o: (o.astype(int), None), DtypeError, "same_kind"),
    (lambda o: (o, o[:, 0]), ArgumentError, "overlap"),
    (lambda o: (np.broadcast_to(o, o.shape), None), ArgumentError, "read-only"),
    (lambda o: (o, None, None), ArgumentError, "3 entries for 2"),
    (lambda o: o, ArgumentError, "1 entries for 2"),
    (lambda o: (o.tolist(), None), ArgumentError, "list, not an array"),
    (lambda o: (None, o[:, 0].astype("U5")), ElemcError, "str|dtype"),
    (lambda o: "out", ArgumentError, "must be an array"),
    (lambda o: (np.lib.stride_tricks.as_strided(o, (5, 7), (0, 8)), None), ArgumentError, "share"),
]


@pytest.mark.parametrize(("make", "error", "match"), REJECTED)
def test_rejected_outs_are_not_written(make, error, match):
    a, b = arrays()
    out = np.full((5, 7), 9.0)
    with pytest.raises(error, match=match):
        PAIR(a, b, out=make(out))
    assert np.all(out == 9)


def test_overlapping_views_of_out_are_rejected():
    a, b = arrays((6, 4))
    line = np.zeros(30)
    windows = np.lib.stride_tricks.as_strided(line, (6, 4), (8, 8))
    with pytest.raises(ElemcError):
        ADD(a, b, out=windows)


ALIASES = {
    "same": lambda base: (base[4:11, 2:9], base[4:11, 2:9]),
    "down": lambda base: (base[4:11, 2:9], base[5:12, 2:9]),
    "up": lambda base: (base[4:11, 2:9], base[3:10, 2:9]),
    "right": lambda base: (base[4:11, 2:9], base[4:11, 3:10]),
    "left": lambda base: (base[4:11, 2:9], base[4:11, 1:8]),
    "reversed": lambda base: (base[4:11, 2:9], base[4:11, 2:9][::-1, ::-1]),
    "transposed": lambda base: (base[4:11, 2:9], base[4:11, 2:9].T),
    "spread": lambda base: (base[:7, :7], base[::2, ::2][:7, :7]),
}


@pytest.mark.parametrize("alias", ALIASES)
@pytest.mark.parametrize("f", [ADD, SOFTMAX, CENTRED], ids=lambda f: f.name)
def test_out_may_overlap_the_inputs(f, alias):
    """The answer is as if all inputs had been read before anything is written."""
    for order in "CF":
        base = np.asarray(sample("float64", (14, 14), 3, (-3, 3)), order=order)
        x, out = ALIASES[alias](base)
        rest = (np.ones((7, 7)),) if f is ADD else ()
        around = base.copy(order="K")
        want = f(ALIASES[alias](around)[0], *rest)  # the same layout, so the same bits
        f(x, *rest, out=out)
        np.testing.assert_array_equal(out, want)
        untouched = np.ones(base.shape, bool)
        ALIASES[alias](untouched)[1][...] = False
        np.testing.assert_array_equal(base[untouched], around[untouched])


def test_out_overlaps_in_other_dtypes_and_long_rows():
    big = np.arange(3000.0) % 13
    x = ec.vector("x")
    f = ec.function([x], x / ec.sum(x))
    for make in (lambda b: (b[:2000], b[:2000]), lambda b: (b[:2000], b[1:2001]),
                 lambda b: (b[1:2001], b[:2000]), lambda b: (b[:2000], b[:2000][::-1]),
                 lambda b: (b[:1000], b.view(np.float32)[1:1001])):
        base = big.copy()
        source, out = make(base)
        want = f(source.copy()).astype(out.dtype)
        f(source, out=out)
        np.testing.assert_array_equal(out, want)


def test_two_outputs_over_both_inputs():
    a, b = arrays((40, 33))
    x, y = ec.matrix("x"), ec.matrix("y")
    f = ec.function([x, y], [x + y, x - y])
    u, v = a.copy(), b.copy()
    f(u, v, out=(v, u))
    assert_same_bits(v, a + b)
    assert_same_bits(u, a - b)


# -- where and req -----------------------------------------------------------------------------


def test_where_masks_stores():
    a, b = arrays((9, 70))
    mask = np.random.default_rng(0).random((9, 70)) < 0.5
    want = a * 2 + b
    for m in (mask, mask[:1], mask[:, :1], mask[0], np.asfortranarray(mask), mask[::-1, ::-1],
              np.array(True), np.array(False), False):
        full = np.broadcast_to(m, want.shape)
        assert_same_bits(ADD(a, b, where=m), np.where(full, want, 0.0))
        out = np.full(want.shape, 7.0)
        ADD(a, b, out=out, where=m)
        assert_same_bits(out, np.where(full, want, 7.0))
        ADD(a, b, out=out, where=m, req="add")
        assert_same_bits(out, np.where(full, want + want, 7.0))
    rows = SOFTMAX(a, where=mask)
    assert_same_bits(rows, np.where(mask, SOFTMAX(a), 0))
    own = a.copy()
    SOFTMAX(own, out=own, where=mask)
    assert_same_bits(own, np.where(mask, SOFTMAX(a), a))
    with pytest.raises(DtypeError, match="bool"):
        ADD(a, b, where=mask.astype(int))
    with pytest.raises(ShapeError, match="stretch"):
        ADD(a, b, where=np.ones((2, 9, 70), bool))
    with pytest.raises(ShapeError, match="stretch"):
        ADD(a[:1], b[:1], where=mask)
    with pytest.raises(ArgumentError, match="where is one mask for all outputs"):
        ADD(a, b, where=(mask, mask[0]))


def test_where_may_be_the_output():
    x = ec.array("x", 1, "int64")
    f = ec.function([x], x > 3)
    values = np.array([1, 5, 2, 9, 4])
    out = np.array([True, False, True, True, False])
    mask = out.copy()
    f(values, out=out, where=out)
    np.testing.assert_array_equal(out, np.where(mask, values > 3, mask))


def test_add_rounds_once():
    x = ec.vector("x")
    f = ec.function([x], x * 1.5)
    values = np.array([1e-3, 1.0, 3.3])
    for dtype in ("float32", "float16", "float64"):
        out = np.array([1, 2, 3], dtype)
        want = out + (values * 1.5).astype(dtype)
        f(values, out=out, req="add")
        assert_same_bits(out, want)
    i = ec.array("i", 1, "int8")
    g = ec.function([i], i * 2)
    out = np.array([100, -3], np.int16)
    assert g(np.array([63, 4], np.int8), out=out, req="add").tolist() == [226, 5]
    with pytest.raises(ArgumentError, match="needs an array"):
        f(values, req="add")
    with pytest.raises(ArgumentError, match="'plus'"):
        f(values, out=values, req="plus")


# -- copies, threads, processes ----------------------------------------------------------------


def test_copies_and_pickles():
    a, b = arrays()
    want = PAIR(a, b)
    for again in (copy.copy(PAIR), copy.deepcopy(PAIR), pickle.loads(pickle.dumps(PAIR)),
                  cloudpickle.loads(cloudpickle.dumps(PAIR))):
        for got, w in zip(again(a, b), want, strict=True):
            assert_same_bits(got, w)
        assert again.name == "pair"
    constant = np.array([1.0, 2.0, 3.0])
    x = ec.vector("x")
    captured = ec.function([x], x * constant)
    constant[:] = 0
    again = pickle.loads(pickle.dumps(captured))
    assert again(np.ones(3)).tolist() == captured(np.ones(3)).tolist() == [1, 2, 3]
    own = ec.Accumulator("own", 0.0, lambda acc, v: acc * 0.5 + v)
    user = ec.function([x], ec.accumulate(own, x))
    assert cloudpickle.loads(cloudpickle.dumps(user))(np.ones(3)) == user(np.ones(3)) == 1.75


def test_threads_share_a_function():
    x = ec.matrix("x")
    f = ec.function([x], np.exp(x) / np.exp(x).sum(axis=1, keepdims=True))  # compiled in the race
    values = [sample("float64", (30 + k % 3, 1 + k % 2 * 40), k, (-1, 1)) for k in range(24)]
    results = [None] * len(values)

    def work(k):
        results[k] = f(values[k])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(values))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for got, v in zip(results, values, strict=True):
        np.testing.assert_allclose(got, np.exp(v) / np.exp(v).sum(axis=1, keepdims=True), rtol=1e-13)


@pytest.mark.serial
def test_the_gil_is_released():
    x = ec.vector("x")
    f = ec.function([x], np.tan(np.tan(np.tan(np.tan(x)))))
    values = np.linspace(0, 1, 3_000_000)
    f(values[:10])
    out = np.empty_like(values)
    ticks = []
    done = threading.Event()

    def work():
        for _ in range(3):
            f(values, out=out)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        ticks.append(time.monotonic())
        time.sleep(0.0005)
    thread.join()
    assert len(ticks) > 20


def child(queue, values):
    queue.put((SOFTMAX(values), ADD(values, values)))


def test_a_forked_child_computes_too():
    a, _ = arrays((33, 65))
    want = SOFTMAX(a)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue, a))
    process.start()
    got, added = queue.get(timeout=60)
    process.join(60)
    assert process.exitcode == 0
    assert_same_bits(got, want)
    assert_same_bits(added, a * 2 + a)


# -- names -------------------------------------------------------------------------------------

NAMES = ["int", "n0", "x_p", "x_s0", "i0", "begin", "*/", "größe", "a b", "", "1st", "return", "AT",
         "exp", "elemc_exp", "acc_z", "sum0", "t0", "x_v", "z", "printf", "NULL", "__LINE__", "half",
         "double", "x\ny", "\\", '"', "%d", "{0}", "{{ x }}", "i0", "STRIP", "w0", "b0", "kernel_f",
         "x" * 300, "alignas", "inline", "max0", "row0", "sum", "complex64", "uint8_t", "unix", "main"]


def test_names_are_harmless():
    values = [sample("float64", (3, 4), k) for k in range(len(NAMES))]
    for name in NAMES:
        x = ec.matrix(name)
        f = ec.function([x], [np.exp(x) - x, x.sum(axis=0), x.max(axis=1)], name=name)
        got = f(values[0])
        np.testing.assert_allclose(got[0], np.exp(values[0]) - values[0], rtol=1e-12)
        np.testing.assert_array_equal(got[2], values[0].max(axis=1))
    xs = [ec.matrix(name) for name in NAMES]
    total, want = xs[0], values[0]
    for x, v in zip(xs[1:], values[1:], strict=True):
        total, want = total + np.sqrt(np.abs(x)), want + np.sqrt(np.abs(v))
    assert_same_bits(ec.function(xs, total)(*values), want)


def test_eval():
    x, y = ec.matrix("x"), ec.vector("y", dtype="int32")
    a, b = sample("float64", (3, 4)), sample("int32", 4)
    for _ in range(2):
        np.testing.assert_array_equal((x * y).sum(axis=0).eval({x: a, y: b}), (a * b).sum(axis=0))
    assert (y + y.shape[0]).eval({y: [1, 2]}).dtype == np.int64
    with pytest.raises(ec.ArgumentError, match="eval: the outputs use y, which is not among"):
        (x * y).eval({x: a})
    with pytest.raises(ec.ArgumentError, match="inputs are made by"):
        (x * y).eval({x: a, y: b, y + 1: b})
    assert ec.constant(2.5).eval() == 2.5


# -- elemc.compile -----------------------------------------------------------------------------


@ec.compile
def softmax(x):
    """The softmax of the last axis."""
    return softmax_of(x)


@ec.compile(static="axis")
def scaled(x, factor=2.0, *, axis=-1):
    return x * factor / x.sum(axis=axis, keepdims=True)


Result = collections.namedtuple("Result", "low high")


def test_compile_traces_once_per_dtypes_and_ranks():
    calls = []

    @ec.compile
    def f(x, y):
        calls.append(x.dtype)
        return x * y + 1

    for dtype in ("float32", "int16", "uint8"):
        for shape in [(3,), (2, 3)]:
            x = sample(dtype, shape)
            assert_same_bits(f(x, x), x * x + 1)
            f(x[..., :2], x[..., :2])
    assert len(calls) == 6
    x = np.ones(3, np.float32)
    assert f(x, 2).dtype == f(x, 2.5).dtype == np.float32
    assert f(x, np.float64(2)).dtype == (x * np.float64(2)).dtype
    assert softmax.__doc__ == "The softmax of the last axis."


def test_compile_numpys_functions():
    x, _ = arrays()
    for fn in (np.sum, np.max, np.mean, np.nansum, np.argmax, np.ptp):
        np.testing.assert_allclose(ec.compile(fn)(x), fn(x), rtol=1e-12)
    total = ec.compile(np.sum, static=("axis", "keepdims"))
    assert total(x, axis=1, keepdims=True).shape == x.sum(axis=1, keepdims=True).shape
    np.testing.assert_allclose(total(x, 0), x.sum(0), rtol=1e-12)


def test_compile_reads_default_arrays_at_every_call():
    weights = np.ones(3)
    f = ec.compile(lambda x, w=weights: x * w)
    x = np.arange(3.0)
    assert_same_bits(f(x), x)
    weights[:] = 2
    assert_same_bits(f(x), 2 * x)


def test_compile_static_and_defaults():
    a, _ = arrays()
    np.testing.assert_allclose(scaled(a), a * 2 / a.sum(axis=-1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(scaled(a, 3, axis=0), a * 3 / a.sum(axis=0, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(scaled(factor=a, x=a), a * a / a.sum(axis=-1, keepdims=True), rtol=1e-12)
    with pytest.raises(ArgumentError, match=r"^scaled: str is no operand.*in the expression at"):
        scaled("text", a)
    with pytest.raises(ArgumentError, match="hashable"):
        scaled(a, axis=[0])
    with pytest.raises(ArgumentError):
        scaled()
    with pytest.raises(ArgumentError, match="no argument q"):
        ec.compile(lambda x: x, static="q")


EPS = np.float32(1e-3)


def test_what_is_left_at_its_default_is_no_argument():
    a, _ = arrays()
    for fn in (np.var, np.std, np.mean, np.nanmean):
        np.testing.assert_allclose(ec.compile(fn)(a), fn(a), rtol=1e-12)

    @ec.compile
    def polished(x, times=3, axis=0, keepdims=False, scale=(2, 0.5), eps=EPS):
        for _ in range(times):
            x = x * scale[0] + eps
        return x.sum(axis=axis, keepdims=keepdims) * scale[1]

    python = polished.__wrapped__
    np.testing.assert_allclose(polished(a), python(a), rtol=1e-12)
    np.testing.assert_allclose(polished(a, eps=2.0), python(a, eps=2.0), rtol=1e-12)
    assert polished.trace(a).nin == 1 and polished.trace(a, eps=2.0).nin == 2
    np.testing.assert_allclose(ec.compile(lambda x: polished(x) + 1)(a), python(a) + 1, rtol=1e-12)
    with pytest.raises(ElemcError, match="static"):
        polished(a, axis=1)
    powers = ec.compile(lambda x, *n: [x ** k for k in (0, *n)], static="n")
    assert [y[0, 0] for y in powers(a, 1)] == [1, a[0, 0]] and len(powers(a)) == 1
    settled = ec.compile(python, static=("times", "axis"))
    np.testing.assert_allclose(settled(a, axis=1), python(a, axis=1), rtol=1e-12)
    assert settled.trace(a) is settled.trace(a, 3, axis=0)  # these are arguments, and equal


def test_gradients_leave_defaults_to_the_function():
    a, _ = arrays()

    def cost(x, n=2, axis=1, scale=3.0):
        return scale * (x ** n).sum(axis=axis).mean()

    rows = a.shape[0]
    np.testing.assert_allclose(ec.grad(cost)(a), 6 * a / rows, rtol=1e-12)
    np.testing.assert_allclose(ec.grad(cost)(a, scale=1.0), 2 * a / rows, rtol=1e-12)
    for gradient in (ec.grad(cost, wrt="scale")(a), ec.grad(cost, wrt="scale")(a, scale=2.0)):
        np.testing.assert_allclose(gradient, (a ** 2).sum() / rows, rtol=1e-12)
    np.testing.assert_allclose(ec.grad(ec.compile(cost, static="n"))(a, n=3), 9 * a ** 2 / rows, rtol=1e-12)


def test_cotangents_follow_what_is_given():
    a, _ = arrays()

    def scaled(x, s=2.0, axis=1, *, power=2):
        return (x ** power).sum(axis=axis) * s

    c, d = np.arange(1.0, 1 + a.shape[0]), np.ones_like(a)
    want = 4 * a * c[:, None]
    for got in (ec.vjp(scaled)(a, c), ec.vjp(scaled)(a, 2.0, c)):
        np.testing.assert_allclose(got[0], want, rtol=1e-12)
    np.testing.assert_allclose(ec.vjp(scaled)(a, c, s=3.0)[0], 1.5 * want, rtol=1e-12)
    np.testing.assert_allclose(ec.vjp(ec.compile(scaled, static="axis"))(a, a[0], axis=0)[0], 4 * a * a[0], rtol=1e-12)
    value, along = ec.jvp(scaled)(a, d)
    np.testing.assert_allclose(value, scaled(a), rtol=1e-12)
    np.testing.assert_allclose(along, scaled(a + 1e-6) / 2e-6 - scaled(a - 1e-6) / 2e-6, rtol=1e-6)
    np.testing.assert_allclose(ec.jvp(scaled)(a, 2.0, 0 * d, 1.0)[1], scaled(a) / 2, rtol=1e-12)
    two = ec.vjp(lambda x, axis=0: (x.sum(axis=axis), x.sum()))
    np.testing.assert_allclose(two(a, a[0], 2.0)[0], np.broadcast_to(a[0] + 2, a.shape), rtol=1e-12)
    with pytest.raises(ArgumentError, match="missing"):
        ec.vjp(scaled)(a)


def test_compile_structures():
    a, _ = arrays()

    @ec.compile
    def many(x, *more, kind="dict", **named):
        return {"sum": x.sum() + sum(more), "twice": x * 2, **named}

    many = ec.compile(many.__wrapped__, static="kind")
    got = many(a, 1.0, 2.0, other=a[0])
    assert list(got) == ["sum", "twice", "other"]
    assert got["sum"] == pytest.approx(a.sum() + 3)
    assert_same_bits(got["other"], a[0])
    listed = ec.compile(lambda x: [x.min(), x.max()])(a)
    assert type(listed) is list
    named = ec.compile(lambda x: Result(x.min(), x.max()))(a)
    assert type(named) is Result
    assert (named.low, named.high) == (a.min(), a.max()) == tuple(listed)
    nested = ec.compile(lambda x: {"a": (x.sum(), [x.max()]), "b": Result(x.min(), x)})
    for got in (nested(a), nested(a), pickle.loads(pickle.dumps(nested))(a)):
        assert got["a"] == (pytest.approx(a.sum()), [a.max()])
        assert type(got["b"]) is Result and got["b"].low == a.min()
        assert_same_bits(got["b"].high, a)
    for text in ("None", "()", "{}", "[x, None]"):
        with pytest.raises(TraceError, match="nothing"):
            ec.compile(eval(f"lambda x: {text}"))(a)
    with pytest.raises(ArgumentError, match="argument c is dict.*pass its values"):
        ec.compile(lambda x, c: x)(a, {"c": 1.0})


def test_compile_refuses_what_needs_values():
    a, _ = arrays()
    for body in (lambda x: x if x.sum() > 0 else -x, lambda x: float(x.sum()), lambda x: [*x],
                 lambda x: np.asarray(x), lambda x: len(x), lambda x: x + (0.5 in x),
                 lambda x: a[int(x[0, 0])]):
        with pytest.raises(TraceError, match="symbolic array"):
            ec.compile(body)(a)
    with pytest.raises(ElemcError):
        ec.compile(lambda x: np.sort(x))(a)


def test_operations_of_users_count_their_operands():
    values = np.array([1.0, 2.0])
    for k, op in [(k, ec.scalar_op("times", fn=lambda x, k=k: x * k)) for k in (2, 3)]:
        np.testing.assert_array_equal(op(values), values * k)
    assert ec.scalar_op("times", fn=lambda x, *, k=3: x * k)(2.0) == 6
    assert ec.scalar_op("times", fn=lambda x, k=3: x * k, arity=2)(2.0, 4.0) == 8
    assert ec.scalar_op("plus", fn=np.add)(2.0, 4.0) == 6
    assert ec.scalar_op("total", fn=lambda *xs: sum(xs), arity=3)(1.0, 2.0, 3.0) == 6
    for wrong, says in [({"fn": lambda *xs: xs[0]}, "give arity="), ({"fn": lambda x: x, "arity": 2}, "take 2"),
                        ({"fn": lambda x, *, k: x}, "'k'")]:
        with pytest.raises(ArgumentError, match=f"scalar_op odd: .*{says}"):
            ec.scalar_op("odd", **wrong)
    with pytest.raises(ArgumentError, match="the name comes first"):
        ec.scalar_op(lambda x: x, "odd")
    odd = ec.scalar_op("{x} */", c="{x} + 1", numpy=lambda x: x + 1, arity=1)
    np.testing.assert_array_equal(odd(values), values + 1)
    assert "{x} */(v)" in repr(odd(ec.vector("v")))


def test_compiled_functions_nest():
    a, b = arrays()

    @ec.compile
    def outer(x, y):
        return softmax(x) + ADD(x, y) - PAIR(x, y)[1][:, None]

    want = SOFTMAX(a) + (a * 2 + b) - (a * b).sum(axis=1)[:, None]
    np.testing.assert_allclose(outer(a, b), want, rtol=1e-13)
    x = ec.matrix("x")
    inlined = ec.function([x], softmax(ADD(x, x)))
    np.testing.assert_allclose(inlined(a), SOFTMAX(a * 3), rtol=1e-13)
    assert len(inlined.specializations) == 1


def test_compiled_functions_take_out_and_pickle():
    a, _ = arrays()
    out = np.zeros_like(a)
    assert softmax(a, out=out) is out
    assert_same_bits(out, SOFTMAX(a))
    softmax(a, out=a)
    assert_same_bits(a, out)
    a, _ = arrays()
    assert_same_bits(pickle.loads(pickle.dumps(softmax))(a), out)
    local = ec.compile(lambda x: softmax_of(x))
    local(a)
    assert_same_bits(cloudpickle.loads(cloudpickle.dumps(local))(a), out)


def test_an_integer_power_that_fails_leaves_the_function_usable():
    x = ec.array("x", 1, "int64")
    f = ec.function([x], 2 ** x)
    with pytest.raises(ValueError, match="negative"):
        f(np.array([1, -1]))
    assert f(np.array([1, 3])).tolist() == [2, 8]


# -- Python's numbers at call time ---------------------------------------------------------------


NUMBERS = (2.5, 3, -1, 300, 2**31, 2**63, -(2**63), 2j, True)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "float32", "complex64"])
@pytest.mark.parametrize("op", ["multiply", "maximum", "equal", "less"])
def test_python_numbers_give_way(op, dtype):
    """As in NumPy, whether the inputs' dtypes are open or traced, through Python and through C."""
    fn = getattr(np, op)
    a = sample(dtype, 5)
    x, z = ec.array("x", 1, None), ec.array("z", 0, None)
    for f in (ec.function([z, x], fn(z, x)), ec.compile(fn)):
        for number in NUMBERS * 2:
            try:
                with np.errstate(all="ignore"):
                    want = fn(number, a)
            except OverflowError:
                with pytest.raises(DtypeError, match="does not fit"):
                    f(number, a)
                continue
            assert_same_bits(f(number, a), want)


def test_numbers_beyond_64_bits():
    a = sample("float64", 3)
    with pytest.raises(DtypeError, match="scaled: argument k: the integer .* does not fit 64 bits"):
        ec.compile(lambda k, x: k * x, name="scaled")(2**64, a)


def test_numbers_compared_with_numbers():
    f = ec.compile(lambda x, k: np.where((k > 3) & (x.shape[0] > 1), x, -x))
    a = sample("float64", 3)
    np.testing.assert_array_equal(f(a, 5), a)
    np.testing.assert_array_equal(f(a, 3), -a)
    np.testing.assert_array_equal(f(a[:1], 5), -a[:1])


def test_an_array_is_no_number():
    x = ec.matrix("x")
    for value in (2.0, 2, True, 1j, np.float64(2)):
        with pytest.raises((ShapeError, DtypeError), match="f: x has"):
            ec.function([x], x * 2)(value)


@pytest.mark.parametrize("value, words", [
    (np.ma.masked_array([[1.0, 2.0]], [[True, False]]), "mask"), (np.ones((1, 2)).view(np.matrix), "x @ y")])
def test_arrays_with_a_mind_of_their_own_are_refused(value, words):
    x = ec.matrix("x")
    for call in (lambda: ec.function([x], x * 2)(value), lambda: ec.compile(np.sqrt)(value),
                 lambda: x + value):
        with pytest.raises(ArgumentError, match=words):
            call()


def test_settings_need_no_naming():
    @ec.compile
    def total(x, w=None, how="sum", dtype=None):
        y = x if w is None else x * w
        return getattr(y, how)(dtype=dtype)

    a, b = np.arange(4, dtype=np.float32), np.arange(1, 5, dtype=np.float32)
    assert total(a) == total(a, None) == a.sum()
    assert total(a, b) == (a * b).sum()
    assert total(a, b, "max") == (a * b).max() and total(a, b) == (a * b).sum()
    assert total(a, how="sum", dtype=np.float64).dtype == np.float64


def test_equal_settings_of_different_types_are_different():
    f = ec.compile(lambda x, k: x * k, static="k")
    a = np.array([1, 2])
    for k in (1, 1.0, True, np.float32(1), 1):
        assert_same_bits(f(a, k), a * k)


def test_methods():
    class Scale:
        def __init__(self, k):
            self.k = k

        @ec.compile(static="self")
        def times(self, x):
            return x * self.k

        @ec.compile
        def forgotten(self, x):
            return x * self.k

    a = sample("float64", 3)
    np.testing.assert_array_equal(Scale(2.0).times(a), a * 2)
    np.testing.assert_array_equal(Scale(3.0).times(a), a * 3)
    with pytest.raises(ArgumentError, match="compile with static='self'"):
        Scale(2.0).forgotten(a)


def test_named_outputs():
    f = ec.compile(lambda x, y: {"sum": x + y, "difference": x - y})
    a, o = sample("float64", 3), np.zeros(3)
    got = f(a, a, out={"sum": o})
    assert got["sum"] is o and list(got) == ["sum", "difference"]
    got = f(a, 1.0, out={"sum": o}, req={"sum": "add", "difference": "null"})
    np.testing.assert_array_equal(o, a + a + (a + 1.0))
    with pytest.raises(ArgumentError, match="names an output 'total'; they are sum, difference"):
        f(a, a, out={"total": o})
    with pytest.raises(ArgumentError, match="outputs have no names"):
        ec.compile(np.sqrt)(a, out={"x": o})


def test_outputs_in_the_structure_of_the_results():
    f = ec.compile(lambda x: (x + 1, {"twice": 2 * x, "sums": (x.sum(), x.max())}), name="f")
    x = sample("float64", 5)
    a, b, c, d = np.empty(5), np.empty(5), np.empty(()), np.empty(())
    for out in ((a, {"twice": b, "sums": (c, d)}), (a, b, c, d)):
        first, second = f(x, out=out)
        assert first is a and second["twice"] is b and second["sums"][1] is d
        np.testing.assert_array_equal(b, 2 * x)
    new, second = f(x, out=(None, {"twice": b}), req=("write", {"twice": "add"}))
    np.testing.assert_array_equal(second["twice"], 4 * x)
    assert second["twice"] is b and new is not a and second["sums"] == (x.sum(), x.max())
    first, second = f(x, out=(a, None), req="write")
    assert first is a and second["twice"] is not b
    with pytest.raises(ArgumentError, match="f: out names an output 'half'; they are twice, sums"):
        f(x, out=(a, {"half": b}))
    with pytest.raises(ArgumentError, match="f: out has 3 entries for 4 outputs"):
        f(x, out=(a, b, c))


def test_inlined_functions_keep_their_dtypes():
    x, z = ec.vector("x"), ec.vector("z", dtype="float32")
    inner = ec.function([x], x / 3.0)
    a = np.full(1, 1 / 3, np.float32)
    assert_same_bits(ec.function([z], inner(z))(a), inner(a))


def test_functions_that_were_never_called_travel_by_name(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import multiprocessing, pickle
import numpy as np
import elemc as ec

@ec.compile
def twice(x):
    return x * 2

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(twice, [np.ones(2)]))
    twice(np.ones(2))
    print(pickle.loads(pickle.dumps(twice)) is twice, pickle.loads(pickle.dumps(twice))(np.ones(2)))
""")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.stdout == "[array([2., 2.])]\nFalse [2. 2.]\n", done.stderr


def test_settings_of_either_zero_are_different():
    f = ec.compile(lambda x, a: x / a, static="a")
    with np.errstate(all="ignore"):
        assert f(1.0, 0.0) == np.inf
        assert f(1.0, -0.0) == -np.inf


def test_a_nested_functions_order_is_its_own():
    a, b = sample("float64", (3, 3)), sample("float64", 3)
    x, y = ec.matrix("x"), ec.vector("y")
    product = {order: ec.compile(lambda x, y: x * y, order=order) for order in "cf"}
    want = {"c": a * b[:, None], "f": a * b}
    for inner, outer in itertools.product("cf", repeat=2):
        g = ec.function([x, y], product[inner](x, y) + x * y, order=outer)
        np.testing.assert_allclose(g(a, b), want[inner] + want[outer], rtol=1e-15)
        h = ec.compile(lambda x, y, inner=product[inner]: inner(x * y, y), order=outer)
        spread = b[:, None] if inner == "c" else b
        np.testing.assert_allclose(h(a, b), want[outer] * spread, rtol=1e-15)


def test_errors_of_values_name_the_operation_and_the_line():
    f = ec.compile(lambda i, j: i**j + 1, name="f")
    for _ in range(2):  # from Python, then from C
        with pytest.raises(ec.DomainError, match=r"f: Integers .* i \*\* j \(.*test_calls.py:"):
            f(np.arange(1, 4), np.arange(-1, 2))
    with pytest.raises(ShapeError, match=r"axis 0 of size 0 of x \* 2.0 \(.*test_calls.py:"):
        ec.compile(lambda x: (x * 2).max(axis=0))(np.ones((0, 3)))
    with pytest.raises(ec.DomainError, match=r": i \*\* j or sum\(i\) \*\* sum\(j \* 0 \+ 1\) \("):
        ec.compile(lambda i, j: (i**j, np.sum(i)**np.sum(j*0 + 1)))(np.arange(3), np.array([1, -1, 2]))
    acc = ec.Accumulator("powers", 1, lambda a, v: 2**v + a)
    with pytest.raises(ec.DomainError, match="Integers to negative"):
        ec.compile(lambda x: ec.accumulate(acc, x))(np.array([1, -1]))


def test_what_is_compiled_already_is_compiled_by_other_options():
    grad = ec.grad(lambda x: (x * x).sum())
    f = ec.compile(grad, name="mine", contract=True)
    assert (f.__name__, f.name) == ("mine", "mine") and grad.__name__ != "mine"
    np.testing.assert_array_equal(f(np.arange(3.0)), [0, 2, 4])
    assert f.trace(np.arange(3.0)).contract and f.trace(np.arange(3.0)).name == "mine"
