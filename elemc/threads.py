"""How many threads a call may use: what the user says, or as many as this process has CPUs."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import ArgumentError

OWN = Path("/proc/self/cgroup")
CGROUP = Path("/sys/fs/cgroup")

_chosen: list[int] = []  # the last word of `choose`


def number_of_threads() -> int:
    """What was chosen; else ELEMC_NUM_THREADS; else the CPUs that this process may use.

    Raises
    ------
    ArgumentError
        If ELEMC_NUM_THREADS is not a positive integer.
    """
    if _chosen:
        return _chosen[-1]
    text = os.environ.get("ELEMC_NUM_THREADS")
    if not text:
        return cpus()
    if not text.strip().isdecimal() or int(text) < 1:
        raise ArgumentError(f"ELEMC_NUM_THREADS is {text!r}; it must be a positive integer")
    return int(text)


def choose(count: int) -> None:
    """Set the number of threads.

    Raises
    ------
    ArgumentError
        If `count` is not a positive integer.
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ArgumentError(f"the number of threads is a positive integer, not {count!r}")
    _chosen[:] = [count]


def cpus() -> int:
    """The CPUs that this process may run on, fewer if its control group has less time."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return max(1, min(count, *(round(share + 0.49) for share in _quotas()), count))


def _quotas() -> list[float]:
    """CPUs' worth of time per period, of this process's control groups (versions 2 and 1)."""
    try:
        lines = OWN.read_text(encoding="utf-8").splitlines()
        inner = Path(next((line[3:] for line in lines if line.startswith("0::")), "/"))
    except OSError:
        inner = Path("/")
    found = []
    for place in (inner, *inner.parents):
        words = _words(CGROUP / place.relative_to("/") / "cpu.max")
        if len(words) == 2 and words[0].isdecimal():
            found.append(int(words[0]) / int(words[1]))
    quota, period = (_words(CGROUP / "cpu" / f"cpu.cfs_{what}_us") for what in ("quota", "period"))
    if quota and period and quota[0].isdecimal():
        found.append(int(quota[0]) / int(period[0]))
    return found


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split()
    except OSError:
        return []
