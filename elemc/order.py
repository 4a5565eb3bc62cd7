"""In which order each output and each fold walks its axes.

A store follows the memory of its output, but for short rows along which it calls functions.  A
fold walks the axes that its result keeps first, then those it folds over.  When the axis that is
contiguous in memory is kept, it is cut into strips: outside goes the loop over strips, innermost
the loop over one strip, and the states of a strip's folds are small arrays.  Some folds go
otherwise, for others do: see `together`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from .accesses import (
    follows,
    line_of,
    may_turn,
    meets,
    memory_order,
    operands_meet,
    order_in_memory,
    records,
)
from .cost import HEAVY, MEETING, calls, cost
from .layout import Operand
from .linked import in_chunks_of_rows, linked
from .nest import LANE_BYTES, PACK
from .quotients import divides
from .refold import loads_of
from .roots import Root, axis_of, folds_below, holds, in_strips, read_apart
from .together import together
from .values import (
    FEW,
    LINED,
    NARROW,
    ORDERED,
    SHORT,
    VECTOR,
    Fold,
    Load,
    Place,
    Scan,
    Specialized,
    Store,
    Value,
    is_fold,
    roots_of,
    walk,
)


def roots(spec: Specialized) -> list[Root]:
    """Folds and stores, each after the folds it needs."""
    targets = [v for s in spec.stores for v in (s.value, s.mask) if v is not None]
    found: list[Root] = []
    few = few_axes(spec)
    short = _short_axes(spec).union(*(
        _short_strip(v, spec) for v in walk(targets) if isinstance(v, Fold)))
    for value in walk(targets):
        if isinstance(value, Fold):
            below = [value.arg] if isinstance(value, Place) else value.args
            needs = folds_below(below)
            strips = {r.of: r.order[-1] for r in found if in_strips(r.order)}
            place = _before(value, found)  # which changes with its extremum, in the same loop
            order = found[place].order if place < len(found) else _fold_order(
                value, spec, few, short, strips)
            root = Root(value, order, frozenset(value.over), needs, read_apart(below))
            found.insert(place, root)
    found = [linked(r, spec, found) for r in found]
    found = [_along_long_axis(r, short, spec) if r.merges else r for r in together(found, spec)]
    folds = {r.of: r for r in found}
    for store in spec.stores:
        values = roots_of([store])
        needs = folds_below(values)
        order = memory = memory_order(store, spec)
        around = order if needs else _around_records(order, spec)
        turned = order if _joins(store, order, spec) else _turned(around, (), short, spec)
        with_folds = turned[-1:] in {folds[n].order[-1:] for n in needs}  # in the same strips
        order = turned if with_folds or _calls_itself(store, needs, spec) else around
        inner = {a for n in needs for a in n.over if few.issuperset(n.over)
                 and n.axes.issuperset(b for b in order if b not in n.over)}
        order = (*(a for a in order if a not in inner), *(a for a in order if a in inner))
        for need in needs:  # what a strip computes, the same strip stores, or its rows
            abreast = isinstance(need, Scan) or folds[need].length == "ABREAST"
            gone = ({*need.over} - {*order}) if abreast else need.over
            kept = tuple(a for a in folds[need].order if a not in gone and ":" not in a)
            if {axis_of(a) for a in kept} == set(order):
                order = kept
                break
        else:
            if not any(folds[n].order == order for n in needs):
                order = _order_of_like(values, needs, order, found, spec)
        length = "STRIP"
        if in_strips(order) and (order == around or order[-1] != memory[-1]):
            length = "RECORDS" if order == around and not spec.large else "TURNED"
        root = Root(store, order, frozenset(), needs, read_apart(values), length=length)
        found.append(linked(root, spec))
    return in_chunks_of_rows(found, spec)


def _calls_itself(store: Store, needs: Sequence[Fold], spec: Specialized) -> bool:
    """Whether a store calls functions besides those whose values wait for it where folds do."""
    axes = frozenset(a for at in store.access for a in at.axes)
    waiting = {v for v in walk(a for n in needs for a in n.args)
               if v.axes == axes and holds(store, v, spec)}
    own = walk(roots_of([store]), lambda v: isinstance(v, Fold) or v in waiting)
    return calls(v for v in own if v not in waiting)


def _before(value: Fold, found: Sequence[Root]) -> int:
    """Where a fold stands: a place before its extremum, all others at the end."""
    return next((k for k, r in enumerate(found) if isinstance(value, Place) and r.of is value.top),
                len(found))


def _short_axes(spec: Specialized) -> frozenset[str]:
    """The axes along which functions are called, but not in vectors: these go along the one before.

    What reads and writes rows side by side gathers and scatters.  That is worth it where functions
    would leave vectors half empty, and of what folds them along up to 8 elements, if it is stored
    along these as well; of maps compilers make vectors of several rows of up to 4 themselves.
    """
    values = walk(roots_of(spec.stores))
    if not calls(values):
        return frozenset()
    most = {a: spec.between(a)[1] for a in spec.axes}
    folds = [v for v in values if isinstance(v, Fold) and all(most[a] <= VECTOR for a in v.over)]
    parts = {v.arg: v for v in values if isinstance(v, Fold)}  # of which other folds are made
    # along what these keep, if it is long, gcc makes vectors
    folded = {a for f in folds if calls(walk([f.arg])) and not (
        f in parts and any(most[b] >= SHORT for b in parts[f].axes)) for a in f.over}
    stored = {a for s in spec.stores for at in s.access for a in at.axes}
    return frozenset(a for a in spec.axes if FEW // 2 < most[a] < VECTOR or a in folded and (
        most[a] < VECTOR or most[a] == VECTOR and a in stored))


def _short_strip(fold: Fold, spec: Specialized) -> set[str]:
    """The strip of a fold that calls functions, if it fills no vector, of few rows.

    Of `VECTOR` elements, `PACK` rows go side by side: one vector holds half of them, or all.
    """
    values, (_, over, strip) = walk(fold.args), _ways(fold, spec)
    if strip is None or not calls(values):
        return set()
    widest = max(v.dtype.itemsize for v in values)
    most, rows = spec.between(strip)[1], spec.between(over[-1])[1]
    few = rows < (PACK if most >= VECTOR else ORDERED)
    return {strip} if few and most * widest < LANE_BYTES else set()


def _is_long(axis: str, spec: Specialized) -> bool:
    """Whether what is entered is an axis that may be long enough for vectors to gather along it."""
    return axis in spec.axes and spec.between(axis)[1] >= SHORT


def few_axes(spec: Specialized) -> frozenset[str]:
    """The folded axes whose loops the compiler unrolls inside of those along which vectors go.

    Not those along which lines are written: to write several of them side by side takes longer than
    to go over them twice.
    """
    values = walk(roots_of(spec.stores))
    if calls(values):
        return frozenset()
    written = _along_lines(spec)
    folds = [v for v in values if isinstance(v, Fold) and v.merges and written.isdisjoint(v.over)]
    bounds = [(f, [spec.between(a) for a in f.over]) for f in folds]
    return frozenset(a for f, every in bounds for a in f.over
                     if all(low == high for low, high in every)
                     and math.prod(high for _, high in every) <= FEW)


def _along_lines(spec: Specialized) -> set[str]:
    """The axes along which lines are written, neither short nor long, that wait for no division.

    And those of several lines that meet in the first cache.
    """
    found: set[str] = set()
    for store in spec.stores:
        operand = spec.operands[store.operand]
        *axes, row = memory_order(store, spec) or [""]
        if row and meets(row, operand, spec):
            found.update(a for a in axes if spec.between(a)[0] > MEETING)
        if len(axes) > 1 and SHORT < spec.between(row)[0] and spec.between(row)[1] <= NARROW:
            own = walk(roots_of([store]), is_fold)
            found.update(set(axes).difference(*(v.axes for v in own if divides(v))))
    return found


def _along_long_axis(root: Root, short: frozenset[str], spec: Specialized) -> Root:
    """A fold in which vectors go along a long axis, a line for each element."""
    order = _turned(root.order, root.over, short, spec)
    return root if order == root.order else replace(root, order=order, length="TURNED")


def _turned(order: tuple[str, ...], over: Collection[str],
            short: frozenset[str], spec: Specialized) -> tuple[str, ...]:
    """The order in which vectors go along the last long axis, if short ones are at the end."""
    last = next((k for k in reversed(range(len(order))) if _is_long(order[k], spec)), None)
    if last is None or order[-1] not in short or in_strips(order):
        return order
    strip, rows = order[last], order[last + 1:]
    if strip in over or (over and not short.issuperset(over)):
        return order
    return (*order[:last], f"{strip}/", *rows, strip)


def _around_records(order: tuple[str, ...], spec: Specialized) -> tuple[str, ...]:
    """The order in which strips of a line go around the elements of short records, if any.

    Where lines of an operand lie along axes around those of the output, each pass would read all
    of them, for one element of each.  What is narrow is turned in squares.
    """
    for load, record in records(spec, order):
        row, most = order[-1], math.prod(spec.between(a)[1] for a in record)
        size = load.dtype.itemsize
        near = most > FEW // 2 and most * size != LANE_BYTES  # squares of vectors are as good
        short = size >= 4 and most <= NARROW and (spec.large or near)
        if short and spec.between(row)[0] >= LINED:
            first = min(map(order.index, record))
            between = [a for a in order[first:-1] if a not in record]
            return (*order[:first], f"{row}/", *between, *record, row)
    return order


def _joins(store: Store, order: tuple[str, ...], spec: Specialized) -> bool:
    """Whether short rows are one long row once what lies across them is turned."""
    *outer, rows, row = "", "", *order
    if not (spec.crossed and rows and spec.between(rows)[1] * spec.between(row)[1] >= 2 * SHORT):
        return False
    loads = [v for v in walk(roots_of([store]), is_fold) if isinstance(v, Load)]
    places: list[Load | Store] = [store, *(
        v for v in loads if not v.axes.isdisjoint((rows, row))
        and not any(may_turn(v, a, SHORT, spec) for a in outer if a))]
    return all(follows(spec.operands[v.operand], v.access, rows, row) for v in places)


def _order_of_like(values: Sequence[Value], needs: Sequence[Fold], order: tuple[str, ...],
                   before: Sequence[Root], spec: Specialized) -> tuple[str, ...]:
    """The order of what goes in strips, if it shares more work with a store than a pass costs.

    Narrow rows go side by side, without stores: what these share with them waits in the outputs.
    So does what a fold that the store waits for computes; in large outputs it would come from
    memory, unless a strip of them, which the caches hold, is stored where it was folded.
    """
    below, waited = set(walk(values)), set(walk(needs))
    for root in before:
        alike = in_strips(root.order) and {axis_of(a) for a in root.order} == set(order)
        apart = root.of in waited and not (
            spec.large and root.chunk is None and root.order[-1] == order[-1])
        if apart or not alike or spec.between(root.order[-1])[1] < SHORT:
            continue
        shared = (v for v in walk(root.args) if v in below and v.axes == frozenset(order))
        if cost(shared) >= HEAVY:
            return root.order
    return order


def _fold_order(fold: Fold, spec: Specialized, few: frozenset[str], short: frozenset[str],
                strips: Mapping[Store | Fold, str]) -> tuple[str, ...]:
    """Kept axes, then folded ones; each in memory order, unless the fold minds its order.

    Of a few scans each goes by itself, if functions are called: along it these fill vectors.  What
    others give in `strips` is folded in the same ones.  A few elements are unrolled, unless rows
    that fill vectors meet.
    """
    kept, over, strip = _ways(fold, spec)
    if strip is None and fold.merges:
        strip = next((strips[n] for n in folds_below([fold.arg]) if strips.get(n) in kept
                      and n.axes.issuperset(fold.arg.axes)), None)
    if strip in short and spec.between(over[-1])[1] < ORDERED:  # more go side by side
        strip = next((a for a in reversed(kept) if _is_long(a, spec)), strip)
    apart = isinstance(fold, Scan) and strip and spec.between(strip)[1] <= FEW // 2 and calls(
        walk(roots_of(spec.stores)))
    meeting = operands_meet(fold) and strip is not None and spec.between(strip)[0] >= VECTOR
    if strip is None or apart or fold.merges and few.issuperset(over) and not meeting:
        return (*kept, *over)
    return (*(a for a in kept if a != strip), f"{strip}/", *over, strip)


def _ways(fold: Fold, spec: Specialized) -> tuple[list[str], list[str], str | None]:
    """The axes that a fold keeps, and folds over, as memory goes unless it minds; its strip."""
    loads = loads_of(fold, spec)
    memory = order_in_memory(loads, spec)
    axes = [*memory, *(a for a in spec.axes if a not in memory)]
    kept = [a for a in axes if a in fold.axes and a not in fold.over]
    over = [a for a in axes if a in fold.over] if fold.merges else list(fold.over)
    strip = _strip_axis(loads, spec.operands, kept, over)
    if fold.merges and operands_meet(fold):  # rows of one are read once for several of another
        strip = next((a for a in _lines_of_meeting(fold, spec) if a in kept), None)
    return kept, over, strip


def _lines_of_meeting(fold: Fold, spec: Specialized) -> list[str]:
    """Along which axes lie lines of what stores a fold of operands that meet, or is read for it.

    Not lines of stores that lie across those of operands.
    """
    own = [(v, line) for v in walk(fold.args, is_fold) if isinstance(v, Load)
           for line in line_of(v, spec)]
    lines = [a for s in spec.stores if fold in folds_below(roots_of([s]))
             for a in line_of(s, spec)
             if all(a == line or a not in v.axes for v, line in own)]
    return [*lines, *(line for _, line in own)]


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
        steps = {axis: abs(step) for axis, step in at.terms if at.divisor == 1}
        inner = min(steps, key=steps.__getitem__, default=None)
        return inner if inner in kept else None
    return None
