"""Rows too short for vectors: other kernels, the same bits."""

import numpy as np
import pytest

import elemc as ec
from elemc import binding


def softmax(x):
    e = ec.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


CASES = {
    "softmax": softmax,
    "logsumexp": lambda x: ec.logsumexp(x, axis=-1),
    "sum of exp": lambda x: ec.exp(x).sum(axis=-1),
    "mean and variance": lambda x: [ec.tanh(x).mean(axis=-1), ec.tanh(x).var(axis=-1)],
    "elementwise": lambda x: ec.sin(x) * 2 + x,
    "over both": lambda x: ec.exp(x).sum(axis=(-1, -2)),
    "of everything": lambda x: ec.exp(x).sum(),
    "columns": lambda x: ec.exp(x).sum(axis=-2),
    "best": lambda x: ec.exp(x).argmax(axis=-1),
    "scan": lambda x: ec.exp(x).cumsum(axis=-1),
}

LAYOUTS = {
    "C": lambda x: x,
    "sliced": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "reversed": lambda x: x[..., ::-1].copy()[..., ::-1],
    "F": np.asfortranarray,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(1003, 3), (70, 15), (70, 16), (7, 11, 5), (0, 3), (1, 4)],
                         ids=str)
def test_the_same_bits(shape, dtype, layout, monkeypatch):
    x = LAYOUTS[layout](np.random.default_rng(0).standard_normal(shape).astype(dtype))
    s = ec.array("x", ndim=len(shape), dtype=dtype)
    made = [CASES[name](s) for name in CASES]
    outputs = [o for m in made for o in (m if isinstance(m, list) else [m])]
    f = ec.function([s], outputs)
    monkeypatch.setattr(binding, "FEW", 1)
    turned, again = f(x), f(x)
    monkeypatch.setattr(binding, "bounds_of_rows", lambda spec, sizes: {})
    rows = ec.function([s], outputs)(x)
    for a, b, c in zip(turned, again, rows, strict=True):
        assert np.array_equal(a, b) and np.array_equal(a, c)
    np.testing.assert_allclose(turned[0].sum(axis=-1), 1, rtol=1e-5)


def test_vectors_go_along_the_axis_before():
    s = ec.matrix("x")
    f = ec.function([s], softmax(s))
    assert "w0" in f.dump(np.ones((1000, 3))) and "w0" not in f.dump(np.ones((1000, 30)))
    assert "w0" not in ec.function([s], s - s.max(axis=1, keepdims=True)).dump(np.ones((1000, 3)))
    assert "lane" not in f.dump(np.ones((1000, 3)))


def test_strips_without_states():
    s = ec.matrix("x")
    x = np.linspace(0, 1, 210).reshape(70, 3)
    f = ec.function([s], ec.exp(s.T.T[::-1]))
    exp = ec.function([s], ec.exp(s))
    assert np.array_equal(f(x[:, ::-1]), exp(np.ascontiguousarray(x[::-1, ::-1])))
