"""Quotients by what others are divided by, too: products with inverses, with the bits of divisions."""

import numpy as np
import pytest

import elemc as ec
from elemc import build

from .helpers import assert_same_bits

pytestmark = pytest.mark.optimized  # what a zero's sign is, the compiler has a say in

N = 600


@pytest.fixture(scope="module", params=[0, 1], ids=["multiplies", "divides"], autouse=True)
def machine(request):
    """Machines that are slow and quick to divide."""
    real = build.machine_constants(build.toolchain())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "machine_constants", lambda tool: real._replace(divides=request.param))
        yield request.param


@pytest.fixture(scope="module", params=["fold", "row", "column"])
def divide(machine, request):
    """Rows by numbers: those that folds of rows give, or operands; or columns by numbers."""
    of_folds = ec.compile(lambda x, w, c: x / np.max(np.where(c, x, w), axis=1, keepdims=True))
    of_rows = ec.compile(lambda x, y: x / y[:, None])
    of_columns = ec.compile(lambda x, y: x / y)

    def turned(x, y):
        times = -(-128 // len(y))  # shorter rows are divided
        return of_columns(np.tile(x.T, times), np.tile(y, times))[:, :len(y)].T

    return {"fold": lambda x, y: of_folds(x, weights(y), np.zeros(N, bool)),  # read along one axis
            "row": of_rows, "column": turned}[request.param]


def weights(y):
    """Rows whose maximum is in `y`."""
    w = np.repeat(np.asarray(y)[:, None], N, axis=1)
    return np.where(np.arange(N) % 3 == 1, w, np.where(w > 0, 0, w))


def check(divide, x, y):
    with np.errstate(all="ignore"):
        want = x / y[:, None]
    got = divide(x, y)
    np.testing.assert_array_equal(got, want)
    number = ~np.isnan(want)
    assert np.array_equal(np.signbit(got)[number], np.signbit(want)[number])


def test_the_machine_decides_what_the_c_does(machine):
    f = ec.compile(lambda x: x / np.sum(x, axis=1, keepdims=True))
    x = np.ones((3, N))
    f(x)
    [made] = f.specializations
    assert f"-DDIVIDES={machine}" in made.kernel.path.with_name("meta.json").read_text()
    assert f.dump(x).count("DIVIDES") == 1


def test_a_machine_that_divides_quickly_compiles_no_library_for_what_it_leaves_out(machine):
    plain = ec.compile(lambda x, y: (x - 1) / np.max(x, axis=1, keepdims=True))
    both = ec.compile(lambda x, y: ((x - 1) / np.max(x, axis=1, keepdims=True), y / 3))
    x, y = np.random.default_rng(0).random((3, N)), np.arange(5.0 * N)
    one = ("elemc_quotients",)
    for f, libraries in ((plain, () if machine else one), (both, one)):
        f(x, y)
        [made] = f.specializations
        assert "if (DIVIDES)" in f.dump(x, y) and made.kernel.libraries == libraries
    np.testing.assert_array_equal(plain(x, y), (x - 1) / x.max(axis=1, keepdims=True))
    np.testing.assert_array_equal(both(x, y)[1], y / 3)


def test_the_c():
    def text(rows, columns, dtype="f8"):
        f = ec.compile(lambda x: x / np.sum(x, axis=1, keepdims=True))
        return f.dump(np.ones((rows, columns), dtype))

    assert "elemc_quotients(z_p + " in text(3, N)
    assert "quotients" not in text(3, 100) + text(3, N, "f4")


def test_the_c_where_nothing_is_folded():
    x, row = np.ones((20, 200)), lambda x, y: x / y[:, None]
    assert "elemc_quotients(" in ec.compile(row).dump(x, np.ones(20))
    column = ec.compile(lambda x, y: x / y - y)
    assert "y_p + b1 * y_s1, &buffer0[b1], DIVIDES)" in column.dump(x, np.ones(200))
    assert "quotients" not in column.dump(x[:7], np.ones(200))  # too few share an inverse
    for n in (127, 128):
        assert ("quotients" in ec.compile(lambda x: x / 3).dump(np.ones(n))) == (n == 128)
        assert ("quotients" in ec.compile(row).dump(x[:, :n], np.ones(20))) == (n == 128)
    for f in (lambda x, y: x.astype("f4") / y[:, None].astype("f4"), lambda x, y: x / x[::-1],
              lambda x, y: x / 2 - x / -0.25, lambda x, y: x / (1 + x[0] * x[0])):
        assert "quotients" not in ec.compile(f).dump(x, np.ones(20))


def test_what_is_divided_and_what_is_left():
    """They are computed block by block; what is dear, once; or all at once where that is faster."""
    f = ec.compile(lambda x, y: np.exp(x) + (np.exp(x) - y) / y / 3 * x)
    x = np.random.default_rng(1).standard_normal((20, 300))
    text = f.dump(x, np.float64(0.7))
    plain, blocks = text.split("if (DIVIDES)")[1].split("else {")
    assert plain.count("elemc_exp_each(") == blocks.count("elemc_exp_each(") == 1
    assert text.count("quotients(") == blocks.count("quotients(") + 1 == 3
    assert "for other machines" in f.dump(x, np.float64(0.7), stage="vectorization")
    for at in (x, x[:, ::-1], x[:, :129], x.T):
        np.testing.assert_allclose(f(at, 0.7), np.exp(at) + (np.exp(at) - 0.7) / 0.7 / 3 * at, rtol=1e-14)
    several = ec.compile(lambda x, y: (x / 3, x / 3 + x / y, (x + y) / 7))
    for got, want in zip(several(x, 0.7), (x / 3, x / 3 + x / 0.7, (x + 0.7) / 7), strict=True):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(several(x[:, 1:], 0.7)[1], x[:, 1:] / 3 + x[:, 1:] / 0.7)


@pytest.mark.parametrize("n", [128, 129, 1000, 100_003])
def test_one_array(n):
    x = np.random.default_rng(n).standard_normal(n)
    x[::7], x[5] = 0, np.inf
    f, want = ec.compile(lambda x, y: x / y), x / 0.3
    assert_same_bits(f(x, 0.3), want)
    assert_same_bits(f(x[::-1], 0.3), want[::-1])
    again = x.copy()
    assert_same_bits(f(again, 0.3, out=again), want)
    shifted = np.concatenate([x, x[:1]])
    assert_same_bits(f(shifted[:-1], 0.3, out=shifted[1:]), want)


def test_what_is_folded_or_stored_otherwise_too_stays_one_value():
    x, s = np.random.default_rng(0).random((2, 300, 300))
    f = ec.compile(lambda x, s: x / s[:, :1] - (x / s[:, :1]).sum(axis=1, keepdims=True))
    assert "quotients" not in f.dump(x, s)
    g = ec.compile(lambda x, s: (np.exp(s[0] / 9), x * np.exp(s[0] / 9)[:, None]))
    assert "quotients" not in g.dump(x, s)
    np.testing.assert_allclose(g(x, s)[1], x * np.exp(s[0] / 9)[:, None], rtol=1e-14)


def test_looking_does_not_count_as_folding():
    x, y = ec.matrix("x"), ec.vector("y")
    f = ec.function([x, y], (x / y[:, None]).astype("f4"))
    x, y = np.ones((3000, 1000)), np.ones(3000)  # more than 16 MiB, from which on folds ask
    f(x, y)
    before = f._hits
    f(x, y)
    assert f._hits == before + 1


def divisors(rng, count):
    y = 1 + rng.random(count)
    y[::4] = 2 - rng.integers(1, 9, len(y[::4])) * 2.0**-52  # mantissas of ones
    y[1::4] = 1 + rng.integers(0, 9, len(y[1::4])) * 2.0**-52
    return y


def test_random_quotients(divide):
    rng = np.random.default_rng(0)
    y = divisors(rng, 1000) * 2.0**rng.integers(-59, 59, 1000)
    x = rng.normal(size=(1000, N)) * 2.0**rng.integers(-100, 100, (1000, 1))
    check(divide, x, y)


def test_quotients_beside_midpoints(divide):
    rng = np.random.default_rng(1)
    y = divisors(rng, 400)
    for row in y:  # of integers: (q + 1/2) y, rounded to what is a double
        q = rng.integers(2**52, 2**53, N)
        wide = [(2 * int(k) + 1) * int(row * 2**52) for k in q]
        x = np.array([w >> w.bit_length() - 53 for w in wide], float)
        every = np.concatenate([x - 1, x, x + 1])[:3 * N].reshape(3, N)
        check(divide, every, np.full(3, row))


@pytest.mark.parametrize("special", [
    0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, 2.0**-961, 2.0**-960, 2.0**960, 2.0**961, 1.7e308,
    np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("y", [
    1.5, -1.5, 3.0, 2.0**-60 * 1.1, 2.0**-61, 2.0**60, 2.0**61 * 1.3, 0.0, 5e-324, 1e308, np.inf,
    np.nan])
def test_numbers_out_of_range(divide, special, y):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(4, N))
    x[1, 5], x[2, -1], x[3, ::7] = special, special, special
    check(divide, x, np.array([1.25, y, y, y]))


def test_random_floats(divide):
    rng = np.random.default_rng(5)
    y = np.float32(1) + rng.integers(0, 2**23, 2000).astype("f4") * np.float32(2.0**-23)
    y[::2] = np.float32(2) - rng.integers(1, 99, 1000).astype("f4") * np.float32(2.0**-23)
    q = rng.integers(2**23, 2**24, (2000, N)) * 2.0 + 1  # beside midpoints
    x = (q * y[:, None].astype("f8")).astype("f4")
    check(divide, np.nextafter(x, x * rng.integers(0, 3, x.shape), dtype="f4"), y)
    check(divide, x * np.float32(2.0**-90), y * np.float32(2.0**20))
    for exponents in ((-149, 100), (-120, -90), (90, 120)):
        x = (rng.normal(size=(2000, N)) * 2.0**rng.integers(*exponents, (2000, N))).astype("f4")
        check(divide, x, y * (2.0**rng.integers(-30, 30, 2000)).astype("f4"))
    x = rng.normal(size=(13, N)).astype("f4")
    x[np.arange(13), np.arange(13)] = [0, -0.0, 1e-45, -1e-45, 2**-126, 2**-101, 2**-100, 2**100,
                                       2**101, 3e38, np.inf, -np.inf, np.nan]
    for special in (1.5, -3, 0, 2**-25, 2**24, 2**25, 1e-45, 1e38, np.inf, np.nan):
        check(divide, x, np.full(13, special, "f4"))


def test_quotients_that_leave_the_range(divide):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(500, N)) * 2.0**rng.integers(-1070, 1020, (500, N))
    check(divide, x, 1 + rng.random(500))
    check(divide, x, (1 + rng.random(500)) * 2.0**rng.integers(-1000, 1000, 500))


@pytest.mark.parametrize("f", [
    lambda x: (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True),
    lambda x: np.exp(x - x.max(axis=1, keepdims=True)) / np.sum(
        np.exp(x - x.max(axis=1, keepdims=True)), axis=1, keepdims=True),
    lambda x: np.sqrt(x / x.sum(axis=1, keepdims=True)) * x / x.max(axis=1, keepdims=True),
    lambda x: (x / np.sqrt((x * x).sum(axis=-1, keepdims=True))).T,
    lambda x: x / x.sum(axis=(1, 2), keepdims=True) if x.ndim == 3 else x])
@pytest.mark.parametrize("shape", [(7, 130), (3, 1000), (2, 5000), (4, 6, 200)])
def test_normalized_rows(f, shape):
    x = np.random.default_rng(4).random(shape) + 0.5
    compiled = ec.compile(f)
    np.testing.assert_allclose(compiled(x), f(x), rtol=1e-12, atol=1e-14)
    again = x.copy()
    if f(x).shape == x.shape:
        np.testing.assert_array_equal(compiled(again, out=again), compiled(x))


@pytest.mark.parametrize("f", [
    lambda x, s: (x - s) / (s + 1) * s,
    lambda x, s: x / s + x / (s * s + 1) - 1 / s,
    lambda x, s: (x - s) / x[..., :1] - x / (x[..., 1:2] + 1),
    lambda x, s: (x / x[..., :1]).T,
])
@pytest.mark.parametrize("shape", [(9, 130), (30, 1000), (8, 5000), (4, 9, 200)])
def test_maps(f, shape):
    rng = np.random.default_rng(6)
    x, s = rng.random(shape) + 0.5, rng.random(shape[-1]) + 0.5
    x.flat[77], s[50] = np.inf, 0
    compiled = ec.compile(f)
    for at in (x, np.asfortranarray(x), x[..., ::-1]):
        with np.errstate(all="ignore"):
            want = f(at, s)
        np.testing.assert_allclose(compiled(at, s), want, rtol=1e-15)
    if want.shape == shape:
        want = compiled(x, s)
        np.testing.assert_array_equal(compiled(x, s, out=x), want)


@pytest.mark.parametrize("columns", [3, 5, 20, 60])
def test_many_short_rows(columns):
    """They are one row, in blocks, if all are divided by one number."""
    x = np.random.default_rng(0).standard_normal((331, columns)) * 10.0**np.arange(columns)
    x.flat[::97] = 5e-324, *np.resize([1e308, -0.0, np.inf, np.nan, 1e-300], len(x.flat[::97]) - 1)
    y = np.arange(1.0, columns + 1)
    f, g = ec.compile(lambda x, y: (x - y) / 255), ec.compile(lambda x, y, s: 2 * (x / s) + y)
    for rows in (300, 331):
        with np.errstate(all="ignore"):
            want = (x[:rows] - y) / 255, 2 * (x[:rows] / 0.7) + y
        for got, of in zip((f(x[:rows], y), g(x[:rows], y, np.float64(0.7))), want, strict=True):
            np.testing.assert_array_equal(got, of)
            assert np.array_equal(np.signbit(got[~np.isnan(of)]), np.signbit(of[~np.isnan(of)]))
    assert "elemc_quotients(" in f.dump(x, y)
    by_columns = ec.compile(lambda x, y: (x - y) / y)
    assert "quotients" not in f.dump(x[:200], y) + by_columns.dump(x, y)


WHOLE = {
    "floor_divide": lambda x, y: x // y, "remainder": lambda x, y: x % y,
    "by one": lambda x, y: (x // y[0], x % y[0]), "by 7": lambda x, y: (x // 7, x % -7),
    "of sums": lambda x, y: (x + 3) // (y - 1) * x % 5 - y,
}  # fmt: skip
EXTREME = np.iinfo(np.int64)


@pytest.mark.parametrize("limit", [10, 2**50, 2**51, 2**53, EXTREME.max])
@pytest.mark.parametrize("name", WHOLE)
def test_integers(name, limit):
    """Blocks of near ones, whose quotients doubles hold, and others, of which one is far."""
    rng = np.random.default_rng(3)
    x, y = rng.integers(-limit, limit, (2, 700), endpoint=True)
    y[::3] = rng.integers(-9, 10, len(y[::3]))
    x[::5] = y[::5] * rng.integers(-9, 10, len(y[::5])) + rng.integers(-1, 2, len(y[::5]))
    x[[1, 300]], y[[2, 1, 301]] = (limit, -limit), (limit, -limit, -1)
    f = ec.compile(WHOLE[name])
    with np.errstate(all="ignore"):
        for at, by in ((x, y), (x[::-1], y[::2].repeat(2)), (x[:130], y[-130:]), (x[:3], y[:3]),
                       (x.reshape(2, -1), y[:2, None]), (x.reshape(-1, 2).T, y.reshape(2, -1))):
            np.testing.assert_array_equal(f(at, by), WHOLE[name](at, by))
    if name in ("floor_divide", "remainder"):
        assert f"elemc_{name}_by(" in f.dump(x, y)
        assert "elemc" not in f.dump(x[:9], y[:9]).split("int kernel")[1]
        for k in range(2):  # the output is read as well
            args = [x.copy(), y.copy()]
            with np.errstate(all="ignore"):
                want = WHOLE[name](*args)
            f(*args, out=args[k])
            np.testing.assert_array_equal(args[k], want)


def test_loops_of_other_machines_are_not_counted(machine):
    x = np.ones((300, 1000))
    f = ec.compile(lambda x, y: (x - y[:, None]) / y[:, None] * 2)
    text = f.dump(x, x[:, 0], stage="vectorization")
    count, others = (1, 2) if machine else (2, 1)
    assert f"{count} of {count} innermost loops vectorized" in text or build.toolchain().family != "gcc"
    assert sum("for other machines" in line and "INDEPENDENT" in line for line in text.splitlines()) == others


def test_what_dividends_and_divisors_share():
    f = ec.compile(lambda z: (np.exp(z) * 9).astype("i8") // (np.exp(z) * 3 + 1).astype("i8") + np.exp(z))
    z = np.linspace(0, 5, 1000)
    assert f.dump(z).split("int kernel")[1].count("elemc_exp_each(") == 1
    np.testing.assert_array_equal(f(z) - np.exp(z) > 0.5, (np.exp(z) * 9) // (np.exp(z) * 3 + 1) >= 1)


@pytest.mark.parametrize("y", [1, 2, 3, 7, 2**31, 10**9, 2**51 + 1, 2**62, 2**62 + 1, EXTREME.max, -7, -1])
def test_far_integers_by_a_number(y):
    """Times in nanoseconds, say: products, where the divisor is positive."""
    x = np.random.default_rng(1).integers(EXTREME.min, EXTREME.max, 600)
    x[:6] = EXTREME.min, EXTREME.max, 0, -1, 1, y
    x[6:9] = np.array([y - 1, -y, 1 - y])
    for f in (lambda x, y: x // y, lambda x, y: x % y):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(ec.compile(f)(x, y), f(x, np.int64(y)))
