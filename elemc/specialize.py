"""From a call's signature to its specialization: the closed graph, lowered to values over axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .coalesce import merge_axes
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
from .values import (
    SELECT,
    ZERO,
    Access,
    Affine,
    Extent,
    Fold,
    Layout,
    Literal,
    Load,
    Op,
    Operand,
    Position,
    Specialized,
    Store,
    Value,
    convert,
    initial_state,
    inline,
    roots_of,
    walk,
)


@dataclass(frozen=True)
class Given:
    """What a call says of one array: its dtype, storage and layout."""

    dtype: np.dtype
    storage: str
    layout: Layout


@dataclass(frozen=True)
class Signature:
    """Everything about a call that its kernel may depend on.

    Attributes
    ----------
    ones : frozenset of int
        The extents that are 1 in this call.
    inputs : tuple of Given
        Inputs, then captured arrays.
    outputs : tuple of Given or None
        None for an output that the call makes; absent outputs have mode "null".
    modes : tuple of str
        write, add or null, per output.
    mask : Given or None
    mask_ones : tuple of bool
        For every dimension of the mask, whether it is 1.
    """

    ones: frozenset[int]
    inputs: tuple[Given, ...]
    outputs: tuple[Given | None, ...]
    modes: tuple[str, ...]
    mask: Given | None = None
    mask_ones: tuple[bool, ...] = ()


def specialize(graph: Graph, extents: Extents, signature: Signature,
               names: Sequence[str], output_names: Sequence[str]) -> Specialized:
    """The specialization of a closed graph for one signature."""
    nodes = (*graph.inputs, *graph.captured)
    operands = [
        Operand(name, "in" if i < len(graph.inputs) else "captured", node.ndim, *_fields(given))
        for i, (name, node, given) in enumerate(zip(names, nodes, signature.inputs, strict=True))]
    lowering = Lowering(graph, extents, signature.ones, operands)
    live = [k for k, mode in enumerate(signature.modes) if mode != "null"]
    envs = [lowering.output_env(graph.outputs[k]) for k in live]
    values = lowering.values([(graph.outputs[k], env) for k, env in zip(live, envs, strict=True)])
    if signature.mask is not None:
        ndim = len(signature.mask_ones)
        operands.append(Operand("where", "mask", ndim, *_fields(signature.mask)))
    mask_number = len(operands) - 1
    stores = []
    for k, env, value in zip(live, envs, values, strict=True):
        given = signature.outputs[k]
        if given is None:
            given = Given(value.dtype, "native", keep_order(values, env, operands))
        operands.append(Operand(output_names[k], "out", len(env), *_fields(given)))
        mask = None
        if signature.mask is not None:
            at = tuple(ZERO if one else a or ZERO for one, a in zip(
                signature.mask_ones, env[len(env) - len(signature.mask_ones):], strict=True))
            mask = lowering.load(mask_number, at, np.dtype(bool))
        access = tuple(a or ZERO for a in env)
        stores.append(Store(len(operands) - 1, access, lowering.convert(value, given.dtype),
                            signature.modes[k], mask))
    used = _axes_of(stores)
    axes = {name: e for name, e in lowering.axes.items() if name in used}
    return merge_axes(Specialized(tuple(operands), axes, tuple(stores)))


def _fields(given: Given) -> tuple[np.dtype, str, Layout]:
    return given.dtype, given.storage, given.layout


def keep_order(values: Iterable[Value], env: Env, operands: Sequence[Operand]) -> Layout:
    """NumPy's "K" layout: axes in the order of the inputs' strides; where they disagree, C's."""
    axes = [(at.terms[0][0], d) for d, at in enumerate(env) if at is not None]
    places = []  # per way of reading an input: its axes, from the largest stride to the smallest
    for load in walk(values) if len(axes) > 1 else ():
        if isinstance(load, Load):
            perm = operands[load.operand].layout.perm
            places.append({at.terms[0][0]: perm.index(d) for d, at in enumerate(load.access)
                           if len(at.terms) == 1})
    order: list[tuple[str, int]] = []  # from the innermost axis to the outermost
    for outer, dim in reversed(axes):
        at = len(order)
        for k, (inner, _) in reversed([*enumerate(order)]):
            agree = [p[outer] < p[inner] for p in places if outer in p and inner in p]
            if agree and any(agree):
                break
            at = k if agree else at
        order.insert(at, (outer, dim))
    return Layout(tuple(d for _, d in reversed(order)), (True,) * (len(axes) - 1), True)


def _axes_of(stores: Iterable[Store]) -> set[str]:
    stores = list(stores)
    found = {a for s in stores for at in s.access for a, _ in at.terms}
    for value in walk(roots_of(stores)):
        found |= value.axes | set(value.over if isinstance(value, Fold) else ())
    return found


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
