"""Loops cut into blocks for functions, and into strips where one waits for another."""

import numpy as np
import pytest

import elemc as ec

from .helpers import assert_same_bits

RNG = np.random.default_rng(3)


def chain(x, y):
    return np.sin(np.exp(-x * x)) * y


def shared(x, y):  # what the first stage gives is needed in the second and in the third
    e = np.exp(-np.abs(x))
    t = np.log1p(e) / np.sqrt(1 + y * y)
    return e + t, np.tanh(t - e) * y, np.where(t > e, np.cos(t), e)


def price(x, y):
    spread = 0.2 * np.sqrt(np.abs(y) + 0.1)
    d = (np.log(np.abs(x) + 1) + 0.05 * y) / spread
    return np.exp(-d * d) - np.exp(-0.03 * y) * np.exp(-((d - spread) ** 2))


def wanted(fn, *arrays):
    """Each element apart: no strip has more than one."""
    one = ec.compile(fn)
    rows = [one(*(a[k:k + 1] for a in arrays)) for k in range(len(arrays[0]))]
    if isinstance(rows[0], tuple):
        return tuple(np.concatenate(part) for part in zip(*rows, strict=True))
    return np.concatenate(rows)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fn", [chain, shared, price])
def test_bits_do_not_depend_on_the_place(fn, dtype):
    x, y = RNG.standard_normal((2, 1000)).astype(dtype)
    want = wanted(fn, x[:200], y[:200])
    compiled = ec.compile(fn)
    assert "_each(" in compiled.dump(x, y)
    for n in (1, 2, 15, 63, 64, 65, 127, 128, 129, 200):
        for a, b in ((x[:n], y[:n]), (x.repeat(2)[::2][:n], y[:n]), (x[:n][::-1], y[:n][::-1])):
            got = compiled(a, b)
            pairs = zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]
            for g, w in pairs:
                assert_same_bits(np.ascontiguousarray(g[::-1] if a.strides[0] < 0 else g), w[:n])


def crowded(x, y):  # what the functions wait for, and what waits for them, have their own stages
    u = 0.8 * (x + 0.04 * x * x * x) + y
    t, e = np.tanh(u), np.exp(-np.abs(u))
    return np.sum((0.5 * x * (1 - t * t) + e / (1 + e)) * y + t, axis=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_strips_have_stages(dtype):
    x = RNG.standard_normal((70, 530)).astype(dtype)
    f = ec.compile(crowded)
    text = f.dump(x, x[1])
    assert text.count("[STAGE];") == 2 and text.count("l < to") == 2
    whole = f(x, x[1])
    np.testing.assert_allclose(whole, crowded(x, x[1]), rtol=0, atol=1000 * np.finfo(dtype).eps)
    for n in (17, 63, 64, 65, 127, 130, 200):
        for a in (x[:, :n], x[:, :n].copy(), x.repeat(2, axis=1)[:, ::2][:, :n]):
            assert_same_bits(f(a, x[1, :n]), whole[:n])


@pytest.mark.parametrize("fn", [chain, shared, price])
def test_values(fn):
    x, y = RNG.standard_normal((2, 70, 130))
    got, want = ec.compile(fn)(x, y[0]), fn(x, y[0])
    pairs = zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]
    for g, w in pairs:
        np.testing.assert_allclose(g, w, rtol=1e-13, atol=1e-15)


def test_in_place():
    x, y = RNG.standard_normal((2, 3000))
    want = chain(x, y)
    compiled = ec.compile(chain)
    assert compiled(x, y, out=x) is x
    np.testing.assert_allclose(x, want, rtol=1e-13, atol=1e-15)
    wide = np.zeros(3001)
    wide[:-1] = y
    np.testing.assert_allclose(compiled(wide[:-1], y, out=wide[1:]), chain(y, y), rtol=1e-13,
                               atol=1e-15)


def test_large_and_on_all_threads():
    x = RNG.standard_normal(3_000_001)
    compiled = ec.compile(shared)
    for got, want in zip(compiled(x, x), shared(x, x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def test_one_function_needs_no_strip():
    x = RNG.standard_normal(100)
    assert "STAGE" not in ec.compile(lambda x: np.exp(x) + np.sin(x)).dump(x)


def test_scans_are_known_in_the_last_loop_only():
    def f(a):
        return np.exp(1j * np.sin(np.cumsum(a, axis=3))).real

    a = np.asfortranarray(np.random.default_rng(0).random((2, 2, 8, 20)))
    np.testing.assert_allclose(ec.compile(f)(a), f(a), rtol=1e-13)
