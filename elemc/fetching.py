"""What loops ask for in advance, as it comes from memory or a cache that is not the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from .accesses import read_again, runs_along
from .cost import LIGHT, cost
from .expressions import Use
from .nest import (
    CHOICES,
    Blocks,
    Kernel,
    LaneLoop,
    Let,
    Loop,
    Statement,
    Write,
    statements,
    values_of,
)
from .nest_leaves import Named
from .row_ends import RowEnds
from .sharing import rows_of
from .values import SUMMED, Load, Op, walk

AHEAD = 8192  # bytes from what is folded to what is asked of the memory, where rows lie apart
SOON = 2048  # bytes from what is folded to what is asked of the third cache
# Rows of less bytes are asked for whole: those that the first cache holds beside what is at work,
# and those of which the second one holds two, and what goes with them.
WHOLE = dict.fromkeys(("FETCH_NEXT", "FETCH_STREAM"), "4 * AHEAD") | {"FETCH_ROW": "16 * AHEAD"}


class Fetches(RowEnds):
    """Writes what asks for lines, and notes what that needs declared."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.fetched: set[int] = set()  # operands that loops ask for in advance
        self.at_once = 1  # how many turns of the loop around go at once
        self.streams = False  # whether these are streams of memory

    def fetches(self, item: LaneLoop | Loop, first: str, most: int = 1, around: str = "",
                last: str = "") -> list[tuple[str, str, int]]:
        """What has to be asked for, from index `first` on: macro, address, bytes per element.

        Of rows that go back in memory, the `last` index that is asked for has the lowest address;
        where none is given, these are not asked for.
        """
        return [(fetch, self.address(use, item.axis, last if size < 0 else first, distance),
                 abs(size)) for fetch, use, distance, size in
                self.wanted(item, most, around, back=bool(last))]

    def fetch_rows(self, item: Blocks, lane: Statement, first: str) -> list[tuple[str, str, int]]:
        """What rows that are folded side by side ask for, from `first` on, if they come late."""
        if not item.late or not isinstance(lane, Loop):
            return []
        before, self.instead = self.instead, {**self.instead, item.axis: f"({first})"}
        found = self.fetches(lane, f"b{self.digit[lane.axis]}", 3)
        self.instead = before
        return [("FETCH_SHORT" if fetch in ("FETCH_SUM", "FETCH_AHEAD") else fetch, address, size)
                for fetch, address, size in found]

    def by_blocks(self, item: Loop, first: str) -> dict[str, Any]:
        """What a loop that writes blocks asks for before one, from index `first` on: as above.

        That is what it `wants` in advance; or of several operands the one whose elements lie apart,
        which is foreseen late; and lines that it reads `again` in every turn of the one around: if
        several fill the first cache, they come from the second one, sooner if all that a block
        needs is asked for at once.  Blocks of these, or of what lies apart, are half as long.
        """
        values = walk(v for s in statements(item.body) for v in values_of(s))
        along = [v for v in values if isinstance(v, Load) and item.axis in v.axes
                 and v.axes.isdisjoint(axes_within(item))]
        steps = {v: self.kernel.operands[v.operand].layout.step for v in along if runs_along(
            v.access, self.kernel.operands[v.operand].layout.perm, item.axis)}
        apart = [v for v, step in steps.items() if abs(step) > 1 and len(along) > 1]
        again = read_again(along, item.axis, self.kernel.operands)

        def asks(fetch: str, loads: Sequence[Load]) -> list[tuple[str, str, int]]:
            return [(fetch, self.address(self.use(v.operand, v.access), item.axis, first),
                     steps[v] * v.dtype.itemsize) for v in loads]

        most = "LINE / 2" if again or apart else "LINE"
        fetch = self.fetches(item, first, last=f"({first} + {most} - 1)")
        if not fetch and len(apart) == 1 and steps[apart[0]] > 0:
            fetch = asks("FETCH_APART", apart)
        return {"fetch": fetch, "again": asks("FETCH", again), "most": most, "asked": most}

    def of_rows(self, item: Loop, first: str) -> list[tuple[str, str, int]]:
        """What a loop over short rows, each behind the last, asks for before a block: as above."""
        rows = [s for s in item.body if isinstance(s, Loop)]
        along = [v for s in statements(rows) for v in walk(values_of(s))
                 if isinstance(v, Load) and item.axis in v.axes]
        on = all(rows_of(v.access, self.kernel.operands[v.operand].layout)[1] for v in along)
        before, self.instead = self.instead, {**self.instead, item.axis: first}
        found = [ask for row in rows for ask in self.fetches(row, "0")] if on else []
        self.instead = before
        return found

    def is_light(self, want: Load | Write) -> bool:
        """Whether little is done at every element of what is read, and none is written."""
        lines = [s for phase in self.kernel.phases for s in statements(phase.body)]
        axes = {a for at in want.access for a in at.axes}
        written = any(isinstance(s, Write) and axes.issubset(a for at in s.access for a in at.axes)
                      for s in lines)
        values = walk(v for s in lines for v in values_of(s))
        return not written and cost(v for v in values if v.axes >= axes) <= LIGHT

    def wanted(self, item: LaneLoop | Loop, most: int, around: str = "", back: bool = False
               ) -> list[tuple[str, Use, str, int]]:
        """What a loop asks for in advance: macro, pointer, distance and bytes per element.

        What `unforeseen` tells of up to `most` operands alone, of which more than one are asked for
        in turns or not at all, and of any number of them the rows that do not follow each other;
        only where few bytes lie between elements, and only the first loop that reads them asks.
        It is the next turn's of a loop `around`, for parts of strips, and what that writes as well,
        and for few rows side by side, each of which is asked for in a loop of its own; and the next
        row of what the loop `asks` for, in place of the first that reads it.  Folds ask for that
        alone if nothing comes from memory; of the third cache those of everything go on.
        One operand that is only added up, in rows of `SUMMED` elements or more, is asked for as
        such, and so is one of which something is written.  What the loop `asks` for may go `back`
        in memory, if whoever calls this sees to it.
        """
        found, asks = [], item.asks
        if self.streams:  # which processors foresee
            return []
        near = isinstance(item, LaneLoop) and not self.kernel.far
        goes_on = self.kernel.third and near and item.axis in self.within
        foreseen = goes_on or isinstance(item, LaneLoop) and item.alone
        late, few = (unforeseen(item.body, item.axis, k) for k in (1, most))
        every: list[Load | Write] = [*unforeseen(item.body, item.axis, len(self.kernel.operands))]
        if around and isinstance(item, Loop) and item.kind == "parts":
            every += [s for s in statements(item.body) if isinstance(s, Write)]
        short = isinstance(item, LaneLoop) and item.most < SUMMED
        one = len({want.operand for want in every}) == 1 and not short
        writes = any(isinstance(s, Write) for s in statements(item.body))
        within = axes_within(item)
        next_turn = "2 * " if self.at_once > 1 else ""
        for want in every:
            operand = self.kernel.operands[want.operand]
            layout = operand.layout
            lines = runs_along(want.access, layout.perm, item.axis)
            rows, follow = rows_of(want.access, layout, within if around else ())
            next_row = want.operand in asks
            asks -= {want.operand}
            rows = "" if follow and not (around or next_row) else rows
            lines &= layout.step > 0 or back and next_row
            again = want.operand in self.fetched and not (around or next_row)
            loose = not around and any(not at.axes.isdisjoint(within) for at in want.access)
            if again or loose or not lines or rows is None or (around and rows != around) or not (
                    next_row or goes_on if near else around or rows or want in few):
                continue
            self.fetched.add(want.operand)
            size, written = layout.step * operand.dtype.itemsize, isinstance(want, Write)
            use = self.use(want.operand, want.access, written=written)
            fetch = "FETCH_AHEAD" if want in late else "FETCH_SEVERAL"
            if one and (writes or self.is_light(want)):
                fetch = "FETCH_MAP" if writes else "FETCH_SUM"
            distance = ""
            if rows:
                distance = use.strides.setdefault(rows, f"{use.base}_s{self.digit[rows]}")
            if around:
                fetch = "FETCH_OUT" if written else "FETCH_NEXT"
            elif near:
                fetch = "FETCH_STREAM" if foreseen else "FETCH"
                distance = str(SOON) if goes_on else f"{next_turn}{distance}"
            elif rows:  # after a row comes something else, or nothing
                fetch = "FETCH_ROW" if next_row else "FETCH_NEXT" if writes else "FETCH_STREAM"
                row = f"{self.extent(item.axis)} * {abs(size)}"  # to a next one, or in a long one
                use.ahead = (f"{row} < {WHOLE[fetch]} ? (1 + AHEAD / ({row} + 1)) * {distance} "
                             ": AHEAD")
                distance = f"{next_turn}{use.base}_ahead"
            found.append((fetch, use, distance, size))
        return found


