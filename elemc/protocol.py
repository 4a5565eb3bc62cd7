"""NumPy's protocols on the symbolic array: which of NumPy's functions are which of elemc's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from . import accumulators_docs, ops_docs
from .array import CONVERTING, Array, accumulate, apply
from .constructors import (
    astype,
    clip,
    diagonal,
    expand_dims,
    flip,
    full_like,
    moveaxis,
    ones_like,
    where,
    zeros_like,
)
from .dtypes import PYTHON_NUMBERS
from .errors import ArgumentError, UnsupportedError
from .indexing import axes_of
from .linear import dot, einsum, inner, matmul, outer, tensordot, vdot, vecdot
from .ops import OPS, UFUNCS

INSTEAD = {
    "reshape": "x[:, None] adds axes of size 1, transpose permutes; reshape the arrays outside",
    "ravel": "accumulate over all axes with axis=None; reshape the arrays outside",
    "flatten": "accumulate over all axes with axis=None; reshape the arrays outside",
    "concatenate": "several outputs of one function, written into slices with out=",
    "stack": "several outputs of one function, written into slices with out=",
    "take": "slices with constant bounds, or where with a mask",
    "put": "where with a mask",
    "compress": "where with a mask, or accumulate with where=",
    "choose": "nested where",
    "select": "nested where",
    "sort": "max and min; sort the arrays outside",
    "argsort": "argmax and argmin; sort the arrays outside",
    "partition": "max and min; partition the arrays outside",
    "median": "mean, or an Accumulator of your own",
    "cumsum": "accumulate gives totals; running sums are not there",
    "cumprod": "accumulate gives totals; running products are not there",
    "diff": "x[1:] - x[:-1]",
    "roll": "slices with constant bounds",
    "pad": "out= a slice of a larger array",
    "repeat": "broadcasting: x[:, None]",
    "tile": "broadcasting: x[None]",
    "broadcast_to": "broadcasting in an operation, or elemc.expand_to(x, like)",
    "nonzero": "count_nonzero, or accumulate with where=",
    "tolist": "call the compiled function, then .tolist() of its result",
    "item": "call the compiled function, then .item() of its result",
    "histogram": "sums of comparisons",
    "average": "(x * w).sum() / w.sum()",
    "linalg": "dot, einsum and norm are there; call numpy.linalg outside",
    "fft": "call numpy.fft outside",
    "nan_to_num": "where(isnan(x), 0, x)",
    "array_equal": "all(x == y)",
    "result_type": "x.dtype, or astype",
    "zeros": "zeros_like(x)",
    "argwhere": "argmax, count_nonzero, or accumulate with where=",
    "view": "astype converts values; view the arrays outside",
    "fill": "elemc.full_like(x, value)",
    "cumulative_sum": "accumulate gives totals; running sums are not there",
    "atleast_2d": "x[None]",
    "interp": "where and arithmetic",
}


class MissingError(UnsupportedError, AttributeError):
    """What NumPy's arrays have and symbolic ones have not; `hasattr` is False."""


def unsupported(function: str, name: str | None = None) -> NoReturn:
    """Raise the error of a function that elemc has not; it names the nearest thing that works."""
    parts = (name or function).split(".")
    nearest = next((INSTEAD[p] for p in parts if p in INSTEAD),
                   "the elementwise functions and accumulations in elemc's table; call it outside")
    raise MissingError(f"elemc has no {function}. The nearest thing: {nearest}.")


REDUCE: dict[Any, str] = {
    np.add: "sum", np.multiply: "prod", np.maximum: "max", np.minimum: "min", np.fmax: "fmax",
    np.fmin: "fmin", np.logical_or: "any", np.logical_and: "all", np.logaddexp: "logsumexp"}


