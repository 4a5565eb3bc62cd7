"""The text of each stage of the compiler, for people to read and compare."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import build_listing, compiler, runtime
from .compiler import Closed
from .dtypes import dtype_of
from .errors import ArgumentError, DtypeError
from .formula import formula
from .graph import (
    Accumulate,
    Apply,
    Captured,
    Cast,
    Const,
    ExpandTo,
    Graph,
    Index,
    Input,
    Iota,
    Node,
    Scan,
    Size,
)
from .graph_gradients import Custom, Exactly, Result, Scatter, SumTo
from .layout import Layout
from .maps import Instruction
from .nest_print import print_kernel
from .specialize import Given, Signature

STAGES = ("graph", "nest", "c", "asm", "vectorization")
MANY = 1000  # stands for the size of an axis that is not known


def dump(function: Any, arrays: Sequence[Any], stage: str = "c",
         dtypes: Mapping[str, Any] | None = None) -> str:
    """The text of one stage of a function.

    Parameters
    ----------
    function : Function
    arrays : sequence of array_like
        The kernel for a call on these arrays.  None: for C-contiguous ones, without axes of
        size 1 where the function allows others.
    stage : {"graph", "nest", "c", "asm", "vectorization"}
    dtypes : mapping from str to dtype, optional
        Without arrays, what inputs are given; default: their own dtype, else float64.

    Raises
    ------
    ArgumentError
        If there is no such stage or input.
    """
    if stage not in STAGES:
        raise ArgumentError(f"no stage {stage!r}; there are {', '.join(STAGES)}")
    closed, signature = (function.example(arrays) if len(arrays) or not function.nin
                         else of_contiguous(function, dtypes or {}))
    if stage == "graph":
        return print_graph(closed.graph)
    if stage == "nest":
        _, kernel = compiler.nests(closed, signature)
        return print_kernel(kernel, closed.extents.program)
    spec, _, source = compiler.source_of(closed, signature)
    if stage == "c":
        return source.text
    flags = compiler.flags_of(spec, function.contract, function.reassociate)
    if stage == "asm":
        return build_listing.assembly(source.text, *flags)
    from . import vectorization

    return vectorization.report(source.text, source.entry, *flags)


def of_contiguous(function: Any, dtypes: Mapping[str, Any]) -> tuple[Closed, Signature]:
    """What a call on C-contiguous arrays compiles; axes are of size 1 only where they must be."""
    names = [i.name for i in function.graph.inputs]
    for name in dtypes:
        if name not in names:
            raise ArgumentError(f"{function.name} has no input {name}; there are "
                                f"{', '.join(names)}")
    given = [dtype_of(dtypes.get(i.name, i.dtype or np.float64)) for i in function.graph.inputs]
    for node, dtype in zip(function.graph.inputs, given, strict=True):
        if node.dtype is not None and not np.can_cast(dtype, node.dtype, "safe"):
            raise DtypeError(f"{function.name}: {node.name} of dtype {dtype} does not cast safely "
                             f"to {node.dtype}")
    closed = function.close(tuple(
        i.dtype or d for i, d in zip(function.graph.inputs, given, strict=True)))
    captured = [c.array.data for c in closed.graph.captured]
    program = closed.extents.program
    ones = _ones(program, {(len(given) + k, d) for k, array in enumerate(captured)
                           for d, n in enumerate(array.shape) if n == 1})
    operands = []
    for number, (node, dtype) in enumerate(zip(closed.graph.inputs, given, strict=True)):
        single = {program[e][2] for e in ones if program[e][:2] == ("dim", number)}
        dims = tuple(d for d in range(node.ndim) if d not in single)
        layout = Layout(dims, (True,) * (len(dims) - 1), 1)
        operands.append(Given(dtype, "native", layout))
    operands += map(runtime.given, captured)
    return closed, _signature(function, ones, tuple(operands))


def _signature(function: Any, ones: frozenset[int], operands: tuple[Given, ...]) -> Signature:
    return Signature(ones, operands, (None,) * function.nout, ("write",) * function.nout)


def _ones(program: Sequence[Instruction], single: set[tuple[int, int]]) -> frozenset[int]:
    """The extents that are 1 in every call in which as few as possible are.

    `single` holds the (operand, dimension) known to be of size 1.
    """
    ones: set[int] = set()
    before = -1
    while len(ones) > before:  # `only` and `fit` tell of extents that stand before them
        before = len(ones)
        for place, (kind, *args) in enumerate(program):
            if kind in ("one", "pick", "only") or (kind == "dim" and tuple(args) in single):
                ones.add(place)
            if kind == "only":
                ones.add(args[0])
            elif kind == "slice":
                size = 1 if args[0] in ones else MANY
                if len(range(*slice(*args[1:]).indices(size))) == 1:
                    ones.add(place)
            elif kind == "join" and ones.issuperset(args):
                ones.add(place)
            elif kind == "fit" and args[1] in ones:
                ones.update((place, args[0]))
    return frozenset(ones)


def print_graph(graph: Graph) -> str:
    """A closed graph, one line per node: `%3 = add(%1, %2) : float64[2]`."""
    nodes = [*graph.inputs, *(n for n in graph.nodes if n not in graph.inputs)]
    name = {node: f"%{k}" for k, node in enumerate(nodes)}.__getitem__
    lines = [f"{name(n)} = {_node(n, name)} : {n.dtype}[{n.ndim}]" for n in nodes]
    return "\n".join([*lines, f"return {', '.join(map(name, graph.outputs))}", ""])


def _node(node: Node, name: Callable[[Node], str]) -> str:
    match node:
        case Input():
            return f"input {node.name}"
        case Captured():
            return f"captured {node.name}"
        case Const():
            return f"const {node.value.item()!r}"
        case Size():
            return f"{name(node.arg)}.shape[{node.dim}]"
        case Iota():
            return f"arange({name(node.size)})"
        case Apply():
            return f"{node.op.name}({', '.join(map(name, node.args))})"
        case Cast():
            return f"cast({name(node.arg)})"
        case Index():
            return formula(node, {node.arg: name(node.arg)})
        case ExpandTo() | SumTo():
            word = {Exactly: "exactly", SumTo: "sum_to"}.get(type(node), "expand_to")
            return f"{word}({name(node.arg)}, {name(node.like)})"
        case Scan():
            return formula(node, {node.arg: name(node.arg)})
        case Custom():
            return f"custom({', '.join(map(name, node.args))})"
        case Result():
            return f"{name(node.call)}[{node.place}]"
        case Scatter():
            return formula(node, {node.arg: name(node.arg), node.like: name(node.like)})
        case Accumulate():
            more = "".join(f", {word}={name(part)}" for word, part in (
                ("initial", node.initial), ("where", node.where)) if part is not None)
            return f"{node.acc.name}({name(node.arg)}, axes={node.axes}{more})"
    raise AssertionError(type(node).__name__)


def unified(a: str, b: str, name_a: str, name_b: str) -> str:
    """The unified diff of two texts; empty if they are equal."""
    return "".join(difflib.unified_diff(
        a.splitlines(keepends=True), b.splitlines(keepends=True), name_a, name_b))


__all__ = ["STAGES", "dump", "of_contiguous", "print_graph", "unified"]
