"""Plain C: the loops in `bench/c`, -O3 -ffast-math, with libmvec; by OpenMP on several threads.

Natural calls fill arrays that were there before, for this is what the machine can do; of kept ones
each fills fresh huge pages.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from .. import native
from ..workloads import Workload

VERSION = "gcc -O3 -march=native -ffast-math"
SOURCES = ("common.c", "elementwise.c", "reductions.c", "gradients.c")
THREADS = [1]


def set_threads(count: int) -> None:
    """Use `count` threads."""
    THREADS[:] = [count]


@cache
def loops(type_: str) -> Any:
    """All workloads, for one type."""
    text = f"#define T {type_}\n" + "\n".join((native.HERE / s).read_text() for s in SOURCES)
    single = ["-fsingle-precision-constant"] if type_ == "float" else []
    return native.library(text, THREADS[0], single)


def prepare(work: Workload, operands: list[Any], outs: list[Any] | None) -> Any:
    """Calls that fill `outs`, or fresh pages."""
    library = loops("float" if operands[0].dtype == np.float32 else "double")
    function = getattr(library, work.name, None)
    if function is None:
        return None
    shape = operands[0].shape
    columns = shape[-1] if shape else 1
    call = partial(function, operands[0].size // columns, columns)
    return filling(call, operands, outs, work.specs(operands) if outs is None else [])


def filling(
    function: Callable[[Any], None], operands: list[Any], outs: list[Any] | None,
    specs: list[tuple[tuple[int, ...], np.dtype[Any]]],
) -> Any:
    """A call of a C function of pointers to operands and outputs: `outs`, or such new ones.

    Outputs too small for huge pages are not made anew.
    """
    if outs is None and all(math.prod(shape) * dtype.itemsize < native.HUGE
                            for shape, dtype in specs):
        outs = [np.empty(shape, dtype) for shape, dtype in specs]
    if outs is not None:
        places = native.pointers([*operands, *outs])

        def given() -> list[Any]:
            function(places)
            return outs

        return given

    def natural() -> list[Any]:
        new = [native.fresh(shape, dtype) for shape, dtype in specs]
        function(native.pointers([*operands, *new]))
        return new

    return natural
