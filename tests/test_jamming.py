"""Rows whose folds wait for each other: two at a time, with the bits of one alone."""

import re

import numpy as np
import pytest

import elemc as ec

from .helpers import assert_same_bits, compile_together

RNG = np.random.default_rng(0)
COLUMNS = (192, 195, 208, 511, 600, 4096)
ROWS = (1, 2, 3, 64, 65, 67)


OTHER = ec.Accumulator("other_sum", 0.0, np.add, merge=np.add, commutative=True)


def standardized(x):
    d = x - x.mean(axis=1, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5)


def weighted(x, w):
    return (standardized(x) * w).sum(axis=1)


FUNCTIONS = {
    "layer norm": lambda x, w: standardized(x) * w + w,
    "moments": lambda x, w: (x.mean(axis=1), x.var(axis=1), ((x - 1) ** 3).mean(axis=1)),
    "angle": lambda x, w: (x * w).sum(axis=1) / np.sqrt((x * x).sum(axis=1)),
    "logsumexp": lambda x, w: np.log(np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1)),
    "scaled": lambda x, w: (x - x.min(axis=1, keepdims=True)) / x.sum(axis=1, keepdims=True),
    "chosen": lambda x, w: np.where(x > x.mean(axis=1, keepdims=True), x, x.std(
        axis=1, keepdims=True)),
    "reversed": lambda x, w: standardized(x[:, ::-1]) * w,
    "names": lambda x, w: (x.sum(axis=1) / ec.accumulate(OTHER, x, axis=1)),
}


