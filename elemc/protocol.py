"""NumPy's protocols on the symbolic array: which of NumPy's functions are which of elemc's."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from . import accumulators_docs, ops_docs, protocol_stacks
from .accumulators import LOGADDEXP
from .array import Array, accumulate, apply, as_node
from .constructors import (
    astype,
    diagonal,
    expand_dims,
    flip,
    full_like,
    moveaxis,
    ones_like,
    scan,
    zeros_like,
)
from .dtypes import PYTHON_NUMBERS, dtype_of
from .errors import ArgumentError, DtypeError, UnsupportedError
from .graph_promotion import promotion_types
from .linear import dot, einsum, inner, matmul, outer, tensordot, vdot
from .ops import EXTREMA, OPS, UFUNCS, with_ties
from .ops_base import ScalarOp
from .protocol_numpy import (
    FUNCTIONS,
    atleast,
    fold_of,
    is_complex,
    isclose,
    norm,
    spread_of,
    symbolic,
    trace,
    triangle_of,
)
from .protocol_operators import in_place

OUTPUTS = "several outputs of one function, written into slices with out=, or np.stack"
SLICES = "slices with constant bounds, x[:k] and x[k:]"
MASK = "where with a mask"
MEMBERS = "any(x[..., None] == values, axis=-1)"
ORDERED = "max and min; sort the arrays outside"
CENTRED = "d = x - mean(x, axis=1, keepdims=True) and d @ d.T / (n - 1)"

INSTEAD = {
    # shapes
    "reshape": "x[:, None] adds axes of size 1, transpose permutes; reshape the arrays outside",
    "ravel": "accumulate over all axes with axis=None; reshape the arrays outside",
    "flatten": "accumulate over all axes with axis=None; reshape the arrays outside",
    "resize": "slices and broadcasting; reshape the arrays outside",
    "rot90": "flip(swapaxes(x, 0, 1), 0)",
    "broadcast_to": "broadcasting in an operation, np.broadcast_to(x, y.shape), or "
                    "elemc.expand_to(x, like)",
    "atleast_2d": "x[None]",
    "repeat": "broadcasting: x[:, None]",
    "tile": "broadcasting: x[None]",
    "kron": "x[:, None, :, None] * y[None, :, None, :]; reshape the result outside",
    # joining and cutting
    **dict.fromkeys("concatenate block append insert concat".split(), OUTPUTS),
    **dict.fromkeys("split array_split hsplit vsplit dsplit unstack delete".split(), SLICES),
    "roll": "slices with constant bounds",
    "pad": "out= a slice of a larger array",
    # picking and placing
    "take": "slices with constant bounds, or where with a mask",
    "choose": "nested where",
    "piecewise": "nested where",
    "select": "nested where",
    **dict.fromkeys("put place putmask copyto compress extract fill_diagonal".split(), MASK),
    "nonzero": "count_nonzero, or accumulate with where=",
    "argwhere": "argmax, count_nonzero, or accumulate with where=",
    "diag": "np.diagonal(x) of a matrix, or where(i[:, None] == i, v, 0) with "
            "i = elemc.arange(x.shape[0])",
    "tri": "tril(ones_like(x))",
    # sorted values and sets
    "sort": ORDERED, "percentile": ORDERED, "quantile": ORDERED,
    "argsort": "argmax and argmin; sort the arrays outside",
    "partition": "max and min; partition the arrays outside",
    "median": "mean, or an Accumulator of your own",
    "searchsorted": "sum(edges < x[..., None], axis=-1)",
    "digitize": "sum(edges <= x[..., None], axis=-1)",
    "histogram": "sums of comparisons",
    "bincount": "sum(x == i[:, None], axis=-1), with i an array of the values",
    "isin": MEMBERS, "in1d": MEMBERS,
    "unique": "count_nonzero of comparisons, or call it outside on the result",
    # differences, windows and running totals
    "diff": "x[1:] - x[:-1]",
    "gradient": "(x[2:] - x[:-2]) / 2, the inner points, and diff at the ends",
    "interp": "where and arithmetic",
    "convolve": "a sum of slices, w[0] * x[2:] + w[1] * x[1:-1] + w[2] * x[:-2]",
    "correlate": "a sum of slices, w[0] * x[:-2] + w[1] * x[1:-1] + w[2] * x[2:]",
    # statistics and products
    "average": "(x * w).sum() / w.sum()",
    "cov": CENTRED,
    "corrcoef": CENTRED + ", divided by the square roots of its diagonal",
    "linalg": "dot, einsum and norm are there; call numpy.linalg outside",
    "fft": "call numpy.fft outside",
    # single elements
    "modf": "x - trunc(x) and trunc(x)",
    "frexp": "ldexp, log2 and floor: the exponent is about floor(log2(abs(x))) + 1",
    "nan_to_num": "where(isnan(x), 0, x)",
    "array_equal": "all(x == y)",
    # dtypes, memory and Python
    "result_type": "x.dtype, or astype",
    "view": "astype converts values; view the arrays outside",
    "zeros": "zeros_like(x)",
    "fill": "elemc.full_like(x, value)",
    "tolist": "call the compiled function, then .tolist() of its result",
    "item": "call the compiled function, then .item() of its result",
}


class MissingError(UnsupportedError, AttributeError):
    """What NumPy's arrays have and symbolic ones have not; `hasattr` is False."""


