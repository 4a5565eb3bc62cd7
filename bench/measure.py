"""Time contestants against each other: interleaved rounds, paired ratios, bootstrap intervals.

Each round calls every contestant once, in a new random order, so that what the machine does
meanwhile hits all alike; a ratio is the median over rounds of (their time / base's time).  Before
each is a pause, for what one has left to its threads is done while the next one is measured.

Ways of calling
---------------
natural
    The call returns a new result, which is dropped before the next call.
kept
    The call returns a new result, and the last four results are kept: the fifth last is dropped
    after a call has returned, so that five are there while it computes.
given
    The call fills arrays that were there before, the same ones every time, and of all contestants:
    in arrays of its own, that lie elsewhere, a loop is up to a tenth faster or slower than itself.

The machine's own loops (`contestants.MACHINE`) fill given arrays in natural calls too; of kept
calls each fills fresh huge pages.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from timeit import Timer
from typing import Any

import numpy as np

from .contestants import LIMITS, MACHINE, Call, Contestant
from .workloads import Workload, operands

# Largest error, relative to the largest value of the answer.
TOLERANCE = {"float32": 5e-5, "float64": 1e-11}
KINDS = ("natural", "kept", "given")
KEPT = 4  # results
SAMPLE_SECONDS = 2e-3  # a sample lasts at least this long
SETTLE_SECONDS = 5e-3  # in which threads of the one before end what they do, and fall asleep


@dataclass(frozen=True)
class Ratio:
    """A median of paired ratios and its 95 % bootstrap interval."""

    median: float
    low: float
    high: float


@dataclass
class Cell:
    """One workload at one size, called in one way.

    Attributes
    ----------
    samples : dict
        Contestant to seconds per call, one number per round.
    wrong : dict
        Contestant to what is wrong with its answer; it is not timed.
    """

    workload: str
    size: int
    dtype: str
    kind: str
    samples: dict[str, list[float]] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)

    def median(self, name: str) -> float:
        """Median seconds per call of a contestant."""
        return float(np.median(self.samples[name]))

    def ratio(self, name: str, base: str) -> Ratio:
        """How many times longer than `base` the contestant takes."""
        return paired(np.array(self.samples[name]), np.array(self.samples[base]))


def paired(times: np.ndarray, base: np.ndarray, draws: int = 2000) -> Ratio:
    """Median of `times / base` with its percentile bootstrap interval over rounds."""
    ratios = times / base
    picks = np.random.default_rng(0).integers(0, len(ratios), (draws, len(ratios)))
    low, high = np.percentile(np.median(ratios[picks], axis=1), [2.5, 97.5])
    return Ratio(float(np.median(ratios)), float(low), float(high))


def as_tuple(result: Any) -> tuple[np.ndarray, ...]:
    """Outputs of any contestant as NumPy arrays."""
    parts = result if isinstance(result, tuple | list) else (result,)
    return tuple(np.asarray(part) for part in parts)


def fault(result: Any, reference: tuple[np.ndarray, ...], scale: float | None = None,
          slack: float = 1) -> str:
    """What is wrong with an answer; empty if nothing is.

    Errors are relative to the largest value of each output, or to `scale`; `slack` times as large
    ones are allowed, but integers are to be the same.
    """
    answer = as_tuple(result)
    if len(answer) != len(reference):
        return f"{len(answer)} outputs instead of {len(reference)}"
    for got, want in zip(answer, reference, strict=True):
        if got.shape != want.shape or got.dtype != want.dtype:
            return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
        largest = scale or np.max(np.abs(want[np.isfinite(want)]), initial=1e-300)
        other = ~((got == want) | np.isnan(got) & np.isnan(want))  # not the same infinities, or NaN
        signed = np.result_type(want, np.int8)
        far = np.abs(np.subtract(got[other], want[other], dtype=signed))
        error = float(np.max(far, initial=0) / largest)
        if not error <= slack * TOLERANCE.get(want.dtype.name, 0):
            return f"relative error {error:.1e}"
    return ""


def prepare(
    work: Workload, cell: Cell, contestants: Mapping[str, Contestant]
) -> dict[str, Call]:
    """Calls of all contestants that have one and whose first answer is NumPy's."""
    arrays = operands(work, cell.size, cell.dtype)
    reference = as_tuple(work.reference(*arrays))
    calls: dict[str, Call] = {}
    given = [np.empty(want.shape, want.dtype) for want in reference]
    for name, contestant in contestants.items():
        outs = None
        if cell.kind == "given" or (cell.kind == "natural" and name in MACHINE):
            outs = given
            for out in outs:
                out.fill(np.nan)  # shows what is not written
        call = contestant.prepare(work, arrays, outs)
        if call is None:
            continue
        result = call()
        problem = ""
        if name not in LIMITS:
            problem = fault(result, reference)
            if not problem and outs is not None and fault(outs, reference):
                problem = "out= was not filled"
        if problem:
            cell.wrong[name] = problem
        else:
            calls[name] = keeping(call) if cell.kind == "kept" else call
    return calls


def keeping(call: Call) -> Call:
    """`call`, whose last results are kept; so many and one more are there by now."""
    ring: deque[Any] = deque((call() for _ in range(KEPT + 1)), maxlen=KEPT)
    return lambda: ring.append(call())


def repeats(call: Call) -> int:
    """How many calls fill a sample."""
    number = 1
    while True:
        start = time.perf_counter()
        Timer(call).timeit(number)
        taken = time.perf_counter() - start
        if taken >= SAMPLE_SECONDS:
            return number
        number = max(2 * number, int(number * SAMPLE_SECONDS / max(taken, 1e-7)))


def run_cell(
    work: Workload, size: int, dtype: str, kind: str,
    contestants: Mapping[str, Contestant], rounds: int,
) -> Cell:
    """Check and time all contestants on one workload."""
    cell = Cell(work.name, size, dtype, kind)
    cell.samples = interleaved(prepare(work, cell, contestants), rounds)
    return cell


def interleaved(calls: Mapping[str, Call], rounds: int) -> dict[str, list[float]]:
    """Seconds per call of every round."""
    timers = {name: (Timer(call), repeats(call)) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    shuffle = random.Random(0).shuffle
    for _ in range(rounds):
        shuffle(order)
        for name in order:
            timer, number = timers[name]
            time.sleep(SETTLE_SECONDS)
            samples[name].append(timer.timeit(number) / number)
    return samples
