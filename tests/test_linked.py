"""Functions of what rows give, called for chunks of rows, beside loops over the rows."""

import numpy as np
import pytest

import elemc as ec

from .helpers import assert_same_bits, compile_together

RNG = np.random.default_rng(48)


def arrays(rows, columns, dtype="f8"):
    return [RNG.uniform(-1, 1, shape).astype(dtype) for shape in (
        (rows, columns), (columns,), (rows,))]


def link(x, w, y):
    """The link function of a regression: one number a row."""
    return np.tanh(np.sum(x * w, axis=1)) - y


FUNCTIONS = {
    "map": lambda x, w, y: link(x, w, y)[:, None] * x,
    "map of another": lambda x, w, y: np.exp(y)[:, None] * x,
    "columns": lambda x, w, y: np.sum(link(x, w, y)[:, None] * x, axis=0),
    "extrema of columns": lambda x, w, y: np.max(link(x, w, y)[:, None] * x, axis=0),
    "all": lambda x, w, y: np.sum(link(x, w, y)[:, None] * x),
    "rows again": lambda x, w, y: np.sum(np.exp(link(x, w, y)[:, None] * x), axis=1),
    "twice": lambda x, w, y: x * np.exp(np.sum(link(x, w, y)[:, None] * x, axis=1))[:, None],
    "several": lambda x, w, y: (np.sum(link(x, w, y)[:, None] * x, axis=0), link(x, w, y),
                                np.sum(link(x, w, y) ** 2), x + link(x, w, y)[:, None]),
    "no function": lambda x, w, y: np.sum((y - np.sum(x * w, axis=1))[:, None] * x, axis=0),
}


@pytest.mark.parametrize("columns", [1, 2, 5, 8, 12, 16, 20, 64, 300])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results(name, columns):
    f = FUNCTIONS[name]
    compiled = ec.compile(f)
    every = [arrays(rows, columns) for rows in (0, 1, 15, 257, 1100)][name.startswith("extrema"):]
    compile_together((compiled, args) for args in every)
    for args in every:
        got, want = compiled(*args), f(*args)
        for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (got, want)),
                        strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("layout", ["reversed", "turned", "sliced", "batch", "float16", "ints"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_layouts(name, layout):
    f, (x, w, y) = FUNCTIONS[name], arrays(130, 9)
    tolerance = {"rtol": 1e-10, "atol": 1e-12}
    match layout:
        case "reversed":
            x, y = x[::-1, ::-1], y[::-1]
        case "turned":
            x = np.asfortranarray(x)
        case "sliced":
            x, y = arrays(260, 27)[0][::2, ::3], np.repeat(y, 3)[::3]
        case "batch":  # of which each has a chunk of its own
            f = at_all(f)
            x, y = np.stack([x, 2 * x]), np.stack([y, 1 - y])
        case "float16":
            x, w, y = (a.astype("f2") for a in (x, w, y))
            tolerance = {"rtol": 5e-2, "atol": 5e-1}
        case "ints":
            x = (9 * x).astype("i4")
    want = f(*(a.astype("f8") for a in (x, w, y)))
    for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (
            ec.compile(f)(x, w, y), want)), strict=True):
        np.testing.assert_allclose(a.astype("f8"), b, **tolerance)


def at_all(f):
    """The same function of every matrix of two."""
    return lambda x, w, y: tuple(
        r for k in range(2) for r in (lambda v: v if isinstance(v, tuple) else (v,))(
            f(x[k], w, y[k])))


def chunks(text):
    return text.count("_each("), text.count("/* chunks of i0 */")


@pytest.mark.parametrize("name", ["map", "map of another", "columns", "all"])
@pytest.mark.parametrize("columns", [3, 8, 20, 100])
def test_functions_are_called_for_chunks(name, columns):
    text = ec.compile(FUNCTIONS[name]).dump(*arrays(2000, columns))
    called, cut = chunks(text)
    assert cut == 1 and called >= 1 and "elemc_tanh(" not in text
    assert "buffer0[i0] =" not in text  # rows of chunks stay in the first cache


def test_each_function_is_called_once():
    text = ec.compile(FUNCTIONS["several"]).dump(*arrays(2000, 8))
    assert text.count("elemc_tanh") == 2  # its declaration, and the call


def test_long_rows_call_for_themselves():
    text = ec.compile(FUNCTIONS["map"]).dump(*arrays(20, 1000))
    assert chunks(text) == (0, 0) and "elemc_tanh(sum0)" in text


def test_rows_are_folded_once_where_that_is_dear():
    """Folds of columns share exponentials with those of rows, and go with them."""
    def share(x, w, y):
        e = np.exp(x * w)
        return np.sum(e / np.sum(e, axis=1)[:, None], axis=0)

    text = ec.compile(share).dump(*arrays(300, 50))
    assert text.count("for (int64_t i0 = begin0; i0 < end0; i0++)") == 1


def test_folds_of_rows_beside_what_waits_for_another_phase():
    """Few rows are folded within chunks; what these chunks are called is no axis."""
    def f(x):
        s = np.sum(x, axis=1)
        return np.sum(s), x * np.max(x) * np.exp(s)[:, None], s

    for shape in (12, 20), (15, 9), (8, 40):
        x = RNG.uniform(-1, 1, shape)
        for a, b in zip(ec.compile(f)(x), f(x), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_threads_give_the_same_bits():
    before = ec.get_num_threads()
    try:
        for f in FUNCTIONS.values():
            args, found = arrays(5000, 8), []
            for threads in (1, 2):
                ec.set_num_threads(threads)
                found.append(ec.compile(f)(*args))
            for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in found), strict=True):
                assert_same_bits(a, b)
    finally:
        ec.set_num_threads(before)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("columns", [2, 8, 20, 70])
def test_gradients_of_regressions(columns, dtype):
    x, w, y = arrays(700, columns, dtype)

    def loss(w, b, x, y):
        return np.sum((np.tanh(np.sum(x * w, axis=1) + b) - y) ** 2)

    b = np.asarray(0.25, dtype)
    got = ec.grad(ec.compile(loss), (0, 1, 2))(w, b, x, y)
    x, w, y, b = (a.astype("f8") for a in (x, w, y, b))
    s = np.tanh(x @ w + b)
    d = 2 * (s - y) * (1 - s * s)
    tolerance = 1e-10 if dtype == "f8" else 2e-4
    for a, want in zip(got, (d @ x, d.sum(), d[:, None] * w), strict=True):
        np.testing.assert_allclose(a, want, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize("columns", range(2, 19))
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_columns_of_weighted_rows(columns, dtype):
    """Each row has a weight: not copied side by side where that takes longer than the sum."""
    x, _, y = arrays(3000, columns, dtype)
    got = ec.compile(lambda x, y: np.sum(y[:, None] * x, axis=0))(x, y)
    np.testing.assert_allclose(got, y.astype("f8") @ x, rtol=1e-3, atol=1e-4)


def test_weights_of_long_rows_go_with_several():
    text = ec.compile(lambda x, y: np.sum(y[:, None] * x, axis=0)).dump(
        np.ones((3000, 40)), np.ones(3000))
    assert "RUN; r++, i0++) {\n                const double y_v = " in text
