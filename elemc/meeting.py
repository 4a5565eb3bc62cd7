"""Folds in which operands meet, none of which has all axes: of products of matrices, of distances.

Every element of the result takes a row of one operand and a row, or a column, of another, so that
each is read again and again.  Vectors go along the result, whose strips have states, and several
rows of it take what is read along the strip at once (`jamming`).  If lines lie along what is
folded, those of a strip are turned first, side by side, for all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .accesses import memory_order, operands_meet, runs_along
from .cost import HEAVY, cost
from .roots import Root, in_strips
from .values import FEW, NARROW, SHORT, Load, Place, Specialized, is_fold, roots_of, walk


def side_by_side(found: Sequence[Root], spec: Specialized) -> list[Root]:
    """Roots in which folds of rows that meet go in strips of the result, all that share loops."""
    strips = {r: _strip(r, found, spec) for r in found}
    alone = {r.order for r in found if not strips[r]}
    return [r if r.order in alone else replace(r, length="SIDED", order=(
        f"{strips[r]}/", *(a for a in r.kept if a != strips[r]), *r.over, strips[r]))
        for r in found]


def _strip(root: Root, found: Sequence[Root], spec: Specialized) -> str:
    """The axis along which strips of a result go if rows of an operand lie across them, or "".

    The result is stored as it is kept, along that axis, and no other fold takes it.
    """
    plain = root.merges and len(root.over) == 1 < len(root.kept) and not (
        in_strips(root.order) or isinstance(root.of, Place))
    if not plain or not operands_meet(root.fold) or any(root.of in r.needs for r in found):
        return ""
    stores = [s for s in spec.stores if root.of in walk(roots_of([s]))]
    lines = {memory_order(s.access, spec.operands[s.operand]) for s in stores}
    values = walk(root.inputs(), is_fold)
    each = cost(v for v in values if v.axes.issuperset(root.loops))
    if len(lines) > 1 or {*lines.copy().pop()} != {*root.kept} or each >= HEAVY:
        return ""
    [over], strip = root.over, lines.pop()[-1]
    across = any(v.axes.issuperset((over, strip)) and spec.operands[v.operand].layout.unit
                 and runs_along(v.access, spec.operands[v.operand].layout.perm, over)
                 for v in values if isinstance(v, Load))
    long = spec.between(strip)[1] >= SHORT and FEW // 2 < spec.between(over)[1] <= NARROW
    return strip if across and long else ""
