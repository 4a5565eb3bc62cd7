"""What values are never below, by which is known that their inverses do not overflow.

All that is said of results holds but for rounding, which is relative, for nothing is subtracted; of
what may be NaN, it is said of the rest.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np

from .accumulators import ACCUMULATORS
from .close import fold_program
from .values import Convert, Extent, Fold, Literal, Op, Value, walk

NEVER_BELOW = {"exp": 0, "exp2": 0, "absolute": 0, "fabs": 0, "square": 0, "cosh": 1}
EXTREMA = ("max", "min")
FOLDS = ("sum", "prod", *EXTREMA)


def least(value: Value, known: dict[Value, float]) -> float:
    """A number that a real value is never below, but for rounding; minus infinity if none is known.

    `known` is what is known of others, and grows.
    """
    for below in walk([value], known.__contains__):
        if below not in known:
            known[below] = _least(below, known) if below.dtype.kind in "biuf" else -math.inf
    return known[value]


def _least(value: Value, known: Mapping[Value, float]) -> float:
    match value:
        case Literal():
            return -math.inf if math.isnan(value.value) else float(value.value)
        case Convert() if np.can_cast(value.arg.dtype, value.dtype) or (
                value.arg.dtype.kind in "biu" and value.dtype.kind == "f"):
            return known[value.arg]
        case Op() if value.dtype.kind == "f":  # integers wrap around
            return _of_op(value, [known[a] for a in value.args])
        case Fold() if value.dtype.kind == "f":
            return _of_fold(value, [known[a] for a in value.args[:1 + (value.initial is not None)]])
        case Extent():
            return 0
    return 0 if value.dtype.kind in "bu" else -math.inf


def _of_op(value: Op, args: list[float]) -> float:
    """Of 0 it may be -0.0, and what that divides negative, but infinite: then inverses are 0."""
    name, positive = value.op.name, min(args, default=0) >= 0
    if name == "multiply" and value.args[0] is value.args[1]:
        return 0
    match name:
        case "multiply" | "divide" if positive:
            return 0
        case "add" if positive:
            return sum(args)
        case "sqrt":
            return math.sqrt(args[0]) if positive else 0
        case "maximum":
            return max(args)
        case "minimum":
            return min(args)
        case "where":
            return min(args[1:])
    return NEVER_BELOW.get(name, -math.inf)


def _of_fold(value: Fold, args: list[float]) -> float:
    """Extrema are elements, or what they start from; sums and products keep a sign, and no more.

    Where one of the addends is 1, a sum of what is never negative is no less.
    """
    for name in FOLDS:
        if folds_by(value, name):
            if name in EXTREMA:
                return min(args)
            if min(args) < 0:
                return -math.inf
            whole = name == "sum" and value.where is None
            return 1 if whole and of_differences(value.arg, value.over) else 0
    return -math.inf


def of_differences(value: Value, over: Collection[str]) -> bool:
    """Whether this is `exp(x - max(x))`: at most 1, and 1 somewhere along the axes `over`."""
    match value:
        case Op(operands=(Op(operands=(x, Fold(initial=None, where=None) as top)) as less,)):
            named = (value.op.name, less.op.name) in (("exp", "subtract"), ("exp2", "subtract"))
            return named and top.arg is x and folds_by(top, "max") and {*top.over} <= {*over}
    return False


def folds_by(value: Value, name: str) -> bool:
    """Whether this is a fold by the accumulator of this package that has that name."""
    return type(value) is Fold and value.program is fold_program(
        ACCUMULATORS[name], value.arg.dtype)
