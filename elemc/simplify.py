"""Rewrites of a closed graph that keep every bit of every result, NaN and signed zeros included.

Common subexpressions are shared already, because nodes are interned, and what no output needs is
never visited.  `x*0`, `x+0.0`, `x-x` and `x/x` stay: NaN, infinities and -0.0 tell them apart.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable

import numpy as np

from .graph import (
    Apply,
    Axis,
    Cast,
    Const,
    Graph,
    Index,
    Node,
    const,
    is_const,
    make,
)
from .graph_gradients import Result
from .ops import OPS, TIED, WHOLE_POWER


def simplify(graph: Graph) -> Graph:
    """The same function with less work."""
    return graph.map(_rewrite)


def _rewrite(node: Node) -> Node:
    match node:
        case Apply():
            return _apply(node)
        case Index() if all(isinstance(f, Axis) and f.full and f.axis == d
                            for d, f in enumerate(node.forms)) and node.ndim == node.arg.ndim:
            return node.arg
        case Result():
            return node.arg
        case Cast() if isinstance(node.arg, Const):
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
                return const(node.arg.value.astype(node.dtype))
    return node


def _apply(node: Apply) -> Node:
    if all(isinstance(a, Const) for a in node.args) and not _raises(node):
        with np.errstate(all="ignore"):
            args = (np.asarray(a.value) for a in node.args if isinstance(a, Const))
            value = node.op.numpy(*args)
        return const(np.asarray(value).astype(node.dtype)[()])
    rule = RULES.get(node.op.name)
    new = rule(node) if rule else None
    return node if new is None or (new.dtype, new.ndim) != (node.dtype, node.ndim) else new


def _raises(node: Apply) -> bool:
    return node.op.fault(tuple(a.dtype for a in node.args)) is not None


def _multiply(node: Apply) -> Node | None:
    """Know that x*1 is x."""
    a, b = node.args
    if node.dtype is not None and node.dtype.kind == "c":
        return None  # (inf + 0j) * (1 + 0j) has a NaN
    return a if is_const(b, 1) else b if is_const(a, 1) else None


def _divide(node: Apply) -> Node | None:
    """Know that x/1 is x."""
    a, b = node.args
    return a if is_const(b, 1) and node.dtype is not None and node.dtype.kind != "c" else None


def _add(node: Apply) -> Node | None:
    """Know that x + -0.0 is x, and so is x + 0 for integers, and that -x + 0.0 is 0.0 - x."""
    if node.dtype is None or node.dtype.kind not in "iuf":
        return None
    nothing = -0.0 if node.dtype.kind == "f" else 0
    for one, other in (node.args, node.args[::-1]):
        if is_const(other, nothing):
            return one
        if is_const(other, 0) and isinstance(one, Apply) and one.op.name == "negative":
            return _from_nothing(one.args[0])
    return None


def _subtract(node: Apply) -> Node | None:
    """Know that x - 0.0 is x."""
    a, b = node.args
    if node.dtype is None or node.dtype.kind not in "iuf":
        return None
    if is_const(b, 0):
        return a
    return _from_nothing(b) if is_const(a, 0) and node.dtype.kind == "f" else None


def _from_nothing(x: Node) -> Node | None:
    """0.0 - x of what is computed: gcc 12 makes -x of it where it knows that it is no -0.0.

    A NaN has the other sign then, which nobody counts on.
    """
    if not isinstance(x, (Apply, Cast)):
        return None
    nothing = const(0, x.dtype)
    minus = make(Apply, OPS["negative"], (x,), x.dtype)
    some = make(Apply, OPS["not_equal"], (x, nothing), np.dtype(bool))
    return make(Apply, OPS["where"], (some, minus, nothing), x.dtype)


def _remainder(node: Apply) -> Node | None:
    """Know that x % 8 of integers is x & 7, and what exact steps lead to x % 8.0."""
    x, c = node.args
    if not isinstance(c, Const) or node.dtype is None or node.dtype.char not in "fd":
        return _by_power(node, "bitwise_and", lambda k: 2**k - 1)
    by = float(c.value)
    if not 1 <= by < math.inf or math.frexp(by)[0] != 0.5:
        return None

    def op(name: str, *args: Node) -> Node:
        return make(Apply, OPS[name], args, node.dtype)

    whole = op("trunc", op("multiply", x, const(1 / by, node.dtype)))
    rest = op("subtract", x, op("multiply", whole, c))
    below = make(Apply, OPS["less"], (rest, const(0, node.dtype)), np.dtype(bool))
    return op("where", below, op("add", rest, c), rest)


def _floor_divide(node: Apply) -> Node | None:
    """Know that x // 8 of integers is x >> 3."""
    return _by_power(node, "right_shift", lambda k: k)


