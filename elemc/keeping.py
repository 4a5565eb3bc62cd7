"""What outlives the loop that computes it: in a buffer, a row, or the output that it is for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import field, replace

from .accesses import line_of
from .blocks import of_many
from .cost import HEAVY, cost
from .folding import Folding
from .nest import Assign, Local, Loop
from .nest_leaves import Element
from .once import once
from .order import few_axes
from .records import dataclass
from .roots import Root, axis_of, folds_below, next_axis, open_strip
from .scope import Overwritten, Scope
from .sharing import Segment, carried
from .values import (
    BLOCK,
    LINED,
    SHORT,
    At,
    Fold,
    Load,
    Op,
    Scan,
    Specialized,
    Store,
    Value,
    is_fold,
    walk,
)

WAITS = {"divide": 1, "reciprocal": 1, "sqrt": 2}  # how long each byte of an element takes
FAR_OPERANDS = 3  # take longer to come from memory again than what they make, there and back
WAITED = 8  # as long as the quotient of two doubles, or a root of floats, takes


@dataclass
class Learned:
    """What is known of values that wait in outputs, from the loops as they were laid out before."""

    never: set[Value] = field(default_factory=set)  # these are stored over too soon
    stays: set[Value] = field(default_factory=set)  # none is to wait where these do

    def learn(self, early: Overwritten) -> None:
        """Take care that this does not happen again."""
        if early.by is None:
            self.never.add(early.lost)
        elif early.lost in self.stays:  # what took its place waited before
            self.never.add(early.by)
        else:
            self.stays.add(early.lost)


class Keeping(Folding):
    """What it takes to compute once what several loops of a level need."""

    def __init__(self, spec: Specialized, roots: Sequence[Root], learned: Learned) -> None:
        super().__init__(spec)
        self.roots, self.learned = roots, learned
        self.uses: dict[Fold, frozenset[Fold]] = {}  # the folds that a fold needs, at any depth
        for root in self.roots:
            if isinstance(root.of, Fold):
                self.uses[root.of] = frozenset(root.needs).union(
                    *(self.uses[f] for f in root.needs))
        self.by_rows: set[Fold] = {r.fold for r in self.roots if r.by_rows}
        self.later: Sequence[Segment] = []  # loops after this one, at all levels
        self.near: Sequence[Segment] = []  # those of them that find outputs in a cache
        self.apart: Sequence[Root] = ()  # functions of what rows give, in loops of their own
        self.meeting: Sequence[Root] = ()  # and what meets others, and takes what these loops give

    def compute_once(self, some: Sequence[Root]) -> bool:
        """The phases of what the loops of some roots would compute again and again, if any."""
        ahead = once(some, self.spec, self.buffered.__contains__)
        for axes in dict.fromkeys(ahead.values()):
            scope, values = self.phase(axes[0]), [v for v in ahead if ahead[v] == axes]
            for k, axis in enumerate(axes):
                loop = Loop(axis, "plain", [], independent=axis == axes[-1], shared=not k)
                scope.hoist(values, frozenset(axes[:k]), None)
                scope.body.append(loop)
                scope = scope.inside(loop.body)
            for value in values:
                self.planned[value] = replace(
                    self.buffer("buffer", value.dtype, axes), axes=value.axes)
            self.fill(values, scope)
        return bool(ahead)

    def fill(self, values: Sequence[Value], scope: Scope) -> None:
        """Write values into the buffers that they have; from now on they are found there."""
        made = scope.values(values)
        for value in values:
            scope.body.append(Assign(self.planned[value], made[value]))
            self.buffered[value] = self.planned[value]

    def plan(self, value: Value, over: Collection[str], shared: bool,
             strip: str | None = None) -> None:
        """Give a value a buffer, in the order of most loops over these axes, and a strip."""
        orders = Counter(tuple(a for a in r.loops if a in over)
                         for r in reversed(self.roots) if {*over} <= {*r.loops})
        [(axes, _)] = orders.most_common(1) or [(tuple(a for a in self.spec.axes if a in over), 0)]
        self.planned[value] = replace(self.buffer("buffer", value.dtype, axes, shared, strip),
                                      axes=value.axes)

    def is_there(self, value: Value) -> bool:
        """Whether a value is what other loops leave, or have left in a buffer."""
        return is_fold(value) or value in self.buffered

    def keep_row(self, segment: Segment, later: Sequence[Segment], inner: tuple[str, ...],
                 scope: Scope) -> list[Value]:
        """Compute before an innermost loop what later ones need, too, and is dear or lies across.

        Along a few elements, whose loops the compiler unrolls, it is others that lie in lines.
        What the math library computes for many elements waits for folds of a long row, too, and of
        a chunk if functions wait for each other: one alone overlaps with what is folded.
        """
        if f"{inner[-1]}/" in inner or any(next_axis(r, inner) for r in segment.roots):
            return []
        few = inner[-1] in few_axes(self.spec)
        met = {v for s in self.later for r in s.roots if r in self.meeting
               for v in walk(r.inputs(), self.is_there)}
        again = {v for s in later if s.axis == inner[-1] for r in s.roots
                 for v in walk(r.inputs(), self.is_there)}
        found: list[Value] = []
        inputs = [v for r in segment.roots for v in r.inputs()]
        low, high = self.spec.between(inner[-1])
        chunked = f"{inner[-1]}:{BLOCK}" in inner
        many: set[Value] = set()
        if chunked or low >= LINED and high <= BLOCK:
            folded = [v for r in segment.roots if inner[-1] in r.over for v in r.inputs()]
            many = {v for v in walk(folded, self.is_there) if of_many(v) and inner[-1] in v.axes
                    and (not chunked or any(map(of_many, walk(v.args, self.is_there))))}
        for value in reversed(walk(inputs, self.is_there)):
            if value not in again | many or value in self.planned or value in self.kept or (
                    value in walk(found, is_fold)):
                continue
            below = walk([value], self.is_there)
            known = all(scope.find(v) for v in below if is_fold(v) or isinstance(v, At))
            dear = cost(v for v in below if inner[-1] in v.axes) >= HEAVY
            waits = any(v in self.kept for v in below)  # in an output, for which a fold writes it
            here = [v for v in below if scope.find(v) is None]
            elsewhere = not few and (self.lies_across(here, inner[-1])
                                     or self.lies_apart(here, inner[-1]))
            if known and not waits and (dear or elsewhere):
                if chunked and value not in again:
                    scope.body.append(self.row_of_chunk(value, inner[-2], scope))
                else:
                    self.plan(value, value.axes if value in met else inner[-1:], value in met)
                found.append(value)
        if found:
            scope.hoist(found, frozenset(inner[:-1]), None)
            loop = Loop(inner[-1], "plain", [], independent=True)
            scope.body.append(loop)
            self.fill(found, scope.inside(loop.body))
        return found

    def row_of_chunk(self, value: Value, chunk: str, scope: Scope) -> Local:
        """An array for a value along the rows of a chunk."""
        name = scope.fresh("row")
        self.planned[value] = Element(value.axes, value.dtype, name, (axis_of(chunk),), "chunk")
        return Local(name, value.dtype, length=self.kernel.chunks[chunk].unit)

    def functions_first(self, segments: Sequence[Segment], bound: tuple[str, ...], scope: Scope
                        ) -> None:
        """Call functions of what the rows of a chunk give, before the first loop that waits."""
        axis = axis_of(bound[-1]) if bound and ":" in bound[-1] else ""
        waiting = [r for s in segments for r in s.roots if axis and r.waits == axis]
        if not any(r in waiting for r in segments[0].roots):
            return
        found = [v for v in self.functions(waiting, axis, (*map(axis_of, bound),), scope)
                 if scope.find(v) is None]
        if found:
            for value in found:
                scope.body.append(self.row_of_chunk(value, bound[-1], scope))
            loop = Loop(axis, "plain", [], independent=True)
            scope.body.append(loop)
            self.fill(found, scope.inside(loop.body))

    def functions(self, some: Sequence[Root], axis: str, bound: Collection[str], scope: Scope
                  ) -> list[Value]:
        """What roots take that calls functions along an axis, and waits for nothing in its loop."""
        inputs = [v for r in some for v in r.inputs()]
        return [v for v in scope.invariant(inputs, frozenset(bound))
                if axis in v.axes and cost(walk([v], is_fold)) >= HEAVY]

    def scans_first(self, scans: Sequence[Root], along: Loop, bound: tuple[str, ...], scope: Scope
                    ) -> None:
        """A loop over a strip for scans alone, which leaves what they give in arrays."""
        axis = along.axis
        scope.rows(self.functions(scans, axis, bound, scope), axis)
        new = {r.fold: scope.fresh("row") for r in scans if r.fold not in self.planned}
        for fold, name in new.items():
            self.planned[fold] = Element(fold.axes, fold.dtype, name, at=axis)
            scope.body.append(Local(name, fold.dtype, True))
        loop = Loop(axis, "lane", [], reverse=along.reverse)
        scope.body.append(loop)
        self.level(scans, bound, scope.inside(loop.body))
        scope.known |= {fold: self.planned[fold] for fold in new}
        self.forget([*new])

    def keep_in_outputs(self, segment: Segment) -> None:
        """Let what is dear here, and later stores need again, wait in their outputs.

        If these are not near by then, it is only what takes longer than to and from memory.
        """
        if any(isinstance(r.of, Scan) for r in segment.roots):
            return
        later = [r for s in self.later for r in s.roots]
        near = [r for s in self.near for r in s.roots]
        ended = {r.of for r in segment.roots}  # what can be computed where one ends has a buffer
        for root in later:
            if not isinstance(root.of, Store):
                continue
            value = self.dear(segment, root, root in near)
            if value is None or value in self.kept or value in self.learned.never:
                continue
            there = {v for v, s in self.kept.items() if s is root.of}
            if there.isdisjoint(self.learned.stays) and not any(
                    n in ended and value.axes <= n.axes for n in folds_below([value])):
                self.kept[value] = root.of

    def remains(self, segment: Segment) -> bool:
        """Whether a loop has anything left to do; stores have not if their values waited there."""
        segment.roots[:] = [r for r in segment.roots if not (
            isinstance(r.of, Store) and r.of.value in self.buffered
            and self.kept.get(r.of.value) is r.of)]
        return bool(segment.roots)

    def dear(self, segment: Segment, root: Root, near: bool) -> Value | None:
        """The largest value that folds of `segment` compute at every element `root` stores.

        On one side of a choice it would be there for some elements; folds that go from the left may
        have it from a stage before.
        """
        axes, again = set(root.loops), walk(root.inputs(), is_fold)
        folds = [r for r in segment.roots if r.merges and not r.side and axes == set(r.loops)]
        if not folds:
            return None
        row = root.loops[-1]
        passes = all(r.kept == (row,) or self.spec.between(row)[1] >= LINED
                     and not (r.kept and row in r.over) for r in folds)
        below = walk([v for r in folds for v in r.inputs()],
                     lambda v: is_fold(v) or v in self.planned)
        return next((v for v in reversed(below) if v in again and v.axes == axes
                     and self.may_wait(v, root) and not isinstance(v, Load)
                     and v not in self.planned
                     and self.costs_more(v, root.loops, passes, near)), None)

    def costs_more(self, value: Value, loops: Sequence[str], passes: bool, near: bool) -> bool:
        """Whether to compute a value along a row again takes longer than to keep it in memory.

        Of several operands it does, if a loop `passes` over many rows before the next one begins;
        if they are not `near` by then, it has to be the dearer the fewer these are, for it goes to
        memory and comes from there, instead of them.
        What lies across comes from elsewhere every time, unless that is across a few elements,
        whose loops the compiler unrolls; with what lies apart comes all that is between, which
        vectors of short rows pick from soon, if these are a few elements.  Roots and divisions take
        long for what they cost: a root, or a quotient of doubles, is worth it in rows that are not
        short, too.
        """
        few, row = few_axes(self.spec), loops[-1]
        below = [v for v in walk([value], is_fold) if v.axes == value.axes]
        operands = {v.operand for v in below if isinstance(v, Load)}
        if not near:
            return passes and (cost(below) >= HEAVY * (FAR_OPERANDS - len(operands))
                               or self.lies_across(below, row, *few))
        several = (passes or self.spec.between(row)[0] > BLOCK) and len(operands) > 1
        time = sum(WAITS.get(v.op.name, 0) * v.dtype.itemsize for v in below if isinstance(v, Op))
        slow = time >= WAITED and (passes or self.spec.between(row)[0] >= SHORT)
        steps = {abs(self.spec.operands[v.operand].layout.step) for v in below
                 if isinstance(v, Load) and row in v.axes}
        apart = 0 in steps or max(steps, default=1) > 1 and self.spec.between(row)[0] >= LINED
        if row in few:  # vectors go along the loop around, or along both
            row = next((a for a in reversed(loops) if a not in few), row)
            return several or slow or cost(below) >= HEAVY or self.lies_across(below, row, *few)
        return several or slow or apart or cost(below) >= HEAVY or self.lies_across(below, row)

    def lies_across(self, values: Sequence[Value], row: str, *few: str) -> bool:
        """Whether lines of what is loaded along a row lie along other axes, but for a few."""
        return any(line not in (row, *few) for v in values if isinstance(v, Load) and row in v.axes
                   for line in line_of(v, self.spec))

    def lies_apart(self, values: Sequence[Value], row: str) -> bool:
        """Whether doubles loaded along a row, long but held by the first cache, have several steps.

        Lanes of a fold pick those that are a few elements apart from what is between.  The loop
        that fills a buffer does so once; of narrower elements that takes longer than to pick again.
        """
        loads = [v for v in values if isinstance(v, Load) and row in v.axes]
        steps = {abs(self.spec.operands[v.operand].layout.step) for v in loads}
        low, high = self.spec.between(row)
        return len(steps) > 1 < max(steps) and LINED <= low and high <= BLOCK and all(
            v.dtype.kind == "f" and v.dtype.itemsize == 8 for v in loads)

    def buffer_late(self, segment: Segment, later: Sequence[Segment], bound: tuple[str, ...],
                    scope: Scope | None) -> None:
        """Give buffers to what folds of `segment`, which end inside its loop, decide elsewhere."""
        users, strip = [r for s in later for r in s.roots], open_strip(bound)
        shared = scope is None
        wanted = {n for r in users for n in r.needs}
        wanted |= {n for r in users for n in folds_below(self.waiting.get(r.of, ()))}
        late: dict[Fold, frozenset[Fold]] = {}
        for root in segment.roots:
            fold = root.of
            if not isinstance(fold, Fold) or fold not in wanted or fold in self.planned:
                continue
            here = segment.axis is None or segment.axis in root.over  # where this level ends it
            if isinstance(fold, Scan):
                self.plan(fold, fold.over if here else fold.axes, shared, strip if here else None)
                continue
            if not here or fold in self.by_rows or (
                    shared and not self.same_phase(later, fold)):
                late[fold] = self.uses[fold]
        around = {axis_of(b) for b in bound if ":" not in b}  # within chunks, the axis goes on
        values = [a for r in users for v in (r, *self.waiting.get(r.of, ()))
                  for a in (r.needs if r in self.apart or r.waits else v.args)]
        pending = {v: f for f, every in self.waiting.items() if isinstance(f, Fold) for v in every}
        known: dict[Value, Fold | None] = {
            v: None if v in self.buffered else pending.get(v) for v in self.planned}
        made = {*walk([v for r in segment.roots for v in r.inputs()], is_fold)}
        known |= dict.fromkeys(v for v in self.kept if v in self.buffered or v in made)
        for value, last in carried(values, late, known).items():
            axes = value.axes - around
            if scope and axes == {axis_of(bound[-1])}:
                scope.body.append(self.row_of_chunk(value, bound[-1], scope))
            else:
                self.plan(value, axes, shared, strip if strip in value.axes else None)
            self.waiting.setdefault(last, []).append(value)

    def same_phase(self, later: Sequence[Segment], fold: Fold) -> bool:
        """Whether all users of a fold that ends at the top run in the same serial phase."""
        for k, other in enumerate(later):
            after = [r for s in later[k:] for r in s.roots]
            if (other.in_pieces or other.chunked) and any(fold in r.needs for r in after):
                return False
        return True
