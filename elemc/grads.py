"""Gradients as users ask for them: `grad`, `value_and_grad`, `vjp`, `jvp`, `stop_gradient`."""

from __future__ import annotations

import functools
import inspect
import keyword
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .array import Array, apply, as_node
from .close import close
from .cnames import c_names
from .constructors import new_input
from .dtypes import PYTHON_NUMBERS
from .errors import ArgumentError, DtypeError, ShapeError, UnsupportedError
from .formula import formula
from .function import Function, make_function
from .gradient import inexact, pull_back, zeros_like
from .gradient_scans import substituted
from .graph import (
    Accumulate,
    Apply,
    Graph,
    Input,
    Node,
    make,
    source_of,
    toposort,
)
from .graph_gradients import Exactly
from .ops import NEAR, STOP
from .tracing import PLACED, TracedFunction, compile, signature_of
from .tracing_results import Lined, flatten


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
    both = _both(cost, wrt, has_aux)

    def gradient(*args: Any, **named: Any) -> Any:
        value, gradients = both(*args, **named)
        return (gradients, value[1]) if has_aux else gradients

    return _like(cost, gradient, "grad")


def value_and_grad(fn: Callable[..., Any], wrt: Any = 0, *, has_aux: bool = False) -> Any:
    """A function that gives the cost as well as its gradient; see `grad`."""
    return _like(fn, _both(fn, wrt, has_aux), "value_and_grad")


def _both(fn: Callable[..., Any], wrt: Any, has_aux: bool) -> Callable[..., Any]:
    """NumPy code for the cost and its gradient."""
    called = fn if isinstance(fn, (Function, TracedFunction)) else compile(fn)
    signature = _signature(fn)

    def both(*args: Any, **named: Any) -> Any:
        bound = signature.bind(*args, **named)
        given_names = {*bound.arguments}
        bound.apply_defaults()
        places = _places(wrt, bound)
        fresh = inspect.BoundArguments(signature, {  # what else has a default is left to `fn`
            n: v for n, v in bound.arguments.items() if n in given_names or n in places})
        inputs: dict[Input, Array] = {}
        for name in places:
            given = bound.arguments[name]
            if name not in given_names and type(given) in PYTHON_NUMBERS:
                given = Array(as_node(given))
            if not isinstance(given, Array):
                raise ArgumentError(f"{_name(fn)}: the argument {name} is no array: it has no "
                                    "gradient")
            if not inexact(given.node) and given.dtype is not None:
                raise DtypeError(f"{_name(fn)}: the argument {name} is {given.dtype}, which has no "
                                 "gradient: give it as a real or complex number")
            stand_in = new_input(name, given.ndim, given.dtype)
            inputs[stand_in.node] = given  # type: ignore[index]
            fresh.arguments[name] = stand_in
        result = called(*fresh.args, **fresh.kwargs)
        if has_aux is not isinstance(result, (tuple, list)) or has_aux and len(result) != 2:
            what = "(cost, more)" if has_aux else "a scalar, or (cost, more) with has_aux=True"
            raise ArgumentError(f"{_name(fn)} gives {type(result).__name__}: it must give {what}")
        cost, *aux = result if has_aux else (result,)
        gradients = _gradients(cost, list(map(Array, inputs)), "f")
        flat, rebuild = flatten((cost, *aux), _name(fn))
        results = substituted([*flat, *(g.node for g in gradients)], inputs)
        assert rebuild is not None
        value = rebuild(results[:len(flat)])
        several = tuple(results[len(flat):])
        return value if has_aux else value[0], several if isinstance(wrt, tuple) else several[0]

    return both


def vjp(f: Any) -> Any:
    r"""The gradients of all inputs of a function, for cotangents of its outputs.

    Parameters
    ----------
    f : Function, or what `elemc.compile` made, or NumPy code

    Returns
    -------
    Function, or PerTypes if dtypes and ranks are known in calls only
        Of (\*inputs, \*cotangents), a cotangent for every real or complex output, in exactly its
        shape.  It gives a tuple that lines up with the inputs: None for integers and bools.
    """
    if not _is_typed(f):
        return PerTypes(f, vjp)
    closed, inputs = close(f.graph, f.order), list(f.graph.inputs)
    cotangents: list[Any] = []
    seeds: list[Array | None] = []
    for name, output in zip(f.output_names, closed.outputs, strict=True):
        if inexact(output):
            given = new_input(f"g{name}", output.ndim, output.dtype)
            cotangents.append(given.node)
            seeds.append(Array(make(Exactly, given.node, output)))
        else:
            seeds.append(None)
    if not cotangents:
        raise DtypeError(f"vjp of {f.name}: no output is real or complex, and no other has a "
                         "gradient")
    wanted = [i for i in inputs if inexact(i)]
    found = pull_back(closed.outputs, seeds, wanted)
    outputs = [zeros_like(i) if g is None else near(g) for i, g in zip(wanted, found, strict=True)]
    names = c_names([*f.input_names, *(c.name for c in cotangents),
                     *(f"g{i.name}" for i in wanted)])[len(inputs) + len(cotangents):]
    most = max(n.ndim for n in toposort(closed.outputs))  # the rank of the loops
    modes = tuple("(accumulate, sum)" if i.ndim < most else "broadcast" for i in wanted)
    graph = Graph((*inputs, *cotangents), tuple(o.node for o in outputs))
    lined = Lined(tuple(map(inexact, inputs)), names)
    return make_function(graph, f.order, modes, False, f"{f.name}_vjp", None, lined, f.contract,
                         f.reassociate)


