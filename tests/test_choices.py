"""Choices made for whole rows: what only one side needs is done only where that side is taken."""

import numpy as np
import pytest

import elemc as ec

from .helpers import compile_together

RNG = np.random.default_rng(0)
Y = RNG.normal(size=(6, 9))
OTHERS = np.add.outer(np.arange(6), np.arange(4))

WHERE = {
    "rows": lambda x: np.where(x.sum(axis=1, keepdims=True) > 0, x * 2, np.cumsum(x, 1)),
    "first": lambda x: np.where(x[:, :1] > 0, np.cumsum(x, 1), 7.0),
    "two scans": lambda x: np.where(x[:, :1] > 0, np.cumsum(x, 1), np.cumprod(x, 1)[:, ::-1]),
    "within": lambda x: 1 + 2 * np.where(x[:, :1] > 0, np.exp(np.cumsum(x, 1)), x) / (x * x + 1),
    "folded": lambda x: np.where(x[:, :1] > 0, np.cumsum(x, 1) - np.cumsum(x, 1).max(
        axis=1, keepdims=True), x.argmax(axis=1, keepdims=True)),
    "everything": lambda x: np.where(x.sum() > 0, np.cumsum(x, 1), x),
    "twice": lambda x: np.where(x[:, :1] > 0, np.where(x[:, :1] > 0, x, np.cumsum(x, 1)), -x),
    "two conditions": lambda x: np.where(x[:, :1] > 0, np.cumsum(x, 1), 0) + np.where(
        x[:, 1:2] > 0, np.cumprod(x, 1), 0),
    "in both": lambda x: np.where(x[:, :1] > 0, x, np.where(
        x[:, :1] > 0, np.cumsum(x, 1), -x)),
    "last of a scan": lambda x: np.where(np.cumsum(x, 1)[:, -1:] > 0, np.cumsum(x, 1), x),
    "on both sides": lambda x: np.where(x[:, :1] > 0, np.cumsum(x, 1), 2 * np.cumsum(x, 1)),
    "every element": lambda x: np.where(x > 0, np.cumsum(x, 1), x),
    "along columns": lambda x: np.where(x[:1] > 0, np.cumsum(x, 0), x),
    "row before": lambda x: np.where(x[1:, :1] > 0, np.cumsum(x, 1)[:-1], x[1:]),
    "several results": lambda x: (np.where(x[:, :1] > 0, np.cumsum(x, 1), x), x.sum(axis=1),
                                  np.where(x[:, :1] > 0, -np.cumsum(x, 1), np.cumprod(x, 1))),
    "what waits": lambda x: (np.where(x.sum(axis=1, keepdims=True) > 0, np.cumsum(x, 1), np.cumsum(
        x / np.exp(x).sum(axis=1, keepdims=True), 1)), np.exp(x) - np.exp(x).sum(axis=0)),
}
PLAIN = ("twice", "on both sides", "every element", "along columns")  # vectors choose


@pytest.mark.parametrize("name", WHERE)
@pytest.mark.parametrize("shape", [(6, 9), (5, 2), (1, 40), (40, 3), (0, 3)])
def test_choices_are_numpys(name, shape):
    x = RNG.normal(size=shape)
    f = ec.compile(WHERE[name])
    assert shape[0] == 1 or (" if " in f.dump(x, stage="nest")) == (name not in PLAIN)
    got, want = (v if isinstance(v, tuple) else (v,) for v in (f(x), WHERE[name](x)))
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


