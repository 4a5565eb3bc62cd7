"""Which of several loops over a row asks for the next one.

The first of them would wait for memory, and memory for the others.  So it is the loop that computes
most: what it asks for comes meanwhile, and all of them find their rows in the second cache.

What is in a cache, but not in the first, comes sooner, and asking for it is work like another: that
does a fold that reads least, if the first cache holds two rows, and no functions are called, which
take longer than the rows to come.  A fold that is alone does so if it is in the third, except on
machines that foresee what sums read (`FETCH_STREAM`).
"""

from __future__ import annotations

from collections.abc import Sequence

from .accesses import runs_along
from .cost import ALONE, HEAVY, HELD, calls, cost
from .nest import LaneLoop, Loop, Statement, statements, values_of
from .roots import Root
from .sharing import rows_of
from .values import ASKED, BACK, LINED, NARROW, Fold, Load, Specialized, Value, is_fold, walk

HELD_BYTES = 8192  # of a row, at most, of which the first cache holds this and the next one


def ask_in_time(body: Sequence[Statement], around: str, spec: Specialized) -> None:
    """Let one loop in `body`, which is one turn over `around`, ask for what several read."""
    def lines(load: Load, axis: str) -> bool:
        """Whether a row is a line of memory, and the next one that of the next turn."""
        layout = spec.operands[load.operand].layout
        return layout.step > 0 and runs_along(load.access, layout.perm, axis) and (
            rows_of(load.access, layout)[0] == around)

    rows = [s for s in body if isinstance(s, (Loop, LaneLoop)) and _long(s, spec)]
    values = [walk(v for s in statements([row]) for v in values_of(s)) for row in rows]
    if not spec.far and any(map(calls, values)):
        return
    readers: dict[int, list[int]] = {}
    for k, row in enumerate(rows):
        for operand in dict.fromkeys(v.operand for v in values[k]
                                     if isinstance(v, Load) and lines(v, row.axis)):
            readers.setdefault(operand, []).append(k)
    for operand, several in readers.items():
        if len(several) > 1 or spec.third:
            able = [k for k in several if _could_ask(rows[k])]
            if not spec.far:
                able = [k for k in several[1:] or several if isinstance(rows[k], LaneLoop)
                        and _held(operand, rows[k], spec)]
                least = min((_reads(values[k]) for k in able), default=0)
                able = [k for k in able if _reads(values[k]) == least]
            if able:
                row = rows[max(able, key=lambda k: cost(values[k]))]
                if isinstance(row, LaneLoop):
                    row.alone = len(rows) == 1
                _ask(row, operand)


def comes_late(loop: Loop, roots: Sequence[Root], last: bool, spec: Specialized) -> bool:
    """Whether a loop over rows that come from memory asks for the next ones before it begins.

    Loops over strips need not where they compute little: then processors look far enough ahead.  If
    few rows are folded side by side, these have to be `ALONE` bytes long, or of the next ones more
    is asked for than is read; and they are asked of the third cache, too.
    """
    low, high = spec.between(loop.axis)
    if not last:
        values = walk((v for r in roots for v in r.inputs()), is_fold)
        of = [spec.operands[v.operand] for v in values
              if isinstance(v, Load) and loop.axis in v.axes]
        size = min((o.dtype.itemsize * abs(o.layout.step) for o in of), default=0)
        late = spec.far or spec.third
        return loop.independent and late and low * size >= ALONE and high <= NARROW
    if loop.kind == "lane":
        heavy = cost(walk(v for r in roots for v in r.inputs())) >= HEAVY
        return spec.far and heavy and any(isinstance(r.of, Fold) for r in roots)
    return spec.far and high <= NARROW and all(isinstance(r.of, Fold) and r.by_rows for r in roots)


def short_and_back(body: Sequence[Statement], axis: str, spec: Specialized) -> frozenset[int]:
    """The operands of short rows, apart from each other, each of which goes back in memory.

    Processors foresee the rest of longer ones.
    """
    def asked(load: Load) -> bool:
        operand = spec.operands[load.operand]
        rows, follow = rows_of(load.access, operand.layout)
        return operand.layout.step == -1 and bool(rows) and not follow and (
            runs_along(load.access, operand.layout.perm, axis)
            and spec.between(axis)[1] * operand.dtype.itemsize <= BACK)

    values = walk(v for s in statements(body) for v in values_of(s))
    return frozenset(v.operand for v in values if isinstance(v, Load) and asked(v))


def _ask(row: Loop | LaneLoop, operand: int) -> None:
    """Let a loop ask for an operand's next row."""
    row.asks |= {operand}
    if isinstance(row, Loop):
        row.ahead = ""  # it asks by itself
        if row.kind == "plain" and not row.lines:
            _cut(row)


def _long(row: Loop | LaneLoop, spec: Specialized) -> bool:
    """Whether rows are long enough; chunks are no rows."""
    return row.axis in spec.axes and spec.between(row.axis)[0] >= (ASKED if spec.far else LINED)


def _held(operand: int, row: Loop | LaneLoop, spec: Specialized) -> bool:
    """Whether the first cache holds this row of an operand, and the next one."""
    high, of = spec.between(row.axis)[1], spec.operands[operand]
    return high <= HELD and high * of.layout.step * of.dtype.itemsize <= HELD_BYTES


def _reads(values: Sequence[Value]) -> int:
    """How often operands are read."""
    return sum(isinstance(v, Load) for v in values)


def _could_ask(row: Loop | LaneLoop) -> bool:
    """Whether a loop goes forth in parts, or could."""
    return isinstance(row, LaneLoop) or row.kind == "strip" or (
        row.kind == "plain" and row.independent and not row.lined)


def _cut(row: Loop) -> None:
    """Let a loop go in strips, before each of which it asks for as much."""
    row.body = [Loop(row.axis, "lane", row.body, row.independent)]
    row.kind, row.length, row.independent = "strip", "STAGE", False
