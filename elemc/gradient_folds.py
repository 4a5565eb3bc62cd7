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
from .errors import UnsupportedError
from .graph import Accumulate, Axis, ExpandTo, Index, Node, Scan, make

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


def _extremum(g: Array, node: Accumulate) -> Parts:
    """Elements that equal the extremum share its cotangent; so do NaNs."""
    x, z = Array(node.arg), kept(Array(node), node).astype(node.arg.dtype)
    best = (x == z) | (np.isnan(x) & np.isnan(z))
    where = None if node.where is None else Array(node.where)
    counted = best if where is None else best & where
    count = accumulate("sum", counted.astype(np.int64), node.axes)
    start = None
    if node.initial is not None:
        first = Array(node.initial)
        start = (first == Array(node)) | (np.isnan(first) & np.isnan(Array(node)))
        count = count + start
    share = g / count.astype(g.dtype)
    of_start = None if start is None else apply("where", start, share, 0)
    of_arg, *rest = _cotangents(node, stretched(share, node), of_start)
    return [(*of_arg[:2], counted), *rest]


def _prod(g: Array, node: Accumulate) -> Parts:
    """The product of the other elements, without a division, zeros and infinities among them."""
    x: Any = Array(node.arg)
    if node.where is not None:
        x = apply("where", Array(node.where), x, 1)
    product = None if node.initial is None else accumulate("prod", x, node.axes)
    share = g if node.initial is None else g * Array(node.initial)
    of_arg = stretched(share, node) * conj(others(x, node.axes))
    return _cotangents(node, of_arg, None if product is None else g * conj(product))


def conj(x: Any) -> Any:
    """The conjugate; of a real number itself."""
    return np.conjugate(x) if x.dtype.kind == "c" else x


def others(x: Any, axes: tuple[int, ...]) -> Any:
    """For every element the product of all others along `axes`.

    Finite numbers times 0 are 0, also where their product overflows.
    """
    solid = apply("where", x == 0, 1, x)
    result = None
    for axis in reversed(axes):  # the others of a row, times the products of the other rows
        row = scan("prod", solid, axis, exclusive=True) * scan(
            "prod", solid, axis, reverse=True, exclusive=True)
        result = row if result is None else result * row
        solid = accumulate("prod", solid, axis, keepdims=True)
    zero, strange = x == 0, ~np.isfinite(x)
    zeros, strangers = (accumulate("sum", is_so, axes, keepdims=True) - is_so
                        for is_so in (zero, strange))
    nothing = apply("where", strangers > 0, np.nan, 0.0)
    return apply("where", zeros > 0, nothing, result)


def scan_rule(g: Array, node: Scan) -> Array:
    """The cotangent of what a scan goes over.

    Raises
    ------
    UnsupportedError
        If there is no rule.
    """
    if node.acc is not ACCUMULATORS["sum"]:
        raise UnsupportedError(f"a scan of {node.acc.name} has no gradient")
    back = scan("sum", g, node.axis, reverse=not node.reverse, exclusive=node.exclusive)
    return in_dtype(back, node.arg)  # type: ignore[no-any-return]


FOLD_RULES: dict[str, Callable[[Array, Accumulate], Parts]] = {
    "sum": _sum, "prod": _prod,
    **dict.fromkeys(("max", "min", "fmax", "fmin"), _extremum),
}


def fold_rule(node: Accumulate) -> Callable[[Array, Accumulate], Parts]:
    """The gradient rule of a fold.

    Raises
    ------
    UnsupportedError
        If there is none.
    """
    own: Any = ACCUMULATORS.get(node.acc.name) is node.acc
    rule = FOLD_RULES.get(node.acc.name) if own else None
    if rule is None:
        raise UnsupportedError(f"accumulator {node.acc.name} has no gradient")
    return rule
