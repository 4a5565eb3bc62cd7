"""Which values are known where, and how the others are computed from them.

A scope is one C block.  It names values that are used more than once, every element that is
loaded, and pieces of long expressions; all else is written in place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from .cost import is_mask_of
from .nest import Assign, Check, If, Let, Local, Loop, Statement
from .nest_leaves import Element, Named
from .ops import helper_externs
from .values import (
    SELECT,
    Convert,
    Extent,
    Fold,
    Literal,
    Load,
    Op,
    Value,
    over_new,
    walk,
)

LONGEST = 6  # operations in one expression
CONDITIONAL = ("where", "logical_and", "logical_or")  # C evaluates but the first of their operands


class Overwritten(Exception):
    """What waited in an output is needed, but `by`, or its own store, was stored over it."""

    def __init__(self, lost: Value, by: Value | None) -> None:
        super().__init__(lost, by)
        self.lost, self.by = lost, by


class Scope:
    """The values known in a block, and the statements of its body."""

    def __init__(self, fresh: Callable[[str], str], buffered: dict[Value, Value],
                 gone: Mapping[Value, Value | None], load_name: Callable[[Load], str],
                 body: list[Statement] | None = None, parent: Scope | None = None) -> None:
        self.fresh, self.buffered, self.gone, self.load_name = fresh, buffered, gone, load_name
        self.body: list[Statement] = [] if body is None else body
        self.known: dict[Value, Value] = dict(parent.known) if parent else {}
        self.taken: set[str] = set(parent.taken) if parent else set()

    def inside(self, body: list[Statement]) -> Scope:
        """The scope of a block within this one."""
        return Scope(self.fresh, self.buffered, self.gone, self.load_name, body, self)

    def side(self, condition: Value, holds: bool) -> Scope:
        """The scope of a block for which a condition has to hold, or to fail."""
        [condition] = self.values([condition], name_all=True).values()
        last = self.body[-1] if self.body else None
        if not isinstance(last, If) or last.condition is not condition:
            last = If(condition, [], [])
            self.body.append(last)
        return self.inside(last.body if holds else last.rest)

    def name(self, kind: str) -> str:
        """A name that no enclosing block uses."""
        number, name = 1, kind
        while name in self.taken:
            number, name = number + 1, f"{kind}{number + 1}"
        self.taken.add(name)
        return name

    def temporary(self) -> str:
        """t0, t1, ..."""
        number = 0
        while f"t{number}" in self.taken:
            number += 1
        self.taken.add(f"t{number}")
        return f"t{number}"

    def find(self, value: Value) -> Value | None:
        """How a value that is known here is written."""
        return self.known.get(value, self.buffered.get(value))

    def let(self, value: Value, name: str | None = None) -> Named:
        """`value`, computed here once."""
        name = name or self.temporary()
        self.body.append(Let(name, value))
        return Named(value.axes, value.dtype, name)

    def bind(self, fold: Fold, result: Value, kind: str) -> None:
        """The result of a fold, in a variable."""
        if not isinstance(result, Named):
            result = self.let(result, self.fresh(kind))
        self.known[fold] = result

    def value(self, value: Value) -> Value:
        """`value`, computed here."""
        return self.values([value])[value]

    def values(self, wanted: Iterable[Value], name_all: bool = False) -> dict[Value, Value]:
        """`wanted`, computed here; named if `name_all` or used more than once."""
        wanted = list(wanted)
        order, uses = self._plan(wanted)
        chosen = _chosen(order)
        made: dict[Value, Value] = {}
        size: dict[Value, int] = {}
        for value in order:
            known = self.find(value)
            if known is not None:
                made[value], size[value] = known, 0
                continue
            assert not isinstance(value, Fold), f"fold {value.program.name} is used before its loop"
            fault = isinstance(value, Op) and value.op.fault(_dtypes(value))
            if fault or isinstance(value, Op) and value.op is SELECT:
                name = self._simple if fault else self._called  # on one side that is no vector code
                for arg in value.args:
                    made[arg] = name(made[arg])
                    size[arg] *= not isinstance(made[arg], Named)
            new = over_new(value, made)
            size[value] = 1 + sum(size[a] for a in value.args)
            if fault:
                self.body.append(Check(new))
            if isinstance(value, Load):
                if uses[value] and (uses[value] > 1 or name_all or value in chosen):
                    new = self.let(value, self.name(self.load_name(value)))
            elif not _trivial(value) and (uses[value] > 1 or name_all and value in wanted):
                new = self.let(new)
            elif size[value] > LONGEST and value not in wanted:
                new = self.let(new)
            # what is wanted is named where it goes; arguments that it has twice are named already
            while size[value] > LONGEST and not isinstance(new, Named):
                longest = max(value.args, key=size.__getitem__)
                self.known[longest] = made[longest] = self.let(made[longest])
                size[value], size[longest] = size[value] - size[longest], 0
                new = over_new(value, made)
            if isinstance(new, Named):
                self.known[value], size[value] = new, 0
            made[value] = new
        return {v: made[v] for v in wanted}

    def _simple(self, value: Value) -> Value:
        """`value` as something that may be written twice."""
        return value if isinstance(value, (Named, Element, Literal)) else self.let(value)

    def _called(self, value: Value) -> Value:
        """`value`, named if it calls a function of the math library."""
        for v in walk([value]):
            if isinstance(v, Op):
                code = v.op.code(_dtypes(v), v.dtype)
                if code.externs or any(map(helper_externs, code.helpers)):
                    return self.let(value)
        return value

    def _plan(self, wanted: Iterable[Value]) -> tuple[list[Value], Counter[Value]]:
        """What has to be computed, arguments first, and how often each value is written."""
        uses: Counter[Value] = Counter()
        done: dict[Value, None] = {}
        stack = []
        for value in reversed(list(wanted)):
            uses[value] += 1
            stack.append((value, False))
        while stack:
            value, ready = stack.pop()
            if value in done:
                continue
            if ready and value in self.gone:  # what came first, for arguments do
                raise Overwritten(value, self.gone[value])
            if ready or self.find(value) is not None:
                done[value] = None
                continue
            stack.append((value, True))
            if isinstance(value, Fold):
                continue
            for arg, times in zip(value.args, _times_written(value), strict=True):
                uses[arg] += times
            stack.extend((a, False) for a in reversed(value.args))
        return list(done), uses

    def hoist(self, wanted: Iterable[Value], bound: frozenset[str], strip: str | None) -> None:
        """Compute here what loops inside of this block would compute again and again.

        What choices would load from buffers, under masks, has a name.
        """
        fixed = self.invariant(wanted, bound)
        chosen = _chosen(walk(wanted, lambda v: self.find(v) is not None))
        self.known |= {v: self.let(place, self.name(f"{place.name}_v")) for v in fixed
                       if v in chosen and isinstance(place := self.find(v), Element)}
        self.values(fixed, name_all=True)
        if strip is None:
            return
        self.rows([v for v in self.invariant(wanted, bound | {strip})
                   if strip in v.axes and self.find(v) is None
                   and not isinstance(_stripped(v), Load) and not is_mask_of(v, self.find)], strip)

    def rows(self, rows: Sequence[Value], axis: str, length: int = 0) -> None:
        """Compute values along a strip of an axis, or all its `length`, for loops that follow."""
        if not rows:
            return
        loop = Loop(axis, "plain" if length else "lane", [], independent=True)
        inside = self.inside(loop.body)
        made = inside.values(rows)
        for row in rows:
            name = self.fresh("row")
            target = (Element(row.axes, row.dtype, name, (axis,)) if length else
                      Element(row.axes, row.dtype, name, at=axis))
            self.body.append(Local(name, row.dtype, not length, length=length))
            loop.body.append(Assign(target, made[row]))
            self.known[row] = target
        self.body.append(loop)

    def invariant(self, wanted: Iterable[Value], bound: frozenset[str]) -> list[Value]:
        """The largest values below `wanted` that depend on `bound` and on known folds alone."""
        fixed: dict[Value, bool] = {}
        found: dict[Value, None] = {}
        stack = [(v, False) for v in wanted]
        wanted = [v for v, _ in stack]
        order: list[Value] = []
        while stack:
            value, ready = stack.pop()
            if value in fixed and not ready:
                continue
            if ready:
                order.append(value)
                fixed[value] = (value.axes <= bound and not isinstance(value, Fold)
                                and all(fixed[a] for a in value.args))
                continue
            fixed[value] = False
            if self.find(value) is not None:
                fixed[value] = value.axes <= bound
                continue
            stack.append((value, True))
            stack.extend((a, False) for a in value.args)
        for value in order:
            if not fixed[value]:
                found.update((a, None) for a in value.args if fixed[a])
        found.update((v, None) for v in wanted if fixed[v])
        return [v for v in found if not _trivial(v) and (
            (place := self.find(v)) is None or isinstance(place, Element))]


def _chosen(values: Iterable[Value]) -> set[Value]:
    """What conditional expressions load: without names, it would be loaded under masks.

    A masked load of what nothing has written yet is slow, every time.
    """
    sides = (a for v in values if isinstance(v, Op) and v.op.name in CONDITIONAL
             for a in v.operands[1:])
    return {v for v in walk(sides) if not isinstance(v, Load) or v.guard is None}


def _trivial(value: Value) -> bool:
    """Whether naming the value gains nothing."""
    return isinstance(_stripped(value), (Literal, Extent, Named, Element))


def _stripped(value: Value) -> Value:
    while isinstance(value, Convert):
        value = value.arg
    return value


def _dtypes(value: Op) -> tuple[np.dtype, ...]:
    return tuple(a.dtype for a in value.operands)


def _times_written(value: Value) -> list[int]:
    """How often the C text of an operation repeats each of its arguments."""
    if not isinstance(value, Op):
        return [1] * len(value.args)
    text = value.op.code(_dtypes(value), value.dtype).text
    return [text.count(f"{{{k}}}") for k in range(len(value.args))]
