"""Operations of the user's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .array import Array, apply, as_node
from .constructors import new_input
from .errors import ArgumentError
from .graph import Graph, make, note_source
from .graph_gradients import Custom, Result
from .ops import user_op
from .portable import substitute
from .tracing import compile


def scalar_op(name: str, fn: Callable[..., Any] | None = None, *, c: str | None = None,
              numpy: Callable[..., Any] | None = None, arity: int | None = None,
              vjp: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Define an elementwise operation.

    Parameters
    ----------
    name : str
    fn : callable, optional
        The operation as a Python function of symbolic scalars; it is traced and inlined.  Its
        parameters are the operands, but for those that have a default.
    c : str, optional
        The operation as a C expression, with {x}, {y}, {z} (or {x0}, {x1}, ...) for its operands;
        needs `numpy` and `arity`.  Operands are floating-point.
    numpy : callable, optional
        The same on NumPy arrays.
    arity : int, optional
        Number of operands; default: that of `fn`.
    vjp : callable, optional
        The gradient rule, `vjp(g, out, *operands)`.

    Returns
    -------
    callable
        Of symbolic arrays, or of NumPy arrays.

    Raises
    ------
    ArgumentError
        If neither or both of `fn` and `c` are given, or something that they need is missing.
    """
    if (fn is None) == (c is None):
        raise ArgumentError(f"scalar_op {name}: give either fn= (Python) or c= (C)")
    if not isinstance(name, str):
        raise ArgumentError(f"scalar_op(name, fn): the name comes first, and {name!r} is no string")
    if fn is not None:
        count = _operands(name, fn, arity)
        inputs = [new_input(f"x{k}", 0, None) for k in range(count)]
        ends = tuple(i.node for i in inputs)
        graph = Graph(ends, (as_node(fn(*inputs)),))  # type: ignore[arg-type]
        return UserOp(name, count, graph, None, vjp)
    if c is None or numpy is None or arity is None:
        raise ArgumentError(f"scalar_op {name}: c= needs numpy= (the same in NumPy) and arity=")
    return UserOp(name, arity, None, replace(user_op(name, arity, c, numpy), vjp=vjp), vjp)


def _operands(name: str, fn: Callable[..., Any], arity: int | None) -> int:
    """How many operands `fn` has: `arity`, or its parameters, but for those with a default."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # a function written in C does not say
        arity = fn.nin if arity is None and isinstance(fn, np.ufunc) else arity
        if arity is None:
            raise ArgumentError(f"scalar_op {name}: fn= does not tell its operands: give "
                                "arity=") from None
        return arity
    parameters = signature.parameters.values()
    count = arity
    if count is None:
        count = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
                    for p in parameters)
        if any(p.kind is p.VAR_POSITIONAL for p in parameters):
            raise ArgumentError(f"scalar_op {name}: fn{signature} takes any number of operands: "
                                "give arity=")
    try:
        signature.bind(*range(count))
    except TypeError as error:
        raise ArgumentError(f"scalar_op {name}: fn{signature} does not take {count} operands: "
                            f"{error}") from None
    return count


class UserOp:
    """An operation that `scalar_op` made."""

    def __init__(self, name: str, arity: int, graph: Graph | None, op: Any, vjp: Any) -> None:
        self.__name__, self.arity, self.graph, self.op, self.vjp = name, arity, graph, op, vjp

    def __call__(self, *operands: Any) -> Any:
        """The operation on symbolic or NumPy arrays."""
        if len(operands) != self.arity:
            raise ArgumentError(f"{self.__name__} takes {self.arity} operands, {len(operands)} "
                                "were given")
        if not any(isinstance(o, Array) for o in operands):
            return compile(self, name=self.__name__)(*operands)
        if self.op is not None:
            return apply(self.op, *operands)
        assert self.graph is not None
        result = substitute(self.graph, operands)[0]
        if self.vjp is None:
            return result
        ends = tuple(map(as_node, operands))
        call = make(Custom, self.__name__, (result.node,), ends, self.vjp, None, True)
        note_source(call)
        return Array(make(Result, call, 0))

    def __repr__(self) -> str:
        return f"<elemc scalar_op {self.__name__}>"
