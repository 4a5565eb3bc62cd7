"""What the figures say: is any peer faster anywhere, and how far is it to what memory allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .contestants import LIMITS, PEERS
from .measure import Cell, Ratio
from .report import short_size, short_time
from .workloads import WORKLOADS

LEAST_LOW = 0.97  # of the interval of best peer / elemc
LEAST_MEDIAN = 1.0
BASE = "elemc"


@dataclass(frozen=True)
class Verdict:
    """One row: its best peer, and its limit.

    Attributes
    ----------
    cell : Cell
        The figures.
    threads : int
        On how many they were taken.
    best : str
        The peer that took least; empty if elemc was alone.
    ratio : Ratio, optional
        That peer's time divided by elemc's.
    limit : str
        Which of the limits was lower; empty if the row is not bound by memory.
    over_limit, over_plain_c : Ratio, optional
        elemc's time divided by the limit's and by that of plain C.
    contracted : Ratio, optional
        The peer's time divided by elemc's under `contract=True`, which most peers do anyway.
    gain : Ratio, optional
        elemc's time on one thread divided by its time on `threads`.
    again : Ratio, optional
        elemc's time divided by its own, measured as another contestant's: how sure the others are.
    """

    cell: Cell
    threads: int
    best: str
    ratio: Ratio | None
    limit: str
    over_limit: Ratio | None
    over_plain_c: Ratio | None
    contracted: Ratio | None = None
    gain: Ratio | None = None
    again: Ratio | None = None

    @property
    def holds(self) -> bool:
        """Whether no peer is faster."""
        r = self.ratio
        return r is None or (r.low >= LEAST_LOW and r.median >= LEAST_MEDIAN)

    def __str__(self) -> str:
        c, r = self.cell, self.ratio
        text = (f"{c.workload:<20}{short_size(c.size):>6} {c.dtype:<8}{c.kind:<8}{self.threads:>2} "
                f"{short_time(c.median(BASE)):>9}  ")
        text += (f"{r.median:6.2f} [{r.low:5.2f},{r.high:5.2f}] {self.best:<14}" if r
                 else f"{'-':>21} {'':<14}")
        word = "-" if r is None else "ok" if self.holds else "SLOWER"
        if r and not self.holds and r.median >= LEAST_MEDIAN:
            word = "unsure"  # only the interval reaches below
        text += f"{word:<8}"
        for over in (self.over_plain_c, self.over_limit, self.contracted, self.gain):
            text += f"{over.median:8.2f}" if over else f"{'-':>8}"
        return text

    def document(self) -> dict[str, Any]:
        """All of it, for JSON."""
        ratios = {"ratio": self.ratio, "over_limit": self.over_limit,
                  "over_plain_c": self.over_plain_c, "contracted": self.contracted,
                  "gain": self.gain, "again": self.again}
        return {"workload": self.cell.workload, "size": self.cell.size, "dtype": self.cell.dtype,
                "kind": self.cell.kind, "threads": self.threads, "best": self.best,
                "limit": self.limit, "holds": self.holds,
                **{name: r and vars(r) for name, r in ratios.items()}}


HEADER = (f"{'workload':<20}{'size':>6} {'dtype':<8}{'call':<8}{'th':>2} {BASE:>9}  "
          f"{'best peer / elemc':<36}{'verdict':<8}{'/ C':>8}{'/ limit':>8}{'fused':>8}{'gain':>8}")

LEGEND = f"""\
verdict: SLOWER where the median of best peer / elemc is below {LEAST_MEDIAN}, unsure where
  only its interval reaches below {LEAST_LOW}
/ C, / limit: elemc's time divided by that of plain C, and by that of moving the bytes alone
  (of rows that memory bounds)
fused: best peer / elemc with contract=True
gain: elemc's time on one thread divided by its time here
"""


def verdict(cell: Cell, threads: int) -> Verdict | None:
    """Judge one cell; None if elemc was not timed."""
    if BASE not in cell.samples:
        return None

    def least(names: Sequence[str]) -> str:
        there = [name for name in names if name in cell.samples]
        return min(there, key=lambda name: cell.ratio(name, BASE).median, default="")

    def ratio(name: str, base: str) -> Ratio | None:
        return cell.ratio(name, base) if {name, base} <= cell.samples.keys() else None

    best = least(PEERS)
    limit = least(LIMITS) if WORKLOADS[cell.workload].memory_bound else ""
    return Verdict(
        cell, threads, best, ratio(best, BASE), limit, ratio(BASE, limit), ratio(BASE, "plain_c"),
        ratio(best, "elemc_contract"), ratio("elemc_one", BASE),
        ratio("elemc_again", BASE))


def mean(ratios: Sequence[Ratio | None]) -> float:
    """Geometric mean of those that are there."""
    return float(np.exp(np.mean([np.log(r.median) for r in ratios if r] or [np.nan])))


def summary(found: Sequence[Verdict]) -> list[str]:
    """Geometric means by size, dtype and way of calling, and the rows in which a peer is ahead."""
    lines = []
    groups: dict[tuple[str, str, str], list[Verdict]] = {}
    for v in found:  # a row of 4M stands where 8M was asked for
        size = "8M" if v.cell.size == WORKLOADS[v.cell.workload].large else short_size(v.cell.size)
        groups.setdefault((size, v.cell.dtype, v.cell.kind), []).append(v)
    for (size, dtype, kind), group in groups.items():
        limited = [v.over_limit for v in group if v.over_limit]
        lines.append(
            f"{size:>6} {dtype} {kind:<8} best peer / elemc: {mean([v.ratio for v in group]):.2f} "
            f"over {sum(v.ratio is not None for v in group)} rows"
            + (f"; elemc / plain C: {mean([v.over_plain_c for v in group]):.2f}"
               if any(v.over_plain_c for v in group) else "")
            + (f"; elemc / limit: {mean(limited):.2f}, at most "
               f"{max(r.median for r in limited):.2f}" if limited else ""))
        for bound, what in ((True, "memory bounds"), (False, "compute")):
            gains = [v.gain for v in group
                     if v.gain and WORKLOADS[v.cell.workload].memory_bound == bound]
            if gains:
                lines.append(f"       gain of {group[0].threads} threads on rows that {what}: "
                             f"{mean(gains):.2f}, at least {min(r.median for r in gains):.2f}")
    slower = [v for v in found if not v.holds]
    lines.append(f"a peer is ahead, or may be, in {len(slower)} of {len(found)} rows"
                 + "".join(f"\n  {v}" for v in slower))
    if again := [v.again for v in found if v.again]:
        doubtful = sum(r.low < LEAST_LOW for r in again)
        lines.append(f"elemc, timed once more, may be ahead of itself in {doubtful} of "
                     f"{len(again)} rows: their intervals reach below {LEAST_LOW}")
    return lines
