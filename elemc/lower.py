"""Lowering: the elements of a closed graph's outputs as values over named loop axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from . import values
from .errors import UnsupportedError
from .graph import (
    Accumulate,
    Apply,
    Axis,
    Captured,
    Cast,
    Const,
    ExpandTo,
    Graph,
    Index,
    Input,
    Iota,
    Node,
    Only,
    Pick,
    Scan,
    Size,
)
from .graph_gradients import Custom, Scatter, SumTo
from .maps import Extents
from .ops import OPS
from .values import (
    SELECT,
    ZERO,
    Access,
    Affine,
    Extent,
    Fold,
    Literal,
    Load,
    Op,
    Operand,
    Position,
    Value,
    convert,
    initial_state,
    inline,
)

Env = tuple[Affine | None, ...]
BOOL, INDEX = np.dtype(bool), np.dtype(np.int64)


class Lowering:
    """From a closed graph and the extents that are 1 to values over named axes."""

    def __init__(self, graph: Graph, extents: Extents, ones: frozenset[int],
                 operands: Sequence[Operand]) -> None:
        self.graph, self.extents, self.ones, self.operands = graph, extents, ones, operands
        self.classes = _classes(extents.program, ones)
        self.number = {n: i for i, n in enumerate((*graph.inputs, *graph.captured))}
        self.names: dict[tuple[int, int], str] = {}
        self.axes: dict[str, tuple[int, ...]] = {}
        self.over: dict[tuple[Node, Env], tuple[str, ...]] = {}
        self.interned: dict[Any, Value] = {}

    def axis(self, extent: int, used: set[str]) -> str:
        """The first axis of the extent's class that is not in use: equal lengths share loops."""
        kind = self.classes[extent]
        ordinal = 0
        while (name := self.names.get((kind, ordinal))) in used and name is not None:
            ordinal += 1
        if name is None:
            name = self.names[kind, ordinal] = f"i{len(self.names)}"
            self.axes[name] = (kind,)
        used.add(name)
        return name

    def output_env(self, output: Node) -> Env:
        """Names for the axes of an output."""
        used: set[str] = set()
        return tuple(
            None if e in self.ones else Affine(terms=((self.axis(e, used), 1),))
            for e in self.extents.of[output])

    def values(self, outputs: Sequence[tuple[Node, Env]]) -> list[Value]:
        """The values of `outputs` at these indices.  Loops instead of recursion: any depth."""
        wanted: dict[Node, dict[Env, None]] = {}
        for node, env in outputs:
            wanted.setdefault(node, {})[env] = None
        for node in reversed(self.graph.nodes):
            for env in wanted.get(node, ()):
                for child, child_env in self.reads(node, env):
                    wanted.setdefault(child, {})[child_env] = None
        built: dict[tuple[Node, Env], Value] = {}
        for node in self.graph.nodes:
            for env in wanted.get(node, ()):
                args = [built[read] for read in self.reads(node, env)]
                built[node, env] = self.build(node, env, args)
        return [built[o] for o in outputs]

    def fit(self, node: Node, env: Env) -> tuple[Node, Env]:
        """`node` read at `env`, its axes of size 1 at 0."""
        if not node.ndim:
            return node, ()
        of = self.extents.of[node]
        return node, tuple(None if e in self.ones else a for e, a in zip(of, env, strict=True))

    def reads(self, node: Node, env: Env) -> Iterator[tuple[Node, Env]]:
        """Which elements of its arguments an element of `node` needs."""
        match node:
            case Apply():
                yield from (self.fit(arg, env) for arg in node.args)
            case Cast() | ExpandTo() | Custom():
                yield self.fit(node.arg, env)
            case Scan():
                yield from (self.fit(part, env) for part in (node.arg, *node.more))
                outside = (*env[:node.axis], *env[node.axis + 1:])
                yield from (self.fit(part, outside) for part in node.initial)
            case Index():
                at = tuple(self.form(node, d, env) for d in range(node.arg.ndim))
                yield self.fit(node.arg, at)
            case Scatter():
                yield self.fit(node.arg, self.scattered(node, env)[0])
            case SumTo():
                yield self.sum_reads(node, env)
            case Accumulate():
                yield from self.fold_reads(node, env)

    def form(self, node: Index, dim: int, env: Env) -> Affine | None:
        """How dimension `dim` of an index's argument is read."""
        form, extent = node.forms[dim], self.extents.of[node.arg][dim]
        match form:
            case Axis():
                at = env[form.axis]
                if form.full:
                    return at
                return (at or ZERO).scaled(form.step).after(self.slice(form, extent))
            case Pick():
                return Affine(starts=((1, self.extents.add(("pick", extent, form.index))),))
            case Only():
                return None

    def slice(self, form: Axis, extent: int) -> int:
        """The extent of a slice."""
        return self.extents.add(("slice", extent, form.start, form.stop, form.step))

    def scattered(self, node: Scatter, env: Env) -> tuple[Env, list[tuple[Affine, Affine | int]]]:
        """Where an element of a `Scatter` comes from; what has to hold, or it is 0.

        What has to hold are pairs: an index and the extent that it lies below, or its equal.
        """
        inner: list[Affine | None] = [None] * node.arg.ndim
        conditions: list[tuple[Affine, Affine | int]] = []
        for form, at, extent in zip(node.forms, env, self.extents.of[node.like], strict=True):
            if isinstance(form, Pick):
                if extent in self.ones:
                    continue  # the only index that there is
                picked = self.extents.add(("pick", extent, form.index))
                conditions.append((at or ZERO, Affine(starts=((1, picked),))))
            elif isinstance(form, Axis) and not form.full:
                length = self.slice(form, extent)
                index = (at or ZERO).after(length, -1).scaled(form.step)
                conditions.append((index, length))
                inner[form.axis] = replace(index, guards=(*index.guards, (index, length)))
            elif isinstance(form, Axis):
                before = inner[form.axis]
                if before is not None and at is not None:  # a diagonal
                    conditions.append((at, before))
                inner[form.axis] = at
        return tuple(inner), conditions

    def holds(self, conditions: Iterable[tuple[Affine, Affine | int]]) -> Value:
        """The conjunction of conditions as in `scattered`."""
        every: list[Value] = []
        for index, bound in conditions:
            axes = frozenset(a for a, _ in index.terms)
            position = self.make(Position, axes, INDEX, replace(index, guards=()))
            if isinstance(bound, Affine):
                other = self.make(Position, frozenset(a for a, _ in bound.terms), INDEX,
                                  replace(bound, guards=()))
                every.append(self.op("equal", BOOL, position, other))
                continue
            size = self.make(Extent, frozenset(), INDEX,
                             0 if bound in self.ones else self.classes[bound])
            unsigned = [self.convert(v, np.dtype(np.uint64)) for v in (position, size)]
            every.append(self.op("less", BOOL, *unsigned))  # negative ones are large
        return reduce(lambda a, b: self.op("logical_and", BOOL, a, b), every)

    def op(self, name: str, dtype: np.dtype, *args: Value) -> Value:
        """An operation on values."""
        axes = frozenset[str]().union(*(a.axes for a in args))
        return self.make(Op, axes, dtype, OPS[name], args)

    def sum_reads(self, node: SumTo, env: Env) -> tuple[Node, Env]:
        """The read of a sum over the axes that stretching added, at axes that `env` has not."""
        used = {axis for at in env if at is not None for axis, _ in at.terms}
        over: list[str] = []
        inner = list(env)
        pairs = zip(self.extents.of[node.like], self.extents.of[node.arg], strict=True)
        for dim, (like, extent) in enumerate(pairs):
            if like in self.ones and extent not in self.ones:
                over.append(self.axis(extent, used))
                inner[dim] = Affine(terms=((over[-1], 1),))
        self.over[node, env] = tuple(over)
        return self.fit(node.arg, tuple(inner))

    def fold_reads(self, node: Accumulate, env: Env) -> Iterator[tuple[Node, Env]]:
        """The reads of a fold, over axes that its result's index does not use."""
        used = {axis for at in env if at is not None for axis, _ in at.terms}
        rest = iter(env)
        over: list[str] = []
        inner: list[Affine | None] = []
        for dim, extent in enumerate(self.extents.of[node.arg]):
            if dim not in node.axes:
                inner.append(next(rest))
            elif extent in self.ones:
                inner.append(None)
            else:
                over.append(self.axis(extent, used))
                inner.append(Affine(terms=((over[-1], 1),)))
        self.over[node, env] = tuple(over)
        yield self.fit(node.arg, tuple(inner))
        if node.initial is not None:
            yield self.fit(node.initial, env)
        if node.where is not None:
            yield self.fit(node.where, tuple(inner))

    def build(self, node: Node, env: Env, args: list[Value]) -> Value:
        """The value of an element of `node`."""
        axes = frozenset[str]().union(*(a.axes for a in args))
        assert node.dtype is not None
        match node:
            case Input() | Captured():
                return self.load(self.number[node], tuple(a or ZERO for a in env), node.dtype)
            case Const():
                return self.make(Literal, axes, node.dtype, node.bits, value=node.value)
            case Size():
                extent = self.extents.of[node.arg][node.dim]
                return self.make(Extent, axes, node.dtype, self.classes[extent] if extent not in
                                 self.ones else 0)
            case Iota():
                at = replace(env[0] or ZERO, guards=())
                return self.make(Position, frozenset(a for a, _ in at.terms), node.dtype, at)
            case Cast():
                return self.convert(args[0], node.dtype)
            case Apply():
                if node.op.name == "multiply" and node.dtype.kind in "iuf":  # x*1 is x
                    for one, other in (args, args[::-1]):
                        if isinstance(one, Literal) and one.value == 1:
                            return other
                return self.make(Op, axes, node.dtype, node.op, tuple(args))
            case Scatter():
                conditions = self.scattered(node, env)[1]
                if not conditions:
                    return args[0]
                zero = self.make(Literal, frozenset(), node.dtype, b"", value=node.dtype.type(0))
                return self.op("where", node.dtype, self.holds(conditions), args[0], zero)
            case SumTo():
                arg = self.convert(args[0], node.program.value)
                over = self.over[node, env]
                if not over:
                    return args[0]
                return self.make(Fold, axes - {*over}, node.program.dtype, node.program, arg, over,
                                 None, None)
            case Accumulate():
                return self.fold(node, env, args)
            case Scan():
                return self.scan(node, env, args)
        return args[0]

    def load(self, operand: int, access: Access, dtype: np.dtype) -> Value:
        """An element of an operand, converted to `dtype`."""
        axes = frozenset(axis for at in access for axis, _ in at.terms)
        stored = self.operands[operand].dtype
        guards = [guard for at in access for guard in at.guards]
        guard = self.holds(guards) if guards else None
        access = tuple(replace(at, guards=()) for at in access)
        return self.convert(self.make(Load, axes, stored, operand, access, guard), dtype)

    def convert(self, arg: Value, dtype: np.dtype) -> Value:
        """`arg` as `dtype`."""
        key = ("convert", arg, dtype)
        if key not in self.interned:
            self.interned[key] = convert(arg, dtype)
        return self.interned[key]

    def fold(self, node: Accumulate, env: Env, args: list[Value]) -> Value:
        """The value of a fold; its argument is converted to what the program folds."""
        over = self.over[node, env]
        program = dict(node.options)["program"]
        rest = args[1:]
        initial = rest.pop(0) if node.initial is not None else None
        where = rest.pop(0) if node.where is not None else None
        arg = self.convert(args[0], program.value)
        if not over:
            return self.single(program, arg, initial, where)
        if isinstance(initial, Literal) and program.neutral and (
                initial.value.tobytes() == program.neutral[0].tobytes()):
            initial = None  # what it starts from anyway
        axes = frozenset[str]().union(*(a.axes for a in args)) - set(over)
        return self.make(Fold, axes, program.dtype, program, arg, over, initial, where)

    def scan(self, node: Scan, env: Env, args: list[Value]) -> Value:
        """The value of an element of a scan."""
        program, at, count = node.program, env[node.axis], 1 + len(node.more)
        element = [self.convert(args[0], program.value), *args[1:count]]
        states = tuple(args[count:])
        if self.extents.of[node][node.axis] in self.ones:
            start = list(states) or initial_state(program, None) or ()
            if program.index:
                element.append(Literal(frozenset(), INDEX, np.int64(0)))
            if not node.exclusive:
                start = inline(program.combine, [*start, *element]) if start else (
                    inline(program.start, element))
            [result] = inline(program.finish, start)
            return self.convert(result, program.dtype)
        if at is None or at != Affine(terms=((at.terms[0][0], 1),)):
            raise UnsupportedError(f"a slice along axis {node.axis} of a scan of {node.acc.name}: "
                                   "slice the result of the function")
        axis = at.terms[0][0]
        axes = frozenset({axis}).union(*(a.axes for a in args))
        return self.make(values.Scan, axes, program.dtype, program, element[0], (axis,), None,
                         None, node.reverse, node.exclusive, tuple(element[1:]), states)

    def single(self, program: Any, arg: Value, initial: Value | None,
               where: Value | None) -> Value:
        """A fold of one element."""
        key = ("single", program, arg, initial, where)
        if key in self.interned:
            return self.interned[key]
        start = initial_state(program, initial)
        zero = Literal(frozenset(), np.dtype(np.int64), np.int64(0))
        element = [arg, *([zero] if program.index else [])]
        state = inline(program.combine, [*start, *element]) if start else (
            inline(program.start, element))
        if where is not None:
            state = [Op(v.axes | where.axes, v.dtype, SELECT, (where, v, s))
                     for v, s in zip(state, start or (), strict=True)]
        [result] = inline(program.finish, state)
        self.interned[key] = result = self.convert(result, program.dtype)
        return result

    def make(self, cls: type[Value], axes: frozenset[str], dtype: np.dtype, *key: Any,
             **fields: Any) -> Value:
        """The one value with these fields (`key` unless given by `fields`)."""
        place = (cls, dtype, *key)
        value = self.interned.get(place)
        if value is None:
            rest = tuple(fields.values()) if fields else key
            value = self.interned[place] = cls(axes, dtype, *rest)
        return value


def _classes(program: Sequence[tuple[Any, ...]], ones: frozenset[int]) -> list[int]:
    """For every extent, the representative of those that must equal it."""
    parent = list(range(len(program)))

    def find(e: int) -> int:
        while parent[e] != e:
            e = parent[e]
        return e

    for place, (kind, *args) in enumerate(program):
        if place in ones or kind not in ("join", "fit"):
            continue
        for other in args[:2]:
            if other not in ones:
                a, b = sorted((find(place), find(other)))
                parent[b] = a
    return [find(e) for e in range(len(program))]
