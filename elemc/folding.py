"""Folds: along rows, along outer axes, and of everything in chunks that other phases merge."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from .cost import HEAVY, cost
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
from .leaves import Leaves, target_of
from .nest import (
    CHOICES,
    LANE_BYTES,
    PACK,
    ROWS,
    Assign,
    Blocks,
    Buffer,
    Chunks,
    Element,
    LaneFold,
    LaneLoop,
    Let,
    Local,
    Loop,
    Named,
    Phase,
    Statement,
    Write,
    lane_folds,
)
from .ops import OPS
from .order import few_axes
from .programs import inline
from .roots import Root, next_axis, remaining
from .scope import Scope
from .sharing import Segment
from .values import (
    BLOCK,
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
    Store,
    Value,
    is_fold,
    roots_of,
    walk,
)


class Folding(Leaves):
    """What it takes to fold the loops of a level."""

    def __init__(self, spec: Specialized) -> None:
        super().__init__(spec)
        self.waiting: dict[Store | Fold, list[Value]] = {}  # what is written after a fold
        self.parts: dict[Fold, Element] = {}  # what chunks give
        self.length = "STRIP"  # of the strips around
        self.given: tuple[Value, bool] | None = None  # the side of a choice that phases are on
        folds = [v for v in walk(roots_of(spec.stores)) if isinstance(v, Fold)]
        below = walk((f.arg for f in folds), is_fold)
        self.sought = {f.top for f in folds if isinstance(f, First)}
        self.few_lanes = (len(folds) > 1 or cost(below)) and all(
            f.program.exact and not isinstance(f, Place) for f in folds)

    def level(self, level_roots: Sequence[Root], bound: tuple[str, ...], scope: Scope) -> None:
        """Everything that `level_roots` do inside of the loops over `bound`."""
        raise NotImplementedError

    def phase(self, axis: str | None) -> Scope:
        """The scope of a new phase."""
        scope = Scope(self.name, self.buffered, self.load_name)
        self.kernel.phases.append(Phase(axis, scope.body))
        return scope.side(*self.given) if self.given else scope

    def plan(self, value: Value, over: Collection[str], shared: bool,
             strip: str | None = None) -> None:
        """Give a value a buffer over these axes, and a strip of another one."""
        axes = tuple(a for a in self.kernel.axes if a in over)
        self.planned[value] = replace(self.buffer("buffer", value.dtype, axes, shared, strip),
                                      axes=value.axes)

    def lane_folds(self, folded: Sequence[Root], short: bool = False) -> list[LaneFold]:
        """How the template folds these, under fresh names."""
        folds = [r.fold for r in folded]
        return lane_folds(folds, [self.name(f.program.name) for f in folds], short)

    def in_lanes(self, segment: Segment, merged: Sequence[Root], bound: tuple[str, ...]) -> bool:
        """Whether a folded axis, the last that is bound, is a row.

        It is one around extrema of a few elements, too: the compiler unrolls their loops, but does
        not find the vectors along the axis around by itself.
        """
        left = [r for r in segment.roots if next_axis(r, bound)]
        if not left:
            return True
        few = few_axes(self.spec).issuperset(a for r in left for a in remaining(r, bound))
        folds = all(isinstance(r.of, Fold) and r not in merged for r in left)
        return few and folds and all(r.fold.program.exact for r in merged)

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
        scope.body.append(loop)
        for root, fold in zip(merged, folds, strict=True):
            self.states[root.fold] = [Named(frozenset(), fold.dtype, fold.name)]

    def vectors(self, segment: Segment, bound: tuple[str, ...], length: int, scope: Scope) -> None:
        """Choose, or call functions, in vectors before a loop that folds a row too short for lanes.

        There it would be branches.  If that writes what waits in outputs, only these come before.
        """
        def known(value: Value) -> bool:
            return scope.find(value) is not None

        axis, alone = bound[-1], singly(segment.roots, bound, self.spec)
        inputs = [v for r in segment.roots if not isinstance(r.of, Scan) for v in r.inputs()]
        waiting = [v for v in walk(inputs, known) if v in self.kept]
        scope.rows([*dict.fromkeys(v for v in waiting or inputs if axis in v.axes and any(
            isinstance(w, Op) and (w.op.name in CHOICES or alone and w.op.cost >= HEAVY)
            for w in walk([v], known)))], axis, length)

    def blocks(self, segment: Segment, merged: Sequence[Root], inner: tuple[str, ...],
               scope: Scope, strip: str | None) -> None:
        """An outer folded axis: every turn of the inner loops gives a partial state."""
        chunk = inner[0].removeprefix(f"{inner[-1]}:")  # its number of rows, if there are chunks
        short = chunk == str(ROWS)  # one block needs no tree
        folds = self.lane_folds(merged, short)
        rows = merged, inner[-1], strip, self.spec
        loop = Blocks(inner[-1], folds, [], strip, foreseen_late(*rows), run=rows_at_once(*rows))
        inside = scope.inside(loop.body)
        direct = strip is not None and all(next_axis(r, inner) == strip for r in merged)
        for root, fold in zip(merged, folds, strict=True):
            if root.by_rows:
                self.states[root.fold] = [self.row_state(root, fold, inner[-1])]
            elif direct:  # the innermost loop over a strip adds to the block's partial states
                self.states[root.fold] = [Element(frozenset(), fold.dtype, fold.name, at=strip)]
            elif next_axis(root, inner) in (None, strip):  # a turn's part is a single element
                part = target_of(self.name("part"), fold.dtype, strip)
                self.declare([part], [fold.neutral], inside, strip)
                self.states[root.fold] = [part]
        alone = direct and not short and len(merged) == len(segment.roots)
        if alone and strip and self.spec.between(inner[-1])[1] >= PACK * ROWS and (
                width := self.narrow(merged, folds, strip)):
            self.pack(merged, loop, width, scope)
            for fold in folds:
                fold.tree &= chunk != str(PACK * ROWS)
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
        most = 0 if apart else SHORT - 1 if cost(values) >= HEAVY else few
        return high if low == high <= most else 0

    def pack(self, folded: Sequence[Root], loop: Blocks, width: int, scope: Scope) -> None:
        """Take several rows of a narrow strip side by side, so that vectors go along all."""
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
        for value in walk([v for r in folded for v in r.inputs()], leaf):
            if leaf(value) and value.axes and not isinstance(scope.find(value), Named):
                of = value.arg if isinstance(value, Convert) else value
                index = isinstance(of, Position) and of.affine.axis == loop.axis
                where = loop.once if index or loop.axis not in value.axes else loop.copies
                kind = self.load_name(value) if isinstance(value, Load) else "v"
                copy = row(value, kind, where)
                where.append(Assign(copy, scope.inside(where).value(value)))
                inner.known[value] = packed = replace(copy, at="packed")
                indices += [packed] if index else []
            elif not leaf(value) and value in self.kept:
                store = self.kept[value]
                copy = row(value, self.spec.operands[store.operand].name, loop.copies)
                inner.known[value] = inner.let(inner.value(value))
                inner.body.append(Assign(replace(copy, at="packed"), inner.known[value]))
                loop.back.append(Write(store.operand, store.access, copy, store.mode, None))
        before = dict(self.states)
        for root, fold in zip(folded, loop.folds, strict=True):
            self.states[root.fold] = [
                Element(frozenset(), fold.dtype, f"{fold.name}_rows", at="packed")]
        values = inner.values([v for r in folded for v in r.inputs()])
        for root in folded:
            self.update(root, inner, values)
        for place in indices:
            by = Literal(frozenset(), place.dtype, place.dtype.type(PACK))
            inner.body.append(Assign(place, Op(place.axes, place.dtype, OPS["add"], (place, by))))
        self.states = before

    def chunks(self, segment: Segment) -> Scope | None:
        """Folds in chunks: first those of each chunk, then their merger.

        Of few turns, each is a chunk.  What comes after may go on in the scope that it gives.
        """
        assert segment.axis is not None
        axis, cut, _ = segment.axis.partition(":")
        folds = [r for r in segment.roots if axis in r.over]
        last = not cut and self.in_lanes(segment, folds, (axis,))
        soon = ends_early([r.fold for r in folds], axis)
        sought = not self.sought.isdisjoint(r.fold for r in folds)
        chunk = segment.axis if cut else chunk_of(axis, folds, last, soon or sought, self.spec)
        if chunk != axis:
            self.kernel.chunks[chunk] = Chunks(axis, int(chunk.partition(":")[2]))
        scope = self.phase(chunk)
        scope.hoist([v for r in segment.roots for v in r.inputs()], frozenset(), None)
        loop = Loop(chunk, "parallel" if chunk == axis else "chunks", [])
        inside = scope.inside(loop.body)
        if cut or chunk == axis:
            self.level(segment.roots, (chunk,), inside)
        elif last:
            self.lanes(segment, folds, (axis,), inside)
        else:
            self.blocks(segment, folds, (chunk, axis), inside, None)
        for root in folds:
            if root.fold in self.states:
                self.finish_chunk(root, chunk, inside, None)
        ends = {r.fold: self.parts[r.fold] for r in folds if r.fold in self.parts}
        scope.body.append(leave_early(
            loop, ends, elsewhere(ends, self.parts, inside.value)) if soon else loop)
        rest: Scope | None = None
        for kept in sorted({r.kept: None for r in folds}, key=lambda k: not k):
            rest = self.merge([r for r in folds if r.kept == kept], chunk, kept)
        return rest

    def finish_chunk(self, root: Root, chunk: str, scope: Scope, strip: str | None) -> None:
        """After the loops over a chunk: what they give; those by rows are in place already."""
        [state] = self.states.pop(root.fold)
        if not root.by_rows:
            part = self.parts[root.fold] = self.buffer("parts", state.dtype, (chunk, *root.kept))
            store = Assign(part, state)
            scope.body.append(Loop(strip, "lane", [store], independent=True) if strip else store)

    def merge(self, folds: Sequence[Root], chunk: str, kept: tuple[str, ...]) -> Scope | None:
        """The folds of the parts of all chunks, for what is kept; its scope, if that is one state.

        Of the axes that are kept, the last one goes in strips.
        """
        strip = kept[-1] if kept else None
        entered = [*kept[:-1], *(f"{a}/" for a in kept[-1:])]
        scope = whole = self.phase(next(iter(entered), None))
        for axis in entered:
            kind = "strip" if axis.endswith("/") else "serial"
            around = Loop(axis.rstrip("/"), kind, [])
            if axis == entered[0]:
                around.kind = "parallel strip" if kind == "strip" else "parallel"
            scope.body.append(around)
            scope = scope.inside(around.body)
        merged = self.lane_folds(folds)
        loop = Blocks(chunk, merged, [], strip)
        scope.body.append(loop)
        for root, fold in zip(folds, merged, strict=True):
            part = target_of(self.name("part"), fold.dtype, strip)
            fold.part = part.name
            if strip is None:
                loop.body.append(Let(part.name, self.parts[root.fold]))
            else:
                loop.body += [
                    Local(part.name, part.dtype, True),
                    Loop(strip, "lane", [Assign(part, self.parts[root.fold])], independent=True)]
            self.states[root.fold] = [target_of(fold.name, fold.dtype, strip)]
        for root in folds:
            self.finish(root, (), scope, strip)
        return None if kept else whole

    def buffer(self, kind: str, dtype: np.dtype, axes: tuple[str, ...], shared: bool = True,
               strip: str | None = None, length: str = "") -> Element:
        """A new buffer over these axes, and a strip of another one."""
        name, length = self.name(kind), length or (self.length if strip else "")
        self.kernel.buffers.append(Buffer(name, dtype, axes, shared, length))
        return Element(frozenset(axes), dtype, name, axes, strip)

    def row_state(self, root: Root, fold: LaneFold, axis: str) -> Element:
        """The states of a fold by rows of `axis`: a row of them for every chunk."""
        axes = (f"{axis}:{ROWS}", *root.kept)
        fold.rows = self.parts[root.fold] = self.buffer("parts", fold.dtype, axes)
        return Element(frozenset(root.kept), fold.dtype, fold.name, root.kept)

    def finish(self, root: Root, bound: tuple[str, ...], scope: Scope, strip: str | None) -> None:
        """After the last loop of a fold: its result, in a variable, a strip's array or a buffer."""
        fold = root.of
        assert isinstance(fold, Fold)
        if isinstance(fold, Scan):
            del self.states[fold]
            return
        if root.over & set(bound):
            return  # a partial state, for the loop around this one
        if root.chunk is not None and root.chunk in bound:
            self.finish_chunk(root, root.chunk, scope, strip)
            return
        program = fold.program
        states: list[Value] = [*self.states.pop(fold)[:len(program.state)]]
        lane_scope = scope
        if strip is not None:
            loop = Loop(strip, "lane", [], independent=True)
            lane_scope = scope.inside(loop.body)
        if fold.initial is not None and program.lanes:
            states = inline(program.merge, [lane_scope.value(fold.initial), *states])
        [result] = inline(program.finish, states)
        result = result if result.dtype == fold.dtype else Convert(
            result.axes, fold.dtype, result)
        if strip is None:
            scope.bind(fold, result, program.name)
        else:
            if not isinstance(result, Element):
                target = Element(frozenset({strip}), fold.dtype, self.name("row"), at=strip)
                scope.body.append(Local(target.name, fold.dtype, True))
                loop.body.append(Assign(target, result))
                result = target
            scope.known[fold] = lane_scope.known[fold] = result
        self.keep(fold, scope, None if strip is None else lane_scope)
        if strip is not None and loop.body:
            scope.body.append(loop)

    def keep(self, fold: Fold, scope: Scope, inside: Scope | None = None) -> None:
        """Put what waited for this fold, and loops elsewhere need, into its buffer."""
        scope = inside or scope
        for value in self.waiting.get(fold, []):
            scope.body.append(Assign(self.planned[value], scope.value(value)))
            self.buffered[value] = self.planned[value]
