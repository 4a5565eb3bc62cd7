"""Merging axes: neighbours on which every operand and fold behaves alike are one axis.

Rows from some first one on, as those of `x[1:]`, follow each other as all of them do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from .layout import Operand
from .values import (
    Access,
    At,
    Fold,
    Load,
    Position,
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
            a, b = access[outer].shifted, access[inner].axis
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
        if access[with_a[0]].shifted != a or access[with_b[0]].axis != b:
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
        return tuple(replace(at, terms=()) if at.shifted == a else at for at in access)

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
