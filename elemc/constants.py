"""Constants of a machine: measured once, by the runtime's C, and kept beside the kernels.

Kernels are told of them by macros, so that their C is the same everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from . import cache_dirs

if TYPE_CHECKING:
    from collections.abc import Callable

# functions of runtime.c
MEASURE_PACE_C = "double elemc_measure_pace(void)"
MEASURE_PAGES_C = "int64_t elemc_measure_pages(int64_t streams)"
MEASURE_ROWS_C = "int64_t elemc_measure_rows(int64_t pages)"
MEASURE_DIVISION_C = "double elemc_measure_division(void)"
TYPICAL = 0.45  # the pace measured on the machines that the estimates of work are from
# Multiplications in whose time a vector is divided, from which on what replaces a division, a dozen
# instructions, is faster: Zen 5 takes 3, Intel's processors take 10 and more.
SLOW = 6


class Constants(NamedTuple):
    """What is measured of a machine.

    Attributes
    ----------
    pace : float
        How much longer work takes than estimated.
    pages : int
        From how many pages in turns memory is read, as where two arrays are.
    sum_pages : int
        And where one is, for nothing but a sum.
    sum_rows : int
        How many rows of one array are summed at once, side by side: 4 if that is faster; else 1.
    divides : int
        1 if a vector is divided sooner than multiplied and corrected, as `quotients` says; else 0.
    """

    pace: float = 1.0
    pages: int = 1
    sum_pages: int = 1
    sum_rows: int = 1
    divides: int = 1

    @property
    def flags(self) -> tuple[str, ...]:
        """What the compiler of a kernel is told."""
        return (f"-DPAGES={self.pages}", f"-DSUM_PAGES={self.sum_pages}",
                f"-DSUM_ROWS={self.sum_rows}", f"-DDIVIDES={self.divides}")


def constants_of(identity: str, function: Callable[[str], Any]) -> Constants:
    """Those of this machine for a compiler; `function` finds those of the runtime."""
    key = key_of(identity)
    known = cache_dirs.note(key)
    if known is None:
        pace = function(MEASURE_PACE_C)() / TYPICAL
        pages, sum_pages = (function(MEASURE_PAGES_C)(streams) for streams in (2, 1))
        sum_rows = function(MEASURE_ROWS_C)(sum_pages)
        if not (pace and pages and sum_pages and sum_rows):
            return Constants()  # there was no memory; another process will know
        pace = min(max(pace, 1 / 4), 4)  # the machine may be busy with other things
        divides = int(function(MEASURE_DIVISION_C)() < SLOW)
        known = cache_dirs.note(key)  # of the first of several processes that measure at once
        if known is None:
            known = Constants(pace, pages, sum_pages, sum_rows, divides)._asdict()
            cache_dirs.save_note(key, known)
    return Constants(**known)


def key_of(identity: str) -> str:
    """Where they are kept."""
    return cache_dirs.key_of("machine", *Constants._fields, identity)
