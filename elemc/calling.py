"""Loops that go by blocks for functions of the library: those of math, and quotients.

What a function takes is computed for a block first, unless it lies in memory, the function is
called for the block, and the rest of the loop takes its results from there; if that only stores
them, the function does.  One call of many elements has its constants at hand, and waits for none of
them.  Where quotients need arrays, machines that divide quickly go through the loop as it was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from .blocks import QUICK, by_blocks, lies_along, maps, maps_of_parts, of_many
from .cnames import fresh
from .cost import DEAR, cost
from .layout import Operand
from .mathlib import WHOLE
from .nest import (
    Assign,
    If,
    Kernel,
    Let,
    Local,
    Loop,
    Phase,
    Statement,
    Write,
    names_made,
    statements,
    values_of,
)
from .nest_leaves import Element, Named
from .ops import OPS, OVER
from .quotients import divides_whole
from .repeating import with_copies
from .values import LINED, Literal, Load, Op, Specialized, Value, walk


def call_in_blocks(kernel: Kernel, spec: Specialized) -> None:
    """Let what the library computes in independent loops be made block by block."""
    for phase in kernel.phases:
        taken = names_made(phase.body)
        streamed = {w.operand: s for s in statements(phase.body) if isinstance(s, Loop)
                    for w in s.lines}
        for body, loop in _long_maps(phase, spec):
            elsewhere = {k for k, by in streamed.items() if by is not loop}
            at, names = body.index(loop), {*taken}
            new = _Cut(loop, kernel.operands, taken, elsewhere).made()
            if _divides_from_arrays(new):  # these cost more than divisions that are quick
                plain = _Cut(loop, kernel.operands, names, elsewhere, divides=False).made()
                new = [If(QUICK, plain, new)]
            body[at:at + 1] = new
        for parts, loop in maps_of_parts(phase.body):  # which are too short for quotients
            new = _Cut(loop, kernel.operands, taken, streamed, divides=False).made()
            if len(parts.body) == 1 and not parts.ahead and _takes_operands(new):
                parts.length = "HALF_PIECE"
            at = parts.body.index(loop)
            parts.body[at:at + 1] = new


def _long_maps(phase: Phase, spec: Specialized) -> Iterator[tuple[list[Statement], Loop]]:
    """Loops of long rows, of short ones that are joined, of chunks and a phase's own axis."""
    joined = [id(row) for s in statements(phase.body) if isinstance(s, Loop)
              and s.kind in ("rows", "joined rows") for row in s.body]
    for body, loop in maps(phase.body):
        own = loop.kind == "lane" or loop.axis == phase.axis or any(
            isinstance(s, Assign) and isinstance(s.target, Element) and s.target.at == "chunk"
            for s in loop.body)
        if id(loop) in joined or spec.between(loop.axis)[0] >= LINED or own and any(
                map(of_many, walk(v for s in loop.body for v in values_of(s)))):
            yield body, loop


def _takes_operands(cut: Sequence[Statement]) -> bool:
    """Whether functions are called, and nothing is computed for them before."""
    kinds = [s.kind for s in cut if isinstance(s, Loop)]
    called = kinds.count("called")
    return called > 0 and all(kind == "called" for kind in kinds[:called])


def _divides_from_arrays(cut: Sequence[Statement]) -> bool:
    """Whether floats are divided that do not lie in memory, and no integers: these gain by it."""
    called = [v.op for s in statements(cut) if isinstance(s, Loop) and s.kind == "called"
              for t in s.body for v in values_of(t) if isinstance(v, Op)]
    return OVER in called and any(isinstance(s, Local) for s in statements(cut)) and not any(
        op.name in WHOLE for op in called)


