"""The NumPy interpreter of a closed graph.

It is the meaning of elemc, the oracle of the tests, and what answers where no C compiler exists.
It makes an array of every node, so it is neither fast nor thrifty.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .errors import DomainError, ShapeError
from .formula import formula
from .graph import (
    Accumulate,
    Apply,
    Axis,
    Captured,
    Cast,
    Const,
    ExpandTo,
    Graph,
    Index,
    Iota,
    Node,
    Only,
    Pick,
    Scan,
    Size,
    source_of,
)
from .graph_gradients import Custom, Result, Scatter, SumTo
from .maps import extents_of, run_extents


def interpret(graph: Graph, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a closed graph for these inputs, as new arrays.

    Parameters
    ----------
    graph : Graph
        A closed graph.
    arrays : sequence of ndarray
        One per input, of its rank; they are converted to its dtype.

    Raises
    ------
    maps.Misfit
        If the sizes do not fit together.
    ShapeError
        If an accumulator without identity meets an empty axis.
    DomainError
        If an operation rejects a value.
    """
    captured = [node.array.data for node in graph.captured]
    extents = extents_of(graph)
    sizes = run_extents(extents.program, [a.shape for a in (*arrays, *captured)])
    values: dict[Node, np.ndarray] = {}
    for end, array in zip(graph.inputs, arrays, strict=True):
        values[end] = np.asarray(array).astype(end.dtype, copy=False)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        for node in graph.nodes:
            if node not in values:
                shape = tuple(sizes[e] for e in extents.of[node])
                result = _value(node, values, shape)
                values[node] = np.broadcast_to(result, shape)
    return [np.array(values[o], dtype=o.dtype, copy=True) for o in graph.outputs]


