"""Loops that divide by what a row shares, or integers, by blocks for functions of the library.

What is divided is computed for a block first, unless it lies in memory, the function divides it,
and the rest of the loop takes the quotients from there; if that only stores them, it stores them.
Machines that divide quickly go through the loop as it was, where blocks would need arrays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from .blocks import QUICK, go_by_blocks, lies_along, maps
from .cnames import fresh
from .cost import DEAR, cost
from .layout import Operand
from .nest import (
    Assign,
    Element,
    If,
    Kernel,
    Let,
    Local,
    Loop,
    Named,
    Statement,
    Write,
    names_made,
    statements,
    values_of,
)
from .ops import OPS, OVER
from .quotients import divides_whole
from .repeating import with_copies
from .values import LINED, Literal, Load, Op, Specialized, Value, walk


def divide_in_blocks(kernel: Kernel, spec: Specialized) -> None:
    """Let the quotients of independent loops be made block by block, of short rows of several."""
    for phase in kernel.phases:
        joined = [id(row) for s in statements(phase.body) if isinstance(s, Loop)
                  and s.kind.removeprefix("parallel ") in ("rows", "joined rows") for row in s.body]
        taken = names_made(phase.body)
        streamed = {w.operand: s for s in statements(phase.body) if isinstance(s, Loop)
                    for w in s.lines}
        for body, loop in maps(phase.body):
            if spec.between(loop.axis)[0] < LINED and id(loop) not in joined:
                continue
            elsewhere = {k for k, by in streamed.items() if by is not loop}
            plain, at, size = replace(loop), body.index(loop), len(body)
            if cut := _Cut(loop, kernel.operands, taken, elsewhere).made():
                own = any(isinstance(s, Local) for s in cut)
                go_by_blocks(loop, body, cut, "LINE" if loop.lines else
                             "HALF_PIECE" if own else "PIECE")
                if own and _only_floats(cut):  # arrays cost more than divisions that are quick
                    blocks = slice(at, at + 1 + len(body) - size)
                    body[blocks] = [If(QUICK, [plain], body[blocks])]


def _only_floats(cut: Sequence[Statement]) -> bool:
    """Whether floats are divided, and no integers, that is quick by blocks alone."""
    quotients = [v for s in statements(cut) if isinstance(s, Loop) and s.kind == "quotients"
                 for t in s.body for v in values_of(t)]
    return all(v.op is OVER for v in quotients if isinstance(v, Op))


class _Cut:
    """What a loop does, block by block."""

    def __init__(self, loop: Loop, operands: Sequence[Operand], taken: set[str],
                 streamed: Collection[int]) -> None:
        self.axis, self.operands, self.taken, self.streamed = loop.axis, operands, taken, streamed
        self.rest: list[Statement] = [*loop.body]
        self.cut: list[Statement] = []

    def made(self) -> list[Statement]:
        """The statements of a block; none if nothing is divided so."""
        while quotient := next(filter(self.goes_by_blocks, walk(
                v for s in self.rest for v in values_of(s))), None):
            assert isinstance(quotient, Op)
            args = [*map(self.meaning, quotient.args)]
            blocks = {k: self.block(v, ("dividends", "divisors")[k]) for k, v in enumerate(args[:2])
                      if self.axis in v.axes and not self.lies(v)}
            copies = self.compute(quotient, blocks) if blocks else {}
            args = [blocks.get(k, v) for k, v in enumerate(args)]
            name = "remainders" if quotient.op is OPS["remainder"] else "quotients"
            copies[quotient] = to = self.block(args[0], name)
            self.cut.append(Loop(self.axis, "quotients", [Assign(
                to, Op(quotient.axes, to.dtype, quotient.op, (*args,)))], independent=True))
            self.rest = _needed([with_copies(s, copies) for s in self.rest])
        if self.cut:
            self.finish()
        return self.cut

    def meaning(self, value: Value) -> Value:
        """What a variable of the loop is."""
        lets = (s.value for s in self.rest if isinstance(s, Let) and isinstance(value, Named)
                and s.name == value.name)
        return next(lets, value)

    def goes_by_blocks(self, value: Value) -> bool:
        """Whether this is a quotient by one number, or by what lies in memory, as its inverse.

        Integers are divided by any.
        """
        whole = divides_whole(value)
        if not (whole or isinstance(value, Op) and value.op is OVER) or (
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
            return value.at == self.axis or not value.at and value.dims[-1:] == (self.axis,)
        return isinstance(value, Load) and value.guard is None and lies_along(
            value, self.axis, value.dtype, self.operands)

    def block(self, value: Value, kind: str) -> Element:
        """An array for the values of a block."""
        name = fresh(kind, self.taken)
        self.cut.append(Local(name, value.dtype, strip=True))
        return Element(value.axes, value.dtype, name, at=self.axis)

    def compute(self, quotient: Value, blocks: Mapping[int, Element]) -> dict[Value, Value]:
        """Compute what is divided, or divides, for a block; what is dear, and needed, is kept."""
        before = _lets(self.rest, [quotient.args[k] for k in blocks])
        known = Literal(quotient.axes, quotient.dtype, quotient.dtype.type(0))  # as it will be
        after = {s.name for s in _needed([with_copies(s, {quotient: known}) for s in self.rest])
                 if isinstance(s, Let)}
        kept = {s.name: self.block(s.value, s.name) for s in before
                if s.name in after and cost(walk([s.value])) >= DEAR}
        keep = [Assign(block, Named(block.axes, block.dtype, name)) for name, block in kept.items()]
        made = [Assign(to, quotient.args[k]) for k, to in blocks.items()]
        self.cut.append(Loop(self.axis, "lane", [*before, *made, *keep], independent=True))
        return {v: kept[v.name] for s in self.rest for v in walk(values_of(s))
                if isinstance(v, Named) and v.name in kept}

    def finish(self) -> None:
        """What is left of the loop; if that stores quotients, the function does."""
        last = self.cut[-1]
        assert isinstance(last, Loop)
        match self.rest, last.body:
            case [Write() | Assign() as store], [Assign(target, value)] if (
                    store.value is target and self.stores(store, value.dtype)):
                last.body[:] = [replace(store, value=value)]
                self.cut = [s for s in self.cut if not (
                    isinstance(s, Local) and s.name == target.name)]
            case _:
                self.cut.append(Loop(self.axis, "lane", self.rest, independent=True))

    def stores(self, item: Write | Assign, dtype: np.dtype) -> bool:
        """Whether an output, or an array, takes a block as it is."""
        if isinstance(item, Assign):
            return self.lies(item.target) and item.target.dtype == dtype
        return item.operand not in self.streamed and lies_along(
            item, self.axis, dtype, self.operands)


def _needed(body: Sequence[Statement]) -> list[Statement]:
    """The statements of a loop that store something, and the lets that they need."""
    stores = [s for s in body if not isinstance(s, Let)]
    lets = _lets(body, [v for s in stores for v in values_of(s)])
    return [s for s in body if s in stores or s in lets]


def _lets(body: Sequence[Statement], values: Sequence[Value]) -> list[Let]:
    """The lets of a loop that values need, in order."""
    found: list[Let] = []
    names = {v.name for v in walk(values) if isinstance(v, Named)}
    for item in reversed(body):
        if isinstance(item, Let) and item.name in names:
            found.append(item)
            names |= {v.name for v in walk([item.value]) if isinstance(v, Named)}
    return found[::-1]
