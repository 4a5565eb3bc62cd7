"""From a call's signature to its specialization: lower, choose output layouts, merge axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .graph import Graph
from .maps import Extents
from .specialize import (
    ZERO,
    Access,
    Affine,
    Convert,
    Env,
    Fold,
    Layout,
    Load,
    Lowering,
    Op,
    Operand,
    Position,
    Specialized,
    Store,
    Value,
)


@dataclass(frozen=True)
class Given:
    """What a call says of one array: its dtype, storage and layout."""

    dtype: np.dtype
    storage: str
    layout: Layout


@dataclass(frozen=True)
class Signature:
    """Everything about a call that its kernel may depend on.

    Attributes
    ----------
    ones : frozenset of int
        The extents that are 1 in this call.
    inputs : tuple of Given
        Inputs, then captured arrays.
    outputs : tuple of Given or None
        None for an output that the call makes; absent outputs have mode "null".
    modes : tuple of str
        write, add or null, per output.
    mask : Given or None
    mask_shape : tuple of bool
        For every dimension of the mask, whether it is 1.
    """

    ones: frozenset[int]
    inputs: tuple[Given, ...]
    outputs: tuple[Given | None, ...]
    modes: tuple[str, ...]
    mask: Given | None = None
    mask_ones: tuple[bool, ...] = ()


def specialize(graph: Graph, extents: Extents, signature: Signature,
               names: Sequence[str], output_names: Sequence[str]) -> Specialized:
    """The specialization of a closed graph for one signature."""
    nodes = (*graph.inputs, *graph.captured)
    operands = [
        Operand(name, "in" if i < len(graph.inputs) else "captured", node.ndim, *_fields(given))
        for i, (name, node, given) in enumerate(zip(names, nodes, signature.inputs, strict=True))]
    lowering = Lowering(graph, extents, signature.ones, operands)
    live = [k for k, mode in enumerate(signature.modes) if mode != "null"]
    envs = [lowering.output_env(graph.outputs[k]) for k in live]
    values = lowering.values([(graph.outputs[k], env) for k, env in zip(live, envs, strict=True)])
    if signature.mask is not None:
        ndim = len(signature.mask_ones)
        operands.append(Operand("where", "mask", ndim, *_fields(signature.mask)))
    mask_number = len(operands) - 1
    stores = []
    for k, env, value in zip(live, envs, values, strict=True):
        given = signature.outputs[k]
        if given is None:
            given = Given(value.dtype, "native", keep_order(values, env, operands))
        operands.append(Operand(output_names[k], "out", len(env), *_fields(given)))
        mask = None
        if signature.mask is not None:
            at = tuple(ZERO if one else a or ZERO for one, a in zip(
                signature.mask_ones, env[len(env) - len(signature.mask_ones):], strict=True))
            mask = lowering.load(mask_number, at, np.dtype(bool))
        access = tuple(a or ZERO for a in env)
        stores.append(Store(len(operands) - 1, access, lowering.convert(value, given.dtype),
                            signature.modes[k], mask))
    used = _axes_of(stores)
    axes = {name: e for name, e in lowering.axes.items() if name in used}
    return _merge(Specialized(tuple(operands), axes, tuple(stores)))


def _fields(given: Given) -> tuple[np.dtype, str, Layout]:
    return given.dtype, given.storage, given.layout


def keep_order(values: Iterable[Value], env: Env, operands: Sequence[Operand]) -> Layout:
    """NumPy's "K" layout: an output lies in memory as the first input that has all its axes."""
    dims = [d for d, at in enumerate(env) if at is not None]
    names = {at.terms[0][0]: d for d, at in enumerate(env) if at is not None}
    loads = sorted((v for v in walk(values) if isinstance(v, Load)), key=lambda v: v.operand)
    for load in loads:
        place = {at.terms[0][0]: d for d, at in enumerate(load.access) if len(at.terms) == 1}
        if len(names) > 1 and place.keys() >= names.keys():
            perm = operands[load.operand].layout.perm
            order = sorted((perm.index(place[a]), d) for a, d in names.items())
            dims = [d for _, d in order]
            break
    return Layout(tuple(dims), (True,) * (len(dims) - 1), True)


