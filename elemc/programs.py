"""Values made of others: in another dtype, and by programs, closed graphs of scalars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .graph import Apply, Cast, Const, Graph
from .graph_gradients import Result
from .ops import INTEGRAL
from .values import Convert, Fold, Literal, Op, Value, walk


def convert(arg: Value, dtype: np.dtype) -> Value:
    """`arg` as `dtype`."""
    if arg.dtype == dtype:
        return arg
    if arg.dtype.kind in "iu" and dtype.kind in "fc" and _was_float(arg):
        wide = convert(arg, np.dtype(f"{arg.dtype.kind}8"))
        return convert(Op(arg.axes, np.dtype(np.float64), INTEGRAL, (wide,)), dtype)
    return Convert(arg.axes, dtype, arg)


def _was_float(integer: Value) -> bool:
    """Whether integer operations have made it of what was a float."""
    below = walk([integer], lambda v: v.dtype.kind not in "iu" or isinstance(v, Fold))
    return any(v.dtype.kind == "f" for v in below)


def initial_state(program: Any, initial: Value | None) -> list[Value] | None:
    """What a left fold starts from, if it is not its first element."""
    start = program.identity or program.neutral
    state: list[Value] = [Literal(frozenset(), v.dtype, v) for v in start or ()]
    return [initial, *state[1:]] if initial is not None else state or None


def inline(graph: Graph, args: Sequence[Value]) -> list[Value]:
    """The outputs of a closed graph of scalars, as values over `args`."""
    values: dict[object, Value] = dict(zip(graph.inputs, args, strict=True))
    for node in graph.nodes:
        if node in values:
            continue
        below = [values[c] for c in node.children]
        axes = frozenset[str]().union(*(v.axes for v in below))
        match node:
            case Const():
                values[node] = Literal(axes, node.dtype, node.value)
            case Cast():
                values[node] = convert(below[0], node.dtype)
            case Apply():
                assert node.dtype is not None
                values[node] = Op(axes, node.dtype, node.op, tuple(below))
            case Result():
                values[node] = values[node.arg]
            case _:
                values[node] = below[0]  # an index between scalars, a call that Results choose from
    return [values[o] for o in graph.outputs]
