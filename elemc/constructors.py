"""Symbolic arrays made from nothing or from others: inputs, constants, shapes."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .accumulators import LOGADDEXP, Accumulator, accumulator
from .accumulators_results import result_dtype
from .array import Array, apply, as_node
from .dtypes import dtype_of
from .errors import ArgumentError, AxisError, DtypeError, ShapeError, UnsupportedError
from .graph import Align, Axis, ExpandTo, Index, Input, Iota, Node, Scan, Size, make, note_source
from .indexing import axes_of, axis_of, listed

_count = itertools.count()


def _noted(node: Node) -> Node:
    note_source(node)
    return node


def new_input(name: str, ndim: int, dtype: Any, weak: bool = False) -> Array:
    """An argument of a function to be."""
    known = None if dtype is None else dtype_of(dtype)
    ident = int.from_bytes(os.urandom(16), "big")  # of no other input, of no other process's either
    return Array(make(Input, name, ndim, known, ident, weak))


def array(name: str | None, ndim: int, dtype: Any = "float64") -> Array:
    """An input of any rank and dtype.

    Parameters
    ----------
    name : str
    ndim : int
        Its rank, at most 32.
    dtype : dtype or None
        None: any; the function is compiled for each dtype that it meets.
    """
    return _named("array(name, ndim, dtype)", name, ndim, dtype)


def _named(call: str, name: Any, ndim: Any, dtype: Any) -> Array:
    """What `call` makes, an input of that name or of a new one, from checked arguments."""
    if name is not None and not isinstance(name, str):
        raise ArgumentError(f"{call}: the name comes first, and {name!r} is no string")
    if isinstance(ndim, bool) or not isinstance(ndim, (int, np.integer)) or not 0 <= ndim <= 32:
        raise ArgumentError(f"{call} {name}: a rank is an integer from 0 to 32, not {ndim!r}")
    try:
        return new_input(name or f"x{next(_count)}", int(ndim), dtype)
    except DtypeError as error:
        raise DtypeError(f"{call} {name}: {error}") from None


def scalar(name: str | None = None, dtype: Any = "float64") -> Array:
    """An input of rank 0."""
    return _named("scalar(name, dtype)", name, 0, dtype)


def vector(name: str | None = None, dtype: Any = "float64") -> Array:
    """An input of rank 1."""
    return _named("vector(name, dtype)", name, 1, dtype)


def matrix(name: str | None = None, dtype: Any = "float64") -> Array:
    """An input of rank 2."""
    return _named("matrix(name, dtype)", name, 2, dtype)


def tensor3(name: str | None = None, dtype: Any = "float64") -> Array:
    """An input of rank 3."""
    return _named("tensor3(name, dtype)", name, 3, dtype)


def tensor4(name: str | None = None, dtype: Any = "float64") -> Array:
    """An input of rank 4."""
    return _named("tensor4(name, dtype)", name, 4, dtype)


def constant(value: Any, dtype: Any = None) -> Array:
    """A constant; Python numbers without `dtype` are weak, as NumPy has it."""
    if dtype is not None:
        value = np.asarray(value, dtype_of(dtype))
        value = value[()] if value.ndim == 0 else value
    return Array(as_node(value))


def align(x: Any, order: str) -> Array:
    """`x`, aligned by `order` ("f" or "c") in the operation that consumes it."""
    if order not in ("c", "f"):
        raise ArgumentError(f"unknown order {order!r}: it is 'f' or 'c'")
    return Array(_noted(make(Align, as_node(x), order)))


def where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where the condition holds, else `y`; of symbolic or of NumPy arrays."""
    if not any(isinstance(value, Array) for value in (condition, x, y)):
        return np.where(condition, x, y)
    return apply("where", condition, x, y)


def astype(x: Any, dtype: Any) -> Any:
    """`x` converted to `dtype`; of symbolic or of NumPy arrays."""
    if not isinstance(x, Array):
        return np.asarray(x).astype(dtype_of(dtype))[()]
    return x.astype(dtype)


def length(x: Array) -> Array:
    """The size of the first axis, as a symbolic integer."""
    if not x.ndim:
        raise AxisError("an array of rank 0 has no length")
    return x.shape[0]


def expand_to(x: Any, like: Array) -> Array:
    """`x` stretched to the shape of `like`."""
    node = as_node(x)
    if node.ndim > like.ndim:
        raise ShapeError(f"expand_to: rank {node.ndim} does not stretch to rank {like.ndim}")
    return Array(_noted(make(ExpandTo, node, like.node)))


def full_like(x: Any, value: Any, dtype: Any = None) -> Any:
    """`value` in the shape of `x`, in the dtype of `x` unless another is given."""
    if not isinstance(x, Array) and not isinstance(value, Array):
        return np.full_like(x, value, dtype and dtype_of(dtype))
    x = Array(as_node(x))
    dtype = x.dtype if dtype is None else dtype_of(dtype)
    if dtype is None:
        raise DtypeError("full_like needs dtype=: that of its argument is not known yet")
    return expand_to(Array(as_node(value)).astype(dtype), x)