FAULTS = {
    "in a side": lambda x, y: np.where(x[:, :1] > 0, np.cumsum(x, 1), x ** y),
    "in another choice": lambda x, y: np.where(x[:, :1] > 0, np.cumsum(x, 1), x) + np.where(
        x[:, :1] > 0, 1, x ** y),
    "in a fold": lambda x, y: np.where(x[:, :1] > 0, np.cumsum(x, 1), x) + np.where(
        x[:, :1] > 0, 1, (x ** y).sum(axis=1, keepdims=True)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_found_on_either_side(name):
    x, y = np.array([[1, 2, 3]]), np.array([[-1, -2, 1]])
    with pytest.raises(ec.DomainError):
        ec.compile(FAULTS[name])(x, y)


# -- by the index -------------------------------------------------------------------------------

STACKS = {
    "read": lambda parts, axis: np.stack(parts, axis),
    "computed": lambda parts, axis: np.stack([k * a + 1 for k, a in enumerate(parts)], axis),
    "functions": lambda parts, axis: np.stack([np.exp(a) if k % 2 else a for k, a in enumerate(parts)], axis),
    "within": lambda parts, axis: 1 - 2 * np.stack(parts, axis) ** 2,
    "beside": lambda parts, axis: (np.stack(parts, axis), parts[0] + parts[-1], np.stack(parts[::-1], axis)),
    "of stacks": lambda parts, axis: np.stack([np.stack([a, a * a], -1) for a in parts], axis),
    "folded": lambda parts, axis: np.stack(parts, axis).max(axis=-1),
    "places": lambda parts, axis: np.argmax(np.stack(parts, axis), axis=axis - 1),
    "two choices": lambda parts, axis: np.stack(parts, axis) + np.stack(parts[::-1], axis) * 3,
}


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("count", [2, 3, 9, 12])
@pytest.mark.parametrize("shape", [(200,), (3, 150), (150, 3), (5,)])
def test_stacks_are_numpys(name, count, shape):
    parts = RNG.normal(size=(count, *shape))
    calls = []
    for axis in {0, 1, -1}:
        f = ec.compile(lambda *parts, axis=axis: STACKS[name](parts, axis))
        calls += [(f, parts, axis), (f, parts[:, ::-1], axis)]
    compile_together((f, list(parts)) for f, parts, _ in calls)
    for f, parts, axis in calls:
        for got, want in zip(*(v if isinstance(v, tuple) else (v,) for v in (
                f(*parts), STACKS[name](parts, axis))), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-13)


def test_each_part_of_a_stack_is_computed_where_it_is_stored():
    parts = list(RNG.normal(size=(3, 200)))
    rows, columns = (ec.compile(lambda *parts, axis=axis: np.stack(parts, axis)) for axis in (0, -1))
    assert rows.dump(*parts, stage="nest").count(" if ") == 3
    assert " if " not in columns.dump(*parts, stage="nest")  # vectors choose among a few
    many = list(RNG.normal(size=(20, 200)))
    assert columns.dump(*many, stage="nest").count(" if ") == 20
    assert " if " not in rows.dump(*(a[:9] for a in parts), stage="nest")  # and in short rows


def test_the_c_does_not_depend_on_what_was_traced_before():
    def text():
        return ec.compile(lambda a: np.stack([a * np.arange(200.0), a + np.ones(200)])).dump(Y[0, 0] + np.ones(200))

    assert text() == text()


def test_tables_are_not_read_by_columns():
    a, b = RNG.normal(size=(2, 400, 20))
    f = ec.compile(lambda a, b: ec.where(ec.arange(a.shape[1]) == 3, a, b))
    assert " if " not in f.dump(a, b, stage="nest")
    np.testing.assert_array_equal(f(a, b), np.where(np.arange(20) == 3, a, b))
    rows = ec.compile(lambda a, b: ec.where(ec.arange(a.shape[0])[:, None] < 3, a * 2, b))
    a, b = a.T.copy(), b.T.copy()
    assert rows.dump(a, b, stage="nest").count(" if ") == 2
    np.testing.assert_array_equal(rows(a, b), np.where(np.arange(20)[:, None] < 3, 2 * a, b))


@pytest.mark.parametrize("axis", [0, 1])
def test_stacks_over_their_parts(axis):
    f = ec.compile(lambda a, b: np.stack([b, a + 1, a], axis))
    for place in (0, 1, 2):
        out = RNG.normal(size=(3, 300) if axis == 0 else (300, 3))
        a = np.moveaxis(out, axis, 0)[place]
        b = RNG.normal(size=300)
        want = np.stack([b, a + 1, a], axis)
        f(a, b, out=out)
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("dtype", ["float32", "int16", "complex128", "bool"])
def test_stacks_of_large_arrays(large, dtype):
    parts = list(RNG.normal(size=(12, 7, 300)).astype(dtype))
    for axis in (0, 1, 2):
        f = ec.compile(lambda *parts: np.stack(parts, axis))  # noqa: B023
        np.testing.assert_array_equal(f(*parts), np.stack(parts, axis))
        np.testing.assert_array_equal(f(*parts[:2]), np.stack(parts[:2], axis))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("count", [2, 10])
def test_gradients_of_stacks(axis, count):
    parts = list(RNG.normal(size=(count, 4, 130)))
    weights = RNG.normal(size=np.stack(parts, axis).shape)
    f = ec.compile(lambda *parts: np.stack([np.sin(a) for a in parts], axis))
    several = ec.vjp(f.trace(*parts))(*parts, weights)
    for got, a, w in zip(several, parts, np.moveaxis(weights, axis, 0), strict=True):
        np.testing.assert_allclose(got, np.cos(a) * w, rtol=1e-12)
