"""Folds in which operands meet, none of which has all axes: of products of matrices, of distances.

Every element of the result takes a row of one operand and a row, or a column, of another, so that
each is read again and again.  Vectors go along the result, whose strips have states, and several
rows of it take what is read along the strip at once (`jamming`).  If lines lie along what is
folded, those of a strip are turned first, side by side, for all rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from .accesses import memory_order, operands_meet, runs_along
from .cost import HEAVY, KEPT_ROWS, cost
from .roots import Root, in_strips
from .values import FEW, NARROW, SHORT, Load, Place, Specialized, is_fold, roots_of, walk


def side_by_side(found: Sequence[Root], spec: Specialized) -> list[Root]:
    """Roots in which folds of rows that meet go in strips of the result, all that share loops."""
    strips = {r: _strip(r, found, spec) for r in found}
    alone = {r.order for r in found if not strips[r]}
    return [r if r.order in alone else replace(r, length="SIDED", order=_order(r, strips[r]))
            for r in found]


def _order(root: Root, strip: str) -> tuple[str, ...]:
    """Strips of a result around its rows, within the axes along which more is turned for each."""
    turned = [v.axes for v in walk(root.inputs(), is_fold)
              if isinstance(v, Load) and v.axes.issuperset((strip, *root.over))]
    around = [a for a in root.kept if a != strip and any(a in axes for axes in turned)]
    rows = (a for a in root.kept if a not in (strip, *around))
    return (*around, f"{strip}/", *rows, *root.over, strip)


def _strip(root: Root, found: Sequence[Root], spec: Specialized) -> str:
    """The axis along which strips of a result go if rows of an operand lie across them, or "".

    That is along which most that take the result go.
    """
    if not root.merges or not operands_meet(root.fold) or isinstance(root.of, Place) or (
            in_strips(root.order) or len(root.over) > 1 or len(root.kept) < 2):
        return ""
    values = walk(root.inputs(), is_fold)
    lines = Counter(memory_order(s, spec) for s in spec.stores
                    if root.of in walk(roots_of([s]), is_fold))
    lines.update(tuple(a for a in r.loops if a in root.kept) for r in found if root.of in r.needs)
    each = cost(v for v in values if v.axes.issuperset(root.loops))
    needed = any(root.of in r.needs for r in found)
    if each >= HEAVY or not lines or needed and not may_wait(root.kept, spec):
        return ""
    [over], [(line, _)] = root.over, lines.most_common(1)
    across = any(v.axes.issuperset((over, line[-1])) and spec.operands[v.operand].layout.unit
                 and runs_along(v.access, spec.operands[v.operand].layout.perm, over)
                 for v in values if isinstance(v, Load)) if {*line} == {*root.kept} else False
    long = across and spec.between(line[-1])[1] >= SHORT
    return line[-1] if long and FEW // 2 < spec.between(over)[1] <= NARROW else ""


def may_wait(axes: Iterable[str], spec: Specialized) -> bool:
    """Whether what folds make of all elements along these axes may wait for others in memory."""
    return math.prod(spec.between(a)[1] for a in axes) <= KEPT_ROWS**2


def rows_apart(top_roots: Sequence[Root], spec: Specialized) -> list[Root]:
    """Folds of rows that meet what other folds make of each row: in loops of their own.

    There several rows go at once, and share what they meet.
    """
    return [r for r in top_roots if r.merges and r.needs and operands_meet(r.fold)
            and len(r.order) == 4 and in_strips(r.order) and r.order[0] in r.kept
            and may_wait({r.order[0], *r.over}, spec)]
