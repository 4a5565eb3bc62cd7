"""Graphs that can be pickled: the user's accumulators travel as traced graphs, not as lambdas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from .accumulators import ACCUMULATORS, Accumulator
from .array import Array, apply, as_node
from .constructors import new_input
from .graph import Accumulate, Apply, Graph, Node, Scan, make


def portable(graph: Graph) -> Graph:
    """`graph` with every accumulator in a form that any process can load."""
    made: dict[Accumulator, Accumulator] = {}

    def change(node: Node) -> Node:
        if not isinstance(node, (Accumulate, Scan)) or not isinstance(node.acc, Accumulator):
            return node
        if ACCUMULATORS.get(node.acc.name) is node.acc:
            return node
        acc = made.setdefault(node.acc, _portable(node.acc))
        names = [field.name for field in fields(node)]  # type: ignore[arg-type]
        return make(type(node), acc, *(getattr(node, name) for name in names[1:]))

    return graph.map(change)


def _portable(acc: Accumulator) -> Accumulator:
    """`acc` with its Python functions traced."""
    extra = 2 if acc.index else 1
    start = None if acc.start is None else GraphFunction.trace(acc.start, extra)
    if isinstance(acc.identity, tuple):
        count = len(acc.identity)
    else:
        count = 1 if start is None or acc.identity is not None else len(start.graph.outputs)
    return replace(
        acc, start=start, combine=GraphFunction.trace(acc.combine, count + extra),
        merge=None if acc.merge is None else GraphFunction.trace(acc.merge, 2 * count),
        finish=None if acc.finish is None else GraphFunction.trace(acc.finish, count))


class GraphFunction:
    """A Python function of symbolic scalars, as the graph that it makes."""

    def __init__(self, graph: Graph, single: bool) -> None:
        self.graph, self.single = graph, single

    @classmethod
    def trace(cls, fn: Callable[..., Any], count: int) -> GraphFunction:
        """Run `fn` on `count` symbolic scalars of unknown dtype."""
        if isinstance(fn, GraphFunction):
            return fn
        inputs = [new_input(f"a{k}", 0, None) for k in range(count)]
        result = fn(*inputs)
        single = not isinstance(result, tuple)
        outputs = tuple(map(as_node, (result,) if single else result))
        return cls(Graph(tuple(i.node for i in inputs), outputs), single)  # type: ignore[misc]

    def __call__(self, *operands: Any) -> Any:
        """The function on other operands."""
        results = substitute(self.graph, operands)
        return results[0] if self.single else tuple(results)


def substitute(graph: Graph, operands: Sequence[Any]) -> list[Array]:
    """The outputs of an elementwise graph of scalars, on operands of any rank and dtype."""
    new: dict[Node, Node] = dict(zip(graph.inputs, map(as_node, operands), strict=True))
    for node in graph.nodes:
        if node not in new:
            below = tuple(new[c] for c in node.children)
            new[node] = apply(node.op, *map(Array, below)).node if isinstance(node, Apply) else (
                node if below == node.children else node.rebuild(below))
    return [Array(new[o]) for o in graph.outputs]
