"""Functions of the math library are called for blocks: values, bits, and what the C does."""

import numpy as np
import pytest

import elemc as ec
from elemc import build

from .helpers import assert_same_bits

RNG = np.random.default_rng(11)
TOLERANCE = {"float32": 3e-6, "float64": 1e-13}


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def test_what_lies_in_memory_is_taken_and_stored_there():
    x, y = RNG.standard_normal((2, 700))
    text = ec.compile(lambda x: np.exp(x)).dump(x)
    assert "elemc_exp_each(z_p + b0 * z_s0, x_p + b0 * x_s0, w0);" in text and "_block" not in text
    both = ec.compile(lambda x, y: np.exp(x) + np.sin(y) * np.tanh(x * y)).dump(x, y)
    assert "elemc_exp_each(exp_block, x_p + b0 * x_s0, w0);" in both
    assert "elemc_tanh_each(tanh_block, tanh_block, w0);" in both
    assert both.count("INDEPENDENT for") == 2  # what tanh takes, and the sum


def test_functions_that_wait_for_no_other_share_a_loop():
    price = ec.compile(lambda s, k, t: s * np.cos(np.log(s / k) / t) - k * np.exp(-0.02 * t))
    s, k, t = RNG.uniform(0.5, 1.5, (3, 500))
    text = price.dump(s, k, t)
    assert text.count("INDEPENDENT for") == 3  # to log and exp, to cos, and from both
    np.testing.assert_allclose(price(s, k, t), s * np.cos(np.log(s / k) / t) - k * np.exp(-0.02 * t), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("fn", [gelu, softplus, lambda x: np.log(np.abs(x) + 1) - np.exp(np.sin(x))])
def test_bits_do_not_depend_on_the_place(fn, dtype):
    f = ec.compile(fn)
    x = RNG.standard_normal(3000).astype(dtype)
    whole = f(x)
    np.testing.assert_allclose(whole, fn(x), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    for n in (1, 7, 8, 9, 63, 64, 65, 127, 129, 257, 1500):
        for start in (0, 1, 5):
            part = slice(start, start + n)
            assert_same_bits(f(x[part]), whole[part])
            assert_same_bits(f(np.repeat(x[part], 2)[::2]), whole[part])
        assert_same_bits(f(x[:n][::-1].copy()[::-1]), whole[:n])
        assert_same_bits(f(np.stack([x[:n]] * 3)), np.stack([whole[:n]] * 3))


def test_outputs_that_are_operands():
    f = ec.compile(lambda x, y: (np.exp(x), np.tanh(y) * x, np.exp(x) + y))
    x, y = RNG.standard_normal((2, 1000))
    want = f(x, y)
    for given in ((0, 1, None), (1, 0, None), (None, 0, 1), (1, None, 0)):
        a = [x.copy(), y.copy()]
        outs = tuple(np.empty(1000) if k is None else a[k] for k in given)
        for got, w in zip(f(*a, out=outs), want, strict=True):
            assert_same_bits(got, w)
    g, wide = ec.compile(lambda x: np.exp(np.sin(x))), np.append(x, 0)
    expected = g(x)
    g(wide[:-1], out=wide[1:])
    assert_same_bits(wide[1:], expected)


FOLDS = {
    "sum": lambda x, y: np.sum(np.tanh(x) * y, axis=-1),
    "mean": lambda x, y: np.mean(softplus(x) - x * y, axis=-1),
    "var": lambda x, y: np.var(np.exp(x), axis=-1),
    "max": lambda x, y: np.max(np.sin(x) + y, axis=-1),
    "argmin": lambda x, y: np.argmin(np.log(np.abs(x) + 1), axis=-1),
    "several": lambda x, y: np.sum(np.exp(x), axis=-1) * np.max(np.cos(y), axis=-1) + np.sum(np.exp(x) * np.cos(y), axis=-1),
    "logsumexp": lambda x, y: np.log(np.sum(np.exp(x - np.max(x, axis=-1, keepdims=True)), axis=-1)),
    "normalized": lambda x, y: np.exp(x) / np.sum(np.exp(x), axis=-1, keepdims=True) * np.tanh(y),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("fn", FOLDS.values(), ids=FOLDS)
def test_what_is_folded_of_rows_and_of_everything(fn, dtype):
    f, before = ec.compile(fn), ec.get_num_threads()
    rtol = 50 * np.finfo(dtype).eps
    for shape in ((127,), (128,), (130,), (4095,), (4096,), (4097,), (20_001,), (3, 128), (5, 333), (2, 4096), (2, 5000)):
        x, y = RNG.standard_normal((2, *shape)).astype(dtype)
        got = f(x, y)
        want = fn(x.astype("f8"), y.astype("f8"))
        if fn is FOLDS["argmin"]:
            np.testing.assert_array_equal(got, fn(x, y))
        else:
            np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * max(1, np.abs(want).max()))
        assert_same_bits(np.asarray(f(x[..., ::-1].copy()[..., ::-1], y)), np.asarray(got))
        try:
            ec.set_num_threads(2)
            assert_same_bits(np.asarray(f(x, y)), np.asarray(got))
        finally:
            ec.set_num_threads(before)


@pytest.mark.parametrize("axis", [0, 1])
def test_what_recurrences_leave_in_strips(axis):
    """Their buffers have a row of each strip, and functions take the right one."""
    def ends(x):
        return np.tanh(np.cumsum(x, axis=axis)) + np.sum(x, axis=axis, keepdims=True)

    def ratios(x):
        return np.tanh(np.cumsum(np.exp(x), axis=axis)) / np.sum(np.exp(x), axis=axis, keepdims=True)

    for shape in ((3, 300), (100, 3), (100, 40), (300, 200)):
        x = RNG.standard_normal(shape)
        for a in (x, x.T.copy().T):
            for fn in (ends, ratios):
                np.testing.assert_allclose(ec.compile(fn)(a), fn(a), rtol=1e-11, atol=1e-12)
    grad = ec.grad(ec.compile(lambda x: np.sum(np.tanh(np.cumsum(x, axis=axis)) * np.sum(x, axis=axis, keepdims=True))))
    x, step = RNG.standard_normal((3, 300)), RNG.standard_normal((3, 300))

    def cost(x):
        return np.sum(np.tanh(np.cumsum(x, axis=axis)) * np.sum(x, axis=axis, keepdims=True))

    slope = (cost(x + 1e-6 * step) - cost(x - 1e-6 * step)) / 2e-6
    np.testing.assert_allclose(np.sum(grad(x) * step), slope, rtol=1e-5)


def test_pointers_are_of_types_that_newer_compilers_take():
    x = np.ones((200, 200))
    f = ec.compile(lambda x: np.exp(x) + np.sum(np.tanh(x), axis=0) / np.sum(np.log1p(x)))
    flags = ("-Werror=incompatible-pointer-types", "-DDIVIDES=1")
    assert build.compile_shared(f.dump(x), "pointers", flags).exists()


def test_rows_of_functions_wait_in_buffers():
    f = ec.compile(lambda x: np.sum(np.log1p(np.exp(x)), axis=-1))
    rows, everything = f.dump(np.ones((9, 200))), f.dump(np.ones(200))
    assert "elemc_log1p_each(&buffer0[b1], exp_block, w1);" in rows
    assert "elemc_log1p_each(&row0[b0 - begin0], exp_block, w0);" in everything
    assert "elemc_exp(" in f.dump(np.ones((9, 20))) + f.dump(np.ones((9, 5000)))


def test_masks_and_two_arguments_call_for_vectors():
    x, y = RNG.uniform(0.5, 2, (2, 300))
    power = ec.compile(lambda x, y: x**y + np.arctan2(x, y))
    assert "_each" not in power.dump(x, y)
    np.testing.assert_allclose(power(x, y), x**y + np.arctan2(x, y), rtol=1e-14)
    f, mask, out = ec.compile(np.exp), x > 1, np.zeros(300)
    f(x, out=out, where=mask)
    np.testing.assert_allclose(out, np.where(mask, np.exp(x), 0), rtol=1e-14)


def test_half_precision_is_called_for_vectors_of_floats():
    x = RNG.standard_normal(700).astype("f2")
    f = ec.compile(gelu)
    np.testing.assert_allclose(f(x).astype("f4"), gelu(x.astype("f4")), rtol=2e-3, atol=2e-3)


def test_chains_of_functions():
    """What stages before have computed is kept, in few arrays, however long a chain is."""
    def chain(length):
        def f(x):
            for _ in range(length):
                x = np.sin(x) + 0.1 * x
            return x
        return ec.compile(f)

    x = np.random.default_rng(0).uniform(-1, 1, 1000)
    ten, forty = (chain(n).dump(x) for n in (10, 40))
    assert forty.count("\n") < 4.5 * ten.count("\n")
    assert forty.count("_Alignas") == ten.count("_Alignas") < 7
    want = x
    for _ in range(40):
        want = np.sin(want) + 0.1 * want
    np.testing.assert_allclose(chain(40)(x), want, rtol=1e-12)


def test_functions_of_one_argument_share_it():
    """It is computed once; the last function that takes it writes over it, unless it is needed."""
    f = ec.compile(lambda x: np.sin(x * 2 + 1) * np.cos(x * 2 + 1))
    g = ec.compile(lambda x: np.sin(1 / (x * x + 2) + x) * (1 / (x * x + 2) + x))
    x = np.random.default_rng(0).uniform(-1, 1, 1000)
    text, kept = f.dump(x), g.dump(x)
    assert text.count(" * 2.0 + 1.0") == 1 and "elemc_cos_each(cos_block, cos_block," in text
    assert kept.count("1.0 / ") == 1 and "elemc_sin_each(sin_block1, sin_block," in kept
    np.testing.assert_allclose(f(x), np.sin(x * 2 + 1) * np.cos(x * 2 + 1), rtol=1e-13)
    np.testing.assert_allclose(g(x), np.sin(1 / (x * x + 2) + x) * (1 / (x * x + 2) + x),
                               rtol=1e-13)
