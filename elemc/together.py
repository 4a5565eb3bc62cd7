"""Folds that go another way together than each would by itself.

Where a fold in strips needs what other folds make of each row, it goes by rows as they do, and its
states are an array of a row's length, or of several slices', where strips of these lie apart in
memory.  Where many short rows are folded, it begins with chunks of them: what it keeps of a chunk
is read in the order of memory, and threads take a chunk each.  What goes along rows, one element
after the other, takes several rows side by side.  Each rule looks at all folds, for those that
share a loop have to agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

import numpy as np

from .accesses import line_of, most_abreast, most_sliced, operands_meet, order_in_memory
from .cost import HEAVY, calls
from .layout import INTERLEAVED
from .linked import folds_columns
from .meeting import side_by_side
from .nest import CHUNK, LANES, PACK, ROWS
from .quotients import divides
from .refold import loads_of
from .roots import Root, axis_of, in_strips
from .values import (
    BLOCK,
    CHUNKED,
    DEEP,
    FAR_NARROW,
    FEW,
    LINED,
    NARROW,
    SHORT,
    SLICES,
    VECTOR,
    Fold,
    Load,
    Place,
    Specialized,
    Store,
    is_fold,
    walk,
)


def together(found: list[Root], spec: Specialized) -> list[Root]:
    """The folds among roots, in the orders in which they go together."""
    sided = side_by_side(found, spec)
    by_rows = _between_slices(_over_slices(_by_rows(sided), spec), spec)
    return _slices_within(_in_chunks(_abreast(by_rows, spec), spec), spec)


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


def _could_go_by_rows(root: Root) -> bool:
    """Whether a fold goes in strips along all rows of a matrix, and not in chunks of them."""
    return folds_columns(root) and not root.waits


def _over_slices(found: list[Root], spec: Specialized) -> list[Root]:
    """Roots in which folds in strips of slices go by rows: of all slices, one after the other.

    So memory is read in its order, where lines lie across strips and slices, and where rows are too
    short to be worth that each strip is read from as many places as are folded.
    """
    orders = {r.order: new for r in found if isinstance(r.of, Fold) and (
        new := _order_over_slices(r, spec))}
    apart = {r.order for r in found if not r.merges or isinstance(r.of, Place)}  # two states
    return [replace(r, order=orders[r.order]) if r.order in orders.keys() - apart else r
            for r in found]


def _order_over_slices(root: Root, spec: Specialized) -> tuple[str, ...]:
    """The order of a fold by rows of slices, if it is worth it; else none.

    Threads share chunks of rows, what is kept around, or, of few rows, chunks of slices.  What one
    operand adds takes no longer than the states it is added to: a few slices of one that is near,
    and a few rows, are folded in strips, unless functions are called.
    """
    loads, kept = loads_of(root.fold, spec), root.kept
    memory = order_in_memory(loads, spec)
    around = tuple(takewhile(kept.__contains__, memory))
    rows, (*slices, row) = memory[len(around):][:1], kept[len(around):] or ("",)
    if not slices or not root.merges or kept[:len(around)] != around or (
            root.order != (*kept[:-1], f"{row}/", *rows, row) or spec.between(row)[1] < VECTOR):
        return ()
    if operands_meet(root.fold):
        return ()
    (low, high), (least, most) = spec.between(row), spec.between(rows[0])
    many = spec.between(slices[0])[0] > SLICES
    shared = around or least >= DEEP
    light = len(loads) == 1 and not calls(walk(root.inputs(), is_fold))
    few = most <= SHORT and (low >= SHORT or spec.far)
    strips = high > most_sliced(loads) or light and (few or not (spec.far or many and shared))
    if strips and not _lies_across(root, spec) or not (shared or many):
        return ()
    chunks = [f"{a}:{ROWS}" for a in rows if most > ROWS]
    if around:
        return (*around, *chunks, *rows, *slices, row)
    return (*rows, *kept) if shared else (f"{slices[0]}:{SLICES}", *chunks, *rows, *kept)


def _between_slices(found: list[Root], spec: Specialized) -> list[Root]:
    """Roots in which folds in strips, over axes with a kept one between, go by rows as memory does.

    The strips of short rows would be read slice by slice.  A row of states takes what is folded
    within slices, too, one after the other: of what rounds, `FEW` elements.
    """
    def memory(root: Root) -> tuple[str, ...]:
        return tuple(order_in_memory(loads_of(root.fold, spec), spec))

    def goes(root: Root) -> bool:
        if not root.merges or len(root.over) < 2 or not in_strips(root.order):
            return False
        around, *inner = memory(root)
        within = [a for a in inner if a in root.over]
        if around not in root.over or inner[0] in within or not within or (
                {around, *inner} != {*root.loops} or inner[-1] != root.order[-1]):
            return False
        low, high = spec.between(inner[-1])
        few = math.prod(spec.between(a)[1] for a in within) <= FEW
        return (root.fold.program.exact or few and not root.fold.program.of_part) and (
            VECTOR <= low and high <= NARROW and spec.between(around)[0] >= DEEP)

    turned = {r.order: memory(r) for r in found if isinstance(r.of, Fold) and goes(r)}
    apart = {r.order for r in found if not r.merges or isinstance(r.of, Place)}  # two states
    return [replace(r, order=turned[r.order]) if r.order in turned.keys() - apart else r
            for r in found]


def _abreast(found: list[Root], spec: Specialized) -> list[Root]:
    """Roots in which what goes along rows, one element after the other, takes several at once.

    That is what cannot be merged, and what calls functions along short rows.  So no element waits
    for the one before, and vectors go along the rows, which lie side by side in buffers.  A single
    addition is not worth it, nor are cheap ones where buffers are large, nor places in rows of a
    few integers: the compiler makes vectors along the axis around.  With them go folds of what they
    give, which must not depend on how many rows there are, and stores; all of them go one way, or
    none does.
    """
    short = _in_order(found, spec)
    moved: dict[Store | Fold, Root] = {}
    for root in found:
        if not root.merges or root in short or any(n in moved for n in root.needs):
            moved[root.of] = root
    ways = {(r.order, r.over) for r in moved.values()}
    if len(ways) != 1 or any(r.merges and not r.fold.program.exact and r not in short
                             for r in moved.values()):
        return found
    [(order, over)] = ways
    if len(order) < 2 or over != {order[-1]} or order[-2].endswith("/"):
        return found
    (rows, _), (shortest, length) = (spec.between(a) for a in order[-2:])
    if shortest == length in INTERLEAVED and all(
            _is_place_of_integers(r, spec) for r in moved.values()):
        return found
    least = HEAVY if length > BLOCK else 2
    called = length < LANES and calls(walk((v for r in moved.values() if not r.merges
                                            for v in r.inputs()), is_fold))
    if rows < VECTOR or not (short or called) and all(
            r.merges or r.fold.program.cost < least for r in moved.values()):
        return found
    turned = (*order[:-2], f"{order[-2]}/", order[-1], order[-2])
    return [*(r for r in found if r.of not in moved),  # whose results stores wait for, too
            *(replace(r, order=turned, length="ABREAST") for r in moved.values())]


def _is_place_of_integers(root: Root, spec: Specialized) -> bool:
    """Whether a root is the place of an extremum of what are integers that are read in order."""
    place = isinstance(root.of, Fold) and root.fold.program.place_of
    return bool(place) and all(v.dtype.kind in "biu" for v in walk(root.inputs())) and all(
        spec.operands[v.operand].layout.unit and all(step == 1 for at in v.access
                                                     for _, step in at.terms)
        for v in loads_of(root.fold, spec))


def _in_order(found: Sequence[Root], spec: Specialized) -> list[Root]:
    """Folds that call functions along rows that waste lanes, and add one after the other.

    Of a row that one fold alone goes through gcc makes vectors along the axis around, but not if it
    is folded again, or stored along, and not of float16.  Without functions, all folds of the row
    do so if one that rounds waits for another, and for a division, and if the row is stored and
    has more elements than a vector.  Doubles do then if they fill no lanes.
    """
    def is_short(root: Root) -> bool:
        """Whether rows are short enough, and neither fill lanes nor are less than a vector."""
        row = root.order[-1]
        low, high = spec.between(row)
        return VECTOR <= low and high < most_abreast(row, spec) and (low, high) != (LANES, LANES)

    folds = [r for r in found if r.merges and r.over == {r.order[-1]}
             and not operands_meet(r.fold) and is_short(r)]
    stored = {a for s in spec.stores for at in s.access for a in at.axes}
    again = len(folds) > 1 or any(r.order[-1] in stored for r in folds)
    values = walk((v for r in folds for v in r.inputs()), is_fold)
    if calls(values) and (again or any(v.dtype == np.float16 for v in values)):
        return folds
    divided = any(not r.fold.program.exact and r.needs and spec.between(r.order[-1])[0] > VECTOR
                  and r.order[-1] in stored for r in folds) and any(
        v.axes and divides(v) for v in walk(s.value for s in spec.stores))
    return folds if divided else []


def _in_chunks(found: list[Root], spec: Specialized) -> list[Root]:
    """Roots in which folds in strips of short rows go in chunks of these, if all of them can.

    With them go folds of everything, whose chunks are the same.
    """
    strips = [r for r in found if in_strips(r.order)]
    chunks = {_chunks_of(r, spec) for r in strips}
    if len(chunks) != 1 or None in chunks:
        return found
    [chunk] = chunks
    assert chunk is not None
    axis = axis_of(chunk)
    return [replace(r, order=(chunk, *r.order)) if r in strips or (
        r.merges and not r.kept and len(r.order) > 1 and r.order[0] == axis) else r for r in found]


def _chunks_of(root: Root, spec: Specialized) -> str | None:
    """The chunks of an axis around all others, of which many rows are folded.

    Of many slices, folds that wait for others read each one again, while a cache holds it.
    """
    *slices, row = root.kept or ("",)
    around = order_in_memory(loads_of(root.fold, spec), spec)[:1]
    if not root.merges or not root.over.issuperset(around) or not around or (
            root.order != (*slices, f"{row}/", *root.loops[len(slices):])):
        return None
    [axis], most = around, spec.between(row)[1]
    few = not root.needs or all(spec.between(a)[1] <= SLICES for a in slices)
    narrow = most <= (FAR_NARROW if spec.far else NARROW)
    sliced = bool(slices) and not operands_meet(root.fold)  # whose slices are read once
    least = SHORT if root.waits else CHUNKED[most < SHORT]
    if not narrow or not few or spec.between(axis)[0] < least:
        return None
    return f"{axis}:{PACK * ROWS if most < SHORT else ROWS if sliced else CHUNK}"


def _slices_within(found: list[Root], spec: Specialized) -> list[Root]:
    """Roots in which a strip is folded for all slices, where lines lie across strips and slices.

    So these are in a cache when the next slices need them.  Folds that share a loop go together.
    """
    turned = {r.order for r in found if _lies_across(r, spec)
              and spec.between(r.kept[-1])[1] >= LINED}
    return [replace(r, order=(f"{r.kept[-1]}/", *r.kept[:-1], *r.order[len(r.kept):]),
                    length="SLICED") if r.order in turned else r for r in found]


def _lies_across(root: Root, spec: Specialized) -> bool:
    """Whether a fold in strips reads lines along an axis of its slices, at every one of a row."""
    *slices, row = root.kept or ("",)
    strips = root.merges and root.order[:len(root.kept)] == (*slices, f"{row}/")
    return strips and any(
        line in slices for v in loads_of(root.fold, spec)
        if row in v.axes and not root.over.isdisjoint(v.axes)
        for line in line_of(v, spec))