def _by_power(node: Apply, name: str, other: Callable[[int], int]) -> Node | None:
    a, b = node.args
    if not isinstance(b, Const) or b.value.dtype.kind not in "iu" or a.dtype != b.dtype:
        return None
    by = int(b.value)
    if by < 1 or by & (by - 1):
        return None
    return make(Apply, OPS[name], (a, const(other(by.bit_length() - 1), b.dtype)), node.dtype)


def _power(node: Apply) -> Node | None:
    """Know NumPy's own shortcuts, and what is a product of few factors.

    Powers are no further from the truth than `pow` is allowed to be: of 5, 6, -3 and -4 by 3.6
    units in the last place, as errors of factors count less where the ULP of the product is wide.
    Of more factors, doubles have products with what they lack, floats products of doubles.
    Nothing in between leaves the range of numbers where the power does not.
    """
    (a, b), dtype = node.args, node.dtype
    if not isinstance(b, Const) or dtype is None or dtype.kind == "b":
        return None
    if dtype == np.complex64 and b.value in (*range(-6, -1), *range(3, 7)):
        return _product(a, int(b.value.real), np.dtype(np.complex128))

    def op(name: str, *args: Node) -> Node:
        return make(Apply, OPS[name], args, dtype)

    inexact, real = dtype.kind in "fc", dtype in (np.float32, np.float64)
    square, zero = op("square", a), const(dtype.type(0))  # -0 and 0 are 0
    match b.value.item():
        case 1:
            return a
        case 2:
            return square
        case 3:
            return op("multiply", square, a)
        case 4:
            return op("square", square)
        case 5 if real or not inexact:
            return op("multiply", op("square", square), a)
        case 6 if real or not inexact:
            return op("multiply", op("square", square), square)
        case 0.5 if inexact:
            return op("sqrt", a)
        case -1 if inexact:
            return op("reciprocal", a)
        case -2 if real:
            return op("square", op("reciprocal", a))
        case -3 if real:
            return op("multiply", op("square", op("reciprocal", a)), op("reciprocal", a))
        case -4 if real:
            return op("square", op("reciprocal", square))
        case 1.5 if real:
            return _but(a, -np.inf, np.inf, op("multiply", a, op("sqrt", a)))
        case -1.5 if real:
            inverse = op("reciprocal", a)
            return _but(a, 0, np.inf, op("multiply", inverse, op("sqrt", inverse)))
        case 2.5 if real:
            return _but(a, -np.inf, np.inf, op("multiply", square, op("sqrt", op("add", a, zero))))
        case -0.5 if real:
            return _but(a, -np.inf, 0, op("reciprocal", op("sqrt", op("add", a, zero))))
        case -2.5 if real:
            inverse = op("reciprocal", op("sqrt", op("add", a, zero)))
            return _but(a, -np.inf, 0, op("multiply", op("reciprocal", square), inverse))
        case 0.25 if real:
            return _but(a, -np.inf, np.inf, op("sqrt", op("sqrt", op("add", a, zero))))
        case -0.25 if real:
            return _but(a, -np.inf, 0, op("reciprocal", op("sqrt", op("sqrt", op("add", a, zero)))))
        case int() as n if 2 < n < 64:
            return _product(a, n, dtype)
        case float() as n if 2 <= abs(n) < 64 and n.is_integer():
            return make(Apply, WHOLE_POWER, (a, b), dtype) if dtype == np.float64 else _product(
                a, int(n), np.dtype(np.float64))
    return None


