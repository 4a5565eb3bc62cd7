"""NumPy's functions as compositions of elemc's."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .array import CONVERTING, Array, accumulate, apply, as_node
from .constructors import (
    arange,
    clip,
    diagonal,
    expand_to,
    full_like,
    moveaxis,
    ones_like,
    where,
    zeros_like,
)
from .dtypes import PYTHON_NUMBERS
from .errors import ArgumentError, AxisError, DtypeError, ShapeError, UnsupportedError
from .graph import Size
from .graph_promotion import PYTHON_TYPES, of_sizes
from .indexing import axes_of, axis_of, integer_of, listed
from .linear import matmul, vecdot

FUNCTIONS: dict[Any, Callable[..., Any]] = {}  # NumPy's functions, and ufuncs that are no rows


def computes(*functions: Any) -> Callable[[Any], Any]:
    """Enter a function as what computes these of NumPy's; None: this NumPy lacks one."""

    def enter(made: Any) -> Any:
        FUNCTIONS.update({fn: made for fn in functions if fn is not None})
        return made

    return enter


def symbolic(value: Any) -> Array:
    """An operand as a symbolic array."""
    return value if isinstance(value, Array) else Array(as_node(value))


# -- dtypes -----------------------------------------------------------------------------------


def dtype_known(x: Any, what: str) -> np.dtype:
    """The dtype of `x`, which `what` depends on."""
    if x.dtype is None:
        raise DtypeError(f"{what} depends on the dtype of {x!r}, which is not known yet: declare "
                         "it, or use astype first")
    return x.dtype  # type: ignore[no-any-return]


def _promotable(value: Any) -> Any:
    """`value` as `np.result_type` takes it; sizes are Python numbers."""
    if not isinstance(value, Array):
        return value
    dtype = dtype_known(value, "np.result_type")
    return PYTHON_TYPES[dtype.kind](0) if of_sizes(value.node) else dtype


@computes(np.result_type)
def _result_type(*values: Any) -> np.dtype:
    return np.result_type(*map(_promotable, values))


@computes(np.can_cast)
def _can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    return np.can_cast(_promotable(from_), to, casting)  # type: ignore[arg-type]


@computes(np.iscomplexobj)
def is_complex(x: Any) -> bool:
    """Whether the dtype is complex."""
    return dtype_known(x, "np.iscomplexobj").kind == "c"


# -- accumulations ----------------------------------------------------------------------------


def fold_of(acc: str) -> Callable[..., Any]:
    """A NumPy reduction; positions are NumPy's."""

    def fold(a: Any, axis: Any = None, *, dtype: Any = None, keepdims: bool = False,
             initial: Any = None, where: Any = None, **options: Any) -> Any:
        return accumulate(acc, a, axis, keepdims, dtype, initial, where, **options)

    def converting(a: Any, axis: Any = None, dtype: Any = None, **options: Any) -> Any:
        return fold(a, axis, dtype=dtype, **options)

    return converting if acc.removeprefix("nan") in CONVERTING else fold


def spread_of(acc: str) -> Callable[..., Any]:
    """`np.var` or `np.std`, also about a mean that is given."""
    fold = fold_of(acc)

    def spread(a: Any, axis: Any = None, dtype: Any = None, *, mean: Any = None,
               **options: Any) -> Any:
        if options.get("correction") is not None and options.get("ddof", 0) != 0:
            raise ArgumentError(f"np.{acc}: ddof= and correction= are one number: give one")
        if mean is None:
            return fold(a, axis, dtype, **options)
        moment = _moment(symbolic(a), mean, axis, dtype, **options)
        return moment if acc == "var" else np.sqrt(moment)

    return spread


