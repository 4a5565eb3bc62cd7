"""The second form: scalar values over named loop axes, for one pattern of a call.

Once a call shows which extents are 1 and how its arrays lie in memory, positions become names.
Every value has the set of loop axes it depends on; axes of size 1 are gone; neighbouring axes on
which every operand behaves alike are one axis.  What two calls have in common after that, they
share as one kernel.  (The bit strings are those of MXNet's broadcasting on TVM.)

Grammar::

    Specialized := (operands, axes: name -> extents, stores)
    Store  := (operand, access, value, mode, mask)         mode: write | add
    Value  := Load(operand, access) | Literal(value) | Extent(extents) | Position(affine)
            | Op(op, args) | Convert(arg) | Fold(program, arg, axes, initial, where)
    access := one Affine per dimension of the operand
    Affine := const + sum(coef * start(extent)) + sum(coef * axis)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

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
    Size,
)
from .maps import Extents


@dataclass(frozen=True)
class Layout:
    """How an array lies in memory, up to what kernels care about.

    Attributes
    ----------
    perm : tuple of int
        The dimensions of size other than 1, from the largest stride to the smallest.
    packed : tuple of bool
        For neighbours in `perm`: whether they can be walked as one dimension.
    unit : bool
        Whether the elements along the last of `perm` are adjacent.
    """

    perm: tuple[int, ...]
    packed: tuple[bool, ...]
    unit: bool

    def joins(self, outer: int, inner: int) -> bool:
        """Whether dimensions `outer` and `inner` can be walked as one."""
        pairs = zip(self.perm, self.perm[1:], self.packed, strict=False)
        return any((a, b) == (outer, inner) and packed for a, b, packed in pairs)


def layout_of(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> Layout:
    """The layout of an array of this shape and these strides (in bytes)."""
    dims = [d for d, n in enumerate(shape) if n != 1]
    if 0 in shape:  # nothing is read: any layout will do
        return Layout(tuple(dims), (True,) * (len(dims) - 1), True)
    perm = tuple(sorted(dims, key=lambda d: -abs(strides[d])))
    packed = tuple(strides[a] == strides[b] * shape[b]
                   for a, b in zip(perm, perm[1:], strict=False))
    return Layout(perm, packed, not perm or strides[perm[-1]] == itemsize)


@dataclass(frozen=True)
class Operand:
    """An array argument of a kernel.

    `storage` is "native", "unaligned" or "swapped" (byte order; aligned or not).
    """

    name: str
    role: str  # in | captured | mask | out
    ndim: int
    dtype: np.dtype
    storage: str
    layout: Layout


@dataclass(frozen=True)
class Affine:
    """An index: a constant, starts of slices, and multiples of loop axes."""

    const: int = 0
    starts: tuple[tuple[int, int], ...] = ()
    terms: tuple[tuple[str, int], ...] = ()

    def scaled(self, step: int) -> Affine:
        """`step` times this index."""
        return Affine(self.const * step, tuple((c * step, e) for c, e in self.starts),
                      tuple((a, c * step) for a, c in self.terms))


ZERO = Affine()
Access = tuple[Affine, ...]


@dataclass(frozen=True, eq=False)
class Value:
    """A scalar value that depends on `axes`; interned within one specialization."""

    axes: frozenset[str]
    dtype: np.dtype

    @property
    def args(self) -> tuple[Value, ...]:
        """The values this one is computed from."""
        return ()


@dataclass(frozen=True, eq=False)
class Load(Value):
    """An element of an operand."""

    operand: int
    access: Access


@dataclass(frozen=True, eq=False)
class Literal(Value):
    """A constant."""

    value: np.generic


@dataclass(frozen=True, eq=False)
class Extent(Value):
    """The length of an axis, as an int64."""

    extent: int


@dataclass(frozen=True, eq=False)
class Position(Value):
    """The loop index itself, as an int64."""

    affine: Affine


@dataclass(frozen=True, eq=False)
class Op(Value):
    """A scalar operation."""

    op: Any
    operands: tuple[Value, ...]

    @property
    def args(self) -> tuple[Value, ...]:
        """The values this one is computed from."""
        return self.operands


@dataclass(frozen=True, eq=False)
class Convert(Value):
    """A value converted to another dtype."""

    arg: Value

    @property
    def args(self) -> tuple[Value, ...]:
        """The values this one is computed from."""
        return (self.arg,)


@dataclass(frozen=True, eq=False)
class Fold(Value):
    """`arg` folded over `over`, in this order of axes."""

    program: Any
    arg: Value
    over: tuple[str, ...]
    initial: Value | None
    where: Value | None

    @property
    def args(self) -> tuple[Value, ...]:
        """The values this one is computed from."""
        return tuple(v for v in (self.arg, self.initial, self.where) if v is not None)


@dataclass(frozen=True)
class Store:
    """What is written to one output."""

    operand: int
    access: Access
    value: Value
    mode: str
    mask: Value | None


@dataclass(frozen=True)
class Specialized:
    """One specialization of a function: everything its kernel's text depends on."""

    operands: tuple[Operand, ...]
    axes: dict[str, tuple[int, ...]]
    stores: tuple[Store, ...]


Env = tuple[Affine | None, ...]


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
            case Cast() | ExpandTo():
                yield self.fit(node.arg, env)
            case Index():
                at = tuple(self.form(node, d, env) for d in range(node.arg.ndim))
                yield self.fit(node.arg, at)
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
                bounds = ("slice", extent, form.start, form.stop, form.step)
                start = Affine(starts=((1, self.extents.add(bounds)),))
                if at is None:
                    return start
                step = at.scaled(form.step)
                return Affine(step.const, start.starts + step.starts, step.terms)
            case Pick():
                return Affine(starts=((1, self.extents.add(("pick", extent, form.index))),))
            case Only():
                return None

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
                at = env[0] or ZERO
                return self.make(Position, frozenset(a for a, _ in at.terms), node.dtype, at)
            case Cast():
                return self.convert(args[0], node.dtype)
            case Apply():
                return self.make(Op, axes, node.dtype, node.op, tuple(args))
            case Accumulate():
                return self.fold(node, env, args)
        return args[0]

    def load(self, operand: int, access: Access, dtype: np.dtype) -> Value:
        """An element of an operand, converted to `dtype`."""
        axes = frozenset(axis for at in access for axis, _ in at.terms)
        stored = self.operands[operand].dtype
        return self.convert(self.make(Load, axes, stored, operand, access), dtype)

    def convert(self, arg: Value, dtype: np.dtype) -> Value:
        """`arg` as `dtype`."""
        return arg if arg.dtype == dtype else self.make(Convert, arg.axes, dtype, arg)

    def fold(self, node: Accumulate, env: Env, args: list[Value]) -> Value:
        """The value of a fold; its argument is converted to what the program folds."""
        over = self.over[node, env]
        program = dict(node.options)["program"]
        rest = args[1:]
        initial = rest.pop(0) if node.initial is not None else None
        where = rest.pop(0) if node.where is not None else None
        arg = self.convert(args[0], program.value)
        axes = frozenset[str]().union(*(a.axes for a in args)) - set(over)
        return self.make(Fold, axes, program.dtype, program, arg, over, initial, where)

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
