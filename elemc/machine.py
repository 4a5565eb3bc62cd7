"""What one thread of this machine can do at most: bandwidths, vector peaks, cache sizes.

They are measured by machine.c when they are first asked for, which takes less than a second, and
kept beside the compiled kernels.  `elemc info --machine` prints them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from . import build, toolchain
from .cache import key_of, note, save_note

FORMAT = "1"  # of what is noted; part of the key
SOURCE = Path(__file__).with_name("machine.c")
SYSFS = Path("/sys/devices/system/cpu/cpu0/cache")
TYPICAL = (32 << 10, 1 << 20, 16 << 20)  # bytes of caches where nothing says how large they are
MOST, LEAST = 256 << 20, 64 << 20  # bytes that stand for memory
PAGE = 4096
SECONDS = 0.01  # per measurement

READ, COPY, TRIAD, STREAMING_STORE, STREAMING_COPY = range(5)  # as in machine.c


@dataclass(frozen=True)
class Level:
    """Bandwidths of data that lie in one level of the memory, in bytes per second.

    What is written counts once: that a cache may read it first is the machine's business.

    Attributes
    ----------
    name : str
        "L1", "L2", ... and "memory".
    size : int
        Bytes that fit; of "memory", those that were used to measure it.
    read : float
        Of `sum += a[i]`.
    copy : float
        Of `a[i] = b[i]`.
    triad : float
        Of `a[i] = b[i] + 2 * c[i]`.
    """

    name: str
    size: int
    read: float
    copy: float
    triad: float


@dataclass(frozen=True)
class Machine:
    """Measured constants of one thread of this machine.

    Attributes
    ----------
    levels : tuple of Level
        From the nearest cache to memory.
    streaming_store : float
        Bytes per second of stores past the caches, to memory.
    streaming_copy : float
        Bytes per second, read and written, of a copy in memory with such stores.
    peak_float32, peak_float64 : float
        Additions and multiplications per second, as many of the one as of the other, in vectors
        as wide as the compiler's flags allow; each of them counts one, for kernels do not
        contract them unless told to.
    """

    levels: tuple[Level, ...]
    streaming_store: float
    streaming_copy: float
    peak_float32: float
    peak_float64: float

    def level(self, size: float) -> Level:
        """The level that holds `size` bytes which are used again and again.

        Of a cache that is three quarters: it holds other things, too.
        """
        return next((level for level in self.levels[:-1] if size <= 0.75 * level.size),
                    self.levels[-1])

    def bandwidth(self, level: Level, written: float) -> float:
        """Bytes per second in `level` where this share of them is written.

        That is what was measured of the likest loop; in memory, with streaming stores if these
        are faster.
        """
        if written < 1 / 6:
            return level.read
        found = level.triad if written < 5 / 12 else level.copy
        return max(found, self.streaming_copy) if level == self.levels[-1] else found

    def __str__(self) -> str:
        rows = [["GB/s, one thread", "", "read", "copy", "triad"]]
        rows += [[level.name, size_text(level.size),
                  *(f"{v / 1e9:.1f}" for v in (level.read, level.copy, level.triad))]
                 for level in self.levels]
        return "\n".join([
            *aligned(rows),
            f"streaming stores: {self.streaming_store / 1e9:.1f} GB/s, with what they copy "
            f"{self.streaming_copy / 1e9:.1f}",
            f"additions and multiplications: {self.peak_float32 / 1e9:.0f} Gflop/s in float32, "
            f"{self.peak_float64 / 1e9:.0f} in float64"])


@cache
def this_machine() -> Machine:
    """The constants of this machine, measured when they are not in the cache of kernels.

    Raises
    ------
    CompileError
        If there is no C compiler.
    """
    sizes = cache_sizes()
    tool = toolchain.find_toolchain()  # its flags decide how fast the loops are that measure
    key = key_of("machine", FORMAT, tool.identity if tool else toolchain.machine(),
                 *map(str, sizes))
    held = note(key)
    if held is None:
        measured = _measure(sizes)
        save_note(key, asdict(measured))
        return measured
    return Machine(**{**held, "levels": tuple(Level(**level) for level in held["levels"])})


def cache_sizes() -> tuple[int, ...]:
    """Bytes of the data caches of a processor, the nearest first."""
    found = {}
    try:
        for index in SYSFS.glob("index*"):
            kind, size, level = ((index / name).read_text().strip()
                                 for name in ("type", "size", "level"))
            if kind in ("Data", "Unified"):
                units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
                found[int(level)] = int(size.rstrip("KMG")) * units.get(size[-1], 1)
    except (OSError, ValueError):
        pass
    return tuple(size for _, size in sorted(found.items())) or TYPICAL


def _measure(sizes: Sequence[int]) -> Machine:
    import ctypes

    import numpy as np

    path = build.compile_shared(SOURCE.read_text(encoding="utf-8"), "machine")
    library = ctypes.CDLL(str(path))
    bandwidth, peaks = library.machine_bandwidth, (
        library.machine_peak_float32, library.machine_peak_float64)
    bandwidth.argtypes = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
    for function in (bandwidth, *peaks):
        function.restype = ctypes.c_double
    for function in peaks:
        function.argtypes = (ctypes.c_double,)
    large = min(MOST, max(LEAST, 4 * sizes[-1]))
    memory = np.zeros(large + PAGE, np.uint8)  # NumPy's, in as large pages as its arrays have
    memory[:] = 1
    start = -(-memory.ctypes.data // PAGE) * PAGE
    peak32, peak64 = (peak(SECONDS) for peak in peaks)  # first: they warm the processor up
    levels = [Level(f"L{k}", size, *(bandwidth(kind, start, size // 2, SECONDS)
                                     for kind in (READ, COPY, TRIAD)))
              for k, size in enumerate(sizes, 1)]
    of_memory = [bandwidth(kind, start, large, SECONDS) for kind in range(5)]
    levels.append(Level("memory", large, *of_memory[:3]))
    return Machine(tuple(levels), of_memory[STREAMING_STORE], of_memory[STREAMING_COPY], peak32,
                   peak64)


def size_text(size: float) -> str:
    """So many bytes, for people: in the largest unit of which it is at least one."""
    power = min(4, max(0, int(math.log2(max(1, size)) // 10)))
    unit = ("B", "KiB", "MiB", "GiB", "TiB")[power]
    return f"{size / 2 ** (10 * power):.{1 if power else 0}f} {unit}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table: the first column to the left, all others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) if k else cell.ljust(width) for k, (cell, width) in
                      enumerate(zip(row, widths, strict=True))).rstrip() for row in rows]
