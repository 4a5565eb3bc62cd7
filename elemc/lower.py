"""Lowering: the elements of a closed graph's outputs as values over named loop axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np

from . import values
from .factored import factored, mean_in
from .graph import (
    Accumulate,
    Apply,
    Captured,
    Cast,
    Const,
    Graph,
    Input,
    Iota,
    Node,
    Scan,
    Size,
)
from .graph_gradients import Scatter, SumTo
from .layout import Operand
from .maps import Extents
from .ops import HIGH, LOW, NEAR, OPS, PER, QUOTIENT, inverse_of
from .programs import convert, initial_state, inline
from .ranges import least
from .reads import Env, Reads
from .values import (
    SELECT,
    ZERO,
    Access,
    Affine,
    At,
    Extent,
    Fold,
    Literal,
    Load,
    Op,
    Position,
    Value,
)
from .written import written_out

BOOL, INDEX = np.dtype(bool), np.dtype(np.int64)


class Lowering(Reads):
    """From a closed graph and the extents that are 1 to values over named axes."""

    def __init__(self, graph: Graph, extents: Extents, ones: frozenset[int],
                 operands: Sequence[Operand]) -> None:
        super().__init__(extents, ones)
        self.graph, self.operands = graph, operands
        self.number = {n: i for i, n in enumerate((*graph.inputs, *graph.captured))}
        self.interned: dict[Any, Value] = {}
        self.least: dict[Value, float] = {}
        self.exact = _exact(graph)

    def values(self, outputs: Sequence[tuple[Node, Env]]) -> list[Value]:
        """The values of `outputs` at these indices.  Loops instead of recursion: any depth."""
        wanted: dict[Node, dict[Env, None]] = {}
        for node, env in outputs:
            wanted.setdefault(node, {})[env] = None
        for node in reversed(self.graph.nodes):
            for env in wanted.get(node, ()):
                for child, child_env in self.reads(node, env):
                    wanted.setdefault(child, {})[child_env] = None
        built: dict[tuple[Node, Env], Value] = {}
        for node in self.graph.nodes:
            for env in wanted.get(node, ()):
                args = [built[read] for read in self.reads(node, env)]
                built[node, env] = self.build(node, env, args)
        return [built[o] for o in outputs]

    def holds(self, conditions: Iterable[tuple[Affine, Affine | int]]) -> Value:
        """The conjunction of conditions as in `scattered`."""
        every: list[Value] = []
        for index, bound in conditions:
            position = self.position(index)
            if isinstance(bound, Affine):
                every.append(self.op("equal", BOOL, position, self.position(bound)))
                continue
            if index.divisor > 1:
                whole = self.position(replace(index, divisor=1))
                rest = self.op("fmod", INDEX, whole, self.literal(INDEX.type(index.divisor)))
                every.append(self.op("equal", BOOL, rest, self.literal(INDEX.type(0))))
            size = self.make(Extent, frozenset(), INDEX,
                             0 if bound in self.ones else self.classes[bound])
            unsigned = [self.convert(v, np.dtype(np.uint64)) for v in (position, size)]
            every.append(self.op("less", BOOL, *unsigned))  # negative ones are large
        return reduce(lambda a, b: self.op("logical_and", BOOL, a, b), every)

    def position(self, at: Affine) -> Value:
        """An index as a value."""
        return self.make(Position, at.axes, INDEX, at.bare())

    def literal(self, value: np.generic) -> Value:
        """A constant."""
        return self.make(Literal, frozenset(), value.dtype, value.tobytes(), value=value)

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        """`x` where the condition holds, else `y`; none asks for it again."""
        if isinstance(condition, Literal):
            return x if condition.value else y
        while isinstance(x, Op) and x.op is values.SELECT and x.operands[0] is condition:
            x = x.operands[1]
        if isinstance(y, Literal) and not y.value:
            if isinstance(x, Load) and x.guard is condition:
                return x  # which is 0 where the guard does not hold
            if isinstance(x, Literal) and x.dtype == bool and x.value:
                return condition
        return self.op("where", x.dtype, condition, x, y)

    def quotient(self, x: Value, y: Value) -> Value:
        """`x / y`, or products where many `x` meet one `y`; right but near subnormal results.

        If the inverse is known to be finite, they are products with that, right to two bits.
        """
        many = y.axes < x.axes and x.axes.issuperset(self.axes)
        if x.dtype not in (np.float32, np.float64) or not many:
            return self.op("divide", x.dtype, x, y)
        dtype, one = x.dtype, self.literal(x.dtype.type(1))
        small, large = 4 * np.finfo(dtype).tiny, np.finfo(dtype).max ** 0.5
        if isinstance(y, Literal) and small < abs(float(y.value)) < large:
            inverse, lacks = inverse_of(y.value)
            high, low = self.literal(inverse), self.literal(lacks)
            if not lacks:  # a power of 2
                return self.op("multiply", dtype, x, high)
            return self.make(Op, x.axes, dtype, QUOTIENT, (x, y, one, high, low))
        if least(y, self.least) > float(small):
            return self.make(Op, x.axes, dtype, PER, (x, y, self.op("reciprocal", dtype, y)))
        size = self.op("absolute", dtype, y)
        down = self.select(self.op("greater", BOOL, size, self.literal(dtype.type(large))),
                           self.literal(dtype.type(2.0**-60)), one)
        scale = self.select(self.op("less", BOOL, size, self.literal(small)),
                            self.literal(dtype.type(2.0**60)), down)
        scaled = self.op("multiply", dtype, y, scale)
        high = self.make(Op, y.axes, dtype, HIGH, (scaled,))
        low = self.make(Op, y.axes, dtype, LOW, (scaled, high))
        return self.make(Op, x.axes, dtype, QUOTIENT, (x, y, scale, high, low))

    def op(self, name: str, dtype: np.dtype, *args: Value) -> Value:
        """An operation on values."""
        axes = frozenset[str]().union(*(a.axes for a in args))
        return self.make(Op, axes, dtype, OPS[name], args)

    def build(self, node: Node, env: Env, args: list[Value]) -> Value:
        """The value of an element of `node`."""
        axes = frozenset[str]().union(*(a.axes for a in args))
        assert node.dtype is not None
        match node:
            case Input() | Captured():
                return self.load(self.number[node], tuple(a or ZERO for a in env), node.dtype)
            case Const():
                return self.make(Literal, axes, node.dtype, node.bits, value=node.value)
            case Size():
                extent = self.extents.of[node.arg][node.dim]
                return self.make(Extent, axes, node.dtype, self.classes[extent] if extent not in
                                 self.ones else 0)
            case Iota():
                return self.position(env[0] or ZERO)
            case Cast():
                return self.convert(args[0], node.dtype)
            case Apply():
                if node.op.name == "multiply" and node.dtype.kind in "iuf":  # x*1 is x
                    for one, other in (args, args[::-1]):
                        if isinstance(one, Literal) and one.value == 1:
                            return other
                if node.op.name == "where":
                    return self.select(*args)
                if node.op is NEAR:
                    return args[0]
                if node.op is OPS["divide"] and node not in self.exact:
                    return self.quotient(*args)
                return written_out(node.op, self, args) or self.make(
                    Op, axes, node.dtype, node.op, tuple(args))
            case Scatter():
                conditions = self.scattered(node, env)[1]
                if not conditions:
                    return args[0]
                zero = self.literal(node.dtype.type(0))
                return self.select(self.holds(conditions), args[0], zero)
            case SumTo():
                return self.sum_to(node, env, args[0]) if self.over[node, env] else args[0]
            case Accumulate():
                return self.fold(node, env, args)
            case Scan():
                return self.scan(node, env, args)
        return args[0]

    def load(self, operand: int, access: Access, dtype: np.dtype) -> Value:
        """An element of an operand, converted to `dtype`."""
        given, guard = self.operands[operand], self.guard(access)
        bare = tuple(at.bare() if dim in given.layout.perm else ZERO
                     for dim, at in enumerate(access))
        axes = frozenset[str]().union(*(at.axes for at in bare), guard.axes if guard else ())
        return self.convert(self.make(Load, axes, given.dtype, operand, bare, guard), dtype)

    def guard(self, indices: Iterable[Affine]) -> Value | None:
        """The conjunction of the guards of indices."""
        guards = [guard for at in indices for guard in at.guards]
        return self.holds(guards) if guards else None

    def convert(self, arg: Value, dtype: np.dtype) -> Value:
        """`arg` as `dtype`."""
        key = ("convert", arg, dtype)
        if key not in self.interned:
            self.interned[key] = convert(arg, dtype)
        return self.interned[key]

    def fold(self, node: Accumulate, env: Env, args: list[Value]) -> Value:
        """The value of a fold; its argument is converted to what the program folds."""
        over = self.over[node, env]
        program = dict(node.options)["program"]
        rest = args[1:]
        initial = rest.pop(0) if node.initial is not None else None
        where = rest.pop(0) if node.where is not None else None
        arg = self.convert(args[0], program.value)
        if not over:
            return self.single(program, arg, initial, where)
        if isinstance(initial, Literal) and program.neutral and (
                initial.value.tobytes() == program.neutral[0].tobytes()):
            initial = None  # what it starts from anyway
        axes = frozenset[str]().union(*(a.axes for a in args)) - set(over)
        fold = self.make(Fold, axes, program.dtype, program, arg, over, initial, where)
        return self.read(fold, node, env)

    def sum_to(self, node: SumTo, env: Env, arg: Value) -> Value:
        """The value of a gradient's sum; what is the same for all addends comes after it."""
        over, program = self.over[node, env], node.program

        def added(value: Value) -> Value:
            value = self.convert(value, program.value)
            fold = self.make(Fold, value.axes - {*over}, program.dtype, program, value, over,
                             None, None)
            return self.read(fold, node, env)

        plain = arg.dtype == program.dtype and arg.dtype in (np.float32, np.float64)
        if not plain or self.inside(node, env) != env:
            return added(arg)
        parts = []
        product = partial(self.op, "multiply", arg.dtype)
        zero, one = (self.literal(arg.dtype.type(number)) for number in (0, 1))
        count = self.times(one, over)
        for term in factored(arg, over, product):
            if mean := mean_in(term.inner, over, count):
                part = product(mean, zero)
            else:
                known = isinstance(term.inner, Literal)
                part = self.times(term.inner, over) if known else added(term.inner)
            for name, factor in term.factors:
                part = self.op(name, arg.dtype, part, factor)
            parts.append(self.op("negative", arg.dtype, part) if term.negated else part)
        return reduce(lambda a, b: self.op("add", arg.dtype, a, b), parts)

    def times(self, value: Value, over: Iterable[str]) -> Value:
        """The sum of a `value` that is the same everywhere along the axes `over`."""
        for extent in (e for axis in over for e in self.axes[axis]):
            count = self.convert(self.make(Extent, frozenset(), INDEX, extent), value.dtype)
            one = isinstance(value, Literal) and value.value == 1
            value = count if one else self.op("multiply", value.dtype, value, count)
        return value

    def scan(self, node: Scan, env: Env, args: list[Value]) -> Value:
        """The value of an element of a scan."""
        program, count = node.program, 1 + len(node.more)
        element = [self.convert(args[0], program.value), *args[1:count]]
        states = tuple(args[count:])
        inside = self.inside(node, env)
        over = tuple(a for d in node.axes if (at := inside[d]) is not None for a in at.axes)
        if not over:
            start = list(states) or initial_state(program, None) or ()
            if not start and node.exclusive:
                start = [self.literal(d.type(0)) for d in program.state]
            if program.index:
                element.append(self.literal(np.int64(0)))
            if not node.exclusive:
                start = inline(program.combine, [*start, *element]) if start else (
                    inline(program.start, element))
            [result] = inline(program.finish, start)
            return self.convert(result, program.dtype)
        axes = frozenset(over).union(*(a.axes for a in args))
        scan = self.make(values.Scan, axes, program.dtype, program, element[0], over, None,
                         None, node.reverse, node.exclusive, tuple(element[1:]), states)
        return self.read(scan, node, env)

    def read(self, fold: Value, node: Node, env: Env) -> Value:
        """The element at `env` of a fold or scan, which may run along axes of its own."""
        pairs = [(own.axis, at or ZERO) for own, at in zip(self.inside(node, env), env, strict=True)
                 if own is not None and own != at and own.axis in fold.axes]
        if not pairs:
            return fold
        places = tuple((axis, at.bare()) for axis, at in pairs)
        axes = fold.axes.difference(a for a, _ in pairs).union(*(at.axes for _, at in pairs))
        return self.make(At, axes, fold.dtype, fold, places, self.guard(at for _, at in pairs))

    def single(self, program: Any, arg: Value, initial: Value | None,
               where: Value | None) -> Value:
        """A fold of one element."""
        key = ("single", program, arg, initial, where)
        if key in self.interned:
            return self.interned[key]
        start = initial_state(program, initial)
        zero = Literal(frozenset(), np.dtype(np.int64), np.int64(0))
        element = [arg, *([zero] if program.index else [])]
        state = inline(program.combine, [*start, *element]) if start else (
            inline(program.start, element))
        if where is not None:
            state = [Op(v.axes | where.axes, v.dtype, SELECT, (where, v, s))
                     for v, s in zip(state, start or (), strict=True)]
        [result] = inline(program.finish, state)
        self.interned[key] = result = self.convert(result, program.dtype)
        return result

    def make(self, cls: type[Value], axes: frozenset[str], dtype: np.dtype, *key: Any,
             **fields: Any) -> Value:
        """The one value with these fields (`key` unless given by `fields`)."""
        place = (cls, dtype, *key)
        value = self.interned.get(place)
        if value is None:
            rest = tuple(fields.values()) if fields else key
            value = self.interned[place] = cls(axes, dtype, *rest)
        return value


def _exact(graph: Graph) -> set[Node]:
    """The nodes whose last bit counts: those that outputs are made of, but for gradients."""
    found: set[Node] = set()
    stack = list(graph.outputs)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            near = isinstance(node, Apply) and node.op is NEAR
            stack.extend(() if near else node.children)
    return found
