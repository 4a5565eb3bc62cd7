"""C compiled for the benchmarks: what elemc is held against besides other packages.

It is compiled as a compiler person would, for this processor, with vectors as wide as it has, and
with -ffast-math, under which <math.h> hands loops to libmvec.  Calls go through cffi, which lets
go of Python's lock meanwhile.
"""

from __future__ import annotations

import math
import mmap
import platform
import re
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cffi import FFI

from elemc.toolchain import find_toolchain

HERE = Path(__file__).parent / "c"

X86 = platform.machine() in ("x86_64", "AMD64")
FLAGS = ("-std=gnu11", "-O3", "-ffast-math", "-fPIC",
         *(("-march=native", "-mprefer-vector-width=512") if X86 else ("-mcpu=native",)))

HUGE = 2**21  # bytes of a huge page

ffi = FFI()


def library(source: str, threads: int = 1, flags: Sequence[str] = ()) -> Any:
    """Compile C and load it.

    Its functions are those whose definitions begin with a line `void name(...)`; OpenMP's
    pragmas count where there are several threads.

    Raises
    ------
    RuntimeError
        If there is no compiler, or it refuses the source.
    """
    tool = find_toolchain()
    if tool is None:
        raise RuntimeError("the benchmarks' own loops need a C compiler")
    vector = ("-fveclib=libmvec",) if tool.family == "clang" else ()
    openmp = ("-fopenmp",) if threads > 1 else ()
    with tempfile.TemporaryDirectory(prefix="elemc-bench-") as directory:
        text, binary, shared = (str(Path(directory) / f"loops.{end}") for end in ("c", "o", "so"))
        Path(text).write_text(source)
        # Linked without -ffast-math, with which gcc makes denormals 0 in the whole process.
        for command in (
            [*tool.command, *FLAGS, *vector, *openmp, *flags, "-c", text, "-o", binary],
            [*tool.command, "-shared", *openmp, binary, "-o", shared, "-lm"],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{' '.join(command)}:\n{done.stderr}")
        private = FFI()
        private.cdef("".join(f"{line};\n" for line in re.findall(r"^void \w+\(.*\)$", source,
                                                                 re.MULTILINE)))
        return private.dlopen(shared)


def pointers(arrays: Iterable[np.ndarray]) -> Any:
    """Where the arrays' elements are, as a C function takes them."""
    return ffi.new("void *[]", [ffi.cast("void *", array.ctypes.data) for array in arrays])


def fresh(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """A new array in huge pages that nothing has touched, where it is large enough for them."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < HUGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return np.empty(shape, dtype)
    pages = mmap.mmap(-1, size + 2 * HUGE)
    pages.madvise(mmap.MADV_HUGEPAGE)
    start = -np.frombuffer(pages, "u1").ctypes.data % HUGE
    return np.ndarray(shape, dtype, pages, start)
