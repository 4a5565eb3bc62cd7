"""Functions made by `elemc.compile` are called through C for kinds of arguments met before."""

import copy
import gc
import inspect
import pickle
import weakref

import numpy as np
import pytest

import elemc as ec
from elemc import tracing

from .helpers import DTYPES, assert_same_bits, sample
from .test_fastcall import same


@ec.compile
def affine(x, y, k=1.0):
    """A line."""
    return x * y + k


def fresh():
    return ec.compile(affine.__wrapped__)


def through_c(f, *args, **named):
    """The result of a call, which must need no Python of elemc."""
    before = {id(g): g._hits for g in f._traced.values()}
    calls = []
    f._bind = lambda *a: calls.append(a)  # the first thing that the path in Python does
    try:
        result = f(*args, **named)
    finally:
        del f._bind
    assert not calls
    assert sum(g._hits - before[id(g)] for g in f._traced.values()) == 1
    return result


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d not in ("bool",)])
def test_second_call_needs_no_python(dtype):
    f = fresh()
    a, b = sample(dtype, 5, 1), sample(dtype, 5, 2)
    want = f(a, b)
    same(through_c(f, a, b), want)
    o = np.empty_like(want)
    f(a, b, out=o)
    assert through_c(f, a, b, out=o) is o
    same(o, want)


def test_numbers_and_scalars_are_kinds_of_their_own():
    f = fresh()
    a = sample("float32", 5)
    calls = [(a, 2.0), (a, 2), (a, np.float64(2)), (a, np.float32(2)), (a, np.array(2.0)),
             (a, a, 3), (a, a, np.float64(3)), (np.float64(2), a), (2.5, a)]
    want = [f(*args) for args in calls]
    assert [w.dtype.name for w in want] == ["float32", "float32", "float64", "float32", "float64",
                                            "float32", "float64", "float64", "float32"]
    for args, expected in zip(calls, want, strict=True):
        assert_same_bits(f(*args), expected)
        assert_same_bits(expected, affine.__wrapped__(*args))


def test_defaults_follow_what_is_given():
    steps = np.arange(5.0)

    @ec.compile
    def f(x, *rest, k=2.0, shift=steps):
        return x * k + shift + sum(rest)

    a = sample("float64", 5)
    for args in [(a,), (a, a), (a, a, 1.0)]:
        want = f(*args)
        same(through_c(f, *args), want)
        o = np.empty(5)
        f(*args, out=o)
        assert through_c(f, *args, out=o, where=True, req=None) is o
        np.testing.assert_array_equal(f(*args, k=3.0), want + a)
        np.testing.assert_array_equal(f(*args), want)


def test_python_serves_the_rest():
    f = fresh()
    a = sample("float64", 5)
    want = f(a, a)
    same(f(x=a, y=a), want)
    same(f(a, a, where=np.ones(5, bool), out=np.empty(5)), want)
    same(f(a.tolist(), a), want)
    same(f(a, a, k=1.0), want)
    x = ec.vector("x")
    assert isinstance(f(x, x), ec.Array)
    same(f(a, a, req="write"), want)
    with pytest.raises(ec.ArgumentError, match="missing a required argument"):
        f(a)
    with pytest.raises(ec.ArgumentError, match="too many positional"):
        f(a, a, a, a)
    with pytest.raises(ec.ArgumentError, match="no argument q; it has x, y, k"):
        f(a, a, q=1)
    with pytest.raises(ec.ShapeError, match="affine"):
        f(a, a[:3])
    with pytest.raises(ec.ArgumentError, match="object"):
        f(a, np.array([None]))


def test_static_arguments_are_looked_at():
    @ec.compile(static="axis")
    def total(x, axis=0):
        return x.sum(axis=axis)

    a = sample("float64", (3, 4))
    for axis in (0, 1, 0, 1):
        np.testing.assert_allclose(total(a, axis), a.sum(axis=axis))


def test_structures():
    f = ec.compile(lambda x, y: {"sum": x + y, "difference": x - y})
    a = sample("float64", 5)
    want = f(a, 1.0)
    got = through_c(f, a, 1.0)
    assert list(got) == ["sum", "difference"]
    for k in got:
        same(got[k], want[k])


def test_many_arguments():
    f = ec.compile(lambda *xs: sum(xs))
    for count in (1, 30, 31, 32, 33, 40, 110):
        arrays = [np.full(3, float(k)) for k in range(count)]
        for _ in range(3):
            np.testing.assert_array_equal(f(*arrays), sum(range(count)))


def test_it_remains_an_object_of_python():
    f = fresh()
    a = sample("float64", 5)
    want = f(a, a)
    assert isinstance(f, tracing.TracedFunction) and type(f) is not tracing.TracedFunction
    assert f.__name__ == "affine" and f.__doc__ == "A line."
    assert list(inspect.signature(f).parameters) == ["x", "y", "k"]
    for g in (pickle.loads(pickle.dumps(affine)), copy.copy(f), copy.deepcopy(f)):
        same(g(a, a), want)
        same(g(a, a), want)
    lost = weakref.ref(f)
    del f, g
    gc.collect()
    assert lost() is None


def test_arguments_by_name():
    """In any order, where no place before theirs is left to its default."""
    f = fresh()
    x, y, k = (sample("float64", 5, seed) for seed in (1, 2, 3))
    want = f(x=x, y=y, k=k)
    assert_same_bits(want, x * y + k)
    out = np.empty(5)
    for args, named in [((), {"k": k, "y": y, "x": x}), ((x,), {"k": k, "y": y}),
                        ((x, y), {"k": k}), ((x, y, k), {})]:
        assert_same_bits(through_c(f, *args, **named), want)
        f(*args, **named, out=out)
        assert through_c(f, *args, out=out, req="write", **named) is out
        assert_same_bits(out, want)
    f(x, y=y)
    assert_same_bits(through_c(f, x, y=y), x * y + 1)
    for args, named in [((x,), {"x": x}), ((x,), {"k": k}), ((x, y), {"z": k}),
                        ((x, y, k), {"k": k}), ((), {"y": y, "k": k})]:
        with pytest.raises(ec.ElemcError, match="argument"):
            f(*args, **named)


