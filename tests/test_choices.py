"""Choices made for whole rows: what only one side needs is done only where that side is taken."""

import numpy as np
import pytest

import elemc as ec

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
