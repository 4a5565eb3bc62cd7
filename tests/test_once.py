"""What loops would compute again and again is computed once, before them."""

import numpy as np
import pytest

import elemc as ec

from .helpers import compile_together, layouts

RNG = np.random.default_rng(0)
BY_COLUMN = {
    "map": lambda x, s, t: x * np.exp(s),
    "alone": lambda x, s, t: np.exp(s) + 0 * x,
    "both": lambda x, s, t: x * np.exp(s) + np.tanh(t)[:, None],
    "outer": lambda x, s, t: np.exp(s) * np.sqrt(t)[:, None],
    "norm": lambda x, s, t: (x - s) / np.sqrt(s * s + 1e-5) * s + s,
    "rows": lambda x, s, t: (x * np.exp(s)).sum(axis=1),
    "columns": lambda x, s, t: (x * np.exp(t)[:, None]).sum(axis=0),
    "all": lambda x, s, t: (x * np.log1p(s * s)).max(),
    "scan": lambda x, s, t: (x * np.exp(s)).cumsum(axis=0),
    "softmax": lambda x, s, t: np.exp(x * np.tanh(s) - (x * np.tanh(s)).max(axis=1, keepdims=True)),
    "fold below": lambda x, s, t: x * np.exp(s - s.mean()) + x.std(axis=0),
    "across": lambda x, s, t: (x.T * np.exp(t)).T / np.sqrt(s * s + 1),
    "window": lambda x, s, t: x * (0.5 - np.cos(s) / 2) + np.exp(s),
}


@pytest.mark.parametrize("shape", [(20, 30), (9, 140), (30, 12), (0, 30), (30, 0)])
@pytest.mark.parametrize("name", BY_COLUMN)
def test_values(name, shape):
    f = BY_COLUMN[name]
    if name in ("all", "softmax", "fold below") and 0 in shape:
        shape = (1, 1)
    made, s, t = ec.compile(f), RNG.standard_normal(shape[1]), RNG.uniform(0.1, 2, shape[0])
    laid = dict(layouts(RNG.standard_normal(shape)))
    compile_together((made, [x, s, t]) for x in laid.values())
    for how, x in laid.items():
        with np.errstate(all="ignore"):
            want = f(x, s, t)
        np.testing.assert_allclose(made(x, s, t), want, rtol=1e-11, atol=1e-13, err_msg=how)


@pytest.mark.parametrize("f", [
    lambda v, w: v * np.exp(w)[:, None, :],  # over two axes around a third
    lambda v, w: v * (np.exp(w) * np.tanh(w[:1]))[:, None, :],  # which has a part of one of them
    lambda v, w: (v + np.exp(w)[:, None, :]).sum(axis=1),
    lambda v, w: (v * np.sqrt(w[0] * w[0] + 1)).sum(axis=(0, 1)),
])
def test_three_axes(f):
    v, w = RNG.standard_normal((9, 10, 40)), RNG.standard_normal((9, 40))
    for how, at in layouts(v):
        np.testing.assert_allclose(ec.compile(f)(at, w), f(at, w), rtol=1e-11, err_msg=how)


def text_of(f, *arrays):
    return ec.compile(f).dump(*arrays)


def test_phases():
    x, s, t = np.ones((20, 30)), np.ones(30), np.ones(20)
    text = text_of(lambda x, s: x * np.exp(s) + np.tanh(s), x, s)
    first, last = text.split("if (phase == 1)")
    assert "elemc_exp_each(&" in first and "elemc_tanh_each(&" in first  # of the same axis, in one loop
    assert "elemc_" not in last
    assert first.count("for (") == 1
    assert "elemc_exp_each(&row0[" in text_of(lambda x, t: x * np.exp(t)[:, None], x, t)


@pytest.mark.parametrize(("f", "rows"), [
    (lambda x, s: x * np.exp(s), 7),  # few turns
    (lambda x, s: x * (s + 1), 20),  # cheap
    (lambda x, s: (x * np.exp(s)).sum(axis=0), 800),  # of a strip, all rows at once
    (lambda x, s: x * 3**s.astype(int), 20),  # an error of an element that may not be there
])
def test_not_worth_it(f, rows):
    text = text_of(f, np.ones((rows, 600)), np.ones(600))
    assert "buffer0[i1] =" not in text


