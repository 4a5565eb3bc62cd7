"""Which outputs and folds share a loop, along which lines, and what of it has to outlive it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace

from .accesses import line_of, may_turn, runs_along
from .cost import DEAR, HEAVY, calls, is_mask_of
from .layout import Layout
from .nest import (
    Assign,
    Let,
    Local,
    Loop,
    Statement,
    names_made,
    names_used,
)
from .order import few_axes, roots
from .records import dataclass
from .refold import loads_of
from .roots import HOLDS, Root, axis_of, in_strips, next_axis, remaining
from .specialize import HELD, LATE, Across, read_across, steps_across
from .values import (
    SHORT,
    VECTOR,
    ZERO,
    Access,
    At,
    First,
    Fold,
    Load,
    Op,
    Scan,
    Specialized,
    Store,
    Value,
    is_fold,
    roots_of,
    walk,
)

COMPARED = 10  # pairs of addresses that gcc compares before a loop in vectors, at most
FEWEST = 4  # lines that are turned in tiles, at least
SQUARE = 32  # bytes of a line of a square in registers: of large arrays as many lines are turned


def same_states(a: Store | Fold, b: Store | Fold) -> bool:
    """Whether two folds or scans go through the same states, whatever they give of them."""
    if not isinstance(a, Fold) or not isinstance(b, Fold) or a.program.lanes or b.program.lanes:
        return False
    before = ((v.program.combine, v.args, v.over, v.where, getattr(v, "reverse", False))
              for v in (a, b))
    return next(before) == next(before)


def rows_of(access: Access, layout: Layout, within: Collection[str] = ()
            ) -> tuple[str | None, bool]:
    """The axis of the rows that are lines of memory ("": there is one row), and if they go on.

    Rows `within` are taken together, and the access of a merged axis is ZERO.
    """
    outer = zip(layout.perm, layout.packed, strict=False)
    return next(((access[dim].axis, packed) for dim, packed in reversed([*outer])
                 if access[dim] != ZERO and access[dim].axis not in within), ("", False))


def across(roots_of_loop: Sequence[Root], bound: Sequence[str], spec: Specialized,
           is_there: Callable[[Value], bool]) -> list[Load]:
    """What is read line by line along the outer one of two loops that are left, neither short.

    These are shared by all stores, and by folds by rows, which add to arrays as stores write.  What
    values that are there are made of is not read again.
    """
    axes = {remaining(r, bound) for r in roots_of_loop}
    if in_strips(bound) or len(axes) != 1 or len(outer := next(iter(axes))) != 2 or not (
            spec.axes.keys() >= {*outer}):  # strips and chunks have names of their own
        return []
    if not all(isinstance(r.of, Store) or r.by_rows and r.over.isdisjoint(outer)
               for r in roots_of_loop):  # tiles begin no fold
        return []
    found, shortest = [], min(spec.between(a)[1] for a in outer)
    for value in walk([v for r in roots_of_loop for v in r.inputs()], is_there):
        if isinstance(value, Load) and value.axes.issuperset(outer) and not is_there(value):
            layout = spec.operands[value.operand].layout
            # fewer are read again from caches, as is what is narrow and near
            size = value.dtype.itemsize
            least = min(FEWEST, SQUARE // size) if spec.large else FEWEST if size > 2 else VECTOR
            if shortest >= least and layout.unit and runs_along(
                    value.access, layout.perm, outer[0]):
                found.append(value)
    return found


def crossing(spec: Specialized) -> tuple[Across, ...]:
    """What is read across by stores (`read_across`), and by folds along rows: as there."""
    found, values = dict.fromkeys(read_across(spec)), walk(roots_of(spec.stores))
    lines = {line_of(v, spec) for v in values
             if isinstance(v, Load)}
    dear = calls(values)
    if len(lines) > 1 and any(isinstance(v, Fold) for v in values):
        for root in roots(spec):
            if root.over and not in_strips(root.order):
                order = [*map(axis_of, root.order)]
                for load in loads_of(root.fold, spec):
                    held = LATE if dear or load.dtype.itemsize <= 4 else HELD
                    found |= steps_across(load, order, held, spec)
    return tuple(found)


def beside(roots_of_loop: Sequence[Root], bound: Sequence[str], spec: Specialized,
           is_there: Callable[[Value], bool]) -> list[Load]:
    """What is read line by line along the rows of which each turn of the last loop takes one.

    Where stores and folds need all of a row, a tile does not do.  What is turned one by one takes
    longer than to be read across, and so do short rows, but where functions are called, which let
    no later line be asked for while they compute.  The last row does not come first; around a few
    elements loops may go back, in lanes.  As above, what `is_there` counts, not what it is made of.
    """
    back = any(isinstance(r.of, Scan) and r.of.reverse and bound[-1] in r.over
               for r in roots_of_loop if bound)
    if not bound or back or in_strips(bound):
        return []
    found, few, inside = [], few_axes(spec), axes_inside(roots_of_loop, bound)
    values = walk([v for r in roots_of_loop for v in r.inputs()], is_there)
    for value in values:
        if isinstance(value, Load) and not (value.axes.isdisjoint(inside) or is_there(value)):
            inner = [a for a in inside if a in value.axes]
            short = spec.between(inner[-1])[1] < VECTOR
            if few.isdisjoint(inner) and (not short or calls(values)) and may_turn(
                    value, bound[-1], SHORT if short else VECTOR, spec):
                found.append(value)
    return found


def axes_inside(roots_of_loop: Sequence[Root], bound: Sequence[str]) -> tuple[str, ...]:
    """The axes of the loops that are left, in order."""
    return tuple(dict.fromkeys(axis_of(a) for r in roots_of_loop for a in remaining(r, bound)))


def around_few(roots_of_loop: Sequence[Root], bound: Sequence[str], spec: Specialized) -> bool:
    """Whether vectors go along a loop around those of few elements, which the compiler unrolls.

    Where these are next to each other, it finds out by itself whether vectors are easily had, but
    not of more than it compares the addresses of; what does not change along the loop around is no
    matter.
    """
    rows = {a for r in roots_of_loop for a in remaining(r, bound)}
    if not rows or not rows <= few_axes(spec):
        return False
    loads = walk((v for r in roots_of_loop for v in r.inputs()), is_fold)
    used = [v for v in (*loads, *(r.of for r in roots_of_loop)) if isinstance(v, (Load, Store))
            and any(bound[-1] in at.axes for at in v.access)]
    read = sum(math.prod([spec.between(a)[1] for at in v.access for a in at.axes if a in rows])
               for v in used if isinstance(v, Load))
    written = sum(isinstance(v, Store) for v in used)
    return written * read > COMPARED or not any(
        runs_along(v.access, spec.operands[v.operand].layout.perm, a) for v in used for a in rows)


@dataclass
class Segment:
    """Roots that share the loop over `axis`; None: nothing is left to loop over.

    `reverse` is the direction of scans along that axis; None: there are none.
    """

    axis: str | None
    reverse: bool | None = None
    roots: list[Root] = field(default_factory=list)

    @property
    def in_pieces(self) -> bool:
        """Whether all that the loop does, it does apart for every index."""
        return self.axis is not None and not any(self.axis in r.over for r in self.roots)

    @property
    def chunked(self) -> bool:
        """Whether a loop at the top folds what can be folded in chunks, and merged."""
        axis = self.axis and axis_of(self.axis)
        return any(axis in r.over and r.merges for r in self.roots)

    def side(self) -> tuple[Value, bool]:
        """The condition of a choice, and whether it holds on the side that is entered."""
        assert self.roots[0].given is not None and self.axis is not None
        return self.roots[0].given, self.axis.startswith(HOLDS)

    def takes(self, root: Root, reverse: bool | None, bound: Sequence[str]) -> bool:
        """Whether a root, which enters a loop within those over `bound`, may share this one."""
        if self.axis != next_axis(root, bound):
            return False
        merges = {r.merges for r in (root, *self.roots) if self.axis in r.over}
        if not bound and len(merges) > 1:
            return False  # at the top, what can be folded in chunks is
        if len({isinstance(r.of, First) and self.axis in r.over for r in (root, *self.roots)}) > 1:
            return False  # what is looked for ends the loop
        if self.reverse is None or reverse is not None:
            return self.reverse == reverse
        rest = remaining(root, bound)
        if isinstance(root.of, Store):
            return any(r.of in root.needs and remaining(r, bound) == rest for r in self.roots)
        return any(same_states(r.of, root.of) for r in self.roots)


def loops(level_roots: Sequence[Root], bound: tuple[str, ...],
          apart: Collection[Root] = (), alone: Collection[Root] = ()) -> list[Segment]:
    """The loops of one level: each root enters the first loop that it can.

    Those that go `apart` enter none in which what they need ends; those that go `alone` share
    theirs with those of their order only, and with stores of what they give.
    """
    def fits(root: Root, segment: Segment) -> bool:
        return isinstance(root.of, Store) or all(
            r.order == root.order if root in alone else r not in alone for r in segment.roots)

    found: list[Segment] = []
    place: dict[Fold, int] = {}
    for root in level_roots:
        axis = next_axis(root, bound)
        reverse = root.of.reverse if isinstance(root.of, Scan) and axis in root.over else None
        earliest = 0
        for need in root.needs:
            if need not in place:
                continue  # done outside
            at = place[need]
            if axis is not None and axis_of(axis) in root.apart.get(need, ()):
                shares = False
            elif axis is None or axis_of(axis) in need.over:  # here it ends
                shares = isinstance(need, Scan) and found[at].takes(root, reverse, bound)
            else:
                shares = found[at].axis == axis and root not in apart and root.waits != axis and (
                    root not in alone) and fits(root, found[at])
            earliest = max(earliest, at if shares else at + 1)
        for k in range(earliest, len(found)):
            if found[k].takes(root, reverse, bound) and fits(root, found[k]):
                break
        else:
            k = len(found)
            found.append(Segment(axis, reverse))
        found[k].roots.append(root)
        if isinstance(root.of, Fold):
            place[root.of] = k
    return found


def scans_of_few(some: Sequence[Root], spec: Specialized) -> bool:
    """Whether registers hold the states of a loop over strips: of one, of a few scans.

    The compiler has to know how many, so that no threads share them; functions and quotients of so
    few would be no vectors.
    """
    axis = some[0].order[0]
    low, high = spec.between(axis_of(axis)) if axis.endswith("/") else (0, VECTOR)
    return low == high < VECTOR and any(isinstance(r.of, Scan) for r in some) and not any(
        isinstance(v, Op) and v.op.cost >= DEAR for v in walk(
            (v for r in some for v in r.inputs()), is_fold))


def waves(scans_and_stores: Sequence[Root]) -> list[list[Root]]:
    """What shares a loop, scans that call functions of others after these, and stores at last."""
    wave: dict[Store | Fold, int] = {}
    for root in scans_and_stores:
        below = walk(root.inputs(), is_fold)
        called = [v for v in below if isinstance(v, Op) and v.op.cost >= HEAVY]
        after = (wave[v] + 1 for v in walk(called, is_fold) if isinstance(v, Scan) and v in wave)
        wave[root.of] = max((*after, *(wave[v] for v in below if v in wave)), default=0)
    stores = [r for r in scans_and_stores if isinstance(r.of, Store)]
    scans = [r for r in scans_and_stores if isinstance(r.of, Scan)]
    folded = len(stores) + len(scans) < len(wave)  # what scans give
    if not any(wave.values()) or folded:
        return [[*scans_and_stores]]
    return [*([r for r in scans if wave[r.of] == k] for k in sorted({wave[r.of] for r in scans})),
            stores]


def functions_of_rows(top_roots: Sequence[Root]) -> list[Root]:
    """What only calls functions of what rows give: in a loop of its own, vectors go along the rows.

    None does if something else needs the same functions, for it would call them again, or if
    vectors go along the rows anyway, in strips.
    """
    strips = {r.of for r in top_roots if in_strips(r.order)}

    def own(root: Root) -> list[Value]:
        return [v for v in walk(root.inputs(), is_fold) if v.axes]

    found = [r for r in top_roots if r.needs and not isinstance(r.of, Scan) and calls(own(r))
             and all(n.axes == frozenset(r.order) and not isinstance(n, Scan) for n in r.needs)
             and strips.isdisjoint(r.needs)]
    dear = {v for r in found for v in own(r) if calls([v])}
    return [] if any(dear.intersection(own(r)) for r in top_roots if r not in found) else found


def carried(wanted: Sequence[Value], late: Mapping[Fold, Collection[Fold]],
            known: Mapping[Value, Fold | None]) -> dict[Value, Fold]:
    """What has to outlive the loops in which the folds in `late` end, for `wanted` values.

    These are the largest values that can be computed there: `late` tells which folds each of its
    folds could use, `known` what is in buffers, or will be when a fold ends.  Every value comes
    with the fold that it has to wait for; not masks of numbers that are kept.
    """
    waits: dict[Value, Fold | None] = {}  # of what can be computed there
    found: dict[Value, Fold] = {}
    for value in walk(wanted, lambda v: isinstance(v, Fold) or v in known):
        if isinstance(value, At) and waits.get(value.fold):
            found[value.fold] = value.fold  # type: ignore[assignment]
        if isinstance(value, (At, Scan)):
            continue  # in buffers of their own, which may not be complete there
        if value in known:
            waits[value] = known[value]
        elif isinstance(value, Fold):
            if value in late:
                waits[value] = value
        else:
            folds = {f for a in value.args if (f := waits.get(a))}
            last = next((f for f in folds & late.keys()
                         if all(g in late[f] for g in folds - {f})), None)
            if all(a in waits for a in value.args) and (
                    not folds or last is not None and value.axes <= last.axes):
                waits[value] = last
            else:
                found.update((a, f) for a in value.args if (f := waits.get(a)))
    found.update((v, f) for v in wanted if (f := waits.get(v)))
    kept = {*found, *known}
    return {v: f for v, f in found.items()
            if v not in known and not is_mask_of(v, kept.__contains__)}


def pair_scans(body: list[Statement]) -> None:
    """Let scans from either end of an axis share a loop: each waits for its own last state."""
    places = [k for k, s in enumerate(body) if isinstance(s, Loop)]
    for a, b in reversed(list(zip(places, places[1:], strict=False))):
        first, second = body[a], body[b]
        if not isinstance(first, Loop) or not isinstance(second, Loop):
            continue  # what stood here went into a pair
        between = body[a + 1:b]
        plain = all(isinstance(s, (Let, Local, Assign))
                    for s in (*first.body, *between, *second.body))
        hidden = names_made(first.body) & (names_used(second.body) | names_used(between))
        changed = names_made([*between, *second.body]) & names_used(first.body)
        if plain and not hidden | changed and (
                first.axis == second.axis and first.reverse != second.reverse):
            back = Loop(second.axis, "mirrored", second.body)
            body[a:b + 1] = [*between, replace(first, body=[*first.body, back])]
