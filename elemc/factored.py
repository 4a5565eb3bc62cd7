"""Sums of gradients, with what their addends have in common moved out.

`sum(g / s)` is `sum(g) / s`, and `sum(a * p + b * q)` is `a * sum(p) + b * sum(q)`, where `a`, `b`
and `s` are the same along the axes that are summed over.  So divisions become few, and a sum waits
for no other that only such factors are made of: the gradient of a layer norm goes over its rows
three times instead of five.

Sums of users are left alone: their rounding is NumPy's.  A sum is taken apart only where all its
terms are products with such a factor, which are rounded before they meet, so that nothing is lost
that was not lost before; `x - mean` stays one.  And only outermost factors are moved: of
`(x / s) * (y / s)` the product `x * y` may be out of range.  But where `s` is a norm of `x`, kept
away from 0 by a constant, the squares of `x` are in range, or it is infinite; `sum(g * (x / s))` is
`sum(g * x) / s`, which need not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

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
    """What `a * b` is the quotient of, if one of them is a quotient by a norm.

    If it would wait for as much as before, it stays as it is.
    """
    for normed, other in ((a, b), (b, a)):
        if isinstance(normed, Op) and normed.op is PER and normed.args[1].axes.isdisjoint(over):
            x, norm, _ = normed.args
            if _is_norm(norm, x) and _waits([other, x]) < _waits([a, b]):
                return product(other, x), norm
    return None


def _is_norm(norm: Value, x: Value) -> bool:
    """Whether this is a root of sums, of which squares of `x` are addends, or that of a softmax."""
    if isinstance(norm, Fold) and norm.arg is x and of_differences(x, norm.over):
        return True
    parts = [norm] if isinstance(norm, Op) and norm.op.name == "sqrt" else list[Value]()
    for part in parts:  # which grows
        below: Sequence[Value] = ()
        match part:
            case Fold(where=None) if folds_by(part, "sum"):
                below = part.args
            case Op() if part.op.name in ("sqrt", "add"):
                below = part.args
            case Op() if FACTORS.get(part.op.name) == "divide":
                below = part.args[:1]
            case Op() if {"square": 1, "multiply": 2}.get(part.op.name) == len(part.args) and (
                    {*part.args} == {x}):
                return True
        parts += [v for v in below if v not in parts]
    return False


def is_centred(value: Value, over: Collection[str], count: Value) -> bool:
    """Whether this is `x - mean(x)`, of `count` elements along the axes `over`, whose sum is 0."""
    match value:
        case Op(operands=(a, b)) if value.op.name == "subtract":
            for x, mean in ((a, b), (b, a)):
                match mean:
                    case Op(operands=(Fold(arg=arg, initial=None, where=None) as fold, by)) if (
                            mean.op.name == "divide" and arg is x and by is count):
                        return folds_by(fold, "sum") and {*fold.over} == {*over}
    return False


def _terms(value: Value, depth: int) -> list[Term]:
    """What is added and subtracted."""
    name = value.op.name if isinstance(value, Op) and depth else ""
    if name == "negative":
        return [t.minus() for t in _terms(value.args[0], depth - 1)]
    if name not in ("add", "subtract"):
        return [Term((), value)]
    first, second = (_terms(a, depth - 1) for a in value.args)
    return [*first, *(t.minus() if name == "subtract" else t for t in second)]