def jvp(f: Any) -> Any:
    r"""The derivative of a function along a direction.

    It is the transpose of `vjp`, which is linear in the cotangents (Townsend, "A new trick for
    calculating Jacobian vector products", 2017).

    Parameters
    ----------
    f : Function, or what `elemc.compile` made, or NumPy code

    Returns
    -------
    Function, or PerTypes if dtypes and ranks are known in calls only
        Of (\*inputs, \*tangents), a tangent for every real or complex input, in exactly its
        shape; it gives (\*outputs, \*tangents of the real or complex outputs).
    """
    if not _is_typed(f):
        return PerTypes(f, jvp)
    closed, inputs = close(f.graph, f.order), list(f.graph.inputs)
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
    along = substituted([(zeros_like(o) if t is None else near(t)).node
                         for o, t in zip(smooth, moved, strict=True)], shapes)
    graph = Graph((*inputs, *(t.node for t in tangents)),  # type: ignore[arg-type]
                  (*closed.outputs, *(t.node for t in along)))
    outputs = graph.outputs
    return make_function(graph, f.order, ("broadcast",) * len(outputs), False, f"{f.name}_jvp",
                         None, None, f.contract, f.reassociate)


def gradient_of(f: Function, name: str) -> Function:
    """The gradient of a function of scalar result by one of its inputs."""
    if not _is_typed(f):
        raise DtypeError(f"{f.name}: the dtypes of its inputs are not known")
    closed = close(f.graph, f.order)
    inputs = {i.name: i for i in f.graph.inputs}
    if name not in inputs:
        raise ArgumentError(f"grad of {f.name} by {name}: the inputs are {', '.join(inputs)}")
    if len(closed.outputs) != 1:
        raise ArgumentError(f"grad of {f.name}: it has {len(closed.outputs)} outputs, not one")
    [found] = _gradients(Array(closed.outputs[0]), [Array(inputs[name])], f.order)
    graph = Graph(f.graph.inputs, (found.node,))
    return make_function(graph, f.order, ("broadcast",), True, f"{f.name}_grad", None, None,
                         f.contract, f.reassociate)


class PerTypes:
    """A transformed function that is made for the dtypes and ranks it is called with.

    Called with the arguments of the function, of which those with defaults may be left out, then
    those that the transformation adds; any of the function's may be named.
    """

    def __init__(self, fn: Any, transform: Callable[[Function], Function]) -> None:
        self._fn = fn if isinstance(fn, PerTypes) else _traced(fn)
        self._transform = transform
        self.__name__ = f"{_name(fn)}_{transform.__name__}"
        self._made: dict[Function, Function] = {}

    def traced(self, args: tuple[Any, ...], named: Mapping[str, Any]
               ) -> tuple[Function, list[Any]]:
        """The function for these arguments, and those of them that are arrays."""
        least = most = len(args)
        if isinstance(self._fn, TracedFunction):
            parameters = self._fn.__signature__.parameters.values()
            if any(p.kind is p.VAR_POSITIONAL for p in parameters):
                raise ArgumentError(f"{self.__name__}: where the arguments end that the function "
                                    "takes is not known; give it a fixed number")
            placed = [p for p in parameters if p.kind in PLACED and p.name not in named]
            least, most = sum(p.default is p.empty for p in placed), len(placed)
        for count in range(least, most + 1):  # of the function's; the rest is as many as it adds
            function, arrays = self._fn.traced(args[:count], named)
            if function not in self._made:
                self._made[function] = self._transform(function)
            made = self._made[function]
            if made.nin == len(arrays) + len(args[count:]):
                break
        return made, [*arrays, *args[count:]]

    def __call__(self, *args: Any, out: Any = None, where: Any = True, req: Any = None,
                 **named: Any) -> Any:
        """Call the transformed function; make it first if these dtypes and ranks are new."""
        function, arrays = self.traced(args, named)
        return function(*arrays, out=out, where=where, req=req)

    def trace(self, *args: Any, **named: Any) -> Function:
        """The transformed function for arguments like these."""
        return self.traced(args, named)[0]

    def dump(self, *args: Any, stage: str = "c", **named: Any) -> str:
        """The text of one stage for arguments like these; see `Function.dump`."""
        function, arrays = self.traced(args, named)
        return function.dump(*arrays, stage=stage)

    prepare = TracedFunction.prepare

    def profile(self, *args: Any, repeats: int = 20, **named: Any) -> Any:
        """Measure the kernel of a call with these arguments; see `Function.profile`."""
        function, arrays = self.traced(args, named)
        return function.profile(*arrays, repeats=repeats)

    def __repr__(self) -> str:
        return f"<elemc {self.__name__}, {len(self._made)} made>"


