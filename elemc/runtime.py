"""The call path in Python: look at the arrays, bind them to a kernel, run it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from .build import FFI, runtime_function
from .compiler import Compiled
from .errors import DomainError
from .formula import formula
from .graph import Apply, source_of
from .maps import Instruction, slice_start
from .ops_base import FAULTS
from .specialize import Given, Line
from .values import layout_of

UNITS = 16  # of work in a nanosecond

LINE_BYTES = 1024  # of a line that is worth going past the caches; as in callable.c

LARGE_C = "int64_t elemc_large(void)"
THREADS_C = "int elemc_threads(double nanoseconds)"
RUN_C = ("int elemc_run(intptr_t kernel, int64_t phase, int64_t length, double nanoseconds, "
         "int threads, intptr_t *p, int64_t *s, int64_t *n, intptr_t *w, int64_t buffers)")


def given(array: np.ndarray) -> Given:
    """What a kernel may depend on of one array."""
    native = array.dtype.newbyteorder("=")
    storage = "native"
    if not array.dtype.isnative:
        storage = "swapped"
    elif not array.flags.aligned:
        storage = "unaligned"
    if native.kind in "iu":
        native = np.dtype(f"{native.kind}{native.itemsize}")
    return Given(native, storage, layout_of(array.shape, array.strides, array.itemsize))


def memory_order(ndim: int, perm: Sequence[int]) -> list[int]:
    """All dimensions of a new array from the outermost to the innermost; `perm` as in a layout."""
    return [*(d for d in range(ndim) if d not in perm), *perm]


def allocate(shape: Sequence[int], dtype: np.dtype, perm: Sequence[int], zero: bool) -> np.ndarray:
    """A new array whose dimensions of size other than 1 lie in memory as in `perm`."""
    order = memory_order(len(shape), perm)
    make = np.zeros if zero else np.empty
    array = make([shape[d] for d in order], dtype)
    return array.transpose(np.argsort(order)) if order != sorted(order) else array


def large_bytes() -> int:
    """Bytes from which on outputs outgrow the caches."""
    return int(runtime_function(LARGE_C)())


def outgrows_caches(lines: Sequence[Line], sizes: Sequence[int]) -> bool:
    """Whether outputs should go past the caches: they are large, and so are their lines."""
    total = sum(itemsize * math.prod(sizes[e] for e in every) for itemsize, _, every in lines)
    return total >= large_bytes() and all(
        itemsize * math.prod(sizes[e] for e in line) >= LINE_BYTES for itemsize, line, _ in lines)


def launch(compiled: Compiled, arrays: Sequence[np.ndarray], sizes: Sequence[int],
           program: Sequence[Instruction]) -> int:
    """Run a kernel over its operands, whose extents are `sizes`; gives its status."""
    bind = compiled.bindings
    pointers, strides = [], []
    for pointer in bind.pointers:
        array = arrays[pointer.operand]
        address = array.__array_interface__["data"][0]
        step = array.strides
        for dim, coef, extent in pointer.starts:
            start = 1 if extent is None else slice_start(program[extent], sizes)
            address += step[dim] * coef * start
        pointers.append(address)
        strides += [sum(step[d] * c for d, c in terms) for terms in pointer.strides]
    n = [math.prod(sizes[e] for e in what) if kind == "product"
         else slice_start(program[what], sizes) for kind, what in bind.sizes]
    return _run(compiled, pointers, strides, n)


def fail(status: int, function: Any) -> NoReturn:
    """Raise what a status other than 0 of a function's kernel means, and name the operation."""
    fault = next(fault for fault in FAULTS if status & fault.status)
    error = DomainError(f"{function.name}: {fault.message}")  # within an accumulator's combine
    for node in (n for closed in function._closed.values() for n in closed.graph.nodes):
        if isinstance(node, Apply) and node.op.raises is fault:
            error = DomainError(f"{function.name}: {fault.message.rstrip('.')}: {formula(node)}")
            error.locate(source_of(node))
    raise error


def _run(compiled: Compiled, pointers: list[int], strides: list[int], n: list[int]) -> int:
    bind = compiled.bindings
    work = [sum(units * math.prod(n[k] for k in places) for units, places in phase.work) / UNITS
            for phase in bind.phases]
    most = max((t for t, phase in zip(work, bind.phases, strict=True) if phase.axis is not None),
               default=0)
    threads = runtime_function(THREADS_C)(most)
    buffers: list[np.ndarray] = []  # those of thread 0, then those of thread 1, ...
    for k in range(threads * len(bind.buffers)):
        places, itemsize, shared = bind.buffers[k % len(bind.buffers)]
        length = max(1, math.prod(n[j] for j in places)) * itemsize
        again = shared and k >= len(bind.buffers)
        buffers.append(buffers[k % len(bind.buffers)] if again else np.empty(length, np.uint8))
    p = FFI.new("intptr_t[]", pointers or 1)
    s = FFI.new("int64_t[]", strides or 1)
    sizes = FFI.new("int64_t[]", n or 1)
    w = FFI.new("intptr_t[]", [b.__array_interface__["data"][0] for b in buffers] or 1)
    run, status = runtime_function(RUN_C), 0
    for number, (time, phase) in enumerate(zip(work, bind.phases, strict=True)):
        length = 1 if phase.axis is None else n[phase.axis]
        status |= run(compiled.kernel.address, number, length, time, threads, p, s, sizes, w,
                      len(bind.buffers))
    return status