def zeros_like(x: Any, dtype: Any = None) -> Any:
    """Zeros in the shape of `x`."""
    return full_like(x, 0, dtype)


def ones_like(x: Any, dtype: Any = None) -> Any:
    """Ones in the shape of `x`."""
    return full_like(x, 1, dtype)


def arange(size: Array) -> Array:
    """The integers below `size`, which is the size of an axis, `x.shape[i]`."""
    node = as_node(size)
    if not isinstance(node, Size):
        raise UnsupportedError("arange takes the size of an axis, arange(x.shape[i]): scale and "
                               "shift the result for another start or step")
    return Array(_noted(make(Iota, node)))


def moveaxis(x: Array, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """`x` with some axes moved to other places; the rest keep their order."""
    sources, places = ([axis_of(a, x.ndim) for a in listed(axes)] for axes in (source, destination))
    if len(sources) != len(places) or len({*sources}) < len(sources) or (
            len({*places}) < len(places)):
        raise AxisError(f"moveaxis from {source} to {destination}: as many places as axes, none of "
                        "them twice")
    order = [a for a in range(x.ndim) if a not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return x.transpose(order)


def expand_dims(x: Array, axis: int | Sequence[int]) -> Array:
    """`x` with new axes of size 1."""
    ndim = x.ndim + len(listed(axis))
    new = axes_of(axis, ndim)
    return x[tuple(None if a in new else slice(None) for a in range(ndim))]


def flip(x: Array, axis: int | Sequence[int] | None = None) -> Array:
    """`x` reversed along the given axes."""
    axes = axes_of(axis, x.ndim)
    return x[tuple(slice(None, None, -1) if a in axes else slice(None) for a in range(x.ndim))]


def scan(acc: Any, x: Any, axis: int | None = None, *, reverse: bool = False,
         exclusive: bool = False) -> Array:
    """The running states of an accumulator along one axis: `scan("sum", x)` is a running sum.

    Parameters
    ----------
    acc : str or Accumulator
    x : Array
    axis : int, optional
        Without it, `x` has one axis only.
    reverse : bool
        Go from the end to the beginning.
    exclusive : bool
        Each element's state is the one before it, so that the first is the identity.
    """
    fold, node = accumulator(acc), as_node(x)
    if not isinstance(fold, Accumulator):
        raise UnsupportedError(f"a scan of {fold.name}: it is made of several folds")
    if axis is None and node.ndim != 1:
        raise AxisError(f"scan of rank {node.ndim} without axis=: elemc does not flatten; give one")
    place = 0 if axis is None else axis_of(axis, node.ndim)
    dtype = None if node.dtype is None else result_dtype(fold, node.dtype)
    return Array(_noted(make(Scan, fold, node, (), (), (place,), bool(reverse), bool(exclusive),
                             dtype, None)))


def cumsum(x: Any, axis: int | None = None) -> Array:
    """The running sum."""
    return scan("sum", x, axis)


def cumprod(x: Any, axis: int | None = None) -> Array:
    """The running product."""
    return scan("prod", x, axis)


def logcumsumexp(x: Any, axis: int | None = None) -> Array:
    """The logarithm of the running sum of exponentials, without overflow."""
    return scan(LOGADDEXP, x, axis)


def diagonal(x: Array, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The elements whose indices on two axes of one size are alike; their axis becomes the last.

    With `offset`, those where the index on `axis2` is greater by that much.
    """
    one, two = axis_of(axis1, x.ndim), axis_of(axis2, x.ndim)
    if one == two:
        raise AxisError(f"diagonal: axis1 and axis2 are both {one}")
    if offset:
        above, below = slice(max(offset, 0), min(offset, 0) or None), slice(
            max(-offset, 0), min(-offset, 0) or None)
        x = x[tuple(below if d == one else above if d == two else slice(None)
                    for d in range(x.ndim))]
    rest = iter(range(x.ndim))
    forms = tuple(Axis(x.ndim - 2 if d in (one, two) else next(rest)) for d in range(x.ndim))
    return Array(_noted(make(Index, x.node, forms, x.ndim - 1)))


def transpose(x: Array, axes: Sequence[int] | None = None) -> Any:
    """`x` with its axes permuted; without `axes`, reversed."""
    return _ranked(x).transpose(axes)


def swapaxes(x: Array, axis1: int, axis2: int) -> Any:
    """`x` with two axes exchanged."""
    return _ranked(x).swapaxes(axis1, axis2)


def squeeze(x: Array, axis: int | tuple[int, ...] | None = None) -> Any:
    """`x` without the given axes, which must be of size 1 when called."""
    return _ranked(x).squeeze(axis)


def _ranked(x: Any) -> Any:
    """`x`, symbolic or NumPy's, as something with axes."""
    return x if isinstance(x, Array) else np.asarray(x)


def clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """`x` limited to [min, max], None: no limit; of symbolic or of NumPy arrays."""
    if not any(isinstance(value, Array) for value in (x, min, max)):
        return np.clip(x, min, max)
    return Array(as_node(x)).clip(min, max)
