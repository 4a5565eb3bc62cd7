"""The second form: scalar values over named loop axes, for one pattern of a call.

Once a call shows which extents are 1 and how its arrays lie in memory, positions become names.
Every value has the set of loop axes it depends on; axes of size 1 are gone; neighbouring axes on
which every operand behaves alike are one axis.  What two calls have in common after that, they
share as one kernel.  (The bit strings are those of MXNet's broadcasting on TVM.)

Grammar::

    Specialized := (operands, axes: name -> extents, stores)
    Store  := (operand, access, value, mode, mask)         mode: write | add
    Value  := Load(operand, access) | Literal(value) | Extent(extents) | Position(affine)
            | Op(op, args) | Convert(arg) | Fold(program, arg, axes, initial, where)
            | Scan(a Fold, reverse, exclusive) | At(fold, places), elsewhere than where it runs
    access := one Affine per dimension of the operand
    Affine := (const + sum(coef * start(extent)) + sum(coef * axis)) / divisor, guards

A guard is an index that has to be within an axis, and whole: elsewhere 0 is loaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from .layout import Operand
from .ops import OPS
from .records import dataclass

SELECT = OPS["where"]
SHORT = 16  # elements of a row that are so few that their number is worth knowing
FEW = 8  # elements that the compiler folds without a loop, while vectors go along other axes
VECTOR = 8  # elements from which on a short row is worth vectors
CALLED = 160  # bytes of a row, at most, of which several go at once if functions are called
ORDERED = 256  # rows, below which what functions give of them is added row by row
LINED = 128  # elements of a row from which on lines, lanes and quotients have ways of their own
FILLED = 16384  # bytes that leave no room in the first cache for what passes
SUMMED = 64  # elements of a row from memory from which on little is left to do but to add them
BACK = 4096  # bytes of a row that goes back in memory, at most, of which nothing is foreseen
ASKED = 512  # elements of a row from which on one loop over it asks the memory for the next row
NARROW, FAR_NARROW = 768, 4096  # elements of a row kept by chunks, at most; if from memory
SLICES = 32  # indices of another kept axis, at most, of which waiting folds read chunks apart
AGAIN = 8  # turns of a loop from which on what all of them compute is computed once, before
DEEP = 128  # rows of slices from which on these are folded by rows, in chunks that threads share
CHUNKED = {False: 1024, True: 8192}  # rows from which on they are folded in chunks; if below SHORT
BLOCK = 4096  # elements of a row between two steps of its tree
LONGEST = 2**63 - 1


@dataclass(frozen=True)
class Affine:
    """An index: a constant, starts of slices, and multiples of loop axes, over a divisor.

    `guards` are pairs of an index, which has to be whole, and the extent that it has to be below
    (and not below 0).
    """

    const: int = 0
    starts: tuple[tuple[int, int], ...] = ()
    terms: tuple[tuple[str, int], ...] = ()
    divisor: int = 1
    guards: tuple[tuple[Affine, int], ...] = ()

    def scaled(self, step: int) -> Affine:
        """`step` times this index."""
        return replace(self, const=self.const * step,
                       starts=tuple((c * step, e) for c, e in self.starts),
                       terms=tuple((a, c * step) for a, c in self.terms)).reduced()

    def after(self, start: int, sign: int = 1) -> Affine:
        """The index plus `sign` times the start of the slice `start`."""
        starts = {start: 0} | {extent: coef for coef, extent in self.starts}
        starts[start] += sign * self.divisor
        return replace(self, starts=tuple((c, e) for e, c in starts.items() if c)).reduced()

    def reduced(self) -> Affine:
        """The index in lowest terms."""
        if self.divisor == 1:
            return self
        by = math.gcd(self.const, self.divisor, *(c for c, _ in self.starts),
                      *(c for _, c in self.terms))
        return replace(self, const=self.const // by, divisor=self.divisor // by,
                       starts=tuple((c // by, e) for c, e in self.starts),
                       terms=tuple((a, c // by) for a, c in self.terms))

    def divided(self, step: int) -> Affine:
        """The index over `step`."""
        if step < 0:
            return self.scaled(-1).divided(-step)
        return replace(self, divisor=self.divisor * step).reduced()

    def bare(self) -> Affine:
        """The index without its guards."""
        return replace(self, guards=())

    @property
    def axes(self) -> frozenset[str]:
        """The loop axes that it depends on."""
        return frozenset(a for a, _ in self.terms)

    @property
    def axis(self) -> str | None:
        """The loop axis that it is; None if it is anything else."""
        return None if self.const or self.starts else self.shifted

    @property
    def shifted(self) -> str | None:
        """The loop axis that it is, from some index on."""
        [(name, step)] = self.terms if len(self.terms) == 1 else [("", 0)]
        return name if step == 1 and self.divisor == 1 else None


ZERO = Affine()
Access = tuple[Affine, ...]


@dataclass(frozen=True, eq=False)
class Value:
    """A scalar value that depends on `axes`; interned within one specialization."""

    axes: frozenset[str]
    dtype: np.dtype

    @property
    def args(self) -> tuple[Value, ...]:
        """The values this one is computed from."""
        return ()


@dataclass(frozen=True, eq=False)
class Load(Value):
    """An element of an operand; 0 where there is a `guard` that does not hold."""

    operand: int
    access: Access
    guard: Value | None = None

    @property
    def args(self) -> tuple[Value, ...]:
        """The values this one is computed from."""
        return () if self.guard is None else (self.guard,)


@dataclass(frozen=True, eq=False)
class Literal(Value):
    """A constant."""

    value: np.generic


@dataclass(frozen=True, eq=False)
class Extent(Value):
    """The length of an axis, as an int64."""

    extent: int


@dataclass(frozen=True, eq=False)
class Position(Value):
    """The loop index itself, as an int64."""

    affine: Affine


@dataclass(frozen=True, eq=False)
class Op(Value):
    """A scalar operation."""

    op: Any
    operands: tuple[Value, ...]

    @property
    def args(self) -> tuple[Value, ...]:
        """The values this one is computed from."""
        return self.operands


@dataclass(frozen=True, eq=False)
class Convert(Value):
    """A value converted to another dtype."""

    arg: Value

    @property
    def args(self) -> tuple[Value, ...]:
        """The values this one is computed from."""
        return (self.arg,)


@dataclass(frozen=True, eq=False)
class Fold(Value):
    """`arg` folded over `over`, in this order of axes."""

    program: Any
    arg: Value
    over: tuple[str, ...]
    initial: Value | None
    where: Value | None

    @property
    def merges(self) -> bool:
        """Whether parts may be folded apart, and merged."""
        return bool(self.program.lanes)

    @property
    def args(self) -> tuple[Value, ...]:
        """The values this one is computed from."""
        return tuple(v for v in (self.arg, self.initial, self.where) if v is not None)


@dataclass(frozen=True, eq=False)
class Place(Fold):
    """The index, in C order, of the first element that is the extremum `top` of the same elements.

    It is found in the loop in which that is, and `combine` has the states of both.
    """

    top: Fold

    @property
    def merges(self) -> bool:
        """As its extremum does."""
        return True

    @property
    def args(self) -> tuple[Value, ...]:
        """The values this one is computed from."""
        return (self.arg, self.top)


@dataclass(frozen=True, eq=False)
class First(Fold):
    """The index of the first element that is `here`, as the least of all places; see `places`.

    If `top` is given, that is where this extremum is, which alone reaches the `limit`.
    """

    here: Value
    top: Fold | None
    limit: Value | None

    @property
    def args(self) -> tuple[Value, ...]:
        """The values this one is computed from."""
        return self.arg, self.here


@dataclass(frozen=True, eq=False)
class Scan(Fold):
    """The state of a fold along `over`, in this order of axes, at an element.

    If `exclusive`, the state before that element; if `reverse`, coming from the end.  `more` are
    further parts of an element, `states` the first state, if it is not the identity.
    """

    reverse: bool = False
    exclusive: bool = False
    more: tuple[Value, ...] = ()
    states: tuple[Value, ...] = ()

    @property
    def merges(self) -> bool:
        """Every element waits for the one before."""
        return False

    @property
    def args(self) -> tuple[Value, ...]:
        """The values this one is computed from."""
        return (self.arg, *self.more, *self.states)


@dataclass(frozen=True, eq=False)
class At(Value):
    """What `fold` gives where the axes in `places` have these indices; 0 where `guard` fails."""

    fold: Value
    places: tuple[tuple[str, Affine], ...]
    guard: Value | None

    @property
    def args(self) -> tuple[Value, ...]:
        """The values this one is computed from."""
        return (self.fold,) if self.guard is None else (self.fold, self.guard)


@dataclass(frozen=True)
class Store:
    """What is written to one output."""

    operand: int
    access: Access
    value: Value
    mode: str
    mask: Value | None


@dataclass(frozen=True)
class Specialized:
    """One specialization of a function: everything its kernel's text depends on."""

    operands: tuple[Operand, ...]
    axes: dict[str, tuple[int, ...]]
    stores: tuple[Store, ...]
    large: bool = False  # whether the outputs outgrow the caches
    bounds: dict[int, tuple[int, int]] = field(default_factory=dict)  # of extents
    far: bool = False  # whether an input has to come from memory
    crossed: bool = False  # whether the first cache does not hold the lines that are read across
    third: bool = False  # whether inputs come from the third cache
    loose: bool = False  # whether loops may round one value in different ways

    def between(self, axis: str) -> tuple[int, int]:
        """The least and the most that the length of an axis may be."""
        every = [self.bounds.get(e, (0, LONGEST)) for e in self.axes[axis]]
        return math.prod(low for low, _ in every), min(
            LONGEST, math.prod(high for _, high in every))


