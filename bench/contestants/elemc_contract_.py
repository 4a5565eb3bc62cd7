"""elemc under `contract=True`: with fused multiply-adds, which peers have that contract."""

from typing import Any

from ..workloads import Workload
from . import elemc_

VERSION, set_threads = elemc_.VERSION, elemc_.set_threads


def prepare(work: Workload, operands: list[Any], outs: list[Any] | None) -> Any:
    """As elemc, but for the option."""
    return elemc_.prepare(work, operands, outs, contract=True)
