"""From a call's signature to its specialization: lower, choose output layouts, merge axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from .accesses import memory_order
from .coalesce import merge_axes
from .cost import calls
from .graph import Graph
from .layout import Layout, Operand
from .lower import Lowering
from .maps import Extents
from .quotients import by_inverses, divides
from .ratios import by_constants
from .reads import Env
from .records import dataclass
from .refold import refold
from .values import (
    FEW,
    ZERO,
    Fold,
    Load,
    Specialized,
    Store,
    Value,
    is_fold,
    roots_of,
    walk,
)

Line = tuple[int, int, tuple[int, ...], tuple[int, ...]]
Across = tuple[int, int, int, tuple[int, ...]]

LINE_BYTES = 1024  # of an output that are computed before they go past the caches, in whole rows
# Bytes of a line that is worth it alone, of one beside others, of one that waits for divisions, and
# of one that functions are called for, or something else than itself is folded for.
ALONE, TOGETHER, DIVIDING, WAITING = 256, 1, 128, 1024
# Bytes of lines that are read across in place: by what computes while they are late, as folds and
# functions do, of elements that vectors gather, of at most 4 bytes, and as the first cache holds.
LATE, GATHERED, HELD = 1 << 10, 8 << 10, 32 << 10


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
    mask_ones : tuple of bool
        For every dimension of the mask, whether it is 1.
    large : bool
        Whether the outputs outgrow the caches.
    bounds : frozenset of tuples of int
        Extents, with the least and the most that they may be; see `bounds.bounds_of_rows`.
    far : bool
        Whether an input has to come from memory, if there are folds.
    third : bool
        Whether inputs come from the third cache, if there are.
    crossed : bool
        Whether the lines of an input that are read across are more than the first cache holds.
    """

    ones: frozenset[int]
    inputs: tuple[Given, ...]
    outputs: tuple[Given | None, ...]
    modes: tuple[str, ...]
    mask: Given | None = None
    mask_ones: tuple[bool, ...] = ()
    large: bool = False
    bounds: frozenset[tuple[int, int, int]] = frozenset()
    far: bool = False
    third: bool = False
    crossed: bool = False


