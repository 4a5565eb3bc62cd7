"""float16 in blocks: processors convert vectors of it, but gcc 12 knows only single ones.

So a loop that reads or writes float16 goes in strips: what it reads is converted to an array of
floats first, by a function of the library, and what it writes is converted from one in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .blocks import by_blocks, lies_along, maps
from .cnames import fresh
from .layout import Operand
from .nest import (
    Assign,
    Blocks,
    Kernel,
    Local,
    Loop,
    Statement,
    Write,
    names_made,
    statements,
    values_of,
)
from .nest_leaves import Element
from .repeating import with_copies
from .values import LINED, Load, Op, Specialized, Value, walk

HALF = np.dtype(np.float16)


def convert_in_blocks(kernel: Kernel, spec: Specialized) -> None:
    """Let loops along lines of float16 go in strips between their conversions."""
    for phase in kernel.phases:
        taken = names_made(phase.body)
        bound = [s for item in statements(phase.body) if isinstance(item, (Loop, Blocks)) and (
                     item.at_once > 1 or isinstance(item, Loop) and item.lines)
                 for s in statements(item.body)]  # to two turns, or to a block that is streamed
        for body, loop in maps(phase.body):
            long = loop.kind == "lane" or phase.axis == loop.axis or (
                spec.between(loop.axis)[0] >= LINED)
            if long and loop not in bound and not (loop.lines or loop.asks):
                _convert(loop, body, kernel.operands, taken)


def _convert(loop: Loop, where: list[Statement], operands: Sequence[Operand], taken: set[str]
             ) -> None:
    """Let a loop go by blocks, if it reads or writes lines of float16."""
    def block(operand: int) -> Element:
        name = fresh(f"{operands[operand].name}_floats", taken)
        return Element(frozenset({loop.axis}), HALF, name, at=loop.axis)

    values = walk(v for s in loop.body for v in values_of(s))
    read: dict[Value, Element] = {
        v: block(v.operand) for v in values if isinstance(v, Load) and v.guard is None
        and loop.axis in v.axes and lies_along(v, loop.axis, HALF, operands)}
    writes = [s for s in loop.body if isinstance(s, Write) and lies_along(
        s, loop.axis, HALF, operands)]
    if not any(isinstance(v, Op) for v in values) and not writes:
        return  # what is only converted is stored at once
    before: list[Statement] = []
    for load, floats in read.items():
        before += [Local(floats.name, HALF, strip=True), _halves(loop, Assign(floats, load))]
    after: list[Statement] = []
    body: list[Statement] = []
    for original in loop.body:
        statement = with_copies(original, read)
        if original in writes and isinstance(statement, Write):
            result = block(statement.operand)
            before.append(Local(result.name, HALF, strip=True))
            body.append(Assign(result, statement.value, stored=True))
            after.append(_halves(loop, replace(statement, value=result)))
        else:
            body.append(statement)
    if before:
        inner = Loop(loop.axis, "lane", body, independent=True)
        at = where.index(loop)
        where[at:at + 1] = by_blocks(loop, [*before, inner, *after], "PIECE")


def _halves(loop: Loop, copy: Assign | Write) -> Loop:
    return Loop(loop.axis, "halves", [copy], independent=True)