def _value(node: Node, values: dict[Node, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    match node:
        case Captured():
            return node.array.data
        case Const():
            return np.asarray(node.value)
        case Size():
            return np.asarray(values[node.arg].shape[node.dim], np.int64)
        case Iota():
            return np.arange(shape[0], dtype=np.int64)
        case Cast():
            return values[node.arg].astype(node.dtype)
        case Apply():
            try:
                result = node.op.numpy(*(values[a] for a in node.args))
            except ValueError as error:
                text = f"{str(error).rstrip('.')}: {formula(node)}"
                problem = DomainError(text)
                problem.locate(source_of(node))
                raise problem from None
            return np.asarray(result).astype(node.dtype, copy=False)
        case ExpandTo() | Result():
            return values[node.arg]
        case Custom():
            return values[node.args[0]]
        case Index():
            return _index(values[node.arg], node.forms, node.ndim)
        case SumTo():
            arg = values[node.arg].astype(node.program.value)
            over = tuple(a for a, n in enumerate(shape) if n == 1)
            fold = np.any if node.dtype == bool else np.sum
            return np.asarray(fold(arg, axis=over, keepdims=True)).astype(node.dtype)
        case Scatter():
            arg = values[node.arg]
            places = np.arange(math.prod(shape)).reshape(shape)
            result = np.zeros(math.prod(shape), node.dtype)
            result[_index(places, node.forms, arg.ndim)] = arg
            return result.reshape(shape)
        case Accumulate():
            return _accumulate(node, values)
        case Scan():
            return _scan(node, [values[n] for n in (node.arg, *node.more)],
                         [values[n] for n in node.initial])
    raise AssertionError(f"{type(node).__name__} in a closed graph")


def _index(array: np.ndarray, forms: Sequence[Any], ndim: int) -> np.ndarray:
    keys: list[slice | int] = []
    kept: list[int] = []
    for form in forms:
        match form:
            case Axis():
                keys.append(slice(form.start, form.stop, form.step))
                kept.append(form.axis)
            case Pick():
                keys.append(form.index)
            case Only():
                keys.append(0)
    picked = array[tuple(keys)]
    for axis in [a for a in sorted(set(kept)) if kept.count(a) > 1]:
        while kept.count(axis) > 1:
            one, two = [d for d, a in enumerate(kept) if a == axis][:2]
            picked = np.diagonal(picked, axis1=one, axis2=two)
            kept = [a for d, a in enumerate(kept) if d not in (one, two)] + [axis]
    order = sorted(range(len(kept)), key=kept.__getitem__)
    missing = [a for a in range(ndim) if a not in kept]
    return np.expand_dims(picked.transpose(order), missing)


def _accumulate(node: Accumulate, values: dict[Node, np.ndarray]) -> np.ndarray:
    arg = values[node.arg]
    where = np.broadcast_to(values[node.where], arg.shape) if node.where is not None else None
    initial = values[node.initial] if node.initial is not None else None
    program = dict(node.options)["program"]
    count = math.prod(arg.shape[a] for a in node.axes)
    kept = [n for a, n in enumerate(arg.shape) if a not in node.axes]
    if count == 0 and program.identity is None and initial is None:
        raise ShapeError(
            f"accumulator {node.acc.name} has no identity: it cannot fold an axis of size 0 "
            f"(axis {', '.join(str(a) for a in node.axes)} of an array of shape {arg.shape})")
    if 0 in kept:
        return np.zeros(kept, node.dtype)
    value = arg.astype(program.value, copy=False)
    if node.acc.reduce is None:
        return _fold(program, value, node.axes, initial, where)
    result = node.acc.reduce(value, axis=node.axes, dtype=program.state[0],
                             **({} if where is None else {"where": where}),
                             **_start(initial))
    return np.asarray(result).astype(node.dtype, copy=False)


def _start(initial: np.ndarray | None) -> dict[str, Any]:
    if initial is None:
        return {}
    if initial.ndim:
        raise ShapeError("initial= of a reduction is a scalar")
    return {"initial": initial[()]}


def _scan(node: Scan, args: list[np.ndarray], initial: list[np.ndarray]) -> np.ndarray:
    kept = [a for a in range(node.ndim) if a not in node.axes]
    order = (*node.axes, *kept)
    moved = [a.transpose(order) for a in args]
    shape = moved[0].shape
    rows, *more = (a.reshape(-1 if a.size else math.prod(shape[:len(node.axes)]),
                             *shape[len(node.axes):]) for a in moved)
    rows = rows.astype(node.program.value, copy=False)
    result = np.empty(rows.shape, node.dtype)
    state: list[np.ndarray] | None = initial or None
    if state is None and node.program.identity is not None:
        state = [np.full(rows.shape[1:], p) for p in node.program.identity]
    places = range(len(rows))
    for k in reversed(places) if node.reverse else places:
        extra = [rows[k], *(m[k] for m in more),
                 *([np.full(rows.shape[1:], k)] if node.program.index else [])]
        before = state
        state = _elementwise(node.program.start, extra) if state is None else (
            _elementwise(node.program.combine, [*state, *extra]))
        shown = before if node.exclusive and before is not None else state
        result[k] = _elementwise(node.program.finish, shown)[0]
    return result.reshape(shape).transpose(np.argsort(order))


def _fold(program: Any, value: np.ndarray, axes: tuple[int, ...], initial: np.ndarray | None,
          where: np.ndarray | None) -> np.ndarray:
    """A left fold in C order of the reduced axes, all results at once."""
    kept = [a for a in range(value.ndim) if a not in axes]
    shape = [value.shape[a] for a in kept]
    count = math.prod(value.shape[a] for a in axes)
    rows = value.transpose((*axes, *kept)).reshape(count, *shape)
    masks = None if where is None else where.transpose((*axes, *kept)).reshape(count, *shape)
    state: list[np.ndarray] | None = None
    if program.identity is not None:
        state = [np.full(shape, p) for p in program.identity]
    if initial is not None:
        state = [np.broadcast_to(initial, shape), *(state or [])[1:]]
    for k in range(len(rows)):
        extra = [rows[k], *([np.full(shape, k)] if program.index else [])]
        if state is None:
            state = _elementwise(program.start, extra)
            continue
        new = _elementwise(program.combine, [*state, *extra])
        if masks is not None:
            new = [np.where(masks[k], n, s) for n, s in zip(new, state, strict=True)]
        state = new
    if state is None:  # no element, no result either
        return np.zeros(shape, program.dtype)
    return np.broadcast_to(_elementwise(program.finish, state)[0], shape)


def _elementwise(graph: Graph, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a graph of scalars, for arrays of one shape."""
    values: dict[Node, np.ndarray] = dict(zip(graph.inputs, arrays, strict=True))
    for node in graph.nodes:
        if node not in values:
            values[node] = _value(node, values, ())
    return [values[o] for o in graph.outputs]
