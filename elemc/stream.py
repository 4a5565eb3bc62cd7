"""Evaluation of files larger than memory, in blocks.

Inputs are mapped, and outputs are written through a mapping under a temporary name and moved into
place when all is done.  `stream_plan` says which axis is cut and in which passes; here they run.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from .array import as_node
from .close import Program, trace
from .constructors import new_input
from .errors import ArgumentError
from .function import Function, make_function
from .graph import Accumulate, Captured, Const, Graph, Input, Iota, Node, Size, make
from .graph_gradients import SumTo
from .maps import run_extents
from .portable import substitute
from .stream_files import Outputs, open_input, progress, release, scratch_files
from .stream_plan import AT_ONCE, Part, Place, Planner, program_of

BLOCK_MIB = 64
State = tuple[np.ndarray, ...]


def run(make_target: Callable[[Mapping[str, np.ndarray]], Function], files: Mapping[str, str],
        out: Sequence[str], block: float = BLOCK_MIB, shown: bool = False) -> list[Path]:
    """Evaluate a function on files.

    Parameters
    ----------
    make_target : callable
        Gives the function for these arrays, by input name.
    files : mapping from str to str
        Per input FILE.npy, FILE.npz:MEMBER, or FILE.npz of one member.
    out : sequence of str
        One .npy per output, in their order or as NAME=FILE.npy; or one .npz for all, whose members
        are named as the outputs: by the keys of a dict, else z, or z0, z1, ...
    block : float
        MiB of arrays worked on at a time.
    shown : bool
        Show the progress on stderr.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    ArgumentError
        If a file cannot be read or written, or does not fit an input.
    UnsupportedError
        If the function cannot be evaluated block by block.
    """
    if not block >= 1:
        raise ArgumentError(f"--block is at least 1 (MiB), not {block}")
    if not out:
        raise ArgumentError("an output file is missing: -o OUT.npy")
    with scratch_files() as new:
        near = Path(out[0])
        arrays = {name: open_input(name, file, lambda: new(near)) for name, file in files.items()}
        function = make_target(arrays)
        inputs = [_given(function, name, arrays) for name in _names(function)]
        for name in arrays:
            if name not in _names(function):
                raise ArgumentError(f"{function.name} has no input {name}; there are "
                                    f"{', '.join(_names(function)) or 'none'}")
        _Run(function, inputs, int(block * 2**20)).all(
            written := Outputs(out, _output_names(function), new), shown)
        written.publish()
        return written.files


def _names(function: Function) -> list[str]:
    return [i.name for i in function.graph.inputs]


def _output_names(function: Function) -> list[str]:
    """Of a dict the keys, of a named tuple the fields; else those of the C code."""
    names = [str(key) for key in getattr(function._structure, "keys", None) or ()]
    return names if names and len(set(names)) == len(names) else list(function.output_names)


def _given(function: Function, name: str, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    if name not in arrays:
        raise ArgumentError(f"{function.name}: input {name} is missing: {name}=FILE.npy")
    return arrays[name]


class _Run:
    """One evaluation.

    `results` holds what earlier passes computed and later ones read.
    """

    def __init__(self, function: Function, arrays: Sequence[np.ndarray], limit: int) -> None:
        self.function, self.limit = function, limit
        closed, _ = function.example(arrays)
        self.graph = closed.graph
        self.arrays = list(arrays)
        captured = [c.array.data for c in closed.graph.captured]
        self.sizes = run_extents(closed.extents.program, [a.shape for a in (*arrays, *captured)])
        self.sources: dict[Node, np.ndarray] = dict(zip(
            (*closed.graph.inputs, *closed.graph.captured), (*arrays, *captured), strict=True))
        self.plan = Planner(closed, self.sizes,
                            {n: a.itemsize for n, a in self.sources.items()}, limit)
        self.results: dict[Node, np.ndarray] = {}
        self.written: dict[int, np.ndarray] = {}
        self.tell: Callable[[int], Any] = lambda done: None
        self.pending = 0

    def all(self, outputs: Outputs, shown: bool) -> None:
        """Run every pass."""
        passes = self.plan.passes(self.function.name)
        for number, node in enumerate(self.graph.outputs):
            assert node.dtype is not None
            self.written[number] = outputs.create(self.plan.shape(node), node.dtype)
        total = sum(p.slab * p.length for parts in passes for p in parts)
        with progress(total, shown) as self.tell:
            for parts in passes:
                if parts[0].kind == "fold":
                    self.fold(parts)
                else:
                    self.store(parts)
        self.release()

    # -- passes ------------------------------------------------------------------------------

    def store(self, parts: Sequence[Part]) -> None:
        """Compute values block by block, or at once."""
        graph, leaves = self.assemble(parts)
        function = self.compile(graph, "block")
        targets = [self.target(part) for part in parts]
        slab = sum(p.slab for p in parts)
        for begin, end in blocks(parts[0].length, self.limit // max(1, slab),
                                 max(p.rows for p in parts)):
            outs = tuple(
                np.asarray(t) if p.axis is None else np.asarray(cut(t, p.axis, begin, end))
                for p, t in zip(parts, targets, strict=True))
            function(*self.values(leaves, begin, end), out=outs)
            self.done(slab * (end - begin))

    def target(self, part: Part) -> np.ndarray:
        """Where a value is stored: an output's file, or memory for later passes."""
        if part.output is not None:
            return self.written[part.output]
        assert part.node.dtype is not None
        result = np.empty(self.plan.shape(part.node), part.node.dtype)
        return self.results.setdefault(part.node, result)

    def fold(self, parts: Sequence[Part]) -> None:
        """Fold chunk by chunk; states of chunks are merged in a tree that knows only their number.

        The number and the ends of chunks do not depend on the size of a block.
        """
        graph, leaves = self.assemble(parts)
        function = self.compile(graph, "chunk")
        folds = [_Fold(self, part) for part in parts]
        slab, chunk, length = sum(p.slab for p in parts), parts[0].chunk, parts[0].length
        for begin in range(0, length, chunk):
            end = min(begin + chunk, length)
            values = iter(map(np.asarray, function(*self.values(leaves, begin, end))))
            for fold in folds:
                fold.push(tuple(itertools.islice(values, fold.width)))
                if fold.late is not None:
                    fold.late = next(values)
            self.done(slab * (end - begin))
        for fold in folds:
            self.results[fold.node] = fold.result()

    def done(self, count: int) -> None:
        """Account for `count` bytes, and give their pages back from time to time."""
        self.tell(count)
        self.pending += count
        if self.pending >= self.limit // 2:
            self.release()

    def release(self) -> None:
        """Give back the pages of all mapped files."""
        self.pending = 0
        for array in (*self.arrays, *self.written.values()):
            release(array)

    # -- the graph of a pass -----------------------------------------------------------------

    def assemble(self, parts: Sequence[Part]) -> tuple[Graph, list[tuple[Node, Place]]]:
        """The graph of one block, and what its inputs are: nodes, and the axis they are cut on."""
        wants: dict[Node, dict[Place, None]] = {}
        for part in parts:
            for node, places in part.view.wants.items():
                wants.setdefault(node, {}).update(places)
        cuts = {c for part in parts for c in part.view.cuts}
        new: dict[tuple[Node, Place], Node] = {}
        leaves: dict[tuple[Node, Place], Input] = {}
        for node in self.plan.nodes:
            for place in wants.get(node, ()):
                leaf = isinstance(node, (Input, Captured, Size, Iota))
                if leaf or (node in cuts and place is None):
                    name = getattr(node, "name", None) or f"v{len(leaves)}"
                    leaves[node, place] = new[node, place] = make(
                        Input, name, node.ndim, node.dtype, uuid.uuid4().int)
                elif isinstance(node, Const):
                    new[node, place] = node
                else:
                    made = node.rebuild(tuple(new[read] for read in self.plan.reads(node, place)))
                    new[node, place] = made if place is None else of_part(made)
        outputs: list[Node] = []
        for part in parts:
            if part.kind == "fold":
                outputs += _chunk_outputs(self.plan, part, new)
            else:
                outputs.append(new[part.node, part.axis])
        return Graph(tuple(leaves.values()), tuple(outputs)), list(leaves)

    def compile(self, graph: Graph, name: str) -> Function:
        """A function that computes a closed graph, with the settings of the user's function."""
        modes = ("broadcast",) * len(graph.outputs)
        return make_function(graph, "f", modes, False, f"{name}_{self.function.name}", None, None,
                             self.function.contract, self.function.reassociate)

    def values(self, leaves: Sequence[tuple[Node, Place]], begin: int, end: int) -> list[Any]:
        """The arrays that one block reads."""
        return [self.value(node, place, begin, end) for node, place in leaves]

    def value(self, node: Node, place: Place, begin: int, end: int) -> np.ndarray:
        """What one input of a block's function is given."""
        if isinstance(node, Size):
            return np.asarray(self.plan.shape(node.arg)[node.dim], np.int64)
        if isinstance(node, Iota):
            size = self.plan.shape(node)[0]
            first, last = (0, size) if place is None else (begin, end)
            return np.arange(first, last, dtype=np.int64)
        array = self.results[node] if isinstance(node, Accumulate) else self.sources[node]
        return array if place is None else cut(array, place, begin, end)


