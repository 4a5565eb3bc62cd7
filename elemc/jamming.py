"""Several turns of a loop at once, statement beside statement: unroll and jam.

The folds of a row are chains of additions, and often end with a root and a quotient, for which a
processor has nothing else to do: it runs ahead by some hundred instructions, which is less than a
row.  Of two rows, one computes while the other waits.  Of two rows of extrema of columns, one
comparison finds a NaN in either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .accesses import read_again
from .blocks import QUICK, divided
from .cost import HEAVY, JAMMED, SEVERAL_STREAMS, STREAM, STREAMED, cost, jams
from .dtypes import ctype
from .nest import (
    Assign,
    Blocks,
    If,
    Kernel,
    LaneLoop,
    Let,
    Local,
    Loop,
    Statement,
    Write,
    statements,
    values_of,
)
from .nest_leaves import Element, Named
from .ops import OPS
from .values import (
    ASKED,
    FILLED,
    SLICES,
    At,
    Fold,
    Load,
    Op,
    Specialized,
    Value,
    over_new,
    roots_of,
    walk,
)

WITH_NAN = (OPS["maximum"], OPS["minimum"])  # the result is NaN if any operand is
FOURS, ROWS_IN_TURN = 4, 8  # side by side; block by block
MEETING = 6, 7, 5  # turns that fold the same rows: as many as leave the fewest, of few all
STREAMS, MANY_REGISTERS = "STREAMS", "!FEW_REGISTERS"  # in C, whether turns at once are faster here
PREFIXES = "next_", "other_", "third_", "fourth_"  # of the names of a next row, and of turns


def jam(kernel: Kernel, spec: Specialized) -> None:
    """Let loops over rows take two turns at once, or some in turn, where that pays."""
    for phase in kernel.phases:
        for item in statements(phase.body):
            if isinstance(item, Loop):
                item.at_once = max(item.at_once, _shared_by(item, spec))
            if not isinstance(item, (Loop, Blocks)) or not _rows_apart(item):
                continue
            if _pays(item, spec) or adds_slices(item) and _goes_far(item, spec):
                item.at_once = 2
                item.sooner = MANY_REGISTERS if _fills_registers(item) else ""
            elif isinstance(item, Loop) and (several := _streams(item, spec)):
                item.at_once, item.sooner = FOURS // several, STREAMS
        for rows, row in _over_rows(phase.body):
            if _share_much(rows, row, spec):
                rows.at_once = ROWS_IN_TURN
                row.asks = frozenset()  # each asks for what follows in its own row


def strips_of(item: Loop) -> list[Blocks]:
    """The folds of rows along strips, into states of their own, in a loop that mixes its turns.

    Several turns fold, some of them twice, before the first goes on: what follows goes turn by
    turn, and no fold reads what other turns leave.
    """
    found: list[Blocks] = []
    for s in item.body:
        match s:
            case Loop(kind="strip", length="STRIP", lines=(), body=[Blocks() as rows, *rest]):
                found.append(rows)
            case Blocks() as rows:
                found.append(rows)
                rest = []
            case _:
                rest = [s]
        if not all(isinstance(r, (Let, Write)) or isinstance(r, Loop) and r.kind in (
                "lane", "parts") for r in rest):
            return []
    plain = item.kind == "plain" and not (item.reverse or item.independent or item.lines)
    return found if plain and all(map(_adds_rows, found)) else []


def _adds_rows(rows: Blocks) -> bool:
    """Whether a fold adds several rows at a time to a strip of states, and does nothing else."""
    *lets, lane = rows.body
    return (rows.strip is not None and rows.run > 1 and not (rows.packed or rows.laned)
            and all(f.part is None and f.rows is None for f in rows.folds)
            and all(isinstance(s, Let) for s in lets)
            and isinstance(lane, Loop) and lane.kind == "lane")


def _shared_by(item: Loop, spec: Specialized) -> int:
    """How many turns at once read what they fold once for all, if that pays; or 1.

    So products of matrices are folded, and distances, by as many rows as there are registers for.
    """
    strips = strips_of(item)
    if not strips or sum(len(rows.folds) for rows in strips) > 1:
        return 1
    values = walk(v for s in statements(strips[0].body) for v in values_of(s))
    shared = [v for v in values if isinstance(v, (Load, Element)) and strips[0].strip in v.axes]
    if cost(values) >= HEAVY or not shared or any(item.axis in v.axes for v in shared):
        return 1
    low, high = spec.between(item.axis)
    if high <= max(MEETING):
        return max(1, high)
    return MEETING[0] if low < high else min(MEETING, key=lambda n: high % n)


def _over_rows(body: Sequence[Statement]) -> Iterator[tuple[Loop, Loop]]:
    """Loops in which there is nothing but a loop along a row, and those; in no tiles or strips."""
    for item in body:
        match item:
            case Loop(kind="plain", reverse=False, body=[Loop(kind="plain") as row]):
                yield item, row
        if isinstance(item, Loop) and item.kind == "plain":
            yield from _over_rows(item.body)


def _share_much(rows: Loop, row: Loop, spec: Specialized) -> bool:
    """Whether rows go past the caches, in lines of as many elements, and share more than FILLED.

    Blocks are half as long as arrays of LINE elements, and begin with a line: of bytes, that may be
    as many elements again, or more than the array holds.
    """
    loads = [v for v in walk(v for s in row.body for v in values_of(s)) if isinstance(v, Load)]
    again = [v for v in read_again(loads, row.axis, spec.operands) if rows.axis not in v.axes]
    size = sum(v.dtype.itemsize for v in again)
    sizes = {spec.operands[w.operand].dtype.itemsize for w in row.lines}
    return len(again) > 1 and len(sizes) == 1 and min(sizes) > 1 and (
        spec.between(row.axis)[0] * size > FILLED)


def _pays(item: Loop | Blocks, spec: Specialized) -> bool:
    """Whether a row has folds enough to wait for, and is long enough.

    Of memory, it has to compute enough not to wait for that, too.
    """
    rows = [s for s in item.body if isinstance(s, LaneLoop)]
    folds = [v for v in walk(roots_of(spec.stores)) if isinstance(v, Fold)]
    near = not (spec.far or spec.large) or isinstance(item, Loop) and cost(
        walk(v for s in statements(item.body) for v in values_of(s))) >= HEAVY
    return bool(rows) and near and all(
        spec.between(row.axis)[0] >= (ASKED if spec.far else JAMMED)
        and not any(f.tree or f.top for f in row.folds)
        and jams(row.axis, folds) for row in rows)


def _fills_registers(item: Loop | Blocks) -> bool:
    """Whether the lanes of several folds of doubles, of two rows, take more than 16 registers."""
    return any(len([f for f in row.folds if f.size > 4]) > 1
               for row in item.body if isinstance(row, LaneLoop))


def _streams(item: Loop, spec: Specialized) -> int:
    """How many arrays come from memory in long rows, one or two, with which little is done; or 0.

    Chunks of an axis are rows, too.  There are machines that send four streams sooner than one,
    however that is asked for (`SUM_ROWS` in the C is what was measured).
    """
    match [s for s in item.body if isinstance(s, (Loop, LaneLoop, Blocks))]:
        case [LaneLoop(axis=axis, folds=folds) as row] if spec.far:
            chunk = item.axis.startswith(f"{axis}:")
            values = walk(v for s in statements([row]) for v in values_of(s))
            over = {axis} if chunk else {item.axis, axis}
            loads = [v for v in values if isinstance(v, Load) and over <= v.axes]
            least = STREAM if len(loads) == 1 else SEVERAL_STREAMS
            along = all(spec.operands[v.operand].layout.unit and (
                chunk or spec.between(axis)[0] * v.dtype.itemsize >= least) for v in loads)
            light = cost(values) <= STREAMED and not any(f.top for f in folds)
            return len(loads) if along and light and len(loads) in (1, 2) else 0
    return 0


def adds_slices(item: Loop | Blocks) -> bool:
    """Whether all that every row does is to be added to a row of states, slice by slice."""
    if not isinstance(item, Blocks):
        return False
    axes, body = set[str](), item.body
    while len(body) == 1 and isinstance(body[0], Loop):
        axes.add(body[0].axis)
        body = body[0].body
    return all(f.rows and axes.issubset(f.rows.dims) for f in item.folds) and all(
        isinstance(s, (Let, Assign)) for s in body)


def _goes_far(item: Loop | Blocks, spec: Specialized) -> bool:
    """Whether rows are of many slices, whose states take long to go to and fro.

    Of a few, one row after the other comes from memory sooner.
    """
    inner = [s for s in statements(item.body) if isinstance(s, Loop)]
    light = cost(walk(v for s in statements(item.body) for v in values_of(s))) < HEAVY
    return light and any(spec.between(s.axis)[0] > SLICES for s in inner[:-1])


def _rows_apart(item: Loop | Blocks) -> bool:
    """Whether two turns may mix: neither needs what the other leaves, but states are added to."""
    if isinstance(item, Loop):
        plain = (item.kind == "plain" or item.kind == "chunks" and item.shared) and not (
            item.reverse or item.independent or item.lines)
    else:
        plain = item.strip is None and all(f.rows for f in item.folds)
    states = {f.name for f in item.folds} if isinstance(item, Blocks) else set[str]()
    inside = [*statements(item.body)]
    blocks = {s.name for strip in inside if isinstance(strip, Loop) and divided(strip)
              for s in strip.body if isinstance(s, Local)}
    shifted = {v.fold.name for v in walk(v for s in inside for v in values_of(s))
               if isinstance(v, At) and isinstance(v.fold, Element)}

    def apart(statement: Statement) -> bool:
        match statement:
            case Let() | Write():
                return True
            case Loop():
                return statement.kind in ("plain", "lane", "called") or divided(statement)
            case Local():
                return statement.name in blocks
            case If():  # its statements are among these
                return statement.condition is QUICK
            case LaneLoop():  # of a row, not of what a loop in it goes through
                return statement in item.body
            case Assign(target=Element() as target):
                own = target.at == "lane" or item.axis in target.dims or target.name in blocks
                return target.name in states or own and target.name not in shifted
        return False

    return plain and all(map(apart, inside))


def other_turn(body: Sequence[Statement], taken: set[str], k: int) -> list[Statement]:
    """The same statements, under names that are not `taken`.

    `k` tells several of them apart; 0 is the next row of one turn.
    """
    own = {s.name for s in statements(body) if isinstance(s, Let)}
    folds = {f.name for s in statements(body) if isinstance(s, (LaneLoop, Blocks))
             for f in s.folds}
    names, first = own | folds | {f"{name}_lane" for name in folds}, PREFIXES[k]
    prefix = first
    while not taken.isdisjoint(prefix + n for n in names):
        prefix += first
    return [_renamed(s, {n: prefix + n for n in names}) for s in body]


def by_two(body: Sequence[Statement]) -> dict[str, tuple[str, Value]]:
    """Of folds that look for NaN: functions of the state and two values, and one; else nothing."""
    found = {}
    for s in body:
        match s:
            case Let():
                pass
            case Assign(Element(name=name), Op(op=op, operands=(Element(name=state), value))) if (
                    state == name and op in WITH_NAN and value.dtype.char in "fd"):
                found[name] = f"{op.name}_of_{ctype(value.dtype).suffix}", value
            case _:
                return {}
    used = walk([*(v for s in body if isinstance(s, Let) for v in values_of(s)),
                 *(value for _, value in found.values())])
    return {} if any(isinstance(v, Element) and v.name in found for v in used) else found


def renamed(values: Sequence[Value], names: Mapping[str, str]) -> dict[Value, Any]:
    """All that is below `values` with some variables renamed."""
    new: dict[Value, Any] = {}
    for value in walk(values):
        if isinstance(value, (Named, Element)) and value.name in names:
            new[value] = replace(value, name=names[value.name])
        else:
            new[value] = over_new(value, new)
    return new


def _renamed(item: Statement, names: Mapping[str, str]) -> Statement:
    """A statement with the variables that it makes renamed."""
    new = renamed([*values_of(item)], names)
    match item:
        case Let():
            return replace(item, name=names[item.name], value=new[item.value])
        case Assign():
            return replace(item, target=new[item.target], value=new[item.value])
        case Write():
            mask = None if item.mask is None else new[item.mask]
            return replace(item, value=new[item.value], mask=mask)
        case LaneLoop() | Blocks():
            folds = [replace(f, name=names[f.name]) for f in item.folds]
            return replace(item, folds=folds, body=[_renamed(s, names) for s in item.body])
        case Loop():
            return replace(item, body=[_renamed(s, names) for s in item.body])
        case Local():
            return item
        case If():
            return replace(item, body=[_renamed(s, names) for s in item.body],
                           rest=[_renamed(s, names) for s in item.rest])
    raise AssertionError(type(item).__name__)