def is_fold(value: Value) -> bool:
    """Whether a value is what loops leave."""
    return isinstance(value, Fold)


def walk(values: Iterable[Value],
         leaf: Callable[[Value], bool] | None = None) -> tuple[Value, ...]:
    """All values below `values`, arguments first, not looking inside leaves; works at any depth."""
    if leaf is None or leaf is is_fold:
        return _walked_before(tuple(values), leaf)
    return _walked(values, leaf)


def _walked(values: Iterable[Value], leaf: Callable[[Value], bool] | None) -> tuple[Value, ...]:
    done: dict[Value, None] = {}
    stack: list[Any] = [*values][::-1]  # and None above what waits for its arguments
    while stack:
        value = stack.pop()
        if value is None:
            value = stack.pop()
        elif value in done:
            continue
        elif args := () if leaf and leaf(value) else value.args:
            stack += (value, None, *reversed(args))
            continue
        done[value] = None
    return tuple(done)


# a kernel's values are looked at some three hundred times, most of them alike
_walked_before = lru_cache(256)(_walked)


def roots_of(stores: Iterable[Store]) -> list[Value]:
    """The values and masks of `stores`."""
    return [v for s in stores for v in (s.value, s.mask) if v is not None]


def rewrite(stores: Sequence[Store], change: Callable[[Value], Value],
            access: Callable[[Access], Access]) -> tuple[Store, ...]:
    """`stores` in which every value, over its new arguments, went through `change`."""
    new: dict[Value, Value] = {}
    for value in walk(roots_of(stores)):
        new[value] = change(over_new(value, new))
    return tuple(
        replace(s, access=access(s.access), value=new[s.value], mask=s.mask and new[s.mask])
        for s in stores)


