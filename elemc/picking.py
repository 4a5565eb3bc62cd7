"""What lies apart along a row that is folded in lanes, without gathering it for vectors.

gcc would gather it: in lanes it does not know of anything behind the last one, so it cannot load
what is between.  Of a few elements apart whole vectors are loaded instead, and picked from, or
folded with what is between; elements of several sizes, which gcc does not gather, are copied first.
"""

from __future__ import annotations

from .cost import HEAVY, calls, cost
from .dtypes import ctype
from .expressions import Expressions, Use
from .layout import STEP
from .nest import LANE_BYTES, Assign, LaneLoop, Let, Statement, Write, statements, values_of
from .nest_leaves import Element, FoldIndex
from .values import At, Load, Position, walk

APART_BYTES = 256  # of lanes with those between, at most: registers are few, and memory slow
PICKED_BYTES = 4  # of an element, at least: many processors shuffle no two vectors of narrower ones


class Picking(Expressions):
    """Writes what picks elements from those that lie between."""

    def apart(self, item: LaneLoop, count: int) -> int:
        """How many elements lie from one of a row to the next, if all between are folded, too.

        That is in further lanes, which are dropped, and only where something is too narrow to be
        picked.
        """
        values = walk(v for s in statements(item.body) for v in values_of(s))
        loads = [v for v in values if isinstance(v, Load) and item.axis in v.axes]
        plain = all(isinstance(s, (Let, Assign)) and not is_store(s) for s in item.body) and all(
            f.end_in_lanes and not f.top for f in item.folds) and not any(
            isinstance(v, (Position, FoldIndex, At)) or isinstance(v, Element) and v.dims
            for v in values) and not calls(values)
        steps = {abs(self.step(v, item.axis)) for v in loads}
        narrow = any(v.dtype.itemsize < PICKED_BYTES for v in loads)
        if not plain or not narrow or len(steps) != 1 or not 1 < (step := min(steps)) <= STEP:
            return 1
        size = count * sum(f.size for f in item.folds)
        fits = step * size <= APART_BYTES and step * cost(values) <= HEAVY
        return step if fits else 1

    def picked(self, item: LaneLoop, count: int, end: str = ""
               ) -> tuple[list[str], dict[Load, str]]:
        """Statements that bring together what lies apart for `count` lanes, and into which arrays.

        A turn that another follows reads on behind its last element, if it picks.  The last one,
        before `end`, reads as much before its first, which is of the row if that has more than
        `count` elements; else nothing is picked there.
        """
        found: list[str] = []
        names = {}
        loads = [v for v in walk(v for s in item.body for v in values_of(s))
                 if isinstance(v, Load) and item.axis in v.axes]
        sizes = {load.dtype.itemsize for load in loads}
        narrowest = min(sizes, default=0)
        mixed = len(sizes) > 1 and narrowest < PICKED_BYTES
        for load in loads:
            step = self.step_to_pick(load, item.axis, count)
            step = 0 if end and item.least <= count else step
            if step or mixed and self.gathered(load, item.axis, narrowest):
                use, lanes = self.use(load.operand, load.access), self.lanes_of(count)
                names[load] = name = f"{use.base}_apart{self.turn}"
                first = f"{end} - {lanes}" if end else f"k * {lanes}"
                found += [f"{ctype(load.dtype).storage} {name}[{lanes}]",
                          self.every(use, step, name, item.axis, first, lanes, bool(end)) if step
                          else self.each(use, name, item.axis, first, lanes)]
        return found, names

    def every(self, use: Use, step: int, name: str, axis: str, first: str, lanes: str, last: bool
              ) -> str:
        """What picks elements a `step` apart from all that lie there, or before in the `last`."""
        operand = self.kernel.operands[use.operand]
        before, function = abs(step) - 1 if last else 0, f"every_{ctype(operand.dtype).suffix}"
        self.helpers[function] = None
        place = self.address(use, axis, f"({first})" if last else first)
        if before:
            place += f" {'-' if step > 0 else '+'} {before * operand.dtype.itemsize}"
        return f"{function}({name}, {place}, {before}, {step}, {lanes})"

    def each(self, use: Use, name: str, axis: str, first: str, lanes: str) -> str:
        """What copies elements one by one: of several sizes gcc gathers them for no vectors."""
        around, self.instead = self.instead, {**self.instead, axis: f"({first} + l)"}
        element, self.instead = self.element(use, self.kernel.operands[use.operand]), around
        return f"for (int l = 0; l < {lanes}; l++) {name}[l] = {element}"

    def step_to_pick(self, load: Load, axis: str, count: int) -> int:
        """How many elements lie from one to the next, if vectors are to pick them; else 0."""
        size, step = load.dtype.itemsize, self.step(load, axis)
        wide = load.dtype.kind in "fiu" and size >= PICKED_BYTES and size * count >= LANE_BYTES
        return step if wide and 1 < abs(step) <= STEP else 0

    def gathered(self, load: Load, axis: str, narrowest: int) -> bool:
        """Whether elements do not follow each other; gcc turns round the `narrowest` alone."""
        follow = (1,) if load.dtype.itemsize > narrowest else (1, -1)
        return load.guard is None and self.step(load, axis) not in follow and all(
            at.divisor == 1 for at in load.access if axis in at.axes)

    def step(self, load: Load, axis: str) -> int:
        """How many elements lie from one that is loaded to the next, with its sign; 0: unknown."""
        operand = self.kernel.operands[load.operand]
        plain = load.guard is None and operand.storage == "native" and all(
            at.divisor == 1 for at in load.access if axis in at.axes)
        known = self.known_stride(load.operand, load.access, axis) if plain else None
        step, rest = divmod(known or 0, operand.dtype.itemsize)
        return 0 if rest else step


def is_store(statement: Statement, strip: str = "") -> bool:
    """Whether a statement stores, without a mask, what no other turn of the loop stores."""
    if isinstance(statement, Assign) and isinstance(statement.target, Element):
        return bool(statement.target.dims) or statement.target.at == strip
    return isinstance(statement, Write) and statement.mask is None
