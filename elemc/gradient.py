"""The transformer: from outputs and their cotangents to the cotangents of what they are made of.

It walks a closed graph backwards.  Rules of scalar operations know nothing of ranks (`rules`); here
maps are swapped: a cotangent is accumulated over the axes that stretching added, and stretched over
the axes that were accumulated.  What comes out is a graph, which is differentiable again.

A cotangent may hold under a mask only, and counts as 0 elsewhere: what flows through the sides of
`where` stays masked down to where it is added to something else, so that nothing infinite or NaN
in the branch not taken is ever multiplied by 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .array import Array, accumulate, apply
from .errors import ElemcError, UnsupportedError
from .gradient_folds import fold_rule
from .graph import (
    Accumulate,
    Apply,
    Axis,
    Cast,
    Const,
    ExpandTo,
    Index,
    Node,
    Scatter,
    SumTo,
    const,
    make,
    source_of,
    toposort,
)
from .ops import PLACE
from .rules import rule_of


@dataclass
class Cotangent:
    """What a node contributes to the cost, in its own shape and dtype; 0 where `mask` is false."""

    value: Any
    mask: Any = None

    def whole(self) -> Array:
        """The cotangent without a mask."""
        return self.value if self.mask is None else apply("where", self.mask, self.value, 0)

    def masked(self, mask: Array) -> Cotangent:
        """The cotangent where `mask` holds as well."""
        return Cotangent(self.value, mask if self.mask is None else self.mask & mask)

    def plus(self, other: Cotangent) -> Cotangent:
        """The sum of two cotangents of one node."""
        if self.mask is None or other.mask is None:
            return Cotangent(self.whole() + other.whole())
        if self.mask.node is other.mask.node:
            return Cotangent(self.value + other.value, self.mask)
        return Cotangent(self.whole() + other.whole(), self.mask | other.mask)


def pull_back(outputs: Sequence[Node], cotangents: Sequence[Array | None],
              wanted: Iterable[Node]) -> list[Array | None]:
    """The cotangents of `wanted`, nodes of the closed graph below `outputs`.

    Parameters
    ----------
    outputs : sequence of Node
        Of a closed graph.
    cotangents : sequence of Array or None
        One for every output, in its shape and dtype.
    wanted : iterable of Node

    Returns
    -------
    list
        A cotangent in the shape and dtype of every wanted node; None where nothing flows.
    """
    wanted = list(wanted)
    nodes = toposort(outputs)
    leads = set(wanted)  # to something wanted
    for node in nodes:
        if any(child in leads for child in node.children):
            leads.add(node)
    found: dict[Node, Cotangent] = {}
    for output, cotangent in zip(outputs, cotangents, strict=True):
        if cotangent is not None and output in leads:
            _add(found, output, Cotangent(cotangent))
    for node in reversed(nodes):
        if node in found and node in leads:
            try:
                for child, part in _contributions(node, found[node], leads):
                    _add(found, child, part)
            except ElemcError as error:
                error.locate(source_of(node))
                raise
    return [found[n].whole() if n in found else None for n in wanted]


def inexact(node: Node) -> bool:
    """Whether a node has a gradient at all: it is real or complex."""
    return node.dtype is not None and node.dtype.kind in "fc"


def _add(found: dict[Node, Cotangent], node: Node, part: Cotangent) -> None:
    found[node] = found[node].plus(part) if node in found else part


def _contributions(node: Node, g: Cotangent, leads: set[Node]
                   ) -> list[tuple[Node, Cotangent]]:
    """What the cotangent of `node` adds to those of its arguments."""
    match node:
        case Apply():
            return _of_apply(node, g, leads)
        case Cast():
            return [(node.arg, Cotangent(_in_dtype(g.value, node.arg), g.mask))
                    ] if inexact(node.arg) else []
        case ExpandTo():
            return [(node.arg, _fitted(g, node.arg))]
        case SumTo():
            return [(node.arg, Cotangent(Array(make(ExpandTo, g.whole().node, node.arg))))]
        case Index():
            return [(node.arg, Cotangent(unindexed(g.whole(), node)))]
        case Scatter():
            back = make(Index, g.whole().node, node.forms, node.arg.ndim)
            return [(node.arg, Cotangent(Array(back)))]
        case Accumulate():
            parts = fold_rule(node)(g.whole(), node)
            return [(child, Cotangent(value, mask)) for child, value, mask in parts
                    if inexact(child)]
    return []


def _of_apply(node: Apply, g: Cotangent, leads: set[Node]) -> list[tuple[Node, Cotangent]]:
    if node.op is PLACE or not inexact(node):
        return []
    if node.op.name == "where":
        condition: Any = Array(node.args[0])
        sides = zip(node.args[1:], (condition, ~condition), strict=True)
        return [(arg, _fitted(g.masked(side), arg)) for arg, side in sides
                if arg in leads and inexact(arg)]
    rule = rule_of(node.op)
    if rule is None:
        return []
    parts = rule(g.value, Array(node), *map(Array, node.args))
    return [(arg, _fitted(Cotangent(_in_dtype(part, arg), g.mask), arg))
            for arg, part in zip(node.args, parts, strict=True)
            if part is not None and arg in leads and inexact(arg)]


def _in_dtype(value: Any, node: Node) -> Any:
    """A cotangent in the dtype of its node: of complex ones for real nodes, the real part."""
    assert node.dtype is not None
    if value.dtype is not None and value.dtype.kind == "c" and node.dtype.kind != "c":
        value = value.real
    return value if value.dtype == node.dtype else value.astype(node.dtype)


def _fitted(g: Cotangent, arg: Node) -> Cotangent:
    """A cotangent in the result's shape, summed to that of an operand."""
    whole = g.value.node
    if isinstance(arg, Const) or arg is whole:
        return g
    if arg.ndim == 0:
        return Cotangent(accumulate("sum", g.whole(), None, dtype=arg.dtype)) if whole.ndim else g
    if isinstance(whole, ExpandTo) and whole.like is arg:
        return g
    return Cotangent(Array(make(SumTo, g.whole().node, arg, None)))


def unindexed(g: Array, node: Index) -> Array:
    """The cotangent of what `node` indexes: `g` where it is read, 0 elsewhere."""
    steps = [f.step for f in node.forms if isinstance(f, Axis) and abs(f.step) != 1]
    if steps:
        raise UnsupportedError(f"the gradient of a slice with step {steps[0]} is not there: "
                               "slice the arrays outside")
    return Array(make(Scatter, g.node, node.arg, node.forms))


def zeros_like(node: Node) -> Array:
    """Zeros in the shape and dtype of a node."""
    assert node.dtype is not None
    return Array(make(ExpandTo, const(node.dtype.type(0)), node))

