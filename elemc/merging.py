"""What becomes of the states of folds after their loops: results, and parts that are merged."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import numpy as np

from .leaves import Leaves, target_of
from .nest import Assign, Blocks, Buffer, Let, Local, Loop, Phase
from .nest_leaves import Element, LaneFold, lane_folds
from .programs import inline
from .roots import Root, axis_of
from .scope import Scope
from .values import Convert, Fold, Scan, Specialized, Store, Value


class Merging(Leaves):
    """What folds give, in variables, strips and buffers."""

    def __init__(self, spec: Specialized) -> None:
        super().__init__(spec)
        self.waiting: dict[Store | Fold, list[Value]] = {}  # what is written after a fold
        self.parts: dict[Fold, Element] = {}  # what chunks give
        self.length = "STRIP"  # of the strips around
        self.given: tuple[Value, bool] | None = None  # the side of a choice that phases are on

    def phase(self, axis: str | None) -> Scope:
        """The scope of a new phase."""
        scope = Scope(self.name, self.buffered, self.gone, self.load_name)
        self.kernel.phases.append(Phase(axis, scope.body))
        return scope.side(*self.given) if self.given else scope

    def lane_folds(self, folded: Sequence[Root], short: bool = False) -> list[LaneFold]:
        """How the template folds these, under fresh names."""
        folds = [r.fold for r in folded]
        return lane_folds(folds, [self.name(f.program.name) for f in folds], short)

    def finish_chunk(self, root: Root, bound: tuple[str, ...], scope: Scope,
                     strip: str | None) -> None:
        """After the loops over a chunk: what they give; those by rows are in place already."""
        [state] = self.states.pop(root.fold)
        if not root.by_rows:
            *around, chunk = bound
            part = self.parts[root.fold] = self.buffer(
                "parts", state.dtype, (chunk, *root.kept_in(around)), shared=not around)
            store = Assign(part, state)
            scope.body.append(Loop(strip, "lane", [store], independent=True) if strip else store)

    def merge(self, folds: Sequence[Root], chunk: str, kept: tuple[str, ...],
              around: Scope | None) -> Scope | None:
        """The folds of the parts of all chunks, for what is kept; its scope, if that is one state.

        Of the axes that are kept, the last one goes in strips.  It is a phase of its own, if there
        is nothing `around`.  Of no chunks, there is one part.
        """
        strip = kept[-1] if kept and chunk else None
        entered = [*kept[:-1], f"{strip}/"] if strip else kept
        scope = whole = around or self.phase(next(iter(entered), None))
        for axis in entered:
            kind = "strip" if axis.endswith("/") else "plain"
            loop = Loop(axis.rstrip("/"), kind, [], independent=axis == kept[-1],
                        shared=axis == entered[0] and not around)
            scope.body.append(loop)
            scope = scope.inside(loop.body)
        if chunk:
            self.merge_parts(folds, chunk, scope, strip)
        else:
            self.states |= {r.fold: [self.parts[r.fold]] for r in folds}
        for root in folds:
            self.give(root, scope, strip)
        return None if kept else whole

    def merge_parts(self, folds: Sequence[Root], chunk: str, scope: Scope,
                    strip: str | None) -> None:
        """The loop over the parts of all chunks."""
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

    def buffer(self, kind: str, dtype: np.dtype, axes: tuple[str, ...], shared: bool = True,
               strip: str | None = None, length: str = "") -> Element:
        """A new buffer over these axes, and a strip of another one."""
        name, length = self.name(kind), length or (self.length if strip else "")
        self.kernel.buffers.append(Buffer(name, dtype, axes, shared, length, strip))
        return Element(frozenset(axes), dtype, name, axes, strip)

    def row_state(self, root: Root, fold: LaneFold, inner: tuple[str, ...]) -> Element:
        """The states of a fold by rows of an axis: a row of them, or one for every chunk of it.

        They are in place if they are what the fold gives, in the order of the loops that add to
        them, and nothing else waits for it.
        """
        around = [*takewhile(lambda a: axis_of(a) not in root.over, inner)]
        chunk, kept = inner[len(around):-1], root.kept_in(around)
        state = Element(frozenset(kept), fold.dtype, fold.name, kept)
        rows, waits = self.planned.get(root.fold), self.waiting.get(root.fold, [])
        if not rows or waits != [root.fold] or rows.dims != (*chunk, *kept) or (
                root.fold.initial is not None or rows.dtype != fold.dtype
                or inline(root.fold.program.finish, [state]) != [state]):
            rows = self.buffer("parts", fold.dtype, (*chunk, *kept), shared=not around)
        fold.rows = self.parts[root.fold] = rows
        return state

    def finish(self, root: Root, bound: tuple[str, ...], scope: Scope, strip: str | None) -> None:
        """After the last loop of a fold: its result, in a variable, a strip's array or a buffer."""
        if isinstance(root.of, Scan):
            del self.states[root.of]
        elif root.over & set(bound):
            pass  # a partial state, for the loop around this one
        elif root.chunk is not None and root.chunk in bound:
            self.finish_chunk(root, bound[:bound.index(root.chunk) + 1], scope, strip)
        elif root.by_rows and self.planned.get(root.fold) is self.parts[root.fold]:
            self.buffered[root.fold] = self.parts[root.fold]
        elif root.by_rows:
            self.merge([root], "", root.kept_in(bound), scope)
        else:
            self.give(root, scope, strip)

    def give(self, root: Root, scope: Scope, strip: str | None) -> None:
        """What a fold gives, once its state is known."""
        fold, program = root.fold, root.fold.program
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