def specialize(graph: Graph, extents: Extents, signature: Signature,
               names: Sequence[str], output_names: Sequence[str], loose: bool) -> Specialized:
    """The specialization of a closed graph for one signature."""
    nodes = (*graph.inputs, *graph.captured)
    exact = exact_extents(extents, signature)
    operands = [
        Operand(name, "in" if i < len(graph.inputs) else "captured", node.ndim, *_fields(given),
                *_lengths(extents.of[node], exact))
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
        operands.append(Operand(output_names[k], "out", len(env), *_fields(given),
                                *_lengths(extents.of[graph.outputs[k]], exact)))
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
    bounds = {e: (low, high) for e, low, high in signature.bounds}
    spec = Specialized(tuple(operands), axes, tuple(stores), signature.large,
                       bounds | {e: (n, n) for e, n in exact.items()}, signature.far,
                       signature.crossed, signature.third, loose)
    return by_inverses(by_constants(refold(merge_axes(spec))))


def exact_extents(extents: Extents, signature: Signature) -> dict[int, int]:
    """The extents that all calls share: those of the signature, and all that equal them."""
    exact = {e: low for e, low, high in signature.bounds if low == high}
    equal = [{place, *step[1:]} - signature.ones for place, step in enumerate(extents.program)
             if step[0] in ("join", "fit")]
    for group in [*reversed(equal), *equal]:
        length = next((exact[e] for e in group if e in exact), None)
        if length is not None:
            exact |= dict.fromkeys(group, length)
    return exact


def lines(spec: Specialized) -> dict[Store, str]:
    """The stores that write line after line of memory, and the axis along such a line."""
    found = {}
    for store in spec.stores:
        layout = spec.operands[store.operand].layout
        if store.mode == "write" and store.mask is None and layout.perm and layout.unit:
            last = store.access[layout.perm[-1]]
            if last.axis:
                found[store] = last.axis
    return found


def following_rows(store: Store, spec: Specialized) -> tuple[str, str] | None:
    """The axis of short rows that follow each other in memory, and the one along a row; or None.

    Several of them go past the caches at a time, but in tiles each for itself.
    """
    layout = spec.operands[store.operand].layout
    if len(layout.perm) < 2 or not layout.packed[-1] or read_across(spec):
        return None
    rows, row = (store.access[dim].axis for dim in layout.perm[-2:])
    size = max(spec.operands[s.operand].dtype.itemsize for s in spec.stores)
    short = row and spec.between(row)[1] * size <= LINE_BYTES
    return (rows, row) if rows and row and short else None


def line_extents(spec: Specialized) -> tuple[Line, ...]:
    """What tells whether such stores go past the caches.

    For each its item size, the least bytes of a line that is worth it, the extents of a line, and
    those of all elements.
    """
    values = walk(roots_of(spec.stores))
    folded = {v.over for v in values if isinstance(v, Fold)}

    def least(store: Store, row: str) -> int:
        if calls(values) or folded - {(row,)}:
            return WAITING
        if following_rows(store, spec) is None:
            return ALONE
        return DIVIDING if any(map(divides, values)) else TOGETHER

    return tuple((spec.operands[store.operand].dtype.itemsize, least(store, axis), spec.axes[axis],
                  tuple(e for at in store.access for a in at.axes for e in spec.axes[a]))
                 for store, axis in lines(spec).items())


def read_across(spec: Specialized) -> tuple[Across, ...]:
    """What lies in lines along other axes than those of the stores.

    For each the input, the dimension along which it is stored: a step in it goes to another line;
    how many bytes of lines may be read in place; and the extents whose product is their number.
    """
    found: dict[Across, None] = {}
    dear = calls(walk(roots_of(spec.stores)))
    for store in lines(spec):
        order = memory_order(store, spec)
        few = spec.between(order[-1])[1] <= FEW // 2  # of which compilers make vectors of several
        for load in walk(roots_of([store]), is_fold):
            if isinstance(load, Load):
                near = GATHERED if dear or load.dtype.itemsize <= 4 else HELD
                held = LATE if dear and not few else near
                found |= steps_across(load, order, held, spec)
    return tuple(found)


def steps_across(load: Load, order: Sequence[str], held: int, spec: Specialized
                 ) -> dict[Across, None]:
    """Where loops in this order go to another line; `held` bytes of these are read in place."""
    operand = spec.operands[load.operand]
    if operand.role != "in" or not operand.layout.unit or not operand.layout.perm:
        return {}
    line = load.access[operand.layout.perm[-1]].axis
    inner = order[order.index(line) + 1:] if line in order else order[-1:]
    inner = [a for a in inner if a in load.axes]
    extents = tuple(e for a in inner for e in spec.axes[a])
    return {(load.operand, dim, held, extents): None
            for dim, at in enumerate(load.access) for axis, step in at.terms
            if axis in inner[-1:] and step == 1 and at.divisor == 1
            and dim != operand.layout.perm[-1]}


def _fields(given: Given) -> tuple[np.dtype, str, Layout]:
    return given.dtype, given.storage, given.layout


def _lengths(extents: Sequence[int], exact: dict[int, int]
             ) -> tuple[tuple[int, ...], tuple[int | None, ...]]:
    """The extents of an operand's dimensions, and how long those are that are known."""
    return tuple(extents), tuple(map(exact.get, extents))


def keep_order(values: Iterable[Value], env: Env, operands: Sequence[Operand]) -> Layout:
    """NumPy's "K" layout: axes in the order of the inputs' strides; where they disagree, C's."""
    axes = [(at.axis, d) for d, at in enumerate(env) if at is not None and at.axis]
    places = []  # per way of reading an input: its axes, from the largest stride to the smallest
    for load in walk(values) if len(axes) > 1 else ():
        if isinstance(load, Load):
            perm = operands[load.operand].layout.perm
            places.append({at.terms[0][0]: perm.index(d) for d, at in enumerate(load.access)
                           if len(at.terms) == 1})
    order: list[tuple[str, int]] = []  # from the innermost axis to the outermost
    for outer, dim in reversed(axes):
        at = len(order)
        for k, (inner, _) in reversed([*enumerate(order)]):
            agree = [p[outer] < p[inner] for p in places if outer in p and inner in p]
            if agree and any(agree):
                break
            at = k if agree else at
        order.insert(at, (outer, dim))
    return Layout(tuple(d for _, d in reversed(order)), (True,) * (len(axes) - 1), 1)


def _axes_of(stores: Iterable[Store]) -> set[str]:
    stores = list(stores)
    found = {a for s in stores for at in s.access for a in at.axes}
    for value in walk(roots_of(stores)):
        found |= value.axes | set(value.over if isinstance(value, Fold) else ())
    return found
