"""Several turns of a loop at once, statement beside statement."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from .fetching import Fetches
from .jamming import PREFIXES, adds_slices, other_turn, strips_of
from .nest import Blocks, Loop, Statement, names_made, statements
from .paired import as_one, beside, nested, whole
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
        self.streams = isinstance(item, Loop) and item.streams
        sooner = "STREAMS" if self.streams else ""
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
        """Turns that fold the same rows, so many at once; if less are left, the last one again."""
        around, turns_of, lets = self.instead, [], []
        self.at_once = item.at_once
        for k in range(item.at_once):
            turn = self.other_turn(item.body, k) if k else item.body
            self.turn = str(k + 1) if k else ""
            if k:
                name = f"{PREFIXES[k]}{view['var']}"
                lets.append({"kind": "let", "type": "int64_t", "name": name, "value": (
                    f"{view['var']} + {k} < {view['stop']} ? {view['var']} + {k} : "
                    f"{view['stop']} - 1")})
                self.instead = {**around, item.axis: name}
            turns_of.append(self.body(turn))
        self.instead, self.turn, self.at_once = around, "", 1
        together = [s for some in zip(*turns_of, strict=True) for s in as_one(some)]
        return {"together": [*lets, *together], "at_once": item.at_once,
                "by": TOGETHER[item.at_once]}

    def other_turn(self, body: Sequence[Statement], k: int = 0) -> list[Statement]:
        """The same under other names, for turn `k` or a next row."""
        return other_turn(body, names_made([
            s for p in self.kernel.phases for s in statements(p.body)]), k)
