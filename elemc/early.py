"""Folds of everything that are decided early: once one `any` is true, no other chunk is looked at.

The thread that finds it tells the others by `decided`, which all of a call share: they leave their
chunks alone, and say that these are decided, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import numpy as np

from .nest import (
    Assign,
    Blocks,
    Element,
    If,
    LaneLoop,
    Let,
    Local,
    Loop,
    Named,
    Statement,
    statements,
)
from .ops import OPS
from .values import Fold, Literal, Op, Value, inline

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


def leave_early(loop: Loop, parts: Mapping[Fold, Element]) -> Loop:
    """A loop over chunks of folds, whose states are `parts`, that ends where all are decided.

    That ends it for all threads.  It stays as it is if it does something else.
    """
    inside = [*statements(loop.body)]
    made = {s.target for s in inside if isinstance(s, Assign)}
    stores = {t for t in made if isinstance(t, Element) and t.at != "lane"}
    kept = any(len(part.dims) > 1 for part in parts.values())
    if kept or not parts or stores != {*parts.values()} or not all(
            isinstance(s, (Let, Local, Assign, LaneLoop, Blocks, Loop)) for s in inside):
        return loop
    decided, tests = Named(NOTHING, BOOL, "*decided"), list[Value]()
    ends: list[Statement] = []
    for fold, part in parts.items():
        last = decides(fold)
        assert last is not None
        tests.append(part if last else Op(NOTHING, BOOL, OPS["logical_not"], (part,)))
        ends.append(Assign(part, Literal(NOTHING, BOOL, last)))
    every = reduce(lambda a, b: Op(NOTHING, BOOL, OPS["logical_and"], (a, b)), tests)
    loop.body = [If(decided, ends, [*loop.body, Assign(decided, every)])]
    return loop
