"""The gradient rules of accumulators.

A rule takes the cotangent of the result and the `Accumulate` node of a closed graph, and gives
triples of a node, its cotangent, and the mask outside of which that is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .accumulators import ACCUMULATORS
from .array import Array, accumulate, apply
from .constructors import scan
from .graph import Accumulate, Axis, ExpandTo, Index, Iota, Node, Scan, Size, const, make
from .ops import SHORTCUT
from .rules import conj

Parts = list[tuple[Node, Any, Any]]


def in_dtype(value: Any, node: Node) -> Any:
    """A cotangent in the dtype of its node: of complex ones for real nodes, the real part."""
    assert node.dtype is not None
    if value.dtype is not None and value.dtype.kind == "c" and node.dtype.kind != "c":
        value = value.real
    return value if value.dtype == node.dtype else value.astype(node.dtype)


def kept(value: Array, node: Accumulate) -> Array:
    """A value in the shape of a fold's result, with the folded axes as axes of size 1."""
    forms = tuple(Axis(a) for a in range(node.arg.ndim) if a not in node.axes)
    return Array(make(Index, value.node, forms, node.arg.ndim))


def stretched(value: Array, node: Accumulate) -> Array:
    """A value in the shape of a fold's result, over all its elements."""
    whole = kept(value, node) if value.ndim else value
    return Array(make(ExpandTo, whole.node, node.arg))


def _cotangents(node: Accumulate, of_arg: Array, of_initial: Array | None) -> Parts:
    where = None if node.where is None else Array(node.where)
    parts: Parts = [(node.arg, in_dtype(of_arg, node.arg), where)]
    if node.initial is not None and of_initial is not None:
        parts.append((node.initial, in_dtype(of_initial, node.initial), None))
    return parts


def _sum(g: Array, node: Accumulate) -> Parts:
    return _cotangents(node, stretched(g, node), g)


def place_of(node: Accumulate | Scan) -> Array:
    """The place of each element among those folded, in C order."""
    place: Any = Array(const(np.int64(0)))
    for axis in node.axes:
        size = make(Size, node.arg, axis)
        place = place * Array(size) + Array(make(Index, make(Iota, size), (Axis(axis),),
                                                 node.arg.ndim))
    return Array(make(ExpandTo, place.node, node.arg))


def size_of(node: Accumulate | Scan) -> Any:
    """How many elements are folded into one."""
    size: Any = Array(const(np.int64(1)))
    for axis in node.axes:
        size = size * Array(make(Size, node.arg, axis))
    return size


def extremum_rule(g: Array, node: Accumulate) -> Parts:
    """Elements that equal the extremum, or are NaN as it is, get its cotangent.

    `ties` says how much: an equal share of it ("split"), "all" of it each, or only the "first"
    element gets any.  The initial value comes before all elements.
    """
    x, z = Array(node.arg), kept(Array(node), node).astype(node.arg.dtype)
    best = (x == z) | (np.isnan(x) & np.isnan(z))
    where = None if node.where is None else Array(node.where)
    counted: Any = best if where is None else best & where
    start: Any = None
    if node.initial is not None:
        initial = Array(node.initial)
        start = (initial == Array(node)) | (np.isnan(initial) & np.isnan(Array(node)))
    share: Any = g
    ties = dict(node.options).get("ties", "split")
    if ties == "split":
        count = accumulate("sum", counted.astype(np.int64), node.axes)
        share = g / (count if start is None else count + start).astype(g.dtype)
    elif ties == "first":
        place = place_of(node)
        first = accumulate("min", apply("where", counted, place, size_of(node)), node.axes)
        counted = (place == kept(first, node)) & counted
        counted = counted if start is None else counted & np.logical_not(kept(start, node))
    of_start = None if start is None else apply("where", start, share, 0)
    of_arg, *rest = _cotangents(node, stretched(share, node), of_start)
    return [(*of_arg[:2], counted), *rest]


def _prod(g: Array, node: Accumulate) -> Parts:
    """The product of the other elements, zeros and infinities among them.

    It takes a division where the whole product kept its digits: it is finite, and so is no product
    of some of the elements subnormal or 0, for that of all that are less than 1 is not.
    """
    x: Any = Array(node.arg)
    if node.where is not None:
        x = apply("where", Array(node.where), x, 1)
    product: Any = accumulate("prod", x, node.axes)
    share = g if node.initial is None else g * Array(node.initial)
    other = others(x, node.axes)
    if x.dtype.kind == "f" and node.axes:
        info: Any = np.finfo(x.dtype)
        below = np.minimum(abs(x), 1 - info.eps)  # a product by 1 would be none, and no vector code
        least = accumulate("prod", below, node.axes)
        whole = (least >= info.tiny) & np.isfinite(product)
        other = apply(SHORTCUT, stretched(whole, node), stretched(product, node) / x, other)
    of_arg = stretched(share, node) * conj(other)
    return _cotangents(node, of_arg, None if node.initial is None else g * conj(product))


def others(x: Any, axes: tuple[int, ...]) -> Any:
    """For every element the product of all others along `axes`.

    Finite numbers times 0 are 0, also where their product overflows.
    """
    if not axes:
        return Array(const(x.dtype.type(1)))
    result: Any = None
    rows = x
    for axis in reversed(axes):  # the others of a row, times the products of the other rows
        row = scan("prod", rows, axis, exclusive=True) * scan(
            "prod", rows, axis, reverse=True, exclusive=True)
        result = row if result is None else result * row
        rows = accumulate("prod", rows, axis, keepdims=True)
    zeros, strangers = (accumulate("sum", is_so, axes, keepdims=True) - is_so
                        for is_so in (x == 0, ~np.isfinite(x)))
    overflow = np.isnan(result) & (zeros > 0) & (strangers == 0)
    return apply("where", overflow, 0, result)


def sum_back(g: Array, node: Scan, _: Any) -> list[tuple[Node, Any]]:
    """The cotangent of what a running sum goes over: the running sum from the other end."""
    [axis] = node.axes
    back = scan("sum", g, axis, reverse=not node.reverse, exclusive=node.exclusive)
    return [(node.arg, back)]


FOLD_RULES: dict[str, Callable[[Array, Accumulate], Parts]] = {
    "sum": _sum, "prod": _prod,
    **dict.fromkeys(("max", "min", "fmax", "fmin"), extremum_rule),
}


def fold_rule(node: Accumulate) -> Callable[[Array, Accumulate], Parts] | None:
    """The gradient rule of a fold that has one of its own."""
    own: Any = ACCUMULATORS.get(node.acc.name) is node.acc
    return FOLD_RULES.get(node.acc.name) if own else None
