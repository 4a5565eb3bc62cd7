"""From the statements of loop nests to what the templates lay out: words and expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from . import ops
from .blocks import QUICK
from .cost import calls
from .dtypes import ctype
from .fetching import axes_within
from .jamming import ROWS_IN_TURN
from .nest import (
    CHOICES,
    ROWS,
    Assign,
    Blocks,
    Check,
    If,
    Kernel,
    LaneLoop,
    Let,
    Local,
    Loop,
    Parted,
    Repeat,
    Statement,
    Write,
    statements,
    values_of,
)
from .nest_leaves import Element, Named
from .row_ends import lanes_in_vector, turns
from .row_loops import RowLoops
from .specialize import LINE_BYTES
from .values import BLOCK, SHORT, VECTOR, At, Load, Op, walk

UNITS = {BLOCK: "BLOCK", ROWS: "ROWS"}
# Lengths of rows in which gcc 12, once it unrolled them, finds no vectors; of guards, wrong ones.
ROLLED = {str(n) for n in range(5, SHORT + 1)}
UNEVEN = {str(n) for n in range(3, SHORT) if n & (n - 1)}


class Statements(RowLoops):
    """Writes the statements of one kernel, and notes what they need declared."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.checks = False
        self.streamed: dict[str, str] = {}  # outputs that go past the caches, and their C types
        self.line_length = LINE_BYTES
        self.parted = ""  # the name of the length of the parts of a strip

    def rolled(self, item: Loop) -> bool:
        """Whether a loop over a short row has to stay one, until gcc makes vectors of it.

        Unrolled, most lengths give it none, and so do the 16 elements of a longer one that are left
        when its end has vectors of its own; but 8 do, unless a strip calls functions.  A loop over
        8 neighbours gives better ones, if it is the row's only one and fills a register, or half
        without calls.  Folds that wait for each other have vectors of several rows, guards wrong.
        """
        length = self.known(item.axis)
        values = walk(v for s in item.body for v in values_of(s))
        guards = {v.guard for v in values if isinstance(v, (At, Load)) and v.guard}
        if guards and (length in UNEVEN or length == "4" and len(guards) > 1):
            return True
        if self.vectors_of_rows(item.axis, length) and not calls(values):
            return False
        if length and int(length) > SHORT and calls(values):  # the end of the row is not its own
            length = str(int(length) - int(length) % lanes_in_vector(values))
        chooses = any(isinstance(v, Op) and v.op.name in CHOICES for v in values)
        filled = item.independent and any(isinstance(s, Assign) for s in item.body) and not chooses
        filled |= any(isinstance(v, Element) for v in values)  # a buffer, of one row at a time
        if length != "8" or calls(values) and (item.kind == "lane" or filled):
            return length in ROLLED
        loops = [s for phase in self.kernel.phases for s in statements(phase.body)
                 if isinstance(s, (Loop, LaneLoop, Blocks)) and s.axis == item.axis]
        places = [(v.operand, v.access) for v in (*values, *item.body)
                  if isinstance(v, (Load, Write))]
        sizes = {k: operand.dtype.itemsize for k, operand in enumerate(self.kernel.operands)}
        return len(loops) == 1 and min(sizes.values()) >= (8 if calls(values) else 4) and all(
            self.known_stride(k, access, item.axis) in (0, sizes[k], -sizes[k])
            for k, access in places)

    def vectors_of_rows(self, axis: str, length: str | None) -> bool:
        """Whether gcc makes vectors of several rows: of two folds of up to 7 elements."""
        folds = [f for phase in self.kernel.phases for s in statements(phase.body)
                 if isinstance(s, LaneLoop) and s.axis == axis for f in s.folds]
        return length in ROLLED and int(length) < VECTOR and len(folds) > 1

    def body(self, body: Sequence[Statement]) -> list[dict[str, Any]]:
        """What the templates need to lay out statements."""
        self.fetched.update(*(s.asks for s in body if isinstance(s, (Loop, LaneLoop))))
        return [self.statement(s) for s in body]

    def statement(self, item: Statement, begin: str = "0", end: str = "") -> dict[str, Any]:
        """What the templates need to lay out one statement."""
        match item:
            case Let():
                value = item.value
                if isinstance(value, Load) and value.dtype == bool and item.name in self.numbers:
                    text = self.truth(value)
                else:
                    text = self.text(value)
                return {"kind": "let", "name": item.name, "type": self.type(value.dtype),
                        "value": text}
            case Local():
                strip = self.parted or self.strip
                if item.strip and strip != "LINE":
                    self.need_strip(strip, item.dtype.itemsize, times=self.wide)
                self.staged = {*self.staged, item.name} if item.strip and self.ends else (
                    self.staged - {item.name})
                size = (f"[{strip}]" if item.strip else "[TILE][TILE + PAD]" if item.tile
                        else f"[{UNITS.get(item.length, item.length)}]" if item.length
                        else f"[PACK * {item.rows}]" if item.rows else "")
                return {"kind": "local", "name": item.name + size, "array": bool(size),
                        "type": self.type(item.dtype)}
            case Assign():
                self.target = item.target.name
                made = {"kind": "assign", "target": self.text(item.target),
                        "value": self.text(item.value, item.stored),
                        "type": self.type(item.target.dtype)}
                self.target = ""
                return made
            case Check():
                return self.check(item)
            case Write():
                return self.write(item)
            case If():
                view = {"kind": "if", "condition": self.text(item.condition),
                        "body": [self.statement(s, begin, end) for s in item.body]}
                called = self.externs
                if item.condition is QUICK:  # what follows is for machines that divide slowly
                    self.externs = self.slow_externs
                view["rest"] = [self.statement(s, begin, end) for s in item.rest]
                self.externs = called
                return view
            case Repeat():
                return self.repeat(item)
            case Parted():
                return self.in_two(item, begin, end)
            case Loop():
                return self.loop(item, begin, end)
            case LaneLoop():
                return self.lane_loop(item)
            case Blocks():
                return self.blocks(item)

    def check(self, item: Check) -> dict[str, Any]:
        """A test for arguments that are an error."""
        assert isinstance(item.value, Op)
        self.checks = True
        fault = item.value.op.fault(tuple(a.dtype for a in item.value.operands))
        assert fault is not None
        return {"kind": "check", "status": fault.status,
                "value": fault.condition.format(*map(self.text, item.value.operands))}

    def write(self, item: Write) -> dict[str, Any]:
        """A store; mode "add" adds the value, rounded to the output's dtype."""
        operand = self.kernel.operands[item.operand]
        block = self.line.get(item.operand)
        target = self.place_in_block(item, block) if block else self.element(
            self.use(item.operand, item.access, written=True), operand)
        rounds, adds = operand.dtype == np.float16, item.mode == "add"
        old, sign = target, "="
        value = self.text(item.value, stored=rounds and not adds)
        swap = f"swap_{ctype(operand.dtype).suffix}"
        if operand.storage == "swapped":
            self.helpers[swap] = None
            old = f"{swap}({target})"
        if adds:
            if operand.dtype == np.float16:
                self.helpers["half_to_float"] = None
                old = f"half_to_float({old})"
            both = [Named(frozenset(), operand.dtype, text) for text in (old, f"({value})")]
            value = self.text(Op(frozenset(), operand.dtype, ops.OPS["add"], (*both,)), rounds)
        if operand.dtype == np.float16:
            self.helpers["float_to_half"] = None
            value = f"float_to_half({value})"
        if operand.storage == "swapped":
            value = f"{swap}({value})"
        return {"kind": "write", "target": target, "value": value, "sign": sign,
                "mask": "" if item.mask is None else self.text(item.mask)}

    def loop(self, item: Loop, begin: str, end: str) -> dict[str, Any]:
        """A loop of any kind; of a `shared` one, the indices from `begin` to `end`."""
        if item.kind in ("turned", "abreast"):
            if call := self.turned(item):
                return {"kind": "call", "text": call}
            item = replace(item, kind="lane" if item.kind == "abreast" else "plain")
        start, stop = (begin, end) if item.shared else self.bounds(item.axis)
        match item.kind:
            case "halves" | "called":
                return {"kind": "call", "text": getattr(self, item.kind)(item)}
            case "chunks":
                return self.chunks(item, start, stop)
            case "tiles":
                return self.tiles(item, start, stop)
            case "rows" | "joined rows":
                return self.rows(item, start, stop)
            case "search":
                return self.search(item, start, stop)
            case "mirrored":
                return self.mirrored(item, start, stop)
            case "parts":
                return self.parts(item)
            case "turning":
                return self.turning(item)
        return self.plain_loop(item, start, stop)

    def plain_loop(self, item: Loop, start: str, stop: str) -> dict[str, Any]:
        """A plain loop, a loop over strips, or a loop over one strip."""
        k = self.digit[item.axis]
        view: dict[str, Any] = {
            "kind": "loop", "var": f"i{k}", "start": start, "stop": stop,
            "base": f"b{k}", "width": f"w{k}", "independent": item.independent,
            "rolled": item.independent and item.axis not in self.shares and self.rolled(item),
            "reverse": item.reverse, "fetch": [], "full": "", "ones": [], "last": [],
            "to_line": "", "pair": [], "together": [], "left_start": ""}
        if item.shared:
            self.shares[item.axis] = start, stop
        around, outer, self.mentioned = self.strip, self.mentioned, set()
        if item.kind == "strip":
            view |= self.over_strips(item, k)
        fetched = set(self.fetched)
        self.line |= {w.operand: item.axis for w in item.lines}
        if item.ahead and item.kind != "lane":
            few = axes_within(item)
            view["fetch"] = self.fetches(item, start, 2, item.ahead if few else "")
            view["length"] = stop
            view["turns"] = [{"var": self.var(a), "start": first, "stop": last}
                             for a in few for first, last in (self.bounds(a),)]
        steps = self.steps(item)
        if steps:  # ends know none
            self.laned.add(item.axis)
        over = max(steps, default=0) > 0
        self.over = item.axis if over else ""
        view["body"] = self.body(item.body)
        self.over = ""
        self.strip = around
        if item.shared:
            del self.shares[item.axis]
        if item.lines:
            view |= self.lines(item, k) | {"cut": item.kind == "strip"}
        if item.kind == "lane":
            begin, end = self.ends or ("0", f"w{k}")
            view |= {"kind": "lane", "index": item.axis in self.mentioned, "begin": begin,
                     "width": end} | self.end_of_row(item, begin, end, over)
        elif item.kind == "plain" and not (item.shared or item.lines):
            view |= self.end_of_row(item, start, stop, over)
        view |= self.pair(item, view, fetched) if 1 < item.at_once < ROWS_IN_TURN else {}
        view |= self.rows_by_blocks(item, view["body"]) if item.at_once == ROWS_IN_TURN else {}
        if item.lined and not view["full"]:
            view |= self.to_line(item, start, stop)
        self.mentioned |= outer
        return view

    def over_strips(self, item: Loop, k: int) -> dict[str, Any]:
        """What is its own of a loop over strips of axis number `k`."""
        self.strip = item.length
        for buffer in (b for b in self.kernel.buffers if b.strip == self.strip):
            self.need_strip(self.strip, buffer.dtype.itemsize, 8)
        fetch = self.fetches(item, f"b{k}") if item.asks and not item.lines else []
        for *_, size in fetch:
            self.need_strip(self.strip, size)
        return {"kind": "strip", "most": self.strip, "end": f"e{k}", "fetch": fetch}

    def mirrored(self, item: Loop, start: str, stop: str) -> dict[str, Any]:
        """A part of a loop over the same axis that goes the other way."""
        k = self.digit[item.axis]
        forth, self.instead[item.axis] = self.var(item.axis), f"r{k}"
        body = self.body(item.body)
        del self.instead[item.axis]
        last = f"{stop} - 1" if start == "0" else f"{start} + {stop} - 1"
        return {"kind": "mirrored", "var": f"r{k}", "other": forth, "last": last, "body": body}

    def parts(self, item: Loop) -> dict[str, Any]:
        """A loop over parts of a strip, before each of which it asks for one of the next turn's.

        More at once than that are more than processors can ask for: these then wait.
        """
        k, self.ends, self.parted = self.digit[item.axis], ("at", "to"), item.length
        body, fetch = self.body(item.body), []
        if item.ahead:
            fetch = self.fetches(item, f"(b{k} + at)", len(self.kernel.operands), item.ahead)
        for *_, size in fetch:
            self.need_strip(item.length, size)
        self.ends, self.parted = (), ""
        return {"kind": "parts", "width": f"w{k}", "most": item.length, "fetch": fetch,
                "body": body}

    def search(self, item: Loop, start: str, stop: str) -> dict[str, Any]:
        """A loop that ends where something holds, for which some elements are looked at at once."""
        *lets, found = item.body
        assert isinstance(found, If)
        [here], [nowhere] = found.body, found.rest
        assert isinstance(here, Assign) and isinstance(nowhere, Assign)
        read = {v.dtype for v in walk(v for s in item.body for v in values_of(s))
                if isinstance(v, (Load, Element))}
        # bytes of what is compared: a float16 as a float, parts of complex numbers, places as int64
        size = max((min(8, 4 if d == np.float16 else d.itemsize) for d in read), default=8)
        holds = found.condition
        return {"kind": "search", "var": self.var(item.axis), "start": start, "stop": stop,
                "lanes": self.lanes_of(max(32, 256 // size)),
                "any": self.type(np.dtype(f"u{size}")), "type": self.type(here.target.dtype),
                "name": self.text(here.target), "nowhere": self.text(nowhere.value),
                "here": self.text(here.value), "body": self.body(lets),
                # any byte but 0 is true
                "found": self.as_stored(holds) if isinstance(holds, Load) and holds.guard is None
                else self.text(holds)}

    def chunks(self, item: Loop, begin: str, end: str) -> dict[str, Any]:
        """A loop over chunks of an axis."""
        chunks = self.kernel.chunks[item.axis]
        k = self.digit[chunks.axis]
        length = UNITS.get(chunks.unit, str(chunks.unit))
        view: dict[str, Any] = {
            "kind": "chunks", "var": self.var(item.axis), "start": begin, "stop": end,
            "of": f"i{k}", "begin": f"begin{k}", "end": f"end{k}", "length": length,
            "all": self.extent(chunks.axis), "pair": [], "left_start": ""}
        self.within[chunks.axis], fetched = (f"begin{k}", f"end{k}"), set(self.fetched)
        view["body"] = self.body(item.body)
        view |= self.pair(item, view, fetched) if item.at_once > 1 else {}
        del self.within[chunks.axis]
        return view

    def to_line(self, item: Loop, start: str, stop: str) -> dict[str, Any]:
        """Where a loop along a line goes on after what comes before the first whole one."""
        assert item.lined is not None
        use = self.use(item.lined.operand, item.lined.access, isinstance(item.lined, Write))
        size = self.kernel.operands[item.lined.operand].dtype.itemsize
        to, length = self.address(use, item.axis, start, ""), turns(start, stop)
        first = f"TO_LINE({to}, {size}, {length})"
        return {"to_line": first if start == "0" else f"{start} + {first}",
                "end": f"e{self.digit[item.axis]}"}

    def lines(self, item: Loop, k: int) -> dict[str, Any]:
        """What is written a block at a time in a loop over axis number `k`."""
        found: list[dict[str, Any]] = []
        before = self.instead
        lengths: dict[str, None] = {}  # of rows
        for write in {w.operand: w for w in item.lines}.values():
            operand = self.kernel.operands[write.operand]
            row = self.row_within(write, item.axis)
            self.instead = {**before, item.axis: f"b{k}", **({row: "0"} if row else {})}
            length = f" * {self.extent(row)}" if row else ""
            lengths |= {self.extent(row): None} if row else {}
            use = self.use(write.operand, write.access, written=True)
            self.line_length = min(self.line_length, LINE_BYTES // operand.dtype.itemsize)
            self.streamed[operand.name] = ctype(operand.dtype).storage
            size = operand.dtype.itemsize
            found.append({"output": operand.name, "to": f"{use.base}_p + {self.offset(use)}",
                          "size": size, "type": self.stored_type(operand),
                          "times": length + (f" * {size}" if size > 1 else "")})
            del self.line[write.operand]
        self.instead = before
        tiled = item.axis in self.within  # rows are short, and what lies ahead is of another tile
        view: dict[str, Any] = {
            "kind": "stream", "lines": found, "end": f"e{k}", "fetch": [], "again": [],
            "all": self.extent(item.axis), "most": "LINE", "asked": "LINE"}
        if lengths:
            most = f"LINE / {reduce(lambda a, b: f'({a} > {b} ? {a} : {b})', lengths)}"
            return view | {"most": most, "block": most, "fetch": self.of_rows(item, f"b{k}")}
        view |= {} if tiled else self.by_blocks(item, f"b{k}")
        # the next block begins with a line
        widest = max(found, key=lambda line: line["size"])
        return view | {"block": f"WHOLE_LINES({widest['to']}, {widest['size']}, {view['most']})"}

    def rows_by_blocks(self, item: Loop, body: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Several turns of a loop over rows, a block of each in turn, for what all of them read.

        Each asks for the block that follows in its row, and comes some turns later.
        """
        [row], [view] = item.body, body
        assert isinstance(row, Loop) and view["start"] == "0" and item.axis not in self.within
        k, inner = self.digit[item.axis], self.digit[row.axis]
        write = row.lines[0]  # all are as wide
        use = self.use(write.operand, write.access)
        size = self.kernel.operands[write.operand].dtype.itemsize
        ends = {name: f"{name} + NEXT_LINE({self.address(use, row.axis, name)}, {size})"
                for name in (f"c{inner}", f"j{inner}")}
        return {"kind": "rows by blocks", "begin": f"begin{k}",
                "row": view, "ends": ends, "line": 64 // size}

    def place_in_block(self, write: Write, axis: str) -> str:
        """The element of a block of what is written along an axis, or of rows along it."""
        k, row = self.digit[axis], self.row_within(write, axis)
        own = "l" if self.strip == "LINE" else f"i{k} - b{k}"
        place = f"({own}) * {self.extent(row)} + {self.var(row)}" if row else own
        return f"{self.kernel.operands[write.operand].name}_line[{place}]"

    def row_within(self, write: Write, axis: str) -> str:
        """The axis along the rows of which a block consists; "" if `axis` is along the line."""
        row = write.access[self.kernel.operands[write.operand].layout.perm[-1]].axis or ""
        return "" if row == axis else row