def of_part(node: Node) -> Node:
    """A node; if it folds, then in the same order in blocks of any size of what it keeps."""
    program = program_of(node)
    if program is None:
        return node
    program = replace(program, of_part=True)
    if isinstance(node, SumTo):
        return make(SumTo, node.arg, node.like, program)
    assert isinstance(node, Accumulate)
    options = {**dict(node.options), "program": program}
    return make(Accumulate, node.acc, node.arg, node.axes, node.dtype, node.initial, node.where,
                tuple(options.items()))


def cut(array: np.ndarray, axis: int, begin: int, end: int) -> np.ndarray:
    """A slice along one axis."""
    return array[(slice(None),) * axis + (slice(begin, end),)]


def blocks(length: int, rows: int, least: int = 2) -> Iterator[tuple[int, int]]:
    """Cut `length` indices into blocks of about `rows`, but `least` (1 or 2) or more."""
    rows = max(least, rows)
    begin = 0
    while length - begin > rows + least - 1:
        yield begin, begin + rows
        begin += rows
    if length - begin == rows + 1 and rows > 2 and least > 1:
        yield begin, begin + rows - 1
        begin += rows - 1
    yield begin, length


# -- folds ------------------------------------------------------------------------------------


class _Fold:
    """A fold in the making: the states of `2**k` chunks each, like the digits of a counter."""

    def __init__(self, owner: _Run, part: Part) -> None:
        assert isinstance(part.node, Accumulate)
        self.owner, self.node = owner, part.node
        self.program: Program = dict(part.node.options)["program"]
        self.width = len(self.program.state)
        self.late: Any = () if _late(part.node) else None
        self.shape = owner.plan.shape(part.node)
        assert self.program.merge is not None
        self.merge = self.function(self.program.merge, "merge")
        self.digits: list[tuple[int, State]] = []

    def push(self, state: State) -> None:
        """Add the state of the next chunk."""
        level = 0
        while self.digits and self.digits[-1][0] == level:
            state = self.merge(self.digits.pop()[1], state)
            level += 1
        self.digits.append((level, state))

    def result(self) -> np.ndarray:
        """The value of the fold."""
        _, state = self.digits.pop()
        while self.digits:
            state = self.merge(self.digits.pop()[1], state)
        if self.late is not None:
            first = np.broadcast_to(self.late, self.shape).astype(self.program.state[0])
            state = self.merge((first,), state)
        result, = self.function(self.program.finish, "finish")(state)
        with np.errstate(over="ignore"):  # a float16 result of a float32 state
            return result.astype(self.program.dtype, copy=False)

    def function(self, graph: Graph, name: str) -> Callable[..., State]:
        """A graph of scalars as a function of states."""
        inputs = [new_input(i.name, len(self.shape), i.dtype) for i in graph.inputs]
        ends = tuple(as_node(i) for i in inputs)
        outputs = tuple(as_node(o) for o in substitute(graph, inputs))
        compiled = self.owner.compile(Graph(ends, outputs),  # type: ignore[arg-type]
                                      f"{name}_{self.program.name}")
        return lambda *states: tuple(
            np.asarray(r) for r in compiled(*(part for state in states for part in state)))


