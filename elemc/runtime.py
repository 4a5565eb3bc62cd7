"""The call path in Python: look at the arrays, bind them to a kernel, run it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NoReturn

import numpy as np

from .build import FFI, PACE_C, runtime_function
from .compiler import Compiled
from .errors import DomainError
from .formula import formula
from .graph import Apply, source_of
from .layout import layout_of
from .maps import Instruction, slice_start
from .ops_base import FAULTS
from .specialize import Across, Given, Line
from .work import UNITS

Phase = Callable[[], int]

_function = cache(runtime_function)  # the first one that is loaded stays

LARGE_C = "int64_t elemc_large(void)"
SECOND_C = "int64_t elemc_second(void)"
THREADS_C = "int elemc_threads(double nanoseconds)"
RUN_C = ("int elemc_run(intptr_t kernel, int64_t phase, int64_t length, int64_t least, "
         "double nanoseconds, int threads, intptr_t *p, int64_t *s, int64_t *n, intptr_t *w, "
         "int64_t buffers)")


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
    """Bytes from which on arrays outgrow the caches."""
    return int(_function(LARGE_C)())


def second_bytes() -> int:
    """Bytes that the second cache holds."""
    return int(_function(SECOND_C)())


def outgrows_caches(lines: Sequence[Line], sizes: Sequence[int]) -> bool:
    """Whether outputs should go past the caches: they are large, and so are their lines."""
    total = sum(itemsize * math.prod(sizes[e] for e in every) for itemsize, _, _, every in lines)
    return total >= large_bytes() and all(
        itemsize * math.prod(sizes[e] for e in line) >= least for itemsize, least, line, _ in lines)


def crosses(across: Sequence[Across], arrays: Sequence[np.ndarray], sizes: Sequence[int]) -> bool:
    """Whether lines that are read across are more than the first cache holds.

    Of lines whose distance is a multiple of a power of 2 it holds only what meets in so many of its
    sets, of 8 lines each.
    """
    for operand, dim, held, extents in across:
        step = abs(arrays[operand].strides[dim])
        apart = max(64, step & -step)
        if math.prod(sizes[e] for e in extents) > max(8, held // apart):
            return True
    return False


def size_of(kind: str, what: Any, sizes: Sequence[int], program: Sequence[Instruction]) -> int:
    """The value of an entry of `Bindings.sizes`."""
    if kind == "start":
        return slice_start(program[what], sizes)
    unit, extents = (1, what) if kind == "product" else what
    size: int = math.prod(sizes[e] for e in extents)
    return min(size, unit) if kind == "most" else -(-size // unit)


def launch(compiled: Compiled, arrays: Sequence[np.ndarray], sizes: Sequence[int],
           program: Sequence[Instruction]) -> int:
    """Run a kernel over its operands, whose extents are `sizes`; gives its status."""
    status = 0
    for phase in bind(compiled, arrays, sizes, program):
        status |= phase()
    return status


def bind(compiled: Compiled, arrays: Sequence[np.ndarray], sizes: Sequence[int],
         program: Sequence[Instruction], most_threads: int | None = None) -> list[Phase]:
    """The phases of a kernel over its operands, to be called one after the other."""
    bindings = compiled.bindings
    pointers, strides = [], []
    for pointer in bindings.pointers:
        array = arrays[pointer.operand]
        address = array.__array_interface__["data"][0]
        step = array.strides
        for dim, coef, extent in pointer.starts:
            start = 1 if extent is None else slice_start(program[extent], sizes)
            address += step[dim] * coef * start
        pointers.append(address)
        strides += [sum(step[d] * c for d, c in terms) for terms in pointer.strides]
    n = [size_of(kind, what, sizes, program) for kind, what in bindings.sizes]
    unit = _function(PACE_C)() / UNITS
    work = [sum(units * math.prod(n[k] for k in places) for units, places in phase.work) * unit
            for phase in bindings.phases]
    pieces = [t for t, phase in zip(work, bindings.phases, strict=True)
              if phase.axis is not None and n[phase.axis] > 1]
    threads = most_threads or _function(THREADS_C)(max(pieces, default=0))
    buffers = _buffers(compiled, n, threads)
    places = [b.__array_interface__["data"][0] for b in buffers]
    words = [FFI.new(kind, values or 1) for kind, values in (
        ("intptr_t[]", pointers), ("int64_t[]", strides), ("int64_t[]", n), ("intptr_t[]", places))]
    run = _function(RUN_C)

    def phase(number: int, length: int, keep: Any = (arrays, buffers)) -> int:
        status: int = run(compiled.kernel.address, number, length, bindings.phases[number].least,
                          work[number], threads, *words, len(bindings.buffers))
        return status

    lengths = [1 if phase.axis is None else n[phase.axis] for phase in bindings.phases]
    return [partial(phase, number, length) for number, length in enumerate(lengths)]


def _buffers(compiled: Compiled, n: Sequence[int], threads: int) -> list[np.ndarray]:
    """The buffers of thread 0, then those of thread 1, ..."""
    found: list[np.ndarray] = []
    for thread in range(threads):
        for k, (places, itemsize, shared) in enumerate(compiled.bindings.buffers):
            length = max(1, math.prod(n[j] for j in places)) * itemsize
            found.append(found[k] if shared and thread else np.empty(length, np.uint8))
    return found


def fail(status: int, function: Any) -> NoReturn:
    """Raise what a status other than 0 of a function's kernel means, and name the operations."""
    fault = next(fault for fault in FAULTS if status & fault.status)
    found = {formula(node): node for closed in function.closings() for node in closed.graph.nodes
             if isinstance(node, Apply) and node.op.raises is fault}
    if not found:  # it is within an accumulator's combine
        raise DomainError(f"{function.name}: {fault.message}")
    error = DomainError(f"{function.name}: {fault.message.rstrip('.')}: {' or '.join(found)}")
    error.locate(source_of(next(iter(found.values()))))
    raise error