def _moment(a: Array, mean: Any, axis: Any, dtype: Any, *, ddof: float = 0,
            correction: float | None = None, keepdims: bool = False, where: Any = None) -> Any:
    """The variance about a mean, in NumPy's steps."""
    if dtype is None and dtype_known(a, "a variance about mean=").kind in "biu":
        dtype = np.float64
    far = a - mean
    real = dtype_known(far, "a variance about mean=").kind != "c"
    squares = far * far if real else np.square(far.real) + np.square(far.imag)
    total = accumulate("sum", squares, axis, keepdims, dtype, where=where)
    if where is None:
        sizes = [a.shape[d] for d in axes_of(axis, a.ndim)]
        count = functools.reduce(operator.mul, sizes, symbolic(1)).astype(np.int64)
    else:
        count = accumulate("sum", ones_like(a, np.int64), axis, keepdims, where=where)
    free = np.maximum(count - (ddof if correction is None else correction), 0)
    return (total / free).astype(total.dtype)


@computes(np.average)
def _average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *,
             keepdims: bool = False) -> Any:
    """NumPy's average; where the weights sum to zero it is NaN or infinite, no error."""
    a = symbolic(a)
    if weights is None:
        mean = accumulate("mean", a, axis, keepdims)
        return (mean, accumulate("sum", ones_like(a, mean.dtype), axis, keepdims)) if (
            returned) else mean
    w = _spread_weights(symbolic(weights), a, axis)
    floats = (np.float64,) if dtype_known(a, "np.average").kind in "biu" else ()
    dtype = np.result_type(a.dtype, dtype_known(w, "np.average"), *floats)
    total = accumulate("sum", w, axis, keepdims, dtype)
    average = accumulate("sum", a.astype(dtype) * w.astype(dtype), axis, keepdims) / total
    return (average, total) if returned else average


def _spread_weights(weights: Array, a: Array, axis: Any) -> Any:
    """Weights in the shape of `a`; those of lower rank lie along `axis`."""
    if weights.ndim != a.ndim:
        axes = [axis_of(d, a.ndim) for d in listed(axis)] if axis is not None else []
        if len(axes) != weights.ndim:
            raise ShapeError(f"np.average: weights of rank {weights.ndim} for an array of rank "
                             f"{a.ndim} need axis=, as many axes as they have")
        if axes != sorted(axes):
            weights = weights.transpose(sorted(range(len(axes)), key=axes.__getitem__))
        weights = weights[tuple(slice(None) if d in axes else None for d in range(a.ndim))]
    return expand_to(weights, a)


@computes(np.trace)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    """The sum along a diagonal."""
    return accumulate("sum", diagonal(a, offset, axis1, axis2), -1, dtype=dtype)


