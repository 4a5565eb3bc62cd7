"""What the phases of a kernel have to do at least: bytes to move, and operations.

These are counts of the loop nest, for the sizes of one call; nothing is measured here.

* Every element that a phase reads or writes counts once, however often the phase comes back to it:
  what is near in time is in a cache.  Different accesses to one operand, as in `x[1:] - x[:-1]`,
  count as the smaller of their sum and of the box around them.
* An operation counts as its weight in the table of operations, which is in additions: an `exp`
  is 20, a product or a comparison of integers 1; a conversion is nothing.  Not counted are what
  joins the partial states of a fold, indices, and what is computed once per strip.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from .cost import cost
from .maps import Instruction, slice_start
from .nest import Assign, Blocks, If, Kernel, LaneLoop, Loop, Parted, Statement, Write, values_of
from .nest_leaves import Element
from .records import dataclass
from .values import Access, Affine, Load, Op, walk
from .work import CUT


@dataclass(frozen=True)
class Counts:
    """What one phase does.

    Attributes
    ----------
    axes : tuple of str
        The loop axes of its largest iteration space.
    elements : int
        How many elements that space has.
    read, written : int
        Bytes of operands, and of the buffers that carry values between phases.
    flops32, flops64 : int
        Operations, in additions: on elements of up to four bytes (of complex numbers: per
        part), and on wider ones.
    """

    axes: tuple[str, ...]
    elements: int
    read: int
    written: int
    flops32: int
    flops64: int

    @property
    def bytes(self) -> int:
        """Bytes that move."""
        return self.read + self.written

    @property
    def flops(self) -> int:
        """Operations, in additions."""
        return self.flops32 + self.flops64


def counts_of(kernel: Kernel, program: Sequence[Instruction], sizes: Sequence[int],
              distinct: Sequence[int]) -> tuple[list[Counts], Counts]:
    """What each phase of a kernel does, and what it would do if it were one phase.

    Parameters
    ----------
    kernel : Kernel
    program : sequence of instructions
        The extent program of the function.
    sizes : sequence of int
        What the program gives in this call.
    distinct : sequence of int
        How many elements in memory each operand has; see `distinct_elements`.
    """
    phases = [_Phase(kernel, program, sizes, distinct, phase.body) for phase in kernel.phases]
    carried = {b.name for b in kernel.buffers
               if sum(b.name in p.buffers_read | p.buffers_written for p in phases) > 1}
    whole = _Phase(kernel, program, sizes, distinct,
                   [s for phase in kernel.phases for s in phase.body])
    return [p.counts(carried) for p in phases], whole.counts(carried)


def distinct_elements(array: np.ndarray) -> int:
    """How many elements an array has in memory: stretched ones count once."""
    if not array.size:
        return 0
    return math.prod(n for n, step in zip(array.shape, array.strides, strict=True) if step)


class _Phase:
    """Goes through the statements of one phase, and adds up."""

    def __init__(self, kernel: Kernel, program: Sequence[Instruction], sizes: Sequence[int],
                 distinct: Sequence[int], body: Sequence[Statement]) -> None:
        self.kernel, self.program, self.sizes, self.distinct = kernel, program, sizes, distinct
        self.axes: tuple[str, ...] = ()
        self.elements = 0
        self.flops = {4: 0, 8: 0}
        self.reads: dict[int, dict[Access, None]] = {}
        self.writes: dict[int, dict[Access, None]] = {}
        self.buffers_read: set[str] = set()
        self.buffers_written: set[str] = set()
        self.visit(body, ())

    def counts(self, carried: set[str]) -> Counts:
        """The sums; of the buffers, those in `carried` count."""
        read, written = (
            sum(self.touched(operand, list(accesses)) *
                self.kernel.operands[operand].dtype.itemsize for operand, accesses in of.items())
            + sum(self.product(b.axes) * (4 if b.dtype == np.float16 else b.dtype.itemsize)
                  for b in self.kernel.buffers if b.name in carried & buffers)
            for of, buffers in ((self.reads, self.buffers_read),
                                (self.writes, self.buffers_written)))
        return Counts(self.axes, self.elements, read, written, self.flops[4], self.flops[8])

    def product(self, axes: Iterable[str]) -> int:
        """How many combinations of indices these axes have."""
        return math.prod(self.kernel.length(axis, self.sizes) for axis in axes)

    def visit(self, body: Sequence[Statement], axes: tuple[str, ...]) -> None:
        """Count statements within the loops over `axes`."""
        times = self.product(axes)
        for statement in body:
            if times > self.elements or not self.axes:
                self.axes, self.elements = axes, times
            match statement:
                case Loop() if statement.kind in CUT:
                    self.visit(statement.body, axes)  # its lanes are a loop of their own
                case LaneLoop():
                    self.visit(statement.body, (*axes, *statement.around, statement.axis))
                case Loop() | Blocks():
                    own = () if statement.axis in axes else (statement.axis,)
                    self.visit(statement.body, (*axes, *own))
                case Parted():  # its ends are short
                    self.visit(statement.free, axes)
                case If():  # all rows, and elements, count as most do
                    flops = dict(self.flops)
                    self.visit(statement.rest, axes)
                    self.flops = flops
                    self.visit(statement.body, axes)
                case _:
                    self.one(statement, times)

    def one(self, statement: Statement, times: int) -> None:
        """Count a statement that runs so many times."""
        values = values_of(statement)
        if isinstance(statement, Assign):
            values = (statement.value,)
            if isinstance(statement.target, Element):
                self.buffers_written.add(statement.target.name)
        if isinstance(statement, Write):
            self.writes.setdefault(statement.operand, {})[statement.access] = None
            if statement.mode == "add":
                self.reads.setdefault(statement.operand, {})[statement.access] = None
                self.flops[_width([np.dtype(self.kernel.operands[statement.operand].dtype)])] += (
                    times)
        for value in walk(values):
            if isinstance(value, Op):
                dtypes = [v.dtype for v in (value, *value.args)]
                self.flops[_width(dtypes)] += cost([value]) * times
            elif isinstance(value, Load):
                self.reads.setdefault(value.operand, {})[value.access] = None
            elif isinstance(value, Element):
                self.buffers_read.add(value.name)

    # -- elements of an operand ----------------------------------------------------------------

    def touched(self, operand: int, accesses: Sequence[Access]) -> int:
        """How many elements of an operand are accessed in at least one of these ways."""
        boxes = [[self.span(at) for at in access] for access in accesses]
        each = [min(_elements(box), self.product({a for at in access for a in at.axes}))
                for box, access in zip(boxes, accesses, strict=True)]
        found = [box for box, n in zip(boxes, each, strict=True) if n]
        around = _elements([_around(spans) for spans in zip(*found, strict=True)]) if found else 0
        return min(sum(each), around, self.distinct[operand])

    def span(self, at: Affine) -> tuple[int, int, int]:
        """The first and the last index of one dimension, and the step between them."""
        first = at.const + sum(c * slice_start(self.program[e], self.sizes) for c, e in at.starts)
        last, step = first, 0
        for axis, coef in at.terms:
            far = coef * (self.product([axis]) - 1)
            first, last, step = first + min(0, far), last + max(0, far), math.gcd(step, coef)
        step //= math.gcd(step, at.divisor)
        return max(0, -(-first // at.divisor)), last // at.divisor, max(1, step)


def _elements(box: Iterable[tuple[int, int, int]]) -> int:
    return math.prod(max(0, (last - first) // step + 1) for first, last, step in box)


def _around(spans: Sequence[tuple[int, int, int]]) -> tuple[int, int, int]:
    first, last = min(s[0] for s in spans), max(s[1] for s in spans)
    steps = [s[2] for s in spans if s[1] > s[0]]
    return first, last, math.gcd(*steps, *(s[0] - first for s in spans)) or 1


def _width(dtypes: Iterable[np.dtype]) -> int:
    """4 or 8: how many bytes the widest part of these numbers takes in a vector."""
    widest = max(d.itemsize // (2 if d.kind == "c" else 1) for d in dtypes)
    return 4 if widest <= 4 else 8


__all__ = ["Counts", "counts_of", "distinct_elements"]
