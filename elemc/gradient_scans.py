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
from dataclasses import replace
from typing import Any

import numpy as np

from .array import Array, accumulate, apply, as_node
from .close import Program, close
from .constructors import new_input
from .gradient_folds import place_of, size_of
from .graph import (
    Accumulate,
    ExpandTo,
    Graph,
    Node,
    Scan,
    const,
    make,
    replaced,
    toposort,
)
from .graph_gradients import Adjoint, Custom, Result
from .portable import substitute
from .records import dataclass

BOOL = np.dtype(bool)
PullBack = Callable[[Sequence[Node], Sequence[Any], Iterable[Node]], list[Any]]


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
    program = dict(node.options)["program"]
    initial = () if node.initial is None else (make(ExpandTo, node.initial, node),)
    last = [Array(make(Accumulate, node.acc, node.arg, node.axes, part.dtype, node.initial,
                       node.where, (("program", part),))) for part in _parts(program)]
    ends = _finish_back(program, last, g, pull_back)
    where = () if node.where is None else (node.where,)
    program, more = _uniform(program, node, False, where, node.acc.adjoint)
    step = _step(program, pull_back)
    whole = make(Scan, node.acc, node.arg, tuple(m.node for m in more), initial, node.axes, False,
                 True, program.dtype, program)
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
    adjoint = None if node.more else getattr(node.acc, "adjoint", None)  # else it is in there
    program, more = _uniform(node.program, node, node.reverse, (), adjoint)
    node = make(Scan, node.acc, node.arg, (*node.more, *(m.node for m in more)), node.initial,
                node.axes, node.reverse, node.exclusive, node.dtype, program)
    step = _step(program, pull_back)
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
                         node.reverse, True, part.dtype, part)) for part in _parts(node.program)]
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
    start = _first(node, node.reverse)
    of_state = substitute(Graph(inputs, tuple(a.node for a in step.of_state)), operands)
    return found, [accumulate("sum", apply("where", start, a, 0), node.axes) for a in of_state]


def _uniform(program: Program, node: Accumulate | Scan, reverse: bool, where: Sequence[Node],
             adjoint: Any) -> tuple[Program, list[Array]]:
    """The same accumulator, whose first element is like the others, and further parts of these.

    The parts are the place, if the accumulator counts its elements; whether it is the first, if
    there is no identity; and whether the element counts, as `where` says.
    """
    given = node.initial is not None if isinstance(node, Accumulate) else bool(node.initial)
    identity = program.identity or program.neutral
    inputs, count = list(program.combine.inputs), len(program.state)
    state, element = inputs[:count], inputs[count:]
    after = list(map(Array, program.combine.outputs))
    if adjoint is not None:
        rule = functools.partial(_adjoint_rule, adjoint, count)
        name = f"accumulator {program.name}"
        call = make(Custom, name, program.combine.outputs, tuple(inputs), rule, tuple, False)
        after = [Array(make(Result, call, k)) for k in range(count)]
    more = [place_of(node)] if program.index else []
    if identity is None and not given:
        assert program.start is not None
        first = new_input("first", 0, BOOL)
        begin = substitute(program.start, list(map(Array, element)))
        after = [apply("where", first, b, a) for b, a in zip(begin, after, strict=True)]
        identity = tuple(d.type(0) for d in program.state)
        element.append(first.node)  # type: ignore[arg-type]
        more.append(_first(node, reverse))
    for mask in where:
        counts = new_input("counts", 0, BOOL)
        after = [apply("where", counts, a, Array(s)) for a, s in zip(after, state, strict=True)]
        element.append(counts.node)  # type: ignore[arg-type]
        more.append(Array(mask))
    combine = close(Graph((*state, *element), tuple(a.node for a in after)))
    return replace(program, combine=combine, identity=identity, index=False), more


def _adjoint_rule(adjoint: Any, count: int, g: Any, z: Any, *args: Any) -> list[Any]:
    """The user's adjoint as the rule of `combine`; it knows real and complex states only."""
    acc, value, smooth = args[:count], args[count], [a.dtype.kind in "fc" for a in args[:count]]
    g = [part for part, is_so in zip(g, smooth, strict=True) if is_so]
    if count == 1:
        acc, g = acc[0], g[0]
    of_acc, of_value = adjoint(acc, value, g if count == 1 else tuple(g))
    rest = iter((of_acc,) if count == 1 else of_acc)
    return [*(next(rest) if is_so else None for is_so in smooth), of_value,
            *[None] * (len(args) - count - 1)]


def _first(node: Accumulate | Scan, reverse: bool) -> Array:
    """Whether an element is the first of those folded."""
    start: Array = apply("equal", place_of(node), size_of(node) - 1 if reverse else 0)
    return start


def _step(program: Program, pull_back: PullBack) -> Step:
    """One step back."""
    inputs, count = list(program.combine.inputs), len(program.state)
    state, element = inputs[:count], inputs[count:]
    smooth = [s for s in state if _smooth(s)]
    back = [new_input(f"g{k}", 0, s.dtype).node for k, s in enumerate(smooth)]
    outputs = [o for o, s in zip(program.combine.outputs, state, strict=True) if _smooth(s)]
    found = pull_back(outputs, list(map(Array, back)), [*smooth, *element])
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


def _zero(node: Any) -> Array:
    return Array(const(node.dtype.type(0)))


def _whole(value: Array, like: Node) -> Array:
    """A cotangent in the shape of `like`, if it is a constant."""
    return value if value.ndim == like.ndim else Array(make(ExpandTo, value.node, like))


def _smooth(node: Any) -> bool:
    return node.dtype.kind in "fc"


def substituted(outputs: Sequence[Node], given: Any) -> list[Array]:
    """`outputs` with other nodes for inputs."""
    return list(map(Array, replaced(outputs, {i: a.node for i, a in given.items()})))
