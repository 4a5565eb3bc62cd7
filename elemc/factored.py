"""Sums of gradients, with what their addends have in common moved out.

`sum(g / s)` is `sum(g) / s`, and `sum(a * p + b * q)` is `a * sum(p) + b * sum(q)`, where `a`, `b`
and `s` are the same along the axes that are summed over.  So divisions become few, and a sum waits
for no other that only such factors are made of: the gradient of a layer norm goes over its rows
three times instead of five.  A sum of `x - mean(x)` is 0.

Sums of users are left alone: their rounding is NumPy's.  A sum is taken apart only where all its
terms are products with such a factor, which are rounded before they meet, so that nothing is lost
that was not lost before; `x - mean` stays one.  And only outermost factors are moved: of
`(x / s) * (y / s)` the product `x * y` may be out of range.  But where `s` is a norm of `x`, kept
away from 0 by a constant, the squares of `x` are in range, or it is infinite; and a softmax divides
what is at most 1 by what is not less.  There `sum(g * (x / s))` is `sum(g * x) / s`, which need not
wait for `s`.  (Of doubles: `g` and `x` would both have to be beyond 1e150.  Of floats, which reach
1e38, that is true of softmaxes alone.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import numpy as np

from .ops import PER
from .ranges import folds_by, of_differences
from .records import dataclass
from .values import Fold, Op, Value, is_fold, walk

# What may be moved out, and as what it is put back: of a sum there is one, and it is divided.
FACTORS = {name: name for name in ("negative", "multiply", "divide")} | {
    "quotient": "divide", "per": "divide"}
DEEPEST = 16  # additions below each other, of those that are looked at
Product = Callable[[Value, Value], Value]


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


def factored(value: Value, over: Collection[str], product: Product) -> list[Term]:
    """The terms whose sums over the axes `over`, times their factors, add up to that of `value`."""
    whole = _split(value, over, product)
    terms = [_split(t.inner, over, product).times(t) for t in _terms(whole.inner, DEEPEST)]
    if len(terms) > 1 and all(t.factors for t in terms) and (
            _waits(t.inner for t in terms) < _waits([value])):
        return [t.times(whole) for t in terms]
    return [whole]


def _waits(values: Iterable[Value]) -> set[Value]:
    """The folds that have to be known before values can be computed."""
    return {v for v in walk(values, is_fold) if isinstance(v, Fold)}


def _split(value: Value, over: Collection[str], product: Product) -> Term:
    """`value` without the outermost factors that do not depend on `over`, and these."""
    factors: list[tuple[str, Value]] = []
    negated = False
    while isinstance(value, Op) and value.op.name in FACTORS:
        name, (a, *more) = FACTORS[value.op.name], value.args
        if name == "negative":
            negated, value = not negated, a
        elif more[0].axes.isdisjoint(over):
            factors, value = [(name, more[0]), *factors], a
        elif name == "multiply" and a.axes.isdisjoint(over):
            factors, value = [(name, a), *factors], more[0]
        elif name == "multiply" and (apart := _without_norm(a, more[0], over, product)):
            factors, value = [("divide", apart[1]), *factors], apart[0]
        else:
            break
    return Term(tuple(factors), value, negated)


def _without_norm(a: Value, b: Value, over: Collection[str],
                  product: Product) -> tuple[Value, Value] | None:
    """What `a * b` is the quotient of, if one of them is a quotient by a norm, or in a softmax.

    If it would wait for as much as before, it stays as it is.
    """
    for normed, other in ((a, b), (b, a)):
        if isinstance(normed, Op) and normed.op is PER and normed.args[1].axes.isdisjoint(over):
            x, norm, _ = normed.args
            total = isinstance(norm, Fold) and folds_by(norm, "sum") and norm.arg is x and (
                of_differences(x, norm.over))
            if (total or x.dtype == np.float64 and _is_norm(norm, x)) and (
                    _waits([other, x]) < _waits([a, b])):
                return product(other, x), norm
    return None


def _is_norm(norm: Value, x: Value) -> bool:
    """Whether this is a root of sums, of which squares of `x` are addends."""
    if not (isinstance(norm, Op) and norm.op.name == "sqrt"):
        return False
    addends, found = [norm.args[0]], set[Value]()
    while addends:
        match addends.pop():
            case part if part in found:
                continue
            case Fold(where=None) as part if folds_by(part, "sum"):
                addends += part.args
            case Op() as part if part.op.name in ("sqrt", "add"):
                addends += part.args
            case Op() as part if FACTORS.get(part.op.name) == "divide":
                addends.append(part.args[0])
            case Op() as part if {"square": 1, "multiply": 2}.get(part.op.name) == len(
                    part.args) and {*part.args} == {x}:
                return True
        found.add(part)
    return False


def mean_in(value: Value, over: Collection[str], count: Value) -> Value | None:
    """The mean, if this is `x - mean(x)`, of `count` elements along the axes `over`; else None.

    The sum of that is 0, or NaN if the mean is not finite.
    """
    match value:
        case Op(operands=(a, b)) if value.op.name == "subtract":
            for x, mean in ((a, b), (b, a)):
                if isinstance(mean, Op) and mean.op.name == "divide" and mean.args[1] is count:
                    match mean.args[0]:
                        case Fold(initial=None, where=None) as fold if (
                                fold.arg is x and {*fold.over} == {*over} and (
                                    folds_by(fold, "sum"))):
                            return mean
    return None


def _terms(value: Value, depth: int) -> list[Term]:
    """What is added and subtracted."""
    name = value.op.name if isinstance(value, Op) and depth else ""
    if name == "negative":
        return [t.minus() for t in _terms(value.args[0], depth - 1)]
    if name not in ("add", "subtract"):
        return [Term((), value)]
    first, second = (_terms(a, depth - 1) for a in value.args)
    return [*first, *(t.minus() if name == "subtract" else t for t in second)]
