"""About how long values take to compute, in additions."""

from __future__ import annotations

from collections.abc import Iterable

from .values import Op, Value

DEAR = 4  # additions from which on a value is kept, not computed again
HEAVY = 15  # the cost of an element from which on computing hides the traffic


def cost(values: Iterable[Value]) -> int:
    """About how many additions the operations among `values` are worth."""
    return sum(v.op.cost for v in values if isinstance(v, Op))


def calls(values: Iterable[Value]) -> bool:
    """Whether the math library is called."""
    return any(isinstance(v, Op) and v.op.cost >= HEAVY for v in values)
