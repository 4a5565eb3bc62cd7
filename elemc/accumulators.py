"""One row per accumulator.

A *fold* has a state, an identity and `combine`; a *composite* is an expression of folds (`mean`,
`logsumexp`), expanded when its argument's dtype is known, so that it fuses like the user's own
code.  All functions here are NumPy code, which traces on symbolic arrays and runs on real ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .accumulators_parts import parts_of
from .dtypes import accumulation_dtype, dtype_of
from .errors import ArgumentError

DtypeRule = Callable[[np.dtype], np.dtype]


@dataclass(frozen=True, eq=False)
class Accumulator:
    """How the elements along some axes become one value.

    Parameters
    ----------
    name : str
        What formulas and C call it.
    identity : scalar, tuple of scalars, or None
        The state before the first element.  None: the state starts from the first element, and
        an empty axis is an error.
    combine : callable
        `combine(*state, value)` gives the next state; with `index`, `combine(*state, value, k)`,
        where `k` counts the elements of the reduced axes in C order.
    finish : callable, optional
        `finish(*state)` gives the result; a state of one part needs none.
    merge : callable, optional
        `merge(*a, *b)` joins the states of two neighbouring ranges.  Must be associative up to
        rounding.  Without it, elements are folded from the left, in C order, one by one.
    commutative : bool
        Elements may be folded in any order; needs `merge`.
    adjoint : callable, optional
        The gradient rule: `adjoint(acc, value, g)` gives `(g_acc, g_value)`; `acc`, `g` and `g_acc`
        are tuples if the state has several parts.
    dtype : dtype or callable, optional
        What values are converted to before they are folded.
    index : bool
        Whether `combine` receives the element's index.
    start : callable, optional
        With `identity=None`: the state from the first value (and its index).
    neutral : callable, optional
        `neutral(dtype)` is a state that `combine` of a non-empty axis never shows: what a fold
        may start from instead of the first element.
    exact : bool
        `merge` never rounds, so the order of merging does not matter at all.
    reduce : callable, optional
        NumPy's own reduction, for the interpreter.
    place_of : str
        The accumulator of which it gives the first place of the result, if it does.
    """

    name: str
    identity: Any
    combine: Callable[..., Any]
    finish: Callable[..., Any] | None = None
    merge: Callable[..., Any] | None = None
    commutative: bool = False
    adjoint: Callable[..., Any] | None = None
    dtype: Any = None
    index: bool = False
    start: Callable[..., Any] | None = None
    neutral: Callable[[np.dtype], Any] | None = None
    exact: bool = False
    reduce: Callable[..., Any] | None = None
    place_of: str = ""

    def __post_init__(self) -> None:
        if self.commutative and self.merge is None:
            raise ArgumentError(f"accumulator {self.name!r}: commutative needs merge")
        for role, part in parts_of(self).items():
            object.__setattr__(self, role, part)

    def value_dtype(self, dtype: np.dtype) -> np.dtype:
        """What values of `dtype` are converted to before they are folded."""
        if self.dtype is None:
            return dtype
        if callable(self.dtype) and not isinstance(self.dtype, type):  # np.int64 is callable too
            return dtype_of(self.dtype(dtype))
        return dtype_of(self.dtype)

    def __repr__(self) -> str:
        return f"<elemc accumulator {self.name}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        if ACCUMULATORS.get(self.name) is self:
            return accumulator, (self.name,)
        return object.__reduce_ex__(self, protocol)


@dataclass(frozen=True, eq=False)
class Composite:
    """An accumulation written as an expression: `expand(x, reduce, where, **options)`.

    `reduce(x, name)` folds over the axes in question and keeps them as axes of size 1;
    `count(x)` is the number of folded elements, a scalar or of the shape of such a result.
    """

    name: str
    expand: Callable[..., Any]
    options: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<elemc accumulator {self.name}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        if ACCUMULATORS.get(self.name) is self:
            return accumulator, (self.name,)
        return object.__reduce_ex__(self, protocol)


def _first(no_better: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Keep the first best (value, index); NaN beats everything, the first NaN other NaNs."""

    def combine(best: Any, place: Any, value: Any, index: Any) -> Any:
        wins = np.logical_not(no_better(value, best)) & (best == best)
        return np.where(wins, value, best), np.where(wins, index, place)

    return combine