def ufunc(fn: np.ufunc, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`np.exp(x)`, `np.add.reduce(x, axis=0)` and the like."""
    name = f"np.{fn.__name__}"
    if method == "reduce" and fn in REDUCE:
        if kwargs.pop("out", None) is not None:
            raise UnsupportedError(f"{name}.reduce of a symbolic array has no out=")
        kwargs.setdefault("axis", args[1] if len(args) > 1 else 0)
        return accumulate(REDUCE[fn], args[0], **kwargs)
    if method != "__call__":
        nearest = {"outer": f"{name}(x[:, None], y)", "reduce": f"{name}(...)",
                   "accumulate": f"elemc.{REDUCE.get(fn, 'accumulate')} gives the total"}
        raise UnsupportedError(f"elemc has no {name}.{method}. The nearest thing: "
                               f"{nearest.get(method, 'elemc.where and accumulations')}.")
    dtype = kwargs.pop("dtype", None)
    if kwargs:
        raise UnsupportedError(f"{name} of a symbolic array has no {', '.join(kwargs)}=: pass out= "
                               "and where= to the compiled function")
    if dtype is not None:
        args = tuple(astype(a, dtype) for a in args)
    if fn in PRODUCTS:
        return PRODUCTS[fn](*args)
    if fn is np.divmod:
        return apply("floor_divide", *args), apply("remainder", *args)
    if fn not in UFUNCS:
        unsupported(name, fn.__name__)
    return apply(UFUNCS[fn], *args)


def function(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`np.sum(x, axis=0)`, `np.where(c, x, y)` and the like."""
    name = f"{fn.__module__}.{fn.__name__}".replace("numpy", "np")
    if fn not in FUNCTIONS:
        unsupported(name)
    if kwargs.get("out") is not None:
        raise UnsupportedError(f"{name} of a symbolic array has no out=: pass it to the compiled "
                               "function")
    kwargs.pop("out", None)
    plain = {k: v for k, v in kwargs.items() if v is not np._NoValue}
    own = FUNCTIONS[fn]
    try:
        inspect.signature(own).bind(*args, **plain)
    except TypeError as error:
        raise UnsupportedError(f"{name} of a symbolic array: {error}") from None
    return own(*args, **plain)


def _fold(acc: str) -> Callable[..., Any]:
    """A NumPy reduction; positions are NumPy's."""

    def fold(a: Any, axis: Any = None, *, dtype: Any = None, keepdims: bool = False,
             initial: Any = None, where: Any = None, **options: Any) -> Any:
        return accumulate(acc, a, axis, keepdims, dtype, initial, where, **options)

    def converting(a: Any, axis: Any = None, dtype: Any = None, **options: Any) -> Any:
        return fold(a, axis, dtype=dtype, **options)

    return converting if acc.removeprefix("nan") in CONVERTING else fold


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    axes = axes_of(axis, x.ndim)
    if len(axes) > 1 and ord is not None:
        unsupported("np.linalg.norm of a matrix with ord=", "linalg")
    return accumulate("norm", x, axes, keepdims, ord=2 if ord is None else ord)


def _vector_norm(x: Any, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    return accumulate("norm", x, axis, keepdims, ord=ord)


def _clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    return clip(a, a_min if min is None else min, a_max if max is None else max)


def _angle(z: Any, deg: bool = False) -> Any:
    turn = apply("angle", z)
    return apply("rad2deg", turn) if deg else turn


def _isclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08,
             equal_nan: bool = False) -> Any:
    near = (abs(a - b) <= atol + rtol * abs(b)) & np.isfinite(b) | (a == b)
    return near | (np.isnan(a) & np.isnan(b)) if equal_nan else near


def _einsum(subscripts: Any, *operands: Any, optimize: Any = False) -> Any:
    return einsum(subscripts, *operands)


def _round(a: Any, decimals: int = 0) -> Any:
    return a.round(decimals)


def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    return accumulate("sum", diagonal(a, offset, axis1, axis2), -1, dtype=dtype)


def _size(a: Any, axis: int | None = None) -> Any:
    return a.size if axis is None else a.shape[axis]


def _identity(a: Any, order: str = "K", subok: bool = False) -> Any:
    return a


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    getattr(np, name): _fold({"amax": "max", "amin": "min"}.get(name, name))
    for name in ("sum prod max min amax amin any all mean var std argmax argmin count_nonzero "
                 "nansum nanprod nanmax nanmin nanmean nanvar nanstd nanargmax nanargmin ptp"
                 ).split()}