def test_buffers_are_no_larger_than_what_is_read():
    w, u, v = RNG.standard_normal(9), RNG.standard_normal(20), RNG.standard_normal(30)
    f = ec.compile(lambda w, u, v: w[:, None, None] * np.exp(u[:, None] + v))
    assert "buffer0" not in f.dump(w, u, v)  # which would be one of 20 by 30
    np.testing.assert_allclose(f(w, u, v), w[:, None, None] * np.exp(u[:, None] + v), rtol=1e-12)
    f = ec.compile(lambda w, t: w[:, None, None] * np.exp(t + t[0]))
    assert "buffer0[i1 * n2 + i2] = elemc_exp(" in f.dump(w, np.ones((20, 30)))


@pytest.mark.parametrize("dtype", ["f2", "f4", "c8", "c16", "i4"])
def test_dtypes(dtype):
    x, s = np.ones((20, 30), dtype), RNG.integers(1, 5, 30).astype(dtype)
    f = lambda x, s: x * np.exp(s) + s * s * s * s * s  # noqa: E731
    got, want = ec.compile(f)(x, s), f(x, s)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=5 * np.finfo(want.real.dtype).eps)


def test_masks_additions_and_sides():
    x, s, mask = RNG.standard_normal((20, 30)), RNG.standard_normal(30), RNG.random((20, 30)) > 0.5
    f = ec.compile(lambda x, s: np.where(x > 0, x * np.exp(s), np.cumsum(x, axis=1)))
    want = np.where(x > 0, x * np.exp(s), np.cumsum(x, axis=1))
    np.testing.assert_allclose(f(x, s), want, rtol=1e-12)
    out = np.full((20, 30), 7.0)
    np.testing.assert_allclose(f(x, s, out=out, where=mask), np.where(mask, want, 7), rtol=1e-12)
    np.testing.assert_allclose(f(x, s, out=x.copy(), req="add"), x + want, rtol=1e-12)


def test_the_same_function_for_few_and_many_turns():
    f = ec.compile(lambda x, s: x * np.exp(s))
    s = RNG.standard_normal(300)
    for rows in (7, 8, 7, 20, 2, 8):
        x = RNG.standard_normal((rows, 300))
        for _ in range(3):
            np.testing.assert_allclose(f(x, s), x * np.exp(s), rtol=1e-12)


def test_errors_wait_for_elements():
    f = ec.compile(lambda x, s: x ** (2 ** s))
    assert f(np.ones((0, 20), int), np.full(20, -1)).shape == (0, 20)
    with pytest.raises(ec.DomainError):
        f(np.ones((20, 20), int), np.full(20, -1))


def test_gradients_divide_once():
    f = ec.grad(ec.compile(lambda x, s: ((x / s) ** 2).sum()), wrt=0)
    x, s = RNG.standard_normal((30, 40)), RNG.uniform(0.5, 2, 40)
    np.testing.assert_allclose(f(x, s), 2 * x / s**2, rtol=1e-13)
    assert "inverse" not in f.dump(x, s).split("if (phase == 1)")[1]


def test_any_number_of_threads_gives_the_same():
    x, s = RNG.standard_normal((1200, 1100)), RNG.standard_normal(1100)
    f = ec.compile(lambda x, s: (x * np.exp(s), (x * np.exp(s)).sum(axis=1)))
    before = ec.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            ec.set_num_threads(threads)
            results.append(f(x, s))
    finally:
        ec.set_num_threads(before)
    for other in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_outputs_may_be_inputs():
    x, s = RNG.standard_normal((30, 40)), RNG.standard_normal(40)
    want = x * np.exp(s)
    assert ec.compile(lambda x, s: x * np.exp(s))(x, s, out=x) is x
    np.testing.assert_allclose(x, want, rtol=1e-12)


def test_what_strips_read_lies_along_them():
    def f(x, s):
        return np.min(np.sqrt(np.abs(s)) * x, axis=(1, 2, 3))

    x = RNG.standard_normal((8, 80, 8, 61)).transpose(3, 0, 1, 2)
    s = np.broadcast_to(RNG.standard_normal((61, 8, 1, 8)), x.shape)
    made = ec.compile(f)
    written = [line for line in made.dump(x, s).splitlines() if "sqrt" in line and "buffer" in line]
    assert len(written) == 1 and "+ i0] = " in written[0]
    np.testing.assert_array_equal(made(x, s), f(x, s))
