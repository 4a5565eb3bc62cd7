"""What an operand counts as when dtypes are chosen: Python's numbers give way (NEP 50)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .graph import Align, Apply, Const, Input, Node, Size, const

PYTHON_TYPES = {"i": int, "u": int, "f": float, "c": complex}
ARITHMETIC = set("add subtract multiply divide floor_divide remainder power negative positive "
                 "absolute".split())
MOST = 32  # operations on sizes that are followed


def promotion_types(nodes: Sequence[Node], dtypes: Sequence[np.dtype | None]) -> list[Any]:
    """What operands of these dtypes count as together.

    In Python a size is a number, whose dtype gives way: `x / x.shape[0]` of float32 is float32.
    Among integers it stays int64: it may not fit a smaller one.
    """
    types = [promotion_type(n, t) for n, t in zip(nodes, dtypes, strict=True)]
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


def comparable(a: Node, b: Node) -> tuple[Node, Node]:
    """The operands of a comparison: a Python integer may lie outside of the other's dtype."""
    for value, other in ((a, b), (b, a)):
        if isinstance(value, Const) and value.weak and value.dtype.kind in "iu" and (
                other.dtype is not None and other.dtype.kind in "iu"):
            bounds = np.iinfo(other.dtype)
            if not bounds.min <= int(value.value) <= bounds.max:
                strong = const(value.value)
                return (strong, b) if value is a else (a, strong)
    return a, b