def _but(x: Node, where: float, value: float, power: Node) -> Node:
    """A power by roots, but for the x of which there are none, or one of the other sign."""
    special, there = (const(np.asarray(v, x.dtype)[()]) for v in (where, value))
    is_special = make(Apply, OPS["equal"], (x, special), np.dtype(bool))
    return make(Apply, OPS["where"], (is_special, there, power), power.dtype)


def _product(x: Node, n: int, wide: np.dtype) -> Node:
    """x**n as products of dtype `wide`: none leaves their range where the power is a float.

    Those of an inverse share it; complex infinities have NumPy's powers, which are products'.
    """
    def op(name: str, *args: Node) -> Node:
        return make(Apply, OPS[name], args, wide)

    factor = x if x.dtype == wide else make(Cast, x, wide)
    if n < 0 and wide.kind == "f":
        factor = op("reciprocal", factor)
    power: Node | None = None
    for digit in reversed(f"{abs(n):b}"):
        if digit == "1":
            power = op("multiply", power, factor) if power else factor
        factor = op("square", factor)
    assert power is not None
    if n < 0 and wide.kind == "c":
        power = op("reciprocal", power)
    return power if x.dtype == wide else make(Cast, power, x.dtype)


def _where(node: Apply) -> Node | None:
    """Know which side of a constant condition is taken, if the other one adds nothing to its shape.

    Else that is known when sizes are: in `lower.Lowering.select`.
    """
    condition, x, y = node.args
    if not isinstance(condition, Const):
        return None
    taken, other = (x, y) if condition.value else (y, x)
    return taken if not other.ndim or other is taken else None


def _as(name: str, node: Apply) -> Node:
    """Know what differs from another operation in its gradient only."""
    return make(Apply, OPS[name], node.args, node.dtype)


def _and(node: Apply) -> Node | None:
    """Know that b & True is b, for bools."""
    a, b = node.args
    if a.dtype != bool or b.dtype != bool:
        return None
    return a if is_const(b, True) else b if is_const(a, True) else None


def _or(node: Apply) -> Node | None:
    """Know that b | False is b, for bools."""
    a, b = node.args
    if a.dtype != bool or b.dtype != bool:
        return None
    return a if is_const(b, False) else b if is_const(a, False) else None


def _of_mask(node: Apply) -> Node | None:
    """Know that b > 0 and b != 0 are b, for bools."""
    mask, zero = node.args if node.op.name != "less" else node.args[::-1]
    if isinstance(mask, Cast):
        mask = mask.arg
    return mask if mask.dtype == bool and is_const(zero, 0) else None


def _extremum(node: Apply) -> Node | None:
    """Know that of x and x it is x."""
    a, b = node.args
    return a if a is b else None


RULES: dict[str, Callable[[Apply], Node | None]] = {
    **{op.name: functools.partial(_as, name) for (name, ties), op in TIED.items()
       if ties != "split"},
    **dict.fromkeys(("logical_and", "bitwise_and"), _and),
    **dict.fromkeys(("logical_or", "bitwise_or"), _or),
    **dict.fromkeys(("greater", "not_equal", "less"), _of_mask),
    **dict.fromkeys(("maximum", "minimum", "fmax", "fmin"), _extremum),
    "stop_gradient": lambda node: node.args[0],
    "root": functools.partial(_as, "sqrt"),
    "shortcut": functools.partial(_as, "where"),
    "where": _where,
    "multiply": _multiply,
    "divide": _divide,
    "add": _add,
    "subtract": _subtract,
    "power": _power,
    "float_power": _power,
    "remainder": _remainder,
    "floor_divide": _floor_divide,
}
