"""Extrema that are taken off and make no difference have no gradient: nothing looks for them."""

import numpy as np
import pytest

import elemc as ec
from elemc.gradient_shifts import Shifts

RNG = np.random.default_rng(5)
X, C = RNG.standard_normal((2, 6, 5))
ROW = {"axis": 1, "keepdims": True}


def shifted(x, top=np.max, **axis):
    return x - top(x, **(axis or ROW))


def softmax(x, top=np.max, axis=1):
    e = np.exp(shifted(x, top, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def log_softmax(x):
    d = shifted(x)
    return d - np.log(np.sum(np.exp(d), **ROW))


def logsumexp(x, axis=1):
    top = np.max(x, axis=axis)
    return top + np.log(np.sum(np.exp(x - np.expand_dims(top, axis)), axis=axis))


AWAY = {
    "softmax": lambda x, c: (softmax(x) * c).sum(),
    "of columns": lambda x, c: (softmax(x, axis=0) * c).sum(),
    "of all": lambda x, c: (np.exp(x - x.max()) / np.exp(x - x.max()).sum() * c).sum(),
    "least": lambda x, c: (softmax(x, np.min) * c).sum(),
    "of other numbers": lambda x, c: (softmax(x, lambda x, **of: np.max(x * C, **of)) * c).sum(),
    "log": lambda x, c: (log_softmax(x) * c).sum(),
    "logsumexp": lambda x, c: logsumexp(x).sum(),
    "of columns, logsumexp": lambda x, c: np.square(logsumexp(x, 0)).sum(),
    "turned": lambda x, c: (softmax(x.T).T * c).sum(),
    "negated": lambda x, c: (1 / (1 / softmax(x)) * c + np.log(-np.negative(softmax(x)))).sum(),
    "twice": lambda x, c: (softmax(softmax(x) * c) * c).sum(),
    "weighted": lambda x, c: (np.sum(np.exp(shifted(x)) * c, axis=1)
                              / np.sum(np.exp(shifted(x)), axis=1)).sum(),
    "masked": lambda x, c: (np.sum(np.exp(shifted(x)) * c, axis=1, where=c > 0)
                            / np.sum(np.exp(shifted(x)), axis=1)).sum(),
    "choices": lambda x, c: (np.where(c > 0, shifted(x), shifted(x * c) - shifted(x * c) + shifted(
        x)) - shifted(x)).sum(),
    "another extremum": lambda x, c: (np.max(shifted(x), axis=1) - np.maximum(
        shifted(x), shifted(x)).min(axis=1)).sum(),
    "held": lambda x, c: (softmax(x) * ec.stop_gradient(shifted(x))).sum(),
    "converted": lambda x, c: (softmax(x.astype("float32")).astype("float64") * c).sum(),
}

STAYS = {
    "itself": lambda x, c: x.max(axis=1).sum(),
    "taken off": lambda x, c: (shifted(x) * c).sum(),
    "exponentials": lambda x, c: (np.exp(shifted(x)) * c).sum(),
    "not all": lambda x, c: (np.exp(shifted(x)) / (1 + np.exp(shifted(x)).sum(**ROW)) * c).sum(),
    "from 1": lambda x, c: (np.exp(shifted(x)) / np.sum(
        np.exp(shifted(x)), initial=1.0, **ROW) * c).sum(),
    "sums": lambda x, c: (shifted(x).sum(axis=1) - shifted(x)[:, 0]).sum(),
    "other exponentials": lambda x, c: (np.exp(shifted(x)) / np.exp2(shifted(x)).sum(**ROW)).sum(),
    "of other rows": lambda x, c: (np.exp(shifted(x)) / np.exp(shifted(x))[::-1].sum(**ROW)).sum(),
    "of columns and rows": lambda x, c: (shifted(x[:5]) - shifted(x[:5]).T).sum() + (
        np.exp(shifted(x[:5])) / np.exp(shifted(x[:5])).T * c[:5]).sum(),
    "along the extrema": lambda x, c: (np.exp(shifted(x)) / np.exp(shifted(x)).sum(
        axis=0) * c).sum(),
    "diagonal": lambda x, c: (np.diagonal(shifted(x[:5])) - shifted(x)[0, 0]).sum(),
    "picked": lambda x, c: (shifted(x)[2] - shifted(x)[3]).sum(),
    "greater of two": lambda x, c: (np.maximum(shifted(x), c) - shifted(x)).sum(),
    "started": lambda x, c: (np.max(shifted(x), axis=1, initial=-1.0) - shifted(x)[:, 0]).sum(),
    "chosen": lambda x, c: (np.where(c > 0, shifted(x), 2 * shifted(x)) - shifted(x)).sum(),
    "squares": lambda x, c: (shifted(x) ** 2).sum(),
    "products": lambda x, c: (np.exp(shifted(x)) * np.exp(shifted(x)) * c).sum(),
    "to all of equal ones": lambda x, c: (ec.max(
        shifted(np.round(x)), 1, ties="all") * 0 + ec.max(shifted(x), 1, ties="all") - shifted(x)[
            :, 0]).sum(),
    "function": lambda x, c: (np.tanh(shifted(x)) * c).sum(),
}


def difference(cost, x, c):
    """Central differences."""
    step, found = 1e-6, np.empty_like(x)
    for at in np.ndindex(*x.shape):
        ends = []
        for side in (-step, step):
            moved = x.copy()
            moved[at] += side
            ends.append(float(cost(moved, c)))
        found[at] = (ends[1] - ends[0]) / (2 * step)
    return found


@pytest.fixture
def matters(monkeypatch):
    """What is said of extrema."""
    found = []
    ask = Shifts.matters
    monkeypatch.setattr(Shifts, "matters", lambda self, node: found.append(ask(self, node))
                        or found[-1])
    return found


@pytest.mark.parametrize("name", AWAY)
def test_extrema_that_make_no_difference(name, matters):
    got = ec.grad(ec.compile(AWAY[name]))(X, C)
    assert matters and not matters[-1]  # the last is the first that is computed
    if name in ("held", "converted"):
        z = softmax(X)
        weight = C if name == "converted" else shifted(X)
        want = z * (weight - (z * weight).sum(axis=1, keepdims=True))
    else:
        want = difference(ec.compile(AWAY[name]), X, C)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", STAYS)
def test_extrema_that_do(name, matters):
    got = ec.grad(ec.compile(STAYS[name]))(X, C)
    assert any(matters)
    np.testing.assert_allclose(got, difference(ec.compile(STAYS[name]), X, C), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["softmax", "log", "logsumexp"])
def test_nothing_is_looked_for(name):
    text = ec.grad(ec.compile(AWAY[name])).dump(X, C)
    assert "max0" in text and "== max0" not in text


@ec.custom_vjp
def reversed_(x):
    return x


@reversed_.defvjp
def _(g, z, x):
    return (-g,)


@ec.custom_vjp
def step(x):
    return np.where(x > 0, 1.0, 0.0)


@step.defvjp
def _(g, z, x):
    return (g,)


STEP = ec.scalar_op("step", fn=lambda v: np.where(v > 0, 1.0, 0.0), vjp=lambda g, out, v: g)
RULES = {  # of users: the function itself says nothing of its gradient
    "reversed": lambda x: reversed_(x.max(axis=1)).sum(),
    "and taken off": lambda x: reversed_(shifted(x)).sum() + x.max(axis=1).sum() * 0,
    "step": lambda x: step(x.max(axis=1)).sum(),
    "scalar": lambda x: STEP(x.max(axis=1)).sum(),
}


@pytest.mark.parametrize("name", RULES)
def test_rules_of_users(name):
    greatest = (X == X.max(**ROW)).astype(float)
    want = {"reversed": -greatest, "and taken off": 5 * greatest - 1}.get(name, greatest)
    np.testing.assert_array_equal(ec.grad(ec.compile(RULES[name]))(X), want)


def test_second_derivatives():
    f = ec.compile(lambda x, c: (ec.grad((softmax(x) * c).sum(), x) ** 2).sum())
    np.testing.assert_allclose(ec.grad(f)(X, C), difference(f, X, C), rtol=1e-4, atol=1e-6)


def test_every_output_counts():
    """A jvp of results of which one keeps the maximum."""
    f = ec.compile(lambda x: (softmax(x), x.max(axis=1)))
    z, top, dz, dtop = ec.jvp(f)(X, C)
    np.testing.assert_allclose(dz, z * (C - (z * C).sum(**ROW)), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(dtop, np.take_along_axis(C, X.argmax(**ROW), 1)[:, 0])
    np.testing.assert_array_equal(top, X.max(axis=1))


def test_many_of_them():
    def f(x):
        for _ in range(60):
            x = softmax(x) * x
        return x.sum()

    np.testing.assert_allclose(ec.grad(ec.compile(f))(X), difference(ec.compile(lambda x, c: f(x)),
                                                                     X, C), rtol=1e-4, atol=1e-7)
