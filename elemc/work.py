"""How much work the phases of a kernel are: what decides on threads and on releasing the GIL.

An estimate in nanoseconds of one thread, good to a factor of two: bytes that come from memory and
go there, and operations on whole vectors of them.  Callers multiply it by the pace of their machine
(`build.TYPICAL`).
"""

from __future__ import annotations

from collections.abc import Sequence

from .cost import cost
from .nest import If, Kernel, Loop, Parted, Phase, Statement, Write, bodies, values_of
from .values import Load, walk

UNITS = 16  # of work in a nanosecond, as in callable.c
UNITS_PER_BYTE = 0.4  # 40 GB/s
UNITS_PER_ADDITION = 0.08  # per byte of its result: 25 additions of float64 a nanosecond
# loops over pieces of an axis whose own loop is within, or, mirrored, around
CUT = ("strip", "parts", "chunks", "tiles", "mirrored", "turning")


def work_of(kernel: Kernel, phase: Phase) -> list[tuple[int, tuple[str, ...]]]:
    """Units of work per turn of the loops over some axes, and those axes; the work is the sum."""
    found: dict[tuple[str, ...], float] = {}
    _add(kernel, phase.body, (), found)
    return [(max(1, round(units)), axes) for axes, units in found.items()]


def _add(kernel: Kernel, body: Sequence[Statement], around: tuple[str, ...],
         found: dict[tuple[str, ...], float], share: float = 1) -> None:
    """Add the work of statements inside of the loops over `around`, done this share of the times.

    Of sides of a choice that stand beside each other, one is taken.
    """
    sides = sum(isinstance(s, If) and not s.rest for s in body)
    for statement in body:
        axis = getattr(statement, "axis", None)
        cut = isinstance(statement, Loop) and statement.kind in CUT
        inner = around if axis is None or axis in around or cut else (*around, axis)
        if units := _units(kernel, statement):
            found[around] = found.get(around, 0) + units * share
        taken = share / sides if isinstance(statement, If) and not statement.rest else share
        for nested in bodies(statement)[isinstance(statement, Parted):]:  # ends are short
            _add(kernel, nested, inner, found, taken)


def _units(kernel: Kernel, statement: Statement) -> float:
    """The work of one statement, once, without those inside of it."""
    values = list(walk(values_of(statement)))
    loads = sum(v.dtype.itemsize for v in values if isinstance(v, Load))
    stores = 0
    if isinstance(statement, Write):  # a line is fetched before it is written
        stores = 2 * kernel.operands[statement.operand].dtype.itemsize
    widest = max((v.dtype.itemsize for v in values), default=0)
    return (loads + stores) * UNITS_PER_BYTE + cost(values) * widest * UNITS_PER_ADDITION