FUNCTIONS |= {
    np.where: where, np.clip: _clip, np.transpose: lambda a, axes=None: a.transpose(axes),
    np.swapaxes: lambda a, axis1, axis2: a.swapaxes(axis1, axis2), np.moveaxis: moveaxis,
    np.matrix_transpose: lambda x: x.mT, np.linalg.matrix_transpose: lambda x: x.mT,
    np.expand_dims: lambda a, axis: expand_dims(a, axis),
    np.squeeze: lambda a, axis=None: a.squeeze(axis),
    np.flip: lambda m, axis=None: flip(m, axis), np.fliplr: lambda m: flip(m, 1),
    np.flipud: lambda m: flip(m, 0), np.copy: _identity,
    np.zeros_like: lambda a, dtype=None: zeros_like(a, dtype),
    np.ones_like: lambda a, dtype=None: ones_like(a, dtype),
    np.full_like: lambda a, fill_value, dtype=None: full_like(a, fill_value, dtype),
    np.astype: lambda x, dtype, *, copy=True: astype(x, dtype),
    np.round: _round, np.around: _round, np.fix: lambda x: apply("trunc", x),
    np.real: lambda val: val.real, np.imag: lambda val: val.imag, np.angle: _angle,
    np.sinc: lambda x: apply("sinc", x), np.isneginf: lambda x: x == -np.inf,
    np.isposinf: lambda x: x == np.inf, np.isclose: _isclose,
    np.allclose: lambda *args, **tolerances: np.all(_isclose(*args, **tolerances)),
    np.isreal: lambda x: x.imag == 0, np.iscomplex: lambda x: x.imag != 0,
    np.shape: lambda a: a.shape, np.ndim: lambda a: a.ndim, np.size: _size,
    np.diagonal: diagonal, np.trace: _trace,
    np.dot: dot, np.inner: inner, np.outer: outer, np.vdot: vdot, np.einsum: _einsum,
    np.tensordot: tensordot, np.linalg.norm: _norm, np.linalg.vector_norm: _vector_norm,
}
PRODUCTS = {np.matmul: matmul, np.vecdot: vecdot}


def public(name: str) -> Callable[..., Any]:
    """The function `elemc.NAME` of one row of the table of operations."""
    op = OPS[name]

    def compute(*operands: Any) -> Any:
        if len(operands) != op.nin:
            raise ArgumentError(f"{name} takes {op.nin} operands, {len(operands)} were given")
        if any(isinstance(o, Array) for o in operands):
            return apply(op, *operands)
        arrays = [np.asarray(o) for o in operands]
        kinds = [type(o) if type(o) in PYTHON_NUMBERS else a.dtype for o, a in
                 zip(operands, arrays, strict=True)]
        loop, out = op.resolve(kinds)
        with np.errstate(all="ignore"):
            result = op.numpy(*(a.astype(d) for a, d in zip(arrays, loop, strict=True)))
        return np.asarray(result).astype(out)[()]

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = ops_docs.docstring(op)
    return compute


def divmod(x: Any, y: Any) -> tuple[Any, Any]:
    """The quotient rounded down and what it leaves, `x // y` and `x % y`, element by element.

    Of symbolic arrays, or of NumPy arrays and numbers; see `floor_divide` and `remainder`.
    """
    return FLOOR_DIVIDE(x, y), REMAINDER(x, y)


FLOOR_DIVIDE, REMAINDER = public("floor_divide"), public("remainder")


def fold_function(name: str) -> Callable[..., Any]:
    """The function `elemc.NAME` of one row of the table of accumulators."""
    fold = _fold(name)
    fold.__name__ = fold.__qualname__ = name
    fold.__doc__ = accumulators_docs.docstring(name)
    return fold


def _attribute(self: Array, name: str) -> Any:
    """The error of what NumPy arrays have and symbolic ones have not."""
    if name.startswith("_") or not hasattr(np.ndarray, name):
        raise AttributeError(f"a symbolic array has no attribute {name!r}")
    unsupported(f"ndarray.{name}", name)


def _install() -> None:
    """Give the symbolic array NumPy's protocols."""
    members: dict[str, Any] = {
        "__array_ufunc__": lambda self, fn, method, *args, **kw: ufunc(fn, method, args, kw),
        "__array_function__": lambda self, fn, types, args, kw: function(fn, args, kw),
        "__matmul__": matmul, "__rmatmul__": lambda self, other: matmul(other, self),
        "__getattr__": _attribute, "dot": dot, "diagonal": diagonal, "trace": _trace,
    }
    for name, member in members.items():
        setattr(Array, name, member)


_install()
