"""Alignment of ranks, extents of axes, and affine access maps.

*Extents* are a small straight-line program over the sizes of the operands, the same for every call
of a function.  Running it checks that the sizes fit together, and which of its results are 1 is
the bit string that picks a specialization::

    extent := dim(operand, d) | one | slice(e, start, stop, step) | pick(e, index) | only(e)
            | join(a, b)      sizes of two operands of one op: equal, or one of them is 1
            | fit(a, b)       a must be 1 or b; the result is b
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from .errors import ShapeError
from .graph import (
    Accumulate,
    Align,
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
    make,
    source_of,
)
from .graph_gradients import Custom, Exactly, Result, Scatter, SumTo
from .records import dataclass


def align(node: Node, ndim: int, order: str) -> Node:
    """`node` with axes of size 1 added up to rank `ndim`: in front (order f) or behind (c).

    Rank 0 stays: scalars need no axes.
    """
    if node.ndim in (0, ndim):
        return node
    shift = ndim - node.ndim if order == "f" else 0
    forms = tuple(Axis(axis + shift) for axis in range(node.ndim))
    return make(Index, node, forms, ndim)


Instruction = tuple[Any, ...]


@dataclass
class Extents:
    """The extent program of a closed graph.

    Attributes
    ----------
    program : list of tuples
        The instructions; an extent is named by its place in this list.
    of : dict
        For every node, the extent of each of its axes.
    blame : dict
        For every `join`, `fit`, `only` and `pick`, the node that asked for it.
    """

    program: list[Instruction] = field(default_factory=list)
    of: dict[Node, tuple[int, ...]] = field(default_factory=dict)
    blame: dict[int, Node] = field(default_factory=dict)
    _place: dict[Instruction, int] = field(default_factory=dict)

    def add(self, instruction: Instruction, node: Node | None = None) -> int:
        """The place of `instruction`, added if it is new."""
        place = self._place.get(instruction)
        if place is None:
            place = self._place[instruction] = len(self.program)
            self.program.append(instruction)
            if node is not None:
                self.blame[place] = node
        return place

    def join(self, a: int, b: int, node: Node) -> int:
        """The common extent of two operands' axes."""
        one = self.add(("one",))
        if a == b or b == one:
            return a
        return b if a == one else self.add(("join", *sorted((a, b))), node)


def extents_of(graph: Graph) -> Extents:
    """The extent program of a closed graph; operands are its inputs, then its captured arrays."""
    extents = Extents()
    extents.add(("one",))
    for operand, node in enumerate((*graph.inputs, *graph.captured)):
        extents.of[node] = tuple(extents.add(("dim", operand, d)) for d in range(node.ndim))
    for node in graph.nodes:
        if node not in extents.of:
            extents.of[node] = _node_extents(node, extents)
    return extents


def _node_extents(node: Node, extents: Extents) -> tuple[int, ...]:
    of = extents.of
    match node:
        case Const() | Size() | Custom():
            return ()
        case Iota():
            assert isinstance(node.size, Size)
            return (of[node.size.arg][node.size.dim],)
        case Cast() | Result() | Scan():
            return of[node.arg]
        case Apply():
            result = [extents.add(("one",))] * node.ndim
            for arg in node.args:
                if arg.ndim:
                    pairs = zip(result, of[arg], strict=True)
                    result = [extents.join(a, b, node) for a, b in pairs]
            return tuple(result)
        case Accumulate():
            for part in (node.where, node.initial):
                whole = of[node.arg] if part is node.where else _without(of[node.arg], node.axes)
                for a, b in zip(of[part] if part else (), whole, strict=False):
                    if a != b:
                        extents.add(("fit", a, b), node)
            if dict(node.options).get("matched"):
                _match(node, extents)
            return _without(of[node.arg], node.axes)
        case ExpandTo():
            like = of[node.like]
            for a, b in zip(of[node.arg], like, strict=False):
                if a not in (b, 0) or (a != b and isinstance(node, Exactly)):
                    extents.add(("fit", a, b), node)
                if a != b and isinstance(node, Exactly):
                    extents.add(("fit", b, a), node)
            return like
        case SumTo():
            for a, b in zip(of[node.like], of[node.arg], strict=True):
                if a not in (b, 0):
                    extents.add(("fit", a, b), node)
            return of[node.like]
        case Scatter():
            read = _index_extents(make(Index, node.like, node.forms, node.arg.ndim), extents)
            for a, b in zip(of[node.arg], read, strict=True):
                if a != b:
                    extents.add(("fit", a, b), node)
                    extents.add(("fit", b, a), node)
            return of[node.like]
        case Index():
            return _index_extents(node, extents)
    raise AssertionError(f"{type(node).__name__} in a closed graph")


