"""Gradients as users ask for them: `grad`, `value_and_grad`, `vjp`, `jvp`, `stop_gradient`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .array import Array, apply, as_node
from .close import close
from .cnames import c_names
from .constructors import new_input
from .errors import ArgumentError, DtypeError, ShapeError
from .formula import formula
from .function import Function, make_function
from .gradient import inexact, pull_back, zeros_like
from .gradient_scans import substituted
from .graph import (
    Graph,
    Input,
    make,
    toposort,
)
from .graph_gradients import Exactly
from .ops import STOP
from .tracing import TracedFunction, compile, flatten


def stop_gradient(x: Any) -> Any:
    """`x`, of which gradients know nothing: a constant to them."""
    return apply(STOP, x) if isinstance(x, Array) else x


def grad(cost: Any, wrt: Any = 0, *, order: str = "f", has_aux: bool = False) -> Any:
    """The gradient of a scalar: of an expression, or of a function.

    Parameters
    ----------
    cost : Array or callable
        A real expression of rank 0; or a function that gives one: NumPy code, a `Function`, or
        what `elemc.compile` made.
    wrt : Array, sequence of Array; int, str, or tuple of these
        Expressions that the cost depends on; or arguments of the function, by place or name.
    order : {"f", "c"}
        How an expression aligns the ends of shapes.
    has_aux : bool
        The function returns (cost, more): so does the gradient.

    Returns
    -------
    Array or list of Array; or callable
        In the shapes and dtypes of `wrt`; or a compiled function of the same arguments that gives
        them, a tuple if `wrt` is one.

    Raises
    ------
    ShapeError, DtypeError
        If the cost is no real scalar, or something in `wrt` is neither real nor complex.
    """
    if isinstance(cost, Array):
        single = not isinstance(wrt, (list, tuple))
        targets = [wrt] if single else list(wrt)
        if not all(isinstance(t, Array) for t in targets):
            raise ArgumentError("grad of an expression: wrt= is an Array or a list of them")
        found = _gradients(cost, targets, order)
        return found[0] if single else found
    both = value_and_grad(cost, wrt, has_aux=has_aux)

    def gradient(*args: Any, **named: Any) -> Any:
        value, gradients = both(*args, **named)
        return (gradients, value[1]) if has_aux else gradients

    return _like(cost, gradient, "grad")


def value_and_grad(fn: Callable[..., Any], wrt: Any = 0, *, has_aux: bool = False) -> Any:
    """A function that gives the cost as well as its gradient; see `grad`."""
    called = fn if isinstance(fn, (Function, TracedFunction)) else compile(fn)
    signature = _signature(fn)

    def both(*args: Any, **named: Any) -> Any:
        bound = signature.bind(*args, **named)
        bound.apply_defaults()
        places = _places(wrt, bound)
        fresh = inspect.BoundArguments(signature, dict(bound.arguments))
        inputs: dict[Input, Array] = {}
        for name in places:
            given = bound.arguments[name]
            if not isinstance(given, Array):
                raise ArgumentError(f"{_name(fn)}: the argument {name} is no array: it has no "
                                    "gradient")
            stand_in = new_input(name, given.ndim, given.dtype)
            inputs[stand_in.node] = given  # type: ignore[index]
            fresh.arguments[name] = stand_in
        result = called(*fresh.args, **fresh.kwargs)
        cost, *aux = result if has_aux else (result,)
        gradients = _gradients(cost, list(map(Array, inputs)), "f")
        flat, rebuild = flatten((cost, *aux), _name(fn))
        results = substituted([*flat, *(g.node for g in gradients)], inputs)
        assert rebuild is not None
        value = rebuild(results[:len(flat)])
        several = tuple(results[len(flat):])
        return value if has_aux else value[0], several if isinstance(wrt, tuple) else several[0]

    return _like(fn, both, "value_and_grad")


def vjp(f: Function) -> Function:
    r"""The gradients of all inputs of a function, for cotangents of its outputs.

    Parameters
    ----------
    f : Function
        Its inputs have dtypes.

    Returns
    -------
    Function
        Of (\*inputs, \*cotangents), a cotangent for every real or complex output, in exactly its
        shape.  It gives a tuple that lines up with the inputs: None for integers and bools.
    """
    closed, inputs = _closed(f), list(f.graph.inputs)
    cotangents: list[Any] = []
    seeds: list[Array | None] = []
    for name, output in zip(f.output_names, closed.outputs, strict=True):
        if inexact(output):
            given = new_input(f"g{name}", output.ndim, output.dtype)
            cotangents.append(given.node)
            seeds.append(Array(make(Exactly, given.node, output)))
        else:
            seeds.append(None)
    wanted = [i for i in inputs if inexact(i)]
    found = pull_back(closed.outputs, seeds, wanted)
    outputs = [zeros_like(i) if g is None else g for i, g in zip(wanted, found, strict=True)]
    names = c_names([*f.input_names, *(c.name for c in cotangents),
                     *(f"g{i.name}" for i in wanted)])[len(inputs) + len(cotangents):]
    most = max((c.ndim for c in cotangents), default=0)
    modes = tuple("(accumulate, sum)" if i.ndim < most else "broadcast" for i in wanted)
    graph = Graph((*inputs, *cotangents), tuple(o.node for o in outputs))
    lined = Lined(tuple(map(inexact, inputs)), names)
    return make_function(graph, f.order, modes, False, f"{f.name}_vjp", None, lined, f.contract,
                         f.reassociate)


def jvp(f: Function) -> Function:
    r"""The derivative of a function along a direction.

    It is the transpose of `vjp`, which is linear in the cotangents (Townsend, "A new trick for
    calculating Jacobian vector products", 2017).

    Returns
    -------
    Function
        Of (\*inputs, \*tangents), a tangent for every real or complex input, in exactly its
        shape; it gives (\*outputs, \*tangents of the real or complex outputs).
    """
    closed, inputs = _closed(f), list(f.graph.inputs)
    wanted = [i for i in inputs if inexact(i)]
    smooth = [o for o in closed.outputs if inexact(o)]
    dummies = [new_input(f"u{k}", o.ndim, o.dtype) for k, o in enumerate(smooth)]
    exact = [Array(make(Exactly, u.node, o)) for u, o in zip(dummies, smooth, strict=True)]
    found = pull_back(smooth, exact, wanted)
    tangents = [new_input(f"d{i.name}", i.ndim, i.dtype) for i in wanted]
    used = [(g, Array(make(Exactly, t.node, i))) for g, t, i in
            zip(found, tangents, wanted, strict=True) if g is not None]
    again = close(Graph((), (*(g.node for g, _ in used), *(e.node for e in exact))), f.order)
    moved = pull_back(again.outputs[:len(used)], [t for _, t in used], again.outputs[len(used):])
    shapes = {u.node: zeros_like(o) for u, o in zip(dummies, smooth, strict=True)}
    along = substituted([(zeros_like(o) if t is None else t).node
                          for o, t in zip(smooth, moved, strict=True)], shapes)
    graph = Graph((*inputs, *(t.node for t in tangents)),  # type: ignore[arg-type]
                  (*closed.outputs, *(t.node for t in along)))
    outputs = graph.outputs
    return make_function(graph, f.order, ("broadcast",) * len(outputs), False, f"{f.name}_jvp",
                         None, None, f.contract, f.reassociate)


def gradient_of(f: Function, name: str) -> Function:
    """The gradient of a function of scalar result by one of its inputs."""
    closed = _closed(f)
    inputs = dict(zip(f.input_names, f.graph.inputs, strict=True))
    if name not in inputs or len(closed.outputs) != 1:
        raise ArgumentError(f"grad of {f.name} by {name}: it has {len(closed.outputs)} outputs "
                            f"and the inputs {', '.join(inputs)}")
    [found] = _gradients(Array(closed.outputs[0]), [Array(inputs[name])], f.order)
    graph = Graph(f.graph.inputs, (found.node,))
    return make_function(graph, f.order, ("broadcast",), True, f"{f.name}_grad", None, None,
                         f.contract, f.reassociate)


class Lined:
    """Gradients in a tuple that lines up with the inputs; None for those that have none."""

    keys = None

    def __init__(self, present: tuple[bool, ...], outputs: tuple[str, ...]) -> None:
        self.present, self.outputs = present, outputs

    def __call__(self, results: Sequence[Any]) -> Any:
        """`results` with None in between."""
        rest = iter(results)
        return tuple(next(rest) if p else None for p in self.present)


def _closed(f: Function) -> Graph:
    for i in f.graph.inputs:
        if i.dtype is None:
            raise DtypeError(f"{f.name}: the dtype of {i.name} is not known: give it one, or take "
                             "the gradient in a function that elemc.compile traces")
    return close(f.graph, f.order)


def _gradients(cost: Any, wrt: Sequence[Array], order: str) -> list[Array]:
    """The gradients of a scalar expression, in the shapes and dtypes of `wrt`."""
    node = as_node(cost)
    for below in toposort([node]):
        if isinstance(below, Input) and below.dtype is None:
            raise DtypeError(f"grad: the dtype of {below.name} is not known yet")
    closed = close(Graph((), (node, *(w.node for w in wrt))), order)
    out, *wanted = closed.outputs
    if out.ndim:
        raise ShapeError(f"grad: the cost {formula(node)} has rank {out.ndim}; it is a scalar, as "
                         "its sum or mean is")
    if out.dtype is None or out.dtype.kind != "f":
        raise DtypeError(f"grad: the cost {formula(node)} is {out.dtype}; it is a real number")
    for w in wanted:
        if not inexact(w):
            raise DtypeError(f"grad: {formula(w)} is {w.dtype}, which has no gradient: it is "
                             "neither real nor complex")
    one = Array(as_node(out.dtype.type(1)))
    found = pull_back([out], [one], wanted)
    return [zeros_like(w) if g is None else g for w, g in zip(wanted, found, strict=True)]


def _name(fn: Any) -> str:
    return str(getattr(fn, "__name__", "f"))


def _signature(fn: Any) -> inspect.Signature:
    if isinstance(fn, Function):
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([inspect.Parameter(n, kind) for n in fn.input_names])
    return inspect.signature(fn)


def _like(fn: Any, new: Callable[..., Any], what: str) -> Any:
    """`new`, compiled with the signature, order and static arguments of `fn`."""
    functools.update_wrapper(new, fn, ("__module__", "__doc__"), ())
    new.__name__ = new.__qualname__ = f"{what}_{_name(fn)}"
    new.__signature__ = _signature(fn)  # type: ignore[attr-defined]
    static = fn.static if isinstance(fn, TracedFunction) else ()
    return compile(new, static=static, order=getattr(fn, "order", "f"), name=new.__name__)


def _places(wrt: Any, bound: inspect.BoundArguments) -> list[str]:
    """The names of the arguments that `wrt` lists."""
    names = list(bound.arguments)
    found = []
    for which in wrt if isinstance(wrt, tuple) else (wrt,):
        if isinstance(which, str) and which in names:
            found.append(which)
        elif isinstance(which, (int, np.integer)) and -len(names) <= which < len(names):
            found.append(names[which])
        else:
            raise ArgumentError(f"wrt={which!r}: the arguments are {', '.join(names)}")
    if len(set(found)) < len(found):
        raise ArgumentError(f"wrt={wrt!r} names an argument twice")
    return found
