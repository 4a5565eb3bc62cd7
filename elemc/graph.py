"""The first form: a graph of whole-array operations.

Grammar::

    Graph := (inputs, outputs)                     captured arrays are found by walking the graph
    Node  := Input(name, ndim, dtype, ident)       an argument of the function
           | Captured(name, array)                 an array met while tracing; passed like an input
           | Const(value, dtype, weak)             a scalar; weak: a Python number (NEP 50)
           | Size(arg, dim)                        arg.shape[dim], an int64 scalar
           | Iota(size)                            0, 1, ... size - 1, an int64 vector
           | Apply(op, args, dtype)                a scalar operation, element by element
           | Cast(arg, dtype)                      arg.astype(dtype)
           | Accumulate(acc, arg, axes, ...)       a fold over some axes, which the result lacks
           | Scan(acc, arg, axis, ...)             the running states of a fold
           | Index(arg, forms, ndim)               broadcasting, transposing, slicing
           | ExpandTo(arg, like)                   arg stretched to the shape of like
           | ...                                   what gradients need: `graph_gradients`
           | Align(arg, order)                     arg, aligned by `order` where it is consumed
    form  := Axis(axis, slice) | Pick(index) | Only   how one dimension of arg is read

A graph is *open* as the user writes it: operands of different ranks, dtypes that may be unknown
(`None`), `Align` marks, composite accumulators.  `close.close` settles order and dtypes and leaves
a *closed* graph, in which all operands of an `Apply` have the same rank and the loop's dtype.

Nodes are frozen and interned: equal means identical, so common subexpressions are found for free.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from .node import (
    Derived,
    FrozenArray,
    Node,
    Ranked,
    Typed,
    carry_source,
    make,
    node_class,
    note_source,
    source_of,
)
from .node import sources as _sources


@node_class
class Input(Node):
    """An argument of the function.  `ident` tells two inputs of one name apart.

    A weak one is a Python number, whose dtype gives way to that of arrays (NEP 50).
    """

    name: str
    ndim: int
    dtype: np.dtype | None
    ident: object
    weak: bool = False


@node_class
class Captured(Node):
    """An array met while building or tracing; `array` holds a read-only copy."""

    name: str
    array: FrozenArray

    @property
    def ndim(self) -> int:  # type: ignore[override]
        """The rank."""
        return self.array.data.ndim

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        """The dtype, None while it is unknown."""
        return self.array.data.dtype


@node_class
class Const(Node):
    """A scalar constant, keyed by dtype and bits.  A weak one is a Python number."""

    bits: bytes
    dtype: np.dtype
    weak: bool

    @property
    def ndim(self) -> int:  # type: ignore[override]
        """The rank."""
        return 0

    @property
    def value(self) -> np.generic:
        """The constant as a NumPy scalar."""
        return np.frombuffer(self.bits, self.dtype)[0]  # type: ignore[no-any-return]


@node_class
class Size(Node):
    """The length of dimension `dim` of `arg`, known when the function is called."""

    parts = ("arg",)
    arg: Node
    dim: int

    ndim = 0
    dtype = np.dtype(np.int64)


@node_class
class Iota(Node):
    """The integers below `size`, which is a `Size`."""

    parts = ("size",)
    size: Node

    ndim = 1
    dtype = np.dtype(np.int64)


@node_class
class Apply(Ranked):
    """`op` on the elements of `args`.  `dtype` is None while an argument's dtype is unknown."""

    parts = ("args",)
    op: Any
    args: tuple[Node, ...]
    dtype: np.dtype | None

    def __post_init__(self) -> None:
        self.settle(max((a.ndim for a in self.args), default=0))


@node_class
class Cast(Ranked):
    """`arg` converted to `dtype`."""

    parts = ("arg",)
    arg: Node
    dtype: np.dtype

    def __post_init__(self) -> None:
        self.settle(self.arg.ndim)


@node_class
class Accumulate(Ranked):
    """`acc` folded over `axes` of `arg` (sorted, none negative); the result lacks them.

    `initial` (rank of the result) starts the fold; `where` (rank of `arg`) masks elements.
    `options` are keywords of composite accumulators (`ddof`), sorted by name.
    """

    parts = ("arg", "initial", "where")
    acc: Any
    arg: Node
    axes: tuple[int, ...]
    dtype: np.dtype | None
    initial: Node | None
    where: Node | None
    options: tuple[tuple[str, Any], ...]

    def __post_init__(self) -> None:
        self.settle(self.arg.ndim - len(self.axes))


@node_class
class Scan(Ranked):
    """The states of `acc` along `axes` of `arg`, one per element, each with those before it.

    Elements go in C order of `axes` (sorted, none negative).  If `exclusive`, a state is without
    the element itself; if `reverse`, from the end.  `program` is the traced accumulator, once the
    graph is closed.  Elements may have several parts: `more` have the shape of `arg`.  `initial`
    holds the first state, of the shape without the axes, if it is not the identity.
    """

    parts = ("arg", "more", "initial")
    acc: Any
    arg: Node
    more: tuple[Node, ...]
    initial: tuple[Node, ...]
    axes: tuple[int, ...]
    reverse: bool
    exclusive: bool
    dtype: np.dtype | None
    program: Any

    def __post_init__(self) -> None:
        self.settle(self.arg.ndim)


@dataclass(frozen=True)
class Axis:
    """A dimension of the argument read along `axis` of the result, through a slice."""

    axis: int
    start: int | None = None
    stop: int | None = None
    step: int = 1

    @property
    def full(self) -> bool:
        """Whether the whole dimension is read, in its own direction."""
        return (self.start, self.stop, self.step) == (None, None, 1)


