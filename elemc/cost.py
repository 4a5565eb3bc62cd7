"""About how long values take to compute, in additions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .values import Fold, Op, Value

DEAR = 4  # additions from which on a value is kept, not computed again
JAMMED = 192  # elements of a row from which on no processor runs ahead to the next one
HEAVY = 15  # the cost of an element from which on computing hides the traffic


def cost(values: Iterable[Value]) -> int:
    """About how many additions the operations among `values` are worth."""
    return sum(v.op.cost for v in values if isinstance(v, Op))


def calls(values: Iterable[Value]) -> bool:
    """Whether the math library is called."""
    return any(isinstance(v, Op) and v.op.cost >= HEAVY for v in values)


def jams(folds: Sequence[Fold]) -> bool:
    """Whether rows that are folded so are worth taking two at a time.

    They wait for each state if it is one vector in lanes; extrema alone take an instruction an
    element, and rows overlap by themselves.
    """
    return len(folds) > 1 and all(f.program.state[0].itemsize <= 4 for f in folds) and not all(
        f.program.exact for f in folds)
