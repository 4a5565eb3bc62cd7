"""Random programs, networks and their gradients against NumPy in extended precision."""

from functools import partial
from itertools import chain, cycle

import numpy as np
import pytest

import elemc as ec
from elemc import binding, bounds, jamming, runtime

from .helpers import compile_together, quiet
from .random_gradients import slope
from .random_graphs import drawn
from .random_networks import networks
from .random_programs import lay, programs

pytestmark = pytest.mark.optimized

PER_ITEM, PROGRAMS = 26, 26
TOLERANCE = {"float64": 1e-9, "float32": 1e-3}  # of the largest element, or of 1
STEP = 1e-7


def pytest_generate_tests(metafunc):
    count = metafunc.config.getoption("--graphs") or PROGRAMS
    first = int(metafunc.config.getoption("--hypothesis-seed") or 0)
    metafunc.parametrize("number", range(first, first + -(-count // PER_ITEM)))


@pytest.fixture(autouse=True)
def other_kernels(number, monkeypatch):
    """Give some of these arrays the kernels of larger ones, and of rows of known lengths."""
    if number % 6:
        monkeypatch.setenv("ELEMC_CFLAGS", "-O0")
    if number % 3:
        monkeypatch.setattr(binding, "FEW", 1)
    if number % 4 > 1:
        monkeypatch.setattr(runtime, "crosses", lambda across, arrays, sizes: bool(across))
    if number % 2:
        for module in (bounds, jamming) if number % 4 == 1 else ():  # rows go in turn
            monkeypatch.setattr(module, "FILLED", 64)
        monkeypatch.setattr(runtime, "large_bytes", lambda: 0)
        monkeypatch.setattr(runtime, "outgrows_caches", lambda lines, sizes: bool(lines))


def each(number, made, check, strategy, count=PER_ITEM):
    """Check programs of a seed, whose kernels are compiled as one file."""
    drew = drawn(strategy, number, count)
    cases = [(case, *made(k, case)) for k, case in enumerate(drew)]
    compile_together((f, arrays) for _, f, arrays in cases)
    for case, f, arrays in cases:
        try:
            quiet(check, case, f, arrays)
        except Exception as error:
            raise AssertionError(f"{error!r}\n\n{case.code()}") from error


def compiled(number, case):
    return ec.compile(case.function(), name=f"program{number}")


@pytest.mark.parametrize("mixed", [False, True], ids=["floats", "mixed"])
def test_values(number, mixed):
    each(2000 * mixed + number, lambda k, case: (compiled(k, case), case.arrays()), check_values,
         programs(mixed))


def check_values(case, f, arrays):
    wide = case.function()(*(a.astype(np.longdouble) if a.dtype.kind == "f" else a for a in arrays))
    plain = case.function()(*arrays)
    outs = [lay(np.zeros(p.shape, p.dtype), layout)
            for p, layout in zip(plain, case.outs, strict=False)]
    results = f(*arrays, out=tuple(outs)) if outs else f(*arrays)
    for result, want, numpy in zip(results, wide, plain, strict=True):
        assert (result.shape, result.dtype) == (numpy.shape, numpy.dtype)
        if numpy.dtype.kind != "f":
            np.testing.assert_array_equal(result, want)
            continue
        size = max(1, np.abs(want).max(initial=0, where=~np.isnan(want)))
        error, others = (float(apart(z, want).max() / size) for z in (result, numpy))
        rounds = 1e-6 if "float32" in case.dtypes else 0  # before the result is a double
        assert error <= max(TOLERANCE[str(numpy.dtype)], rounds, 100 * others), (
            f"off by {error:.1e} of the largest")


def apart(one, other):
    """Distances; of a mean of nothing and another none."""
    return np.where(np.isnan(one) & np.isnan(other), 0, np.abs(one - other))


def weights(case, like):
    """What results and inputs are weighted by: random numbers."""
    rng = np.random.default_rng(1)
    return [lay(np.asarray(rng.normal(size=z.shape), case.dtypes[0]), layout)
            for z, layout in zip(like, chain(case.outs, cycle("FC")), strict=False)]


def gradient(number, case):
    """What pulls back through a program, and its arguments."""
    arrays = case.arrays()
    plain = quiet(case.function(), *arrays)
    return ec.vjp(compiled(number, case)), [*arrays, *weights(case, plain)]


def test_gradients(number):
    each(1000 + number, gradient, check_gradients, programs())


def test_gradients_of_networks(number):
    each(3000 + number, gradient, partial(check_gradients, least=1e-3), networks(), 4)


@pytest.mark.parametrize("strategy", [networks(), programs()], ids=["networks", "programs"])
def test_loops_alone(number, strategy):
    """Programs and gradients have kernels in whatever order their arrays lie: none is compiled."""
    for k, case in enumerate(drawn(strategy, 4000 + number, PER_ITEM)):
        pull, arguments = gradient(k, case)
        for f, arrays in ((compiled(k, case), case.arrays()), (pull, arguments),
                          (pull, [lay(a, "F") for a in arguments])):
            assert "\nint kernel_" in f.dump(*arrays), case.code()


def check_gradients(case, backward, arguments, least=0):
    """Those of rows that are normalized to nothing are of what rounds: at `least` of a size."""
    arrays, given = arguments[:len(case.shapes)], arguments[len(case.shapes):]
    gradients = backward(*arguments)
    directions = weights(case, arrays)
    program = case.function()

    def cost(t):
        moved = [a.astype(np.longdouble) + t * d for a, d in zip(arrays, directions, strict=True)]
        return sum((z * w).sum() for z, w in zip(program(*moved), given, strict=True))

    want, doubt = slope(cost, STEP)
    parts = [(g.astype(np.longdouble) * d) for g, d in zip(gradients, directions, strict=True)]
    size = sum(np.abs(p).sum() for p in parts) + abs(want)
    size = max(size, least)
    assert abs(sum(p.sum() for p in parts) - want) <= 10 * doubt + 10 * TOLERANCE[case.dtypes[0]] * size