def unsupported(function: str, name: str | None = None) -> NoReturn:
    """Raise the error of a function that elemc has not; it names the nearest thing that works."""
    parts = (name or function).split(".")
    nearest = next((INSTEAD[p] for p in reversed(parts) if p in INSTEAD),
                   "the elementwise functions and accumulations in elemc's table; call it outside")
    raise MissingError(f"elemc has no {function}. The nearest thing: {nearest}.")


REDUCE: dict[Any, str] = {
    np.add: "sum", np.multiply: "prod", np.maximum: "max", np.minimum: "min", np.fmax: "fmax",
    np.fmin: "fmin", np.logical_or: "any", np.logical_and: "all", np.logaddexp: "logsumexp"}
REDUCE_BOOLS: dict[Any, str] = {np.bitwise_or: "any", np.bitwise_and: "all"}
IDENTITIES = {np.bitwise_or: ("|", 0), np.bitwise_xor: ("^", 0), np.bitwise_and: ("&", -1)}

# SciPy's ufuncs by name.  A ufunc does not tell its module, so no other name is trusted: a
# `gelu` or a `sinc` of the user's own need not be elemc's.
SPECIAL = {name: name for name in (
    "cbrt erf erfc erfinv exp2 expm1 gamma log1p logit round xlog1py xlogy").split()}
SPECIAL |= {"expit": "sigmoid", "gammaln": "lgamma", "psi": "digamma"}

# Keywords of ufuncs that change nothing.
DEFAULTS = {"casting": "same_kind", "where": True, "order": "K", "subok": True}