def _is_typed(f: Any) -> bool:
    return isinstance(f, Function) and all(i.dtype is not None for i in f.graph.inputs)


def _traced(fn: Any) -> TracedFunction:
    """A function of any kind as one that is traced per dtypes and ranks."""
    if isinstance(fn, TracedFunction):
        return fn
    if isinstance(fn, Array):
        raise ArgumentError("vjp and jvp take functions; elemc.grad takes expressions, too")
    if not isinstance(fn, Function):
        made: TracedFunction = compile(fn)
        return made

    def call(*args: Any) -> Any:
        return fn(*args)

    call.__signature__ = _signature(fn)  # type: ignore[attr-defined]
    return compile(call, order=fn.order, name=fn.name, contract=fn.contract,  # type: ignore
                   reassociate=fn.reassociate)


def _gradients(cost: Any, wrt: Sequence[Array], order: str) -> list[Array]:
    """The gradients of a scalar expression, in the shapes and dtypes of `wrt`."""
    node = as_node(cost)
    for below in toposort([node]):
        if isinstance(below, Input) and below.dtype is None:
            raise DtypeError(f"grad: the dtype of {below.name} is not known yet")
    closed = close(Graph((), (node, *(w.node for w in wrt))), order)
    out, *wanted = closed.outputs
    if out.ndim:
        raise ShapeError(f"grad: the cost {formula(node)} has rank {out.ndim}; it must be a "
                         "scalar, as its sum or mean is")
    if out.dtype is None or out.dtype.kind != "f":
        raise DtypeError(f"grad: the cost {formula(node)} is {out.dtype}; it must be real "
                         "(float32, float64, ...)")
    for w in wanted:
        if not inexact(w):
            raise DtypeError(f"grad: {formula(w)} is {w.dtype}, which has no gradient: it is "
                             "neither real nor complex")
    one = Array(as_node(out.dtype.type(1)))
    found = pull_back([out], [one], wanted)
    for w, g in zip(wanted, found, strict=True):
        if g is None:
            _refuse_places(out, w)
    return [zeros_like(w) if g is None else near(g) for w, g in zip(wanted, found, strict=True)]


def near(gradient: Array) -> Array:
    """A gradient, of which the compiler may round what it is made of as is convenient."""
    return apply(NEAR, gradient)


def _refuse_places(out: Node, w: Node) -> None:
    """Raise an error if `out` depends on `w` through argmin and argmax alone."""
    above = {w}
    for node in toposort([out]):
        stopped = isinstance(node, Apply) and node.op is STOP
        if not stopped and not above.isdisjoint(node.children):
            above.add(node)
            if isinstance(node, Accumulate) and node.acc.name in ("argmin", "argmax"):
                error = UnsupportedError(f"{node.acc.name} has no gradient: it is an integer")
                error.locate(source_of(node))
                raise error


def _name(fn: Any) -> str:
    return str(getattr(fn, "__name__", "f"))


def _signature(fn: Any) -> inspect.Signature:
    if isinstance(fn, Function):
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([inspect.Parameter(n, kind) for n in _names(fn)])
    return signature_of(fn)


def _names(f: Function) -> Sequence[str]:
    """What the user calls the inputs, if that tells them apart."""
    names = [i.name for i in f.graph.inputs]
    plain = len(set(names)) == len(names) and all(n.isidentifier() for n in names)
    return names if plain and not any(map(keyword.iskeyword, names)) else f.input_names


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
    if isinstance(wrt, list) or wrt == ():
        raise ArgumentError(f"wrt={wrt!r}: it is a place, a name, or a tuple of these")
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
