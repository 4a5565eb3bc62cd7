"""Which axis a large evaluation is cut along, and in which passes.

A *view* is a graph read block by block: every node is wanted either whole (`None`) or by slices
of one of its axes.  An accumulation that is wanted whole is a *cut*: it gets a pass of its own,
before, and the passes after it read its result as an input.  Planning follows these rules:

* an output is cut along an axis that no accumulation crosses, if there is one;
* a fold over the axis of its pass is computed in chunks whose length depends on shapes and dtypes
  alone, and the chunks' states are merged in a fixed tree: `--block` never changes a bit;
* nothing is chosen by the size of a block, which only decides whether the plan fits: of the axes
  whose least block fits any --block, the one with the fewest passes, else that of the least block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from .accumulators import Accumulator
from .close import Program
from .compiler import Closed
from .errors import UnsupportedError
from .formula import formula
from .graph import (
    Accumulate,
    Apply,
    Axis,
    Captured,
    Cast,
    ExpandTo,
    Index,
    Input,
    Node,
    Scan,
)
from .graph_gradients import Scatter, SumTo
from .records import dataclass

SLAB = 2**20  # bytes: the least --block, what a good plan needs, and about what a chunk takes
LONGEST_CHUNK = 65536

AT_ONCE = ("whole", "direct")

Place = int | None
Wants = dict[Node, dict[Place, None]]
Try = tuple[str, Callable[[], "Part"]]
Tried = list[tuple[str, "Part | str"]]


class Impossible(Exception):  # noqa: N818 - never leaves the planner: it tries another axis
    """Why something cannot be cut along an axis."""


@dataclass(frozen=True)
class View:
    """What is read for some nodes: every node with the axes it is sliced along, and the cuts."""

    wants: Wants
    cuts: tuple[Accumulate, ...]


@dataclass(frozen=True, eq=False)
class Part:
    """One value and how it is computed.

    Attributes
    ----------
    node : Node
        An output, or an accumulation that others read whole.
    kind : str
        "fold": in chunks along `axis` of the accumulation's argument; "store": block by block
        along `axis` of the value itself; "whole": at once, from cuts; "direct": at once.
    view : View
    length : int
        Of the axis.
    slab : int
        Bytes of one index along the axis: all that is sliced, and the value itself.
    level : int
        One more than that of the cuts it reads.
    rows : int
        How many indices a block has at least.
    output : int, optional
        Which output it is; None: a cut.
    """

    node: Node
    kind: str
    axis: Place
    view: View
    length: int
    slab: int
    level: int
    rows: int
    output: int | None = None

    @property
    def least(self) -> int:
        """The bytes of the smallest block."""
        return self.slab * self.rows

    @property
    def chunk(self) -> int:
        """How many indices of the axis are folded at a time; depends on shapes alone."""
        most = max(1, min(LONGEST_CHUNK, SLAB // max(1, self.slab)))
        return 1 << (most.bit_length() - 1)


class Planner:
    """The plan of one call.

    Parameters
    ----------
    closed : Closed
    sizes : sequence of int
        The extents of this call.
    itemsizes : mapping from Input to int
        Bytes of an element as stored.
    limit : int
        Bytes of a block.
    """

    def __init__(self, closed: Closed, sizes: Sequence[int], itemsizes: Mapping[Node, int],
                 limit: int) -> None:
        self.closed, self.graph, self.nodes = closed, closed.graph, closed.graph.nodes
        self.of, self.sizes = closed.extents.of, sizes
        self.itemsizes, self.limit = itemsizes, limit
        self.order = {node: k for k, node in enumerate(self.nodes)}
        self.planned: dict[Node, Part] = {}
        self.earlier: dict[Part, list[Part]] = {}
        self.tried: dict[Part, Tried] = {}

    def passes(self, name: str) -> list[list[Part]]:
        """The passes that compute all outputs of function `name`, in order.

        Raises
        ------
        UnsupportedError
            If a block cannot be cut along any axis; it names them and says why.
        """
        ends = [self.output(node, self.closed.output_names[number], number)
                for number, node in enumerate(self.graph.outputs)]
        for part in ends:
            if self.need(part) > self.limit:
                enough = math.ceil(max(map(self.need, ends)) / 2**20)
                raise UnsupportedError(
                    f"{name} cannot be computed in blocks of {self.limit / 2**20:g} MiB: "
                    f"{self.reasons(part)}. --block {enough} (MiB) is enough.")
        parts = dict.fromkeys(p for end in ends for p in (*self.before(end), end))
        grouped: dict[tuple[Any, ...], list[Part]] = {}
        for part in parts:
            level = math.inf if part.output is not None else part.level
            alone = part if part.kind in AT_ONCE else None
            chunk = part.chunk if part.kind == "fold" else None
            grouped.setdefault((level, part.kind, part.length, chunk, alone), []).append(part)
        return [grouped[key] for key in sorted(grouped, key=lambda key: key[0])]

    def shape(self, node: Node) -> tuple[int, ...]:
        """The shape of a node in this call."""
        return tuple(self.sizes[e] for e in self.of[node])

    def bytes(self, node: Node) -> int:
        """The bytes of a node as stored."""
        assert node.dtype is not None
        size = self.itemsizes.get(node, node.dtype.itemsize)
        return math.prod(self.shape(node)) * size

    # -- outputs and cuts --------------------------------------------------------------------

    def output(self, node: Node, name: str, number: int) -> Part:
        """How an output is computed: along an axis of its own, or from earlier results."""
        shape = self.shape(node)
        if 0 in shape:
            return self.part(node, "direct", None, number)
        tries = [self.attempt(node, "store", axis, name, number)
                 for axis, n in enumerate(shape) if n > 1]
        tries.append(("at once", partial(self.part, node, "whole", None, number)))
        return self.best(node, tries, number)

    def cut(self, node: Accumulate) -> Part:
        """How an accumulation that others read whole is computed."""
        if node not in self.planned:
            shape = self.shape(node.arg)
            tries = [self.attempt(node, "fold", axis, formula(node.arg))
                     for axis in node.axes if shape[axis] > 1]
            tries += [self.attempt(node, "store", axis, formula(node))
                      for axis, n in enumerate(self.shape(node)) if n > 1]
            self.planned[node] = (self.part(node, "direct", None) if 0 in shape or not tries
                                  else self.best(node, tries))
        return self.planned[node]

    def attempt(self, node: Node, kind: str, axis: int, name: str,
                number: int | None = None) -> Try:
        """A plan to try, and the axis of `name` it is along."""
        cut = node.arg if kind == "fold" and isinstance(node, Accumulate) else node
        return (f"axis {axis} of {name} (size {self.shape(cut)[axis]})",
                partial(self.part, node, kind, axis, number))

    def best(self, node: Node, tries: Iterable[Try], number: int | None = None) -> Part:
        """The best plan: small blocks, then few passes, then the first; at once if there is none.

        Blocks count as small if they fit the least --block; which axis is cut decides the order of
        additions, so the --block of this call must not.
        """
        tried: Tried = []
        ranks: dict[Part, tuple[Any, ...]] = {}
        for name, attempt in tries:
            try:
                part = attempt()
                ranks[part] = (max(self.need(part), SLAB), len(self.before(part)),
                               part.kind == "whole", len(ranks))
                tried.append((name, part))
            except Impossible as reason:
                tried.append((name, str(reason)))
        best = (min(ranks, key=ranks.__getitem__) if ranks
                else self.part(node, "direct", None, number))
        self.tried[best] = tried
        return best

    def before(self, part: Part) -> list[Part]:
        """The passes that must run before this one, in order."""
        if part not in self.earlier:
            found: dict[Part, None] = {}
            for node in part.view.cuts:
                inner = self.cut(node)
                found.update(dict.fromkeys([*self.before(inner), inner]))
            self.earlier[part] = list(found)
        return self.earlier[part]

    def largest(self, part: Part) -> Part:
        """Of this pass and those before, the one that needs the largest blocks."""
        return max([part, *self.before(part)], key=lambda p: p.least)

    def need(self, part: Part) -> int:
        """The bytes of a block that this pass and all before it can do with."""
        return self.largest(part).least

    def reasons(self, part: Part) -> str:
        """Why a value cannot be computed in blocks of this call's size: per axis that it has."""
        names: dict[str, list[str]] = {}
        for name, found in self.tried.get(part, ()):
            if isinstance(found, str):
                names.setdefault(found, []).append(name)
            elif (large := self.largest(found)) is not found:
                names.setdefault(f"needs {formula(large.node)} first ({self.reasons(large)})",
                                 []).append(name)
            elif found.kind not in AT_ONCE:
                names.setdefault(f"blocks take {_mib(found.least)} MiB or more", []).append(name)
        return "; ".join(f"{' and '.join(who)}: {why}" for why, who in names.items()) or (
            f"{formula(part.node)} at once takes {_mib(part.least)} MiB")

    def part(self, node: Node, kind: str, axis: Place, output: int | None = None) -> Part:
        """The plan of one value of one kind along one axis."""
        if kind == "fold":
            assert isinstance(node, Accumulate) and axis is not None
            self.check_fold(node, axis)
            starts = [(part, self.fit(part, axis)) for part in (node.arg, node.where) if part]
            view = self.view([*starts, *((i, None) for i in (node.initial,) if i)])
            length = self.shape(node.arg)[axis]
        else:
            view = self.view([(node, axis)], cutting=kind != "direct")
            length = 1 if axis is None else self.shape(node)[axis]
        level = 1 + max((self.cut(c).level for c in view.cuts), default=0)
        slab = sum(self.bytes(n) // (length if p is not None else 1)
                   for n, places in view.wants.items() for p in places
                   if isinstance(n, (Input, Captured)) and (p is not None or kind in AT_ONCE))
        slab += self.bytes(node) // (length if kind == "store" else 1)
        return Part(node, kind, axis, view, length, slab, level,
                    min(length, _rows(view)) if kind == "store" else 1, output)

    def check_fold(self, node: Accumulate, axis: int) -> None:
        """Whether chunks along `axis` can be folded apart and merged."""
        program: Program = dict(node.options)["program"]
        name = node.acc.name if isinstance(node.acc, Accumulator) else str(node.acc)
        if program.index:
            raise Impossible(f"{name} minds the index of its elements along the axis")
        if program.merge is None:
            raise Impossible(f"{name} accumulates the axis and has no merge")
        if not program.commutative and axis != node.axes[0]:
            raise Impossible(f"{name} is not commutative, and the axis is not the first it folds")
        if node.initial is not None and (
                len(program.state) > 1 or (program.identity is None and not program.exact)):
            raise Impossible(f"{name} with initial= accumulates the axis")

    # -- views -------------------------------------------------------------------------------

    def view(self, starts: Iterable[tuple[Node, Place]], cutting: bool = True) -> View:
        """What is read for these nodes.  Loops instead of recursion: any depth."""
        wants: Wants = {}
        for node, place in starts:
            wants.setdefault(node, {})[place] = None
        cuts: dict[Accumulate, None] = {}
        for node in reversed(self.nodes):
            for place in wants.get(node, ()):
                if cutting and isinstance(node, Accumulate) and place is None:
                    cuts[node] = None
                    continue
                for child, at in self.reads(node, place):
                    wants.setdefault(child, {})[at] = None
        return View(wants, tuple(sorted(cuts, key=self.order.__getitem__)))

    def fit(self, node: Node, place: Place) -> Place:
        """`place`, or None where `node` is broadcast along it."""
        if place is None or not node.ndim or self.shape(node)[place] == 1:
            return None
        return place

    def reads(self, node: Node, place: Place) -> list[tuple[Node, Place]]:
        """How the children of `node` are read when it is sliced along `place`."""
        match node:
            case SumTo() | Scatter() | Scan() if place is None:
                return [(child, None) for child in node.children]
            case SumTo() if place is not None and self.shape(node)[place] > 1:
                return [(node.arg, place), (node.like, place)]
            case SumTo() | Scatter():
                raise Impossible(f"{formula(node)} does not go by blocks")
            case Scan() if place in node.axes:
                raise Impossible(f"{formula(node)} goes on from one element to the next")
            case Scan():
                assert place is not None
                beside = [d for d in range(node.ndim) if d not in node.axes].index(place)
                return [*((part, place) for part in (node.arg, *node.more)),
                        *((state, self.fit(state, beside)) for state in node.initial)]
            case Apply():
                return [(arg, self.fit(arg, place)) for arg in node.args]
            case Cast():
                return [(node.arg, place)]
            case ExpandTo():
                return [(node.arg, self.fit(node.arg, place)), (node.like, place)]
            case Index():
                return [(node.arg, self.source(node, place))]
            case Accumulate():
                at = None
                if place is not None:
                    at = [d for d in range(node.arg.ndim) if d not in node.axes][place]
                parts = [(node.arg, at)]
                if node.initial is not None:
                    parts.append((node.initial, self.fit(node.initial, place)))
                if node.where is not None:
                    parts.append((node.where, self.fit(node.where, at)))
                return parts
        return []  # leaves; of a Size nothing is read, because sizes are known here

    def source(self, node: Index, place: Place) -> Place:
        """The dimension of an index's argument that its axis `place` walks."""
        if place is None:
            return None
        dims = [d for d, f in enumerate(node.forms) if isinstance(f, Axis) and f.axis == place]
        if not dims:
            return None
        form = node.forms[dims[0]]
        assert isinstance(form, Axis)
        if len(dims) > 1:
            raise Impossible(f"{formula(node)} walks two axes of {formula(node.arg)} at once")
        if form.step < 0:
            raise Impossible(f"{formula(node)} reverses the axis")
        if form.start not in (None, 0) or form.stop is not None or form.step != 1:
            raise Impossible(f"{formula(node)} slices the axis")
        return self.fit(node.arg, dims[0])


def _rows(view: View) -> int:
    """How many indices of its axis a block has at least, if the axis has as many.

    Axes of size 1 have kernels of their own, which may add in another order.
    """
    return 2 if any(program_of(n) and n not in view.cuts for n in view.wants) else 1


def program_of(node: Node) -> Program | None:
    """How a node folds, if it does."""
    program: Program | None = node.program if isinstance(node, SumTo) else (
        dict(node.options)["program"] if isinstance(node, Accumulate) else None)
    return program


def _mib(size: int) -> str:
    return f"{math.ceil(size / 2**20 * 10) / 10:g}"


__all__ = ["AT_ONCE", "Impossible", "Part", "Place", "Planner", "View", "Wants", "program_of"]
