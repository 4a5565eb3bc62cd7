"""Several turns of a loop at once, statement beside statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from .fetching import Fetches
from .jamming import STREAMS, adds_slices, other_turn, strips_of
from .nest import Blocks, Let, Loop, Statement, Write, names_made, names_used, statements
from .nest_leaves import Element
from .paired import beside, nested, whole
from .row_ends import grouped, turns

# What so many turns at once are called, up to the most of `jamming.MEETING`.
TOGETHER = {2: "twos", 3: "threes", 4: "fours", 5: "fives", 6: "sixes", 7: "sevens"}


class Turns(Fetches):
    """Writes loops of which several turns go at once."""

    def pair(self, item: Loop | Blocks, view: dict[str, Any], fetched: set[int]) -> dict[str, Any]:
        """Several turns of a loop at once, until fewer are left; of chunks, until one is.

        `fetched` is what was asked for in advance before this loop.
        """
        if isinstance(item, Loop) and strips_of(item):
            return self.crossing(item, view)
        chunks = self.kernel.chunks.get(item.axis)
        start, stop, axis = view["start"], f"{view['stop']}{' - 1' if chunks else ''}", item.axis
        self.at_once, turns_of, around = item.at_once, [], self.instead
        sooner, self.streams = item.sooner, item.sooner == STREAMS
        for k in range(item.at_once):
            turn = self.other_turn(item.body, k) if k else item.body
            self.turn = str(k + 1) if k else ""
            self.fetched = set(fetched)
            if k:
                self.instead = {**around, axis: f"({view['var']} + {k})"}
            if k and chunks:
                self.instead[chunks.axis] = f"({view['of']} + {k} * {view['length']})"
            turns_of.append(self.body(turn))
        self.instead = around
        self.turn, self.at_once, self.streams = "", 1, False
        join = nested if adds_slices(item) else beside
        together = [s for some in zip(*turns_of, strict=True) for s in (
            [reduce(join, some)] if join is nested or some[0]["kind"] == "lanes" else some)]
        if chunks:
            together = [whole(s) if s["kind"] == "lanes" else s for s in together]
        left = f"{stop} - {grouped(turns(start, stop))} % {item.at_once}"
        return {"pair": together, "at_once": item.at_once,
                "by": TOGETHER[item.at_once],
                "until": f"{view['stop']} - {item.at_once - (not chunks)}",
                "if": f"{sooner} && " if sooner else "",
                "left_start": f"{sooner} ? {left} : {start}" if sooner else left}

    def crossing(self, item: Loop, view: dict[str, Any]) -> dict[str, Any]:
        """Turns that fold the same rows, so many at once, with a state for each.

        Where one loop folds for all, those that are missing at the end are the last one again.
        """
        self.crossed = {"var": view["var"], "first": view["base"], "stop": view["stop"],
                        "count": item.at_once,
                        "states": {f.name for rows in strips_of(item) for f in rows.folds}}
        self.at_once = item.at_once
        body = _with_lets(item.body)
        together = self.turn_by_turn(body, self.body(body))
        self.crossed, self.at_once = {}, 1
        return {"together": together, "by": TOGETHER[item.at_once], "at_once": item.at_once}

    def turn_by_turn(self, body: Sequence[Statement], views: Sequence[dict[str, Any]]
                     ) -> list[dict[str, Any]]:
        """The views of what several turns do at once, and of what each of them does by itself."""
        found: list[dict[str, Any]] = []
        for item, view in zip(body, views, strict=True):
            apart = bool(found) and found[-1]["kind"] == "turns"
            if isinstance(item, Loop) and item.kind == "strip":
                assert not view["fetch"], "which turn it is for is known within"
                found.append(view | {"body": self.turn_by_turn(item.body, view["body"])})
            elif isinstance(item, Blocks):
                found.append(view)
            elif apart:
                found[-1]["body"].append(view)
            elif isinstance(item, Loop) and _stores_states(item) and not view["last"]:
                found.append({"kind": "all turns", "turns": self.crossed, "lane": view})
            else:
                found.append({"kind": "turns", "turns": self.crossed, "body": [view]})
        return found

    def other_turn(self, body: Sequence[Statement], k: int = 0) -> list[Statement]:
        """The same under other names, for turn `k` or a next row."""
        return other_turn(body, names_made([
            s for p in self.kernel.phases for s in statements(p.body)]), k)


def _with_lets(body: Sequence[Statement], lets: Sequence[Let] = ()) -> list[Statement]:
    """The same turns, of which what folds and what follows have the variables that they use."""
    found: list[Statement] = []
    rest: list[Statement] = []
    lets = [*lets, *(s for s in body if isinstance(s, Let))]
    for item in body:
        match item:
            case Loop(kind="strip"):
                found.append(replace(item, body=_with_lets(item.body, lets)))
            case Blocks():
                found.append(replace(item, body=[*_used(lets, item.body), *item.body]))
            case Loop() | Write():
                rest.append(item)
            case _:
                assert isinstance(item, Let)
    return [*found, *_used(lets, rest), *rest]


def _stores_states(item: Loop) -> bool:
    """Whether a loop does nothing but store what was folded, which may be stored twice."""
    return item.kind == "lane" and all(
        isinstance(s, Write) and s.mode == "write" and s.mask is None
        and isinstance(s.value, Element) for s in item.body)


def _used(lets: Sequence[Let], body: Sequence[Statement]) -> list[Let]:
    """Those of some variables that are used."""
    found: list[Let] = []
    for let in reversed(lets):
        if let.name in names_used([*found, *body]):
            found.insert(0, let)
    return found
