"""NumPy's functions that stack arrays along a new axis, or stretch them over each other's.

A stack is a choice by the index along the new axis (`choices`), which all else knows how to fuse
and to differentiate.  Arrays are not joined along an axis that they have: where one begins depends
on the sizes of those before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .array import Array, apply, as_node
from .constructors import arange, expand_dims, expand_to, moveaxis, where
from .errors import ArgumentError, ShapeError, UnsupportedError
from .graph import make, note_source
from .graph_gradients import Exactly
from .indexing import axis_of
from .protocol_numpy import FUNCTIONS, computes


def _operands(arrays: Sequence[Any], what: str) -> list[Array]:
    """Symbolic arrays of one dtype; Python numbers are arrays here, as they are NumPy's."""
    parts = [_operand(a) for a in arrays]
    if not parts:
        raise ArgumentError(f"{what} of no arrays")
    dtype = FUNCTIONS[np.result_type](*parts)
    return [p if p.dtype == dtype else p.astype(dtype) for p in parts]


def _operand(value: Any) -> Array:
    return value if isinstance(value, Array) else Array(as_node(np.asarray(value)[()]))


def _stack(arrays: Sequence[Any], axis: int = 0, *, dtype: Any = None,
           casting: Any = "same_kind") -> Array:
    first, *others = _operands(arrays, "np.stack")
    if ranks := [p.ndim for p in others if p.ndim != first.ndim]:
        raise ShapeError(f"np.stack of arrays of ranks {first.ndim} and {ranks[0]}: all have one "
                         "shape")
    place = axis_of(axis, first.ndim + 1)
    made, *rest = [expand_dims(p, place) for p in (first, *(_exactly(p, first) for p in others))]
    if rest:
        every = Array(as_node(np.zeros(len(arrays), bool)))  # whose size it has along the axis
        along = tuple(slice(None) if a == place else None for a in range(made.ndim))
        index = arange(every.shape[0])[along]
        *between, last = rest
        for number, part in reversed([*enumerate((made, *between))]):
            last = where(np.equal(index, number), part, last)
        made = last
    return made if dtype is None else made.astype(dtype, casting=casting)


def _exactly(x: Array, like: Array) -> Array:
    """`x`, which must have the shape of `like`."""
    node = make(Exactly, x.node, like.node)
    note_source(node)
    return Array(node)


def stack_of(name: str, most: int, laid: Callable[[list[Array]], Array]) -> Callable[..., Array]:
    """`np.vstack` and its like, of arrays of ranks up to `most`, of which it makes stacks."""
    def stacked(tup: Sequence[Any], *, dtype: Any = None, casting: Any = "same_kind") -> Array:
        parts = _operands(tup, name)
        ranks = sorted({p.ndim for p in parts})
        if ranks[-1] > most or len(ranks) > 1:
            raise UnsupportedError(
                f"elemc has no {name} of arrays of rank {' and '.join(map(str, ranks))}. The "
                "nearest thing: several outputs of one function, written into slices with out=, "
                "or np.stack.")
        made = laid(parts)
        return made if dtype is None else made.astype(dtype, casting=casting)

    return stacked


STACKS: dict[Any, Callable[..., Array]] = {
    np.stack: _stack,
    np.vstack: stack_of("np.vstack", 1, lambda parts: (
        _stack(parts) if parts[0].ndim else _stack(parts)[:, None])),
    np.hstack: stack_of("np.hstack", 0, _stack),
    np.column_stack: stack_of("np.column_stack", 1, lambda parts: (
        _stack(parts, -1) if parts[0].ndim else _stack(parts)[None])),
    np.dstack: stack_of("np.dstack", 2, lambda parts: (
        _stack(parts, -1)[(None,) * (2 - parts[0].ndim)])),
}
FUNCTIONS.update(STACKS)


@computes(np.cross)
def _cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1,
           axis: int | None = None) -> Array:
    if axis is not None:
        axisa = axisb = axisc = axis
    (a0, a1, a2), (b0, b1, b2) = _three(a, axisa), _three(b, axisb)
    made = _stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], -1)
    return moveaxis(made, -1, axisc)


FUNCTIONS[np.linalg.cross] = lambda x1, x2, *, axis=-1: _cross(x1, x2, axis=axis)


def _three(x: Any, axis: int) -> list[Array]:
    """The components of vectors, which have three."""
    x = _operand(x)
    if not x.ndim:
        raise ShapeError("np.cross of an array of rank 0: it takes vectors of 3 elements")
    x = moveaxis(x, axis, -1)
    x = _exactly(x, apply("logical_or", x[..., :1], np.zeros(3, bool)))
    return [x[..., k] for k in range(3)]


# -- shapes that are made one -----------------------------------------------------------------


@computes(np.broadcast_arrays)
def _broadcast_arrays(*args: Any) -> tuple[Array, ...]:
    parts = [*map(_operand, args)]
    # of which nothing but the shape is asked for
    like = functools.reduce(lambda a, b: apply("logical_or", a, b), parts)
    return tuple(expand_to(p, like) for p in parts)


@computes(np.meshgrid)
def _meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy"
              ) -> tuple[Array, ...]:
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"np.meshgrid: indexing is 'xy' or 'ij', not {indexing!r}")
    parts = [*map(_operand, xi)]
    if ranks := [p.ndim for p in parts if p.ndim > 1]:
        raise ShapeError(f"np.meshgrid of an array of rank {ranks[0]}: elemc does not flatten")
    places = [*range(len(parts))]
    if indexing == "xy" and len(parts) > 1:
        places[:2] = 1, 0
    lines = [(p if p.ndim else p[None])[tuple(slice(None) if k == place else None
                                              for k in range(len(parts)))]
             for p, place in zip(parts, places, strict=True)]
    return tuple(lines) if sparse or not lines else _broadcast_arrays(*lines)
