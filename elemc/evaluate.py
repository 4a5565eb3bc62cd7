"""Values without naming a function: `Array.eval`, and functions of NumPy arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from . import linear
from .array import Array
from .function import Function, function
from .node import Node
from .tracing import compile


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


def at_once(fn: Callable[..., Any], operands: slice) -> Callable[..., Any]:
    """`fn` of symbolic arrays; without a symbolic operand it is computed at once.

    `operands` says which positional arguments may be arrays; `where` and `initial` may be, too.
    """

    @functools.wraps(fn)
    def call(*args: Any, **named: Any) -> Any:
        given: dict[Any, Any] = {**dict(enumerate(args)), **named}
        if any(isinstance(value, Array) for value in given.values()):
            return fn(*args, **named)
        arrays = [*range(len(args))[operands], *(n for n in named if n in ("where", "initial"))]
        settings = tuple((k, type(v), _hashable(v)) for k, v in given.items() if k not in arrays)
        return _computed(fn, tuple(arrays), settings)(*(given[k] for k in arrays))

    call.__module__ = __package__  # where pickle finds it
    return call


def _hashable(setting: Any) -> Any:
    """A setting such as `axes=([0], [1])` with tuples for lists."""
    listed = isinstance(setting, (list, tuple))
    return tuple(map(_hashable, setting)) if listed else setting


@functools.lru_cache(maxsize=256)
def _computed(fn: Callable[..., Any], arrays: tuple[Any, ...], settings: Any) -> Any:
    """`fn` compiled for these settings, as a function of its arrays."""
    fixed = {k: value for k, _, value in settings}

    def computed(*values: Any) -> Any:
        given = fixed | dict(zip(arrays, values, strict=True))
        positional = [given.pop(k) for k in sorted(k for k in given if isinstance(k, int))]
        return fn(*positional, **given)

    return compile(computed, name=fn.__name__)


dot, inner, matmul, outer, vdot = (at_once(fn, slice(None)) for fn in (
    linear.dot, linear.inner, linear.matmul, linear.outer, linear.vdot))
einsum, tensordot = at_once(linear.einsum, slice(1, None)), at_once(linear.tensordot, slice(2))

setattr(Array, "eval", evaluate)  # noqa: B010 - a method of a layer far below
