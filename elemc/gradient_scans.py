"""The gradient of any accumulator: a scan forward, and one back.

With acc[k] = combine(acc[k-1], x[k]), the cotangents go

    g_acc[k-1], g_x[k] = adjoint(acc[k-1], x[k], g_acc[k])

so the forward scan keeps acc[k-1] for every k, and the scan back consumes them.  The adjoint is
the user's, or comes from `combine` by the transformer itself.  The scan back is a scan as any
other: its state are the cotangents g_acc, its elements x[k] and acc[k-1].
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .array import Array, accumulate, apply, as_node
from .close import Program, close
from .constructors import new_input
from .errors import UnsupportedError
from .graph import (
    Accumulate,
    Axis,
    ExpandTo,
    Graph,
    Index,
    Iota,
    Node,
    Scan,
    Size,
    const,
    make,
    toposort,
)
from .portable import substitute

PullBack = Callable[[Sequence[Node], Sequence[Any], Iterable[Node]], list[Any]]


@dataclass(frozen=True)
class Adjoint:
    """What the scan back does; stands for its accumulator, of which only the name is wanted."""

    name: str


@dataclass
class Step:
    """One step back, as scalar expressions.

    Attributes
    ----------
    state, element, back : lists of Input
        acc[k-1], the parts of x[k], and g_acc[k] of the real or complex parts of the state.
    of_state, of_element : lists of Array
        The cotangents of the real or complex parts of `state`, and of those of `element`.
    """

    state: list[Any]
    element: list[Any]
    back: list[Any]
    of_state: list[Any]
    of_element: list[Any]


def fold_back(g: Array, node: Accumulate, pull_back: PullBack) -> list[tuple[Node, Any, Any]]:
    """The cotangents of what an accumulator of any kind folds, and of its initial value."""
    program = _program(node)
    if node.where is not None:
        raise UnsupportedError(f"accumulator {node.acc.name} has no gradient with where=")
    initial = () if node.initial is None else (make(ExpandTo, node.initial, node),)
    last = [Array(make(Accumulate, node.acc, node.arg, node.axes, part.dtype, node.initial, None,
                       (("program", part), ("matched", False)))) for part in _parts(program)]
    ends = _finish_back(program, last, g, pull_back)
    step = _step(program, 1, node.acc.adjoint, pull_back)
    whole = make(Scan, node.acc, node.arg, (), initial, node.axes, False, True, program.dtype,
                 program)
    if not step.back:  # the state is made of integers
        return []
    last_of = [_whole(end, node) for end in ends if _smooth(end.node)]
    found, first = _back(whole, step, last_of, None)
    parts: list[tuple[Node, Any, Any]] = [(node.arg, found[0], None)]
    if node.initial is not None and first:
        parts.append((node.initial, first[0], None))
    return parts


def scan_back(g: Array, node: Scan, pull_back: PullBack) -> list[tuple[Node, Any]]:
    """The cotangents of what a scan goes over, and of its first state."""
    program = _program(node)
    count = 1 + len(node.more)
    step = _step(program, count, getattr(node.acc, "adjoint", None), pull_back)
    given = new_input("g", 0, program.dtype)
    smooth = [k for k, s in enumerate(step.state) if _smooth(s)]
    if node.exclusive:
        more = _finish_back(program, list(map(Array, step.state)), given, pull_back)
        step.of_state = [a + more[k] for a, k in zip(step.of_state, smooth, strict=True)]
    else:
        after = substitute(program.combine, [*map(Array, step.state), *map(Array, step.element)])
        more = _finish_back(program, after, given, pull_back)
        moved = {b: Array(b) + more[k] for b, k in zip(step.back, smooth, strict=True)}
        step.of_state, step.of_element = (
            substituted([a.node for a in side], moved) for side in (step.of_state, step.of_element))
    if not step.back:
        return []
    step.element.append(given.node)
    found, first = _back(node, step, None, g)
    parts = list(zip((node.arg, *node.more), found, strict=False))
    return [*parts, *zip([n for n in node.initial if _smooth(n)], first, strict=False)]


def _back(node: Scan, step: Step, ends: list[Any] | None, g: Array | None
          ) -> tuple[list[Any], list[Any]]:
    """The scan back over `node`, from the cotangents `ends` of the last state or from zeros.

    Gives the cotangents of the parts of an element, and of the first state if it was given.
    """
    states = [Array(make(Scan, node.acc, node.arg, node.more, node.initial, node.axes,
                         node.reverse, True, part.dtype, part)) for part in _parts(_program(node))]
    elements = [Array(node.arg), *map(Array, node.more), *([] if g is None else [g])]
    inputs = (*step.back, *step.element, *step.state)
    below = set(toposort([a.node for a in step.of_state]))
    used = [(s, a) for s, a in zip(step.state, states, strict=True) if s in below]
    combine = close(Graph((*step.back, *step.element, *(s for s, _ in used)),
                          tuple(a.node for a in step.of_state)))
    sources = [*elements, *(a for _, a in used)]
    dtypes = tuple(b.dtype for b in step.back)
    zeros = tuple(d.type(0) for d in dtypes)
    program = Program(f"{node.acc.name}_adjoint", dtypes, zeros, None, combine, None, combine,
                      step.element[0].dtype, dtypes[0], None, False, False, False)
    back = [Array(make(Scan, Adjoint(program.name), elements[0].node,
                       tuple(a.node for a in sources[1:]), () if ends is None else
                       tuple(a.node for a in ends), node.axes, not node.reverse, True,
                       part.dtype, part)) for part in _parts(program)]
    operands = [*back, *elements, *states]
    found = substitute(Graph(inputs, tuple(as_node(a) for a in step.of_element)), operands)
    found = [_whole(value, node.arg) for value in found]
    if not node.initial:
        return found, []
    starts: list[Any] = []
    for axis in node.axes:
        size = make(Size, node.arg, axis)
        at = Array(make(Index, make(Iota, size), (Axis(axis),), node.ndim))
        starts.append(at == (Array(size) - 1 if node.reverse else 0))
    start = functools.reduce(lambda a, b: a & b, starts)
    of_state = substitute(Graph(inputs, tuple(a.node for a in step.of_state)), operands)
    return found, [accumulate("sum", apply("where", start, a, 0), node.axes) for a in of_state]


def _step(program: Program, count: int, adjoint: Any, pull_back: PullBack) -> Step:
    """One step back: by the user's adjoint, or that of `combine`."""
    inputs = list(program.combine.inputs)
    state, element = inputs[:-count], inputs[-count:]
    smooth = [s for s in state if _smooth(s)]
    back = [new_input(f"g{k}", 0, s.dtype).node for k, s in enumerate(smooth)]
    if adjoint is None:
        outputs = [o for o, s in zip(program.combine.outputs, state, strict=True) if _smooth(s)]
        found = pull_back(outputs, list(map(Array, back)), [*smooth, *element])
    else:
        several = len(state) > 1
        acc, g = (tuple(map(Array, part)) if several else Array(part[0]) for part in (state, back))
        of_acc, of_value = adjoint(acc, Array(element[0]), g)
        found = [*(of_acc if several else (of_acc,)), of_value]
        found = [Array(as_node(f)).astype(n.dtype) for f, n in
                 zip(found, [*smooth, *element], strict=True)]
    found = [_zero(n) if f is None else f
             for f, n in zip(found, [*smooth, *element], strict=True)]
    return Step(state, element, back, found[:len(smooth)], found[len(smooth):])