def walk(values: Iterable[Value], leaf: Callable[[Value], bool] = lambda v: False) -> list[Value]:
    """All values below `values`, arguments first, not looking inside leaves; works at any depth."""
    done: dict[Value, None] = {}
    stack = [(v, False) for v in reversed(list(values))]
    while stack:
        value, ready = stack.pop()
        if value in done:
            continue
        if ready:
            done[value] = None
        else:
            stack.append((value, True))
            if not leaf(value):
                stack.extend((a, False) for a in reversed(value.args))
    return list(done)


def roots_of(stores: Iterable[Store]) -> list[Value]:
    """The values and masks of `stores`."""
    return [v for s in stores for v in (s.value, s.mask) if v is not None]


def _axes_of(stores: Iterable[Store]) -> set[str]:
    stores = list(stores)
    found = {a for s in stores for at in s.access for a, _ in at.terms}
    for value in walk(roots_of(stores)):
        found |= value.axes | set(value.over if isinstance(value, Fold) else ())
    return found


def _merge(spec: Specialized) -> Specialized:
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
            a, b = _plain(access[outer]), _plain(access[inner])
            if packed and a and b and a != b:
                seen[a, b] = None
    return seen


def _plain(at: Affine) -> str | None:
    """The axis, if the index is nothing but one axis."""
    if at.const or at.starts or len(at.terms) != 1 or at.terms[0][1] != 1:
        return None
    return at.terms[0][0]


def _alike(a: str, b: str, accesses: Iterable[tuple[int, Access]], values: Iterable[Value],
           operands: Sequence[Operand]) -> bool:
    """Whether axes `a` (outer) and `b` (inner) can be one axis for every operand and fold."""
    for operand, access in accesses:
        with_a = [d for d, at in enumerate(access) if any(n == a for n, _ in at.terms)]
        with_b = [d for d, at in enumerate(access) if any(n == b for n, _ in at.terms)]
        if not with_a and not with_b:
            continue
        if len(with_a) != 1 or len(with_b) != 1 or with_a == with_b:
            return False
        if _plain(access[with_a[0]]) != a or _plain(access[with_b[0]]) != b:
            return False
        if not operands[operand].layout.joins(with_a[0], with_b[0]):
            return False
    for value in values:
        if isinstance(value, Position) and {a, b} & value.axes:
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
        return tuple(ZERO if _plain(at) == a else at for at in access)

    def change(value: Value) -> Value:
        axes = value.axes - {a}
        if isinstance(value, Load):
            return replace(value, axes=axes, access=clean(value.access))
        if isinstance(value, Fold):
            return replace(value, axes=axes, over=tuple(n for n in value.over if n != a))
        return replace(value, axes=axes)

    stores = rewrite(spec.stores, change, clean)
    axes = {n: (spec.axes[a] + e if n == b else e) for n, e in spec.axes.items() if n != a}
    return Specialized(spec.operands, axes, stores)


def rewrite(stores: Sequence[Store], change: Callable[[Value], Value],
            access: Callable[[Access], Access]) -> tuple[Store, ...]:
    """`stores` in which every value, over its new arguments, went through `change`."""
    new: dict[Value, Value] = {}
    for value in walk(roots_of(stores)):
        new[value] = change(over_new(value, new))
    return tuple(
        replace(s, access=access(s.access), value=new[s.value],
                mask=None if s.mask is None else new[s.mask]) for s in stores)


def over_new(value: Value, new: dict[Value, Value]) -> Value:
    """`value` over the arguments that `new` gives."""
    if isinstance(value, Op):
        return replace(value, operands=tuple(new[a] for a in value.operands))
    if isinstance(value, Convert):
        return replace(value, arg=new[value.arg])
    if isinstance(value, Fold):
        initial = None if value.initial is None else new[value.initial]
        where = None if value.where is None else new[value.where]
        return replace(value, arg=new[value.arg], initial=initial, where=where)
    return value
