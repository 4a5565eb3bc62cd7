"""Large kernels, cut into parts, each for a compiler of its own.

A compiler works in one thread, and the phases of a kernel know nothing of each other.  A part is
the kernel's C without the phases of others; the first part calls the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .templating import environment

LEAST = 60  # lines of a part: to compile as many takes as long as to start a compiler
UNROLLED = 8  # lines that a loop is worth, beside its own, which gcc unrolls for several rows

# as kernel.c.j2 lays them out
PHASE = re.compile(r"^  if \(phase == (\d+)\) \{\n.*?^  \}\n", re.MULTILINE | re.DOTALL)


def parts_of(source: str, entry: str, most: int) -> list[str]:
    """The C of at most `most` parts of a kernel; none if it is too small to be cut.

    Parameters
    ----------
    source, entry : str
        Its C, and the name of its function.
    most : int
        How many compilers there may be.
    """
    lines = {int(m[1]): m[0].count("\n") + UNROLLED * m[0].count("UNROLL_8 for")
             for m in PHASE.finditer(source)}
    count = min(most, len(lines), sum(lines.values()) // LEAST)
    if count < 2:
        return []
    parts: list[list[int]] = [[] for _ in range(count)]
    for phase in sorted(lines, key=lambda p: (-lines[p], p)):  # the largest first
        min(parts, key=lambda part: sum(lines[p] for p in part)).append(phase)
    takes = source.partition(f"\nint {entry}(")[2].partition(")\n{")[0]  # its parameters
    part_c = environment().get_template("part.c.j2")
    return [part_c.render(
        entry=entry, takes=takes, names=re.findall(r"\w+(?=,|$)", takes), number=number,
        others=[sorted(p) for p in parts[1:]], source=_only(own, source),
    ) for number, own in enumerate(parts)]


def _only(own: Sequence[int], source: str) -> str:
    """The C without the phases of others."""
    return PHASE.sub(lambda phase: phase[0] if int(phase[1]) in own else "", source)
