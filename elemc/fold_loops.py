"""What the templates need to lay out loops that fold: along rows in lanes, and along outer axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .cnames import stem
from .cost import HEAVY, cost
from .dtypes import ctype
from .folded_rows import times_as_wide
from .jamming import by_two, renamed
from .mathlib import TREES
from .nest import (
    LANE_BYTES,
    LANES,
    ROWS,
    RUN,
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
from .nest_leaves import LaneFold
from .picking import is_store
from .row_ends import grouped
from .turns import Turns
from .values import SHORT, Load, walk

# Bytes of the arrays of a strip, at most: of the states of folds, which stay in the first cache;
# of a value that goes through stages, as much as a processor looks ahead; of rows abreast; of rows
# side by side that others meet, and of what is read across slice after slice, which stay in the
# second cache; of lines that are turned; of doubles that lie in a line each; of lines around
# records; of what functions take from memory, and of what is computed for them before.
STRIP_BYTES = {"STRIP": 8192, "STAGE": 512, "ABREAST": 128, "SIDED": 512, "SLICED": 512,
               "TURN": 128, "TURNED": 2048, "RECORDS": 512, "PIECE": 2048, "HALF_PIECE": 1024}
LEAST_BYTES = 512  # of a strip with many arrays


class FoldLoops(Turns):
    """Writes loops that fold, and notes what they need declared."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.trees: dict[str, dict[str, str]] = {}
        self.packs: set[str] = set()  # the axes of rows that are taken side by side
        self.strips: dict[str, int] = {}  # the lengths of strips, by their names in C
        self.widest: dict[str, int] = {}  # of rows that are taken side by side, each in one strip
        runs = [s for p in kernel.phases for s in statements(p.body)
                if isinstance(s, Blocks) and s.run > 1 and not self.even(s)]
        self.run_length = min((s.run for s in runs), default=1)
        self.foreseen = min((s.foreseen for s in runs if s.foreseen > 1), default=self.run_length)
        self.wide = 1  # how many times as wide as others strips may be

    def need_strip(self, name: str, size: int, count: int = 1, times: int = 1) -> None:
        """Make strips of this name narrow enough for `count` arrays of elements of `size` bytes.

        They may be `times` as wide as others.
        """
        # of elements apart, too, so that vectors fill strips
        size = 8 if name == "TURNED" else 1 << (size - 1).bit_length()
        most = STRIP_BYTES[name] * times
        fits = max(most // count, min(most, LEAST_BYTES)) // max(4, size)
        self.strips[name] = min(self.strips.get(name, fits), fits)

    def strip_length(self, name: str) -> int:
        """How many elements strips of this name have."""
        return max(self.strips.get(name, STRIP_BYTES[name] // 8), self.widest.get(name, 0))

    def rows_at_once(self) -> str:
        """How many rows are added to a strip of states at a time."""
        run, foreseen = self.run_length, self.foreseen
        return str(run) if run == foreseen else f"ASK_SUM ? {run} : {foreseen}"

    def fold(self, fold: LaneFold, item: LaneLoop | Blocks) -> dict[str, Any]:
        """What the templates need to fold one accumulator."""
        kind = stem(fold.kind)
        tree = {"type": self.type(fold.dtype), "merge": self.merge(fold, "a", "b"),
                "identity": self.text(fold.identity)}
        helper = self.tree_name(f"{kind}_{ctype(fold.dtype).suffix}", tree)
        view: dict[str, Any] = {
                "name": fold.name, "kind": kind, "type": tree["type"], "tree": fold.tree,
                "helper": helper, "neutral": self.text(fold.neutral), "part": fold.part,
                "row": "", "states": "", "merge_part": "",
                "from_zero": self.text(fold.neutral) in ("0", "0.0", "0.0f"),
                "lane_type": self.type(fold.lane or fold.dtype),
                "all_lanes": f"{fold.name}_lane[0]",
                "merge_lanes": self.merge(
                    replace(fold, merge=fold.merge_settled or fold.merge),
                    f"{fold.name}_lane[l]", f"{fold.name}_lane[l + h]"),
                "merge_halves": self.merge(
                    fold, f"{fold.name}_rows[l]", f"{fold.name}_rows[l + h * {self.width}]"),
                "merge_packed": self.merge(fold, f"{fold.name}[l]", f"{fold.name}_rows[l]"),
                "merge_row": self.merge(fold, fold.name, f"{fold.name}_lane[0]"),
                "merge_top": self.merge(fold, f"{fold.name}_tree[{item.folds[0].name}_top - 1]",
                                        fold.name),
                "identity": tree["identity"]}
        if fold.rows is not None:
            chunks = [a for a in fold.rows.dims if a in self.kernel.chunks]
            first, *rest = (a for a in fold.rows.dims if a not in chunks)  # of slices, or elements
            start, stop = self.bounds(first)
            size = "".join(f" * {self.extent(a)}" for a in rest)
            row = self.extent(first) + size
            view |= {"row": (start if start == "0" else start + size, stop + size),
                     "states": " + ".join([fold.rows.name, *(f"{self.var(a)} * {row}"
                                                             for a in chunks)])}
        if isinstance(item, Blocks) and fold.part:
            at = "" if item.strip is None else "[l]"
            view["merge_part"] = self.merge(fold, fold.name + at, fold.part + at)
        if fold.tree and isinstance(item, Blocks) and item.strip:
            view["push"], view["pull"] = self.tree_functions(helper, tree)
        return view

    def tree_functions(self, helper: str, tree: dict[str, str]) -> list[str]:
        """The functions of a tree of strips, which are in the math library or the kernel's own."""
        ways = [f"push_{helper}", f"pull_{helper}"]
        if TREES.get(helper) == tree:
            ways = [f"elemc_{way}" for way in ways]
            self.externs.update(dict.fromkeys(ways))
        else:
            self.trees[helper] = tree
        return ways

    def tree_name(self, name: str, tree: dict[str, str]) -> str:
        """What the functions of a tree are called; accumulators of one name may differ."""
        number, free = 1, name
        while self.trees.get(free, tree) != tree:
            number, free = number + 1, f"{name}_{number + 1}"
        return free

    def merge(self, fold: LaneFold, a: str, b: str) -> str:
        """The merge expression over the states named `a` and `b`."""
        names = {"a": a, "b": b}
        if fold.top is not None:
            own, top = (fold.part, fold.top.part), (fold.name, fold.top.name)
            for key, name in (("top_a", a), ("top_b", b)):
                mine, its = own if fold.part and name.startswith(fold.part) else top
                names[key] = f"{its}{name.removeprefix(mine or '')}"
        return self.text(renamed([fold.merge], names)[fold.merge])

    def settle(self, folds: Sequence[LaneFold]) -> dict[str, Any]:
        """How lanes drop all places but those of the best of their extrema, merged before."""
        settled, tops = [], {}
        for fold in folds:
            if fold.top is not None and fold.settled is not None:
                lane, top = f"{fold.name}_lane[l]", fold.top
                best = f"{top.name}_best"
                names = {"a": lane, "top_a": f"{top.name}_lane[l]", "top_b": f"{best}[0]"}
                value = renamed([fold.settled], names)[fold.settled]
                settled.append(f"{lane} = {self.text(value)}")
                tops[best] = {"name": top.name, "type": self.type(top.dtype),
                              "merge": self.merge(top, f"{best}[l]", f"{best}[l + h]")}
        return {"tops": [*tops.values()], "settle": ", ".join(settled)}

    def lane_loop(self, item: LaneLoop) -> dict[str, Any]:
        """A row in lanes."""
        k = self.digit[item.axis]
        tree = any(f.tree for f in item.folds) and item.axis not in self.within
        cut = tree or item.cut  # in blocks, of a tree or not
        widest = max(f.size for f in item.folds)
        count = least = max(LANES, LANE_BYTES // widest)  # no other fold of the kernel has a say
        stores = any(isinstance(s, Write) or is_store(s) for s in statements(item.body))
        if all(f.exact for f in item.folds):  # others mind in which order they are merged
            count *= 2 if item.axis in self.within else 1  # a chunk is long
            count *= 2 if any(f.top for f in item.folds) else 1  # where more waits for less
        count = item.lanes or count
        length = self.known(item.axis)
        full = length is None or int(length) >= count
        alone = full and not item.around
        apart = self.apart(item, count) if alone else 1
        fewer = not item.lanes or any(f.lane for f in item.folds)  # lanes are as good
        if alone and apart == 1 and fewer and (further := self.apart(item, least)) > 1:
            count, apart = least, further
        if full:
            self.laned.add(item.axis)
        lanes = self.lanes_of(count, item.folds)
        start, stop = self.bounds(item.axis)
        sure = full and item.least >= count and not cut and start == "0"
        if sure and length is None:
            self.least[item.axis] = max(count, self.least.get(item.axis, 0))
        rolled = full and count <= LANES and not any(f.top for f in item.folds)  # else slower
        halve = "UNROLL" if count <= LANES else "UNROLL_8"
        name = item.folds[0].name
        wide = lanes if apart == 1 else f"{lanes} * {apart}"
        view: dict[str, Any] = {
                "kind": "lanes", "lanes": lanes, "full": full, "tree": tree, "cut": cut,
                # gcc gives up comparing the addresses of many operands with theirs
                "independent": stores,
                "sure": sure, "rolled": rolled, "halve": halve,
                "around": tuple(  # the same for two turns at once
                    {"var": self.var(a), "start": first, "stop": last}
                    for a in item.around for first, last in (self.bounds(a),)),
                "apart": apart, "wide": wide, "drop_lanes": ", ".join(
                    f"{f.name}_lane[l] = {f.name}_wide[l * {apart}]" for f in item.folds),
                "var": f"i{k}", "start": start, "stop": stop, "fetch": [], "fetch_end": [],
                "base": f"b{k}", "end": f"e{k}", "count": f"b{k} / BLOCK",
                "top": f"{name}_top", "folds": [self.fold(f, item) for f in item.folds]}
        view["looks"] = self.looks(item, count, view["folds"]) if full else []
        if full:
            self.totals(item, lanes, view["folds"])
        self.lane, self.finer = item.axis, {item.axis: apart} if apart > 1 else {}
        picks: dict[Load, str] = {}
        if alone and apart == 1 and all(f.end_in_lanes and not f.top for f in item.folds):
            view["fetch"], picks = self.picked(item, count)
        self.apart_of = picks
        view["body"] = self.body(item.body)
        self.finer, self.apart_of = {}, {}
        end = f"e{k}" if cut else stop
        view |= self.ending(item, end, count, apart, picks)
        view["final"] = sure and bool(view["last"]) and all(f.end_in_lanes for f in item.folds)
        if sure and view["last"]:
            view["rest"] = []
        at = view["first"] if apart == 1 else f"k * {lanes}"
        for fetch, use, distance, size in self.wanted(item, 2) if full else []:
            address = self.address(use, item.axis, at, distance)
            view["fetch"] += [f"{fetch}({address}{f' + {part}' if part else ''})"
                              for part in range(0, count * size, 64)]
            if use.ahead or fetch == "FETCH_SUM" and start == "0":
                # nothing asks for what is behind the last lanes
                last = self.address(use, item.axis, f"({end} - 1)", distance)
                view["fetch_end"].append(f"{fetch}({last})")
        self.lane = ""
        assert not item.around or sure and not (cut or view["others"])
        return (view | self.settle(item.folds) | self.joined(view["folds"])
                | row_states(view["folds"], cut))

    def blocks(self, item: Blocks) -> dict[str, Any]:
        """An outer folded axis."""
        k = self.digit[item.axis]
        start, stop = self.bounds(item.axis)
        name = item.folds[0].name
        width = "1" if item.strip is None else f"w{self.digit[item.strip]}"
        each = item.axis in self.kernel.chunks  # these are long, and so few
        if item.strip is not None:
            wide = times_as_wide(item, self.kernel)
            count = len(item.folds) << (self.at_once - 1).bit_length()  # so they are lines apart
            self.need_strip(self.strip, max(f.dtype.itemsize for f in item.folds), count, wide)
            self.wide = wide if each else 1  # the parts of chunks, which have arrays of their own
        self.width = item.width
        folds = [self.fold(f, item) for f in item.folds]
        rows, folds = [f for f in folds if f["row"]], [f for f in folds if not f["row"]]
        tree = any(f["tree"] for f in folds)
        whole = start == "0"
        span = stop if whole else f"{stop} - {start}"
        block = "PACK * ROWS" if item.packed and not item.ordered else "ROWS"
        fetched = set(self.fetched)
        view: dict[str, Any] = {
                "kind": "blocks", "var": f"i{k}", "start": start, "stop": stop, "tree": tree,
                "strip": self.strip if item.strip else "",
                "direct": all(f.part is None for f in item.folds),
                "base": f"b{k}", "end": f"e{k}", "width": width, "rows": rows, "folds": folds,
                "turns": self.crossed,
                "block": block, "each": each, "none": f"!{stop}" if whole else "",
                "several": f"{span} > {block}",
                "pushes": stop if each else f"{grouped(span)} / {grouped(block)} + 1",
                "count": f"{name}_count" if item.strip is not None else (
                    f"i{k}" if each else f"b{k} / ROWS" if whole else f"(b{k} - {start}) / ROWS"),
                "top": f"{name}_top", "body": self.body(
                    [_one_loop(item.body)] if self.crossed else item.body),
                "pair": [], "left_start": "", "run": self.run(item), "even": self.even(item),
                "packed": self.packed(item) if item.packed else None}
        self.wide = 1
        view |= self.pair(item, view, fetched) if item.at_once > 1 else {}
        view["laned"] = {f.name: self.lane_halves(f) for f in item.folds if f.name in item.laned}
        at = "" if item.strip is None else "[m][l]" if self.crossed else "[l]"
        return view | self.joined(folds, at)

    def even(self, item: Blocks) -> bool:
        """Whether rows in one block go by as many as divide their number, so that none is left."""
        length = int(self.known(item.axis) or 0)
        return 0 < length <= ROWS and item.run == item.foreseen and length % item.run == 0

    def lane_halves(self, fold: LaneFold) -> dict[str, str]:
        """How many of the states that rows abreast have for every lane take the others, and how."""
        rows, lanes = f"{fold.name}_rows", self.lanes_of(LANES)
        return {half: self.merge(fold, f"{rows}[l]", f"{rows}[l + {half}]") for half in (
            f"{lanes} / {1 << k} * {self.strip}" for k in range(1, LANES.bit_length()))}

    def run(self, item: Blocks) -> dict[str, Any] | None:
        """The innermost loop for several rows at once, if memory is what it waits for."""
        apart = item.strip is None or item.packed or item.laned or item.run == 1 or any(
            f.part or f.rows for f in item.folds)
        parts = any(isinstance(s, Write) or isinstance(s, Loop) and s.kind == "parts"
                    for s in statements(item.body))  # lines are written one after the other
        *lets, last = item.body
        if apart or parts or _cost(item.body) >= HEAVY or not (
                isinstance(last, Loop) and all(isinstance(s, Let) for s in lets)):
            return None
        lane = _one_loop(item.body)
        self.running = {f.name for f in item.folds}
        [loop] = self.body([lane])
        even = self.even(item)
        rows = item.run if even else self.run_length
        both = [] if loop["full"] or rows % 2 else self.two_rows(item, lane)
        self.running = set()
        usual = not even or rows == self.run_length == self.foreseen
        count = "RUN" if usual else str(rows)
        return {**loop, "unroll": "UNROLL" if rows <= RUN else "UNROLL_8", "rows": count,
                "singly": item.foreseen == 1, "fetch": self.fetch_rows(item, lane, f"k * {count}"),
                "body": both or loop["body"], "step": 2 if both else 1}

    def two_rows(self, item: Blocks, lane: Loop) -> list[dict[str, Any]]:
        """What folds two rows at once, if one comparison finds a NaN in either; else nothing."""
        folds = by_two(lane.body)
        if not folds:
            return []
        made: list[dict[str, Any]] = []
        values: list[list[str]] = []
        for body in (lane.body, self.other_turn(lane.body)):
            made += self.body([s for s in body if isinstance(s, Let)])
            values.append([self.text(value) for _, value in by_two(body).values()])
            self.instead[item.axis] = f"({self.var(item.axis)} + 1)"
        del self.instead[item.axis]
        self.helpers |= dict.fromkeys(function for function, _ in folds.values())
        states = [self.of_turn(name, "_l") for name in folds]
        return made + [
            {"kind": "assign", "target": state, "value": f"{of}({state}, {one}, {two})"}
            for state, (of, _), one, two in zip(states, folds.values(), *values, strict=True)]

    def packed(self, item: Blocks) -> dict[str, Any]:
        """Several rows of a narrow strip side by side."""
        assert item.strip is not None
        self.packs.add(item.axis)
        self.widest[self.strip] = max(item.width, self.widest.get(self.strip, 0))
        index, base = self.var(item.strip), f"b{self.digit[item.strip]}"

        def view(body: Sequence[Statement], rolled: bool = False) -> dict[str, Any]:
            outer, self.mentioned = self.mentioned, set()
            laid = self.body(body)
            used = item.strip in self.mentioned
            self.mentioned |= outer
            return {"locals": [s for s in laid if s["kind"] == "local"],
                    "body": [s for s in laid if s["kind"] != "local"], "rolled": rolled,
                    "var": f"int64_t l = 0, {index} = {base}" if used else "int l = 0",
                    "step": f"l++, {index}++" if used else "l++"}

        fetch = self.fetch_rows(item, item.body[-1], "k * PACK")
        rolled = item.ordered and 4 <= item.width <= SHORT  # else gcc unrolls, and finds no vectors
        return {"once": view(item.once), "copies": view(item.copies),
                "back": view(item.back, rolled), "body": self.body(item.packed),
                "width": item.width, "fetch": fetch, "ordered": item.ordered}

    def joined(self, folds: Sequence[dict[str, Any]], at: str = "") -> dict[str, str]:
        """Assignments to all folds at once, as comma expressions; `at` is the place in a strip."""
        def assign(text: str, some: Sequence[dict[str, Any]]) -> str:
            return ", ".join(text.format(at=at, **fold) for fold in some)

        trees = [f for f in folds if f["tree"]]
        exact = [f for f in folds if not f["tree"]]
        return {
            "merge_lanes": assign("{name}_lane[l] = {merge_lanes}",
                                  [f for f in folds if f["merge_lanes"]]),
            "set_rows": assign("{name}_rows[l] = {neutral}", folds),
            "merge_halves": assign("{name}_rows[l] = {merge_halves}", folds),
            "merge_packed": assign("{name}[l] = {merge_packed}", folds),
            "merge_top": assign("{name} = {merge_top}", trees),
            "set_trees": assign("{name}{at} = {neutral}", trees),
            "set_exact": assign("{name}{at} = {neutral}", exact),
            "set_parts": assign("{name} = {part}", trees),
            "merge_parts": assign("{name}{at} = {merge_part}", folds),
            "merge_exact": assign("{name}{at} = {merge_part}", exact)}


def row_states(folds: Sequence[dict[str, Any]], cut: bool) -> dict[str, str]:
    """What is done with the states of folds at a row: those without a tree go on in the next."""
    on = [f for f in folds if cut and not f["tree"]]
    for fold in folds:
        fold["state"] = fold["name"] + (
            f" = {fold['identity' if cut and fold not in on else 'neutral']}")
    return {
        "set_row": ", ".join(f"{f['name']} = {f['neutral']}" for f in folds if f not in on),
        "merge_row": ", ".join(f"{f['name']} = " + (
            f["merge_row"] if f in on else f["all_lanes"]) for f in folds)}


def _one_loop(body: Sequence[Statement]) -> Loop:
    """A loop over a strip, with the variables before it."""
    *lets, lane = body
    assert isinstance(lane, Loop)
    return replace(lane, body=[*lets, *lane.body])


def _cost(body: Sequence[Statement]) -> int:
    """About how many additions one turn of a loop is worth."""
    return sum(cost(walk(values_of(s))) for s in statements(body))
