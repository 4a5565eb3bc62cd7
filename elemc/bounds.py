"""What a kernel is told of the lengths of axes: between which of the marks that matter they lie."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import takewhile

import numpy as np

from . import quotients
from .accesses import (
    MANY_ROWS,
    line_of,
    memory_order,
    most_abreast,
    most_repeated,
    most_sliced,
    operands_meet,
    order_in_memory,
    read_again,
    records,
)
from .cost import (
    ALONE,
    DEAR,
    FAR_FORESEEN,
    FEW_STATES,
    FORESEEN,
    HELD,
    JAMMED,
    KEPT_ROWS,
    MEETING,
    PAGE,
    STREAM,
    calls,
    jams,
)
from .layout import STEPS
from .nest import LANE_BYTES, LANES, PACK, ROWS
from .places import COUNTS, ENOUGH, PLACED
from .refold import loads_of
from .values import (
    AGAIN,
    ASKED,
    BACK,
    BLOCK,
    CALLED,
    CHUNKED,
    DEEP,
    FAR_NARROW,
    FEW,
    FILLED,
    LINED,
    LONGEST,
    NARROW,
    ORDERED,
    SELECT,
    SHORT,
    SLICES,
    SUMMED,
    VECTOR,
    Access,
    Fold,
    Load,
    Op,
    Specialized,
    Value,
    is_fold,
    roots_of,
    walk,
)

Bounds = dict[int, tuple[int, int]]

LINE = 64  # bytes of a vector


def bounds_of_rows(spec: Specialized, sizes: Sequence[int]) -> Bounds:
    """What is worth knowing of extents that are now `sizes`: the least and most they may be."""
    marks = _Marks(spec, sizes)
    marks.of_places()
    marks.of_planes()
    if len(spec.axes) > 1 and all(sizes[e] for every in spec.axes.values() for e in every):
        for operand, access in marks.accesses:
            marks.of_row(operand, access)
        marks.of_repeated()
        marks.of_records()
        marks.of_few()
        marks.of_rows_abreast()
        marks.of_meeting_rows()
        marks.of_what_is_dear()
        marks.of_chunks()
    elif len(spec.axes) == 1:
        marks.of_shared_divisors()
    return marks.found


class _Marks:
    """The rules, each of which bounds extents by the marks that matter to it."""

    def __init__(self, spec: Specialized, sizes: Sequence[int]) -> None:
        self.spec, self.sizes = spec, sizes
        self.found: Bounds = {}
        self.values = values = walk(roots_of(spec.stores))
        self.folds = [v for v in values if isinstance(v, Fold)]
        self.places = {a for v in self.folds if v.program.place_of for a in v.over}
        self.folded = {a for v in self.folds for a in v.over}
        stores = [(s.operand, s.access) for s in spec.stores]
        self.accesses = stores + [(v.operand, v.access) for v in values if isinstance(v, Load)]
        self.written = {a for s in spec.stores for a in line_of(s, spec)}
        self.few = _most_unrolled(values, [spec.operands[k].dtype.itemsize
                                           for k, _ in self.accesses])

    def meet(self, extent: int, marks: Iterable[int]) -> None:
        """Let an extent lie between its marks, too."""
        _meet(self.found, extent, _between(marks, self.sizes[extent]))

    def longest(self, axis: str) -> int:
        """The extent of an axis that is longest."""
        return max(self.spec.axes[axis], key=self.sizes.__getitem__)

    def of_places(self) -> None:
        """Places of extrema are counted in `COUNTS` if they are few."""
        for axis in self.places:
            extent = self.longest(axis)
            self.found[extent] = _between([0, *(np.iinfo(d).max for d in COUNTS)],
                                          self.sizes[extent])

    def of_planes(self) -> None:
        """One plane of interleaved ones: its elements are as far apart as there are planes.

        Of those that are as far apart as the longest vectors, single ones are taken sooner.
        """
        for number, access in self.accesses:
            operand = self.spec.operands[number]
            layout, perm = operand.layout, operand.layout.perm[::-1]
            count = next((k for k, dim in enumerate(perm) if access[dim].axes), 0)
            planes = [operand.extents[dim] for dim in perm[:count]]
            step = math.prod(self.sizes[e] for e in planes)
            near = step > 1 and step in STEPS and step * operand.dtype.itemsize < LANE_BYTES
            if near and layout.unit and all(layout.packed[::-1][:count]):
                self.found |= {e: (self.sizes[e], self.sizes[e]) for e in planes}

    def of_row(self, operand: int, access: Access) -> None:
        """Rows that an operand has in memory.

        Those of at most `SHORT` elements, and more of narrow ones, are loops that the compiler
        unrolls, if it knows how long they are; folds of at most `BLOCK` elements need no tree, and
        at most `NARROW` columns are folded in chunks of rows.
        """
        for dim in reversed(self.spec.operands[operand].layout.perm):
            axes = [a for a in access[dim].axes if a in self.spec.axes]
            every = [e for a in axes for e in self.spec.axes[a]]
            few = SHORT if self.places.issuperset(axes) else self.few
            if self.folded.isdisjoint(axes) and calls(self.values):
                size = max(4, self.spec.operands[operand].dtype.itemsize)
                few = self.of_called_rows(axes, math.prod(self.sizes[e] for e in every), size, few)
            long = [e for e in every if self.sizes[e] > few]
            exact = {e: (self.sizes[e], self.sizes[e]) for e in every if e not in long}
            if not long:
                self.found |= exact
                continue
            most = 0 if len(long) > 1 else BLOCK if self.folded.issuperset(axes) else (
                (FAR_NARROW if self.spec.far else NARROW) if self.folded else 0)
            joined = math.prod(n for n, _ in exact.values())  # with the long one to a row
            most //= joined
            if self.sizes[long[0]] <= most:
                self.found |= exact
            more = [m // joined for m in self.of_long_row(operand, axes[0])] if (
                len(long) == 1) else []
            places = [ENOUGH - 1, 2 * SHORT - 1, PLACED] if self.places else []
            self.meet(long[0], [few, most, *places, *more])
            for e in every:
                self.found.setdefault(e, (few + 1 if e in long else 1, LONGEST))
            break

    def of_called_rows(self, axes: Sequence[str], columns: int, size: int, few: int) -> int:
        """Bound the rows of columns for which functions are called; how many columns are few, then.

        `PACK` rows or more of up to `CALLED` bytes go side by side, less than `ORDERED` of them in
        order.  Of rows that fill no vector, vectors may go along an axis around, of `SHORT` indices
        or more, which is bounded, too.
        """
        if columns > CALLED // size:
            return few
        rows = [self.longest(a) for a in self.folded]
        for extent in rows:
            self.meet(extent, [0, PACK - 1, ORDERED - 1])
        if columns * size < LANE_BYTES:
            for axis in self.spec.axes.keys() - self.folded.union(axes):
                self.meet(self.longest(axis), [0, SHORT - 1])
        return CALLED // size if max(map(self.sizes.__getitem__, rows), default=0) >= PACK else few

    def of_long_row(self, operand: int, axis: str) -> list[int]:
        """The marks of a row of one long extent.

        Rows that are written are worth more if they have `LINED` elements, or if what they share is
        not repeated, rows of several folds if they have `JAMMED`, rows that come from memory if
        they have `SUMMED` or `ASKED`, or `STREAM` bytes, extrema of floats if they have less,
        others that several loops read, if the first cache has them, those that are folded side by
        side if they have `ALONE`, `FORESEEN`, `FAR_FORESEEN`, `STREAM` or `FEW_STATES` bytes, and
        those that go back in memory if they have more than `BACK`.  Rows of extrema that are folded
        together have as many lanes as elements, of 16, 32 and 64.  Of lines that maps read across,
        threads share the elements if there are less than `LINED`.  Rows lie side by side if they
        have less than `most_abreast`, but not if they fill lanes.
        """
        far, along = self.spec.far, [v for v in self.folds if axis in v.over]
        size = self.spec.operands[operand].dtype.itemsize
        marks = [JAMMED - 1] if jams(axis, self.folds) and not far else []
        if axis in self.written:
            marks += [LINED - 1, most_repeated(self.spec.operands)]
        elif not self.folded:
            marks.append(LINED - 1)
        if self.spec.large and axis in self.written:
            loads = (v for v in self.values if isinstance(v, Load))
            again = read_again(loads, axis, self.spec.operands)
            marks += [FILLED // sum(v.dtype.itemsize for v in again)] if again else []
        kept = not along or any(axis in v.axes for v in self.folds)
        if self.folded and kept and (far or self.spec.third):
            step = abs(self.spec.operands[operand].layout.step) or 1
            marks += [ALONE // size - 1, ALONE // (size * step) - 1, NARROW] + (
                [FORESEEN // size - 1, *(n // size for n in (FAR_FORESEEN, STREAM, FEW_STATES))]
                if far else [])
        if along and far:
            marks += [SUMMED - 1, STREAM // size - 1]
        if self.spec.large and self.spec.operands[operand].layout.step == -1:
            marks.append(BACK // size)
        if any(f.program.exact and f.dtype.kind == "f" for f in along):
            marks.append(ASKED - 1)
        if any(f.program.exact and len(f.over) > 1 for f in along):
            marks += [2 * SHORT - 1, 4 * SHORT - 1]
        if along and calls(self.values):
            marks.append(LINED - 1)
        if along and (axis in self.written or calls(self.values)):
            marks += [LANES - 1, LANES, most_abreast(axis, self.spec) - 1]
        several = len(along) + (axis in self.written) > 1
        if along and far and several:
            marks.append(ASKED - 1)
        elif along and not far and (several or self.spec.third) and not calls(self.values):
            marks += [LINED - 1, HELD]
        return marks

    def of_shared_divisors(self) -> None:
        """What all elements are divided by, or integers are, minds whether there are `LINED`."""
        [(axis, every)] = self.spec.axes.items()
        divides = any(quotients.divides(v) and not v.args[1].axes or quotients.divides_whole(v)
                      for v in self.values)
        if divides and all(self.sizes[e] for e in every):
            self.found |= dict.fromkeys(every, (1, LONGEST))
            self.meet(self.longest(axis), [0, LINED - 1])

    def of_repeated(self) -> None:
        """What short rows share is repeated if there are `MANY_ROWS`, or divided, if more."""
        one = any(quotients.divides(v) and not v.args[1].axes for v in self.values)
        for store in self.spec.stores:
            order = memory_order(store, self.spec)
            if len(order) < 2:
                continue
            rows, row = order[-2:]
            length = math.prod(self.sizes[e] for e in self.spec.axes[row])
            if length <= most_repeated(self.spec.operands):
                self.meet(self.longest(rows), [
                    0, MANY_ROWS - 1, *([quotients.MANY - 1] if one else [])])
                for e in self.spec.axes[rows]:
                    self.found.setdefault(e, (1, LONGEST))

    def of_records(self) -> None:
        """What stores read in records across their lines minds whether these are short."""
        for store in self.spec.stores:
            order = memory_order(store, self.spec)
            for axis in {a for _, record in records(self.spec, order) for a in record}:
                self.meet(self.longest(axis), [0, FEW // 2, SHORT, 2 * SHORT, LINED - 1])

    def of_few(self) -> None:
        """Folds of at most `FEW` elements are unrolled, and have kernels of their own.

        So have those of more than `MEETING` lines that are whole pages.
        """
        for fold in (f for f in self.folds if f.program.lanes):
            every = [e for a in fold.over for e in self.spec.axes[a]]
            longest = max(every, key=self.sizes.__getitem__)
            few = math.prod(self.sizes[e] for e in every)
            if few <= FEW:
                every += self.of_pages() if few > MEETING else []
                self.found |= {e: (self.sizes[e], self.sizes[e]) for e in every}
            elif self.sizes[longest] > FEW:
                self.meet(longest, [FEW])

    def of_pages(self) -> list[int]:
        """The extents of lines that are written, and are whole pages."""
        lines = {a: self.spec.operands[s.operand].dtype.itemsize
                 for s in self.spec.stores for a in line_of(s, self.spec)}
        return [e for a, size in lines.items() for e in self.spec.axes[a]
                if math.prod(self.sizes[e] for e in self.spec.axes[a]) * size % PAGE == 0]

    def of_rows_abreast(self) -> None:
        """What cannot be merged minds whether there are `VECTOR` rows to go side by side."""
        for fold in (f for f in self.folds if not f.merges):
            for extents in (self.spec.axes[a] for a in fold.arg.axes.difference(fold.over)):
                long = [e for e in extents if self.sizes[e] >= VECTOR][:1]
                for e in extents:
                    self.found.setdefault(e, (VECTOR, LONGEST) if e in long else
                                          (1, LONGEST if long else VECTOR - 1))

    def of_meeting_rows(self) -> None:
        """Rows of operands that meet in a fold lie side by side if they have up to `NARROW`.

        What such a fold gives others, or takes of them, waits for all rows, if these are few.
        """
        below = {f: {v for v in walk(f.args, is_fold) if isinstance(v, Fold)} for f in self.folds}
        given = {v for every in below.values() for v in every}
        for fold in (f for f in self.folds if len(f.over) == 1 < len(f.axes) and operands_meet(f)):
            self.meet(self.longest(*fold.over), [0, NARROW])
            for axis in fold.axes.union(fold.over) if below[fold] or fold in given else ():
                for e in self.spec.axes[axis]:
                    self.meet(e, [0, KEPT_ROWS])

    def of_what_is_dear(self) -> None:
        """What does not change along an axis minds whether that has `AGAIN` indices."""
        dear = {v.axes for v in self.values if isinstance(v, Op) and v.axes and v.op.cost >= DEAR}
        dear |= {v.args[1].axes for v in self.values if quotients.divides(v) and v.args[1].axes}
        for axis in {a for axes in dear for a in self.spec.axes.keys() - axes}:
            self.meet(self.longest(axis), [0, AGAIN - 1])

    def of_chunks(self) -> None:
        """Many rows are folded in chunks; of several extents, half of each but one is enough."""
        for axis, mark in (m for v in self.folds if v.merges
                           for m in _marks_of_chunks(v, self.spec, self.sizes)):
            *rest, longest = sorted(self.spec.axes[axis], key=self.sizes.__getitem__)
            for e in rest:
                least = 1 << self.sizes[e].bit_length() - 1
                mark //= least
                _meet(self.found, e, (least, LONGEST))
            self.meet(longest, [0, mark])


def _most_unrolled(values: Sequence[Value], sizes: Iterable[int]) -> int:
    """Elements of a row that is unrolled, at most; `sizes` are those of its elements, in bytes.

    Rows of maps end with what fills no vector of the narrowest element, one by one, unless there
    are choices or calls: of less than two of these vectors, that is most of the work.
    """
    ends = any(isinstance(v, Fold) or isinstance(v, Op) and v.op is SELECT for v in values)
    folds, narrowest = [v for v in values if isinstance(v, Fold)], min(sizes, default=LINE)
    if any(v.program.place_of for v in folds):
        return 2 * SHORT  # where columns are that narrow, several rows are taken together
    if folds and all(v.program.exact for v in folds):
        return max(SHORT, LINE // narrowest - 1)
    return SHORT if ends or calls(values) else max(SHORT, min(2 * LINE // narrowest, LINE) - 1)


def _marks_of_chunks(fold: Fold, spec: Specialized, sizes: Sequence[int]) -> list[tuple[str, int]]:
    """Axes on whose lengths it depends whether a fold goes in chunks, and the mark of each.

    `CHUNKED` rows of at most `NARROW` elements do, `SHORT` if functions of rows are called, if
    there are at most `SLICES` of each for folds that wait; of fewer, if nothing is kept, each is
    one.  `DEEP` rows of slices may be folded by rows, and within these what rounds if it is `FEW`.
    """
    def length(axis: str) -> int:
        return math.prod(sizes[e] for e in spec.axes[axis])

    loads = loads_of(fold, spec)
    memory = order_in_memory(loads, spec)
    outer = [*takewhile(fold.axes.__contains__, memory)]
    around, *inner = memory[len(outer):] or [""]
    *slices, row = [a for a in inner if a in fold.axes] or [""]
    if around not in fold.over or not inner:
        return []
    by_rows = [(row, most_sliced(loads)), *((a, SLICES) for a in slices)] if slices else []
    if outer:
        return [*by_rows, (around, SHORT), (around, ROWS)] if slices else []
    if not row:  # few turns are folded apart
        return [(a, CHUNKED[False] - 1) for a in fold.over]
    waits = any(isinstance(v, Fold) for v in walk(fold.args))
    marks = [(row, FAR_NARROW if spec.far else NARROW), *((a, SLICES) for a in slices if waits)]
    if all(length(a) <= most for a, most in marks):
        marks.append((around, CHUNKED[length(row) < SHORT] - 1))
        marks += [(around, SHORT - 1)] if waits and calls(walk(fold.args)) else []
    if slices:
        marks += [*by_rows, (around, SHORT), (around, ROWS), (around, DEEP - 1)]
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
