"""Sums of gradients, with what their addends have in common moved out.

`sum(g / s)` is `sum(g) / s`, and `sum(a * p + b * q)` is `a * sum(p) + b * sum(q)`, where `a`, `b`
and `s` are the same along the axes that are summed over.  So divisions become few, and a sum waits
for no other that only such factors are made of: the gradient of a layer norm goes over its rows
three times instead of five.

Sums of users are left alone: their rounding is NumPy's.  A sum is taken apart only where all its
terms are products with such a factor, which are rounded before they meet, so that nothing is lost
that was not lost before; `x - mean` stays one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import numpy as np

from .values import Fold, Op, Value, walk

DEEPEST = 16  # operations below each other, of those that are looked at


@dataclass(frozen=True)
class Term:
    """`inner` times and divided by `factors`, pairs of "multiply" or "divide" and a value."""

    factors: tuple[tuple[str, Value], ...]
    inner: Value
    negated: bool = False

    def times(self, other: Term) -> Term:
        """With the factors and the sign of another as well."""
        return Term((*self.factors, *other.factors), self.inner, self.negated != other.negated)

    def minus(self) -> Term:
        """The same, negated."""
        return Term(self.factors, self.inner, not self.negated)


Make = Callable[[str, np.dtype, Value, Value], Value]  # of an operation's name and operands


def factored(value: Value, over: Collection[str], make: Make) -> list[Term]:
    """The terms whose sums over the axes `over`, times their factors, add up to that of `value`."""
    whole = _split(value, over, make, DEEPEST)
    terms = [_split(t.inner, over, make, DEEPEST).times(t) for t in _terms(whole.inner, DEEPEST)]
    if len(terms) > 1 and all(t.factors for t in terms) and (
            _waits(t.inner for t in terms) < _waits([value])):
        return [t.times(whole) for t in terms]
    return [whole]


def _waits(values: Iterable[Value]) -> set[Value]:
    """The folds that have to be known before values can be computed."""
    return {v for v in walk(values, lambda v: isinstance(v, Fold)) if isinstance(v, Fold)}


def _split(value: Value, over: Collection[str], make: Make, depth: int) -> Term:
    """`value` without its factors that do not depend on `over`, and these."""
    name = value.op.name if isinstance(value, Op) and depth else ""
    if name == "negative":
        return _split(value.args[0], over, make, depth - 1).minus()
    if name not in ("multiply", "divide"):
        return Term((), value)
    a, b = value.args
    if b.axes.isdisjoint(over):
        return _split(a, over, make, depth - 1).times(Term(((name, b),), b))
    if name == "multiply" and a.axes.isdisjoint(over):
        return _split(b, over, make, depth - 1).times(Term((("multiply", a),), a))
    x = _split(a, over, make, depth - 1)
    y = _split(b, over, make, depth - 1) if name == "multiply" else Term((), b)
    return Term((), make(name, value.dtype, x.inner, y.inner)).times(x).times(y)


def _terms(value: Value, depth: int) -> list[Term]:
    """What is added and subtracted."""
    name = value.op.name if isinstance(value, Op) and depth else ""
    if name == "negative":
        return [t.minus() for t in _terms(value.args[0], depth - 1)]
    if name not in ("add", "subtract"):
        return [Term((), value)]
    first, second = (_terms(a, depth - 1) for a in value.args)
    return [*first, *(t.minus() if name == "subtract" else t for t in second)]
