"""What loops would compute again and again: values of fewer axes than theirs, and dear.

Loops compute what an axis around them does not change before they begin, but what depends on an
axis within another, as `exp(b)` does in `x * exp(b)` where `b` goes by column, would be computed
for every row; and what functions make of a single number for each row would be no vectors.  Such
values are computed first, in loops of their own, and wait in buffers, which are no larger than what
is read for them, or have one axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from .cost import DEAR, HEAVY, cost
from .roots import Root, axis_of, is_side
from .values import AGAIN, FEW, LINED, At, Fold, Load, Op, Specialized, Value, is_fold, walk

Ahead = dict[Value, tuple[str, ...]]


def once(roots: Sequence[Root], spec: Specialized) -> Ahead:
    """Values to be computed before all loops, and in which order of axes; each after its parts.

    Those have fewer axes.  Values of the same axes stand as their users meet them.
    """
    found: Ahead = {}
    for root in roots:
        entered = [a for a in root.order if ":" not in a and not is_side(a)]
        _add(root.inputs(), entered, spec, found, root.waits)
    return dict(sorted(reversed(found.items()), key=lambda item: len(item[1])))


def _add(wanted: Iterable[Value], entered: Sequence[str], spec: Specialized, found: Ahead,
         waits: str = "") -> None:
    """Add the largest values below `wanted` that loops over these axes should find in buffers.

    Not what is called for chunks of the axis of a root that `waits`.
    """
    used = set(wanted := list(wanted))  # by the loops, not only by what is in buffers
    for value in reversed(walk(wanted, is_fold)):
        if value not in used or value in found or isinstance(value, Fold):
            continue
        least = _least_cost(value, entered, waits, spec)
        below = walk([value]) if least else []
        if least and all(map(_may_come_first, below)) and (len(value.axes) == 1 or any(
                isinstance(v, Load) and v.axes == value.axes for v in below)):
            axes = tuple(a for a in entered if a in value.axes)  # a strip's is entered last of all
            _add(value.args, axes, spec, found)
            if cost(v for v in walk([value], found.__contains__) if v not in found) >= least:
                found[value] = axes
                continue
        used.update(value.args)


def _least_cost(value: Value, entered: Sequence[str], waits: str, spec: Specialized) -> int:
    """From what cost on a value is worth a buffer; 0: none is.

    That is little if loops compute it again, and much if they would compute it out of vectors.
    """
    order = [*map(axis_of, entered)]
    if not value.axes or not value.axes.issubset(order):  # folds may be read at other indices
        return 0
    last = max(map(order.index, value.axes))
    around = {a for a in entered[:last] if not a.endswith("/")} - value.axes  # strips are few
    if around and math.prod(spec.between(a)[0] for a in around) >= AGAIN:
        return DEAR
    row = order[-1]  # the compiler makes vectors of several rows of few elements
    alone = FEW < spec.between(row)[0] < LINED and order[last] != waits
    return HEAVY if row not in value.axes and alone else 0


def _may_come_first(value: Value) -> bool:
    """Whether a value waits for no loop, and none of its arguments is an error."""
    checked = isinstance(value, Op) and value.op.fault(tuple(a.dtype for a in value.operands))
    return not isinstance(value, (Fold, At)) and not checked
