"""Loops through several rows at once (tiles, rows side by side, rows as one), and of blocks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from .blocks import of_many
from .fold_loops import FoldLoops
from .nest import (
    PAD_BYTES,
    REPEATED,
    TILE_BYTES,
    TILES_BYTES,
    Assign,
    Kernel,
    Local,
    Loop,
    Parted,
    Repeat,
    Write,
    bodies,
    statements,
)
from .nest_leaves import Element
from .row_ends import grouped, turns
from .values import Load, Op, Value


class RowLoops(FoldLoops):
    """Writes such loops, and what copies rows to where they go side by side."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.shares: dict[str, tuple[str, str]] = {}  # what a thread goes through of an axis
        self.line: dict[int, str] = {}  # outputs in a block, and the axis of its loop
        self.tile, self.pad = TILE_BYTES, PAD_BYTES

    def rows(self, item: Loop, start: str, stop: str) -> dict[str, Any]:
        """A loop over rows that takes several, or all, as one, and the loop along these."""
        k = self.digit[item.axis]
        row = next(s for s in statements(item.body) if isinstance(s, Loop))
        length, joined = self.extent(row.axis), item.kind.endswith("joined rows")
        count = grouped(turns(start, stop)) if joined else f"w{k}"
        self.instead[item.axis] = start if joined else f"b{k}"
        self.within[row.axis] = "0", f"{count} * {length}"
        self.repeated.add(row.axis)
        body = self.body(item.body)
        self.repeated.remove(row.axis)
        del self.instead[item.axis], self.within[row.axis]
        if joined:
            return {"kind": "all", "body": body}
        return {"kind": "strip", "base": f"b{k}", "width": f"w{k}", "start": start, "stop": stop,
                "reverse": False, "fetch": [], "body": body,
                "most": f"ROWS_OF({length}, {self.extent(item.axis)})"}

    def repeat(self, item: Repeat) -> dict[str, Any]:
        """What copies a row for as many as a loop over rows takes at a time."""
        self.helpers["repeat"] = None
        name, dtype, [axis] = item.array.name, item.array.dtype, item.array.dims
        local = {"kind": "local", "type": self.type(dtype),
                 "name": f"{name}[{REPEATED}]", "array": True}
        [first] = self.body([Loop(axis, "plain", [Assign(item.array, item.value)], True)])
        length, rows = self.extent(axis), self.extent(item.rows)
        size = 4 if dtype == np.float16 else dtype.itemsize  # float16 is held as float
        text = f"repeat({name}, {length} * {size}, ROWS_OF({length}, {rows}))"
        return {"kind": "all", "body": [local, first, {"kind": "call", "text": text}]}

    def called(self, item: Loop) -> str:
        """The call of a function for a block."""
        [copy] = item.body
        assert isinstance(copy, (Assign, Write)) and isinstance(copy.value, Op)
        if function := of_many(copy.value):
            self.externs[function] = None
            args = [self.block_at(v, item.axis) for v in (
                copy if isinstance(copy, Write) else copy.target, *copy.value.args)]
            begin, end = self.ends or ("", f"w{self.digit[item.axis]}")
            args.insert(2, f"{end} - {begin}" if begin else end)
            return f"{function}({', '.join(args)})"
        x, y, *near = copy.value.args
        k, by = self.digit[item.axis], item.axis in y.axes
        function = "elemc_quotients" if near else f"elemc_{copy.value.op.name}"
        function += "_by" if by else ""
        self.externs[function] = None
        ends = [self.block_at(v, item.axis) for v in (
            copy if isinstance(copy, Write) else copy.target, x)]
        divisors = [self.block_at(v, item.axis) if by else self.text(v) for v in (y, *near)]
        last = ["DIVIDES"] if near else []
        return f"{function}({', '.join([*ends, f'w{k}', *divisors, *last])})"

    def block_at(self, place: Value | Write, axis: str) -> str:
        """Where a block along an axis begins."""
        begin = f"(b{self.digit[axis]} + at)" if self.ends else f"b{self.digit[axis]}"
        if isinstance(place, (Load, Write)):
            if isinstance(place, Write) and self.line.get(place.operand) == axis:
                return f"{self.kernel.operands[place.operand].name}_line"
            use = self.use(place.operand, place.access, written=isinstance(place, Write))
            return self.address(use, axis, begin)
        assert isinstance(place, Element)
        if place.at == axis and not place.dims:
            whole = self.ends and place.name not in self.staged
            array = self.of_turn(place.name)
            return f"&{array}[at]" if whole else array
        before, self.instead = self.instead, {**self.instead, axis: begin}
        text, self.instead = self.text(place), before
        return f"&{text}"

    def halves(self, item: Loop) -> str:
        """The call that converts a block of float16 to floats, or these to float16."""
        here, there, out = _ends(item)
        function = "elemc_halves_of_floats" if out else "elemc_floats_of_halves"
        self.externs[function] = None
        ends = [self.block_at(v, item.axis) for v in ((there, here) if out else (here, there))]
        return f"{function}({', '.join(ends)}, w{self.digit[item.axis]})"

    def tiles(self, item: Loop, start: str, stop: str) -> dict[str, Any]:
        """A loop over one side of tiles."""
        k, around = self.digit[item.axis], self.within
        names = ("from", "to") if item.axis in around else ("begin", "end")  # in a chunk of it
        begin, end = (f"{name}{k}" for name in names)
        self.within = {**around, item.axis: (begin, end)}
        begins, self.tile_begins = self.tile_begins, {**self.tile_begins, item.axis: begin}
        body = self.body(item.body)
        self.within, self.tile_begins = around, begins
        tiles = [s for loop in item.body if isinstance(loop, Loop) and loop.kind == "tiles"
                 for s in loop.body if isinstance(s, Local) and s.tile]
        if tiles:
            size = max(t.dtype.itemsize for t in tiles)
            side = min(TILE_BYTES // size, math.isqrt(TILES_BYTES // (len(tiles) * size)))
            # one size for all tiles of a kernel
            self.tile = min(self.tile, 1 << side.bit_length() - 1)
            self.pad = min(self.pad, PAD_BYTES // size)
        copied = [t.name.removesuffix("_tile") for t in tiles]
        return {"kind": "tiles", "begin": begin, "end": end, "start": start, "stop": stop,
                "body": body, "copied": copied}

    def turning(self, item: Loop) -> dict[str, Any]:
        """In a loop over rows: what copies as many as TURN of them, this one and the next."""
        k, around = self.digit[item.axis], self.within
        [copy] = (s for s in statements(item.body) if isinstance(s, Assign))
        assert isinstance(copy.target, Element)
        self.need_strip("TURN", copy.target.dtype.itemsize)
        start, stop = self.shares.get(item.axis) or self.bounds(item.axis)
        self.within = {**around, item.axis: (f"from{k}", f"to{k}")}
        body = self.body(item.body)
        self.within = around
        return {"kind": "turning", "var": self.var(item.axis), "begin": f"from{k}", "end": f"to{k}",
                "start": start, "stop": stop, "body": body, "buffer": copy.target.name}

    def turned(self, item: Loop) -> str:
        """The call that copies lines that lie across; "" if their elements need conversion."""
        here, there, out = _ends(item)
        operand = self.kernel.operands[there.operand]
        guarded = isinstance(there, Load) and there.guard
        if not operand.squares or guarded or operand.dtype != here.dtype:
            return ""
        function = f"elemc_turn_{8 * here.dtype.itemsize}"
        self.externs[function] = None
        [line] = (s.axis for s in item.body if isinstance(s, Loop))
        k = self.digit[item.axis]
        start, lines = self.span(item.axis) if item.kind == "turned" else (f"b{k}", f"w{k}")
        begin, length = self.span(line)
        before, self.instead = self.instead, {**self.instead, item.axis: start, line: begin}
        use = self.use(there.operand, there.access, written=out)
        own = self.own_lines(here)
        other = f"{use.base}_p + {self.offset(use)}, {self.stride(use, item.axis)}"
        self.instead = before
        if out:
            return f"{function}({other}, {own}, {lines}, {length})"
        return f"{function}({own}, {other}, {length}, {lines})"

    def own_lines(self, here: Element) -> str:
        """Where the lines that are turned lie in an array of the kernel, and how far apart."""
        size = here.dtype.itemsize
        if here.at == "tile":
            return f"&{here.name}[0][0], (TILE + PAD) * {size}"
        if here.at == "turn":
            row = " * ".join(map(self.extent, here.dims[1:]))
            return f"&{self.text(here)}, {row} * {size}"
        return f"{here.name}, {self.strip} * {size}"

    def span(self, axis: str) -> tuple[str, str]:
        """Where a loop over an axis starts, and how many turns it takes."""
        begin, end = self.bounds(axis)
        return begin, turns(begin, end)

    def in_two(self, item: Parted, begin: str, end: str) -> dict[str, Any]:
        """A loop in two, if all that it reads is there for most of it: between the ends, and these.

        The ends are a few elements.
        """
        k, around, [loop] = self.digit[item.axis], self.within.copy(), item.body
        start, stop = self.within[item.axis] = (begin, end) if item.shared else (
            self.bounds(item.axis))
        view: dict[str, Any] = {
            "kind": "parted", "var": f"i{k}", "low": f"low{k}", "high": f"high{k}", "start": start,
            "stop": stop, "turns": grouped(turns(start, stop)),
            "terms": [(self.affine(replace(at.affine, terms=()).scaled(-1))[0], self.text(of))
                      for at, of in item.terms],
            "rows": " & ".join(map(self.text, item.rows)), "body": self.body([loop]),
            "ends": self.one_by_one(bodies(loop)[0])}
        self.within[item.axis] = view["low"], view["high"]
        view["free"] = self.body(item.free)
        self.within = around
        return view


def _ends(item: Loop) -> tuple[Element, Load | Write, bool]:
    """What a loop that copies has here, its other end in memory, and whether that is an output."""
    [copy] = (s for s in statements([item]) if isinstance(s, (Assign, Write)))
    here, there = (copy.value, copy) if isinstance(copy, Write) else (copy.target, copy.value)
    assert isinstance(here, Element) and isinstance(there, (Load, Write))
    return here, there, isinstance(copy, Write)
