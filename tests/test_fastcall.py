"""The call path in C gives what the one in Python gives, and is the one taken."""

import collections
import copy
import gc
import itertools
import pickle
import sys
import threading
import time
import tracemalloc
import weakref

import numpy as np
import pytest

import elemc
from elemc import fastcall, runtime
from elemc.errors import MissingHeaders
from elemc.function import Function
from elemc.tracing_results import Structure

from .helpers import DTYPES, layouts, sample

pytestmark = pytest.mark.skipif(not hasattr(sys, "getrefcount"), reason="CPython only")


def same(got, want):
    """The same type, values to the bit, and place in memory."""
    assert type(got) is type(want)
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w)
        return
    assert got.dtype == want.dtype and got.shape == want.shape
    if isinstance(want, np.ndarray):
        assert got.size == 0 or got.strides == want.strides
        assert got.flags.writeable and got.flags.aligned
    np.testing.assert_array_equal(got, want)


def answer(call, *args, **named):
    """What a call gives: its result, or its error."""
    try:
        return call(*args, **named)
    except Exception as error:
        return type(error), str(error)


def check(f, *args, fast=True, **named):
    """Call through Python, then through C; `fast` is whether the C is to serve it."""
    want = answer(f._call, *args, **named)
    for _ in range(2):  # the second may skip what the first has found
        before = f._hits
        got = answer(f, *args, **named)
        assert f._hits - before == fast, want
        if isinstance(want, tuple) and isinstance(want[0], type):
            assert got == want
        else:
            same(got, want)
    return want


def check_out(f, args, outs, fast=True, **named):
    """The same with out=; the arrays are restored between the calls."""
    arrays = [a for a in [*args, *outs] if isinstance(a, np.ndarray) and a.flags.writeable]
    old = [a.copy() for a in arrays]

    def restore():
        for a, o in zip(arrays, old, strict=True):
            a[...] = o

    out = tuple(outs) if len(outs) > 1 else outs[0]
    want = answer(f._call, *args, out=out, **named)
    kept = [a.copy() for a in arrays]
    for _ in range(2):
        restore()
        before = f._hits
        got = answer(f, *args, out=out, **named)
        assert f._hits - before == fast, want
        if isinstance(want, tuple) and isinstance(want[0], type):
            assert got == want
        elif len(outs) == 1:
            assert got is outs[0] and want is outs[0]
        else:
            assert type(got) is tuple and all(g is o for g, o in zip(got, outs, strict=True))
        for a, w in zip(arrays, kept, strict=True):
            np.testing.assert_array_equal(a, w)
    restore()


def affine(ndim=1, other=None, dtype="float64"):
    x = elemc.array("x", ndim, dtype=dtype)
    y = elemc.array("y", ndim if other is None else other, dtype=dtype)
    return elemc.function([x, y], x * y + 1)


# --- inputs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_layouts(ndim):
    f = affine(ndim, 2 if ndim > 1 else 1)
    a = sample("float64", (4, 3, 5)[:ndim])
    b = sample("float64", (1, *a.shape)[-f.graph.inputs[1].ndim:], 1)
    for (_, x), (_, y) in itertools.product(layouts(a), layouts(b)):
        check(f, x, y)


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))))
def test_transposed(axes):
    f = affine(3)
    a = np.ascontiguousarray(sample("float64", (4, 3, 5)).transpose(axes)).transpose(
        np.argsort(axes))
    check(f, a, a)
    check(f, a, np.ascontiguousarray(a))
    check(f, np.ascontiguousarray(a), a)
    check(f, a[::-1, :, ::2], a[:, :, ::2])


def test_sizes_of_one():
    f = affine(3)
    for x, y in itertools.product(itertools.product((1, 3), repeat=3), repeat=2):
        check(f, sample("float64", x), sample("float64", y, 1))
        check(f, np.asfortranarray(sample("float64", x)), sample("float64", y, 1))