def ufunc(fn: np.ufunc, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`np.exp(x)`, `np.add.reduce(x, axis=0)` and the like."""
    name = _spelled(fn)
    if method == "reduce":
        return _reduced(fn, name, args, kwargs)
    compute = _computes(fn, name)
    if method == "accumulate" and fn in REDUCE:
        acc = LOGADDEXP if fn is np.logaddexp else REDUCE[fn]
        kwargs.setdefault("axis", args[1] if len(args) > 1 else 0)
        return running(acc)(args[0], **kwargs)
    if method == "outer":
        args = _crossed(*args)
    elif method != "__call__":
        raise UnsupportedError(f"elemc has no {name}.{method}. The nearest thing: "
                               "elemc.where, accumulations, or elemc.scan.")
    options = {k: v for k, v in kwargs.items()
               if not isinstance(v, (str, bool)) or DEFAULTS.get(k) != v}
    dtype = options.pop("dtype", None)
    axis = {"axis": options.pop("axis")} if fn is np.vecdot and "axis" in options else {}
    if options:
        nearest = "dtype= chooses dtypes by casting='same_kind', astype by any"
        if {"out", "where"} & {*options}:
            nearest = "write np.where(condition, x, y); the compiled function has out= and where="
        raise UnsupportedError(f"{name} of symbolic arrays has no {', '.join(options)}=: {nearest}")
    if dtype is not None or fn not in UFUNCS and fn not in FUNCTIONS:
        args = _converted(fn, name, args, dtype)
    return compute(*args, **axis)


def _spelled(fn: np.ufunc) -> str:
    """How messages name a ufunc, which does not tell its module."""
    numpys = getattr(np, fn.__name__, None) is fn
    return f"np.{fn.__name__}" if numpys else f"the ufunc {fn.__name__}"


def _computes(fn: np.ufunc, name: str) -> Callable[..., Any]:
    """What computes `fn` of symbolic arrays."""
    if fn in FUNCTIONS:
        return FUNCTIONS[fn]
    row = UFUNCS.get(fn)
    numpys = name.startswith("np.")
    if row is None and not numpys and fn.__name__ in SPECIAL:
        row = OPS[SPECIAL[fn.__name__]]
    if row is None or (row.nin, 1) != (fn.nin, fn.nout):
        unsupported(name if numpys else f"counterpart of {name}", fn.__name__)
    return functools.partial(apply, row)


def _converted(fn: np.ufunc, name: str, args: Sequence[Any], dtype: Any) -> tuple[Any, ...]:
    """The operands in the dtypes of NumPy's loop; Python's numbers are left to give way."""
    nodes = [as_node(a) for a in args]
    kinds = promotion_types(fn.__name__, nodes, [n.dtype for n in nodes])
    given = "" if dtype is None else f" and dtype={dtype_of(dtype)}"
    if any(k is None for k in kinds):  # of float64, `== None` holds
        raise DtypeError(f"{name}: which loop computes it depends on the dtypes of its operands"
                         f"{given}, and one is not known yet: declare it, or use astype first")
    fixed = (None,) * fn.nin + (None if dtype is None else dtype_of(dtype),) * fn.nout
    try:
        loop = fn.resolve_dtypes((*kinds, *(None,) * fn.nout), signature=fixed)
    except TypeError:
        names = ", ".join(k.__name__ if isinstance(k, type) else str(k) for k in kinds)
        raise DtypeError(f"{name} does not exist for operands of dtype {names}{given} (operands "
                         "convert by casting='same_kind'; astype converts any)") from None
    return tuple(a if isinstance(k, type) or k == d else Array(n).astype(d)
                 for a, n, k, d in zip(args, nodes, kinds, loop, strict=False))


def _reduced(fn: np.ufunc, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`np.add.reduce(x, axis=0)` and the like."""
    x = args[0]
    bools = fn in REDUCE_BOOLS and x.dtype == np.bool_ and kwargs.get("dtype") is None
    acc = REDUCE_BOOLS[fn] if bools else REDUCE.get(fn)
    if acc is None and fn in IDENTITIES:
        sign, start = IDENTITIES[fn]
        raise UnsupportedError(
            f"elemc has no {name}.reduce of {x.dtype or 'any dtype'}. The nearest thing: "
            f"elemc.accumulate(elemc.Accumulator('bits', identity={start}, combine=lambda a, v: "
            f"a {sign} v, merge=lambda a, b: a {sign} b), x, axis=0); of bools any and all.")
    if acc is None:
        raise UnsupportedError(f"elemc has no {name}.reduce. The nearest thing: {name}(...), "
                               "elemc's accumulations, or an elemc.Accumulator of your own.")
    if kwargs.pop("out", None) is not None:
        raise UnsupportedError(f"{name}.reduce of a symbolic array has no out=")
    kwargs.setdefault("axis", 0)
    return accumulate(acc, x, **kwargs)


def _crossed(x: Any, y: Any) -> tuple[Array, Array]:
    """The operands of `ufunc.outer`, whose Python numbers do not give way."""
    a, b = (symbolic(v if isinstance(v, Array) else np.asarray(v)[()]) for v in (x, y))
    return a[(..., *[None] * b.ndim)], b[(*[None] * a.ndim, ...)]


def function(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`np.sum(x, axis=0)`, `np.where(c, x, y)` and the like."""
    name = f"{fn.__module__}.{fn.__name__}".replace("numpy", "np")
    if fn not in FUNCTIONS:
        unsupported(name)
    if kwargs.get("out") is not None:
        raise UnsupportedError(f"{name} of a symbolic array has no out=: pass it to the compiled "
                               "function")
    lists = () if fn in LISTS else (a for a in args if isinstance(a, list))
    if any(isinstance(value, Array) for a in lists for value in a):
        raise UnsupportedError(f"{name} of a list of symbolic arrays. The nearest thing: one call "
                               "for each, as several outputs, or one of np.stack of them")
    kwargs.pop("out", None)
    plain = {k: v for k, v in kwargs.items() if v is not np._NoValue}
    own = FUNCTIONS[fn]
    try:
        inspect.signature(own).bind(*args, **plain)
    except TypeError as error:
        raise UnsupportedError(f"{name} of a symbolic array: {error}") from None
    return own(*args, **plain)


def running(acc: Any) -> Callable[..., Any]:
    """NumPy's running total of an accumulator."""

    def total(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
        return scan(acc, a if dtype is None else a.astype(dtype), axis)

    return total


FUNCTIONS.update({
    getattr(np, name): fold_of({"amax": "max", "amin": "min"}.get(name, name))
    for name in ("sum prod max min amax amin any all mean argmax argmin count_nonzero nansum "
                 "nanprod nanmax nanmin nanmean nanvar nanstd nanargmax nanargmin ptp").split()})
FUNCTIONS.update({
    # running totals
    np.cumsum: running("sum"), np.cumprod: running("prod"),
    np.cumulative_sum: lambda x, *, axis=None, dtype=None: running("sum")(x, axis, dtype),
    np.cumulative_prod: lambda x, *, axis=None, dtype=None: running("prod")(x, axis, dtype),
    np.nancumsum: lambda a, axis=None, dtype=None: running("sum")(
        apply("where", np.isnan(a), 0, a), axis, dtype),
    # spreads, products, norms
    np.dot: dot, np.inner: inner, np.outer: outer, np.linalg.outer: outer, np.vdot: vdot,
    np.matmul: matmul, np.linalg.matmul: matmul,
    np.einsum: lambda subscripts, *operands, optimize=False: einsum(subscripts, *operands),
    np.tensordot: tensordot, np.linalg.tensordot: tensordot,
    np.var: spread_of("var"), np.std: spread_of("std"),
    np.linalg.vector_norm: lambda x, *, axis=None, keepdims=False, ord=2: accumulate(
        "norm", x, axis, keepdims, ord=ord),
    np.linalg.matrix_norm: lambda x, *, keepdims=False, ord="fro": norm(x, ord, (-2, -1), keepdims),
    np.linalg.trace: lambda x, *, offset=0, dtype=None: trace(x, offset, -2, -1, dtype),
    # shapes
    np.shape: lambda a: a.shape, np.ndim: lambda a: a.ndim,
    np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
    np.transpose: lambda a, axes=None: a.transpose(axes),
    np.swapaxes: lambda a, axis1, axis2: a.swapaxes(axis1, axis2), np.moveaxis: moveaxis,
    np.matrix_transpose: lambda x: x.mT, np.linalg.matrix_transpose: lambda x: x.mT,
    np.expand_dims: lambda a, axis: expand_dims(a, axis),
    np.squeeze: lambda a, axis=None: a.squeeze(axis),
    np.atleast_1d: atleast(1), np.atleast_2d: atleast(2), np.atleast_3d: atleast(3),
    np.flip: lambda m, axis=None: flip(m, axis), np.fliplr: lambda m: flip(m, 1),
    np.flipud: lambda m: flip(m, 0), np.diagonal: diagonal,
    np.linalg.diagonal: lambda x, *, offset=0: diagonal(x, offset, -2, -1),
    np.tril: triangle_of("np.tril", upper=False), np.triu: triangle_of("np.triu", upper=True),
    # constants and dtypes
    np.zeros_like: lambda a, dtype=None: zeros_like(a, dtype),
    np.empty_like: lambda prototype, dtype=None: zeros_like(prototype, dtype),
    np.ones_like: lambda a, dtype=None: ones_like(a, dtype),
    np.full_like: lambda a, fill_value, dtype=None: full_like(a, fill_value, dtype),
    np.astype: lambda x, dtype, *, copy=True: astype(x, dtype),
    np.copy: lambda a, order="K", subok=False: a, np.isrealobj: lambda x: not is_complex(x),
    # elements
    np.divmod: lambda x1, x2: (apply("floor_divide", x1, x2), apply("remainder", x1, x2)),
    np.fix: lambda x: apply("trunc", x), np.sinc: lambda x: apply("sinc", x),
    np.real: lambda val: val.real, np.imag: lambda val: val.imag,
    np.angle: lambda z, deg=False: np.degrees(apply("angle", z)) if deg else apply("angle", z),
    np.isreal: lambda x: x.imag == 0, np.iscomplex: lambda x: x.imag != 0,
    np.isneginf: lambda x: x == -np.inf, np.isposinf: lambda x: x == np.inf,
    np.allclose: lambda *args, **tolerances: np.all(isclose(*args, **tolerances)),
})
# those that take lists of arrays
LISTS = (np.select, np.polyval, np.broadcast_to, *protocol_stacks.STACKS)


def public(name: str) -> Callable[..., Any]:
    """The function `elemc.NAME` of one row of the table of operations."""
    op = OPS[name]

    def compute(*operands: Any) -> Any:
        return _compute(op, operands)

    def tied(*operands: Any, ties: str = "split") -> Any:
        return _compute(with_ties(name, ties), operands)

    made: Any = tied if op in EXTREMA else compute
    made.__name__ = made.__qualname__ = name
    made.__module__ = __package__  # where pickle finds it
    made.__doc__, made.nin = ops_docs.docstring(op), op.nin
    return made  # type: ignore[no-any-return]


def _compute(op: ScalarOp, operands: Sequence[Any]) -> Any:
    """An operation on symbolic arrays, or on NumPy arrays and numbers."""
    if len(operands) != op.nin:
        raise ArgumentError(f"{op.name} takes {op.nin} operands, {len(operands)} were given")
    if any(isinstance(o, Array) for o in operands):
        return apply(op, *operands)
    arrays = [np.asarray(o) for o in operands]
    kinds = [type(o) if type(o) in PYTHON_NUMBERS else np.asarray(o).dtype for o in operands]
    loop, out = op.resolve(kinds)
    with np.errstate(all="ignore"):
        result = op.numpy(*(a.astype(d) for a, d in zip(arrays, loop, strict=True)))
    return np.asarray(result).astype(out)[()]


def divmod(x: Any, y: Any) -> tuple[Any, Any]:
    """The quotient rounded down and what it leaves, `x // y` and `x % y`, element by element.

    Of symbolic arrays, or of NumPy arrays and numbers; see `floor_divide` and `remainder`.
    """
    return FLOOR_DIVIDE(x, y), REMAINDER(x, y)


FLOOR_DIVIDE, REMAINDER = public("floor_divide"), public("remainder")


def fold_function(name: str) -> Callable[..., Any]:
    """The function `elemc.NAME` of one row of the table of accumulators."""
    fold = fold_of(name)
    fold.__name__ = fold.__qualname__ = name
    fold.__doc__ = accumulators_docs.docstring(name)
    return fold


def _attribute(self: Array, name: str) -> Any:
    """The error of what NumPy arrays have and symbolic ones have not."""
    if name.startswith("_") or not hasattr(np.ndarray, name):
        raise AttributeError(f"a symbolic array has no attribute {name!r}", name=name, obj=self)
    unsupported(f"ndarray.{name}", name)


def _install() -> None:
    """Give the symbolic array NumPy's protocols."""
    members: dict[str, Any] = {
        "__array_ufunc__": lambda self, fn, method, *args, **kw: ufunc(fn, method, args, kw),
        "__array_function__": lambda self, fn, types, args, kw: function(fn, args, kw),
        "__matmul__": matmul, "__rmatmul__": lambda self, other: matmul(other, self),
        "__getattr__": _attribute, "dot": dot, "diagonal": diagonal, "cumsum": running("sum"),
        "cumprod": running("prod"), "trace": trace,
    }
    for name in "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift".split():
        members[f"__i{name.rstrip('_')}__"] = in_place(name)
    for name, member in members.items():
        setattr(Array, name, member)


_install()
