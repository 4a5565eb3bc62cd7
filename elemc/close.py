"""Closing a graph: order and dtypes settled, composite accumulators expanded, folds traced.

A closed graph means one thing only.  Every operand of an `Apply` has the loop's dtype and the
result's rank (or rank 0); every `Accumulate` is a fold over values of the dtype that its
`Program` folds; no `Align` mark, composite accumulator or unknown dtype is left.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .accumulators import ACCUMULATORS, Accumulator, Composite
from .array import Array, as_node
from .composites import Fold
from .constructors import array
from .dtypes import dtype_of, state_dtype
from .errors import ArgumentError, DtypeError, ElemcError, ModeError, ShapeError
from .graph import (
    Accumulate,
    Align,
    Apply,
    Axis,
    Cast,
    Const,
    ExpandTo,
    Graph,
    Index,
    Input,
    Node,
    Pick,
    Scan,
    Size,
    carry_source,
    const,
    make,
    source_of,
    toposort,
)
from .graph_gradients import Custom, SumTo
from .graph_promotion import promotion_types
from .maps import align
from .records import dataclass

ORDERS = ("c", "f")
SUM: Any = ACCUMULATORS["sum"]


def close(graph: Graph, order: str = "f", dtypes: Mapping[Node, np.dtype] | None = None) -> Graph:
    """The closed graph that `graph` means under `order`.

    Parameters
    ----------
    graph : Graph
        Open or closed.
    order : {"f", "c"}
        Which ends of two shapes align: trailing (NumPy's rule) or leading.
    dtypes : mapping from Input to dtype, optional
        What inputs of unknown dtype have in this call.
    """
    if order not in ORDERS:
        raise ModeError(f"unknown order {order!r}: it is 'f' (trailing axes align) or 'c' "
                        "(leading)")
    closing = _Closing(order, dtypes or {})
    inputs = tuple(closing.one(i) for i in graph.inputs)
    return Graph(inputs, tuple(closing.one(o) for o in graph.outputs))  # type: ignore[arg-type]


def settle(graph: Graph, order: str) -> Graph:
    """`graph` with `order` applied and dtypes left open: it means the same inside any function."""
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        below = tuple(new[c] for c in node.children)
        moved = node if below == node.children else node.rebuild(below)
        if isinstance(node, Apply):
            moved = node.rebuild(tuple(
                align(arg, node.ndim, old.order if isinstance(old, Align) else order)
                for old, arg in zip(node.args, below, strict=True)))
        elif isinstance(moved, Align):
            moved = moved.arg
        elif isinstance(node, ExpandTo):
            own = node.arg.order if isinstance(node.arg, Align) else order
            moved = make(type(node), align(below[0], node.ndim, own), below[1])
        elif isinstance(moved, Accumulate) and moved.where is not None:
            where = align(moved.where, moved.arg.ndim, order)
            moved = make(Accumulate, moved.acc, moved.arg, moved.axes, moved.dtype, moved.initial,
                         where, moved.options)
        carry_source(node, moved)
        new[node] = moved
    return Graph(graph.inputs, tuple(new[o] for o in graph.outputs))


class _Closing:
    """One pass from open to closed; `new` is its memo."""

    def __init__(self, order: str, dtypes: Mapping[Node, np.dtype]) -> None:
        self.order, self.dtypes = order, dtypes
        self.new: dict[Node, Node] = {}

    def one(self, output: Node) -> Node:
        for node in toposort([output]):
            if node not in self.new:
                try:
                    self.new[node] = self._node(node)
                except ElemcError as error:
                    error.locate(source_of(node))
                    raise
                carry_source(node, self.new[node])
        return self.new[output]

    def _node(self, node: Node) -> Node:
        match node:
            case Input(dtype=None):
                return make(Input, node.name, node.ndim, self.dtypes[node], node.ident)
            case Apply():
                return self._apply(node)
            case Cast():
                return cast(self.new[node.arg], node.dtype)
            case Accumulate():
                return self._accumulate(node)
            case Scan(program=None):
                arg = self.new[node.arg]
                assert arg.dtype is not None
                value = node.acc.value_dtype(arg.dtype)
                acc = _of_bools(node.acc) if value.kind == "b" else node.acc
                program = fold_program(acc, value)
                if node.exclusive and program.identity is None:
                    raise ArgumentError(f"{acc.name} has no identity, and so no exclusive scan")
                return make(Scan, acc, cast(arg, value), (), (), node.axes, node.reverse,
                            node.exclusive, program.dtype, program)
            case Align():
                return self.new[node.arg]
            case ExpandTo():
                order = node.arg.order if isinstance(node.arg, Align) else self.order
                like = self.new[node.like]
                return make(type(node), align(self.new[node.arg], like.ndim, order), like)
            case Custom(elementwise=True):
                arg = self.new[node.args[0]]
                inputs = tuple(align(self.new[i], arg.ndim, old.order if isinstance(
                    old := i, Align) else self.order) for i in node.inputs)
                return make(Custom, node.name, (arg,), inputs, node.rule, node.structure, True)
            case SumTo(program=None):
                assert node.dtype is not None
                program = fold_program(_of_bools(SUM) if node.dtype == bool else SUM, node.dtype)
                return make(SumTo, self.new[node.arg], self.new[node.like], program)
        return node.rebuild(tuple(self.new[c] for c in node.children))

    def _apply(self, node: Apply) -> Node:
        args = [self.new[a] for a in node.args]
        loop, out = node.op.resolve(
            promotion_types(node.op.name, node.args, [a.dtype for a in args]))
        ndim = max(a.ndim for a in args)
        return make(Apply, node.op, tuple(
            align(cast(arg, dtype), ndim, old.order if isinstance(old, Align) else self.order)
            for old, arg, dtype in zip(node.args, args, loop, strict=True)), out)

    def _accumulate(self, node: Accumulate) -> Node:
        arg = self.new[node.arg]
        initial = self.new[node.initial] if node.initial is not None else None
        where = self.new[node.where] if node.where is not None else None
        for name, given, rank in (("where", where, arg.ndim), ("initial", initial, node.ndim)):
            if given is not None and given.ndim > rank:
                raise ShapeError(f"{node.acc.name}: {name}= has rank {given.ndim}, at most {rank} "
                                 "fits")
        if where is not None:
            where = align(cast(where, np.dtype(bool)), arg.ndim, self.order)
        options = dict(node.options)
        if "program" in options:  # closed already
            return node.rebuild(tuple(self.new[c] for c in node.children))
        if isinstance(node.acc, Composite):
            return self._expand(node.acc, arg, node.axes, initial, where, options)
        kind = {word: options.pop(word) for word in ("matched", "ties") if word in options}
        dtype = options.pop("dtype", None)
        if options:
            raise ArgumentError(f"{node.acc.name} has no option {', '.join(options)}")
        assert arg.dtype is not None
        if dtype == "same":  # matrix products do not widen integers
            dtype = arg.dtype
        value = dtype_of(dtype) if dtype is not None else node.acc.value_dtype(arg.dtype)
        acc = _of_bools(node.acc) if value.kind == "b" else node.acc
        program = fold_program(acc, value)
        if where is not None and program.identity is None and initial is None:
            instead = "where= needs initial=" if len(program.state) == 1 else (
                "write elemc.where(mask, x, value) instead of where=, of a value that never counts")
            raise ArgumentError(f"{node.acc.name} has no identity: {instead}")
        if initial is not None and len(program.state) > 1:
            own = ": its state has several values" * (node.acc.name not in ACCUMULATORS)
            raise ArgumentError(f"{node.acc.name} takes no initial={own}")
        if initial is not None:
            initial = align(cast(initial, program.state[0]), node.ndim, self.order)
        return make(Accumulate, acc, cast(arg, value), node.axes, program.dtype, initial, where,
                    (("program", program), *sorted(kind.items())))

    def _expand(self, acc: Composite, arg: Node, axes: tuple[int, ...], initial: Node | None,
                where: Node | None, options: dict[str, Any]) -> Node:
        unknown = [name for name in options if name not in (*acc.options, "ties")]
        if unknown:
            raise ArgumentError(f"{acc.name} has no option {', '.join(unknown)}")
        ties = options.pop("ties", None)
        if initial is not None and "initial" not in acc.options:
            raise ArgumentError(f"{acc.name} takes no initial=")
        fold = Fold(axes, Array(where) if where is not None else None, initial, ties)
        result = acc.expand(Array(arg), fold, **options).node
        kept = [a for a in range(arg.ndim) if a not in axes]
        forms = tuple(Pick(0) if a in axes else Axis(kept.index(a)) for a in range(arg.ndim))
        if result.ndim == 0:  # every axis was folded into a scalar
            return self.one(result)
        return self.one(make(Index, result, forms, len(kept)))


def _of_bools(acc: Accumulator) -> Accumulator:
    """What NumPy does where bools are added and multiplied in their own dtype."""
    name = {"sum": "any", "prod": "all"}.get(acc.name)
    if name is None or ACCUMULATORS.get(acc.name) is not acc:
        return acc
    return ACCUMULATORS[name]  # type: ignore[return-value]


def cast(node: Node, dtype: np.dtype) -> Node:
    """`node` as `dtype`; constants are converted now."""
    if isinstance(node, Const):
        return _cast_const(node, dtype)
    if node.dtype == dtype:
        return node
    return make(Cast, node, dtype)


def _cast_const(node: Const, dtype: np.dtype) -> Node:
    if node.dtype == dtype:
        return const(node.value) if node.weak else node
    if node.weak and dtype.kind in "iu":
        try:
            return const(dtype.type(node.value.item()))
        except (OverflowError, ValueError) as error:
            raise DtypeError(
                f"the Python number {node.value} does not fit {dtype}: {error}") from None
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a complex constant loses its imaginary part in silence
        return const(node.value.astype(dtype))


@dataclass(frozen=True, eq=False)
class Program:
    """An accumulator, traced for values of one dtype.  All graphs are closed and of rank 0.

    Attributes
    ----------
    state : tuple of dtypes
    identity : tuple of scalars, or None
    start : Graph, or None
        (value[, index]) to state, if there is no identity.
    combine : Graph
        (*state, value[, index]) to state.
    merge : Graph, or None
        (*state, *state) to state.
    finish : Graph
        (*state) to the result.
    value, dtype : dtypes
        Of one folded value, and of the result.
    neutral : tuple of scalars, or None
        What a fold of a non-empty axis starts from, if it need not be the first element.
    place_of : str
        The accumulator whose result it finds the first place of; "" if it is no such thing.
    of_part : bool
        Whether the order in which it adds must not depend on how much it keeps, which is a part.
    """

    name: str
    state: tuple[np.dtype, ...]
    identity: tuple[np.generic, ...] | None
    start: Graph | None
    combine: Graph
    merge: Graph | None
    finish: Graph
    value: np.dtype
    dtype: np.dtype
    neutral: tuple[np.generic, ...] | None
    index: bool
    commutative: bool
    exact: bool
    place_of: str = ""
    of_part: bool = False

    @property
    def lanes(self) -> bool:
        """Whether partial states, folded apart, may be merged in any order."""
        return self.commutative and len(self.state) == 1 and self.neutral is not None

    @property
    def index_dtype(self) -> np.dtype:
        """Of the indices that it combines, if it does."""
        return _known(self.combine.inputs[-1])

    @property
    def cost(self) -> int:
        """About how many additions one more element is worth."""
        return sum(node.op.cost for node in self.combine.nodes if isinstance(node, Apply))

    @property
    def nests(self) -> bool:
        """Whether what folds give is folded as values are: sums of sums are sums."""
        if self.merge is None or not self.lanes or self.finish.outputs != self.finish.inputs:
            return False
        one, other = self.combine.outputs[0], self.merge.outputs[0]
        plain = isinstance(one, Apply) and isinstance(other, Apply) and one.op is other.op and (
            (one.args, other.args) == (self.combine.inputs, self.merge.inputs))
        return plain and self.value == self.dtype == self.state[0]


INDEX = np.dtype(np.int64)


@lru_cache(maxsize=512)
def fold_program(acc: Accumulator, dtype: np.dtype, index: np.dtype = INDEX) -> Program:
    """`acc` traced for values of `dtype`, and indices of dtype `index`.

    Raises
    ------
    DtypeError
        If the dtype of the state never settles.
    """
    value = state_dtype(dtype)  # float16 is folded in float32
    extra = [value, index] if acc.index else [value]
    start = identity = None
    if acc.identity is None:
        start = trace(acc.start or (lambda v, *_: v), extra, f"{acc.name}.start")
        state = [_known(o) for o in start.outputs]
    else:
        parts = acc.identity if isinstance(acc.identity, tuple) else (acc.identity,)
        state = [_identity_dtype(part, value) for part in parts]
    for _ in range(4):
        combine = trace(acc.combine, [*state, *extra], f"{acc.name}.combine")
        if len(combine.outputs) != len(state):
            raise ArgumentError(f"{acc.name}.combine gives {len(combine.outputs)} values "
                                f"for a state of {len(state)}")
        wider = [np.promote_types(s, _known(o))
                 for s, o in zip(state, combine.outputs, strict=True)]
        if wider == state:
            break
        state = wider
    else:
        raise DtypeError(f"{acc.name}.combine: the dtype of the state never settles; "
                         f"its last dtypes were {', '.join(map(str, state))}")
    if acc.identity is not None:
        identity = _scalars(parts, state)
    neutral = identity if acc.neutral is None else _scalars(acc.neutral(state[0]), state)
    merge = trace(acc.merge, [*state, *state], f"{acc.name}.merge", state) if acc.merge else None
    finish = trace(acc.finish or (lambda *s: s[0]), state, f"{acc.name}.finish")
    result = _known(finish.outputs[0])
    if dtype == np.float16 and result == np.float32:
        result = np.dtype(np.float16)
    return Program(acc.name, tuple(state), identity, start and _as(start, state),
                   _as(combine, state), merge,
                   finish, value, result, neutral, acc.index, acc.commutative,
                   acc.exact or state[0].kind in "biu", acc.place_of)


def _scalars(parts: Any, dtypes: Sequence[np.dtype]) -> tuple[np.generic, ...]:
    parts = parts if isinstance(parts, tuple) else (parts,)
    return tuple(d.type(np.asarray(p).astype(d)) for p, d in zip(parts, dtypes, strict=True))


def _identity_dtype(part: Any, value: np.dtype) -> np.dtype:
    """The dtype of one component of the identity; Python numbers are weak."""
    if isinstance(part, (bool, np.generic)):
        return np.asarray(part).dtype
    return np.result_type(value, part) if value.kind != "b" else np.asarray(part).dtype


def _known(node: Node) -> np.dtype:
    assert node.dtype is not None
    return node.dtype


def _as(graph: Graph, dtypes: Sequence[np.dtype]) -> Graph:
    """`graph` with its outputs cast to `dtypes`."""
    return Graph(graph.inputs, tuple(map(cast, graph.outputs, dtypes)))


def trace(fn: Callable[..., Any], dtypes: Sequence[np.dtype], name: str,
          results: Sequence[np.dtype] | None = None) -> Graph:
    """The closed graph of `fn`, a Python function of scalars of these dtypes."""
    args = [array(f"a{i}", 0, dtype) for i, dtype in enumerate(dtypes)]
    out = fn(*args)
    outputs = tuple(map(as_node, out if isinstance(out, tuple) else (out,)))
    if any(o.ndim for o in outputs):
        raise ArgumentError(f"{name} gives an array where a scalar is needed")
    inputs = tuple(a.node for a in args)
    for node in toposort(outputs):
        if isinstance(node, Input) and node not in inputs:
            raise ArgumentError(f"{name} uses {node.name}, which is none of its arguments: "
                                "numbers may be captured, symbols may not")
    graph = close(Graph(inputs, outputs))  # type: ignore[arg-type]
    if any(isinstance(n, (Accumulate, Size)) for n in graph.nodes):
        raise ArgumentError(f"{name} may only use elementwise operations")
    return _as(graph, results) if results else graph
