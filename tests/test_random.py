"""Random expressions, compiled, against the interpreter and against NumPy; see random_graphs.

Most graphs share a translation unit with dozens of others, which is what makes thousands of them
affordable; the rest take the public path from the first to the last stage.
"""

import contextlib
import time

import numpy as np
import pytest
from hypothesis import Phase

import elemc as ec
from elemc import binding, bounds, jamming, runtime
from elemc.interp import interpret

from .helpers import assert_same_bits, compile_together
from .random_graphs import REJECTED, cases, drawn, show

pytestmark = pytest.mark.optimized

PER_ITEM, SHARED, COLD = 46, 138, 46
# The interpreter's own special functions are good to 64 units in the last place, not to 4.
SLACK = 16


def pytest_generate_tests(metafunc):
    graphs = metafunc.config.getoption("--graphs")
    count = {"test_together": graphs or SHARED, "test_alone": (graphs * COLD // SHARED if graphs else COLD)}
    first = int(metafunc.config.getoption("--hypothesis-seed") or 0)
    items = -(-count[metafunc.function.__name__] // PER_ITEM)
    metafunc.parametrize("number", range(first, first + items))


def smallest(number, code, kind):
    """What hypothesis makes of a case that fails in this way, compiled alone; it has a minute."""
    failed, last, start = {}, "none: it fails only beside others", None

    def look(case):
        nonlocal last, start
        if start is None and case.code() == code:
            start = time.monotonic()
        if start and case.code() not in failed and time.monotonic() < start + 60:
            try:
                check(case, case.function("f"))
            except kind as error:
                failed[case.code()] = error
            except Exception:
                pass  # another story
        if case.code() in failed:
            last = case.code()
            raise failed[last]

    with contextlib.suppress(Exception):
        show(look, cases(), number, PER_ITEM, [Phase.generate, Phase.shrink])
    return f"{failed.get(last, '')}\n\n{last}"


@contextlib.contextmanager
def explained(number, case):
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{error}\n\n{case.code()}\n\nThe smallest like it:\n"
                             f"{smallest(number, case.code(), type(error))}") from error


@pytest.fixture(autouse=True)
def other_kernels(number, monkeypatch):
    """Give some of these small arrays the kernels of large ones, and of rows of known lengths.

    Most are compiled as they stand, in a third of the time.
    """
    if number % 13 != 1:
        monkeypatch.setenv("ELEMC_CFLAGS", "-O0")
    if number % 3:
        monkeypatch.setattr(binding, "FEW", 1)
    if number % 2 == 1:
        for module in (bounds, jamming) if number % 4 == 1 else ():  # rows go in turn
            monkeypatch.setattr(module, "FILLED", 64)
        monkeypatch.setattr(runtime, "large_bytes", lambda: 0)
        monkeypatch.setattr(runtime, "outgrows_caches", lambda lines, sizes: bool(lines))


def test_together(number):
    pairs = []
    for k, case in enumerate(drawn(cases(), 2 * number, PER_ITEM)):
        with explained(2 * number, case):
            pairs.append((case, case.function(f"f{k}")))
    compile_together((function, case.arrays(call)) for case, function in pairs for call in case.calls)
    for case, function in pairs:
        with explained(2 * number, case):
            check(case, function)


def test_alone(number):
    for case in drawn(cases(), 2 * number + 1, PER_ITEM):
        with explained(2 * number + 1, case):
            check(case, case.function("f"))


def check(case, function):
    for call in case.calls:
        arrays = case.arrays(call)
        try:
            expected = case.expected(arrays)
        except REJECTED:
            with pytest.raises(ec.ElemcError):
                function(*arrays)
            continue
        results = function(*arrays)
        for again, result in zip(function(*arrays), results, strict=True):  # the call path in C
            assert_same_bits(again, result)
        closed, _ = function.example(arrays)
        others = interpret(closed.graph, arrays)
        for result, want, other in zip(map(np.asarray, results), expected, others, strict=True):
            compare(result, want.value, want.bound)
            compare(result, other, want.bound, SLACK)


def compare(result, want, bound, slack=1):
    assert result.dtype == want.dtype
    assert result.shape == want.shape
    with np.errstate(all="ignore"):
        equal = (result == want) | (np.isnan(result) & np.isnan(want))
        if want.dtype.kind == "f":
            equal &= (np.signbit(result) == np.signbit(want)) | np.isnan(want) | (bound > 0)
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        near = np.abs(result.astype(wide) - want.astype(wide)) <= slack * bound
    bad = ~(equal | near | np.isinf(bound))
    assert bad.sum() == 0, (f"{bad.sum()} of {bad.size} elements differ: {result[bad][:5]}, not "
                            f"{want[bad][:5]} within {bound[bad][:5]}")