class _Cut:
    """What a loop does, block by block."""

    def __init__(self, loop: Loop, operands: Sequence[Operand], taken: set[str],
                 streamed: Collection[int], divides: bool = True) -> None:
        self.loop, self.axis, self.operands = loop, loop.axis, operands
        self.taken, self.streamed, self.divides = taken, streamed, divides
        self.rest: list[Statement] = [*loop.body]
        self.cut: list[Statement] = []
        self.blocks: list[tuple[str, Element]] = []  # and what they are for
        self.free: list[tuple[str, Element]] = []  # which nothing reads any more

    def made(self) -> list[Statement]:
        """What stands in place of the loop; it, if nothing is called for a block."""
        while calls := self.ready():
            used = _arrays(self.rest)
            self.free = [(kind, block) for kind, block in self.blocks if block.name not in used]
            args = {call: [*map(self.meaning, call.args)] for call in calls}
            last = {value: (call, k) for call in calls for k, value in enumerate(args[call][:2])}
            taken = {value: self.block(call, _names(call)[k]) for value, (call, k) in last.items()
                     if self.axis in value.axes and not self.lies(value)}
            made = {taken[value]: call.args[k] for value, (call, k) in last.items()
                    if value in taken}
            copies: dict[Value, Element] = self.compute(calls, made) if made else {}
            kept = {*copies.values()}
            for call in calls:
                given = [taken.get(value, value) for value in args[call]]
                to = taken.get(args[call][0]) if of_many(call) else None  # is written over
                if to is None or to in kept or last[args[call][0]][0] is not call:
                    to = self.block(call, _names(call)[-1])
                copies[call] = to
                self.cut.append(Loop(self.axis, "called", [Assign(
                    to, Op(call.axes, to.dtype, call.op, (*given,)))], independent=True))
            self.rest = _needed([with_copies(s, copies) for s in self.rest])
        if not self.cut:
            return [self.loop]
        self.finish()
        own = any(isinstance(s, Local) for s in self.cut)
        return by_blocks(self.loop, self.cut, "LINE" if self.loop.lines else
                         "HALF_PIECE" if own else "PIECE")

    def ready(self) -> list[Op]:
        """The calls that wait for no other, nor for a state that the loop goes on with."""
        found: dict[Op, None] = {}
        late: set[Value] = set()
        names: set[str] = set()  # of variables that wait, and of states
        for item in self.rest:
            for value in walk(values_of(item)):
                waits = not late.isdisjoint(value.args) or (
                    isinstance(value, (Named, Element)) and value.name in names)
                if self.goes_by_blocks(value) and isinstance(value, Op):
                    if not waits:
                        found[value] = None
                    waits = True
                if waits:
                    late.add(value)
            if isinstance(item, Let) and item.value in late:
                names.add(item.name)
            elif isinstance(item, Assign):
                names.add(item.target.name)
        return [*found]

    def meaning(self, value: Value) -> Value:
        """What a variable of the loop is."""
        lets = (s.value for s in self.rest if isinstance(s, Let) and isinstance(value, Named)
                and s.name == value.name)
        return next(lets, value)

    def goes_by_blocks(self, value: Value) -> bool:
        """Whether the library has a function for this, or this is a quotient by one number.

        Or by what lies in memory, as its inverse.  Integers are divided by any.
        """
        if of_many(value):
            return self.axis in value.axes
        whole = divides_whole(value)
        if not self.divides or not (whole or isinstance(value, Op) and value.op is OVER) or (
                self.axis not in value.args[0].axes):
            return False
        by = [*map(self.meaning, value.args[1:])]
        if self.axis in by[0].axes:
            return whole or all(map(self.lies, by))
        return names_made(self.rest).isdisjoint(
            v.name for v in walk(by) if isinstance(v, (Named, Element)))

    def lies(self, value: Value) -> bool:
        """Whether a value lies in memory as a block does."""
        if isinstance(value, Element):
            if value.dims:  # a buffer, but of rows of strips
                return value.at in (None, "chunk") and value.dims[-1] == self.axis
            return value.at == self.axis
        return isinstance(value, Load) and value.guard is None and lies_along(
            value, self.axis, value.dtype, self.operands)

    def block(self, value: Value, kind: str) -> Element:
        """An array for the values of a block: one of its kind that is free, or a new one."""
        again = next((b for b in self.free if b[0] == kind and b[1].dtype == value.dtype), None)
        if again:
            self.free.remove(again)
            return replace(again[1], axes=value.axes)
        name = fresh(kind, self.taken)
        self.cut.append(Local(name, value.dtype, strip=True))
        block = Element(value.axes, value.dtype, name, at=self.axis)
        self.blocks.append((kind, block))
        return block

    def compute(self, calls: Sequence[Op], taken: Mapping[Element, Value]) -> dict[Value, Element]:
        """Compute what functions take for a block; what is dear, and needed later, is kept.

        There, if a function takes it.
        """
        made = [Assign(to, value) for to, value in taken.items()]
        before = _lets(self.rest, [*taken.values()])
        known: dict[Value, Value] = {  # as they will be
            call: Literal(call.axes, call.dtype, call.dtype.type(0)) for call in calls}
        after = {s.name for s in _needed([with_copies(s, known) for s in self.rest])
                 if isinstance(s, Let)}
        kept: dict[str, Element] = {}
        there = {value.name: to for to, value in taken.items() if isinstance(value, Named)}
        price: dict[str, int] = {}  # of computing again what is not kept
        for item in before:
            below = walk([item.value])
            again = cost(below) + sum(price.get(v.name, 0) for v in below if isinstance(v, Named))
            if again >= DEAR and item.name in after:
                kept[item.name] = there.get(item.name) or self.block(item.value, "kept")
            else:
                price[item.name] = again
        keep = [Assign(block, Named(block.axes, block.dtype, name)) for name, block in kept.items()
                if name not in there]
        self.cut.append(Loop(self.axis, "lane", [*before, *made, *keep], independent=True))
        return {v: kept[v.name] for s in self.rest for v in walk(values_of(s))
                if isinstance(v, Named) and v.name in kept}

    def finish(self) -> None:
        """What is left of the loop; if that stores what a function gives, the function does."""
        calls = {s.target.name: (loop, s) for loop in self.cut if isinstance(loop, Loop)
                 and loop.kind == "called" for s in loop.body if isinstance(s, Assign)}
        alone = len(self.rest) == 1  # an output may be an operand that is read later
        used = [v.name for s in self.rest for v in walk(values_of(s)[-1:])
                if isinstance(v, (Named, Element))]
        for store in [*self.rest]:
            if isinstance(store, (Write, Assign)) and isinstance(store.value, Element) and (
                    found := calls.get(store.value.name)) and self.stores(
                        store, store.value.dtype, alone) and used.count(store.value.name) == 1 and (
                            isinstance(store, Write) or store.target.name not in used):
                loop, assign = found
                loop.body[:] = [replace(store, value=assign.value)]
                self.rest.remove(store)
                if isinstance(store, Assign):
                    self.move(store.value, store.target)
        read = _arrays([*statements(self.cut), *self.rest])
        self.cut = [s for s in self.cut if not isinstance(s, Local) or s.name in read]
        if self.rest:
            self.cut.append(Loop(self.axis, "lane", self.rest, independent=True))

    def move(self, block: Element, there: Named | Element) -> None:
        """Let what a function takes lie where it puts its results, if nothing else does."""
        read = {v.name for s in statements(self.cut) for v in walk(values_of(s)[-1:])
                if isinstance(v, (Named, Element))}
        for loop in self.cut if there.name not in read else ():
            if isinstance(loop, Loop):
                loop.body[:] = [
                    replace(moved, target=there) if isinstance(moved, Assign)
                    and moved.target is block else moved
                    for moved in (with_copies(s, {block: there}) for s in loop.body)]

    def stores(self, item: Write | Assign, dtype: np.dtype, alone: bool) -> bool:
        """Whether an output, or an array, takes a block as it is."""
        if isinstance(item, Assign):
            return self.lies(item.target) and item.target.dtype == dtype
        return alone and item.operand not in self.streamed and lies_along(
            item, self.axis, dtype, self.operands)


