"""Modes: sugar for accumulations in front of an expression.

`("accumulate", A)` folds every input of greater rank with A over the axes that the output lacks,
then applies the expression: with sum, order c, x of rank 2 and y of rank 1,
`z[i] = f(sum_j x[i, j], y[i])`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .accumulators import Accumulator, Composite, accumulator
from .array import Array, accumulate
from .errors import ModeError
from .graph import (
    Align,
    Apply,
    Captured,
    Cast,
    Const,
    Graph,
    Input,
    Node,
    replaced,
    source_of,
    toposort,
)

ELEMENTWISE = (Input, Captured, Const, Apply, Cast, Align)
Mode = Accumulator | Composite | None  # None: broadcast


def per_output(mode: Any, count: int) -> list[Mode]:
    """The mode of each of `count` outputs."""
    listed = mode if isinstance(mode, list) else [mode] * count
    if len(listed) != count:
        raise ModeError(f"{len(listed)} modes for {count} outputs")
    return [_mode(m) for m in listed]


def _mode(mode: Any) -> Mode:
    if mode == "broadcast":
        return None
    if isinstance(mode, tuple) and len(mode) == 2 and mode[0] == "accumulate":
        return accumulator(mode[1])
    raise ModeError(f"unknown mode {mode!r}: it is 'broadcast' or ('accumulate', accumulator)")


def describe(mode: Mode) -> str:
    """A mode as the banner shows it."""
    return "broadcast" if mode is None else f"(accumulate, {mode.name})"


def apply_modes(graph: Graph, listed: Sequence[Mode], order: str) -> Graph:
    """`graph` with the accumulations that its outputs' modes ask for."""
    outputs = [node if mode is None else _accumulated(node, mode, order)
               for node, mode in zip(graph.outputs, listed, strict=True)]
    return Graph(graph.inputs, tuple(outputs))


def _accumulated(output: Node, mode: Accumulator | Composite, order: str) -> Node:
    nodes = toposort([output])
    odd = next((n for n in nodes if not isinstance(n, ELEMENTWISE)), None)
    if odd is not None:
        source = source_of(odd)
        where = f" (in the expression at {source})" if source else ""
        raise ModeError(
            f"mode ('accumulate', {mode.name!r}) needs an expression that is elementwise in its "
            f"inputs, and this one has {type(odd).__name__} nodes: write the accumulation in the "
            f"expression, as in elemc.sum(x, axis=-1){where}")
    ends = [n for n in nodes if isinstance(n, (Input, Captured))]
    rank = min((n.ndim for n in ends), default=0)
    new: dict[Node, Node] = {}
    for node in ends:
        lacking = node.ndim - rank
        axes = range(lacking) if order == "f" else range(rank, node.ndim)
        if lacking:
            new[node] = accumulate(mode, Array(node), axis=tuple(axes)).node
    return replaced([output], new)[0]
