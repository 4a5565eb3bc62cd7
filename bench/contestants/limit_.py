"""The limit that memory sets: a C loop that reads and writes what the workload must, and no more.

Each full-sized operand is read once and each full-sized output written once, with plain stores.
It computes nothing, so that it has no answer to be checked.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

import numpy as np

from .. import native
from ..workloads import Workload
from .plain_c_ import THREADS, filling, set_threads

__all__ = ["VERSION", "prepare", "set_threads"]

VERSION = "plain stores"
LEAST = 4096  # bytes of a stream


@cache
def probes() -> Any:
    """The C function."""
    return native.library((native.HERE / "probes.c").read_text(), THREADS[0])


def prepare(
    work: Workload, operands: list[Any], outs: list[Any] | None, streaming: bool = False
) -> Any:
    """Calls on the operands' own memory, into `outs` or into fresh pages."""
    size = max(a.nbytes for a in operands)
    if size < LEAST:
        return None
    read = [a for a in operands if a.nbytes == size]
    specs = [((size,), np.dtype("u1")) for shape, dtype in work.specs(operands)
             if math.prod(shape) * dtype.itemsize == size]
    probe = partial(probes().probe, size, len(read), len(specs), streaming)
    written = None if outs is None else [out for out in outs if out.nbytes == size]
    return filling(probe, read, written, specs)
