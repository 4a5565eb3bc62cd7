"""elemc on one thread, in a run on several; of calls that take longer than to change the number."""

from typing import Any

import numpy as np

import elemc

from ..workloads import Workload
from . import elemc_

VERSION = elemc_.VERSION
LEAST = 4 * 10**6  # elements


def set_threads(count: int) -> None:
    """Others' count stays as it is."""


def prepare(work: Workload, operands: list[Any], outs: list[Any] | None) -> Any:
    """A call that goes back to as many threads as there were, which takes 15 us."""
    several = elemc.get_num_threads()
    if several == 1 or max(np.size(a) for a in operands) < LEAST:
        return None
    call = elemc_.prepare(work, operands, outs)

    def alone() -> Any:
        elemc.set_num_threads(1)
        try:
            return call()
        finally:
            elemc.set_num_threads(several)

    return alone