def _bool(_: np.dtype) -> np.dtype:
    return np.dtype(bool)


def _lowest(dtype: np.dtype) -> Any:
    """What every value of `dtype` is at least as large as."""
    if dtype.kind == "b":
        return False
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    return complex(-np.inf, -np.inf) if dtype.kind == "c" else -np.inf


def _highest(dtype: np.dtype) -> Any:
    """What every value of `dtype` is at most as large as."""
    if dtype.kind == "b":
        return True
    if dtype.kind in "iu":
        return np.iinfo(dtype).max
    return complex(np.inf, np.inf) if dtype.kind == "c" else np.inf


def _or_nan(bound: Callable[[np.dtype], Any]) -> Callable[[np.dtype], Any]:
    """NaN, which fmin and fmax ignore; `bound` where there is none."""
    return lambda dtype: np.nan if dtype.kind in "fc" else bound(dtype)


FOLDS = (
    Accumulator("sum", 0, lambda a, v: a + v, merge=lambda a, b: a + b, commutative=True,
                dtype=accumulation_dtype, reduce=np.add.reduce),
    Accumulator("prod", 1, lambda a, v: a * v, merge=lambda a, b: a * b, commutative=True,
                dtype=accumulation_dtype, reduce=np.multiply.reduce),
    Accumulator("min", None, np.minimum, merge=np.minimum, commutative=True, exact=True,
                neutral=_highest, reduce=np.minimum.reduce),
    Accumulator("max", None, np.maximum, merge=np.maximum, commutative=True, exact=True,
                neutral=_lowest, reduce=np.maximum.reduce),
    Accumulator("fmin", None, np.fmin, merge=np.fmin, commutative=True, exact=True,
                neutral=_or_nan(_highest), reduce=np.fmin.reduce),
    Accumulator("fmax", None, np.fmax, merge=np.fmax, commutative=True, exact=True,
                neutral=_or_nan(_lowest), reduce=np.fmax.reduce),
    Accumulator("any", False, np.logical_or, merge=np.logical_or, commutative=True, exact=True,
                dtype=_bool, reduce=np.logical_or.reduce),
    Accumulator("all", True, np.logical_and, merge=np.logical_and, commutative=True, exact=True,
                dtype=_bool, reduce=np.logical_and.reduce),
    Accumulator("argmin", None, _first(lambda a, b: a >= b), finish=lambda v, k: k, index=True,
                start=lambda v, k: (v, k), neutral=lambda dtype: (_highest(dtype), 0),
                place_of="min"),
    Accumulator("argmax", None, _first(lambda a, b: a <= b), finish=lambda v, k: k, index=True,
                start=lambda v, k: (v, k), neutral=lambda dtype: (_lowest(dtype), 0),
                place_of="max"),
)


def _mean(x: Any, fold: Any, dtype: Any = None) -> Any:
    real = np.dtype(dtype) if dtype is not None else _inexact(x.dtype)
    state = np.dtype(np.float32) if real == np.float16 else real
    total = fold(x.astype(state), "sum")
    return (total / fold.count(x).astype(state)).astype(real)


def _inexact(dtype: np.dtype) -> np.dtype:
    return dtype if dtype.kind in "fc" else np.dtype(np.float64)


def _var(x: Any, fold: Any, ddof: Any = 0, dtype: Any = None) -> Any:
    real = np.dtype(dtype) if dtype is not None else _inexact(x.dtype)
    state = np.dtype(np.float32) if real == np.float16 else real
    x = x.astype(state)
    count = fold.count(x).astype(state if state.kind == "f" else np.zeros(0, state).real.dtype)
    distance = x - fold(x, "sum") / count.astype(state)
    squares = _abs2(distance)
    if ddof:
        count = np.maximum(count - count.dtype.type(ddof), count.dtype.type(0))
    result = fold(squares, "sum") / count
    return result.astype(np.float16) if real == np.float16 else result


def _abs2(x: Any) -> Any:
    return np.square(np.real(x)) + np.square(np.imag(x)) if x.dtype.kind == "c" else np.square(x)


def _logsumexp(x: Any, fold: Any) -> Any:
    x = x.astype(_inexact(x.dtype))
    top = fold(x, "max", initial=-np.inf)
    return np.log(fold(np.exp(fold.below(x, top)), "sum")) + fold.constant(top)