@computes(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norm of all elements or along one axis; of matrices all but those of singular values."""
    x = symbolic(x)
    places = [axis_of(d, x.ndim) for d in (range(x.ndim) if axis is None else listed(axis))]
    axes = axes_of(places, x.ndim)
    if len(axes) == 1 or ord is None and (axis is None or len(axes) == 2):
        return accumulate("norm", x, axes, keepdims, ord=2 if ord is None else ord)
    if len(axes) == 2 and ord in ("f", "fro"):
        return accumulate("norm", x, axes, keepdims, ord=2)
    if len(axes) != 2 or ord not in (1, -1, np.inf, -np.inf):
        raise UnsupportedError(f"elemc has no np.linalg.norm over {len(axes)} axes with "
                               f"ord={ord!r}: of vectors any number is there, of matrices 'fro', "
                               "1, -1, inf and -inf, of other arrays the norm of all elements")
    sums = accumulate("norm", x, places[abs(ord) != 1], True, ord=1)
    if ord > 0:
        return accumulate("max", sums, axes, keepdims, initial=0)
    return accumulate("min", sums, axes, keepdims)


# -- elements ---------------------------------------------------------------------------------


@computes(np.where)
def _where(condition: Any, *branches: Any) -> Any:
    if len(branches) != 2:
        raise UnsupportedError("np.where(condition) alone gives indices, and how many there are "
                               "depends on values: np.where(condition, x, y) selects, "
                               "np.count_nonzero(condition) counts")
    return where(condition, *branches)


@computes(np.select)
def _select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ArgumentError(f"np.select of {len(condlist)} conditions and {len(choicelist)} "
                            "choices: as many of each, and one at least")
    conditions = [symbolic(c) for c in condlist]
    if any(dtype_known(c, "np.select").kind != "b" for c in conditions):
        raise DtypeError("np.select: conditions are arrays of bools")
    choices = [c if type(c) in PYTHON_NUMBERS or isinstance(c, Array) else np.asarray(c)
               for c in (*choicelist, default)]
    dtype = _result_type(*choices)
    *converted, result = (symbolic(c).astype(dtype) for c in choices)
    for condition, choice in zip(conditions[::-1], converted[::-1], strict=True):
        result = where(condition, choice, result)
    return result


@computes(np.clip)
def _clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    return clip(a, a_min if min is None else min, a_max if max is None else max)


@computes(np.isclose)
def isclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08,
            equal_nan: bool = False) -> Any:
    """Whether two values differ by no more than the tolerances."""
    near = (abs(a - b) <= atol + rtol * abs(b)) & np.isfinite(b) | (a == b)
    return near | (np.isnan(a) & np.isnan(b)) if equal_nan else near


@computes(np.round, np.around)
def _round(a: Any, decimals: int = 0) -> Any:
    places = integer_of(decimals, "decimals= of np.round")
    if not places:
        return apply("rint" if a.dtype == np.bool_ else "round", a)
    kind = dtype_known(a, "np.round with decimals=").kind
    if kind in "bc":
        raise UnsupportedError(f"np.round of {a.dtype} has decimals=0 only: "
                               "round x.real and x.imag, or astype first")
    if kind in "iu" and places > 0:
        return a
    scale = 10.0 ** abs(places) if abs(places) < 309 else np.inf
    wide = a if kind == "f" else a.astype(np.float64)
    if places > 0:
        return np.rint(wide * scale) / scale
    return (np.rint(wide / scale) * scale).astype(a.dtype)


@computes(np.nan_to_num)
def _nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None,
                neginf: Any = None) -> Any:
    kind = dtype_known(x, "np.nan_to_num").kind
    if not copy:
        raise UnsupportedError("np.nan_to_num with copy=False changes its argument, and symbolic "
                               "arrays are never changed: leave copy= out and use the result")
    if kind == "c":
        raise UnsupportedError("np.nan_to_num of complex numbers: of x.real and of x.imag it works")
    if kind != "f":
        return x
    most = np.finfo(x.dtype).max
    result = x
    for old, new in ((-np.inf, -most if neginf is None else neginf),
                     (np.inf, most if posinf is None else posinf), (np.nan, nan)):
        if not np.can_cast(dtype_known(symbolic(new), "np.nan_to_num"), x.dtype, "same_kind"):
            raise DtypeError(f"np.nan_to_num: {new!r} does not convert to {x.dtype}")
        at = np.isnan(x) if old != old else x == old
        result = where(at, full_like(x, new), result)
    return result


@computes(np.polyval)
def _polyval(p: Any, x: Any) -> Any:
    if isinstance(p, Array):
        raise UnsupportedError("np.polyval of symbolic coefficients: give a list of them, "
                               "[p[0], p[1], ...], or write an elemc.Accumulator (Horner's rule)")
    x = symbolic(x)
    result = zeros_like(x)
    for coefficient in _coefficients(p):
        result = result * x + coefficient
    return result


def _coefficients(p: Any) -> Iterable[Any]:
    """The elements of an array or of a list, in one dtype."""
    if not isinstance(p, (list, tuple)) or not any(isinstance(c, Array) for c in p):
        return np.asarray(p)
    strong = [dtype_known(c, "np.polyval") if isinstance(c, Array) else np.asarray(c).dtype
              for c in p]
    return [symbolic(c).astype(np.result_type(*strong)) for c in p]


# -- shapes -----------------------------------------------------------------------------------


def atleast(ndim: int) -> Callable[..., Any]:
    """`np.atleast_1d`, `_2d` or `_3d`."""
    every = slice(None)
    forms = {0: (None,) * ndim, 1: (None, every, None)[:ndim], 2: (every, every, None)}

    def spread(x: Any) -> Any:
        return symbolic(x) if x.ndim >= ndim else symbolic(x)[forms[x.ndim]]

    def numpys(*arrays: Any) -> Any:
        made = tuple(spread(x if isinstance(x, Array) else np.asarray(x)) for x in arrays)
        return made[0] if len(made) == 1 else made

    return numpys


@computes(np.broadcast_to)
def _broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    sizes = [s.node for s in listed(shape) if isinstance(s, Array) and isinstance(s.node, Size)]
    if sizes:
        like = Array(sizes[0].arg)
        if [s.node for s in like.shape] == sizes and len(sizes) == len(listed(shape)):
            return expand_to(array, like)
    raise UnsupportedError("elemc has no np.broadcast_to a shape of numbers. The nearest thing: "
                           "np.broadcast_to(x, y.shape) and elemc.expand_to(x, y), or broadcasting "
                           "in an operation")


def triangle_of(name: str, upper: bool) -> Callable[..., Any]:
    """`np.tril`, or `np.triu` with `upper`."""

    def triangle(m: Any, k: int = 0) -> Any:
        if not m.ndim:
            raise AxisError(f"{name} of an array of rank 0")
        rows, columns = m.shape[-2:] if m.ndim > 1 else m.shape * 2
        last = arange(rows)[:, None] + (integer_of(k, f"k of {name}") - upper)
        below = np.greater_equal(last, arange(columns)[None])
        matrix = m if m.ndim > 1 else m[None]
        zero = dtype_known(m, name).type(0)
        mask = below[(None,) * (matrix.ndim - 2)]
        return where(mask, zero, matrix) if upper else where(mask, matrix, zero)

    return triangle


def _sides(x: Array, axis: int) -> tuple[Any, Any]:
    """`x` without its first and without its last element along `axis`."""
    before = (slice(None),) * axis_of(axis, x.ndim)
    return x[(*before, slice(1, None))], x[(*before, slice(None, -1))]


@computes(np.diff)
def _diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    if (times := integer_of(n, "n of np.diff")) < 0:
        raise ArgumentError(f"np.diff {n} times")
    for _ in range(times):
        after, before = _sides(a, axis)
        a = after != before if a.dtype == np.bool_ else after - before
    return a


@computes(np.trapezoid)
def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    y, step = symbolic(y), dx
    if x is not None:
        x = symbolic(x)
        step = _diff(x, axis=axis if x.ndim > 1 else -1)
    if x is not None and x.ndim == 1:
        place = axis_of(axis, y.ndim)
        step = step[tuple(slice(None) if d == place else None for d in range(y.ndim))]
    after, before = _sides(y, axis)
    return (step * (after + before) / 2.0).sum(axis)


# -- products ---------------------------------------------------------------------------------


@computes(np.vecdot, np.linalg.vecdot)
def _vecdot(x1: Any, x2: Any, *, axis: int = -1) -> Any:
    if axis == -1:
        return vecdot(x1, x2)
    return vecdot(*(moveaxis(symbolic(x), axis, -1) for x in (x1, x2)))


def _of_rank(least: int, x: Any) -> Any:
    x = symbolic(x)
    if x.ndim < least:
        raise ShapeError(f"a {'matrix' if least == 2 else 'vector'} of rank {x.ndim}: it has "
                         f"{least} axes at least")
    return x


@computes(getattr(np, "matvec", None))
def _matvec(x1: Any, x2: Any) -> Any:
    return matmul(_of_rank(2, x1), _of_rank(1, x2)[..., None])[..., 0]


@computes(getattr(np, "vecmat", None))
def _vecmat(x1: Any, x2: Any) -> Any:
    row = _of_rank(1, x1)
    row = row if row.dtype == np.bool_ else row.conj()  # which would make int8 of bools
    return matmul(row[..., None, :], _of_rank(2, x2))[..., 0, :]
