"""What is left at the end of a row when vectors have had their turns, in vectors again.

The last elements of the row fill a vector; those that are there already are left out of folds, and
keep what was stored.  So no element of a row of 31 takes a call of a function for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from .cost import HEAVY, calls
from .dtypes import ctype
from .jamming import WITH_NAN
from .layout import INTERLEAVED, STEP
from .nest import (
    LANE_BYTES,
    LANES,
    Assign,
    Kernel,
    LaneLoop,
    Let,
    Local,
    Loop,
    Statement,
    Write,
    names_made,
    names_used,
    values_of,
)
from .nest_leaves import IDEMPOTENT, Element, Named
from .picking import Picking, is_store
from .values import ASKED, LINED, SELECT, SHORT, VECTOR, Load, Op, Value, walk


class RowEnds(Picking):
    """Writes the ends of rows."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.least: dict[str, int] = {}  # how long rows are at least, if that fills lanes
        self.repeated: set[str] = set()  # axes of rows several of which are gone through as one

    def known(self, axis: str) -> str | None:
        """How long a loop over an axis is, if it is known."""
        return None if axis in self.repeated else self.length(self.extent_of(axis))

    def body(self, body: Sequence[Statement]) -> list[dict[str, Any]]:
        """What the templates need to lay out statements."""
        raise NotImplementedError

    def ending(self, item: LaneLoop, stop: str, count: int, apart: int, picks: Collection[Load]
               ) -> dict[str, Any]:
        """What is left of a row, which ends at `stop`, when `count` lanes have had their turns.

        Turns that fold what lies between elements `apart`, or pick what is wanted from it, read on
        behind their last element, and leave at least one.

        It is folded in lanes again, by the `last` statements, if there are any `left`, or in the
        `same` loop; then the `others` go on one by one.  The `rest` are all, for shorter rows.
        """
        lanes = self.lanes_of(count, item.folds)
        ends = {f"{f.name}_lane" for f in item.folds if f.end_in_lanes}
        stores = [s for s in item.body if ends and is_store(s) and not goes_on(item.body, s)]
        if len(ends) < len(item.folds) or any(
                is_store(s) and s not in stores for s in item.body):
            stores = []  # inputs are read for the last time, and lanes merged, before all of these
        own = {s.name for s in item.body if isinstance(s, Local)}
        fresh = [s for s in item.body if in_lanes(s, own)]  # states that every turn begins
        last = needed(item.body, lambda s: in_lanes(s, ends) or s in stores)
        others = needed(item.body, lambda s: not (
            in_lanes(s, ends) or s in stores or s in fresh)) if last else []
        # any element may be folded twice, and is still what it was
        again = bool(last) and not stores and not others and all(f.idempotent for f in item.folds)
        same = again and any(f.top for f in item.folds)  # gcc spills the states of two
        over = apart > 1 or any(self.step_to_pick(load, item.axis, count) for load in picks)
        wide = lanes if apart == 1 else f"{lanes} * {apart}"
        left = f"(({stop} - 1) % {lanes} + 1)" if over else self.left(stop, lanes)
        values = walk(v for s in last for v in values_of(s))
        called = lanes_in_vector([v for v in values if isinstance(v, Op) and v.op.cost >= HEAVY])
        view: dict[str, Any] = {
            # of what is dear, only vectors that hold what is left
            "half_lanes": calls(values) and not over and item.most < LINED and count >= 2 * called,
            "again": again, "others_first": bool(stores), "left": left, "same": same,
            "first": "k" if same else f"k * {wide}",
            # past a branch gcc takes lanes from memory: calls and gathering take longer than that
            "skip": not over and (calls(values) or any(
                isinstance(v, Load) and item.axis in v.axes and abs(self.step(v, item.axis)) != 1
                for v in values)),
            "over": over, "picks": []}
        if picks:
            view["picks"], self.apart_of = self.picked(item, count, stop)
        view["last"] = self.body(last) if again else [
            part for s in last for part in (self.body([s]) if s in fresh else self.left_out(
                s, f"l < {lanes} - {left}"))]
        self.apart_of = {}
        around, self.after_lanes = self.after_lanes, True
        known = self.known(item.axis)
        # rows of which nobody knows how long they are fill LANES, but not more; places are numbers
        branches = (self.across(item.body, item.axis, known) if known else lanes == "LANES") or any(
            f.top for f in item.folds)
        each = self.body if branches else self.one_by_one
        view["others"], view["rest"] = each(others), each(item.body)
        self.after_lanes = around
        return view

    def looks(self, item: LaneLoop, count: int, views: Sequence[dict[str, Any]]) -> list[str]:
        """Statements that merge `count` lanes of extrema of floats, searched for NaN only once.

        That is sooner done than to do so at every merge, and worth a function in short rows; lanes
        that several rows share are merged seldom, and in memory.
        """
        found: list[str] = []
        if item.most >= ASKED or item.around or any(f.top for f in item.folds):
            return found
        for fold, view in zip(item.folds, views, strict=True):
            merge, suffix = fold.merge, ctype(fold.dtype).suffix
            whole = suffix in ("f32", "f64") and count * fold.dtype.itemsize % LANE_BYTES == 0
            if whole and isinstance(merge, Op) and merge.op in WITH_NAN:
                function, lane = f"{merge.op.name}_of_lanes_{suffix}", f"{fold.name}_lane"
                self.helpers[function] = None
                view["merge_lanes"] = ""
                found.append(f"{lane}[0] = {function}({lane}, {self.lanes_of(count)})")
        return found

    def totals(self, item: LaneLoop, lanes: str, views: Sequence[dict[str, Any]]) -> None:
        """Merge sums in lanes that are narrower than their states by a function."""
        for fold, view in zip(item.folds, views, strict=True):
            if fold.lane:
                function = f"total_{ctype(fold.lane).suffix}"
                self.helpers[function] = None
                total = f"{function}({fold.name}_lane, {lanes})"
                view |= {"all_lanes": total, "merge_lanes": "",
                         "merge_row": f"{fold.name} + {total}"}

    def left(self, length: str, lanes: str) -> str:
        """How many elements of a row fill no lanes, in C."""
        return f"{grouped(length)} % {lanes}"

    def end_of_row(self, item: Loop, start: str, stop: str, over: bool) -> dict[str, Any]:
        """What fills no lanes at the end of a row or strip, if it calls functions or chooses.

        It is computed with the LANES elements at the end, most of which are there already.  Where
        vectors read `over` their last element, one is left for the loop that they are made of.
        """
        known = self.known(item.axis)
        values = walk(v for s in item.body for v in values_of(s))
        count = lanes_in_vector(values)
        chooses = selects(values)
        length = turns(start, stop)
        if not self.plain(item):
            return {}
        if chooses and not calls(values):
            found = self.end_of_choice(item, values, length, stop)
            if found is not None:
                return found
        while known and int(known) - over < count > 4:
            count //= 2
        # of single elements, of which gcc leaves up to 7, or 3 of wide ones, branches choose
        chooses = chooses and item.kind != "lane" and count >= VECTOR + (not known)
        if not (chooses or calls(values)):
            return {}
        if known and (int(known) < count or (int(known) - over) % count == 0):
            return {}
        lanes = self.lanes_of(count)
        made = {s.target.name for s in item.body if isinstance(s, Assign)}
        used = (v for s in item.body for v in walk(values_of(s)[-1:]) if isinstance(v, Element))
        again = made.isdisjoint(v.name for v in used) and not any(
            isinstance(s, Write) for s in item.body)
        # in strips, what is stored twice has to reach the cache before it is read again, every row
        left = self.left(f"{length} - 1" if over else length, lanes)
        turn, few, many = ("k", f" || {left} <= {count // 4}", f" > {count // 4}") if (
            item.kind == "lane") else ("l", "", "")
        more = ">=" if over else ">"
        # `full` is computed before the loop: gcc takes a choice in its condition for control flow
        return {"full": f"{stop} - ({length} < {lanes}{few} ? 0 : {left})",
                "left": f"{length} {more} {lanes} && {left}{many}", "first": f"{stop} - {lanes}",
                "lanes": lanes, "last": self.body(item.body) if again else [
                    part for s in item.body
                    for part in self.left_out(s, f"{turn} < {lanes} - {left}")]}

    def plain(self, item: Loop) -> bool:
        """Whether a loop may compute elements twice, and there are several ends: of rows."""
        return len(self.digit) > 1 and item.independent and not item.reverse and all(
            isinstance(s, Let) or is_store(s, item.axis) for s in item.body)

    def steps(self, item: Loop) -> set[int]:
        """How many elements lie from one to the next, where single elements take long."""
        values = walk(v for s in item.body for v in values_of(s))
        known = self.known(item.axis)
        plain = item.kind in ("plain", "lane") and not (item.shared or item.lines) and (
            self.plain(item))
        if not plain or not (calls(values) or selects(values)) or known and int(known) <= VECTOR:
            return set()
        found = {self.step(v, item.axis) for v in values if isinstance(v, Load)}
        return {step for step in found if 1 < abs(step) <= STEP}

    def end_of_choice(self, item: Loop, values: Sequence[Value], length: str, stop: str
                      ) -> dict[str, Any] | None:
        """What is chosen of a short row, or at the end of one of elements of several sizes.

        gcc's vectors have as many elements as there are of the smallest in LANE_BYTES.  What fills
        none of them branches would choose.  None: vectors do, as they compute all else.
        """
        known = self.known(item.axis)
        sizes = [v.dtype.itemsize for v in values if isinstance(v, Load) or v.dtype != bool]
        mixed = min(sizes) < max(sizes)
        count = LANE_BYTES // min(sizes) if mixed else min(LANE_BYTES // max(4, *sizes), VECTOR)
        if item.kind == "lane" and self.strip == "ABREAST":  # these strips are LANES long
            return {"body": self.one_by_one(item.body)} if mixed and count > LANES else {}
        if known and int(known) < count:
            plain = item.kind == "plain" and not item.shared
            columns = plain and self.across(item.body, item.axis, known)
            return {} if columns else {"body": self.one_by_one(item.body)}
        if not mixed or known and int(known) % count == 0:
            return {} if mixed else None
        left = self.left(length, self.lanes_of(count))
        return {"full": f"{stop} - {left}", "ones": self.one_by_one(item.body)}

    def one_by_one(self, body: Sequence[Statement]) -> list[dict[str, Any]]:
        """Statements that go from element to element."""
        self.singly = True
        view = self.body(body)
        self.singly = False
        return view

    def across(self, body: Sequence[Statement], axis: str, length: str) -> bool:
        """Whether gcc makes vectors along the axis around, of rows that follow each other.

        Where floats are chosen and added it does so along long axes only; of extrema, and of what
        is chosen of integers, along any.
        """
        values = walk(v for s in body for v in values_of(s))
        at_all = any(isinstance(v, Op) and (
            v.op.name in IDEMPOTENT or v.op is SELECT and v.dtype.kind in "biu") for v in values)
        return int(length) in INTERLEAVED and all(
            any(self.known_stride(v.operand, v.access, a) == int(length) * v.dtype.itemsize
                for a in v.axes if at_all or int(self.known(a) or SHORT) >= SHORT)
            for v in values if isinstance(v, Load) and axis in v.axes)

    def left_out(self, item: Statement, folded: str) -> list[dict[str, Any]]:
        """A statement of the last lanes, which leaves out those that have `folded` their elements.

        What they would be otherwise has a name, or else gcc loads and computes under a mask, where
        what it finds in the other lanes may take hundreds of cycles.
        """
        [view] = self.body([item])
        if isinstance(item, Assign):
            name, kind = item.target.name, self.type(item.target.dtype)
        elif isinstance(item, Write):
            operand = self.kernel.operands[item.operand]
            name, kind = operand.name, ctype(operand.dtype).storage
        else:
            return [view]
        own = name.removesuffix("_lane") if isinstance(item, Assign) else name
        # lanes of a fold have another name in every turn as it is
        name = f"{own}_next{self.turn if own == name else ''}"
        let = {"kind": "let", "type": kind, "name": name, "value": view["value"]}
        return [let, {**view, "value": f"{folded} ? {view['target']} : {name}"}]


