"""Which of several loops over a row asks the memory for the next one.

The first of them would wait for memory, and memory for the others.  So it is the loop that computes
most: what it asks for comes meanwhile, and all of them find their rows in the second cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from .cost import cost
from .nest import LaneLoop, Loop, Statement, statements, values_of
from .sharing import rows_of, runs_along
from .values import ASKED, Load, Specialized, walk


def ask_in_time(body: Sequence[Statement], around: str, spec: Specialized) -> None:
    """Let one loop in `body`, which is one turn over `around`, ask for what several read."""
    def lines(load: Load, axis: str) -> bool:
        """Whether a row is a line of memory, and the next one that of the next turn."""
        layout = spec.operands[load.operand].layout
        return layout.step > 0 and runs_along(load.access, layout.perm, axis) and (
            rows_of(load.access, layout)[0] == around)

    readers: dict[int, list[tuple[int, Loop | LaneLoop]]] = {}
    for row in body:
        if isinstance(row, (Loop, LaneLoop)) and spec.between(row.axis)[0] >= ASKED:
            values = walk(v for s in statements([row]) for v in values_of(s))
            for operand in dict.fromkeys(v.operand for v in values
                                         if isinstance(v, Load) and lines(v, row.axis)):
                readers.setdefault(operand, []).append((cost(values), row))
    for operand, several in readers.items():
        able = [(price, row) for price, row in several if _could_ask(row)]
        if len(several) > 1 and able:
            _, row = max(able, key=itemgetter(0))
            row.asks |= {operand}
            if isinstance(row, Loop):
                row.ahead = ""  # it asks by itself
                if row.kind == "serial" and not row.lines:
                    _cut(row)


def _could_ask(row: Loop | LaneLoop) -> bool:
    """Whether a loop goes forth in parts, or could."""
    return isinstance(row, LaneLoop) or row.kind == "strip" or (
        row.kind == "serial" and row.independent and not row.lined)


def _cut(row: Loop) -> None:
    """Let a loop go in strips, before each of which it asks for as much."""
    row.body = [Loop(row.axis, "lane", row.body, row.independent)]
    row.kind, row.length, row.independent = "strip", "STAGE", False
