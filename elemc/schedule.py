"""From values over axes to loop nests.

The one idea: every value has a set of axes.  At each level, what depends on bound axes only is
computed before the loops that need it.  Of the rest, a store or fold enters the loop over its
next axis, and shares that loop with all others that enter it at the same *stage*: the number of
folds, finished by earlier loops of this level, that it has to wait for.

A fold's result is a variable where its last loop ends.  If a loop elsewhere needs it, it is kept
in a buffer over the axes that differ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from .leaves import Leaves, target_of
from .nest import (
    BLOCK,
    ROWS,
    Assign,
    Blocks,
    Buffer,
    Chunks,
    Element,
    Kernel,
    LaneFold,
    LaneLoop,
    Let,
    Local,
    Loop,
    Named,
    Phase,
    Write,
    lane_fold,
)
from .order import Root, Segment, carried, loops, next_axis, roots, same_states
from .scope import Scope
from .specialize import lines
from .values import (
    Convert,
    Fold,
    Scan,
    Specialized,
    Store,
    Value,
    inline,
)


def schedule(spec: Specialized) -> Kernel:
    """The loop nests of one specialization."""
    scheduler = _Scheduler(spec)
    scheduler.top()
    return scheduler.kernel


def in_pieces(segment: Segment) -> bool:
    """Whether all that a loop at the top does, it does apart for every index."""
    return segment.axis is not None and not any(segment.axis in r.over for r in segment.roots)


def chunked(segment: Segment) -> bool:
    """Whether a loop at the top folds what can be folded in chunks, and merged."""
    return any(segment.axis in r.over and r.merges for r in segment.roots)


class _Scheduler(Leaves):
    def __init__(self, spec: Specialized) -> None:
        super().__init__(spec)
        self.roots = roots(spec)
        self.root_of = {r.of: r for r in self.roots if isinstance(r.of, Fold)}
        self.waiting: dict[object, list[Value]] = {}  # planned ones, to be written after a fold
        self.uses: dict[Fold, frozenset[Fold]] = {}  # the folds that a fold needs, at any depth
        for fold, root in self.root_of.items():
            self.uses[fold] = frozenset(root.needs).union(*(self.uses[f] for f in root.needs))
        self.by_rows: set[Fold] = {r.fold for r in self.roots if r.by_rows}
        self.parts: dict[Fold, Element] = {}  # the states of folds by rows
        self.lines = {(store.operand, axis) for store, axis in lines(spec).items()}

    # -- levels ------------------------------------------------------------------------------

    def top(self) -> None:
        """The phases: each loop all of whose roots keep its axis may run in pieces."""
        segments = loops(self.roots, ())
        serial: Scope | None = None
        for k, segment in enumerate(segments):
            self.buffer_late(segment, segments[k + 1:], (), shared=True)
            if chunked(segment):
                serial = self.chunks(segment)
                continue
            parallel = in_pieces(segment)
            scope = self.phase(segment.axis if parallel else None) if (
                parallel or serial is None) else serial
            serial = None if parallel else scope
            self.segment(segment, (), scope)

    def phase(self, axis: str | None) -> Scope:
        """The scope of a new phase."""
        scope = Scope(self.name, self.buffered, self.load_name)
        self.kernel.phases.append(Phase(axis, scope.body))
        return scope

    def level(self, level_roots: Sequence[Root], bound: tuple[str, ...], scope: Scope) -> None:
        """Everything that `level_roots` do inside of the loops over `bound`."""
        segments = loops(level_roots, bound)
        for k, segment in enumerate(segments):
            self.buffer_late(segment, segments[k + 1:], bound, shared=False)
            self.segment(segment, bound, scope)

    def buffer_late(self, segment: Segment, later: Sequence[Segment], bound: tuple[str, ...],
                    shared: bool) -> None:
        """Give buffers to what folds of `segment`, which end inside its loop, decide elsewhere."""
        users = [r for s in later for r in s.roots]
        wanted = {n for r in users for n in r.needs}
        late: dict[Fold, frozenset[Fold]] = {}
        for root in segment.roots:
            fold = root.of
            if not isinstance(fold, Fold) or fold not in wanted or (
                    fold in self.planned or fold in self.by_rows):
                continue
            here = segment.axis is None or segment.axis in root.over  # where this level ends it
            if isinstance(fold, Scan):
                self.plan(fold, fold.over if here else fold.axes, shared)
                continue
            if not here or (shared and not self.same_phase(segment, later, fold)):
                late[fold] = self.uses[fold]
        strips = {b.rstrip("/") for b in bound}
        values = [a for r in users for v in (r, *self.waiting.get(r.of, ())) for a in v.args]
        for value, last in carried(values, late, self.planned).items():
            self.plan(value, value.axes - strips, shared)
            self.waiting.setdefault(last, []).append(value)

    def plan(self, value: Value, over: Collection[str], shared: bool) -> None:
        """Give a value a buffer over these axes."""
        axes = tuple(a for a in self.kernel.axes if a in over)
        name = self.name("buffer")
        self.kernel.buffers.append(Buffer(name, value.dtype, axes, shared))
        self.planned[value] = Element(value.axes, value.dtype, name, axes)

    def same_phase(self, segment: Segment, later: Sequence[Segment], fold: Fold) -> bool:
        """Whether all users of a fold that ends at the top run in the same serial phase."""
        for other in later:
            after = [r for s in later[later.index(other):] for r in s.roots]
            if (in_pieces(other) or chunked(other)) and any(fold in r.needs for r in after):
                return False
        return True

    def segment(self, segment: Segment, bound: tuple[str, ...], scope: Scope) -> None:
        """One loop of a level, with what is computed before and after it."""
        axis = segment.axis
        if axis is None:
            self.leaf(segment.roots, scope)
            return
        strip = next((b[:-1] for b in bound if b.endswith("/") and b[:-1] not in bound), None)
        scope.hoist([v for r in segment.roots for v in r.inputs()], frozenset(bound),
                    strip if axis != strip else None)
        if axis.endswith("/"):
            self.strip(segment, bound, scope)
            return
        starting = [r for r in segment.roots if axis in r.over and r.of not in self.states]
        merged = [r for r in starting if r.fold.program.lanes and not isinstance(r.of, Scan)]
        for k, root in enumerate(starting):
            if root not in merged:
                twin = next((r.fold for r in starting[:k] if same_states(r.of, root.of)), None)
                if twin is None:
                    self.start_left(root.fold, scope, strip)
                else:
                    self.states[root.fold] = self.states[twin]
        inner = (*bound, axis)
        last = all(next_axis(r, inner) is None for r in segment.roots)
        if last and merged:
            self.lanes(segment, merged, axis, scope)
        elif merged:
            self.blocks(segment, merged, inner, scope, strip)
        else:
            loop = Loop(axis, self.kind(axis, bound, segment), [], reverse=bool(segment.reverse))
            loop.independent = last and (loop.kind == "lane" or all(
                isinstance(r.of, Store) or r.of in self.by_rows for r in segment.roots))
            scope.body.append(loop)
            self.level(segment.roots, inner, scope.inside(loop.body))
            if loop.independent and not loop.kind == "lane" and self.spec.large:
                loop.lines = tuple(s for s in loop.body if isinstance(s, Write)
                                   and (s.operand, axis) in self.lines)
        for root in starting:
            self.finish(root, bound, scope, strip)

    def kind(self, axis: str, bound: tuple[str, ...], segment: Segment) -> str:
        """How a plain loop runs."""
        if f"{axis}/" in bound:
            return "lane"
        parallel = not bound and not any(axis in r.over for r in segment.roots)
        return "parallel" if parallel else "serial"

    def strip(self, segment: Segment, bound: tuple[str, ...], scope: Scope) -> None:
        """The loop over the strips of an axis."""
        assert segment.axis is not None
        kind = "strip" if bound else "parallel strip"
        loop = Loop(segment.axis[:-1], kind, [])
        scope.body.append(loop)
        self.level(segment.roots, (*bound, segment.axis), scope.inside(loop.body))

    # -- folds -------------------------------------------------------------------------------

    def lanes(self, segment: Segment, merged: Sequence[Root], axis: str, scope: Scope) -> None:
        """A row: the folds in `merged` in lanes, the others and the stores element by element."""
        folds = [lane_fold(r.fold, self.name(r.fold.program.name)) for r in merged]
        loop = LaneLoop(axis, folds, [])
        inner = scope.inside(loop.body)
        for root, fold in zip(merged, folds, strict=True):
            lane = Element(frozenset(), fold.dtype, f"{fold.name}_lane", at="lane")
            self.states[root.fold] = [lane]
        self.leaf(segment.roots, inner)
        scope.body.append(loop)
        for root, fold in zip(merged, folds, strict=True):
            self.states[root.fold] = [Named(frozenset(), fold.dtype, fold.name)]

    def blocks(self, segment: Segment, merged: Sequence[Root], inner: tuple[str, ...],
               scope: Scope, strip: str | None) -> None:
        """An outer folded axis: every turn of the inner loops gives a partial state."""
        folds = [lane_fold(r.fold, self.name(r.fold.program.name)) for r in merged]
        loop = Blocks(inner[-1], folds, [], strip)
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
        self.level(segment.roots, inner, inside)
        scope.body.append(loop)
        for root, fold in zip(merged, folds, strict=True):
            if not direct and not root.by_rows:
                [part] = self.states.pop(root.fold)
                fold.part = part.name
            if not root.by_rows:
                self.states[root.fold] = [target_of(fold.name, fold.dtype, strip)]

    def chunks(self, segment: Segment) -> Scope | None:
        """Folds over everything: first those of chunks, then their merger.

        What comes after may go on in the scope that it gives.
        """
        assert segment.axis is not None
        axis, chunk = segment.axis, f"{segment.axis}:"
        folds = [r for r in segment.roots if axis in r.over]
        last = all(next_axis(r, (axis,)) is None for r in segment.roots)
        exact = all(r.fold.program.exact for r in folds)
        unit = (16 * BLOCK if exact else BLOCK) if last else ROWS
        self.kernel.chunks[chunk] = Chunks(axis, unit)
        scope = self.phase(chunk)
        scope.hoist([v for r in segment.roots for v in r.inputs()], frozenset(), None)
        loop = Loop(axis, "chunks", [])
        scope.body.append(loop)
        if last:
            self.lanes(segment, folds, axis, scope.inside(loop.body))
        else:
            self.blocks(segment, folds, (axis,), scope.inside(loop.body), None)
        parts = {}
        for root in folds:
            [state] = self.states.pop(root.fold)
            parts[root.fold] = part = self.parts[root.fold] if root.by_rows else self.buffer(
                "parts", state.dtype, (chunk,))
            if not root.by_rows:
                loop.body.append(Assign(part, state))
        for row in dict.fromkeys(r.order[-1] for r in folds if r.by_rows):
            strip = Loop(row, "parallel strip", [])
            scope = self.phase(f"{row}/")
            scope.body.append(strip)
            self.merge([r for r in folds if r.by_rows and r.order[-1] == row], chunk, parts,
                       scope.inside(strip.body), row)
        whole = [r for r in folds if not r.by_rows]
        if not whole:
            return None
        scope = self.phase(None)
        self.merge(whole, chunk, parts, scope, None)
        return scope

    def merge(self, folds: Sequence[Root], chunk: str, parts: Mapping[Fold, Element], scope: Scope,
              strip: str | None) -> None:
        """The folds of the results of all chunks."""
        merged = [lane_fold(r.fold, self.name(r.fold.program.name)) for r in folds]
        loop = Blocks(chunk, merged, [], strip)
        scope.body.append(loop)
        for root, fold in zip(folds, merged, strict=True):
            part = target_of(self.name("part"), fold.dtype, strip)
            fold.part = part.name
            if strip is None:
                loop.body.append(Let(part.name, parts[root.fold]))
            else:
                loop.body += [Local(part.name, part.dtype, True),
                              Loop(strip, "lane", [Assign(part, parts[root.fold])], True)]
            state = target_of(fold.name, fold.dtype, strip)
            self.states[root.fold] = [state]
            if strip is not None:
                self.states.pop(root.fold)
                row = self.buffered[root.fold] = self.buffer("row", fold.dtype, (strip,))
                scope.body.append(Loop(strip, "lane", [Assign(row, state)], True))
        if strip is None:
            for root in folds:
                self.finish(root, (), scope, None)

    def buffer(self, kind: str, dtype: np.dtype, axes: tuple[str, ...],
               shared: bool = True) -> Element:
        """A new buffer over these axes."""
        name = self.name(kind)
        self.kernel.buffers.append(Buffer(name, dtype, axes, shared))
        return Element(frozenset(axes), dtype, name, axes)

    def row_state(self, root: Root, fold: LaneFold, axis: str) -> Element:
        """The states of a fold by rows of `axis`: a row of them for every chunk."""
        row = root.order[-1]
        fold.rows = self.parts[root.fold] = self.buffer("parts", fold.dtype, (f"{axis}:", row))
        return Element(frozenset({row}), fold.dtype, fold.name, (row,))

    def finish(self, root: Root, bound: tuple[str, ...], scope: Scope, strip: str | None) -> None:
        """After the last loop of a fold: its result, in a variable, a strip's array or a buffer."""
        fold = root.of
        assert isinstance(fold, Fold)
        if isinstance(fold, Scan):
            del self.states[fold]
            return
        if root.over & set(bound):
            return  # a partial state, for the loop around this one
        if root.by_rows:
            [state] = self.states.pop(fold)
            assert isinstance(state, Element)
            self.buffered[fold] = state
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
