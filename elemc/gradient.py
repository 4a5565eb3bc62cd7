"""The transformer: from outputs and their cotangents to the cotangents of what they are made of.

It walks a closed graph backwards.  Rules of scalar operations know nothing of ranks (`rules`); here
maps are swapped: a cotangent is accumulated over the axes that stretching added, and stretched over
the axes that were accumulated.  What comes out is a graph, which is differentiable again.

A cotangent may hold under a mask only, and counts as 0 elsewhere: what flows through the sides of
`where` stays masked down to where it is added to something else, so that nothing infinite or NaN
in the branch not taken is ever multiplied by 0.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from .accumulators import ACCUMULATORS
from .array import Array, accumulate, apply
from .errors import ElemcError
from .gradient_folds import fold_rule, in_dtype, sum_back
from .gradient_scans import fold_back, scan_back
from .gradient_shifts import Shifts, is_extremum
from .graph import (
    Accumulate,
    Apply,
    Axis,
    Cast,
    ExpandTo,
    Graph,
    Index,
    Input,
    Node,
    Only,
    Scan,
    carry_source,
    const,
    make,
    source_of,
    toposort,
)
from .graph_gradients import Custom, Exactly, Result, Scatter, SumTo
from .maps import extents_of
from .ops import PLACE
from .records import dataclass
from .rules import Ratio, ask, rule_of


@dataclass
class Cotangent:
    """What a node contributes to the cost, in its own shape and dtype; 0 where `mask` is false.

    It is still to be divided by `by`, if that is given, once it has the shape of the node.  If
    `clean`, the value itself is 0 where the mask is false.
    """

    value: Any
    mask: Any = None
    by: Any = None
    clean: bool = False

    def whole(self) -> Array:
        """The cotangent without a mask."""
        done = self.mask is None or self.clean
        return self.value if done else apply("where", self.mask, self.value, 0)

    def masked(self, mask: Array) -> Cotangent:
        """The cotangent where `mask` holds as well."""
        return Cotangent(self.value, mask if self.mask is None else self.mask & mask)

    def summed_to(self, node: Node, shape: Node) -> Cotangent:
        """The cotangent, shaped like `shape`, summed to `node`; it holds where any part does."""
        mask = None if self.mask is None else Array(make(ExpandTo, self.mask.node, shape))
        return Cotangent(_summed_to(self.whole(), node),
                         None if mask is None else _summed_to(mask, node), self.by, True)

    def divided(self) -> Cotangent:
        """The cotangent, divided."""
        return self if self.by is None else Cotangent(self.value / self.by, self.mask)


def total(parts: Iterable[Cotangent]) -> Cotangent:
    """The sum of the cotangents of one node."""
    of: dict[Node | None, Cotangent] = {}  # by mask
    for part in parts:
        key = None if part.mask is None else part.mask.node
        of[key] = part if key not in of else Cotangent(
            of[key].value + part.value, part.mask, clean=of[key].clean and part.clean)
    for key, part in list(of.items()):
        other = (~part.mask).node if key in of and part.mask is not None else None
        if other in of and other is not None:  # the two sides of a where
            value = apply("where", part.mask, of.pop(key).value, of.pop(other).value)
            of[None] = Cotangent(of[None].value + value if None in of else value)
    if len(of) == 1:
        return next(iter(of.values()))
    value = functools.reduce(operator.add, (part.whole() for part in of.values()))
    masks = [part.mask for part in of.values()]
    mask = None if None in of else functools.reduce(operator.or_, masks)
    return Cotangent(value, mask, clean=True)


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
    ends = tuple(n for n in nodes if isinstance(n, Input))
    extents = extents_of(Graph(ends, tuple(outputs))).of
    shifts = Shifts(nodes, outputs)
    found: dict[Node, list[Cotangent]] = {}
    calls: dict[Node, dict[int, Cotangent]] = {}  # by place of a result
    for output, cotangent in zip(outputs, cotangents, strict=True):
        if cotangent is not None and output in leads:
            found.setdefault(output, []).append(Cotangent(cotangent))
    for node in reversed(nodes):
        g: Any = calls.get(node) or (total(found[node]) if node in found else None)
        if g is None or node not in leads or is_extremum(node) and not shifts.matters(node):
            continue
        if isinstance(node, Result):
            calls.setdefault(node.call, {})[node.place] = g
            continue
        with _blamed(node):
            for child, part, shape in _contributions(node, g):
                if inexact(child) and child in leads:
                    same = extents[child] == extents[shape]
                    part = part if same else part.summed_to(child, shape)
                    found.setdefault(child, []).append(part.divided())
    return [total(found[n]).whole() if n in found else None for n in wanted]


@contextlib.contextmanager
def _blamed(node: Node) -> Iterator[None]:
    """Errors of a rule say where the user wrote what it differentiates."""
    try:
        yield
    except ElemcError as error:
        while notes := getattr(error, "__notes__", []):
            error.args = (f"{notes.pop()}: {error.args[0]}", *error.args[1:])
        error.locate(source_of(node))
        raise
    except Exception as error:
        if source := source_of(node):
            error.add_note(f"(in the expression at {source})")
        raise


def inexact(node: Node) -> bool:
    """Whether a node has a gradient at all: it is real or complex."""
    return node.dtype is not None and node.dtype.kind in "fc"


def _summed_to(value: Array, node: Node) -> Array:
    """A sum, of bools whether any holds, over what stretching to the shape of `value` added."""
    if value.ndim == node.ndim:
        return Array(make(SumTo, value.node, node, None))
    return accumulate("any" if value.dtype.kind == "b" else "sum", value, None)


def _contributions(node: Node, g: Any) -> Iterator[tuple[Node, Cotangent, Node]]:
    """What the cotangent of `node` adds to those of its arguments, and whose shape that has.

    It is still to be summed over what stretching to that shape has added.  A `Custom` has a dict
    of cotangents, by the places of its results.
    """
    match node:
        case Apply():
            yield from _of_apply(node, g)
        case Cast():
            if inexact(node.arg):
                yield node.arg, Cotangent(in_dtype(g.value, node.arg), g.mask), node
        case ExpandTo():
            yield node.arg, g, node
        case SumTo():
            whole = Array(make(ExpandTo, g.whole().node, node.arg))
            yield node.arg, Cotangent(whole), node.arg
        case Index():
            yield node.arg, _of_index(node, g), node.arg
        case Scatter():
            back = make(Index, g.whole().node, node.forms, node.arg.ndim)
            yield node.arg, Cotangent(Array(back)), node.arg
        case Custom():
            yield from _of_custom(node, g)
        case Scan():
            rule = sum_back if node.acc is ACCUMULATORS["sum"] and not node.initial else scan_back
            for child, value in rule(g.whole(), node, pull_back):
                yield child, Cotangent(in_dtype(value, child)), child
        case Accumulate():
            own = fold_rule(node)
            parts = own(g.whole(), node) if own else fold_back(g.whole(), node, pull_back)
            for child, value, mask in parts:
                yield child, Cotangent(value, mask), node.arg if child is node.arg else node


def _of_apply(node: Apply, g: Cotangent) -> Iterator[tuple[Node, Cotangent, Node]]:
    if node.op is PLACE or not inexact(node):
        return
    if node.op.name == "where":
        condition: Any = Array(node.args[0])
        for arg, side in zip(node.args[1:], (condition, ~condition), strict=True):
            yield arg, g.masked(side), node
        return
    rule = rule_of(node.op)
    if rule is None:
        return
    parts = rule(g.value, Array(node), *map(Array, node.args))
    for arg, part in zip(node.args, parts, strict=True):
        if part is not None and inexact(arg):
            value, by = (part.value, part.by) if isinstance(part, Ratio) else (part, None)
            yield arg, Cotangent(in_dtype(value, arg), g.mask, by), node


def _of_custom(node: Custom, found: dict[int, Cotangent]
               ) -> Iterator[tuple[Node, Cotangent, Node]]:
    z: Any = [Array(make(Result, node, k)) for k in range(len(node.args))]
    g: Any = [(found[k].value if node.elementwise else found[k].whole()) if k in found
              else zeros_like(arg) if inexact(arg) else None for k, arg in enumerate(node.args)]
    g, z = (node.structure(part) if node.structure else part[0] for part in (g, z))
    ranks = [node.args[0].ndim if node.elementwise else i.ndim for i in node.inputs]
    parts = ask(node.name, node.rule, g, z, list(map(Array, node.inputs)), ranks)
    mask, whole = found[0].mask if node.elementwise else None, node.args[0]
    for arg, part in zip(node.inputs, parts, strict=True):
        if part is None or not inexact(arg):
            continue
        value = in_dtype(part, arg).node
        if node.elementwise:
            yield arg, Cotangent(Array(make(ExpandTo, value, whole)), mask), whole
        else:
            cls = Exactly if value.ndim == arg.ndim else ExpandTo
            exact = make(cls, value, arg)
            carry_source(node, exact)  # sizes are compared in the call
            yield arg, Cotangent(Array(exact)), arg


def _of_index(node: Index, g: Cotangent) -> Cotangent:
    """The cotangent of what `node` indexes; it holds where that is read."""
    value = unindexed(g.whole(), node)
    if g.mask is None and not isinstance(value.node, Scatter):
        return Cotangent(value)
    read = const(np.True_) if g.mask is None else g.mask.node
    return Cotangent(value, unindexed(Array(make(ExpandTo, read, node)), node), clean=True)


def unindexed(g: Array, node: Index) -> Array:
    """The cotangent of what `node` indexes: `g` where it is read, 0 elsewhere."""
    named = {f.axis: d for d, f in enumerate(node.forms) if isinstance(f, Axis) and f.full}
    if len(named) + sum(isinstance(f, Only) for f in node.forms) == len(node.forms):
        back = tuple(Axis(named[k]) if k in named else Only() for k in range(node.ndim))
        return Array(make(Index, g.node, back, node.arg.ndim))  # nothing is left out
    return Array(make(Scatter, g.node, node.arg, node.forms))


def zeros_like(node: Node) -> Array:
    """Zeros in the shape and dtype of a node."""
    assert node.dtype is not None
    return Array(make(ExpandTo, const(node.dtype.type(0)), node))