def _late(node: Accumulate) -> bool:
    """Whether `initial` is merged into the total; else every chunk of the fold starts from it.

    The minimum may start from the same value any number of times, and must where it has no
    identity and every element of a chunk may be masked out.
    """
    return node.initial is not None and dict(node.options)["program"].identity is not None


def _chunk_outputs(plan: Planner, part: Part,
                   new: Mapping[tuple[Node, Place], Node]) -> list[Node]:
    """The components of the state of one chunk, and `initial` if it is merged late."""
    node, axis = part.node, part.axis
    assert isinstance(node, Accumulate)
    arg = new[node.arg, plan.fit(node.arg, axis)]
    where = None if node.where is None else new[node.where, plan.fit(node.where, axis)]
    start = None if node.initial is None else new[node.initial, None]
    program: Program = dict(node.options)["program"]
    result: list[Node] = []
    for number, dtype in enumerate(program.state):
        options = (("program", _component(program, number)),)
        result.append(make(Accumulate, node.acc, arg, node.axes, dtype,
                           None if _late(node) else start, where, options))
    if _late(node):
        assert start is not None
        result.append(start)
    return result


@lru_cache(maxsize=512)
def _component(program: Program, number: int) -> Program:
    """The fold that ends with one component of the state."""
    finish = trace(lambda *state: state[number], program.state, f"{program.name}.state{number}")
    return replace(program, finish=finish, dtype=program.state[number])


__all__ = ["AT_ONCE", "BLOCK_MIB", "blocks", "run"]
