"""In which order each output and each fold walks its axes.

A store follows the memory of its output.  A fold walks the axes that its result keeps first, then
those it folds over.  When the axis that is contiguous in memory is kept, it is cut into strips:
outside goes the loop over strips, innermost the loop over one strip, and the states of a strip's
folds are small arrays.  But where such a fold needs what other folds make of each row, it goes by
rows as they do, and its states are an array of a row's length.  And where many short rows are
folded, it begins with chunks of them: what it keeps of a chunk is read in the order of memory, and
threads take a chunk each.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from .layout import Operand
from .nest import CHUNK, PACK, ROWS
from .records import dataclass
from .refold import loads_of, memory_order, order_in_memory
from .values import (
    BLOCK,
    CHUNKED,
    FEW,
    LINED,
    NARROW,
    SHORT,
    SLICES,
    VECTOR,
    At,
    Fold,
    Load,
    Op,
    Place,
    Scan,
    Specialized,
    Store,
    Value,
    roots_of,
    walk,
)

HOLDS, FAILS = "?", "!"  # how the sides of a choice begin in orders
HEAVY = 15  # the cost of an element from which on computing hides the traffic


@dataclass(frozen=True, eq=False)
class Root:
    """A store or a fold, with what scheduling it takes.

    Attributes
    ----------
    order : tuple of str
        The axes as they are entered, outermost first; `"i0:64"` enters chunks of `"i0"`, of 64
        indices, `"i1/"` the strips of `"i1"`, `"?0"` and `"!0"` either side of a choice.
    over : frozenset of str
        The axes that are folded.
    needs : tuple of Fold
        The folds whose results are used.
    apart : dict
        Those of them that are read at other indices than the loops', and which of their axes.
    length : str
        How long strips are, as `nest.Loop` has it.
    given : Value or None
        The condition of that choice.
    """

    of: Store | Fold
    order: tuple[str, ...]
    over: frozenset[str]
    needs: tuple[Fold, ...]
    apart: dict[Value, frozenset[str]]
    length: str = "STRIP"
    given: Value | None = None

    @property
    def side(self) -> str | None:
        """The side of the choice that it is on."""
        return next(filter(is_side, self.order), None)

    @property
    def fold(self) -> Fold:
        """What it is, if it is a fold."""
        assert isinstance(self.of, Fold)
        return self.of

    @property
    def loops(self) -> tuple[str, ...]:
        """The axes as they are entered, whether in strips or chunks or not."""
        return tuple(a for a in self.order if a[-1] != "/" and ":" not in a and not is_side(a))

    @property
    def chunk(self) -> str | None:
        """The chunks that it begins with, if any."""
        return next((a for a in self.order if ":" in a), None)

    @property
    def kept(self) -> tuple[str, ...]:
        """Those of them that are not folded."""
        return tuple(a for a in self.loops if a not in self.over)

    def inputs(self) -> list[Value]:
        """The values that the innermost loop computes."""
        if isinstance(self.of, Scan):
            return [self.of.arg, *self.of.more]
        if isinstance(self.of, Store):
            return [self.of.value] if self.of.mask is None else [self.of.value, self.of.mask]
        return [self.of.arg] if self.of.where is None else [self.of.arg, self.of.where]

    @property
    def merges(self) -> bool:
        """Whether it is a fold whose parts may be folded apart, and merged."""
        return isinstance(self.of, Fold) and self.of.merges

    @property
    def by_rows(self) -> bool:
        """Whether it is a fold whose states are an array over the axes it keeps."""
        strips = any(axis.endswith("/") for axis in self.order)
        return bool(self.over) and not strips and self.order[-1] not in self.over

    @property
    def args(self) -> Sequence[Value]:
        """The values that it is computed from."""
        own = self.of.args if isinstance(self.of, Fold) else self.inputs()
        return own if self.given is None else [*own, self.given]


def is_side(axis: str | None) -> bool:
    """Whether what a root enters next is one side of a choice."""
    return axis is not None and axis[0] in (HOLDS, FAILS)


def roots(spec: Specialized) -> list[Root]:
    """Folds and stores, each after the folds it needs."""
    targets = [v for s in spec.stores for v in (s.value, s.mask) if v is not None]
    found: list[Root] = []
    short, few = _short_axes(spec), few_axes(spec)
    for value in walk(targets):
        if isinstance(value, Fold):
            below = [value.arg] if isinstance(value, Place) else value.args
            root = Root(value, _fold_order(value, spec, few, short), frozenset(value.over),
                        folds_below(below), read_apart(below))
            found.insert(_before(value, found), root)
    found = _slices_within(_in_chunks(_abreast(_by_rows(found), spec), spec), spec)
    found = [replace(r, order=_turned(r.order, r.over, short)) if r.merges else r for r in found]
    folds = {r.of: r for r in found}
    for store in spec.stores:
        order = _turned(memory_order(store.access, spec.operands[store.operand]), (), short)
        values = [store.value] if store.mask is None else [store.value, store.mask]
        needs = folds_below(values)
        inner = {a for n in needs for a in n.over if few.issuperset(n.over)
                 and n.axes.issuperset(b for b in order if b not in n.over)}
        order = (*(a for a in order if a not in inner), *(a for a in order if a in inner))
        for need in needs:  # what a strip computes, the same strip stores
            gone = () if isinstance(need, Scan) else need.over
            kept = tuple(a for a in folds[need].order if a not in gone and ":" not in a)
            if {a.rstrip("/") for a in kept} == set(order):
                order = kept
                break
        else:
            if not any(folds[n].order == order for n in needs):
                order = _order_of_like(values, needs, order, found)
        found.append(Root(store, order, frozenset(), needs, read_apart(values)))
    return found


def _before(value: Fold, found: Sequence[Root]) -> int:
    """Where a fold stands: a place before its extremum, with which it changes."""
    return next((k for k, r in enumerate(found) if isinstance(value, Place) and r.of is value.top),
                len(found))


def calls(values: Iterable[Value]) -> bool:
    """Whether the math library is called."""
    return any(isinstance(v, Op) and v.op.cost >= HEAVY for v in values)


def _short_axes(spec: Specialized) -> frozenset[str]:
    """The axes that are too short for vectors, in a kernel that calls the math library."""
    if not calls(walk(roots_of(spec.stores))):
        return frozenset()
    return frozenset(a for a in spec.axes if spec.between(a)[1] < SHORT)


def few_axes(spec: Specialized) -> frozenset[str]:
    """The folded axes whose loops the compiler unrolls inside of those along which vectors go."""
    values = walk(roots_of(spec.stores))
    if spec.large or calls(values):
        return frozenset()
    folds = [v for v in values if isinstance(v, Fold) and v.merges]
    bounds = [(f, [spec.between(a) for a in f.over]) for f in folds]
    return frozenset(a for f, every in bounds for a in f.over
                     if all(low == high for low, high in every)
                     and math.prod(high for _, high in every) <= FEW)


def _turned(order: tuple[str, ...], over: Collection[str],
            short: frozenset[str]) -> tuple[str, ...]:
    """The order in which vectors go along the axis before the short ones at the end."""
    last = next((k for k in reversed(range(len(order))) if order[k] not in short), None)
    if last in (None, len(order) - 1) or any(a.endswith("/") for a in order):
        return order
    strip, rows = order[last], order[last + 1:]
    if strip in over or (over and not short.issuperset(over)):
        return order
    return (*order[:last], f"{strip}/", *rows, strip)


def _by_rows(found: Sequence[Root]) -> list[Root]:
    """Roots in which folds in strips that go with folds of the rows they read go by rows."""
    rows = {r.of: (frozenset(r.order) - r.over, r.over) for r in found}
    loads = {r.of: {v for v in walk(r.args) if isinstance(v, Load)} for r in found}
    moved: set[Store | Fold] = set()
    for root in found:  # those that need folds of rows
        if _could_go_by_rows(root):
            turned = (root.over, frozenset({root.order[-1]}))
            if any(rows[n] == turned and loads[n] & loads[root.of] for n in root.needs):
                moved.add(root.of)
    for root in found:  # those that read what these read
        if _could_go_by_rows(root) and any(
                rows[root.of][1] == rows[m][1] and loads[m] & loads[root.of] for m in moved):
            moved.add(root.of)
    return [replace(r, order=(*r.over, r.order[-1])) if r.of in moved else r for r in found]


def _abreast(found: list[Root], spec: Specialized) -> list[Root]:
    """Roots in which what goes along rows, one element after the other, takes several at once.

    So no element waits for the one before, and vectors go along the rows, which lie side by side
    in buffers.  A single addition is not worth it, nor are cheap ones where buffers are large.
    With them go folds of what they give, which must not depend on how many rows there are; all of
    them go one way, or none does.
    """
    moved: dict[Store | Fold, Root] = {}
    for root in found:
        if not root.merges or any(n in moved for n in root.needs):
            moved[root.of] = root
    ways = {(r.order, r.over) for r in moved.values()}
    if len(ways) != 1 or any(r.merges and not r.fold.program.exact for r in moved.values()):
        return found
    [(order, over)] = ways
    if len(order) < 2 or over != {order[-1]} or order[-2].endswith("/"):
        return found
    (rows, _), (_, length) = (spec.between(a) for a in order[-2:])
    least = HEAVY if length > BLOCK else 2
    if rows < VECTOR or all(r.merges or r.fold.program.cost < least for r in moved.values()):
        return found
    turned = (*order[:-2], f"{order[-2]}/", order[-1], order[-2])
    return [*(r for r in found if r.of not in moved),  # whose results stores wait for, too
            *(replace(r, order=turned, length="ABREAST") for r in moved.values())]


def _in_chunks(found: list[Root], spec: Specialized) -> list[Root]:
    """Roots in which folds in strips of short rows go in chunks of these, if all of them can.

    With them go folds of everything, whose chunks are the same.
    """
    strips = [r for r in found if any(a.endswith("/") for a in r.order)]
    chunks = {_chunks_of(r, spec) for r in strips}
    if len(chunks) != 1 or None in chunks:
        return found
    [chunk] = chunks
    assert chunk is not None
    axis = chunk.partition(":")[0]
    return [replace(r, order=(chunk, *r.order)) if r in strips or (
        r.merges and not r.kept and len(r.order) > 1 and r.order[0] == axis) else r for r in found]


def _chunks_of(root: Root, spec: Specialized) -> str | None:
    """The chunks of an axis around all others, many of whose rows, or few of them, are folded."""
    *slices, row = root.kept or ("",)
    around = order_in_memory(loads_of(root.fold, spec), spec.operands)[:1]
    if not root.merges or not root.over.issuperset(around) or not around or (
            root.order != (*slices, f"{row}/", *root.loops[len(slices):])):
        return None
    [axis], most = around, spec.between(row)[1]
    few = all(spec.between(a)[1] <= SLICES for a in slices)
    if most > NARROW or not few or spec.between(axis)[0] < CHUNKED[most < SHORT]:
        return None
    return f"{axis}:{PACK * ROWS if most < SHORT else ROWS if slices else CHUNK}"


def _slices_within(found: list[Root], spec: Specialized) -> list[Root]:
    """Roots in which a strip is folded for all slices, where lines lie across strips and slices.

    So these are in a cache when the next slices need them.  Folds that share a loop go together.
    """
    turned = {r.order for r in found if _lies_across(r, spec)}
    return [replace(r, order=(f"{r.kept[-1]}/", *r.kept[:-1], *r.order[len(r.kept):]),
                    length="SLICED") if r.order in turned else r for r in found]


def _lies_across(root: Root, spec: Specialized) -> bool:
    """Whether a fold in strips reads lines along an axis of its slices, at every one of a row."""
    *slices, row = root.kept or ("",)
    strips = root.merges and root.order[:len(root.kept)] == (*slices, f"{row}/")
    return strips and spec.between(row)[1] >= LINED and any(
        row in v.axes and not root.over.isdisjoint(v.axes)
        and memory_order(v.access, spec.operands[v.operand])[-1] in slices
        for v in loads_of(root.fold, spec))


def _could_go_by_rows(root: Root) -> bool:
    """Whether a fold goes in strips along all rows of a matrix, and its states may be merged."""
    strip = root.order[-1]
    return root.merges and len(root.over) == 1 and root.order == (f"{strip}/", *root.over, strip)


def _order_of_like(values: Sequence[Value], needs: Sequence[Fold], order: tuple[str, ...],
                   before: Sequence[Root]) -> tuple[str, ...]:
    """The order of a fold in strips, if it shares more work with a store than a pass costs."""
    below, waited = set(walk(values)), set(walk(needs))
    for root in before:
        strips = any(axis.endswith("/") for axis in root.order)
        if root.of in waited or not strips or {a.rstrip("/") for a in root.order} != set(order):
            continue
        shared = (v for v in walk(root.args) if v in below and v.axes == frozenset(order))
        if cost(shared) >= HEAVY:
            return root.order
    return order


def cost(values: Iterable[Value]) -> int:
    """About how many additions the operations among `values` are worth."""
    return sum(v.op.cost for v in values if isinstance(v, Op))


def open_strip(bound: Sequence[str]) -> str | None:
    """The axis whose strip is around, but not the loop along it."""
    return next((b[:-1] for b in bound if b.endswith("/") and b[:-1] not in bound), None)


def remaining(root: Root, bound: Sequence[str]) -> tuple[str, ...]:
    """The axes whose loops `root` has yet to enter."""
    return tuple(a for a in root.order if a not in bound)


def next_axis(root: Root, bound: Sequence[str]) -> str | None:
    """The axis whose loop `root` enters next."""
    return next(iter(remaining(root, bound)), None)


def folds_below(values: Iterable[Value]) -> tuple[Fold, ...]:
    """The folds below `values`, not looking inside of them."""
    found: dict[Fold, None] = {}
    seen: set[Value] = set()
    stack = list(values)
    while stack:
        value = stack.pop()
        if isinstance(value, Fold):
            found[value] = None
        elif value not in seen:
            seen.add(value)
            stack.extend(value.args)
    return tuple(found)


def read_apart(values: Iterable[Value]) -> dict[Value, frozenset[str]]:
    """The folds below `values` that are read at other indices than the loops', and where not."""
    found: dict[Value, frozenset[str]] = {}
    for value in walk(values, lambda v: isinstance(v, Fold)):
        if isinstance(value, At):
            own = frozenset(axis for axis, _ in value.places)
            found[value.fold] = found.get(value.fold, frozenset()) | own
    return found


