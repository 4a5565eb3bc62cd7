"""The third form: loop nests, close to the C that the templates make of them.

Grammar::

    Kernel    := (phases, buffers)
    Phase     := (axis or None, body)              a parallel phase runs `axis` from begin to end
    statement := Loop(axis, kind, body)            kind: serial | parallel | strip | lane | parts |
                                                   chunks | tiles | turned | turning | abreast |
                                                   mirrored | rows | search | halves | called
               | LaneLoop(axis, folds, body)       folds along a row, in lanes
               | Blocks(axis, folds, body)         folds along an outer axis, in a pairwise tree
               | Let(name, value)                  a constant
               | Local(name, dtype, strip)         a variable, or one per element of the strip
               | Assign(target, value)
               | Write(operand, access, value, mode, mask)
               | If(condition, body, rest)         body where it holds, else rest
               | Check(value)                      an error if value's arguments are out of range
               | Repeat(array, value, rows)        copies of a row
    target    := Named(name) | Element(name, dims, at)

Values are those of a specialization, over the leaves `Named` and `Element`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import field

import numpy as np

from .layout import Operand
from .programs import inline
from .records import dataclass
from .values import LONGEST, Access, Fold, Literal, Load, Op, Place, Value, walk

ROWS = 64  # rows between two steps of their tree
TILE_BYTES = 1024  # of either side of a tile, at most: lines so long are foreseen
TILES_BYTES = 256 << 10  # of all tiles: they stay in the second cache, and the stack of a thread
CHUNK = 256  # rows that are folded before they are merged with others, if they have SHORT elements
RUN = 4  # rows that are added to a strip of states before these go to memory
LANES = 16  # of a fold, at least: gcc keeps so many in registers
LANE_BYTES = 64  # of the lanes of one fold, at least
PACK = 16  # rows of a narrow table that are taken together
PAD_BYTES = 64  # between the rows of a tile, so that they do not meet in the cache
REPEATED = 1024  # elements of copies of a row
IDEMPOTENT = (*"maximum minimum fmax fmin logical_and logical_or bitwise_and bitwise_or".split(),)
CHOICES = ("where", *IDEMPOTENT)
TREE = 40  # levels of a pairwise tree: more than memory can hold


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
class Let:
    """`const T name = value`."""

    name: str
    value: Value


@dataclass
class Local:
    """A variable, or an array: of the strip, the tile, `length` elements, PACK `rows` so long."""

    name: str
    dtype: np.dtype
    strip: bool = False
    tile: bool = False
    length: int = 0
    rows: int = 0


@dataclass
class Assign:
    """`target = value`; a float16 is not rounded yet if it will be `stored`."""

    target: Named | Element
    value: Value
    stored: bool = False


@dataclass
class Write:
    """A store to an output."""

    operand: int
    access: Access
    value: Value
    mode: str
    mask: Value | None


@dataclass
class Loop:
    """A loop over one axis; `independent` if its iterations may run in any order.

    A "mirrored" one is part of a loop over the same axis, and goes the other way; a "turning" one
    copies what this turn of it and the next read across, as many as TURN.  One over "rows" takes as
    many at a time as a row is repeated, over "joined rows" all; "halves" convert float16, "called"
    is a function; a "search" ends where its condition holds.  "parts" are of a strip.  `lines` are
    writes of its body that go past the caches, a block at a time; of `lined`, which it writes or
    reads, vectors are to be whole lines; `ahead` is the axis around of which the next turn is asked
    for, as `asks` are operands whose next row is (`asking`); `length` names how long strips, or
    parts, are: STAGE, if they go from one loop to the next, PIECE, to a function, ABREAST, if of
    rows, SLICED, if slices are within, TURNED, if each element has a line; `at_once` is how many
    go, side by side or, of 8, in turn; `streams` of memory do so if four come sooner than one.
    """

    axis: str
    kind: str
    body: list[Statement]
    independent: bool = False
    reverse: bool = False
    lines: tuple[Write, ...] = ()
    lined: Write | Load | None = None
    ahead: str = ""
    length: str = "STRIP"
    asks: frozenset[int] = frozenset()
    at_once: int = 1
    streams: bool = False


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


@dataclass
class LaneLoop:
    """A loop over a row in lanes; afterwards `name` of every fold holds its state.

    `lanes` is how many there are, if that does not follow from what is folded; a row has `least`
    elements or more, up to `most`.  `asks` is as that of `Loop`, `alone` where no other goes over
    a row.  Rows of the axes `around` share lanes; one that is `cut` goes in blocks, as with a tree.
    """

    axis: str
    folds: list[LaneFold]
    body: list[Statement]
    lanes: int = 0
    least: int = 0
    most: int = LONGEST
    asks: frozenset[int] = frozenset()
    alone: bool = False
    around: tuple[str, ...] = ()
    cut: bool = False


@dataclass
class Blocks:
    """A serial loop over an outer axis whose partial states, `name`, are merged in a tree.

    Of a narrow strip, of `width` elements, PACK rows go together: `copies` are made of what they
    read, side by side, but `once` of what is the same for all, or their index; `packed` adds these
    to states, `name_rows`, of PACK * ROWS rows a block; if `ordered`, it computes only, and `back`,
    which stores what is kept, adds row by row.  The body takes the rest; `late` rows are asked for.
    """

    axis: str
    folds: list[LaneFold]
    body: list[Statement]
    strip: str | None
    late: bool = False
    width: int = 0
    once: list[Statement] = field(default_factory=list)
    copies: list[Statement] = field(default_factory=list)
    packed: list[Statement] = field(default_factory=list)
    back: list[Statement] = field(default_factory=list)
    ordered: bool = False
    at_once: int = 1
    run: int = 1
    foreseen: int = 1


@dataclass
class If:
    """`body` where the condition holds, else `rest`."""

    condition: Value
    body: list[Statement]
    rest: list[Statement]


@dataclass
class Check:
    """A condition on `value`'s arguments under which the call is an error."""

    value: Value


