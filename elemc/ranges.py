"""What values are never below, by which is known that their inverses do not overflow.

A NaN is above and below nothing; what is made of it is one, whatever is known of its like.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

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
        case Convert():
            return known[value.arg]
        case Op() if value.dtype.kind == "f":  # integers wrap around
            return _of_op(value, [known[a] for a in value.args])
        case Fold() if value.dtype.kind == "f":
            return _of_fold(value, [known[a] for a in (value.arg, value.initial) if a])
    return 0 if isinstance(value, Extent) or value.dtype.kind in "bu" else -math.inf


def _of_op(value: Op, args: list[float]) -> float:
    name, positive = value.op.name, min(args, default=0) >= 0
    if name == "multiply" and value.args[0] is value.args[1] or positive and name in (
            "multiply", "divide"):
        return 0
    match name:
        case "add":
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
    """Extrema are elements, or what they start from; sums and products keep a sign, and no more."""
    for name in FOLDS:
        if type(value) is Fold and value.program is fold_program(
                ACCUMULATORS[name], value.arg.dtype):
            return min(args) if name in EXTREMA else 0 if min(args) >= 0 else -math.inf
    return -math.inf
