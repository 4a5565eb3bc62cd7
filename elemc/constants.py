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
MEASURE_ASKING_C = "int64_t elemc_measure_asking(int64_t loop)"
MEASURE_ROWS_C = "int64_t elemc_measure_rows(int64_t way)"
MEASURE_STORES_C = "int64_t elemc_measure_stores(void)"
MEASURE_DIVISION_C = "double elemc_measure_division(void)"
TYPICAL = 0.45  # the pace measured on the machines that the estimates of work are from
# Multiplications in whose time a vector is divided, from which on what replaces a division, a dozen
# instructions, is faster: Zen 5 takes 3, an older Xeon 6 to 9.6, newer ones of Intel more.
SLOW = 10


# How kernels ask for what they will read: not at all, where the processor foresees it better; into
# the first or the second cache; or into that from eight pages in turns.
UNASKED, FIRST, SECOND, IN_TURNS = 0, 1, 2, 8
# Loops of runtime.c, of which is measured how they should; the last one stores through the caches.
SUMS, PRODUCTS, DOUBLES, THROUGH = 0, 1, 2, 3


class Constants(NamedTuple):
    """What is measured of a machine.

    Attributes
    ----------
    pace : float
        How much longer work takes than estimated.
    asks : int
        How memory is asked for what is read, as where two arrays are: 0, 1, 2 or 8, as above.
    sum_asks : int
        And where one is, for nothing but a sum.
    map_asks : int
        And where one is, for what outgrows the caches.
    sum_rows : int
        How many rows of one array are summed at once, side by side: 4 if that is faster; else 1.
    through : int
        1 if outputs that outgrow the caches are written sooner through them; 0: past them.
    divides : int
        1 if a vector is divided sooner than multiplied and corrected, as `quotients` says; else 0.
    """

    pace: float = 1.0
    asks: int = FIRST
    sum_asks: int = FIRST
    map_asks: int = FIRST
    sum_rows: int = 1
    through: int = 0
    divides: int = 1

    @property
    def flags(self) -> tuple[str, ...]:
        """What the compiler of a kernel is told."""
        return (f"-DASK={self.asks}", f"-DASK_SUM={self.sum_asks}", f"-DASK_MAP={self.map_asks}",
                f"-DSUM_ROWS={self.sum_rows}", f"-DTHROUGH={self.through}",
                f"-DDIVIDES={self.divides}")


def constants_of(identity: str, function: Callable[[str], Any]) -> Constants:
    """Those of this machine for a compiler; `function` finds those of the runtime."""
    key = key_of(identity)
    known = cache_dirs.note(key)
    if known is None:
        pace = function(MEASURE_PACE_C)() / TYPICAL
        through = function(MEASURE_STORES_C)()
        sums, products, doubles = map(function(MEASURE_ASKING_C), (
            SUMS, PRODUCTS, THROUGH if through > 0 else DOUBLES))
        rows = function(MEASURE_ROWS_C)(sums)
        if not pace or min(sums, products, doubles, rows, through) < 0:
            return Constants()  # there was no memory; another process will know
        if sums == UNASKED and products == FIRST:
            products = UNASKED  # nothing was gained by asking, and chosen ones lose by it
        pace = min(max(pace, 1 / 4), 4)  # the machine may be busy with other things
        divides = int(function(MEASURE_DIVISION_C)() < SLOW)
        known = cache_dirs.note(key)  # of the first of several processes that measure at once
        if known is None:
            known = Constants(pace, products, sums, doubles, rows, through, divides)._asdict()
            cache_dirs.save_note(key, known)
    return Constants(**known)


def key_of(identity: str) -> str:
    """Where they are kept."""
    return cache_dirs.key_of("machine", *Constants._fields, identity)
