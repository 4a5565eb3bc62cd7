"""Folds of everything that are decided early: once one `any` is true, no other chunk is looked at.

Each thread leaves what is left of its own chunks alone, and says that they are as the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def leave_early(loop: Loop, folds: Sequence[Fold], parts: Sequence[Element],
                name: str) -> list[Statement]:
    """A loop over chunks of `folds`, whose states are `parts`, that ends where all are decided.

    It stays as it is if one of them cannot be, or if it does something else.
    """
    last = [decides(f) for f in folds]
    made = {s.target for s in statements(loop.body) if isinstance(s, Assign)}
    stores = {t for t in made if isinstance(t, Element) and t.at != "lane"}
    kept = any(len(part.dims) > 1 for part in parts)
    if kept or None in last or stores != {*parts} or not all(
            isinstance(s, (Let, Local, Assign, LaneLoop, Blocks, Loop))
            for s in statements(loop.body)):
        return [loop]
    decided = Named(NOTHING, BOOL, name)
    tests: list[Value] = [part if value else Op(NOTHING, BOOL, OPS["logical_not"], (part,))
                          for part, value in zip(parts, last, strict=True)]
    every = reduce(lambda a, b: Op(NOTHING, BOOL, OPS["logical_and"], (a, b)), tests)
    same = [Assign(part, Literal(NOTHING, BOOL, value))
            for part, value in zip(parts, last, strict=True) if value is not None]
    loop.body = [If(decided, [*same], [*loop.body, Assign(decided, every)])]
    return [Local(name, BOOL), Assign(decided, Literal(NOTHING, BOOL, np.False_)), loop]