def _match(node: Accumulate, extents: Extents) -> None:
    """Neither factor of a matrix product is stretched along the axes it is summed over."""
    product = node.arg.arg if isinstance(node.arg, Cast) else node.arg
    if isinstance(product, Apply) and product.op.nin == 2:
        for axis in node.axes:
            a, b = (extents.of[factor][axis] for factor in product.args)
            if a != b:
                extents.add(("fit", a, b), node)
                extents.add(("fit", b, a), node)


def _without(values: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(v for i, v in enumerate(values) if i not in axes)


def _index_extents(node: Index, extents: Extents) -> tuple[int, ...]:
    result = [extents.add(("one",))] * node.ndim
    seen: set[int] = set()
    for form, extent in zip(node.forms, extents.of[node.arg], strict=True):
        match form:
            case Axis():
                if not form.full:
                    bounds = ("slice", extent, form.start, form.stop, form.step)
                    extent = extents.add(bounds, node)
                other = result[form.axis]
                if form.axis in seen and other != extent:  # a diagonal: neither is stretched
                    extents.add(("fit", other, extent), node)
                    extents.add(("fit", extent, other), node)
                result[form.axis] = extent
                seen.add(form.axis)
            case Pick():
                extents.add(("pick", extent, form.index), node)
            case Only():
                extents.add(("only", extent), node)
    return tuple(result)


def run_extents(program: Sequence[Instruction], shapes: Sequence[tuple[int, ...]]) -> list[int]:
    """The extents for operands of these shapes, or `Misfit` where they do not fit together."""
    values: list[int] = []
    for place, (kind, *args) in enumerate(program):
        if kind == "one":
            value = 1
        elif kind == "dim":
            value = shapes[args[0]][args[1]]
        elif kind == "slice":
            value = len(range(*slice(*args[1:]).indices(values[args[0]])))
        elif kind == "pick":
            size = values[args[0]]
            if not -size <= args[1] < size:
                raise Misfit(place, args[1], size)
            value = 1
        else:
            a = values[args[0]]
            b = 1 if kind == "only" else values[args[1]]
            if a != b and a != 1 and not (kind == "join" and b == 1):
                raise Misfit(place, a, b)
            value = a if kind == "join" and b == 1 else b
        values.append(value)
    return values


def slice_start(instruction: Instruction, values: Sequence[int]) -> int:
    """The first index that a `slice` or `pick` reads."""
    kind, extent, *bounds = instruction
    if kind == "slice":
        return slice(*bounds).indices(values[extent])[0]
    index: int = bounds[0]
    return index + (values[extent] if index < 0 else 0)


class Misfit(Exception):  # noqa: N818 - never leaves elemc: `explain` makes it a ShapeError
    """Instruction `place` of an extent program met sizes that do not fit."""

    def __init__(self, place: int, a: int, b: int) -> None:
        super().__init__(place, a, b)
        self.place, self.a, self.b = place, a, b


def explain(misfit: Misfit, extents: Extents, names: Sequence[str], function: str,
            order: str) -> ShapeError:
    """The error of a call whose sizes do not fit: function, operands, axes and both sizes."""
    kind, *args = extents.program[misfit.place]
    node = extents.blame[misfit.place]
    where = f" (in the expression at {source})" if (source := source_of(node)) else ""
    first = _origin(args[0], extents, names)
    if kind == "pick":
        text = f"index {misfit.a} is out of range for {first} of size {misfit.b}"
    elif kind == "only":
        text = f"{first} of size {misfit.a} cannot be squeezed: its size is not 1"
    elif kind == "fit":
        second = _origin(args[1], extents, names)
        text = f"{first} of size {misfit.a} does not stretch to {second} of size {misfit.b}"
    else:
        second = _origin(args[1], extents, names)
        text = (f"{first} of size {misfit.a} and {second} of size {misfit.b} "
                f"do not broadcast under order {order!r}")
    return ShapeError(f"{function}: {text}{where}")


def _origin(extent: int, extents: Extents, names: Sequence[str]) -> str:
    """In the user's words, where an extent comes from."""
    kind, *args = extents.program[extent]
    if kind == "dim":
        return f"axis {args[1]} of {names[args[0]]}"
    if kind == "join":
        return " and ".join(_origin(a, extents, names) for a in args[:2])
    if kind == "slice":
        bounds = ":".join("" if b is None else str(b) for b in args[1:])
        return f"[{bounds}] of {_origin(args[0], extents, names)}"
    return _origin(args[-1], extents, names) if kind == "fit" else "an axis of size 1"


__all__ = [
    "Align", "Captured", "Extents", "Input", "Instruction", "Misfit", "align", "explain",
    "extents_of", "run_extents", "slice_start",
]