def _fold_order(fold: Fold, spec: Specialized, few: frozenset[str],
                short: frozenset[str]) -> tuple[str, ...]:
    """Kept axes, then folded ones; each in memory order, unless the fold minds its order."""
    loads = loads_of(fold, spec)
    memory = order_in_memory(loads, spec.operands)
    axes = [*memory, *(a for a in spec.axes if a not in memory)]
    kept = [a for a in axes if a in fold.axes and a not in fold.over]
    over = [a for a in axes if a in fold.over] if fold.merges else list(fold.over)
    strip = _strip_axis(loads, spec.operands, kept, over)
    if strip in short:
        strip = next((a for a in reversed(kept) if a not in short), strip)
    if strip is None or fold.merges and few.issuperset(over):
        return (*kept, *over)
    return (*(a for a in kept if a != strip), f"{strip}/", *over, strip)


def _strip_axis(loads: Sequence[Load], operands: Sequence[Operand], kept: Sequence[str],
                over: Sequence[str]) -> str | None:
    """The kept axis along which neighbours are closest where the fold reads most, if any."""
    if not over:
        return None
    for load in loads:
        layout = operands[load.operand].layout
        if load.axes.isdisjoint(over) or not layout.perm:
            continue
        at = load.access[layout.perm[-1]]
        inner = [axis for axis, step in at.terms if step == 1 and at.divisor == 1]
        return inner[0] if inner and inner[0] in kept else None
    return None