def axes_within(item: LaneLoop | Loop) -> list[str]:
    """The axes of the loops within one: what is read at every turn of these has no one place."""
    loops = (s.axis for s in statements(item.body) if isinstance(s, (Loop, LaneLoop, Blocks)))
    return [axis for axis in dict.fromkeys(loops) if axis != item.axis]


def unforeseen(body: Sequence[Statement], axis: str, most: int) -> list[Load]:
    """What a loop over `axis` reads from memory, and processors foresee late or not at all.

    That is up to `most` operands alone, any beside lines that are read again and again, and what
    is only chosen from, which is loaded under masks.  More operands that go on and on are foreseen.
    """
    values = walk(v for s in statements(body) for v in values_of(s))
    along = [v for v in values if isinstance(v, Load) and axis in v.axes]
    far = [v for v in along if len(v.axes) == max(len(w.axes) for w in along)]
    if len({v.operand for v in far}) <= most or len(far) < len(along):
        return far
    chosen = {*walk(a for v in values if isinstance(v, Op) and v.op.name in CHOICES
                    for a in (v.operands[1:] if v.op.name == "where" else v.operands))}
    uses = Counter(a.name for v in values for a in v.args if isinstance(a, Named))
    names = {v.name for v in chosen if isinstance(v, Named) and uses[v.name] == 1}
    chosen |= {s.value for s in statements(body) if isinstance(s, Let) and s.name in names}
    return [v for v in far if v in chosen]
