"""What an operand counts as when dtypes are chosen: Python's numbers give way (NEP 50)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .graph import Align, Const, Input, Node, const


def promotion_type(node: Node) -> Any:
    """The dtype of `node`, the Python type of a weak scalar, or None."""
    while isinstance(node, Align):
        node = node.arg
    if isinstance(node, (Const, Input)) and node.weak and node.dtype is not None:
        return {"i": int, "u": int, "f": float, "c": complex}.get(node.dtype.kind, node.dtype)
    return node.dtype


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
