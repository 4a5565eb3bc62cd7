"""Axes, indices and slices as users give them: constants, checked."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .errors import ArgumentError, AxisError, UnsupportedError


def bounds_of(key: slice) -> tuple[int | None, int | None, int]:
    """The constant bounds of a slice."""
    start, stop, step = (None if k is None else integer_of(k, "a slice bound")
                         for k in (key.start, key.stop, key.step))
    if step == 0:
        raise ArgumentError("a slice's step is not 0")
    return start, stop, 1 if step is None else step


def integer_of(value: Any, what: str) -> int:
    """`value`, if it is a constant integer."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    raise UnsupportedError(f"{what} is a constant integer, not {type(value).__name__}: elemc has "
                           "no gather; use slices, or elemc.where with a mask")


def axis_of(axis: Any, ndim: int) -> int:
    """`axis` as a place from 0 to `ndim - 1`."""
    try:
        place = operator.index(axis)
    except TypeError:
        raise AxisError(f"an axis is an integer, not {type(axis).__name__}") from None
    if not -ndim <= place < ndim:
        raise AxisError(f"axis {place} is out of range for rank {ndim}")
    return place % ndim


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """`axis=` as sorted non-negative integers; None is all."""
    if axis is None:
        return tuple(range(ndim))
    listed = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(sorted(axis_of(a, ndim) for a in listed))
    if len(set(axes)) < len(axes):
        raise AxisError(f"axis {axis} names an axis twice")
    return axes
