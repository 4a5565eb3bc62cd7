"""Merging axes: neighbours on which every operand and fold behaves alike are one axis.

Folds whose axes do not merge, because kept ones lie between them in memory, are folded twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import takewhile

from .layout import Operand
from .values import (
    ZERO,
    Access,
    At,
    Fold,
    Load,
    Position,
    Scan,
    Specialized,
    Value,
    rewrite,
    roots_of,
    walk,
)


def merge_axes(spec: Specialized) -> Specialized:
    """Merge axes until no two neighbours are alike for every operand."""
    while True:
        values = walk(roots_of(spec.stores))
        accesses = [(v.operand, v.access) for v in values if isinstance(v, Load)]
        accesses += [(s.operand, s.access) for s in spec.stores]
        pair = next((p for p in _neighbours(accesses, spec.operands)
                     if _alike(*p, accesses, values, spec.operands)), None)
        if pair is None:
            return spec
        spec = _join(spec, *pair)


def _neighbours(accesses: Iterable[tuple[int, Access]],
                operands: Sequence[Operand]) -> Iterable[tuple[str, str]]:
    """Pairs of axes that some operand walks as one."""
    seen: dict[tuple[str, str], None] = {}
    for operand, access in accesses:
        layout = operands[operand].layout
        for outer, inner, packed in zip(layout.perm, layout.perm[1:], layout.packed, strict=False):
            a, b = access[outer].axis, access[inner].axis
            if packed and a and b and a != b:
                seen[a, b] = None
    return seen


def _alike(a: str, b: str, accesses: Iterable[tuple[int, Access]], values: Iterable[Value],
           operands: Sequence[Operand]) -> bool:
    """Whether axes `a` (outer) and `b` (inner) can be one axis for every operand and fold."""
    for operand, access in accesses:
        with_a = [d for d, at in enumerate(access) if a in at.axes]
        with_b = [d for d, at in enumerate(access) if b in at.axes]
        if not with_a and not with_b:
            continue
        if len(with_a) != 1 or len(with_b) != 1 or with_a == with_b:
            return False
        if access[with_a[0]].axis != a or access[with_b[0]].axis != b:
            return False
        if not operands[operand].layout.joins(with_a[0], with_b[0]):
            return False
    for value in values:
        if isinstance(value, Position) and {a, b} & value.axes:
            return False
        if isinstance(value, At) and any({a, b} & {own, *at.axes} for own, at in value.places):
            return False
        if isinstance(value, Fold) and {a, b} & set(value.over):
            if not {a, b} <= set(value.over):
                return False
            place = value.over.index(a)
            in_order = value.over[place:place + 2] == (a, b)
            if not in_order and (value.program.index or not value.program.commutative):
                return False
    return True


def _join(spec: Specialized, a: str, b: str) -> Specialized:
    """`a` and `b` as one axis, called `b`."""
    def clean(access: Access) -> Access:
        return tuple(ZERO if at.axis == a else at for at in access)

    def change(value: Value) -> Value:
        axes = value.axes - {a}
        if isinstance(value, Load):
            return replace(value, axes=axes, access=clean(value.access))
        if isinstance(value, Fold):
            return replace(value, axes=axes, over=tuple(n for n in value.over if n != a))
        return replace(value, axes=axes)

    stores = rewrite(spec.stores, change, clean)
    axes = {n: (spec.axes[a] + e if n == b else e) for n, e in spec.axes.items() if n != a}
    return replace(spec, axes=axes, stores=stores)


def split_folds(spec: Specialized) -> Specialized:
    """Fold along rows first, where axes that are kept lie between theirs and others folded.

    So memory is read in its order, and little is left to be folded with strides.
    """
    def change(value: Value) -> Value:
        if not isinstance(value, Fold) or isinstance(value, Scan) or not value.program.nests or (
                value.initial is not None or value.where is not None):
            return value
        axes = order_in_memory(loads_of(value), spec.operands)
        rows = list(takewhile(value.over.__contains__, reversed(axes)))
        rest = tuple(a for a in value.over if a not in rows)
        outer = axes[:len(axes) - len(rows)]
        if not rows or not any(a in rest for a in outer):
            return value
        over = tuple(a for a in value.over if a in rows)
        inner = replace(value, axes=value.arg.axes.difference(over), over=over)
        return replace(value, arg=inner, over=rest)

    return replace(spec, stores=rewrite(spec.stores, change, lambda access: access))


def loads_of(fold: Fold) -> list[Load]:
    """What a fold reads, of the most axes first."""
    return sorted((v for v in walk(fold.args) if isinstance(v, Load)),
                  key=lambda v: (-len(v.axes), v.operand))


def order_in_memory(loads: Iterable[Load], operands: Sequence[Operand]) -> list[str]:
    """The axes of `loads`, from the largest stride to the smallest; the first ones decide."""
    found: dict[str, None] = {}
    for load in loads:
        found.update(dict.fromkeys(memory_order(load.access, operands[load.operand])))
    return list(found)


def memory_order(access: Access, operand: Operand) -> tuple[str, ...]:
    """The axes of an access, from the largest stride to the smallest."""
    dims = [*operand.layout.perm, *(d for d in range(operand.ndim) if d not in operand.layout.perm)]
    found: dict[str, None] = {}
    for dim in dims:
        found.update(dict.fromkeys(axis for axis, _ in access[dim].terms))
    return tuple(found)
