"""Results that stay what they are when an extremum is shifted.

A softmax takes off the greatest element, so that exponentials do not overflow, and divides by their
sum: what is taken off makes no difference.  So the gradient of the extremum is 0, and neither that
nor where it is found need be computed.

To show it, all extrema are thought to be greater by some `d`, one for each.  What is made of them
is then greater by `by * d`, or `exp(by * d)` times as much, or the same, or something else: that is
known of every node by those below it, as long as `d` goes along the same axes.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TypeGuard

from .accumulators import ACCUMULATORS
from .gradient_folds import extremum_rule, fold_rule
from .graph import Accumulate, Apply, Axis, Cast, ExpandTo, Index, Node
from .ops import STOP
from .records import dataclass

CHOICES = ("maximum", "minimum", "fmax", "fmin", "where")  # one of the operands


@dataclass(frozen=True)
class Shift:
    """A node is greater by `by * d`, or, if it `scales`, `exp(by * d)` times as much.

    `d` goes along these axes of the node, one for each axis of the extremum.
    """

    axes: tuple[int, ...]
    by: int = 1
    scales: bool = False

    def with_by(self, by: int) -> Shift:
        """By as many `d`, along the same axes."""
        return Shift(self.axes, by, self.scales)


def is_extremum(node: Node) -> TypeGuard[Accumulate]:
    """Whether a node is the greatest or least of elements."""
    return isinstance(node, Accumulate) and fold_rule(node) is extremum_rule


class Shifts:
    """Says of the extrema of a closed graph whether outputs mind if they are shifted."""

    def __init__(self, nodes: Sequence[Node], outputs: Collection[Node]) -> None:
        """Of all nodes, children first."""
        self.nodes, self.outputs = nodes, {*outputs}

    @cached_property
    def place(self) -> dict[Node, int]:
        """Where every node stands."""
        return {node: k for k, node in enumerate(self.nodes)}

    @cached_property
    def users(self) -> dict[Node, list[int]]:
        """Where what is computed from every node stands, if a gradient flows there."""
        found: dict[Node, list[int]] = {}
        for node, k in self.place.items():
            inexact = node.dtype is None or node.dtype.kind in "fc"  # None: the rule of a user
            if inexact and not (isinstance(node, Apply) and node.op is STOP):
                for child in {*(node.children if not isinstance(node, ExpandTo) else [node.arg])}:
                    found.setdefault(child, []).append(k)
        return found

    def matters(self, extremum: Accumulate) -> bool:
        """Whether an output is not the same if this one is shifted, or that is not known."""
        shifts: dict[Node, Shift] = {}
        waiting = [self.place[extremum]]
        while waiting:
            node = self.nodes[heapq.heappop(waiting)]
            if node in shifts:
                continue  # it uses several that are shifted
            shift = Shift(tuple(range(node.ndim))) if node is extremum else (
                shift_of(node, [shifts.get(c) for c in node.children]))
            if shift is None or shift.by and node in self.outputs:
                return True
            if shift.by:
                shifts[node] = shift
                for user in self.users.get(node, ()):
                    heapq.heappush(waiting, user)
        return False


def shift_of(node: Node, below: Sequence[Shift | None]) -> Shift | None:
    """How a node is shifted, some of whose children are; None if that is not known."""
    first = next(s for s in below if s)
    match node:
        case Apply():
            return _of_apply(node.op.name, below, first)
        case Cast(dtype=dtype) if dtype.kind == "f":
            return first
        case ExpandTo() if node.arg.ndim == node.ndim or not first.axes:
            return first
        case Index():
            return _of_index(node, first)
        case Accumulate(initial=None) if below[0] is first and (  # what is folded is shifted
                is_extremum(node) and dict(node.options).get("ties") != "all"
                or first.scales and node.acc is ACCUMULATORS["sum"]):
            axes = tuple(a - sum(b < a for b in node.axes) for a in first.axes)
            return Shift(axes, first.by, first.scales) if (
                {*node.axes}.isdisjoint(first.axes)) else None
    return None


def _of_apply(name: str, below: Sequence[Shift | None], first: Shift) -> Shift | None:
    """Of an operation on operands, of which those that are None stay what they are."""
    if any(s and (s.axes, s.scales) != (first.axes, first.scales) for s in below):
        return None
    by = [s.by if s else 0 for s in below]
    match name, first.scales:
        case ("add", False) | ("multiply", True):
            return first.with_by(sum(by))
        case ("subtract", False) | ("divide", True):
            return first.with_by(by[0] - by[1])
        case ("negative", False) | ("reciprocal", True):
            return first.with_by(-first.by)
        case ("add" | "subtract" | "negative", True):
            return first if len({*by}) == 1 else None
        case ("exp", False) | ("log", True):
            return Shift(first.axes, first.by, name == "exp")
    same = len({*by[name == "where":]}) == 1
    return first if name in CHOICES and same else None


def _of_index(node: Index, shift: Shift) -> Shift | None:
    """Of what is read whole, and in order, along the axes of the extremum, each by itself."""
    read = [f.axis for f in node.forms if isinstance(f, Axis)]
    forms = [node.forms[a] for a in shift.axes]
    axes = tuple(f.axis for f in forms if isinstance(f, Axis) and f.full and (
        read.count(f.axis) == 1))
    return Shift(axes, shift.by, shift.scales) if len(axes) == len(forms) else None