def test_one_kernel_serves_all_sizes_and_checks_them():
    f = affine(2, 1)
    f._call(np.ones((2, 3)), np.ones(3))
    for n, m in itertools.product((2, 3, 17), repeat=2):
        check(f, sample("float64", (n, m)), sample("float64", m))
    before = f._hits
    for shape in [(3, 4), (2, 2)]:
        with pytest.raises(elemc.ShapeError, match="do not broadcast"):
            f(np.ones(shape), np.ones(3))
    assert f._hits == before


def test_empty():
    f = affine(2)
    for x, y in itertools.product([(0, 3), (3, 0), (0, 0), (1, 0), (1, 3), (3, 1)], repeat=2):
        want = answer(f._call, np.ones(x), np.ones(y))
        check(f, np.ones(x), np.ones(y), fast=isinstance(want, np.ndarray))
        check(f, np.ones(x, order="F"), np.ones(y)[::-1], fast=isinstance(want, np.ndarray))
        if isinstance(want, np.ndarray):
            check_out(f, [np.ones(x), np.ones(y)], [np.ones(want.shape)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype):
    x, y = elemc.array("x", 1, dtype=None), elemc.array("y", 1, dtype=None)
    f = elemc.function([x, y], x + y)
    a = sample(dtype, 5)
    for other in ("int8", "float64", dtype):
        for b in (sample(other, 5), sample(other, 10)[::2]):
            check(f, a, b)
            check(f, a.astype(a.dtype.newbyteorder()), b)


def test_two_names_of_one_dtype():
    x = elemc.array("x", 1, dtype=None)
    f = elemc.function([x], x + 1)
    for code in "qlQLip":
        check(f, np.arange(4).astype(code))


def test_inputs_that_are_cast():
    x = elemc.array("x", 1, dtype="float64")
    f = elemc.function([x], x * 2)
    for dtype in ("float64", "float32", "int32", "bool"):
        check(f, sample(dtype, 5))
    check(f, sample("complex128", 5), fast=False)


def test_scalars():
    for dtype in ("float64", "float32", None):
        x, s = elemc.array("x", 1, dtype="float64"), elemc.array("s", 0, dtype=dtype)
        f = elemc.function([x, s], x * s)
        a = sample("float64", 5)
        for value in (2.5, np.array(2.5, dtype or "float64"), float("nan"), float("inf"), 0.0, -0.0,
                      0.1, 3, -(2**20), np.float32(0.5), np.full(3, 1.5, "float32")[1:2][0]):
            # where any dtype is taken, that of Python's numbers gives way: Python sees to that
            check(f, a, value, fast=dtype is not None or isinstance(value, (np.generic, np.ndarray)))
        for value in (True, [2.0], 1j, "2", None, 10**400, np.ones(1), 2**63):
            check(f, a, value, fast=False)
    f = elemc.function([x, s := elemc.array("s", 0, dtype="float32")], x * s)
    for value in (1e300, 1e-300, 2**24 + 1):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(answer(f, a, value), answer(f._call, a, value))
    f = elemc.function([x, s := elemc.array("s", 0, dtype="float64")], x * s)
    check(f, a, np.float64(0.5))
    check(f, a, 2**53)
    check(f, a, 2**53 + 1, fast=False)
    f = elemc.function([n := elemc.array("n", 0, dtype="int64")], n + 1)
    for value in (3, -3, 2**63 - 1, -(2**63)):
        check(f, value)
    for value in (2.0, 2**63, False):
        check(f, value, fast=False)


def test_rank_0():
    for dtype in DTYPES:
        x = elemc.array("x", 0, dtype=dtype)
        f = elemc.function([x], [x + x, x])
        check(f, np.array(1, dtype))
        check(f, np.array(1, dtype).astype(np.dtype(dtype).newbyteorder()))
        o = np.zeros((), np.result_type(x.dtype, x.dtype))
        g = elemc.function([x], x + x)
        check_out(g, [np.array(1, dtype)], [o])


@pytest.mark.parametrize("index", [
    slice(1, None), slice(None, -1), slice(None, None, 2), slice(None, None, -1), slice(-3, None),
    slice(4, 1, -2), slice(2, 3), slice(-1, None, -3), slice(10**30, None), slice(None, -(10**30)),
    slice(None, 10**30, 10**30), 0, 2, -1, -4], ids=str)
def test_slices(index):
    x = elemc.array("x", 2, dtype="float64")
    f = elemc.function([x], x[index] * 2)
    for n in range(7):
        a = sample("float64", (n, 3))
        fits = not isinstance(answer(f._call, a), tuple)
        check(f, a, fast=fits)
        check(f, a[::-1], fast=fits)
        check(f, np.asfortranarray(a), fast=fits)


def test_differences():
    x, y = elemc.array("x", 1, dtype="float64"), elemc.array("y", 1, dtype="float64")
    f = elemc.function([x, y], (x[1:] - x[:-1]) * y[1:])
    for n, m in itertools.product(range(6), repeat=2):
        a, b = sample("float64", n), sample("float64", m)
        check(f, a, b, fast=not isinstance(answer(f._call, a, b), tuple))


def test_squeeze_and_stretch():
    x, y = elemc.array("x", 2, dtype="float64"), elemc.array("y", 2, dtype="float64")
    f = elemc.function([x, y], elemc.expand_to(x, y) + x.sum(axis=0))
    for x_shape, y_shape in itertools.product([(1, 3), (2, 3), (1, 1), (2, 1)], repeat=2):
        a, b = sample("float64", x_shape), sample("float64", y_shape)
        check(f, a, b, fast=not isinstance(answer(f._call, a, b), tuple))


def test_captured_arrays():
    x = elemc.array("x", 2, dtype="float64")
    f = elemc.function([x], x * np.arange(3.0) + np.arange(2.0)[:, None])
    check(f, sample("float64", (2, 3)))
    check(f, sample("float64", (1, 3)))
    check(f, sample("float64", (2, 4)), fast=False)
    a = sample("float64", (2, 3))
    check_out(f, [a], [a])


def test_folds():
    x = elemc.array("x", 2, dtype="float64")
    norm = elemc.function([x], [x / x.sum(axis=0), x.sum(axis=1), x.sum(), x.max(axis=1)])
    e = np.exp(x - x.max(axis=1, keepdims=True))
    softmax = elemc.function([x], e / e.sum(axis=1, keepdims=True))
    for shape in [(3, 5), (1, 5), (5, 1), (40, 700), (0, 4), (200, 3)]:
        for _, a in layouts(sample("float64", shape)):
            check(norm, a)
            check(softmax, a)
    for f in (norm, softmax):
        want = check(f, np.ones((3, 0)), fast=False)
        assert want[0] is elemc.ShapeError


def test_ranks_beyond_the_key_are_served_by_python():
    f = affine(9)
    a = sample("float64", (2,) * 9)
    check(f, a, a, fast=False)


@pytest.mark.parametrize("operands", [33, 62, 63])
def test_many_operands(operands):
    """As many as a word has bits, of which two are of use to others."""
    names = [f"v{k}" for k in range(operands - 2)]
    inputs = [elemc.vector(name) for name in names]
    total, first = inputs[0], inputs[-1] * inputs[0]
    for one in inputs[1:]:
        total = total + one * one
    f = elemc.function(inputs, [total, first], name="f")
    rows = np.random.default_rng(0).standard_normal((len(names), 9))
    check(f, *rows, fast=operands < 63)
    for _ in range(3):
        out = rows[-1].copy()
        f(*rows[:-1], out, out=(np.empty(9), out))
        np.testing.assert_array_equal(out, rows[-1] * rows[0])


def test_many_kinds_of_calls():
    f = affine(3)
    arrays = [sample("float64", (2, 3, 4)).transpose(p) for p in itertools.permutations(range(3))]
    arrays += [a[::-1] for a in arrays] + [a[:, :, ::2] for a in arrays] + [a[:1] for a in arrays]
    pairs = [(a, a[:, ::-1]) for a in arrays] + [(a, a) for a in arrays]
    pairs += [(a, a.astype("float32")) for a in arrays]
    for _ in range(2):
        for a, b in pairs:
            check(f, a, b)
    assert len(f.specializations) < len(pairs)


# --- outputs -------------------------------------------------------------------------------------


def test_out():
    f = affine(2)
    x, y = sample("float64", (3, 4)), sample("float64", (3, 4), 1)
    for _, o in layouts(np.zeros((3, 4))):
        check_out(f, [x, y], [o], fast=o.flags.writeable)
    for dtype in ("float32", "float16", "complex128"):
        check_out(f, [x, y], [np.zeros((3, 4), dtype)])
    check_out(f, [x, y], [np.zeros((3, 4), "int64")], fast=False)


def test_out_that_is_an_input():
    f = affine(2)
    x, y = sample("float64", (3, 4)), sample("float64", (3, 4), 1)
    check_out(f, [x, y], [x])
    check_out(f, [x, y], [y])
    check_out(f, [x, x], [x])
    check_out(f, [x[::-1], y], [x[::-1]])
    check_out(f, [x[:, :1], y], [y])
    check_out(f, [x[::-1], y], [x], fast=False)
    check_out(f, [x[:1], y], [x], fast=False)
    both = sample("float64", (6, 4))
    check_out(f, [both[:3], y], [both[3:]])
    check_out(f, [both[:3], y], [both[1:4]], fast=False)
    check_out(f, [both[::2], y], [both[1::2]], fast=False)  # apart, which Python finds out
    g = affine(1)
    line = sample("float64", 12)
    f32 = line.view("float32")[:12]
    check_out(g, [line, line], [f32], fast=False)


def test_calls_like_the_one_before():
    f, g = affine(2), affine(2, 0)
    x, y = sample("float64", (3, 4)), sample("float64", (3, 4), 1)
    want, flipped = x * y + 1, x[::-1] * y + 1
    frozen = np.zeros((3, 4))
    frozen.flags.writeable = False
    both = np.zeros((6, 4))
    for _ in range(3):
        np.testing.assert_array_equal(f(x, y), want)
        np.testing.assert_array_equal(f(x[:, :2], y[:, :2]), want[:, :2])
        np.testing.assert_array_equal(f(x[::-1], y), flipped)
        for number in (2.0, np.float64(3), np.array(4.0), 5):
            np.testing.assert_array_equal(g(x, number), x * number + 1)
        np.testing.assert_array_equal(f(x, y, out=np.empty((3, 4))), want)
        with pytest.raises(elemc.ElemcError, match="read-only"):
            f(x, y, out=frozen)
        for at in (3, 1, 0, 3):  # apart from its input, overlapping it, the same, apart again
            both[:3] = x
            np.testing.assert_array_equal(f(both[:3], y, out=both[at:at + 3]), want)
        both[:3] = x
        f(both[:3], y, out=both[:3])
        f(both[:3], x, out=both[3:])  # what was in place is apart
        np.testing.assert_array_equal(both[3:], want * x + 1)
        with pytest.raises(elemc.ElemcError, match="axis"):
            f(x, y[:2])


def test_captured_arrays_beside_calls_like_the_one_before():
    x = elemc.array("x", 1, dtype="float64")
    deep = np.arange(3.0).reshape((1,) * 9 + (3,))
    flat = np.arange(3.0)
    f, g = elemc.function([x], x + deep), elemc.function([x], x + flat)
    for n in (3, 1, 3, 3, 1, 1):
        a = sample("float64", n)
        np.testing.assert_array_equal(f(a), a + deep)
        np.testing.assert_array_equal(g(a), a + flat)


def test_folds_in_place():
    x = elemc.array("x", 2, dtype="float64")
    f = elemc.function([x], x / x.sum(axis=0))
    a = sample("float64", (5, 6))
    want = f(a)
    for _ in range(3):
        b = a.copy()
        np.testing.assert_array_equal(f(b, out=b), want)
    check_out(f, [a], [np.zeros((5, 6))])


def test_wrong_outs():
    f = affine(2)
    x, y = sample("float64", (3, 4)), sample("float64", (3, 4), 1)
    f(x, y, out=np.zeros((3, 4)))
    frozen = np.zeros((3, 4))
    frozen.flags.writeable = False
    for o in (np.zeros((4, 3)), np.zeros((3, 1)), np.zeros(4), np.zeros((1, 3, 4)), frozen,
              np.lib.stride_tricks.as_strided(np.zeros(4), (3, 4), (0, 8))):
        check_out(f, [x, y], [o], fast=False)
    for out in ([x], "x", (x, y), (), 3):
        before = f._hits
        assert answer(f, x, y, out=out) is x if out == [x] else isinstance(
            answer(f, x, y, out=out), tuple)
        assert f._hits == before
    check_out(f, [sample("float64", (1, 4)), y], [np.zeros((3, 4))])
    check_out(f, [sample("float64", (1, 4)), y[:1]], [np.zeros((3, 4))], fast=False)


def test_several_outs():
    x = elemc.array("x", 1, dtype="float64")
    f = elemc.function([x], [x + 1, x * 2, x.sum()])
    a, o, q, r = sample("float64", 6), np.zeros(6), np.zeros(6), np.zeros(())
    check(f, a)
    check_out(f, [a], [o, q, r])
    check_out(f, [a], [o, o, r], fast=False)
    check_out(f, [a], [o[::2], q, r], fast=False)
    long = np.zeros(12)
    check_out(f, [a], [long[:6], long[6:], r])
    check_out(f, [a], [long[:6], long[5:11], r], fast=False)
    before = f._hits
    assert f(a, out=(o, None, r))[0] is o
    assert f._hits == before
    one = elemc.function([x], [x + 1])
    check(one, a)
    assert one(a, out=o)[0] is o and one(a, out=(o,))[0] is o and type(one(a, out=o)) is tuple


def test_other_keywords():
    f = affine(1)
    x, o = sample("float64", 6), np.ones(6)
    f(x, x)
    f(x, x, out=o)
    before = f._hits
    same(f(x, y=x), f._call(x, x))
    same(f(x=x, y=x), f._call(x, x))
    f(x, x, out=o, req="add")
    np.testing.assert_array_equal(o, 2 * (x * x + 1))
    same(f(x, x, where=x > 0), np.where(x > 0, x * x + 1, 0))
    assert f(x, x, req="null") is None
    for args, named in [((), {}), ((x,), {}), ((x, x, x), {}), ((x, x), {"x": x}),
                        ((x, x), {"nonsense": 1})]:
        with pytest.raises(elemc.ArgumentError):
            f(*args, **named)
    assert f._hits == before
    same(f(x, x, out=None), f(x, x))
    same(f.__call__(x, x), f(x, x))
    same(f(x, x, where=True, req=None, out=None), f(x, x))
    assert f(x, x, req=None, out=o, where=True) is o
    assert f._hits == before + 7
    symbolic = elemc.array("z", 1, dtype="float64")
    assert isinstance(f(symbolic, symbolic), elemc.Array)


@pytest.mark.parametrize("shape", [(), (4,), (1,), (3, 4), (3, 1), (1, 4), (1, 1)])
def test_masks(shape):
    f = affine(2)
    x, y = sample("float64", (3, 4)), sample("float64", (3, 4), 1)
    mask = np.asarray(sample("float64", shape, 2) > 0)
    for _, m in layouts(mask):
        check(f, x, y, where=m)
        check_out(f, [x, y], [np.full((3, 4), 7.0)], where=m)
        check_out(f, [x, y], [x], where=m)
        check_out(f, [x, y], [np.full((3, 4), 7.0)], where=m, req="add")
    for n in (0, 1, 5):  # other sizes, ones of the arrays and of the mask
        a = sample("float64", (n, 4))
        m = np.asarray(sample("float64", (shape and (n, 4)[-len(shape):]) or (), 2) > 0)
        check(f, a, a, where=m)
        check_out(f, [a, a], [np.full((n, 4), 7.0)], where=m)


def test_masks_that_do_not_fit():
    f = affine(2)
    x, o = sample("float64", (3, 4)), np.zeros((3, 4))
    check(f, x, x, where=np.ones((3, 4), bool))
    check_out(f, [x, x], [o], where=np.ones((3, 4), bool))
    for shape in [(4, 3), (2, 4), (3,), (2, 3, 4), (1, 3, 4)]:
        with pytest.raises(elemc.ShapeError, match="where"):
            f(x, x, where=np.ones(shape, bool))
        with pytest.raises(elemc.ShapeError, match="where"):
            f(x, x, out=o, where=np.ones(shape, bool))
    with pytest.raises(elemc.ShapeError, match="where"):
        f(x[:1], x[:1], where=np.ones((3, 4), bool))
    for mask in (np.ones((3, 4)), np.ones((3, 4), "int8"), None):
        with pytest.raises(elemc.DtypeError, match="where"):
            f(x, x, where=mask)
    same(f(x, x, where=False), np.zeros((3, 4)))
    same(f(x, x, where=[True, False, True, True]),
         f(x, x, where=np.array([True, False, True, True])))


def test_masks_that_outputs_overlap():
    x = elemc.array("x", 1, dtype="bool")
    f = elemc.function([x], ~x)
    a = sample("float64", 12) > 0
    for _ in range(3):
        m, o = a.copy(), a[:6].copy()
        np.testing.assert_array_equal(f(a[:6], out=m[6:], where=m[:6]),
                                      np.where(a[:6], ~a[:6], a[6:]))
        np.testing.assert_array_equal(f(a[:6], out=o, where=o), np.where(a[:6], ~a[:6], a[:6]))
        m = a.copy()
        want = np.where(a[:6], ~a[:6], a[1:7])
        np.testing.assert_array_equal(f(a[:6], out=m[1:7], where=m[:6]), want)


def test_masks_of_folds_and_captured_arrays():
    x = elemc.array("x", 2, dtype="float64")
    f = elemc.function([x], [x.sum(), x.sum(axis=1), x + np.arange(4.0)])
    a, yes, no = sample("float64", (3, 4)), np.array(True), np.array(False)
    outs = [np.ones(()), np.ones(3), np.ones((3, 4))]
    for mask in (yes, no, np.array([True])):
        check(f, a, where=mask, fast=mask.ndim == 0)
        check_out(f, [a], outs, where=mask, fast=mask.ndim == 0)
    line = elemc.function([x], x.sum(axis=1))
    check(line, a, where=np.array([True, False, True]))
    check_out(line, [a], [np.ones(3)], where=np.array([True, False, True]), req="add")


def test_added():
    x = elemc.array("x", 1, dtype="float64")
    f = elemc.function([x], [x + 1, x * 2])
    a, o, q = sample("float64", 6), np.ones(6), np.full(6, 2.0, "float32")
    for req in ("add", "write", ("add", "write"), ("write", "add"), ("add", "add")):
        check_out(f, [a], [o, q], req=req)
        check_out(f, [a], [a, q], req=req)
    for req in (["add", "write"], ("add", "null"), ("add",), "nothing", 3, ("add", 3)):
        before = f._hits
        answer(f, a, out=(o, q), req=req)
        assert f._hits == before
    with pytest.raises(elemc.ArgumentError, match="needs an array"):
        f(a, req="add")
    big = sample("float64", 2**16)
    g = affine(1)
    check_out(g, [big, big], [np.ones(2**16)], req="add")
    check(g, big, big, where=big > 0)


def test_structure():
    @elemc.compile
    def both(x):
        return {"twice": x * 2, "sum": x.sum()}

    for _ in range(3):
        got = both(np.arange(4.0))
        assert list(got) == ["twice", "sum"]
        assert got["sum"] == 6.0 and type(got["sum"]) is np.float64
        np.testing.assert_array_equal(got["twice"], np.arange(4.0) * 2)


# --- errors of the data --------------------------------------------------------------------------


def test_domain_errors():
    x, y = elemc.array("x", 1, dtype="int64"), elemc.array("y", 1, dtype="int64")
    f = elemc.function([x, y], x ** y)
    base = np.array([2, 3])
    check(f, base, np.array([1, 2]))
    assert check(f, base, np.array([1, -2]))[0] is elemc.DomainError
    power = np.array([1, -2])
    f(base, power.copy() ** 2, out=np.zeros(2, "int64"))
    for _ in range(2):  # here only one run of the kernel sees the negative power
        power = np.array([1, -2])
        with pytest.raises(elemc.DomainError, match="negative integer powers"):
            f(base, power, out=power)


# --- the object ----------------------------------------------------------------------------------


def test_is_a_function():
    f = affine(1)
    assert isinstance(f, Function) and type(f) is not Function
    assert repr(f).startswith("<elemc function f(x: float64[1]")
    assert "x * y + 1" in f.__doc__ and f.__name__ == "f"
    assert type(f).__doc__ == Function.__doc__
    assert weakref.ref(f)() is f
    a = sample("float64", 4)
    for g in (pickle.loads(pickle.dumps(f)), copy.copy(f), copy.deepcopy(f)):
        check(g, a, a)
        assert type(g) is type(f)


def test_subclasses():
    class Loud(fastcall.fastest("Callable", Function)):
        def __call__(self, *args):
            return "!"

    f = affine(1)
    loud = Loud(f.graph, "f", f.modes, True, "loud")
    assert loud(1, 2, 3) == "!"


def test_not_ready():
    base = fastcall.load().Callable
    bare = base()
    with pytest.raises(AttributeError, match="_call"):
        bare(1)
    with pytest.raises(TypeError, match="takes a subclass"):
        fastcall.load().prepare(Function, runtime.fail)


def test_without_headers(monkeypatch):
    def missing(*args):
        raise MissingHeaders("no Python.h")

    monkeypatch.setattr(fastcall, "_classes", {})
    monkeypatch.setattr(fastcall, "load", missing)
    f = affine(1)
    assert type(f) is Function
    np.testing.assert_array_equal(f(np.arange(3.0), np.arange(3.0)), [1, 2, 5])


def test_broken_headers_are_reported_once(monkeypatch):
    def broken(*args):
        raise elemc.CompileError("numpy/arrayobject.h is damaged")

    monkeypatch.setattr(fastcall, "_classes", {})
    monkeypatch.setattr(fastcall, "load", broken)
    with pytest.warns(elemc.FallbackWarning, match="is damaged"):
        f = affine(1)
    g = affine(1)  # a second warning would be an error of the test
    assert type(f) is type(g) is Function


# --- memory and threads --------------------------------------------------------------------------


def _kinds_of_calls():
    f, rows = affine(1), affine(2)
    x = elemc.array("x", 1, dtype="float64")
    several = elemc.function([x], [x + 1, x.sum()])
    integers = elemc.function([i := elemc.array("i", 1, dtype="int64")], i ** i)
    a, o, r = np.arange(8.0), np.zeros(8), np.zeros(())
    both = np.zeros((2, 3))
    return f, [
        lambda: f(a, a), lambda: f(a, a, out=o), lambda: f(a, a, out=(o,)), lambda: f(a, a, out=a),
        lambda: several(a), lambda: several(a, out=(o, r)), lambda: rows(both, both.T[:, :1].T),
        lambda: rows(np.asfortranarray(both), both), lambda: f(a, a[:3]),
        lambda: f(a[::-1], a, out=a), lambda: f(a), lambda: f(a, a, out=3),
        lambda: integers(np.array([-1])),
    ], (a, o, r, both, np.dtype("float64"))


def test_references():
    f, calls, held = _kinds_of_calls()
    for call in calls * 3:
        answer(call)
    gc.collect()
    before = [sys.getrefcount(h) for h in held]
    tracemalloc.start()
    try:
        used = []
        for _ in range(4):
            for _ in range(200):
                for call in calls:
                    answer(call)
            gc.collect()
            used.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert [sys.getrefcount(h) for h in held] == before
    assert min(np.diff(used)) < 10_000  # Python's own tables grow now and then


def test_functions_are_freed():
    captured = np.arange(3.0)
    x = elemc.array("x", 1, dtype="float64")
    f = elemc.function([x], [x * captured, x.sum()])
    f(captured)
    f(captured)
    f.itself = f  # a cycle
    gone = weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None


def test_many_threads_and_entries_dropped_while_in_use():
    f = affine(2)
    big = sample("float64", (300, 200))
    small = [sample("float64", (3, 4)).astype(t) for t in ("float32", "int8", "int16", "int32",
                                                          "uint8", "uint16", "uint32", "float16")]
    want = f._call(big, big)
    failures = []
    ended = time.monotonic() + 1.5

    def large():
        while time.monotonic() < ended:
            if not np.array_equal(f(big, big), want):
                failures.append("wrong")

    def various():
        while time.monotonic() < ended:
            for a, b in itertools.product(small, repeat=2):
                f(a, b)

    f_calls = [threading.Thread(target=t) for t in (large, large, various)]
    for thread in f_calls:
        thread.start()
    for thread in f_calls:
        thread.join()
    assert not failures and f._hits > 0


def test_calls_of_other_shapes_while_one_runs():
    """What follows from shapes is an entry's; the running call keeps its own."""
    x = elemc.array("x", 2, dtype="float64")
    e = np.exp(x - x.max(axis=0, keepdims=True))
    f = elemc.function([x], e / e.sum() + (e * x).max(axis=0))
    arrays = [sample("float64", (rows, 100)) for rows in (210, 140, 160, 180)]
    wants = [f._call(a) for a in arrays]
    [kernel] = f.specializations
    failures = []
    ended = time.monotonic() + 1.0

    def calls(arrays, wants):
        while time.monotonic() < ended:
            for a, want in zip(arrays, wants, strict=True):
                if not np.array_equal(f(a), want):
                    failures.append(a.shape)

    threads = [threading.Thread(target=calls, args=given)
               for given in ((arrays[:1], wants[:1]), (arrays[1:], wants[1:]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and f.specializations == [kernel] and f._hits > 4


Named = collections.namedtuple("Named", "first second")


@pytest.mark.parametrize("in_c, form", [
    (True, lambda a, b, c: (a, b, c)), (True, lambda a, b, c: (a, (b, (c,)))),
    (True, lambda a, b, c: ((a, b), c)), (False, lambda a, b, c: [a, (b, c)]),
    (False, lambda a, b, c: ({"a": a}, (b, c))), (False, lambda a, b, c: Named(a, (b, c)))])
def test_tuples_of_results_are_made_in_c(in_c, form, monkeypatch):
    f = elemc.compile(lambda x: form(x + 1, 2 * x, x.sum()))
    x = np.arange(8.0)
    want = f._call(x)
    assert repr(f(x)) == repr(want)
    if in_c:
        monkeypatch.setattr(Structure, "__call__", None)
    tracemalloc.start()
    for _ in range(100):
        got = f(x)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert repr(got) == repr(want) and type(got) is type(want) and held < 10_000


def test_large_calls_let_other_threads_run():
    x = elemc.array("x", 1, dtype="float64")
    f = elemc.function([x], np.sin(np.exp(np.sin(x))) + np.tanh(x) ** 1.5)
    a, o = sample("float64", 4_000_000), np.zeros(4_000_000)
    f(a, out=o)
    ticks = []
    done = threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.perf_counter()
    f(a, out=o)
    end = time.perf_counter()
    done.set()
    thread.join()
    assert f._hits == 1
    assert sum(start < t < end for t in ticks) >= 2


def test_calls_while_the_latest_one_is_forgotten():
    """A dtype may hold anything, and what runs when that goes may call."""
    x = elemc.vector("x")
    f = elemc.function([x], x * 2)
    answers = []

    class Calling:
        def __del__(self):
            answers.append(f(np.ones(8)))

    f(np.ones(8))
    f(np.ones(8))
    f(np.ndarray(8, np.dtype("float64", metadata={"held": Calling()}), np.ones(8)))
    gc.collect()
    got = f(np.full(200, 3.0))
    np.testing.assert_array_equal(got, np.full(200, 6.0))
    assert [a.tolist() for a in answers] == [[2.0] * 8]
