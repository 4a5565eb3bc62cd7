"""The leaves of the third form: what stands in loop nests for values, and for folds in lanes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .programs import inline
from .records import dataclass
from .values import Fold, Literal, Op, Place, Value

IDEMPOTENT = (*"maximum minimum fmax fmin logical_and logical_or bitwise_and bitwise_or".split(),)


@dataclass(frozen=True, eq=False)
class Named(Value):
    """A C variable."""

    name: str


@dataclass(frozen=True, eq=False)
class Element(Value):
    """An element of an array.

    A buffer is indexed by loop axes (`dims`, outermost first), and then by the place in the strip
    of axis `at`, if that is given; a local array by the current lane (`at` is "lane"), by the place
    in the tile or chunk of axes `dims` ("tile", "chunk"), among rows side by side ("row" and
    column, or "packed" in one), or in the strip of axis `at`.  Of a buffer of the rows that are
    turned ("turn"), the first of `dims` is the row.
    """

    name: str
    dims: tuple[str, ...] = ()
    at: str | None = None


@dataclass(frozen=True, eq=False)
class FoldIndex(Value):
    """The index of an element among those folded over `over`, in C order."""

    over: tuple[str, ...]


@dataclass
class LaneFold:
    """A fold whose state is one scalar that may be merged in any order.

    `neutral` is what a lane starts from, `identity` the state of an empty axis; `merge` joins the
    states named `a` and `b`, in any order if it is `exact`; `tree` asks for a pairwise tree.
    `part` names the state of inner loops that each turn of `Blocks` adds; `rows` is the buffer of
    the states of all chunks, if they are rows.  A place changes with its extremum, `top`, whose
    states are `top_a` and `top_b` in `merge`; `settled`, `a` is beyond all places unless `top_a` is
    as good as `top_b`, so that `merge_settled` needs neither.  What is left of a row and fills no
    lanes is folded in lanes, too, if it is to `end_in_lanes`: no element waits for those before.
    Lanes are of dtype `lane`, if it is narrower than the state's, as long as a block goes.
    """

    name: str
    kind: str
    dtype: np.dtype
    neutral: Value
    identity: Value
    merge: Value
    tree: bool
    exact: bool
    part: str | None = None
    rows: Element | None = None
    top: LaneFold | None = None
    settled: Value | None = None
    merge_settled: Value | None = None
    end_in_lanes: bool = False
    lane: np.dtype | None = None

    @property
    def size(self) -> int:
        """The bytes of a lane."""
        return (self.lane or self.dtype).itemsize

    @property
    def idempotent(self) -> bool:
        """Whether the same element may be folded twice."""
        merge = self.merge
        return self.top is not None or isinstance(merge, Op) and merge.op.name in IDEMPOTENT


def lane_fold(fold: Fold, name: str, short: bool = False) -> LaneFold:
    """How the template folds `fold` into variables called `name`; no tree if it is `short`."""
    program, dtype, nothing = fold.program, fold.program.state[0], frozenset[str]()
    a, b = (Named(nothing, dtype, name) for name in "ab")
    [merge] = inline(program.merge, (a, b))
    neutral, identity = (Literal(nothing, dtype, start[0]) for start in (
        program.neutral, program.identity or program.neutral))
    tree = not program.exact and not short
    found = LaneFold(name, program.name, dtype, neutral, identity, merge, tree, program.exact)
    if isinstance(fold, Place):  # the better one, and of two that are as good, either
        top_a, top_b = (Named(nothing, fold.top.program.state[0], f"top_{n}") for n in "ab")
        last = Literal(nothing, dtype, dtype.type(np.iinfo(dtype).max))
        found.settled, other = (inline(program.combine, [*mine, its, last])[1] for mine, its in (
            ((top_a, a), top_b), ((top_b, b), top_a)))
        found.merge_settled = merge
        [found.merge] = inline(program.merge, (found.settled, other))
    return found


def lane_folds(folds: Sequence[Fold], names: Sequence[str], short: bool = False) -> list[LaneFold]:
    """How the template folds `folds`, places together with their extrema."""
    found = {f: lane_fold(f, n, short) for f, n in zip(folds, names, strict=True)}
    for fold, lane in found.items():
        if isinstance(fold, Place):
            lane.top = found[fold.top]
    return [*found.values()]
