"""elemc: the NumPy code under `elemc.compile`, and its gradient by `elemc.grad`."""

from functools import partial
from typing import Any

import numpy as np

import elemc

from ..workloads import Workload

VERSION = elemc.__version__


def set_threads(count: int) -> None:
    """Use `count` threads."""
    elemc.set_num_threads(count)


def prepare(work: Workload, operands: list[Any], outs: list[Any] | None,
            contract: bool = False) -> Any:
    """One compiled function for natural and given calls."""
    compiled = elemc.compile(work.numpy(np), contract=contract)
    if work.wrt:
        compiled = elemc.grad(compiled, work.wrt)
    if outs is None:
        return partial(compiled, *operands)
    return partial(compiled, *operands, out=outs[0] if len(outs) == 1 else tuple(outs))
