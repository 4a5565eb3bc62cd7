"""elemc on one thread, in a run on several."""

from typing import Any

import elemc

from ..workloads import Workload
from . import elemc_

VERSION = elemc_.VERSION


def set_threads(count: int) -> None:
    """Others' count stays as it is."""


def prepare(work: Workload, operands: list[Any], outs: list[Any] | None) -> Any:
    """A call that goes back to as many threads as there were."""
    call, several = elemc_.prepare(work, operands, outs), elemc.get_num_threads()

    def alone() -> Any:
        elemc.set_num_threads(1)
        try:
            return call()
        finally:
            elemc.set_num_threads(several)

    return alone