@dataclass
class Repeat:
    """An array of a row of values, again and again: for as many `rows` as go at a time."""

    array: Element
    value: Value
    rows: str


Statement = Check | Let | Local | Assign | Write | Loop | LaneLoop | Blocks | If | Repeat


@dataclass(frozen=True)
class Buffer:
    """Memory of a kernel: one element per combination of `axes`, or a strip of them.

    A shared buffer carries values between phases; a private one belongs to one thread.  `strip`
    names the length, as in `Loop`, of the strip `along` an axis that it is filled and read in.
    """

    name: str
    dtype: np.dtype
    axes: tuple[str, ...]
    shared: bool
    strip: str = ""
    along: str | None = None


@dataclass
class Phase:
    """Part of a kernel that must be complete before the next begins."""

    axis: str | None
    body: list[Statement]


@dataclass(frozen=True)
class Chunks:
    """An axis that counts chunks of `axis`, of `unit` indices: whole branches of its tree."""

    axis: str
    unit: int


@dataclass
class Kernel:
    """The loop nests of one specialization; `axes` are those of the iteration space.

    `exact` has the extents that are the same in all calls; `far` tells whether inputs have to come
    from memory, `third` whether they come from the third cache.
    """

    operands: tuple[Operand, ...]
    axes: dict[str, tuple[int, ...]]
    exact: dict[int, int] = field(default_factory=dict)
    far: bool = False
    third: bool = False
    phases: list[Phase] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    chunks: dict[str, Chunks] = field(default_factory=dict)

    def length(self, axis: str, sizes: Sequence[int]) -> int:
        """The number of indices of an axis, where the extents are `sizes`."""
        chunks = self.chunks.get(axis)
        if chunks is None:
            return math.prod(sizes[e] for e in self.axes[axis])
        return -(-self.length(chunks.axis, sizes) // chunks.unit)


def bodies(statement: Statement) -> tuple[list[Statement], ...]:
    """The statement lists inside a statement."""
    match statement:
        case Loop() | LaneLoop() | Blocks():
            return (statement.body,)
        case If():
            return (statement.body, statement.rest)
    return ()


def statements(body: Sequence[Statement]) -> Iterator[Statement]:
    """All statements of a body, at any depth, in order."""
    for statement in body:
        yield statement
        for inner in bodies(statement):
            yield from statements(inner)


def values_of(statement: Statement) -> tuple[Value, ...]:
    """The values that a statement itself uses."""
    match statement:
        case Let() | Check():
            return (statement.value,)
        case Assign():
            return (statement.target, statement.value)
        case Repeat():
            return (statement.array, statement.value)
        case If():
            return (statement.condition,)
        case Write():
            return (statement.value, *(() if statement.mask is None else (statement.mask,)))
        case LaneLoop() | Blocks():
            return tuple(v for f in statement.folds for v in (f.neutral, f.identity, f.merge))
    return ()


def names_made(body: Sequence[Statement]) -> set[str]:
    """The variables and arrays that statements declare or assign."""
    targets = {s.target.name for s in statements(body) if isinstance(s, Assign)}
    return targets | {s.name for s in statements(body) if isinstance(s, (Let, Local))}


def names_used(body: Sequence[Statement]) -> set[str]:
    """The variables and arrays from outside that statements read or assign."""
    own = {s.name for s in statements(body) if isinstance(s, (Let, Local))}
    return {v.name for s in statements(body) for v in walk(values_of(s))
            if isinstance(v, (Named, Element))} - own
