"""The innermost statements of loop nests: stores, and one more element of folds and scans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from .close import INDEX
from .cnames import stem
from .nest import Assign, If, Kernel, Local, Loop, Statement, Write
from .nest_leaves import Element, FoldIndex, Named
from .ops import OPS
from .programs import convert, initial_state, inline
from .roots import Root, holds
from .scope import Scope
from .values import (
    SELECT,
    Affine,
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
    walk,
)


class Leaves:
    """The kernel in the making, the states of its folds, and what is kept in buffers."""

    def __init__(self, spec: Specialized) -> None:
        self.spec = spec
        exact = {e: low for e, (low, high) in spec.bounds.items() if low == high}
        self.kernel = Kernel(spec.operands, dict(spec.axes), exact, spec.far, spec.third)
        self.states: dict[Fold, list[Named | Element]] = {}
        self.better: dict[Fold, Value] = {}  # what extrema become in the loop in which places do
        self.planned: dict[Value, Element] = {}
        self.kept: dict[Value, Store] = {}  # what waits in an output until its time has come
        self.aside: dict[Store, Element] = {}  # where an output's rows lie side by side
        self.buffered: dict[Value, Value] = {}  # of the planned and kept ones, those written
        self.gone: dict[Value, Value | None] = {}  # what waited, and what was stored over it
        self.names: dict[str, int] = {}

    def name(self, kind: str) -> str:
        """A fresh name: kind0, kind1, ..., as harmless in C."""
        kind = stem(kind)
        self.names[kind] = self.names.get(kind, -1) + 1
        return f"{kind}{self.names[kind]}"

    def load_name(self, load: Load) -> str:
        """x_v for an element of x."""
        return f"{self.spec.operands[load.operand].name}_v"

    def start_left(self, fold: Fold, scope: Scope, strip: str | None) -> None:
        """Declare the state of a fold that goes from the left, one element at a time."""
        dtypes, base = fold.program.state, self.name(fold.program.name)
        names = [base] if len(dtypes) == 1 else [f"{base}_{k}" for k in range(len(dtypes))]
        targets = [target_of(n, d, strip) for n, d in zip(names, dtypes, strict=True)]
        start = initial_state(fold.program, fold.initial)
        if isinstance(fold, Scan) and fold.states:
            start = [*fold.states]
        if start is None:
            flag = target_of(f"{base}_started", np.dtype(bool), strip)
            targets.append(flag)
            start = [Literal(frozenset(), t.dtype, t.dtype.type(0)) for t in targets]
        self.declare(targets, start, scope, strip)
        self.states[fold] = targets

    def declare(self, targets: Sequence[Named | Element], start: Sequence[Value], scope: Scope,
                strip: str | None) -> None:
        """Declare variables, or arrays over a strip, and set them."""
        body = scope.body
        for target in targets:
            body.append(Local(target.name, target.dtype, strip is not None))
        if strip is not None:
            loop = Loop(strip, "lane", [], independent=True)
            body.append(loop)
            scope = scope.inside(loop.body)
        made = scope.values(start)
        scope.body.extend(Assign(t, made[v]) for t, v in zip(targets, start, strict=True))

    def search(self, first: Fold, axis: str, scope: Scope) -> None:
        """The first place along a row where something holds; of none the greatest number."""
        assert isinstance(first, First) and first.program.neutral is not None
        [none] = first.program.neutral
        place = Named(frozenset(), none.dtype, self.name("first"))
        here = Position(frozenset((axis,)), INDEX, Affine(terms=((axis, 1),)))
        loop = Loop(axis, "search", [])
        holds = scope.inside(loop.body).value(first.here)
        loop.body.append(If(holds, [Assign(place, convert(here, none.dtype))],
                            [Assign(place, Literal(frozenset(), none.dtype, none))]))
        scope.body.append(loop)
        self.states[first] = [place]

    def leaf(self, level_roots: Sequence[Root], scope: Scope) -> None:
        """The statements of roots whose axes are all bound."""
        scans = [r for r in level_roots if isinstance(r.of, Scan)]
        self.advance(scans, scope)
        gone = [self.states[r.fold] for r in scans]
        rest = []
        for root in level_roots:
            if isinstance(root.of, Store) or self.states[root.of] not in gone:
                rest.append(root)
                gone += [] if isinstance(root.of, Store) else [self.states[root.of]]
        inputs = [v for r in rest for v in r.inputs()]
        self.keep_some(rest, walk(inputs, lambda v: scope.find(v) is not None), scope)
        values = scope.values(inputs)
        for root in rest:
            if isinstance(root.of, Store):
                store = root.of
                mask = None if store.mask is None else values[store.mask]
                scope.body.append(self.write(store, values[store.value], mask))
                self.forget_kept(store)
                if store.value in self.kept and store not in self.aside and self.may_wait(
                        store.value, root):
                    self.leave(store.value, store)  # where it stays
            else:
                self.update(root, scope, values)

    def keep_some(self, level_roots: Sequence[Root], values: Sequence[Value],
                  scope: Scope) -> None:
        """Let folds write those of `values` that wait in outputs; later loops read them there."""
        folded = [frozenset(r.loops) for r in level_roots if r.over]
        for value in values:
            if value in self.kept and value in self.buffered:
                scope.known[value] = scope.let(self.buffered[value])
            elif value in self.kept and value.axes in folded:
                store = self.kept[value]
                made = scope.value(value)  # may be made of what was kept there so far
                self.forget_kept(store, value)
                scope.known[value] = made if isinstance(made, Named) else scope.let(made)
                scope.body.append(self.write(store, scope.known[value], None))
                self.leave(value, store)

    def write(self, store: Store, value: Value, mask: Value | None) -> Statement:
        """What puts a value where `store` does, or with rows that lie side by side."""
        aside = self.aside.get(store)
        return Assign(aside, value) if aside else Write(
            store.operand, store.access, value, store.mode, mask)

    def leave(self, value: Value, store: Store) -> None:
        """A value is from now on found where `store` writes."""
        self.kept[value] = store
        aside = self.aside.get(store)
        self.buffered[value] = replace(aside, axes=value.axes) if aside else Load(
            value.axes, value.dtype, store.operand, store.access)

    def may_wait(self, value: Value, root: Root) -> bool:
        """Whether what is read where `root` stores is a value that was written there."""
        return isinstance(root.of, Store) and not root.given and holds(root.of, value, self.spec)

    def forget_kept(self, store: Store, by: Value | None = None) -> None:
        """What waited where `store` writes is stored over, `by` what waits there next, if any."""
        for value in [v for v, at in self.kept.items() if at.operand == store.operand]:
            if value in self.buffered:
                del self.buffered[value], self.kept[value]
                self.gone[value] = by

    def advance(self, scans: Sequence[Root], scope: Scope) -> None:
        """One more element of scans; their values here are known from now on."""
        done: list[list[Named | Element]] = []
        for root in scans:
            states = self.states[root.fold]
            if states not in done:
                done.append(states)
                twins = [r.of for r in scans
                         if isinstance(r.of, Scan) and self.states[r.of] is states]
                values = scope.values(root.inputs())
                self.show([t for t in twins if t.exclusive], scope)
                self.update(root, scope, values)
                self.show([t for t in twins if not t.exclusive], scope)

    def show(self, scans: Sequence[Scan], scope: Scope) -> None:
        """The values of scans in their present states."""
        for scan in scans:
            program = scan.program
            [result] = inline(program.finish, self.states[scan][:len(program.state)])
            value = scope.known[scan] = scope.let(convert(result, scan.dtype))
            if scan in self.planned:
                scope.body.append(Assign(self.planned[scan], value))
                self.buffered[scan] = self.planned[scan]

    def update(self, root: Root, scope: Scope, values: dict[Value, Value]) -> None:
        """One more element of a fold."""
        fold = root.of
        assert isinstance(fold, Fold)
        program, targets = fold.program, self.states[fold]
        state: list[Value] = [*targets[:len(program.state)]]
        if state[0].dtype != program.state[0]:
            scope.body.append(Assign(targets[0], narrow_sum(fold, state[0], values)))
            return
        position = FoldIndex(frozenset(fold.over), program.index_dtype, fold.over)
        if isinstance(fold, Place):
            both = [*self.states[fold.top], *state, values[fold.arg], position]
            best, place = inline(program.combine, both)
            made = scope.values([best, place])
            scope.body.append(Assign(targets[0], made[place]))
            self.better[fold.top] = made[best]
            return
        if fold in self.better:  # chosen as its place is, by the same condition
            scope.body.append(Assign(targets[0], self.better.pop(fold)))
            return
        more = fold.more if isinstance(fold, Scan) else ()
        element = [values[v] for v in (fold.arg, *more)] + ([position] if program.index else [])
        new = inline(program.combine, [*state, *element])
        if fold.where is not None:
            new = [Op(v.axes, v.dtype, SELECT, (values[fold.where], v, s))
                   for v, s in zip(new, state, strict=True)]
        made = scope.values(new)  # all components from the old state, then all at once
        new = [scope.let(made[v]) if len(new) > 1 else made[v] for v in new]
        assign: list[Statement] = [Assign(t, v) for t, v in zip(targets, new, strict=False)]
        if len(targets) > len(program.state):
            first = [*inline(program.start, element),
                     Literal(frozenset(), np.dtype(bool), np.True_)]
            begin: list[Statement] = [Assign(t, v) for t, v in zip(targets, first, strict=True)]
            scope.body.append(If(targets[-1], assign, begin))
        else:
            scope.body.extend(assign)


def narrow_sum(fold: Fold, lane: Value, values: Mapping[Value, Value]) -> Value:
    """A lane that is narrower than the state of a sum, and one more element.

    They are added as C adds, as numbers of the state, of which the lane takes what it can hold.  Of
    what is chosen gcc makes branches, but not of products.
    """
    of = values[fold.arg]
    element = convert(of.arg if isinstance(of, Convert) else of, lane.dtype)
    if fold.where is not None:
        mask = convert(values[fold.where], lane.dtype)
        element = Op(element.axes, lane.dtype, OPS["multiply"], (element, mask))
    return Op(lane.axes | element.axes, fold.program.state[0], OPS["add"], (lane, element))


def target_of(name: str, dtype: np.dtype, strip: str | None) -> Named | Element:
    """A variable, or its element in a strip."""
    if strip is None:
        return Named(frozenset(), dtype, name)
    return Element(frozenset({strip}), dtype, name, at=strip)
