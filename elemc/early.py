"""Folds of everything that are decided early: once one `any` is true, no other chunk is looked at.

The thread that finds it tells the others by `decided`, which all of a call share: they leave their
chunks alone, and say that these are decided, too.  Of places that are looked for, the first one
found decides the chunks behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce

import numpy as np

from .close import INDEX
from .nest import Assign, Blocks, If, LaneLoop, Let, Local, Loop, Statement, statements
from .nest_leaves import Element, Named
from .ops import OPS
from .places import falls_short
from .programs import inline
from .quotients import operation
from .values import Affine, First, Fold, Literal, Op, Place, Position, Value

BOOL = np.dtype(bool)
NOTHING = frozenset[str]()
DECIDES = {"logical_or": np.True_, "logical_and": np.False_}  # whatever else is merged with it


def decides(fold: Fold) -> np.bool_ | None:
    """The state that no other element changes, if there is one."""
    if not fold.merges or fold.program.state[0] != BOOL or len(fold.program.state) > 1:
        return None
    states = [Named(NOTHING, BOOL, name) for name in "ab"]
    [merge] = inline(fold.program.merge, states)
    if isinstance(merge, Op) and set(merge.operands) == {*states}:
        return DECIDES.get(merge.op.name)
    return None


def comes_first(fold: Fold, axis: str) -> bool:
    """Whether this is the least of places along an axis: those of later chunks do not count."""
    program = fold.program
    return bool(program.place_of) and len(program.state) == 1 and not isinstance(fold, Place) and (
        fold.over[0] == axis)


def ends_early(folds: Sequence[Fold], axis: str) -> bool:
    """Whether of all chunks along an axis the first ones may decide what these folds are."""
    return all(decides(f) is not None for f in folds) or all(comes_first(f, axis) for f in folds)


def leave_early(loop: Loop, parts: Mapping[Fold, Element], absent: Value | None) -> Loop:
    """A loop over chunks of folds, whose states are `parts`, that ends where all are decided.

    That ends it for all threads; where places are found, for chunks behind, or where the place is
    `absent`.  It stays as it is if it does something else.
    """
    inside = [*statements(loop.body)]
    made = {s.target for s in inside if isinstance(s, Assign)}
    stores = {t for t in made if isinstance(t, Element) and t.at != "lane"}
    kept = any(len(part.dims) > 1 for part in parts.values())
    if kept or not parts or stores != {*parts.values()} or not all(
            isinstance(s, (Let, Local, Assign, LaneLoop, Blocks, Loop, If)) for s in inside):
        return loop
    last = {part: _last(fold) for fold, part in parts.items()}
    ends: list[Statement] = [Assign(part, end) for part, end in last.items()]
    if all(end.dtype == BOOL for end in last.values()):
        decided = Named(NOTHING, BOOL, "*decided")
        every = _all(part if end.value else _op("logical_not", part) for part, end in last.items())
        loop.body = [If(decided, ends, [*loop.body, Assign(decided, every)])]
        return loop
    decided = Named(NOTHING, INDEX, "*decided")  # how many chunks count, once it is known
    chunk = Position(frozenset((loop.axis,)), INDEX, Affine(terms=((loop.axis, 1),)))
    behind = _all((_op("greater", decided, _literal(0)), _op("less_equal", decided, chunk)))
    found = _all(_op("not_equal", part, end) for part, end in last.items())
    counted = Assign(decided, Op(chunk.axes, INDEX, OPS["add"], (chunk, _literal(1))))
    behind = behind if absent is None else _op("logical_or", behind, absent)
    loop.body = [If(behind, ends, [*loop.body, If(found, [counted], [])])]
    return loop


def elsewhere(places: Iterable[Fold], parts: Mapping[Fold, Element],
              known: Callable[[Value], Value]) -> Value | None:
    """That the extrema whose places are looked for are not in this chunk; None if nobody knows.

    `parts` are those of all chunks, if they are folded in the same ones.
    """
    tests = []
    for place in places:
        if not isinstance(place, First) or place.top is None or place.limit is None:
            return None
        top = parts.get(place.top)
        if top is None or top.dims != parts[place].dims:
            return None
        tests.append(falls_short(top, known(place.limit), place.program))
    return _all(tests)


def _last(fold: Fold) -> Literal:
    """What a fold gives of chunks that do not count."""
    decided = decides(fold)
    if decided is not None:
        return Literal(NOTHING, BOOL, decided)
    assert fold.program.neutral is not None
    return Literal(NOTHING, fold.program.state[0], fold.program.neutral[0])


def _literal(number: int) -> Literal:
    return Literal(NOTHING, INDEX, np.int64(number))


def _op(name: str, *args: Value) -> Value:
    return operation(name, BOOL, *args)


def _all(tests: Iterable[Value]) -> Value:
    return reduce(partial(_op, "logical_and"), tests)
