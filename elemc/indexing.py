"""Axes, indices and slices as users give them: constants, checked."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .errors import ArgumentError, AxisError, TraceError, UnsupportedError
from .formula import formula
from .graph import Apply, Axis, Node, Only, Pick, Size

OF_SIZES = ("for np.arange or range of a size write elemc.arange(x.shape[0]), for "
            "np.zeros(x.shape) elemc.zeros_like(x), for np.ones(x.shape) elemc.ones_like(x)")


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
    node = getattr(value, "node", None)
    if node is not None and not node.ndim:
        raise UnsupportedError(f"{what} is a constant integer, not {formula(node)}: it is known "
                               "only when the compiled function is called; pass an integer that is "
                               "compiled with static=, or slice the arrays before the call")
    raise UnsupportedError(f"{what} is a constant integer, not {type(value).__name__}: elemc has "
                           "no gather; use slices, or with a mask x.sum(where=mask) and "
                           "elemc.where(mask, x, 0) (if it is an "
                           "argument of a compiled function: compile with static=)")


def about_sizes(node: Node) -> str:
    """What to write instead, if `node` is computed from sizes and its value was asked for."""
    while isinstance(node, Apply) and not node.ndim:
        node = next((a for a in node.args if isinstance(a, (Apply, Size))), node.args[0])
    return f"; {OF_SIZES}" if isinstance(node, Size) else ""


def axis_of(axis: Any, ndim: int) -> int:
    """`axis` as a place from 0 to `ndim - 1`."""
    try:
        place = operator.index(axis)
    except TraceError:
        name = axis.name or "axis"
        raise AxisError(f"an axis is an integer, and {name} is a symbolic array: if it is an "
                        f"argument of a compiled function, compile with static={name!r}") from None
    except TypeError:
        raise AxisError(f"an axis is an integer, not {type(axis).__name__}") from None
    if not -ndim <= place < ndim:
        raise AxisError(f"axis {place} is out of range for rank {ndim}")
    return place % ndim


def listed(axis: Any) -> tuple[Any, ...]:
    """`axis=`, one or several, as a tuple."""
    return tuple(axis) if isinstance(axis, (tuple, list, range)) else (axis,)


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """`axis=` as sorted non-negative integers; None is all."""
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(sorted(axis_of(a, ndim) for a in listed(axis)))
    if len(set(axes)) < len(axes):
        raise AxisError(f"axis {axis} names an axis twice")
    return axes


def forms_of(keys: Sequence[Any], ndim: int) -> tuple[tuple[Axis | Pick, ...], int]:
    """How `x[keys]` reads each of the `ndim` dimensions of `x`, and the rank of the result."""
    if sum(k is Ellipsis for k in keys) > 1:
        raise AxisError("an index has at most one ...")
    at = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
    before, after = keys[:at], keys[at + 1:]
    rest = ndim - sum(k is not None for k in (*before, *after))
    forms: list[Axis | Pick] = []
    axis = 0
    for k in (*before, *[slice(None)] * rest, *after):
        if k is None:
            axis += 1
        elif isinstance(k, slice):
            forms.append(Axis(axis, *bounds_of(k)))
            axis += 1
        else:
            forms.append(Pick(integer_of(k, "an index")))
    return tuple(forms), axis


def permutation_of(axes: Any, ndim: int) -> tuple[Axis, ...]:
    """How `x.transpose(axes)` reads `x`; no axes: in reverse."""
    every = (() if axes is None else listed(axes)) or tuple(range(ndim)[::-1])
    places = [axis_of(a, ndim) for a in every]
    if sorted(places) != list(range(ndim)):
        raise AxisError(f"axes {every} are no permutation of {ndim} axes")
    return tuple(Axis(places.index(d)) for d in range(ndim))


def without(axes: tuple[int, ...], ndim: int) -> tuple[tuple[Axis | Only, ...], int]:
    """How `x.squeeze(axes)` reads `x`, and the rank of the result."""
    kept = [d for d in range(ndim) if d not in axes]
    return tuple(Only() if d in axes else Axis(kept.index(d)) for d in range(ndim)), len(kept)
