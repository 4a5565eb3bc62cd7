"""The benchmarks' own C, random cases and verdicts; what needs other packages is in test_peers."""

import dataclasses

import numpy as np
import pytest

from bench import cliffs, contestants, layouts, measure, programs, survey, verdict
from bench.sweep import cases, run
from bench.workloads import WORKLOADS
from elemc.toolchain import find_toolchain

pytestmark = pytest.mark.skipif(find_toolchain() is None, reason="there is no compiler")


def test_sweep():
    """Small cases: elemc, NumPy and the loops made for each agree."""
    found = list(run.outcomes(1, list(range(12)), largest=1000, rounds=1))
    assert len(found) == 12
    for outcome in found:
        assert not outcome.wrong, str(outcome.text)
        assert {"numpy", "plain_c"} <= outcome.document()["ratios"].keys()
    assert len(run.summary(found)) > 20


def test_answers_are_compared():
    """Infinities and NaN are right in their places, and wrong elsewhere."""
    inf, nan = np.inf, np.nan
    for got, want, right in (([1.0, inf, nan], [1.0, inf, nan], True), ([1, inf], [1, -inf], False),
                             ([1, nan], [1.0, 2], False), ([1.0, 2], [1, nan], False),
                             (1.0, 1.0, True), ([1, 2], [1, 3], False), ([True], [False], False),
                             ([1 + 1j], [1 + 1j], True), ([1.0, 2.1], [1.0, 2], False)):
        assert (measure.fault(np.array(got), (np.array(want, np.array(got).dtype),)) == "") == right


def test_cases_repeat():
    """A seed and a number are all that a case is drawn from."""
    one, same = (cases.case(3, 5, 1000) for _ in range(2))
    assert str(one) == str(same)
    for a, b in zip(one.operands.values(), same.operands.values(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_layouts():
    """Answers are NumPy's, and bit for bit those of contiguous copies."""
    found = [layouts.case(1, number) for number in range(8)]
    for one in found:
        layouts.run(one, rounds=1)
        assert not one.wrong, str(one)
        assert one.ratio("numpy").median > 0 and one.ratio("copies").median > 0
    assert len(layouts.summary(found)) == 20
    assert str(layouts.case(1, 3)) == str(found[3])


def test_cliffs():
    """Every function has its turn, and NumPy's answer; what is far from its median is named."""
    found = [cliffs.case(1, number, 500, "float32") for number in range(45)]
    assert [one.text for one in found[:41]] == cliffs.functions()
    for one in found:
        cliffs.run(one, rounds=1)
        assert not one.wrong, str(one)
        assert one.nanoseconds > 0
    slow = dataclasses.replace(found[0], samples=[9.0])
    assert any(f"--only {slow.number}: {slow}" in line for line in cliffs.summary([*found, slow]))
    assert str(cliffs.case(1, 3, 500, "float32")) == str(found[3])


def test_survey():
    """Every expression's answer is NumPy's, and timed."""
    rows = list(survey.times(1000, "float32", rounds=1))
    assert [row.text for row in rows] == survey.expressions()
    assert all(row.ours > 0 and row.theirs > 0 and row.peer == "numpy" for row in rows)


@pytest.mark.parametrize("kind", measure.KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_plain_c(dtype, kind):
    """Every workload has a C loop, whose answer is NumPy's."""
    found, missing = contestants.load(contestants.MACHINE, 1)
    assert not missing
    for work in WORKLOADS.values():
        cell = measure.run_cell(work, 2000, dtype, kind, found, rounds=1)
        assert not cell.wrong, work.name
        assert {"plain_c", "limit"} <= cell.samples.keys(), work.name


def test_verdict():
    """The best peer is the one that takes least; plain C and limits are no peers."""
    cell = measure.Cell("axpy", 1000, "float64", "natural", samples={
        "elemc": [1.0] * 5, "numpy": [2.0] * 5, "numba": [1.5] * 5, "plain_c": [0.8] * 5,
        "limit": [0.5] * 5, "limit_stream": [0.4] * 5})
    judged = verdict.verdict(cell, 1)
    assert (judged.best, judged.limit, judged.holds) == ("numba", "limit_stream", True)
    assert judged.ratio.median == 1.5 and judged.over_limit.median == 2.5
    slower = dataclasses.replace(cell, samples={**cell.samples, "numba": [0.9] * 5})
    assert not verdict.verdict(slower, 1).holds


def test_programs():
    """Every program's answer is NumPy's, and timed; gradients, which it has not, are left out."""
    rows = list(programs.times(2000, "float32", 1, ["numpy"]))
    listed = [one for one in programs.PROGRAMS.values() if not one.wrt]
    assert [row.name for row in rows] == [one.name for one in listed]
    for row in rows:
        assert not row.wrong, row
        assert row.best() == "numpy" and row.ratio("numpy").median > 0
    assert len(programs.summary(rows, ["numpy"])) == len(rows) + 1
