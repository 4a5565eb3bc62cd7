"""What gcc is told of distances between elements: it makes vectors of some, and of others gives up.

Of elements that lie a few apart, and at most as far as a vector is long, it loads whole vectors and
takes what it needs.  If it knows that they are further apart, it makes no vectors; if it does not
know, it gathers them.
"""

from __future__ import annotations

from collections.abc import Collection

from .accesses import runs_along
from .nest import Kernel, LaneLoop, Loop, Write, statements, values_of
from .values import Load, walk

NARROWEST = 32  # bytes of a vector, but on processors without AVX, of which no more is asked


def told(stride: int, given: str) -> str:
    """A distance in bytes where vectors are as long, `given` where they are not, in C."""
    return f"TOLD({stride}, {given})" if stride > NARROWEST else str(stride)


def taken_across(kernel: Kernel, laned: Collection[str]) -> set[tuple[int, str | int]]:
    """Operands, and axes of loops of which gcc makes vectors: none within, or it unrolls these.

    Loops that do not fold, and go along lines of memory, it makes vectors of instead; and of rows
    that are `laned`.
    """
    found = set[tuple[int, str | int]]()
    for loop in statements([s for phase in kernel.phases for s in phase.body]):
        if isinstance(loop, Loop) and loop.kind not in ("turned", "abreast"):
            within = [s for s in statements(loop.body) if isinstance(s, (Loop, LaneLoop))]
            lanes = any(isinstance(s, LaneLoop) and s.axis in laned for s in within)
            folds = any(isinstance(s, LaneLoop) or not s.independent for s in within)
            if not lanes and (folds or not any(_goes_along(s, kernel) for s in within)):
                found |= {(v.operand, loop.axis) for v in _places(loop)}
    return found


def _goes_along(loop: Loop | LaneLoop, kernel: Kernel) -> bool:
    """Whether all of a loop lies side by side, or is the same; complex numbers are vectors."""
    return all(
        not any(loop.axis in at.axes for at in v.access)
        or kernel.operands[v.operand].dtype.kind == "c"
        or runs_along(v.access, kernel.operands[v.operand].layout.perm, loop.axis)
        for v in _places(loop))


def _places(loop: Loop | LaneLoop) -> list[Load | Write]:
    """What a loop reads and writes."""
    inside = [*statements(loop.body)]
    values = walk(v for s in inside for v in values_of(s))
    return [v for v in (*values, *inside) if isinstance(v, (Load, Write))]
