"""Functions of what rows give, in the loops over these rows: called for many rows at once.

A gradient of a regression takes for every row a function of its sum of products, and then goes
along the row again.  Called row by row, functions fill no vectors.  So loops over rows that wait
for functions are cut in chunks: first what the functions take, of all rows of a chunk, then they
are called for these, and what is left goes over the rows again, while a cache holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .cost import DEAR, calls, cost
from .nest import CHUNK, ROWS
from .quotients import divides
from .roots import Root, axis_of, folds_below, in_strips
from .values import LINED, SHORT, Load, Specialized, is_fold, roots_of, walk


def linked(root: Root, spec: Specialized, folds: Sequence[Root] = ()) -> Root:
    """The root, with the axis of the rows for which it `waits`, if any; of one axis alone.

    It takes functions of what each of these rows gives, and goes along rows that are short enough.
    Or it folds columns, and takes folds of the same rows; of rows that are not short only if they
    do not come from memory, and it shares nothing dear with stores and the other `folds`.
    """
    *around, row = root.loops or ("",)
    given = {v: max(v.axes, key=root.loops.index) for v in walk(root.inputs(), is_fold)
             if v.axes and v.axes.issubset(around)}
    rows = {a for v, a in given.items()
            if calls([v]) and v.axes.issuperset(around[:around.index(a)])}
    if not around or len(rows) > 1:
        return root
    most = spec.between(row)[1]
    if rows:
        short = most < LINED or folds_columns(root) and not spec.far
        return replace(root, waits=rows.pop()) if short else root
    if folds_columns(root) and any(map(is_fold, given)) and (
            most <= SHORT or not (spec.far or _shares(root, row, spec, folds))):
        return replace(root, waits=around[-1])
    return root


def _shares(root: Root, row: str, spec: Specialized, folds: Sequence[Root]) -> bool:
    """Whether a fold of columns divides, or shares what is dear with what goes by rows.

    With what waits for the same folds, or more, it is enough to compute anything, or read
    everything: both go over a row at once.
    """
    own = {v for v in walk(root.inputs(), is_fold) if row in v.axes}
    reads = {v for v in own if isinstance(v, Load)}
    dear = any(map(divides, own))
    for values in (*([*roots_of([s])] for s in spec.stores),
                   *(r.inputs() for r in folds if not folds_columns(r))):
        shared = own.intersection(walk(values, is_fold))
        at_once = {*folds_below(values)} >= {*root.needs}
        dear |= cost(shared) >= (1 if at_once else DEAR) or (
            at_once and bool(reads) and reads <= shared)
    return dear


def folds_columns(root: Root) -> bool:
    """Whether a fold goes in strips along all rows of a matrix, and its states may be merged."""
    strip = root.order[-1]
    return root.merges and len(root.over) == 1 and root.order == (f"{strip}/", *root.over, strip)


def in_chunks_of_rows(found: Sequence[Root], spec: Specialized) -> list[Root]:
    """Roots in which loops that wait for functions of rows go in chunks of these, if they can.

    With them goes all that goes over the same rows.
    """
    for axis in dict.fromkeys(r.waits for r in found if r.waits):
        waiting = [r for r in found if r.waits == axis]
        chunks = {a for r in waiting for a in r.order if ":" in a and axis_of(a) == axis}
        around = {_around(r, axis) for r in waiting if not in_strips(r.order)}
        if not chunks:
            short = all(spec.between(r.order[-1])[1] < SHORT for r in waiting)
            chunks = {f"{axis}:{CHUNK if short else ROWS}"}
        elif not around:
            around = {()}
        if len(chunks) == len(around) == 1 and (first := around.pop()) is not None:
            found = _in_chunks(found, axis, chunks.pop(), first)
    return [r if any(":" in a and axis_of(a) == r.waits for a in r.order) else
            replace(r, waits="") for r in found]


def _in_chunks(found: Sequence[Root], axis: str, chunk: str, around: tuple[str, ...]
               ) -> Sequence[Root]:
    """Roots in which those that enter `axis` within `around` enter chunks of it.

    Roots along this axis alone do if they take what rows give; they wait, too, so that functions
    that others take are called once.
    """
    rows = [r for r in found if _around(r, axis) == around]
    if any(axis in r.over and not r.merges or not r.over.isdisjoint(around) for r in rows):
        return found
    given = {n for r in found if r.waits == axis for n in r.needs}  # by rows
    new = {}
    for root in rows:
        if len(root.order) > len(around) + 1 or not given.isdisjoint(root.needs):
            order = root.order[:len(around)], root.order[len(around):]
            waits = axis if order[1] == (axis,) else root.waits
            new[root] = replace(root, order=(*order[0], chunk, *order[1]), waits=waits)
    return [new.get(r, r) for r in found]


def _around(root: Root, axis: str) -> tuple[str, ...] | None:
    """The axes around a plain loop; None: there is none, or chunks are around."""
    order = root.order
    place = order.index(axis) if axis in order else len(order)
    plain = place < len(order) and all(a in root.loops for a in order[:place])
    return order[:place] if plain and not in_strips(order) else None
