"""The third form: loop nests, close to the C that the templates make of them.

Grammar::

    Kernel    := (phases, buffers)
    Phase     := (axis or None, body)              threads share the indices of `axis`
    statement := Loop(axis, kind, body)            of the kinds below
               | LaneLoop(axis, folds, body)       folds along a row, in lanes
               | Blocks(axis, folds, body)         folds along an outer axis, in a pairwise tree
               | Let(name, value)                  a constant
               | Local(name, dtype, strip)         a variable, or one per element of the strip
               | Assign(target, value)
               | Write(operand, access, value, mode, mask)
               | If(condition, body, rest)         body where it holds, else rest
               | Parted(axis, body, free)          free where all that it reads is there
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
from .nest_leaves import IDEMPOTENT, Element, LaneFold, Named
from .records import dataclass
from .values import LONGEST, Access, Extent, Load, Position, Value, walk

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
CHOICES = ("where", *IDEMPOTENT)
TREE = 40  # levels of a pairwise tree: more than memory can hold


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
    """A loop over one axis.

    Its kinds, besides "plain" ones:

    "strip"         over strips of `length` elements, or of blocks that functions take
    "lane"          over the elements of a strip
    "parts"         over parts of a strip, before each of which it asks for memory
    "chunks"        over chunks of an axis, each of which is folded apart
    "tiles"         over one side of tiles
    "turned"        copies lines that lie across
    "turning"       copies what this turn and the next of the loop around read across, TURN turns
    "abreast"       copies rows of a strip side by side, or back
    "mirrored"      part of a loop over the same axis, in the other direction
    "rows"          over rows, as many at a time as a row is repeated
    "joined rows"   over rows that follow each other: all at a time
    "search"        ends where its condition holds
    "halves"        converts a block of float16
    "called"        calls a function for a block
    """

    axis: str
    kind: str
    body: list[Statement]
    independent: bool = False  # turns may run in any order
    reverse: bool = False
    shared: bool = False  # threads share its indices
    lines: tuple[Write, ...] = ()  # what it writes past the caches, a block at a time
    lined: Write | Load | None = None  # what vectors are to be whole lines of
    ahead: str = ""  # the axis around of which the next turn is asked for
    # Of strips and parts: STAGE, if they go from one loop to the next, PIECE, to a function,
    # ABREAST, if of rows, SIDED, if of rows that meet others, SLICED, if slices are within,
    # TURNED, if each element has a line, RECORDS, if around those of records.
    length: str = "STRIP"
    asks: frozenset[int] = frozenset()  # operands whose next row is asked for (`asking`)
    at_once: int = 1  # how many turns go, side by side or, of 8, in turn
    sooner: str = ""  # where that is not always faster: what says in C whether it is here


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
    Of rows abreast, the folds in `laned` have states for every lane that a row by itself has, and
    so the same bits.
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
    laned: tuple[str, ...] = ()
    at_once: int = 1
    sooner: str = ""
    run: int = 1
    foreseen: int = 1


@dataclass
class If:
    """`body` where the condition holds, else `rest`."""

    condition: Value
    body: list[Statement]
    rest: list[Statement]


@dataclass
class Parted:
    """A loop over an axis: `free` where each index of `terms` is below its extent, and not below 0.

    There, and where `rows` hold, nothing asks whether what is read is there; elsewhere goes `body`.
    Threads share the indices of one that is `shared`.
    """

    axis: str
    body: list[Statement]
    free: list[Statement]
    terms: list[tuple[Position, Extent]]
    rows: list[Value]
    shared: bool


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


Statement = Parted | Check | Let | Local | Assign | Write | Loop | LaneLoop | Blocks | If | Repeat


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
        case Parted():
            return (statement.body, statement.free)
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
        case Parted():
            return (*statement.rows, *(v for term in statement.terms for v in term))
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


def updates(body: Sequence[Statement]) -> bool:
    """Whether statements write where they read, so that going twice they would do so again."""
    every = [*statements(body)]
    written = {s.operand if isinstance(s, Write) else s.target.name for s in every
               if isinstance(s, Write) or isinstance(s, Assign) and isinstance(s.target, Element)
               and s.target.dims}
    read = {v.operand if isinstance(v, Load) else v.name for s in every
            for v in walk((s.value,) if isinstance(s, Assign) else values_of(s))
            if isinstance(v, (Load, Element))}
    return not written.isdisjoint(read) or any(
        isinstance(s, Write) and s.mode != "write" for s in every)


def fills_its_own(kernel: Kernel) -> bool:
    """Whether private buffers, in which a thread finds its own, are filled where they are read."""
    private = {b.name for b in kernel.buffers if not b.shared}
    for phase in kernel.phases:
        rows = {f.rows.name for s in statements(phase.body) if isinstance(s, Blocks)
                for f in s.folds if f.rows}
        if private & names_used(phase.body) - names_made(phase.body) - rows:
            return False
    return True
