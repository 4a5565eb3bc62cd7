"""Folds: along rows, along outer axes, and of everything in chunks that other phases merge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .cost import HEAVY, calls, cost
from .early import elsewhere, ends_early, leave_early
from .folded_rows import (
    chunk_of,
    foreseen_late,
    lane_count,
    narrow_lanes,
    rows_at_once,
    share_lanes,
    singly,
)
from .leaves import target_of
from .merging import Merging
from .nest import (
    CHOICES,
    LANE_BYTES,
    LANES,
    PACK,
    ROWS,
    Assign,
    Blocks,
    Chunks,
    LaneLoop,
    Local,
    Loop,
    Statement,
    Write,
    bodies,
    updates,
)
from .nest_leaves import Element, LaneFold, Named
from .ops import OPS
from .order import few_axes
from .roots import Root, next_axis, remaining
from .scope import Scope
from .sharing import Segment
from .values import (
    BLOCK,
    CALLED,
    ORDERED,
    SHORT,
    VECTOR,
    At,
    Convert,
    First,
    Fold,
    Literal,
    Load,
    Op,
    Place,
    Position,
    Scan,
    Specialized,
    Value,
    is_fold,
    roots_of,
    walk,
)


class Folding(Merging):
    """What it takes to fold the loops of a level."""

    def __init__(self, spec: Specialized) -> None:
        super().__init__(spec)
        folds = [v for v in walk(roots_of(spec.stores)) if isinstance(v, Fold)]
        below = walk((f.arg for f in folds), is_fold)
        self.sought = {f.top for f in folds if isinstance(f, First)}
        sizes = [v.dtype.itemsize for v in (*folds, *below) if isinstance(v, (Fold, Load))]
        alike = max(sizes, default=1) < 8 * min(sizes, default=1)  # else gcc takes long to convert
        self.few_lanes = alike and (len(folds) > 1 or cost(below)) and all(
            f.program.exact and not isinstance(f, Place) for f in folds)

    def level(self, level_roots: Sequence[Root], bound: tuple[str, ...], scope: Scope) -> None:
        """Everything that `level_roots` do inside of the loops over `bound`."""
        raise NotImplementedError

    def keep_row(self, segment: Segment, later: Sequence[Segment], inner: tuple[str, ...],
                 scope: Scope) -> list[Value]:
        """Compute before an innermost loop what has a loop of its own."""
        raise NotImplementedError

    def forget(self, kept: Sequence[Value]) -> None:
        """Leave values to the turn of the loops around that kept them, if not for later phases."""
        shared = {b.name for b in self.kernel.buffers if b.shared}
        for value in kept:
            if self.planned[value].name not in shared:
                del self.planned[value]
                self.buffered.pop(value, None)

    def in_lanes(self, segment: Segment, merged: Sequence[Root], bound: tuple[str, ...]) -> bool:
        """Whether a folded axis, the last that is bound, is a row.

        It is one around folds of a few elements, too: the compiler unrolls their loops, but does
        not find the vectors along the axis around by itself.
        """
        left = [r for r in segment.roots if next_axis(r, bound)]
        if not left:
            return True
        few = few_axes(self.spec).issuperset(a for r in left for a in remaining(r, bound))
        folds = all(isinstance(r.of, Fold) and r not in merged for r in left)
        return few and folds

    def lanes(self, segment: Segment, merged: Sequence[Root], bound: tuple[str, ...],
              scope: Scope) -> None:
        """A row: the folds in `merged` in lanes, the others and the stores element by element."""
        axis = bound[-1]
        if isinstance(merged[0].of, First):
            for root in merged:
                self.search(root.fold, axis, scope)
            return
        counts = {r: lane_count(r, axis) for r in merged}
        sums = [*dict.fromkeys(counts[r] for r in merged if not r.fold.program.exact)]
        if len(sums) > 1:  # they are the same whatever goes with them, all else goes with the first
            for count in sums:
                own = [r for r in segment.roots if counts.get(r) == count or (
                    count == sums[0] and counts.get(r) not in sums)]
                self.lanes(replace(segment, roots=own), [r for r in own if r in counts], bound,
                           scope)
            return
        low, high = self.spec.between(axis)
        short = high <= BLOCK  # one block needs no tree
        few = VECTOR < low == high < SHORT and self.few_lanes
        last = not any(next_axis(r, bound) for r in segment.roots)
        if VECTOR <= low == high < SHORT and last and (not few or any(counts.values())):
            self.vectors(segment, bound, high, scope)
        folds = self.lane_folds(merged, short)
        lanes = VECTOR if few else sums[0] if sums else max(counts.values())
        loop = LaneLoop(axis, folds, [], lanes, low, high)
        inner = scope.inside(loop.body)
        for root, fold in zip(merged, folds, strict=True):
            fold.end_in_lanes = not any(isinstance(n, Scan) for n in root.needs)
            fold.lane = narrow_lanes(root.fold, lanes)
            loop.cut |= bool(fold.lane) and not short
            lane = Element(frozenset(), fold.lane or fold.dtype, f"{fold.name}_lane", at="lane")
            self.states[root.fold] = [lane]
        self.level(segment.roots, bound, inner)
        if updates([s for s in loop.body if bodies(s)]):  # the last lanes go twice
            for fold in folds:
                fold.end_in_lanes = False
        scope.body.append(loop)
        for root, fold in zip(merged, folds, strict=True):
            self.states[root.fold] = [Named(frozenset(), fold.dtype, fold.name)]

    def vectors(self, segment: Segment, bound: tuple[str, ...], length: int, scope: Scope) -> None:
        """Choose, or call functions, in vectors before a loop that folds a row too short for lanes.

        There it would be branches, if the row is stored, too; else gcc makes vectors of several
        rows.  If that writes what waits in outputs, only these come before.
        """
        def known(value: Value) -> bool:
            return scope.find(value) is not None

        axis, alone = bound[-1], singly(segment.roots, bound, self.spec)
        stored = any(axis in at.axes for s in self.spec.stores for at in s.access)
        choices = CHOICES if stored else ()
        inputs = [v for r in segment.roots if not isinstance(r.of, Scan) for v in r.inputs()]
        waiting = [v for v in walk(inputs, known) if v in self.kept]
        scope.rows([*dict.fromkeys(v for v in waiting or inputs if axis in v.axes and any(
            isinstance(w, Op) and (w.op.name in choices or alone and w.op.cost >= HEAVY)
            for w in walk([v], known)))], axis, length)

    def blocks(self, segment: Segment, merged: Sequence[Root], inner: tuple[str, ...],
               scope: Scope, strip: str | None) -> None:
        """An outer folded axis: every turn of the inner loops gives a partial state."""
        prefix = f"{inner[-1]}:"
        chunk = next((a.removeprefix(prefix) for a in inner if a.startswith(prefix)), "")  # rows
        laned = self.length == "ABREAST" and self.spec.between(inner[-1])[0] >= LANES
        short = chunk == str(ROWS) or laned  # one block needs no tree
        folds = self.lane_folds(merged, short)
        rows = merged, inner[-1], strip, self.spec
        run, foreseen = rows_at_once(*rows, whole=not chunk)
        loop = Blocks(inner[-1], folds, [], strip, foreseen_late(*rows), run=run, foreseen=foreseen)
        inside = scope.inside(loop.body)
        direct = strip is not None and all(next_axis(r, inner) == strip for r in merged)
        for root, fold in zip(merged, folds, strict=True):
            if root.by_rows:
                self.states[root.fold] = [self.row_state(root, fold, inner)]
            elif direct:  # the innermost loop over a strip adds to the block's partial states
                self.states[root.fold] = [Element(frozenset(), fold.dtype, fold.name, at=strip)]
            elif next_axis(root, inner) in (None, strip):  # a turn's part is a single element
                part = target_of(self.name("part"), fold.dtype, strip)
                self.declare([part], [fold.neutral], inside, strip)
                self.states[root.fold] = [part]
        if laned:
            loop.laned = tuple(f.name for r, f in zip(merged, folds, strict=True)
                               if not f.exact and not lane_count(r, inner[-1]))
        alone = direct and not short and len(merged) == len(segment.roots)
        alone &= self.length != "ABREAST"  # these are side by side already
        least, most = self.spec.between(inner[-1])
        called = calls(walk(v for r in merged for v in r.inputs()))
        if alone and strip and most >= (PACK if called else PACK * ROWS) and (
                width := self.narrow(merged, folds, strip)):
            loop.ordered = most < ORDERED and not all(f.exact for f in folds)
            self.pack(merged, loop, width, scope)
            for fold in folds:
                fold.tree &= chunk != str(PACK * ROWS)  # of more rows than are ordered
        elif direct and not chunk and 0 < least and most <= ROWS:
            for fold in folds:
                fold.tree = False  # there is one block
        self.level(segment.roots, inner, inside)
        parts = [self.states[root.fold] for root in merged]
        for root, fold in zip(merged, folds, strict=True):
            if not direct and not root.by_rows:
                fold.part = self.states[root.fold][0].name
            if not root.by_rows:
                self.states[root.fold] = [target_of(fold.name, fold.dtype, strip)]
        shared = share_lanes(loop, merged)
        if shared:
            self.states |= dict(zip((r.fold for r in merged), parts, strict=True))
        scope.body.append(shared or loop)

    def narrow(self, folded: Sequence[Root], folds: Sequence[LaneFold], strip: str) -> int:
        """The length of a strip that is too short for vectors; 0 if rows have to go one by one."""
        low, high = self.spec.between(strip)
        values = walk(v for r in folded for v in r.inputs())
        # every turn has an index of its own
        apart = any(isinstance(r.of, Place) or r.fold.program.index or r.fold.program.of_part
                    for r in folded)
        widest = max(f.dtype.itemsize for f in folds)  # states of PACK rows stay in registers
        few = max(2 * SHORT, LANE_BYTES // widest - 1) if all(f.idempotent for f in folds) else min(
            SHORT - 1, LANE_BYTES // widest)
        if high & (high - 1) and any(v.axes and strip not in v.axes for v in values):
            few = VECTOR // 2  # to copy what each row has one of takes longer
        most = 0 if apart else SHORT - 1 if cost(values) >= HEAVY else few
        called = max(4, *(v.dtype.itemsize for v in values))
        if not apart and calls(values) and (high * called) % LANE_BYTES:  # else vectors are filled
            most = max(most, CALLED // called)
        return high if low == high <= most else 0

    def pack(self, folded: Sequence[Root], loop: Blocks, width: int, scope: Scope) -> None:
        """Take several rows of a narrow strip side by side, so that vectors go along all.

        They have states of their own, or, if they are to be `ordered`, only what is folded is
        computed so, and then added to the strip's states row by row.
        """
        def leaf(value: Value) -> bool:
            of = value.arg if isinstance(value, Convert) else value
            plain = value not in self.kept and (not of.args or isinstance(of, (At, Load)))
            return plain or scope.find(value) is not None

        def row(value: Value, kind: str, where: list[Statement]) -> Element:
            name = inner.name(f"{kind.removesuffix('_v')}_rows")
            if where is loop.once:  # which stands outside of the loop
                scope.taken.add(name)
            where.append(Local(name, value.dtype, rows=width))
            return Element(value.axes, value.dtype, name, at="row")

        inner, loop.width = scope.inside(loop.packed), width
        indices: list[Element] = []
        rows: dict[Value, Element] = {}  # what is read of them row by row
        for value in walk([v for r in folded for v in r.inputs()], leaf):
            if leaf(value) and value.axes and not isinstance(scope.find(value), Named):
                of = value.arg if isinstance(value, Convert) else value
                index = isinstance(of, Position) and of.affine.axis == loop.axis
                where = loop.once if index or loop.axis not in value.axes else loop.copies
                kind = self.load_name(value) if isinstance(value, Load) else "v"
                copy = row(value, kind, where)
                where.append(Assign(copy, scope.inside(where).value(value)))
                inner.known[value] = packed = replace(copy, at="packed")
                if index:
                    indices.append(packed)
                else:
                    rows[value] = copy
            elif not leaf(value) and value in self.kept:
                store = self.kept[value]
                name = self.spec.operands[store.operand].name
                rows[value] = copy = row(value, name, loop.copies)
                inner.known[value] = inner.let(inner.value(value))
                inner.body.append(Assign(replace(copy, at="packed"), inner.known[value]))
                loop.back.append(Write(store.operand, store.access, copy, store.mode, None))
        before, adds = dict(self.states), inner
        values = inner.values([v for r in folded for v in r.inputs()])
        if loop.ordered:
            adds = scope.inside(loop.back)
            for value in (v for v in values if v.axes and v not in rows):
                rows[value] = copy = row(value, "v", loop.copies)
                inner.body.append(Assign(replace(copy, at="packed"), values[value]))
            values |= rows
        else:
            self.states |= {
                r.fold: [Element(frozenset(), f.dtype, f"{f.name}_rows", at="packed")]
                for r, f in zip(folded, loop.folds, strict=True)}
        for root in folded:
            self.update(root, adds, values)
        for place in indices:
            by = Literal(frozenset(), place.dtype, place.dtype.type(PACK))
            inner.body.append(Assign(place, Op(place.axes, place.dtype, OPS["add"], (place, by))))
        self.states = before

    def chunk(self, chunk: str, bound: tuple[str, ...]) -> Loop:
        """A loop over chunks, within the loops over `bound`."""
        axis, _, unit = chunk.partition(":")
        self.kernel.chunks[chunk] = Chunks(axis, int(unit))
        return Loop(chunk, "chunks", [], shared=not bound)

    def chunks(self, segment: Segment, bound: tuple[str, ...] = (), around: Scope | None = None
               ) -> Scope | None:
        """Folds in chunks: first those of each chunk, then their merger.

        Of few turns, each is a chunk.  What comes after may go on in the scope that it gives.  At
        the top, threads share the chunks; within the loops over `bound`, one has all of them.
        """
        assert segment.axis is not None
        axis, cut, _ = segment.axis.partition(":")
        folds = [r for r in segment.roots if axis in r.over]
        last = not cut and self.in_lanes(segment, folds, (axis,))
        soon = ends_early([r.fold for r in folds], axis)
        sought = not self.sought.isdisjoint(r.fold for r in folds)
        chunk = segment.axis if cut else chunk_of(axis, folds, last, soon or sought, self.spec)
        scope = around or self.phase(chunk)
        scope.hoist([v for r in segment.roots for v in r.inputs()], frozenset(bound), None)
        loop = Loop(chunk, "plain", [], shared=True) if chunk == axis else self.chunk(chunk, bound)
        inside = scope.inside(loop.body)
        if cut or chunk == axis:
            self.level(segment.roots, (*bound, chunk), inside)
        elif last:
            made = self.keep_row(segment, (), (chunk, axis), inside)
            self.lanes(segment, folds, (axis,), inside)
            self.forget(made)
        else:
            self.blocks(segment, folds, (chunk, axis), inside, None)
        for root in folds:
            if root.fold in self.states:
                self.finish_chunk(root, (*bound, chunk), inside, None)
        ends = {r.fold: self.parts[r.fold] for r in folds if r.fold in self.parts}
        scope.body.append(leave_early(
            loop, ends, elsewhere(ends, self.parts, inside.value)) if soon else loop)
        rest: Scope | None = None
        for kept in sorted({r.kept_in(bound): None for r in folds}, key=lambda k: not k):
            rest = self.merge([r for r in folds if r.kept_in(bound) == kept], chunk, kept, around)
        return rest