def _finish_back(program: Program, states: Sequence[Any], g: Array, pull_back: PullBack
                 ) -> list[Any]:
    """The cotangent of every part of the state whose `finish` has the cotangent `g`."""
    inputs = program.finish.inputs
    given = new_input("g", 0, program.finish.outputs[0].dtype)
    found = pull_back(program.finish.outputs, [given], inputs)
    outputs = [_zero(i) if f is None else f for f, i in zip(found, inputs, strict=True)]
    graph = Graph((*inputs, given.node), tuple(o.node for o in outputs))  # type: ignore[arg-type]
    return substitute(graph, [*states, g])


def _parts(program: Program) -> list[Program]:
    """The program that gives one part of the state, for every part."""
    inputs = tuple(new_input(f"s{k}", 0, d).node for k, d in enumerate(program.state))
    return [replace(program, finish=Graph(inputs, (i,)), dtype=i.dtype)  # type: ignore[arg-type]
            for i in inputs]


def _program(node: Any) -> Program:
    program: Program = node.program if isinstance(node, Scan) else dict(node.options)["program"]
    if program.identity is None and program.neutral is not None:
        program = replace(program, identity=program.neutral)
    if program.index or program.identity is None and not getattr(node, "initial", None):
        raise UnsupportedError(f"accumulator {node.acc.name} has no gradient: it "
                               + ("counts its elements" if program.index else "has no identity"))
    return program


def _zero(node: Any) -> Array:
    return Array(const(node.dtype.type(0)))


def _whole(value: Array, like: Node) -> Array:
    """A cotangent in the shape of `like`, if it is a constant."""
    return value if value.ndim == like.ndim else Array(make(ExpandTo, value.node, like))


def _smooth(node: Any) -> bool:
    return node.dtype.kind in "fc"


def substituted(outputs: Sequence[Node], given: Any) -> list[Array]:
    """`outputs` with other nodes for inputs."""
    new: dict[Node, Node] = {i: a.node for i, a in given.items()}
    for node in toposort(outputs):
        if node not in new:
            below = tuple(new[c] for c in node.children)
            new[node] = node if below == node.children else node.rebuild(below)
    return [Array(new[o]) for o in outputs]

