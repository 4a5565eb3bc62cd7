"""numba: the loops a user would write, constants in the operands' dtype.

On several threads they are compiled with `parallel=True`, which makes `prange` what it says; on one
it is `range`.  Sums may be reassociated (and only that), for otherwise LLVM leaves them scalar.
"""

from __future__ import annotations

import os
from typing import Any

import numba
import numpy as np

from ..workloads import Workload
from .numba_elementwise import ELEMENTWISE
from .numba_gradients import GRADIENTS
from .numba_reductions import REDUCTIONS

VERSION = numba.__version__
LOOPS = {**ELEMENTWISE, **REDUCTIONS, **GRADIENTS}


def set_threads(count: int) -> None:
    """Use `count` threads."""
    numba.set_num_threads(count)


def prepare(work: Workload, operands: list[Any], outs: list[Any] | None) -> Any:
    """Given calls fill the outputs; natural ones allocate them in Python first."""
    make = LOOPS.get(work.name)
    if make is None:
        return None
    threads = numba.get_num_threads()
    loop = numba.njit(
        fastmath=False if work.name in ELEMENTWISE else {"reassoc"}, parallel=threads > 1,
        cache="NUMBA_CACHE_DIR" in os.environ,
    )(make(operands[0].dtype.type, threads))
    if outs is not None:
        def call() -> list[Any]:
            loop(*operands, *outs)
            return outs
        return call
    specs = work.specs(operands)

    def natural() -> list[Any]:
        new = [np.empty(shape, dtype) for shape, dtype in specs]
        loop(*operands, *new)
        return new

    return natural
