"""Normalizations and folds of dear functions of operands that lie in different orders.

Here stages wait for each other, and what they share waits in outputs, in rows or in buffers.
"""

import re

import numpy as np
import pytest

import elemc as ec
from elemc import accesses

from .helpers import compile_together

FUNCTIONS = [
    lambda x: np.exp(-x * x),
    lambda x: np.sin(x) ** 2 + 1,
    lambda x: np.sqrt(1 + x * x),
    lambda x: np.log1p(np.exp(np.sin(x))),
    lambda x: np.tanh(x) * np.exp(np.cos(x)),
    lambda x: np.where(x > 0, np.log1p(np.abs(x)), np.expm1(-np.abs(x))),
]
LAYOUTS = [
    np.ascontiguousarray,
    np.asfortranarray,
    lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1],
    lambda a: np.ascontiguousarray(a[::-1])[::-1],
    lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    lambda a: np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 0, -1)), -1, 0),
]


def softmax(a, b, axis):
    e = np.exp(a * b - np.max(a * b, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def standard(a, b, axis):
    c = a + b
    d = c - np.mean(c, axis=axis, keepdims=True)
    return d / np.sqrt(np.mean(d * d, axis=axis, keepdims=True) + 0.1)


FORMS = [
    softmax,
    standard,
    lambda a, b, axis: (a - np.mean(a, axis=axis, keepdims=True)) * np.sqrt(1 + b * b),
    lambda a, b, axis: a * b / np.sum(a, axis=axis, keepdims=True) + np.cos(b),
    lambda a, b, axis: np.log(np.sum(np.exp(a + b), axis=axis)) * np.max(a * b, axis=axis),
    lambda a, b, axis: np.mean(a * b, axis=axis) + np.prod(1 + (a - b) / 50, axis=axis),
]


class Case:
    """Two functions of operands, a form of them, and operands, by a number."""

    def __init__(self, number):
        rng = np.random.default_rng(number)
        self.u, self.v = (FUNCTIONS[k] for k in rng.integers(len(FUNCTIONS), size=2))
        self.form = FORMS[number % len(FORMS)]
        shape = tuple(rng.choice([2, 3, 7, 9, 16, 17, 33, 65], rng.integers(2, 4)))
        axes = [*range(len(shape)), (0, len(shape) - 1)]
        self.axis = axes[rng.integers(len(axes))]
        shapes = shape, (shape, shape, shape[1:], (*shape[:-1], 1))[rng.integers(4)]
        self.arrays = [LAYOUTS[k](rng.standard_normal(s))
                       for k, s in zip(rng.integers(len(LAYOUTS), size=2), shapes, strict=True)]
        self.rng = rng

    def value(self, x, y):
        return self.form(self.u(x), self.v(y), self.axis)


@pytest.mark.parametrize("number", range(20))
def test_values_and_gradients(number):
    case = Case(number)
    x, y = case.arrays
    f = ec.compile(case.value)
    want = case.value(x, y)
    given = np.full(want.shape, np.nan)
    np.testing.assert_allclose(f(x, y), want, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(f(x, y, out=given), want, rtol=1e-11, atol=1e-13)
    c = case.rng.standard_normal(want.shape)
    gradient = ec.grad(ec.compile(lambda x, y, c: np.sum(case.value(x, y) * c)), (0, 1))
    got = gradient(x, y, c)
    for g, w in zip(got, gradient(*map(np.ascontiguousarray, (x, y, c))), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-10, atol=1e-12)
    along = [case.rng.standard_normal(a.shape).astype(np.longdouble) for a in (x, y)]
    step = np.longdouble(1e-5)
    more, less = (np.sum(case.value(x + s * along[0], y + s * along[1]) * c) for s in (step, -step))
    parts = [np.sum(g * d) for g, d in zip(got, along, strict=True)]
    size = sum(np.sum(np.abs(g * d)) for g, d in zip(got, along, strict=True))
    assert abs((more - less) / (2 * step) - sum(parts)) < 1e-7 * size + 1e-9


@pytest.mark.parametrize("columns, strips", [(16, False), (17, True), (300, True), (3000, False)])
def test_a_few_lines_are_written_one_after_the_other(columns, strips):
    x = np.random.default_rng(0).standard_normal((40, 7, columns))
    centred = ec.compile(lambda x: x - np.mean(x, axis=1, keepdims=True))
    scaled = ec.compile(lambda x: x / np.sum(x, axis=1, keepdims=True))  # waits for divisions
    assert ("STRIP = " in centred.dump(x)) == strips and "STRIP = " not in scaled.dump(x)
    np.testing.assert_allclose(centred(x), x - np.mean(x, axis=1, keepdims=True), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(centred(x)[3:4], centred(x[3:4]))


@pytest.mark.parametrize("length, of_map, of_fold", [
    (3, False, True), (4, False, True), (5, True, True), (7, True, True), (8, False, True),
    (9, False, True), (15, False, True)])
def test_where_vectors_go_along_the_axis_before_short_rows(length, of_map, of_fold):
    x, g = np.random.default_rng(0).standard_normal((300, length)), np.ones(length)
    for turned, function in (
            (of_map, lambda x, g: np.exp(x * g)),
            (of_fold, lambda x, g: np.exp(x) / np.sum(np.exp(x), axis=1, keepdims=True)),
            (of_fold and length < 8, lambda x, g: np.sqrt(np.sum(np.exp(x), axis=1)))):
        f = ec.compile(function)
        text = f.dump(x, g)
        assert ("w0 = " in text and "repeat(" not in text) == turned
        np.testing.assert_allclose(f(x, g), function(x, g), rtol=1e-13)
        np.testing.assert_array_equal(f(x, g)[7:8], f(x[7:8], g))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_waits_in_outputs_is_stored_in_their_order(dtype):
    def softmax(x):
        e = np.exp(x)
        return e / np.sum(e, axis=(0, 2), keepdims=True)

    x = np.random.default_rng(0).standard_normal((300, 8, 8, 7)).astype(dtype)
    f, calls_again = ec.compile(softmax), ec.compile(lambda x: softmax(x) * np.tanh(x))
    assert "w2 = " not in f.dump(x) and "w2 = " in calls_again.dump(x)
    np.testing.assert_allclose(f(x), softmax(x), rtol=1e-5 if dtype == "float32" else 1e-13)
    wide = np.empty(x.shape)  # whose elements hold no exponentials of floats
    np.testing.assert_array_equal(f(x, out=wide), f(x))


def test_of_many_slices_only_folds_that_wait_for_none_go_in_chunks(monkeypatch):
    monkeypatch.setattr(accesses, "SLICED", 1)  # not by rows
    x = np.random.default_rng(0).standard_normal((1100, 40, 17))[:, :, ::-1]
    for function, chunks in ((lambda x: np.sum(x * x, axis=0), True),
                             (lambda x: np.sum(abs(x - np.max(x, axis=0)), axis=0), False)):
        f = ec.compile(function)
        assert ("/* chunks of" in f.dump(x)) == chunks
        np.testing.assert_allclose(f(x), function(x), rtol=1e-13)
        np.testing.assert_array_equal(f(x)[3], f(x[:, 3]))


@pytest.mark.parametrize("shape", [
    (170, 9, 20), (200, 40, 33), (128, 3, 8), (127, 3, 8), (129, 130, 140), (1, 12, 12),
    (3, 2, 50, 40), (40, 70, 33), (90, 33, 100)])
def test_folds_of_slices_that_lie_across_go_by_rows(shape):
    """Of all slices, whose states are an array; as many threads and any layout give the same."""
    x, y = np.random.default_rng(3).standard_normal((2, *shape))
    across = np.ascontiguousarray(np.swapaxes(y, -1, -2)).swapaxes(-1, -2)
    functions = (lambda x, y: np.sum(x * y, axis=0), lambda x, y: np.max(x - y, axis=0),
                 lambda x, y: softmax(x, y, 0), lambda x, y: standard(x, y, 0),
                 lambda x, y: (np.argmax(x + y, axis=0), np.max(x + y), np.any(x > y, axis=0)))
    compiled = [ec.compile(function) for function in functions]
    compile_together((f, (x, other)) for f in compiled for other in (across, y))
    for f, function in zip(compiled, functions, strict=True):
        want, got = function(x, y), f(x, across)
        several = isinstance(want, tuple)
        for w, g, p in zip(*((v if several else (v,)) for v in (want, got, f(x, y))), strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-10, atol=1e-12)
            np.testing.assert_array_equal(g, p)
    f = compiled[0]
    assert ("*const sum0 = " in f.dump(x, across)) == (shape[0] >= 128 or shape[1] > 32)
    before = ec.get_num_threads()
    try:
        for threads in (1, 2):
            ec.set_num_threads(threads)
            np.testing.assert_array_equal(f(x, across), f(x, y))
    finally:
        ec.set_num_threads(before)


@pytest.mark.parametrize("shape, rows", [
    ((300, 40, 33), "sum product exp"), ((300, 20, 33), "product exp"), ((300, 3, 8), "product exp"),
    ((127, 32, 33), ""), ((127, 33, 33), "product exp"), ((16, 70, 33), "product exp"),
    ((128, 40, 257), ""), ((128, 33, 256), "sum product exp"), ((130, 40, 7), "exp")])
def test_folds_of_short_slices_go_by_rows(shape, rows):
    """Not long rows, or, of one operand, those of few slices: its states take as long.

    A few rows do in chunks of slices, of which there have to be several.
    """
    x = np.random.default_rng(0).standard_normal(shape)[:, :, ::-1]
    y = np.random.default_rng(1).standard_normal(shape)
    functions = {"sum": lambda x, y: np.sum(x, axis=0), "product": lambda x, y: np.sum(x * y, axis=0),
                 "exp": lambda x, y: np.sum(np.exp(x), axis=0)}
    for name, function in functions.items():
        f = ec.compile(function)
        text = f.dump(x, y)
        assert ("*const sum0 = " in text) == (name in rows.split()), name
        assert (" * 32;" in text) == (name in rows.split() and shape[0] < 128)
        np.testing.assert_allclose(f(x, y), function(x, y), rtol=1e-11, atol=1e-11)
        if shape[2] >= 16:  # of one narrow slice, several rows are taken side by side
            np.testing.assert_array_equal(f(x, y)[2], f(x[:, 2], y[:, 2]))


def test_chunks_of_slices_leave_those_of_others_alone():
    """Where what reads the states goes another way than what adds to them."""
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, (64, 64, 43))[:, :, 2:-1].astype(float)[..., ::-1]
    y = rng.integers(-9, 9, (64, 40, 64)).astype(float).swapaxes(1, 2)

    def function(x, y):
        return np.max(x * y - np.sum(x, axis=0), axis=0) + np.sum(y, axis=0)

    f, before = ec.compile(function), ec.get_num_threads()
    try:
        for threads in (1, 2):
            ec.set_num_threads(threads)
            np.testing.assert_array_equal(f(x, y), function(x, y))
    finally:
        ec.set_num_threads(before)


BY_TWOS = "by twos, then what is left"
WITHIN = {
    "sum": lambda x, y: np.sum(x, axis=1), "max": lambda x, y: np.max(x * y, axis=1),
    "mean": lambda x, y: x - np.mean(x * y, axis=1, keepdims=True),
    "initial": lambda x, y: np.sum(x * y, axis=1, initial=3),
    "masked": lambda x, y: np.sum(x, axis=1, where=y > 0),
    "any": lambda x, y: np.any(x > y + 2, axis=1),
    "functions": lambda x, y: np.sum(np.exp(x) * y, axis=1),
    "several": lambda x, y: (np.sum(x * y, axis=1), np.max(x, axis=1), np.prod(1 + y / 99, axis=1)),
    "variance": lambda x, y: np.var(x + y, axis=1), "softmax": lambda x, y: softmax(x, y, 1),
    "rows too": lambda x, y: np.sum(x * y, axis=1) + np.sum(x * y, axis=3)[:, :1].swapaxes(1, 2),
    "places": lambda x, y: (np.argmax(x + y, axis=1), np.max(x + y, axis=1)),
    "running": lambda x, y: np.cumsum(x, axis=1) + np.sum(x, axis=1, keepdims=True),
    "of folds": lambda x, y: np.sum(np.sum(x * y, axis=1) ** 2, axis=2),
}


@pytest.mark.parametrize("name", WITHIN)
def test_folds_of_slices_go_by_rows_within_what_is_kept(name):
    """In chunks, if they are more than 64 rows; any layout and number of threads give the same."""
    f, plain = ec.compile(WITHIN[name]), ec.compile(WITHIN[name])
    before = ec.get_num_threads()
    shapes = (3, 17, 40, 20), (2, 70, 35, 9), (4, 9, 3, 33), (3, 64, 5, 8), (5, 40, 9, 257), (2, 5, 33, 9)
    every = []
    for shape in shapes:
        x, y = np.random.default_rng(len(name)).standard_normal((2, *shape[:-1], shape[-1] + 2))[..., :-2]
        every.append((shape, x, y, np.ascontiguousarray(y.swapaxes(2, 3)).swapaxes(2, 3)))
    compile_together(call for _, x, y, across in every for call in (
        (f, (x, y)), (f, (x, across)), (plain, (x.copy(), y.copy()))))
    for shape, x, y, across in every:
        want = WITHIN[name](x, y)
        try:
            for threads in (1, 2):
                ec.set_num_threads(threads)
                results = f(x, y), f(x, across), plain(x.copy(), y.copy())
        finally:
            ec.set_num_threads(before)
        for w, *got in zip(*(r if isinstance(want, tuple) else (r,) for r in (want, *results)), strict=True):
            for g in got:
                np.testing.assert_allclose(g, w, rtol=1e-10, atol=1e-12)
                np.testing.assert_array_equal(g, got[0])
        if name == "max":
            short, text = shape[1] > 8 and shape[3] <= 256, f.dump(x, y)
            assert ("*const max0 = " in text) == short
            assert ("/* chunks of i1" in text) == (short and shape[1] > 64)
            assert (BY_TWOS in text) == (short and shape[2] > 32)


@pytest.mark.parametrize("shape", [
    (200, 3, 8, 33), (200, 3, 9, 33), (128, 2, 2, 8), (127, 3, 8, 20), (140, 5, 3, 17, 4, 10)])
def test_folds_with_a_kept_axis_between_go_by_rows(shape):
    """Of short rows; of what rounds, if few are added within each."""
    x = np.random.default_rng(3).standard_normal(shape)
    axis = tuple(range(0, len(shape), 2))
    functions = {
        "sum": lambda x: np.sum(x, axis=axis), "max": lambda x: np.max(x * x, axis=axis),
        "var": lambda x: np.var(x, axis=axis),
        "centred": lambda x: x - np.mean(x, axis=axis, keepdims=True),
        "both": lambda x: (np.sum(x, axis=axis), np.argmax(x, axis=0), np.min(x, axis=axis))}
    within = int(np.prod(shape[2::2]))
    for name, function in functions.items():
        f = ec.compile(function)
        want, got = function(x), f(x)
        several = isinstance(want, tuple)
        for w, g in zip(*((v if several else (v,)) for v in (want, got)), strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-10, atol=1e-12)
        if name in ("sum", "max") and shape[0] >= 128:
            assert ("parts0" in f.dump(x)) == (name == "max" or within <= 8)
        before = ec.get_num_threads()
        try:
            for threads in (1, 2):
                ec.set_num_threads(threads)
                np.testing.assert_array_equal(f(x)[0], got[0])
        finally:
            ec.set_num_threads(before)


def test_functions_of_what_rows_give_go_along_the_rows():
    """In a loop of their own, unless another one calls the same functions for every row."""
    x, w = np.random.default_rng(0).standard_normal((300, 40)), np.linspace(-1, 1, 40)
    for function, apart in (
            (lambda x, w: np.tanh(np.sum(x * w, axis=1)), True),
            (lambda x, w: np.mean(np.logaddexp(0, np.sum(x * w, axis=1))), True),
            (lambda x, w: np.max(x, axis=1) + np.log(np.sum(np.exp(x), axis=1)), True),
            (lambda x, w: (np.sum(x, axis=1), np.exp(np.sum(x * w, axis=1) / 9)), True),
            (lambda x, w: np.sqrt(np.sum(x * x, axis=1)), False),
            (lambda x, w: x * np.tanh(np.sum(x * w, axis=1, keepdims=True)), False),
            (lambda x, w: (np.exp(np.sum(x, axis=1) / 9), x * np.exp(np.sum(x, axis=1) / 9)[:, None]), False)):
        f = ec.compile(function)
        want, got, part = function(x, w), f(x, w), f(x[7:8], w)
        several = isinstance(want, tuple)
        assert ("buffer0" in f.dump(x, w)) == apart
        for g, e, p in zip(*((v if several else (v,)) for v in (got, want, part)), strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-12, atol=1e-14)
            if np.ndim(e):
                np.testing.assert_array_equal(g[7:8], p)


@pytest.mark.parametrize("step", [-1, 2, 3, -3, 5])
def test_columns_of_slices_go_in_strips(step):
    f = ec.compile(lambda x: (x[:, ::step].sum(axis=0), x[:, ::step].max(axis=0)))
    x = np.random.default_rng(0).integers(0, 99, (50, 130)).astype(float)
    for got, want in zip(f(x), (x[:, ::step].sum(axis=0), x[:, ::step].max(axis=0)), strict=True):
        assert np.array_equal(got, want)
    assert "STRIP" in f.dump(x) and "in lanes" not in f.dump(x)


def test_a_few_rows_have_kernels_of_their_own_whatever_came_before():
    f, g = (ec.function([s], ec.sum(s, axis=0)) for s in (ec.matrix("x"), ec.matrix("x")))
    x = np.ones((16, 900))
    f(x), f(x[:3]), g(x[:3])
    texts = [[k.source.text for k in h.specializations] for h in (f, g)]
    assert texts[0][1:] == texts[1] and texts[0][0] != texts[1][0]


@pytest.mark.parametrize("f", [
    lambda x: x[5:-5] * 2, lambda x: x[1:] - x[:-1], lambda x: x[3:].sum(), lambda x: x[2:].argmin(),
    lambda x: x[:, 1:].max(axis=(1, 2)), lambda x: x[:, 1:-1] + x[:, :1], lambda x: np.diff(x, axis=0),
    lambda x: x[-3:] * x[:3], lambda x: np.cumsum(x[1:], axis=0), lambda x: x[9:].sum(axis=0),
    lambda x: x[::-1][2:] + 1, lambda x: x[1::2] + 1, lambda x: (x[1:] > x[:-1]).argmax()])
def test_slices_of_whole_rows(f):
    rng = np.random.default_rng(0)
    compiled = ec.compile(f)
    every = [y for shape in ((20, 7, 5), (11, 6, 1), (10, 3, 40))
             for x in [rng.integers(-9, 9, shape).astype("f8")]
             for y in (x, np.asfortranarray(x), x[:, :, ::-1], x.transpose(1, 0, 2).copy().transpose(1, 0, 2))]
    compile_together((compiled, [y]) for y in every)
    for y in every:
        np.testing.assert_array_equal(compiled(y), f(y))


def test_slices_of_whole_rows_are_one_axis():
    x = np.ones((50, 7))
    for f in (lambda x: x[5:-5] * 2, lambda x: x[1:] - x[:-1], lambda x: x[3:].sum()):
        assert "in x[i0]:" in ec.compile(f).dump(x)
    assert "in x[i0, i1]:" in ec.compile(lambda x: x[:, 1:] * 2).dump(x)


@pytest.mark.parametrize("shape, axes", [((64, 8, 8, 7), (1, 3)), ((33, 70, 8), (0, 2)), ((2, 9, 8, 7), (1, 3))])
def test_gradient_of_a_product_along_short_rows_within_others(shape, axes):
    """Where a side of a choice is around the rows."""
    x = np.random.default_rng(0).uniform(0.9, 1.1, shape)
    grad = ec.grad(ec.compile(lambda x: np.sum(np.prod(x, axis=axes))))
    np.testing.assert_allclose(grad(x), np.prod(x, axis=axes, keepdims=True) / x, rtol=1e-12)


@pytest.mark.parametrize("dtype, width, turned", [
    ("float64", 2, True), ("float64", 4, True), ("float64", 7, True), ("float64", 8, False),
    ("float32", 3, True), ("float32", 8, True), ("float32", 15, True), ("float32", 16, False)])
@pytest.mark.parametrize("function", [
    lambda x: np.sum(np.sin(x), axis=1),
    lambda x: np.exp(x) / np.sum(np.exp(x), axis=1, keepdims=True)])
def test_functions_of_strips_that_fill_no_vector_go_along_a_long_axis(dtype, width, turned, function):
    f, rng = ec.compile(function), np.random.default_rng(0)
    for rows in (7, 63):
        x = rng.standard_normal((50, rows, width)).astype(dtype)
        every = x, x[:, :, ::-1], x[:, ::-1], np.asfortranarray(x)
        compile_together((f, [of]) for of in (*every, x[3:4]))
        for of in every:
            np.testing.assert_allclose(f(of), function(of), rtol=1e-5 if dtype == "float32" else 1e-13,
                                       atol=1e-5 if dtype == "float32" else 1e-13)
        np.testing.assert_array_equal(f(x)[3:4], f(x[3:4]))
        packed = rows > 16 and width >= 8  # side by side
        assert ("_each(" not in f.dump(x)) == (turned and not packed)
        assert not turned or ("_rows[PACK" in f.dump(x)) == packed


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape, turned", [((300, 5, 3), True), ((300, 7, 5), True), ((20, 40, 3), False)])
def test_parts_of_folds_that_call_functions_along_few_elements(shape, turned, dtype):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    for function in (lambda x: np.sum(np.sin(x), axis=(0, 2)),
                     lambda x: np.sin(x) - np.mean(np.sin(x), axis=(0, 2), keepdims=True)):
        f = ec.compile(function)
        assert ("b0 += TURNED" in f.dump(x)) == turned
        np.testing.assert_allclose(f(x), function(x), rtol=1e-4 if dtype == "float32" else 1e-12, atol=1e-5 if dtype == "float32" else 1e-13)


@pytest.mark.parametrize("dtype, columns, packed", [
    ("float32", 17, True), ("float32", 40, True), ("float32", 32, False), ("float32", 41, False),
    ("float64", 17, True), ("float64", 20, True), ("float64", 16, False), ("float64", 21, False)])
def test_several_rows_of_a_table_go_at_once_where_functions_would_leave_vectors_empty(dtype, columns, packed):
    def softmax(x):
        e = np.exp(x - np.max(x, axis=0))
        return e / np.sum(e, axis=0)

    tolerance = {"rtol": 1e-5, "atol": 1e-6} if dtype == "float32" else {"rtol": 1e-12, "atol": 1e-14}
    side_by_side = re.compile(r"sum0_rows\[PACK|sum0\[l\] \+ \w+_rows")
    tables = [np.random.default_rng(0).standard_normal((rows, columns)).astype(dtype)
              for rows in (16, 100, 1024, 3001)]
    for function in (softmax, lambda x: np.sum(np.sin(x) * x, axis=0), lambda x: np.mean(np.tanh(x), axis=0)):
        f = ec.compile(function)
        compile_together((f, [of]) for x in tables for of in (x, x[:, ::-1], np.asfortranarray(x)))
        for x in tables:
            assert bool(side_by_side.search(f.dump(x))) == packed
            for of in (x, x[:, ::-1], np.asfortranarray(x)):
                np.testing.assert_allclose(f(of), function(of), **tolerance)
        assert not side_by_side.search(f.dump(x[:15]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("rows, columns", [(16, 7), (37, 3), (100, 2), (448, 3), (700, 15), (1000, 20)])
def test_functions_of_rows_that_go_at_once_change_no_order(dtype, rows, columns):
    """Whatever comes with them, waits in outputs, is chosen or counts them."""
    x = np.random.default_rng(rows).standard_normal((rows, columns)).astype(dtype)
    index = np.arange(rows)[:, None] * np.ones(columns)

    def centred(x):
        t = np.exp(x)
        return t - np.mean(t, axis=0)

    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == "float32" else {"rtol": 1e-11, "atol": 1e-11}
    functions = (centred, lambda x: np.sum(np.sin(x), axis=0, where=np.abs(x) > 1),
                 lambda x: (np.sum(np.sin(x) + index, axis=0), np.sum(index, axis=0)),
                 lambda x: np.sum(np.sin(x) * np.arange(rows)[:, None], axis=0),
                 lambda x: (np.max(np.sin(np.abs(x)), axis=0), np.prod(1 + np.sin(x) / 1e3, axis=0)))
    compiled = [ec.compile(function) for function in functions]
    compile_together((f, [x]) for f in compiled)
    for f, function in zip(compiled, functions, strict=True):
        whole, want = f(x), function(x)
        several = isinstance(want, tuple)
        for got, right in zip(whole if several else (whole,), want if several else (want,), strict=True):
            np.testing.assert_allclose(got, right, **tolerance)
    f = ec.compile(lambda x: np.sum(np.sin(x), axis=0))
    long = np.stack([x] * 100)  # along which vectors go
    np.testing.assert_array_equal(ec.compile(lambda x: np.sum(np.sin(x), axis=1))(long)[7], f(x))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 1100, 5), (3, 300, 5), (20, 300, 6), (3, 60, 3), (50, 60, 3), (2, 9, 7)])
def test_batches_of_tables_have_the_bits_of_one(shape, dtype):
    """Whether vectors go along the batch, if it is long and there are few rows, or along rows side by side."""
    x = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    for function in (lambda x: np.sum(np.sin(x), axis=-2),
                     lambda x: np.exp(x) / np.sum(np.exp(x), axis=-2, keepdims=True),
                     lambda x: np.sin(x) - np.mean(np.sin(x), axis=-2, keepdims=True)):
        f, one = ec.compile(function), ec.compile(function)
        np.testing.assert_allclose(f(x), function(x), rtol=1e-4 if dtype == "float32" else 1e-11, atol=1e-4)
        np.testing.assert_array_equal(f(x)[1], one(x[1]))
        assert ("[PACK * " in f.dump(x)) == (shape[1] >= 256 or shape[1] > 16 > shape[0])


def test_a_strip_holds_the_rows_that_go_at_once():
    """However many states other folds of the kernel have."""
    rng = np.random.default_rng(0)
    x, z = rng.random((1024, 40)).astype("float32"), rng.random((300, 20)) + 1j
    f = ec.compile(lambda x, z: (np.sum(np.sin(x), axis=0), *(np.sum(z * z * k + z, axis=0) for k in range(1, 18))))
    assert "STRIP = 40," in f.dump(x, z) and "sum0_rows[PACK * 40]" in f.dump(x, z)
    got = f(x, z)
    np.testing.assert_allclose(got[0], np.sum(np.sin(x), axis=0), rtol=1e-5)
    for k in range(1, 18):
        np.testing.assert_allclose(got[k], np.sum(z * z * k + z, axis=0), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [15, 16, 17, 100, 9001])
@pytest.mark.parametrize("few", [2, 3, 7, 8])
def test_sums_of_folds_of_a_few_elements_are_lanes(few, length, dtype):
    def norms(x):
        return np.sum(np.sqrt(np.sum(x * x, axis=1)) - 1, axis=-1)

    def spreads(x):
        return np.mean(np.var(x, axis=1) * np.max(x, axis=1), axis=-1)

    x = np.random.default_rng(length).standard_normal((3, few, length)).astype(dtype)
    laid = x, x.swapaxes(1, 2).copy().swapaxes(1, 2)
    compiled = {f: ec.compile(f) for f in (norms, spreads)}
    compile_together((made, [given]) for made in compiled.values() for given in laid)
    for given in laid:
        for f, made in compiled.items():
            rtol = 1e-4 if dtype == "float32" else 1e-11
            np.testing.assert_allclose(made(given), f(given.astype(float)), rtol=rtol)
            assert length < 16 or "in lanes" in made.dump(given)


@pytest.mark.parametrize("name", ["sum", "max", "prod"])
@pytest.mark.parametrize("shape", [(5000, 7), (2, 300, 5), (3, 2, 40)])
def test_lines_of_a_few_elements_across_rows_are_read_once(shape, name):
    def f(a, b):
        return getattr(np, name)(1 + a * b / 1e3, axis=(-2, -1))

    a, b = np.random.default_rng(len(shape)).standard_normal((2, *shape))
    across = a.swapaxes(-1, -2).copy().swapaxes(-1, -2)
    compiled = ec.compile(f)
    np.testing.assert_allclose(compiled(across, b), f(a, b), rtol=1e-12)
    within = re.compile(rf"{name} along i\d, in lanes \*/.*/\* \w+: {name} along i\d \*/", re.DOTALL)
    assert within.search(compiled.dump(across, b))
