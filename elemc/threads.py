"""How many threads a call may use: what the user says, or as many as this process has CPUs."""

from __future__ import annotations

import operator
import os

from .errors import ArgumentError

OWN = "/proc/self/cgroup"
CGROUP = "/sys/fs/cgroup"

_chosen: list[int] = []  # the last word of `choose`


def number_of_threads() -> int:
    """What was chosen; else ELEMC_NUM_THREADS; else the CPUs that this process may use.

    Of these no more than OMP_NUM_THREADS says, by which dask, joblib and batch systems tell the
    processes that they start side by side how many threads are meant for each.

    Raises
    ------
    ArgumentError
        If ELEMC_NUM_THREADS is not a positive integer.
    """
    return _chosen[-1] if _chosen else default_number()


def default_number() -> int:
    """The number where none is chosen; errors as in `number_of_threads`."""
    text = os.environ.get("ELEMC_NUM_THREADS")
    if not text:
        outer = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
        return min(cpus(), int(outer)) if outer.isdecimal() and int(outer) else cpus()
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
    if not hasattr(count, "__index__") or isinstance(count, bool) or operator.index(count) < 1:
        raise ArgumentError(f"the number of threads is a positive integer, not {count!r}")
    _chosen[:] = [operator.index(count)]


def forget() -> None:
    """Choose no number."""
    _chosen.clear()


def cpus() -> int:
    """The CPUs that this process may run on, fewer if its control group has less time."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return max(1, min(count, *(round(share + 0.49) for share in _quotas()), count))


def _quotas() -> list[float]:
    """CPUs' worth of time per period, of this process's control groups (versions 2 and 1)."""
    lines = _text(OWN).splitlines()
    inner = next((line[3:] for line in lines if line.startswith("0::")), "/").strip("/")
    found = []
    while True:
        words = _text(os.path.join(CGROUP, inner, "cpu.max")).split()
        if len(words) == 2 and words[0].isdecimal():
            found.append(int(words[0]) / int(words[1]))
        if not inner:
            break
        inner = os.path.dirname(inner)
    quota, period = (_text(os.path.join(CGROUP, "cpu", f"cpu.cfs_{what}_us")).strip()
                     for what in ("quota", "period"))
    if period and quota.isdecimal():
        found.append(int(quota) / int(period))
    return found


def _text(path: str) -> str:
    """The text of a file, nothing if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""
