"""Kernels compiled ahead of the calls that need them."""

import threading

import numpy as np
import pytest

import elemc as ec
from elemc import build, build_jobs, compiler, prepare
from elemc.errors import ArgumentError, CompileError, DtypeError, ShapeError
from elemc.function import Function

X = np.random.default_rng(0).normal(size=(6, 40))


def shares(x, scale=1.0):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return scale * e / e.sum(axis=-1, keepdims=True)


@pytest.fixture
def no_more(monkeypatch):
    """From then on, nothing is compiled or fetched."""
    def forbid():
        def load(*args, **named):
            raise AssertionError("a kernel that was to be prepared")
        monkeypatch.setattr(compiler, "load", load)
    return forbid


CALLS = [(X,), (X.astype(np.float32),), (X.T,), (X[:, :3],), (X[0],), (X, 2.0), (X, 3)]


def test_calls_find_their_kernels(no_more):
    f = ec.compile(shares)
    f.prepare(*CALLS)
    no_more()
    for args in CALLS:
        np.testing.assert_allclose(f(*args), shares(*args), rtol=1e-6)


def test_values_do_not_count(no_more):
    f = ec.compile(shares)
    f.prepare((np.empty(X.shape),), (np.empty(X.shape, np.float32),))
    no_more()
    np.testing.assert_allclose(f(X), shares(X), rtol=1e-14)
    assert f(X.astype(np.float32)).dtype == np.float32


def test_functions_of_inputs_of_any_dtype(no_more):
    x, k = ec.array("x", ndim=2, dtype=None), ec.array("k", ndim=0, dtype=None)
    f = ec.function([x, k], x * k + 1)
    calls = (X, 2.0), (X.astype(np.int32), 2), (X.T, np.float64(2))
    f.prepare(*calls)
    no_more()
    for args in calls:
        np.testing.assert_array_equal(f(*args), args[0] * args[1] + 1)
        assert f(*args).dtype == (args[0] * args[1] + 1).dtype


def test_compilers_run_side_by_side(monkeypatch):
    monkeypatch.setattr(prepare, "cpus", lambda: 3)
    monkeypatch.setenv("ELEMC_CFLAGS", "-DELEMC_TESTS_PREPARE")  # which nothing is cached for
    ec.compile(lambda x: x + 1)(X)  # the runtime
    real, meet = build_jobs.run_in, threading.Barrier(3)

    def together(*args):
        meet.wait(60)
        return real(*args)

    monkeypatch.setattr(build_jobs, "run_in", together)
    f = ec.compile(lambda x: x * 7)
    f.prepare((X,), (X.astype(np.float32),), (X[:, ::2],))
    assert meet.broken is False and len(f.specializations) == 3


def test_the_error_of_a_call():
    f = ec.compile(shares)
    with pytest.raises(ArgumentError, match=r"shares.prepare takes a tuple .* not ndarray"):
        f.prepare(X)
    with pytest.raises(ArgumentError, match="not list"):
        f.prepare([(X,), (X.T,)])
    with pytest.raises(DtypeError, match="300 does not fit"):
        ec.compile(lambda a, k: a * k).prepare((np.ones((2, 3), np.int8), 300))
    g = ec.function([x := ec.matrix("x"), y := ec.matrix("y")], x + y, name="g")
    with pytest.raises(ShapeError, match="g"):
        g.prepare((X, X), (X, X[:, :3]))
    with pytest.raises(ArgumentError, match="g"):
        g.prepare((X,))


def test_without_a_compiler(monkeypatch, no_more):
    """The interpreter, which will answer, has nothing to prepare."""
    def missing():
        raise CompileError("there is none")

    monkeypatch.setattr(Function, "_has_compiler", lambda self: False)
    monkeypatch.setattr(build, "toolchain", missing)
    no_more()
    f = ec.compile(shares)
    f.prepare((X,))
    assert f.specializations == []


def test_without_threads(monkeypatch, no_more):
    def start(self):
        raise RuntimeError("can't start new thread")

    f = ec.compile(shares)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        f.prepare((X,), (X.T,))
    no_more()
    np.testing.assert_allclose(f(X.T), shares(X.T), rtol=1e-14)


def test_named_arguments_and_symbols(no_more):
    f = ec.compile(lambda x, *, axis: np.cumsum(x, axis=axis), static="axis")
    f.prepare((X,), (X.astype(np.float32),), axis=1)
    g = ec.compile(lambda x: x + 1)
    g.prepare((ec.matrix("x"),))  # such a call compiles nothing
    assert g.specializations == []
    no_more()
    np.testing.assert_allclose(f(X, axis=1), np.cumsum(X, axis=1), rtol=1e-14)


def test_gradients(no_more):
    pull = ec.vjp(ec.compile(lambda x: np.tanh(x) * x))
    slope = ec.grad(ec.compile(lambda x: (x * x).sum()))
    pull.prepare((X, X))
    slope.prepare((X,))
    no_more()
    np.testing.assert_allclose(slope(X), 2 * X)
    np.testing.assert_allclose(pull(X, X)[0], X * (np.tanh(X) + X / np.cosh(X) ** 2))
