"""Loops that part where all that they read is there.

What is read beyond the end of a slice is 0, as in gradients of slices, so that every element asks
whether it is there, for every slice.  Between the ends all are: there a loop goes on without asking
(index set splitting), with the same results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from .cost import calls
from .nest import Assign, Kernel, Let, Loop, Parted, Statement, Write, bodies, values_of
from .nest_leaves import Element, Named
from .ops import OPS
from .values import (
    LINED,
    SELECT,
    At,
    Convert,
    Extent,
    Literal,
    Load,
    Op,
    Position,
    Specialized,
    Value,
    over_new,
    walk,
)

TRUE = Literal(frozenset(), np.dtype(np.bool_), np.True_)
Term = tuple[Position, Extent]  # an index that has to be below an extent, and not below 0


def part(kernel: Kernel, spec: Specialized) -> None:
    """Part the loops along rows in which elements ask whether what they read is there."""
    for phase in kernel.phases:
        _part(phase.body, {}, spec)


def _part(body: list[Statement], known: Mapping[str, Value], spec: Specialized) -> None:
    """Part the loops in a body, where the values of some variables are known."""
    for place, statement in enumerate(body):
        if isinstance(statement, Let):
            known = {**known, statement.name: statement.value}
        if isinstance(statement, Loop) and _plain(statement, spec) and (
                parted := _parted(statement, known)):
            body[place] = parted
        elif not (isinstance(statement, Loop) and statement.kind == "turned"):  # a copy of a tile
            for inner in bodies(statement):
                _part(inner, known, spec)


def _plain(loop: Loop, spec: Specialized) -> bool:
    """Whether a loop goes through elements of a long row, in any order, and calls no functions."""
    if loop.kind != "plain" or not loop.independent or (
            loop.reverse or loop.lines or loop.at_once > 1):
        return False
    called = calls(walk(v for s in loop.body for v in values_of(s)))
    return spec.between(loop.axis)[0] >= LINED and not called and all(
        isinstance(s, (Let, Write)) or isinstance(s, Assign) and isinstance(s.target, Element)
        for s in loop.body)


def _parted(loop: Loop, known: Mapping[str, Value]) -> Parted | None:
    """A loop in two, if some of what it asks is where along its axis an element is."""
    conditions = {name: every for name, v in known.items() if (every := _terms(v))}
    terms: dict[Value, Term] = {}
    rows: dict[Value, Value] = {}  # what does not depend on the axis, by its variable if it has one
    for value in walk(v for s in loop.body for v in values_of(s)):
        if isinstance(value, Named) and value.name in conditions:
            terms |= conditions[value.name]
            rows |= dict.fromkeys(conditions[value.name], value)
        elif isinstance(value, Op) and (term := _term(value)):
            terms[value] = term
    along = {(at.affine, of.extent): (at, of) for at, of in terms.values() if loop.axis in at.axes}
    asked = dict.fromkeys(rows.get(v, v) for v, t in terms.items() if loop.axis not in t[0].axes)
    if not along or any(at.terms != ((loop.axis, 1),) or at.divisor != 1 for at, _ in along):
        return None
    whole = replace(loop, shared=False)
    free = replace(whole, body=_free(loop.body, dict.fromkeys(conditions, TRUE)))
    return Parted(loop.axis, [whole], [free], [*along.values()], [*asked], loop.shared)


def _term(value: Value) -> Term | None:
    """An index and the extent that it has to be below, if a value is that condition."""
    match value:
        case Op(op=op, operands=(Convert(arg=Position() as at), Convert(arg=Extent() as of))) if (
                op is OPS["less"] and value.operands[0].dtype == np.uint64):
            return at, of
    return None


def _terms(value: Value) -> dict[Value, Term]:
    """The terms of a conjunction, if all of it is made of them."""
    if isinstance(value, Op) and value.op is OPS["logical_and"]:
        one, other = map(_terms, value.operands)
        return one | other if one and other else {}
    term = _term(value)
    return {value: term} if term else {}


def _free(body: Sequence[Statement], names: dict[str, Value]) -> list[Statement]:
    """Statements where all terms hold, and variables of these `names` are what they say."""
    found: list[Statement] = []
    for statement in body:
        new: dict[Value, Value] = {}
        for value in walk(values_of(statement)):
            new[value] = _where_sure(value, new, names)
        match statement:
            case Let(name=name):
                if isinstance(new[statement.value], (Literal, Named)):
                    names[name] = new[statement.value]
                else:
                    found.append(replace(statement, value=new[statement.value]))
            case Assign():
                found.append(replace(statement, value=new[statement.value]))
            case Write():
                mask = statement.mask and new[statement.mask]
                found.append(replace(statement, value=new[statement.value],
                                     mask=None if mask is TRUE else mask))
    return found


def _where_sure(value: Value, new: dict[Value, Value], names: Mapping[str, Value]) -> Value:
    """What a value is where all terms hold, over what its arguments are there."""
    args = [new[a] for a in value.args]
    match value:
        case Named():
            return names.get(value.name, value)
        case Load() | At() if value.guard is not None and new[value.guard] is TRUE:
            value = replace(value, guard=None)
        case Op(op=op) if _term(value):
            return TRUE
        case Op(op=op) if op is OPS["logical_and"] and TRUE in args:
            return args[1] if args[0] is TRUE else args[0]
        case Op(op=op) if op is SELECT and args[0] is TRUE:
            return args[1]
    return over_new(value, new)