def test_arguments_that_have_no_place():
    x, y = sample("float64", 5, 1), sample("float64", 5, 2)
    only, of_many = ec.compile(lambda x, *, y: x - y), ec.compile(lambda x, *more, y: x - y)
    for f in (only, of_many):
        for _ in range(2):
            assert_same_bits(f(x, y=y), x - y)
            with pytest.raises(ec.ElemcError, match="argument"):
                f(x, y)
    first = ec.compile(lambda x, /, y: x - y)
    for _ in range(2):
        assert_same_bits(first(x, y=y), x - y)
        with pytest.raises(ec.ElemcError, match="positional only"):
            first(x=x, y=y)


def test_settings():
    """Static arguments, and what is one without being named so, as long as they are the same."""
    @ec.compile(static=("axis", "scale"))
    def total(x, axis=0, scale=1, w=None, how="sum"):
        made = x if w is None else x * w
        return getattr(np, how)(made, axis=axis) * scale

    x, w = sample("float64", (3, 4), 1), sample("float64", (3, 4), 2)
    for _ in range(2):
        for axis in (0, 1):
            total(x, axis), total(x, axis=axis), total(x, axis, 2.5, w, "max")
            total(x, axis, scale=2.5, w=None), total(x, how="max", w=w, axis=axis, scale=2.5)
    for axis in (0, 1):
        best = np.max(x * w, axis) * 2.5
        assert_same_bits(through_c(total, x, axis), total(x, axis=axis))
        np.testing.assert_allclose(through_c(total, x, axis=axis), x.sum(axis))
        np.testing.assert_array_equal(through_c(total, x, axis, 2.5, w, "max"), best)
        np.testing.assert_array_equal(
            through_c(total, x, how="max", w=w, axis=axis, scale=2.5), best)
        np.testing.assert_allclose(
            through_c(total, x, axis, scale=2.5, w=None), x.sum(axis) * 2.5)
    assert_same_bits(total(x, True), total(x, 1))  # another object
    with pytest.raises(ec.ElemcError):
        total(x, 2)


def test_methods():
    class Line:
        def __init__(self, slope):
            self.slope = slope

        @ec.compile(static="self")
        def at(self, x, shift=0.0):
            return self.slope * x + shift

    class Mutable(Line):
        def __hash__(self):
            return hash(self.slope)

        def __eq__(self, other):
            return self.slope == other.slope

    x = sample("float64", 5)
    two, three, own = Line(2), Line(3), Mutable(4)
    for _ in range(2):
        for line in (two, three, own):
            np.testing.assert_array_equal(line.at(x), line.slope * x)
            np.testing.assert_array_equal(line.at(x, shift=x), line.slope * x + x)
    own.slope = 5  # which is another value: nothing is taken for granted
    np.testing.assert_array_equal(own.at(x), 5 * x)
    np.testing.assert_array_equal(through_c(Line.at, three, x), 3 * x)


def test_settings_before_any_number_of_arrays():
    @ec.compile(static=("first", "last"))
    def f(first, *xs, last=0):
        return sum(xs) * first + last

    x, y = sample("float64", 5, 1), sample("float64", 5, 2)
    for _ in range(2):
        for first in (2, 3):
            np.testing.assert_allclose(f(first, x, y), (x + y) * first)
            np.testing.assert_allclose(f(first, x), x * first)
            np.testing.assert_allclose(f(first, x, y, last=7), (x + y) * first + 7)
            np.testing.assert_allclose(f(first, y, last=7), y * first + 7)


FORMS = [
    lambda x, n=None, c=3.0: x + c if n is None else x - c * n,
    lambda x, low=None, high=None: (x if low is None else np.maximum(x, low)) if high is None
    else np.minimum(x, high),
    lambda x, b=2.0, c=3.0: x * b + c,
    lambda x, mode="a", c=3.0: x + c if isinstance(mode, str) else x - c * mode,
    lambda x, y=2.0, *, z=1.0: x * y + z,
    lambda x, b=2.0, **more: x * b + sum(more.values()),
    lambda x, y=None, z=2.5, *rest: x * z + sum(rest),
    lambda x, y=3.0, /, z=1.0: x * y - z,
]


@pytest.mark.parametrize("form", range(len(FORMS)))
def test_arguments_that_leave_out_others(form):
    """A call is remembered by the places of what is given, whatever else has a default."""
    plain, compiled = FORMS[form], ec.compile(FORMS[form])
    names = [*inspect.signature(plain).parameters][1:3]
    x, rng = sample("float64", 5), np.random.default_rng(form)
    calls = [((x,), {}), ((x, 1.5), {}), ((x, 1.5, 0.5), {}), ((x,), {"": 1.0})]
    calls += [((x,), {n: v for n, v in zip(some, (1.25, 0.75), strict=False)})
              for some in (names, names[::-1], names[:1], names[1:])]
    for k in rng.permutation(4 * len(calls)) % len(calls):
        args, named = calls[k]
        try:
            want = plain(*args, **named)
        except TypeError:
            with pytest.raises(ec.ElemcError):
                compiled(*args, **named)
        else:
            np.testing.assert_array_equal(compiled(*args, **named), want)