@dataclass(frozen=True)
class Pick:
    """A dimension of the argument read at one index, which may count from the end."""

    index: int


@dataclass(frozen=True)
class Only:
    """A dimension that must be of size 1, dropped."""


@node_class
class Index(Typed):
    """`arg` read through one form per dimension.

    A result axis that no form names has size 1; one that two forms name is a diagonal.
    """

    parts = ("arg",)
    arg: Node
    forms: tuple[Axis | Pick | Only, ...]
    ndim: int

    def __post_init__(self) -> None:
        self.settle(self.ndim, self.arg.dtype)


@node_class
class ExpandTo(Derived):
    """`arg` stretched to the shape of `like`, of which nothing but the shape is used."""

    parts = ("arg", "like")
    arg: Node
    like: Node

    def __post_init__(self) -> None:
        self.settle(self.like.ndim, self.arg.dtype)


@node_class
class Align(Derived):
    """`arg`, to be aligned by `order` ("c" or "f") in the op that consumes it."""

    parts = ("arg",)
    arg: Node
    order: str

    def __post_init__(self) -> None:
        self.settle(self.arg.ndim, self.arg.dtype)


def const(value: object, dtype: np.dtype | None = None, weak: bool = False) -> Const:
    """A constant of `dtype` (default: the value's own)."""
    scalar = np.asarray(value, dtype)
    return make(Const, scalar.tobytes(), scalar.dtype.newbyteorder("="), weak)


def is_const(node: Node, value: object) -> bool:
    """Whether `node` is the constant `value`, sign of zero included."""
    if not isinstance(node, Const):
        return False
    with np.errstate(all="ignore"):
        other = np.asarray(value).astype(node.dtype)
    return node.bits == other.tobytes()


def toposort(outputs: Iterable[Node]) -> list[Node]:
    """All nodes below `outputs`, children first; works at any depth."""
    done: dict[Node, None] = {}
    stack: list[tuple[Node, Iterator[Node]]] = []
    opened: set[Node] = set()
    for output in outputs:
        if output in opened:
            continue
        opened.add(output)
        stack.append((output, iter(output.children)))
        while stack:
            node, rest = stack[-1]
            for child in rest:
                if child not in opened:
                    opened.add(child)
                    stack.append((child, iter(child.children)))
                    break
            else:
                stack.pop()
                done[node] = None
    return list(done)


def replaced(outputs: Sequence[Node], new: dict[Node, Node]) -> list[Node]:
    """`outputs` with other nodes for the keys of `new`, to which everything rebuilt is added."""
    for node in toposort(outputs):
        if node not in new:
            below = tuple(new[c] for c in node.children)
            new[node] = node if below == node.children else node.rebuild(below)
            carry_source(node, new[node])
    return [new[o] for o in outputs]


@dataclass(frozen=True, repr=False)
class Graph:
    """Inputs and outputs of a function; its nodes are what the outputs reach."""

    inputs: tuple[Input, ...]
    outputs: tuple[Node, ...]

    @cached_property
    def nodes(self) -> list[Node]:
        """The nodes that the outputs need, children first."""
        return toposort(self.outputs)

    def __hash__(self) -> int:
        return hash((self.inputs, self.outputs))

    @cached_property
    def captured(self) -> tuple[Captured, ...]:
        """The captured arrays, in order of first use."""
        return tuple(n for n in self.nodes if isinstance(n, Captured))

    def map(self, change: Any) -> Graph:
        """The graph in which every node, over its new children, went through `change`."""
        new: dict[Node, Node] = {}
        for node in self.nodes:
            children = node.children
            moved = tuple(new[c] for c in children)
            new[node] = change(node if moved == children else node.rebuild(moved))
            carry_source(node, new[node])
        ends = tuple(new[i] if i in new else change(i) for i in self.inputs)
        return Graph(ends,  # type: ignore[arg-type]
                     tuple(new[o] for o in self.outputs))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a flat list of nodes, so that depth does not matter."""
        nodes = toposort((*self.inputs, *self.outputs))
        place = {node: i for i, node in enumerate(nodes)}
        rows = [(type(n), _flat(n, place), _sources.get(n)) for n in nodes]
        ends = [place[i] for i in self.inputs], [place[o] for o in self.outputs]
        return _unflatten, (rows, *ends)


class _Ref(int):
    """The place of a node in a pickled graph's list."""


def _flat(node: Node, place: dict[Node, int]) -> tuple[Any, ...]:
    def refer(value: Any) -> Any:
        if isinstance(value, Node):
            return _Ref(place[value])
        if type(value) is tuple and any(isinstance(v, Node) for v in value):
            return tuple(map(refer, value))
        return value

    return tuple(refer(getattr(node, f.name)) for f in fields(node))  # type: ignore[arg-type]


def _unflatten(rows: list[Any], inputs: list[int], outputs: list[int]) -> Graph:
    nodes: list[Node] = []

    def resolve(value: Any) -> Any:
        if isinstance(value, _Ref):
            return nodes[value]
        return tuple(map(resolve, value)) if type(value) is tuple else value

    for cls, args, source in rows:
        nodes.append(make(cls, *map(resolve, args)))
        if source is not None:
            _sources.setdefault(nodes[-1], source)
    ends = tuple(nodes[i] for i in inputs)
    return Graph(ends, tuple(nodes[o] for o in outputs))  # type: ignore[arg-type]


__all__ = [
    "Accumulate", "Align", "Apply", "Axis", "Captured", "Cast", "Const", "ExpandTo", "FrozenArray",
    "Graph", "Index", "Input", "Iota", "Node", "Only", "Pick", "Scan", "Size", "carry_source",
    "const", "is_const", "make", "note_source", "replaced", "source_of", "toposort",
]
