"""What a user may set, and what elemc found on this machine."""

from __future__ import annotations

import os
import platform
import sys

import numpy as np

from .cache import cache_dir, entries
from .errors import ArgumentError, CompileError
from .toolchain import fallback, find_toolchain


def get_num_threads() -> int:
    """How many threads a call uses: always 1 in this version."""
    return 1


def set_num_threads(count: int) -> None:
    """Set how many threads a call may use.

    This version computes on one thread; a larger number is a limit that is not reached.

    Raises
    ------
    ArgumentError
        If `count` is not a positive integer.
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ArgumentError(f"the number of threads is a positive integer, not {count!r}")


def config() -> dict[str, str]:
    """Compiler, flags, vector math, threads, cache and versions, as text."""
    try:
        tool = find_toolchain()
        problem = "none found"
    except CompileError as error:
        tool, problem = None, str(error)
    held = entries()
    size = sum(e.size for e in held)
    return {
        "compiler": " ".join(tool.command) if tool else problem,
        "version": tool.version if tool else "-",
        "flags": " ".join(tool.flags) if tool else "-",
        "vector math": "libmvec" if tool and tool.simd else "scalar",
        "without compiler": fallback(),
        "threads": str(get_num_threads()),
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
