"""What an operand counts as when dtypes are chosen: Python's numbers give way (NEP 50)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .graph import Align, Apply, Const, Input, Node, Size

PYTHON_TYPES = {"i": int, "u": int, "f": float, "c": complex}
ARITHMETIC = set("add subtract multiply divide floor_divide remainder power negative positive "
                 "absolute".split())
COMPARISONS = set("equal not_equal less less_equal greater greater_equal".split())
MOST = 32  # operations on sizes that are followed


def promotion_types(op: str, nodes: Sequence[Node], dtypes: Sequence[np.dtype | None]) -> list[Any]:
    """What operands of these dtypes count as together, in an operation named `op`.

    In Python a size is a number, whose dtype gives way: `x / x.shape[0]` of float32 is float32.
    Among integers it stays int64: it may not fit a smaller one.
    """
    types = [promotion_type(n, t) for n, t in zip(nodes, dtypes, strict=True)]
    if op in COMPARISONS:
        return comparable(nodes, types, dtypes)
    if any(t is float or t is complex or getattr(t, "kind", "") in "fc" for t in types if t):
        return [PYTHON_TYPES[t.kind] if isinstance(t, np.dtype) and of_sizes(n) else t
                for n, t in zip(nodes, types, strict=True)]
    return types


def of_sizes(node: Node) -> bool:
    """Whether `node` is a size, or arithmetic of sizes and Python's numbers."""
    stack = [node]
    for _ in range(MOST):
        if not stack:
            return True
        node = stack.pop()
        if isinstance(node, Size):
            continue
        if isinstance(node, Apply) and not node.ndim and node.op.name in ARITHMETIC:
            stack += node.args
        elif not (isinstance(node, (Const, Input)) and node.weak):
            return False
    return False


def promotion_type(node: Node, dtype: np.dtype | None) -> Any:
    """The dtype of `node`, the Python type of a weak scalar, or None."""
    while isinstance(node, Align):
        node = node.arg
    if isinstance(node, (Const, Input)) and node.weak and dtype is not None:
        return PYTHON_TYPES.get(dtype.kind, dtype)
    return dtype


def comparable(nodes: Sequence[Node], types: list[Any],
               dtypes: Sequence[np.dtype | None]) -> list[Any]:
    """The types of a comparison's operands: a Python integer may lie outside the other's dtype."""
    if any(t is not int and getattr(t, "kind", "") not in ("i", "u") for t in types):
        return types
    bounds = [None if t is int else np.iinfo(t) for t in types]
    return [t if t is not int or _within(n, *(b for b in bounds if b)) else dtype
            for n, t, dtype in zip(nodes, types, dtypes, strict=True)]


def _within(node: Node, *bounds: np.iinfo) -> bool:
    """Whether a Python integer is known to fit."""
    return isinstance(node, Const) and all(b.min <= int(node.value) <= b.max for b in bounds)