def _norm(x: Any, fold: Any, ord: Any = 2) -> Any:
    size = np.absolute(x.astype(_inexact(x.dtype)))
    if ord == 2:
        return fold.root(fold(_abs2(x.astype(_inexact(x.dtype))), "sum"))
    if ord == 1:
        return fold(size, "sum")
    if ord in (np.inf, -np.inf):
        return fold(size, "max", initial=0.0) if ord > 0 else fold(size, "min")
    if ord == 0:
        return fold((size != 0).astype(size.dtype), "sum")
    total = fold(size ** float(ord), "sum")
    return np.where(total == 0, total if ord > 0 else 1 / total, total ** (1.0 / float(ord)))


def _without_nan(fill: Any, then: str) -> Callable[..., Any]:
    """`then` over `x` with NaNs replaced by `fill`."""

    def expand(x: Any, fold: Any, **options: Any) -> Any:
        if x.dtype.kind in "fc":
            x = np.where(np.isnan(x), x.dtype.type(fill), x)
        return fold(x, then, **options)

    return expand


def _known_place(fill: Any, then: str) -> Callable[..., Any]:
    """The place `then` finds among what is no NaN; an error if all are."""

    def expand(x: Any, fold: Any) -> Any:
        place = _without_nan(fill, then)(x, fold)
        return fold.place(place, fold(np.isnan(x), "all")) if x.dtype.kind in "fc" else place

    return expand


def _nanmean(x: Any, fold: Any, dtype: Any = None) -> Any:
    if x.dtype.kind not in "fc":
        return _mean(x, fold, dtype)
    return _mean(x, fold.masked(~np.isnan(x)), dtype)


def _nanvar(x: Any, fold: Any, ddof: Any = 0, dtype: Any = None) -> Any:
    if x.dtype.kind not in "fc":
        return _var(x, fold, ddof, dtype)
    known = fold.masked(~np.isnan(x))
    result = _var(x, known, ddof, dtype)
    # NumPy answers NaN where no degree of freedom is left
    return np.where(known.count(x) > ddof, result, result.dtype.type(np.nan))


# What scans have besides.
LOGADDEXP = Accumulator("logaddexp", -np.inf, np.logaddexp)


COMPOSITES = (
    Composite("mean", _mean, ("dtype",)),
    Composite("var", _var, ("ddof", "dtype")),
    Composite("std", lambda x, fold, **o: fold.root(_var(x, fold, **o)), ("ddof", "dtype")),
    Composite("count_nonzero", lambda x, fold: fold((x != 0).astype(np.int64), "sum")),
    Composite("logsumexp", _logsumexp),
    Composite("norm", _norm, ("ord",)),
    Composite("norm1", lambda x, fold: _norm(x, fold, 1)),
    Composite("norm2", lambda x, fold: _norm(x, fold, 2)),
    Composite("norminf", lambda x, fold: _norm(x, fold, np.inf)),
    Composite("ptp", lambda x, fold: fold(x, "max") - fold(x, "min")),
    Composite("nansum", _without_nan(0, "sum"), ("dtype", "initial")),
    Composite("nanprod", _without_nan(1, "prod"), ("dtype", "initial")),
    Composite("nanmax", lambda x, fold: fold(x, "fmax"), ("initial",)),
    Composite("nanmin", lambda x, fold: fold(x, "fmin"), ("initial",)),
    Composite("nanargmax", _known_place(-np.inf, "argmax")),
    Composite("nanargmin", _known_place(np.inf, "argmin")),
    Composite("nanmean", _nanmean, ("dtype",)),
    Composite("nanvar", _nanvar, ("ddof", "dtype")),
    Composite("nanstd", lambda x, fold, **o: fold.root(_nanvar(x, fold, **o)), ("ddof", "dtype")),
)

ACCUMULATORS: dict[str, Accumulator | Composite] = {row.name: row for row in (*FOLDS, *COMPOSITES)}


def accumulator(spec: Any) -> Accumulator | Composite:
    """The accumulator that `spec` is or names.

    Raises
    ------
    ArgumentError
        If there is none of that name.
    """
    if isinstance(spec, (Accumulator, Composite)):
        return spec
    try:
        return ACCUMULATORS[spec]
    except (KeyError, TypeError):
        names = ", ".join(ACCUMULATORS)
        raise ArgumentError(f"no accumulator {spec!r}; there are {names}") from None