def by_twos(f, *arrays):
    return "by twos" in f.dump(*arrays)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_have_the_bits_of_one_alone(name):
    f = ec.compile(FUNCTIONS[name])
    w = RNG.standard_normal(COLUMNS[-1]).astype("f4")
    tables = [RNG.standard_normal((max(ROWS), n)).astype("f4") for n in COLUMNS]
    compile_together((f, (x[:2], w[:x.shape[1]])) for x in tables)
    for x in tables:
        weights = w[:x.shape[1]]
        assert by_twos(f, x, weights) == (name != "logsumexp")  # whose functions go by blocks
        wanted = [f(row[None], weights) for row in x]
        several = isinstance(wanted[0], tuple)
        for rows in ROWS:
            found = f(x[:rows], weights)
            for k, out in enumerate(found if several else (found,)):
                assert_same_bits(out, np.concatenate([
                    w[k] if several else w for w in wanted[:rows]]))
    for x in tables:
        weights, found = w[:x.shape[1]], f(x, w[:x.shape[1]])
        several = isinstance(found, tuple)
        reference = FUNCTIONS[name](x.astype("f8"), weights.astype("f8"))
        for out, want in zip(found if several else (found,),
                             reference if several else (reference,), strict=True):
            np.testing.assert_allclose(out, want[:max(ROWS)], rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("rows", [2, 3, 65, 127, 300])
@pytest.mark.parametrize("threads, dtype", [(1, "f4"), (2, "f4"), (1, "f8"), (2, "f8")])
def test_sums_by_column_of_rows(rows, threads, dtype, monkeypatch):
    """States that all rows add to, in their order, whichever go together."""
    monkeypatch.setattr("elemc.schedule.jam", lambda kernel, spec: None)
    alone = ec.grad(lambda x, w: weighted(x, w).sum(), (0, 1))
    x = RNG.standard_normal((rows, 500)).astype(dtype)
    w = RNG.standard_normal(500).astype(dtype)
    wanted = alone(x, w)
    assert not by_twos(alone, x, w)
    monkeypatch.undo()
    together = ec.grad(lambda x, w: weighted(x, w).sum(), (0, 1))
    before = ec.get_num_threads()
    ec.set_num_threads(threads)
    try:
        found = together(x, w)
    finally:
        ec.set_num_threads(before)
    assert by_twos(together, x, w)
    for one, other in zip(found, wanted, strict=True):
        assert_same_bits(one, other)


@pytest.mark.parametrize("shape", [(300, 500), (37, 193)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_states_of_columns_between_two_rows(shape, dtype):
    """They have names, of which one may be the end of another's."""
    def moments(x):
        d = x - x.mean(axis=1, keepdims=True)
        return (d * d).sum(axis=1), d.max(axis=0), np.fmax.reduce(d, axis=0), d.sum(axis=0)

    f, x = ec.compile(moments), RNG.standard_normal(shape).astype(dtype)
    for out, want in zip(f(x), moments(x.astype("f8")), strict=True):
        np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)
    text = f.dump(x)
    assert by_twos(f, x) and "fmax0_between" in text and "max0_between" in text
    pair = text[text.index("by twos"):text.index("% 2;")]
    assert pair.count("sum0[i1] = ") == 2  # once for both rows, and at their ends


def test_accumulators_may_have_any_name():
    assign = ec.Accumulator("assign", 0.0, np.add, merge=np.add, commutative=True)
    f = ec.compile(lambda x: (ec.accumulate(assign, x, axis=1), (x * x).sum(axis=1)))
    x = RNG.standard_normal((10, 300)).astype("f4")
    np.testing.assert_allclose(f(x)[0], x.sum(axis=1), rtol=1e-5, atol=1e-5)
    assert by_twos(f, x)


@pytest.mark.parametrize("rows", ROWS[1:])
def test_in_place(rows):
    f = ec.compile(lambda x: standardized(x))
    x = RNG.standard_normal((rows, 333)).astype("f4")
    wanted = f(x)
    assert by_twos(f, x)
    assert_same_bits(f(x, out=x), wanted)


@pytest.mark.parametrize("shape, dtype", [((300, 191), "f4"), ((300, 400), "f8"),
                                          ((40, 5000), "f4")])
def test_others_go_one_by_one(shape, dtype):
    """Short rows, which overlap by themselves, wide ones, and those that have a tree."""
    x = np.ones(shape, dtype)
    assert not by_twos(ec.compile(lambda x: standardized(x)), x)


@pytest.mark.parametrize("name, twos", [("layer norm", True), ("logsumexp", False),
                                        ("angle", False)])
def test_from_memory(name, twos):
    """Rows that compute enough not to wait for it ask for those after the next."""
    f = ec.compile(FUNCTIONS[name])
    x = RNG.standard_normal((8001, 600)).astype("f4")
    w = RNG.standard_normal(600).astype("f4")
    text = f.dump(x, w)
    assert ("by twos" in text, "2 * x_ahead" in text) == (twos, twos)
    found, wanted = f(x, w), [f(part, w) for part in np.array_split(x, 5)]
    assert_same_bits(found, np.concatenate(wanted))


def test_requests_masks_and_axes():
    """Outputs that are added to or masked, and rows of rows."""
    f = ec.compile(lambda x: standardized(x))
    x = RNG.standard_normal((67, 300)).astype("f4")
    wanted, out, mask = f(x), np.ones_like(x), x > 0
    f(x, out=out, req="add")
    assert_same_bits(out, wanted + np.float32(1))
    out[:] = 1
    f(x, out=out, where=mask)
    assert_same_bits(out, np.where(mask, wanted, np.float32(1)))
    last = ec.compile(lambda x: (x - x.mean(axis=-1, keepdims=True)) * x.std(axis=-1, keepdims=True))
    cube = RNG.standard_normal((5, 7, 200)).astype("f4")[:, :, ::-1]
    assert_same_bits(last(cube), last(cube.reshape(35, 200).copy()).reshape(cube.shape))


def test_numbers_of_rows():
    f = ec.compile(lambda x: x.sum(axis=1) * ec.arange(x.shape[0]) + (x * x).sum(axis=1))
    g = ec.compile(lambda x: (x.sum(axis=1), (x * x).sum(axis=1)))
    x = RNG.standard_normal((67, 300)).astype("f4")
    sums, squares = g(x)
    assert by_twos(f, x)
    assert_same_bits(f(x), sums * np.arange(67) + squares)


def polynomial(y):
    for k in range(7, 0, -1):
        y = y * (np.float32(k) + y) if k < 7 else y * np.float32(k)
    return y


def test_short_rows_that_go_past_the_caches_together():
    """What goes in blocks of several rows does not go by twos."""
    f = ec.compile(lambda a, b: polynomial(standardized(a[:, None] * b)).astype("f2"))
    a = RNG.standard_normal(100_001).astype("f4") / 10
    b = RNG.standard_normal(150).astype("f4")
    found = f(a, b)
    assert_same_bits(found, np.concatenate([f(part, b) for part in np.array_split(a, 40)]))
    assert not by_twos(f, a, b)


def test_both_turns_ask_the_memory():
    f = ec.compile(lambda x: (polynomial(x).sum(axis=1), (polynomial(x) * x).sum(axis=1)))
    text = f.dump(np.ones((9001, 1400), "f4")[:, :700])
    pair, rest = text[text.index("by twos"):].split("% 2;")
    assert pair.count("FETCH") == 2 * rest.count("FETCH") > 0


@pytest.mark.parametrize("shape, dtype, asks", [
    ((300, 500), "f8", True), ((300, 1024), "f8", True), ((300, 500), "f4", True),
    ((300, 100), "f8", False), ((300, 1025), "f8", False), ((300, 1000), "c16", False)])
def test_rows_that_the_first_cache_holds_are_asked_for(shape, dtype, asks):
    x = np.ones(shape, dtype)
    assert ("FETCH(" in ec.compile(standardized).dump(x)) == asks
    assert ("FETCH(x_p + i0 * x_s0" in ec.compile(standardized).dump(x[::-1])) == asks
    assert "FETCH" not in ec.compile(FUNCTIONS["logsumexp"]).dump(x.real, x.real[0])


def test_extrema_alone_do_not():
    f = ec.compile(lambda x: (x - x.min(axis=1, keepdims=True)) * x.max(axis=1, keepdims=True))
    assert not by_twos(f, np.ones((300, 400), "f4"))


@pytest.mark.parametrize("columns", [3, 17, 33, 99, 513])
@pytest.mark.parametrize("rows", [1, 3, 7, 8, 65, 3001])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extrema_of_columns_look_for_nan_in_two_rows_at_once(dtype, rows, columns):
    rng = np.random.default_rng(rows)
    x = rng.standard_normal((rows, columns)).astype(dtype)
    x[rng.random(x.shape) < 0.3] *= 0.0  # of either sign, of which the first one counts
    f = ec.compile(lambda x: ((x * x - x).max(axis=0), (x * x - x).min(axis=0), abs(x).max(axis=0)))
    for odd in (0, 0.001, 0.1):
        x[rng.random(x.shape) < odd] = np.nan
        want = ((x * x - x).max(axis=0), (x * x - x).min(axis=0), abs(x).max(axis=0))
        for got, right in zip(f(x), want, strict=True):
            np.testing.assert_array_equal(got, right)


def test_what_folds_two_rows_at_once():
    x = np.ones((3000, 65))
    for function, asks in ((np.max, "maximum_of_f64"), (np.min, "minimum_of_f64"), (np.sum, "")):
        f = ec.compile(lambda x, function=function: function(x, axis=0))
        assert f(x).shape == (65,)
        assert re.findall(r"m\w+imum_of_f64(?=\(\w+_l)", f.dump(x)) == [asks] * bool(asks)
    assert "_of_" not in ec.compile(lambda x: np.max(x, axis=0)).dump(x.astype(np.int64))
