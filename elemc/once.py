"""What loops would compute again and again: values of fewer axes than theirs, and dear.

Loops compute what an axis around them does not change before they begin, but what depends on an
axis within another, as `exp(b)` does in `x * exp(b)` where `b` goes by column, would be computed
for every row; and what functions make of a single number for each row would be no vectors.  Such
values are computed first, or once the folds are there that they wait for, in loops of their own,
and wait in buffers, which are no larger than what is read for them, or have one axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from .cost import DEAR, HEAVY, cost
from .roots import Root, axis_of, is_side
from .values import AGAIN, FEW, LINED, At, Fold, Load, Op, Specialized, Value, is_fold, walk

Ahead = dict[Value, tuple[str, ...]]


def once(roots: Sequence[Root], spec: Specialized, there: Callable[[Value], bool]) -> Ahead:
    """Values to be computed before the loops of roots, and in which order of axes.

    Each stands after its parts, which have fewer axes, and values of the same axes as their users
    meet them.  What is `there` waits in buffers already.
    """
    found: Ahead = {}
    for root in roots:
        entered = [a for a in root.order if ":" not in a and not is_side(a)]
        _add(root.inputs(), entered, spec, found, there, root.waits)
    return dict(sorted(reversed(found.items()), key=lambda item: len(item[1])))


def _add(wanted: Iterable[Value], entered: Sequence[str], spec: Specialized, found: Ahead,
         there: Callable[[Value], bool], waits: str = "") -> None:
    """Add the largest values below `wanted` that loops over these axes should find in buffers.

    Not what is called for chunks of the axis of a root that `waits`.
    """
    used = set(wanted := list(wanted))  # by the loops, not only by what is in buffers
    for value in reversed(walk(wanted, lambda v: is_fold(v) or there(v))):
        if value not in used or value in found or isinstance(value, Fold) or there(value):
            continue
        least = _least_cost(value, entered, waits, spec)
        below = walk([value], there) if least else []
        if least and all(there(v) or _may_come_first(v) for v in below) and (
                len(value.axes) == 1 or any((isinstance(v, Load) or there(v))
                                            and v.axes == value.axes for v in below)):
            axes = tuple(a for a in entered if a in value.axes)  # a strip's is entered last of all
            _add(value.args, axes, spec, found, there)
            new = walk([value], lambda v: v in found or there(v))
            if cost(v for v in new if not (v in found or there(v))) >= least:
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
    if row in value.axes or not alone:
        return 0
    return DEAR if f"{row}/" in entered else HEAVY


def _may_come_first(value: Value) -> bool:
    """Whether a value waits for no loop, and none of its arguments is an error."""
    checked = isinstance(value, Op) and value.op.fault(tuple(a.dtype for a in value.operands))
    return not isinstance(value, (Fold, At)) and not checked