def over_new(value: Value, new: dict[Value, Value]) -> Value:
    """`value` over the arguments that `new` gives; itself, if these are its own."""
    if not isinstance(value, First) and all(new[a] is a for a in value.args):
        return value  # of one that is the first, `here` may be what it was
    if isinstance(value, Op):
        return replace(value, operands=tuple(new[a] for a in value.operands))
    if isinstance(value, Load) and value.guard is not None:
        return replace(value, guard=new[value.guard])
    if isinstance(value, At):
        return replace(value, fold=new[value.fold], guard=value.guard and new[value.guard])
    if isinstance(value, Convert):
        return replace(value, arg=new[value.arg])
    if isinstance(value, Place):
        top = new[value.top]
        assert isinstance(top, Fold)
        return replace(value, arg=new[value.arg], top=top)
    if isinstance(value, First):
        its: list[Any] = [v and new[v] for v in (value.top, value.limit)]
        return replace(value, arg=new[value.arg], here=new[value.here], top=its[0], limit=its[1])
    if isinstance(value, Scan):
        return replace(value, arg=new[value.arg], more=tuple(new[v] for v in value.more),
                       states=tuple(new[v] for v in value.states))
    if isinstance(value, Fold):
        initial, where = (v and new[v] for v in (value.initial, value.where))
        return replace(value, arg=new[value.arg], initial=initial, where=where)
    raise TypeError(f"arguments of {type(value).__name__}")
