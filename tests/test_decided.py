"""`any`, `all` and places of everything, which end when nothing can change them any more."""

import numpy as np
import pytest

import elemc as ec

from .helpers import assert_same_bits

EITHER = ec.Accumulator("either", False, np.logical_or, merge=np.logical_or, commutative=True)
FUNCTIONS = {
    "any": lambda x: (x < 0).any(),
    "all": lambda x: (x >= 0).all(),
    "both": lambda x: ((x < 0).any(), np.isfinite(x).all()),
    "mean": lambda x: (x < x.mean() - 100).any(),
    "of user": lambda x: ec.accumulate(EITHER, x < 0),
    "first": lambda x: (x < 0).argmax(),
    "two places": lambda x: ((x < 0).argmax(), (x >= 0).argmin()),
    "neither": lambda x: (x == 0.5).any() | (x >= -9e9).all(),
}
REFERENCES = {"of user": FUNCTIONS["any"]}
N = 150_001


def tables(hit):
    x = np.random.default_rng(0).random(N) + 1
    if hit is not None:
        x[hit] = -1e6
    yield x
    yield x[::-1]
    yield np.tile(x[:, None], (1, 3))[:, 1]
    yield x[:149_769].reshape(387, 387).T[:, 1:]
    yield x[:149_760].reshape(12, 120, 104)[:, :, ::2]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("hit", [None, 0, 16_383, 16_384, 70_000, N - 1])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_numpy(name, hit, threads):
    f = ec.compile(FUNCTIONS[name])
    before = ec.get_num_threads()
    ec.set_num_threads(threads)
    try:
        for x in tables(hit):
            found, wanted = f(x), REFERENCES.get(name, FUNCTIONS[name])(x)
            assert np.array_equal(found, wanted), (found, wanted)
    finally:
        ec.set_num_threads(before)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_c_says_when_it_is_decided(name):
    text = ec.compile(FUNCTIONS[name]).dump(np.ones(N))
    assert "if (*decided" in text
    assert ("*decided <= i1" in text) == (name in ("first", "two places"))  # chunks before count


def test_places_and_any_are_not_decided_alike():
    f = ec.compile(lambda x: ((x < 0).argmax(), (x < 0).any()))
    for x in tables(70_000):
        assert f(x) == ((x < 0).argmax(), (x < 0).any())


@pytest.mark.parametrize("function", [
    lambda x: ((x < 0).any(), x.sum()),  # which is never decided
    lambda x: (x < 0).any(axis=1),
    lambda x: (x < 0).any(axis=0),
    lambda x: (x < 0).sum(),
    lambda x: ((x < 0).any(), x + 1),
])
@pytest.mark.parametrize("shape", [(400, 400), (3000, 300), (9000, 7), (200, 5, 300)])
def test_others_go_on(function, shape):
    x = np.ones(shape)
    x[1, 1] = -1
    f = ec.compile(function)
    assert "(*decided" not in f.dump(x)
    found, wanted = (v if isinstance(v, tuple) else (v,) for v in (f(x), function(x)))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other)


def test_errors_of_elements_that_come_later():
    """Arguments that are an error are one wherever they stand."""
    f = ec.compile(lambda i, j: (i**j > 3).any())
    i, j = np.full(N, 2), np.full(N, 2)
    assert f(i, j)
    j[-1] = -1
    with pytest.raises(ec.DomainError, match="negative integer powers"):
        f(i, j)


def test_bits_of_what_comes_after():
    f = ec.compile(lambda x: np.where((x < 0).any(), x - 1, x + 1))
    for x in tables(5):
        assert_same_bits(f(x), np.where((x < 0).any(), x - 1, x + 1))


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "i2", "u1", "?"])
@pytest.mark.parametrize("n", [31, 33, 300, 16383, 16385, 50_001])
def test_extrema_are_looked_for(dtype, n):
    """First of all that are as good, whichever chunks have them; NaN before all, infinities, zeros."""
    rng = np.random.default_rng(n)
    f = ec.compile(lambda x: (x.argmax(), x.argmin()))
    beside = ec.compile(lambda x: (x.argmax(), x.sum(), x.max()))
    few, top = rng.integers(0, 2 if dtype == "?" else 90, n).astype(dtype), np.zeros(n, dtype)
    top[[n // 3, 2 * n // 3, -1]] = 1
    every = [few, top, ~top if dtype == "?" else -top, np.ones(n, dtype), few[::-1]]
    if few.dtype.kind == "f":
        every += [np.full(n, s, dtype) for s in (np.nan, np.inf, -np.inf)]
        every += [np.where(few > 80, s, few).astype(dtype) for s in (np.nan, -np.nan, np.inf, -np.inf)]
        every += [np.where(few > 40, -0.0, 0.0).astype(dtype), np.where(top > 0, np.nan, -np.inf).astype(dtype)]
    for x in every:
        assert f(x) == (x.argmax(), x.argmin())
        assert beside(x)[::2] == (x.argmax(), x.max()) or np.isnan(x).any()
        assert beside(x)[0] == x.argmax()


@pytest.mark.parametrize("n", [33, 500, 40_000])
def test_whatever_is_looked_for_is_made_of(n):
    z = np.zeros((2, n), complex)
    z[1, n // 2] = 1j
    for of in (lambda z: z != 0, lambda z: z.imag > 0, lambda z: np.isnan(z), lambda z: np.abs(z)):
        f = ec.compile(lambda z: (of(z).argmax(axis=1), of(z).argmax()))  # noqa: B023
        for got, want in zip(f(z), (of(z).argmax(axis=1), of(z).argmax()), strict=True):
            np.testing.assert_array_equal(got, want)
    places = ec.compile(lambda x: (ec.arange(x.shape[0]) > 35).argmax())
    assert places(np.zeros(n)) == (np.arange(n) > 35).argmax()


def test_a_chunk_that_lacks_the_extremum_is_not_looked_at():
    text = ec.compile(lambda x: x.argmax()).dump(np.ones(100_000))
    assert "parts0[i1] <= buffer0[0]) {" in text and "any |= !(AT(const double, x_p, i0 * x_s0) <= " in text
