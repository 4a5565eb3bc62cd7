"""What a kernel is told of the lengths of axes: between which of the marks that matter they lie."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from .cost import DEAR, FORESEEN, HELD, JAMMED, calls, jams
from .quotients import LEAST, divides
from .refold import COUNTS, loads_of, memory_order, order_in_memory
from .values import (
    AGAIN,
    ASKED,
    BLOCK,
    CHUNKED,
    DEEP,
    FEW,
    LINED,
    LONGEST,
    NARROW,
    PLACED,
    SELECT,
    SHORT,
    SLICES,
    VECTOR,
    Fold,
    Load,
    Op,
    Specialized,
    Value,
    roots_of,
    walk,
)

Bounds = dict[int, tuple[int, int]]

LINE = 64  # bytes of a vector


def bounds_of_rows(spec: Specialized, sizes: Sequence[int]) -> Bounds:
    """What is worth knowing of extents that are now `sizes`: the least and most they may be.

    Rows of at most `SHORT` elements, and more of narrow ones, are loops that the compiler unrolls,
    if it knows how long they are, and so are folds of at most `FEW`; folds of rows of at most
    `BLOCK` elements need no tree; `CHUNKED` rows of at most `NARROW` elements are folded in chunks,
    if there are at most `SLICES` of each for folds that wait, and of fewer, if nothing is kept,
    each is one; `DEEP` rows of slices may be folded by rows. Rows that are written are worth more
    if they have `LINED` elements, rows that are divided if they have as many as `LEAST`, rows of
    several folds if they have `JAMMED`, rows that come from memory if they have `ASKED`, and others
    that several loops read, if the first cache has them, those that are folded side by side if they
    have `FORESEEN` bytes. Places
    of extrema are found with those of other rows if each has at most `PLACED` elements, and are
    counted in `COUNTS` if they are few. What cannot be merged minds whether there are `VECTOR`
    rows, and what is dear and does not change along an axis, whether that has `AGAIN` indices.
    """
    found: Bounds = {}
    values = walk(roots_of(spec.stores))
    folds = [v for v in values if isinstance(v, Fold)]
    places = {a for v in folds if v.program.place_of for a in v.over}
    folded = {a for v in folds for a in v.over}
    accesses = [(s.operand, s.access) for s in spec.stores]
    quotients = {LEAST[v.dtype.itemsize] - 1 for v in values if divides(v)} if folded else {
        mark for v in values if divides(v) and v.dtype.itemsize == 8
        and v.args[1].axes and v.args[1].axes < v.axes for mark in (LEAST[8] - 1, BLOCK)}
    written = {a for k, at in accesses for a in memory_order(at, spec.operands[k])[-1:]}
    accesses += [(v.operand, v.access) for v in values if isinstance(v, Load)]
    for axis in places:
        longest = max(spec.axes[axis], key=sizes.__getitem__)
        found[longest] = _between([0, *(np.iinfo(d).max for d in COUNTS)], sizes[longest])
    if len(spec.axes) < 2 or any(sizes[e] == 0 for every in spec.axes.values() for e in every):
        return found
    short = _most_unrolled(values, [spec.operands[k].dtype.itemsize for k, _ in accesses])
    for operand, access in accesses:
        for dim in reversed(spec.operands[operand].layout.perm):
            axes = [a for a in access[dim].axes if a in spec.axes]
            every = [e for a in axes for e in spec.axes[a]]
            few = SHORT if places.issuperset(axes) else short
            long = [e for e in every if sizes[e] > few]
            exact = {e: (sizes[e], sizes[e]) for e in every if e not in long}
            if not long:
                found |= exact
                continue
            most = 0 if len(long) > 1 else BLOCK if folded.issuperset(axes) else (
                NARROW if folded else 0)
            most //= math.prod(n for n, _ in exact.values())
            if sizes[long[0]] <= most:
                found |= exact
            edges = [few, most, *([PLACED] if places else [])]
            if len(long) == 1 and jams(axes[0], folds) and not spec.far:
                edges.append(JAMMED - 1)
            if len(long) == 1 and axes[0] in written:
                edges += [LINED - 1, *quotients]
            if len(long) == 1 and spec.far and folded.isdisjoint(axes) and folded:
                edges.append(FORESEEN // spec.operands[operand].dtype.itemsize)
            along = [v for v in folds if axes[0] in v.over]
            if len(long) == 1 and along and len(along) + (axes[0] in written) > 1:
                edges += [ASKED - 1] if spec.far else [] if calls(values) else [LINED - 1, HELD]
            _meet(found, long[0], _between(edges, sizes[long[0]]))
            for e in every:
                found.setdefault(e, (few + 1 if e in long else 1, LONGEST))
            break
    for value in values:
        if isinstance(value, Fold) and value.program.lanes:
            every = [e for a in value.over for e in spec.axes[a]]
            if math.prod(sizes[e] for e in every) <= FEW:
                found |= {e: (sizes[e], sizes[e]) for e in every}
        if isinstance(value, Fold) and not value.merges:  # a few rows do not go abreast
            for extents in (spec.axes[a] for a in value.arg.axes.difference(value.over)):
                long = [e for e in extents if sizes[e] >= VECTOR][:1]
                for e in extents:
                    found.setdefault(e, (VECTOR, LONGEST) if e in long else
                                     (1, LONGEST if long else VECTOR - 1))
    dear = {v.axes for v in values if isinstance(v, Op) and v.axes and v.op.cost >= DEAR}
    for axis in {a for axes in dear for a in spec.axes.keys() - axes}:
        longest = max(spec.axes[axis], key=sizes.__getitem__)
        _meet(found, longest, _between([0, AGAIN - 1], sizes[longest]))
    for axis, mark in (m for v in values if isinstance(v, Fold) and v.merges
                       for m in _marks_of_chunks(v, spec, sizes)):
        *rest, longest = sorted(spec.axes[axis], key=sizes.__getitem__)
        for e in rest:  # half of it is enough
            least = 1 << sizes[e].bit_length() - 1
            mark //= least
            _meet(found, e, (least, LONGEST))
        _meet(found, longest, _between([0, mark], sizes[longest]))
    return found


def _most_unrolled(values: Sequence[Value], sizes: Iterable[int]) -> int:
    """Elements of a row that is unrolled, at most; `sizes` are those of its elements, in bytes.

    Rows of maps end with what fills no vector of the narrowest element, one by one, unless there
    are choices or calls: of less than two of these vectors, that is most of the work.
    """
    ends = any(isinstance(v, Fold) or isinstance(v, Op) and v.op is SELECT for v in values)
    if any(isinstance(v, Fold) and v.program.place_of for v in values):
        return 2 * SHORT  # where columns are that narrow, several rows are taken together
    return SHORT if ends or calls(values) else max(SHORT, min(2 * LINE // min(sizes), LINE) - 1)


def _marks_of_chunks(fold: Fold, spec: Specialized, sizes: Sequence[int]) -> list[tuple[str, int]]:
    """Axes on whose lengths it depends whether a fold goes in chunks, and the mark of each."""
    def length(axis: str) -> int:
        return math.prod(sizes[e] for e in spec.axes[axis])

    around, *inner = order_in_memory(loads_of(fold, spec), spec.operands) or [""]
    *slices, row = [a for a in inner if a in fold.axes] or [""]
    if around not in fold.over or not inner:
        return []
    if not row:  # few turns are folded apart
        return [(a, CHUNKED[False] - 1) for a in fold.over]
    waits = any(isinstance(v, Fold) for v in walk(fold.args))
    marks = [(row, NARROW), *((a, SLICES) for a in slices if waits)]
    if all(length(a) <= most for a, most in marks):
        marks.append((around, CHUNKED[length(row) < SHORT] - 1))
    if slices:
        marks.append((around, DEEP - 1))
        marks += [(a, FEW) for a in inner if a in fold.over and not fold.program.exact]
    return marks


def _between(marks: Iterable[int], length: int) -> tuple[int, int]:
    """Between which marks a length lies: the least and the most that it may be."""
    marks = [*marks]
    return (max(m for m in marks if m < length) + 1,
            min((m for m in marks if m >= length), default=LONGEST))


def _meet(found: Bounds, extent: int, bounds: tuple[int, int]) -> None:
    """Let an extent lie between these bounds, too."""
    low, high = found.get(extent, bounds)
    found[extent] = max(low, bounds[0]), min(high, bounds[1])
