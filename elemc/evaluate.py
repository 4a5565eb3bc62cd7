"""`Array.eval`: an expression's value without naming a function."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from .array import Array
from .function import Function, function
from .node import Node


def evaluate(expression: Array, values: Mapping[Array, Any] | None = None) -> Any:
    """The value of an expression in order f: `(x * y).eval({x: X, y: Y})`.

    Parameters
    ----------
    values : mapping of Array to array_like
        A value for every input.

    Raises
    ------
    ArgumentError
        If an input has no value.
    """
    values = values or {}
    return _evaluator(tuple(x.node if isinstance(x, Array) else x for x in values),
                      expression.node)(*values.values())


@functools.lru_cache(maxsize=64)
def _evaluator(inputs: tuple[Any, ...], node: Node) -> Function:
    return function(inputs, Array(node), name="eval")


setattr(Array, "eval", evaluate)  # noqa: B010 - a method of a layer far below
