"""What a user may set, and what elemc found on this machine."""

from __future__ import annotations

import os
import platform
import shlex
import sys

import numpy as np

from .build import FFI, KEEP_C, USE_THREADS_C, machine_constants, runtime_function
from .cache import cache_dir, entries
from .constants import FIRST, IN_TURNS, SECOND, UNASKED, Constants
from .errors import ArgumentError, CompileError
from .threads import choose, forget, number_of_threads
from .toolchain import fallback, find_toolchain

MEMORY_C = "void elemc_memory(int64_t *facts)"


def get_num_threads() -> int:
    """How many threads a call uses at most; from the start, one per CPU of this process.

    The CPUs are those that affinity and control groups leave to this process, no more than
    OMP_NUM_THREADS; ELEMC_NUM_THREADS overrules them.  In its block so does
    `threadpoolctl.threadpool_limits`, if a kernel was made or loaded after threadpoolctl was
    imported.  Results do not depend on it.
    """
    return number_of_threads()


def set_num_threads(count: int | None) -> None:
    """Set how many threads a call may use; small calls use fewer.  None: as many as at the start.

    Raises
    ------
    ArgumentError
        If `count` is neither None nor a positive integer.
    """
    if count is None:
        forget()
    else:
        choose(count)
    if find_toolchain() is not None:
        runtime_function(USE_THREADS_C)(number_of_threads())


def get_recycling() -> tuple[int, int]:
    """Bytes of freed outputs that are kept for new ones now, and the most that may be."""
    if find_toolchain() is None:
        return 0, 0
    facts = FFI.new("int64_t[4]")
    runtime_function(MEMORY_C)(facts)
    return facts[0], facts[1]


def set_recycling(most: int) -> None:
    """Keep at most so many bytes of freed outputs for new ones; 0 keeps none.

    New memory is dear: the system has to clear it, page by page, which takes longer than most
    kernels do.  So the memory of large outputs (1 MiB and more) is kept when they die.  All but
    the latest 64 MiB of it is marked so that the system takes it when memory is short.  From the
    start the most is an eighth of the machine's memory, or ELEMC_RECYCLE (in MiB).

    Raises
    ------
    ArgumentError
        If `most` is not a non-negative integer.
    """
    if not isinstance(most, int) or isinstance(most, bool) or most < 0:
        raise ArgumentError(f"the bytes kept are a non-negative integer, not {most!r}")
    if find_toolchain() is not None:
        runtime_function(KEEP_C)(most)


def config() -> dict[str, str]:
    """Compiler, flags, vector math, threads, cache and versions, as text."""
    try:
        tool = find_toolchain()
        problem = "none found"
    except CompileError as error:
        tool, problem = None, str(error)
    kept, most = get_recycling()
    machine = machine_constants(tool) if tool else Constants()
    ways = {UNASKED: "unasked", FIRST: "ahead", SECOND: "ahead to the second cache",
            IN_TURNS: "from 8 pages in turns"}
    held = entries()
    size = sum(e.size for e in held)
    return {
        "compiler": shlex.join(tool.command) if tool else problem,
        "version": tool.version if tool else "-",
        "flags": shlex.join([*tool.flags, *machine.flags]) if tool else "-",
        "vector math": "libmvec" if tool and tool.simd else "scalar",
        "without compiler": fallback(),
        "threads": str(get_num_threads()),
        "pace": f"work takes {machine.pace:.2f} of its estimate" if tool else "-",
        "memory": f"read {ways[machine.asks]}, for sums {ways[machine.sum_asks]}" + (
            f", {machine.sum_rows} rows at once" if machine.sum_rows > 1 else "")
            + f", what outgrows the caches {ways[machine.map_asks]}"
            f", written {'through' if machine.through else 'past'} them",
        "divisions": "quick" if machine.divides else "slow" if tool else "-",
        "recycled memory": f"{kept / 2**20:.1f} of at most {most / 2**20:.0f} MiB",
        "cache": f"{cache_dir()} ({len(held)} entries, {size / 2**20:.1f} MiB)",
        "python": f"{sys.version.split()[0]} on {platform.platform()}",
        "numpy": np.__version__,
        "cpus": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity")
                    else os.cpu_count()),
    }


def show_config() -> None:
    """Print what elemc found on this machine, and what it uses."""
    found = config()
    width = max(map(len, found))
    for name, text in found.items():
        print(f"{name:{width}}  {text}")