def _names(call: Op) -> tuple[str, ...]:
    """What the arrays of the arguments of a call, and of its results, are called."""
    if of_many(call):
        return f"{call.op.name}_block", "", f"{call.op.name}_block"
    return "dividends", "divisors", (
        "remainders" if call.op is OPS["remainder"] else "quotients")


def _arrays(body: Sequence[Statement]) -> set[str]:
    """The arrays that statements, but for those within them, read or assign."""
    return {v.name for s in body for v in walk(values_of(s)) if isinstance(v, Element)}


def _needed(body: Sequence[Statement]) -> list[Statement]:
    """The statements of a loop that store something, and the lets that they need."""
    stores = [s for s in body if not isinstance(s, Let)]
    lets = _lets(body, [v for s in stores for v in values_of(s)])
    needed = {*map(id, (*stores, *lets))}
    return [s for s in body if id(s) in needed]


def _lets(body: Sequence[Statement], values: Sequence[Value]) -> list[Let]:
    """The lets of a loop that values need, in order."""
    found: list[Let] = []
    names = {v.name for v in walk(values) if isinstance(v, Named)}
    for item in reversed(body):
        if isinstance(item, Let) and item.name in names:
            found.append(item)
            names |= {v.name for v in walk([item.value]) if isinstance(v, Named)}
    return found[::-1]
