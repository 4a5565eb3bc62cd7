"""From values over axes to loop nests.

The one idea: every value has a set of axes.  At each level, what depends on bound axes only is
computed before the loops that need it.  Of the rest, a store or fold enters the loop over its
next axis, and shares that loop with all others that enter it at the same *stage*: the number of
folds, finished by earlier loops of this level, that it has to wait for.

Loops in which functions wait for each other are cut into strips (`stages`).

A fold's result is a variable where its last loop ends.  If a loop elsewhere needs it, it is kept
in a buffer over the axes that differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .accesses import runs_along
from .asking import ask_in_time, comes_late, short_and_back
from .blocks import of_many
from .calling import call_in_blocks
from .choices import part_sides
from .cost import calls
from .crossing import Crossing
from .halving import convert_in_blocks
from .interior import part
from .jamming import jam
from .keeping import Learned
from .meeting import rows_apart
from .nest import Assign, Kernel, Loop, Statement, Write, statements, values_of
from .nest_leaves import Element
from .order import roots
from .repeating import repeat_rows
from .roots import Root, axis_of, is_side, next_axis, open_strip
from .scope import Overwritten, Scope
from .sharing import (
    Segment,
    around_few,
    functions_of_rows,
    loops,
    pair_scans,
    same_states,
    scans_of_few,
    waves,
)
from .specialize import following_rows, lines
from .stages import stages
from .values import (
    FAR_NARROW,
    LINED,
    SHORT,
    Access,
    Load,
    Scan,
    Specialized,
    Store,
    Value,
    is_fold,
    walk,
)


def schedule(spec: Specialized) -> Kernel:
    """The loop nests of one specialization."""
    kernel = _laid_out(spec)
    repeat_rows(kernel, spec)  # first: blocks are of several rows
    call_in_blocks(kernel, spec)
    jam(kernel, spec)
    convert_in_blocks(kernel, spec)
    part(kernel, spec)
    return kernel


def _laid_out(spec: Specialized) -> Kernel:
    """The loops of all phases.

    Which loops come before which is known where they are laid out.  If one stores over what waits
    in its output, and another one still needs that, all begins again: see `Learned`.
    """
    found, learned = part_sides(roots(spec), spec), Learned()
    while True:
        scheduler = _Scheduler(spec, found, learned)
        try:
            scheduler.compute_once(found)
            scheduler.top(found)
        except Overwritten as early:
            learned.learn(early)
        else:
            return scheduler.kernel


class _Scheduler(Crossing):
    def __init__(self, spec: Specialized, found: Sequence[Root], learned: Learned) -> None:
        super().__init__(spec, found, learned)
        self.lines = {(store.operand, axis) for store, axis in lines(spec).items()}
        self.following = {s.operand: r for s in lines(spec) if (r := following_rows(s, spec))}

    # -- levels ------------------------------------------------------------------------------

    def top(self, top_roots: Sequence[Root]) -> None:
        """The phases: each loop all of whose roots keep its axis may run in pieces."""
        ways = self.apart, self.meeting = functions_of_rows(top_roots), rows_apart(
            top_roots, self.spec)
        segments = loops(top_roots, (), *ways)
        serial: Scope | None = None
        for k, segment in enumerate(segments):
            if not self.remains(segment):
                continue
            self.later = segments[k + 1:]
            self.near = () if self.spec.large else self.later  # others wait for memory
            self.keep_in_outputs(segment)
            self.buffer_late(segment, segments[k + 1:], (), None)
            if k and self.compute_once(segment.roots):
                serial = None
            if is_side(segment.axis):
                self.given, serial = segment.side(), None
                self.top([replace(r, order=r.order[1:], given=None) for r in segment.roots])
                self.given, (self.apart, self.meeting) = None, ways
                continue
            if segment.chunked:
                serial = self.chunks(segment)
                continue
            parallel = segment.in_pieces and not scans_of_few(segment.roots, self.spec)
            scope = self.phase(self.shared(segment) if parallel else None) if (
                parallel or serial is None) else serial
            serial = None if parallel else scope
            self.segment(segment, (), scope)

    def shared(self, segment: Segment) -> str | None:
        """The axis whose indices threads share."""
        return self.tiles_of(segment, ())[0] if self.tiled(segment, ()) else segment.axis

    def level(self, level_roots: Sequence[Root], bound: tuple[str, ...], scope: Scope) -> None:
        """Everything that `level_roots` do inside of the loops over `bound`."""
        if self.spec.crossed:
            self.turn_rows(level_roots, bound, scope)
        segments = loops(level_roots, bound)
        later, near, before = self.later, self.near, {*self.planned}
        for k, segment in enumerate(segments):
            if not self.remains(segment):
                continue
            self.later = [*segments[k + 1:], *later]
            if not self.spec.large or open_strip(bound):
                self.near = [*segments[k + 1:], *near]
            if segment.axis and not segment.axis.endswith("/"):
                self.keep_row(segment, segments[k + 1:], (*bound, segment.axis), scope)
            self.keep_in_outputs(segment)
            self.buffer_late(segment, segments[k + 1:], bound, scope)
            self.functions_first(segments[k:], bound, scope)
            self.segment(segment, bound, scope)
        self.later, self.near = later, near
        pair_scans(scope.body)
        if bound:
            ask_in_time(scope.body, bound[-1], self.spec)
        self.forget([v for v in self.planned if v not in before])  # each turn has its own

    def segment(self, segment: Segment, bound: tuple[str, ...], scope: Scope) -> None:
        """One loop of a level, with what is computed before and after it."""
        axis = segment.axis
        if axis is None:
            self.leaf(segment.roots, scope)
        elif is_side(axis):
            self.side(segment, bound, scope)
        elif loads := self.tiled(segment, bound):
            self.tiles(segment, loads, bound, scope)
        else:
            strip = open_strip(bound)
            scope.hoist([v for r in segment.roots for v in r.inputs()], frozenset(bound),
                        strip if axis != strip else None)
            if axis.endswith("/"):
                self.strip(segment, bound, scope)
            elif ":" not in axis:
                self.along(segment, bound, scope, strip)
            elif segment.chunked:
                self.chunks(segment, bound, scope)
            else:
                loop = self.chunk(axis, bound)
                scope.body.append(loop)
                self.level(segment.roots, (*bound, axis), scope.inside(loop.body))

    def along(self, segment: Segment, bound: tuple[str, ...], scope: Scope, strip: str | None
              ) -> None:
        """The loop along an axis, within a `strip`, and the folds that begin and end with it."""
        assert segment.axis is not None
        inner = (*bound, segment.axis)
        starting = [r for r in segment.roots if segment.axis in r.over and r.of not in self.states]
        merged = [r for r in starting if r.merges]
        for k, root in enumerate(starting):
            if root not in merged:
                twin = next((r.fold for r in starting[:k] if same_states(r.of, root.of)), None)
                if twin is None:
                    self.start_left(root.fold, scope, strip)
                else:
                    self.states[root.fold] = self.states[twin]
        if merged and self.in_lanes(segment, merged, inner):
            self.lanes(segment, merged, inner, scope)
        elif merged:
            self.blocks(segment, merged, inner, scope, strip)
        else:
            self.plain(segment, bound, scope)
        for root in starting:
            self.finish(root, bound, scope, strip)

    def plain(self, segment: Segment, bound: tuple[str, ...], scope: Scope) -> None:
        """A loop whose states, if any, change from turn to turn."""
        assert segment.axis is not None
        roots, axis, inner = segment.roots, segment.axis, (*bound, segment.axis)
        last = all(next_axis(r, inner) is None for r in roots)
        loop = Loop(axis, "lane" if f"{axis}/" in bound else "plain", [],
                    reverse=bool(segment.reverse), shared=not bound and segment.in_pieces)
        loop.independent = segment.in_pieces and (last or around_few(roots, inner, self.spec))
        if bound and comes_late(loop, roots, last, self.spec):
            loop.ahead = axis_of(bound[-1])
        scope.body.append(loop)
        inside = scope.inside(loop.body)
        if last and self.length in ("STRIP", "TURNED", "SIDED", "RECORDS"):
            roots, inside = self.stages(segment, loop, inside, inner)
        self.level(roots, inner, inside)
        if loop.independent and not last:  # vectors go along this axis
            for below in (s for s in statements(loop.body) if isinstance(s, Loop)):
                below.independent = False
        if self.spec.large:
            loop.lines = self.past_caches(loop, last, bound)
            if loop.lines:
                loop.asks |= short_and_back(loop.body, axis, self.spec)
        elif loop.independent and loop.kind != "lane":
            loop.lined = self.filling_lines(loop)

    def side(self, segment: Segment, bound: tuple[str, ...], scope: Scope) -> None:
        """What is done only on one side of a choice."""
        assert segment.axis is not None
        inside = scope.side(*segment.side())
        self.level(segment.roots, (*bound, segment.axis), inside)

    def stages(self, segment: Segment, loop: Loop, scope: Scope, bound: tuple[str, ...]
               ) -> tuple[list[Root], Scope]:
        """Cut a loop into strips where its functions wait for each other; the last, and its scope.

        Functions do not wait for what goes on, either, and what calls them of scans comes after
        these.  Strips have parts, also to ask for memory, and for functions that are called for
        blocks.
        """
        roots, axis, strip = segment.roots, loop.axis, loop.kind == "lane"
        ahead: list[list[Root]] = []
        if loop.independent:
            cut, parts = self.cut(roots, loop, scope)
        else:
            cut, parts = [self.functions(roots, axis, bound, scope)], strip and bool(loop.ahead)
            if any(cut) or self.spec.between(axis)[1] > SHORT:  # without either, gcc unrolls
                *ahead, roots = waves(roots)
        if not any(cut) and not parts and not ahead:
            return roots, scope
        for values in cut:
            scope.rows(values, axis)
        for wave in ahead:
            self.scans_first(wave, loop, bound, scope)
        last = Loop(axis, "lane", [], reverse=loop.reverse and not ahead,
                    independent=loop.independent or bool(ahead))
        loop.kind = "parts" if strip else "strip"
        loop.independent, loop.length = False, "STAGE"
        loop.body.append(last)
        return roots, scope.inside(last.body)

    def cut(self, roots: Sequence[Root], loop: Loop, scope: Scope
            ) -> tuple[list[list[Value]], bool]:
        """What each stage of a loop without folds computes, and whether its strip has parts."""
        def known(value: Value) -> bool:
            return scope.find(value) is not None

        strip, stores = loop.kind == "lane", [r.of for r in roots if isinstance(r.of, Store)]
        scans = any(isinstance(r.of, Scan) for r in roots)  # known in the last loop only
        if scans or not strip and len(stores) < len(roots):
            return [], strip and bool(loop.ahead)
        inputs = [v for r in roots for v in r.inputs()]
        apart = all(s.mask is None and s.mode == "write" for s in stores)
        called = apart and any(of_many(v) and not known(v) for v in walk(inputs, known))
        return stages(inputs, known, apart), strip and (bool(loop.ahead) or called)

    def past_caches(self, loop: Loop, last: bool, bound: tuple[str, ...]) -> tuple[Write, ...]:
        """What a loop writes past the caches: along lines, or short rows that follow each other.

        Around few, it does if lines are long: shorter ones wait for what is asked for.
        """
        if loop.reverse or loop.kind != "plain":
            return ()
        if not (last or loop.independent and self.spec.between(loop.axis)[0] > FAR_NARROW):
            return tuple(s for s in statements(loop.body) if isinstance(s, Write)
                         and self.writes_rows(s, loop.axis, bound))
        lined = self.lined(loop) if loop.independent else []
        return tuple(w for w in lined if w.operand not in self.following)

    def lined(self, loop: Loop) -> list[Write]:
        """What a loop writes along lines of memory."""
        return [s for s in loop.body if isinstance(s, Write)
                and (s.operand, loop.axis) in self.lines]

    def filling_lines(self, loop: Loop) -> Write | Load | None:
        """What a loop reads or writes along lines of which vectors should be whole ones.

        What is stored across two lines takes twice as long, as what is loaded; it is what is
        written, but of three operands and more that are read, the first that has most elements.
        Where functions are called, memory may be busy while they wait for a line that is filled at
        once.
        """
        long = loop.shared or self.spec.between(loop.axis)[0] >= LINED
        values = walk(v for s in loop.body for v in values_of(s))
        writes = self.lined(loop)
        if not long or self.spec.crossed or calls(values) or not writes:
            return None
        reads = [v for v in values if isinstance(v, Load) and v.guard is None
                 and (layout := self.spec.operands[v.operand].layout).unit
                 and runs_along(v.access, layout.perm, loop.axis)]
        return max(reads, key=lambda v: len(v.axes)) if len(reads) > 2 else writes[0]

    def writes_rows(self, write: Write, axis: str, bound: tuple[str, ...]) -> bool:
        """Whether each turn of a loop writes a short row that follows the one before."""
        rows, row = self.following.get(write.operand, ("", ""))
        others = {a for at in write.access for a in at.axes} - {rows, row}
        return rows == axis and row not in map(axis_of, bound) and others.issubset(bound)

    def strip(self, segment: Segment, bound: tuple[str, ...], scope: Scope) -> None:
        """The loop over the strips of an axis."""
        assert segment.axis is not None
        shared = not (bound or scans_of_few(segment.roots, self.spec))
        loop = Loop(segment.axis[:-1], "strip", [], shared=shared)
        scope.body.append(loop)
        inside = scope.inside(loop.body)
        back: list[Statement] = []
        self.length = loop.length = next(
            (r.length for r in segment.roots if r.length != "STRIP"), "STRIP")
        if loop.length in ("ABREAST", "SIDED"):
            back = self.abreast(segment.roots, loop.axis, inside)
        self.level(segment.roots, (*bound, segment.axis), inside)
        loop.body += back
        self.length = "STRIP"

    def abreast(self, abreast: Sequence[Root], strip: str, scope: Scope) -> list[Statement]:
        """Put the rows of a strip side by side; what puts results back where they belong."""
        along = abreast[0].order[-2]

        def rows(operand: int, access: Access, dtype: np.dtype) -> Element | None:
            """A buffer for the rows of an operand, if they are lines of memory."""
            name, layout = self.spec.operands[operand].name, self.spec.operands[operand].layout
            lines = layout.unit and runs_along(access, layout.perm, along) and any(
                at.axis == strip for at in access)
            return self.buffer(f"{name}_rows", dtype, (along,), False, strip) if lines else None

        def each(copy: Statement) -> Loop:
            return Loop(strip, "abreast", [Loop(along, "plain", [copy], independent=True)])

        for load in walk((v for r in abreast for v in r.args), is_fold):
            if isinstance(load, Load) and load not in scope.known and load.guard is None and (
                    to := rows(load.operand, load.access, load.dtype)):
                scope.body.append(each(Assign(to, load)))
                scope.known[load] = replace(to, axes=load.axes)
        back: list[Statement] = []
        for store in (r.of for r in abreast):
            if isinstance(store, Store) and store.mode == "write" and store.mask is None and (
                    of := rows(store.operand, store.access, store.value.dtype)):
                back.append(each(Write(store.operand, store.access, of, store.mode, None)))
                self.aside[store] = of
        return back