def lanes_in_vector(values: Iterable[Value]) -> int:
    """How many elements of a row a vector holds, of the widest that its loop computes with."""
    return LANE_BYTES // max([4, *(v.dtype.itemsize for v in values)])


def selects(values: Iterable[Value]) -> bool:
    """Whether one value is chosen of two."""
    return any(isinstance(v, Op) and v.op is SELECT for v in values)


def in_lanes(statement: Statement, names: Collection[str]) -> bool:
    """Whether a statement folds into lanes of these names."""
    return isinstance(statement, Assign) and statement.target.name in names


def grouped(term: str) -> str:
    """A term as a factor."""
    return f"({term})" if " " in term else term


def turns(start: str, stop: str) -> str:
    """How many turns a loop takes, in C."""
    return stop if start == "0" else f"{stop} - {start}"


def goes_on(body: Sequence[Statement], statement: Statement) -> bool:
    """Whether a statement needs what one turn of a loop leaves to the next."""
    return any(isinstance(s, Assign) and isinstance(s.target, Named)
               for s in needed(body, lambda s: s is statement))


def needed(body: Sequence[Statement], wanted: Callable[[Statement], bool]) -> list[Statement]:
    """The statements of a loop that are wanted, and what sets the variables that they need."""
    found: list[Statement] = []
    names: set[str] = set()
    for item in reversed(body):
        made = names_made([item]) | (
            {f.name for f in item.folds} if isinstance(item, LaneLoop) else set())
        if made & names or not isinstance(item, (Let, Local, Loop, LaneLoop)) and wanted(item):
            found.append(item)
            names |= names_used([item])
    return found[::-1]
