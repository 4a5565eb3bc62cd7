"""NumPy's protocols on the symbolic array: which of NumPy's functions are which of elemc's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from .array import PYTHON_NUMBERS, Array, accumulate, apply
from .constructors import (
    astype,
    clip,
    expand_dims,
    flip,
    full_like,
    moveaxis,
    ones_like,
    where,
    zeros_like,
)
from .errors import ArgumentError, UnsupportedError
from .indexing import axes_of
from .linear import dot, einsum, inner, matmul, outer, tensordot, vdot
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
    "copy": "the array itself: symbolic arrays are never changed",
    "histogram": "sums of comparisons",
    "average": "(x * w).sum() / w.sum()",
    "linalg": "dot, einsum and norm are there; call numpy.linalg outside",
    "fft": "call numpy.fft outside",
    "trace": "einsum is there, without repeated labels in one operand",
    "isclose": "abs(a - b) <= atol + rtol * abs(b)",
    "interp": "where and arithmetic",
}


def unsupported(function: str, name: str | None = None) -> NoReturn:
    """Raise the error of a function that elemc has not; it names the nearest thing that works."""
    parts = (name or function).split(".")
    nearest = next((INSTEAD[p] for p in parts if p in INSTEAD),
                   "the elementwise functions and accumulations in elemc's table; call it outside")
    raise UnsupportedError(f"elemc has no {function}. The nearest thing: {nearest}.")


REDUCE = {np.add: "sum", np.multiply: "prod", np.maximum: "max", np.minimum: "min",
          np.fmax: "fmax", np.fmin: "fmin", np.logical_or: "any", np.logical_and: "all",
          np.logaddexp: "logsumexp"}


def ufunc(fn: np.ufunc, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`np.exp(x)`, `np.add.reduce(x, axis=0)` and the like."""
    name = f"np.{fn.__name__}"
    if method == "reduce" and fn in REDUCE:
        if kwargs.pop("out", None) is not None:
            raise UnsupportedError(f"{name}.reduce of a symbolic array has no out=")
        kwargs.setdefault("axis", args[1] if len(args) > 1 else 0)
        return accumulate(REDUCE[fn], args[0], **kwargs)
    if method != "__call__":
        near = f"; elemc.{REDUCE[fn]} accumulates" if fn in REDUCE else ""
        raise UnsupportedError(f"elemc has no {name}.{method}. The nearest thing: "
                               f"{name}(...){near}.")
    dtype = kwargs.pop("dtype", None)
    if kwargs:
        raise UnsupportedError(f"{name} of a symbolic array has no {', '.join(kwargs)}=: pass out= "
                               "and where= to the compiled function")
    if fn is np.matmul:
        return matmul(*args)
    if fn is np.divmod:
        return apply("floor_divide", *args), apply("remainder", *args)
    if fn not in UFUNCS:
        unsupported(name, fn.__name__)
    if dtype is not None:
        args = tuple(astype(a, dtype) for a in args)
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
    return FUNCTIONS[fn](*args, **plain)


def _fold(acc: str) -> Callable[..., Any]:
    """A NumPy reduction."""

    def fold(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False,
             initial: Any = None, where: Any = None, **options: Any) -> Any:
        return accumulate(acc, a, axis, keepdims, dtype, initial, where, **options)

    return fold


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    axes = axes_of(axis, x.ndim)
    if len(axes) > 1 and ord is not None:
        unsupported("np.linalg.norm of a matrix with ord=", "linalg")
    return accumulate("norm", x, axes, keepdims, ord=2 if ord is None else ord)


def _round(x: Any, decimals: int = 0) -> Any:
    return x.round(decimals)


def _as_given(name: str) -> Callable[..., Any]:
    return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    getattr(np, name): _fold({"amax": "max", "amin": "min"}.get(name, name))
    for name in ("sum prod max min amax amin any all mean var std argmax argmin count_nonzero "
                 "nansum nanprod nanmax nanmin nanmean nanvar nanstd nanargmax nanargmin ptp"
                 ).split()}
FUNCTIONS |= {
    np.where: where, np.clip: clip, np.transpose: _as_given("transpose"),
    np.swapaxes: _as_given("swapaxes"), np.moveaxis: moveaxis, np.expand_dims: expand_dims,
    np.squeeze: _as_given("squeeze"), np.flip: flip, np.zeros_like: zeros_like,
    np.ones_like: ones_like, np.full_like: full_like, np.round: _round, np.around: _round,
    np.real: lambda x: x.real, np.imag: lambda x: x.imag,
    np.angle: lambda z: apply("angle", z), np.sinc: lambda x: apply("sinc", x),
    np.shape: lambda a: a.shape, np.ndim: lambda a: a.ndim,
    np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
    np.dot: dot, np.inner: inner, np.outer: outer, np.vdot: vdot, np.einsum: einsum,
    np.tensordot: tensordot, np.linalg.norm: _norm, np.isneginf: lambda x: x == -np.inf,
    np.isposinf: lambda x: x == np.inf, np.copy: lambda a: a, np.fliplr: lambda m: flip(m, 1),
    np.flipud: lambda m: flip(m, 0), np.astype: astype,
}


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
    compute.__doc__ = f"`{op.notation.format('x', 'y', 'z')}`, element by element."
    if op.algorithm:
        compute.__doc__ += f"\n\nMethod: {op.algorithm}."
    return compute


def fold_function(name: str) -> Callable[..., Any]:
    """The function `elemc.NAME` of one row of the table of accumulators."""
    fold = _fold(name)
    fold.__name__ = fold.__qualname__ = name
    fold.__doc__ = f"`{name}` over `axis` (default: all axes); see `elemc.accumulate`."
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
        "__getattr__": _attribute, "dot": dot,
    }
    for name, member in members.items():
        setattr(Array, name, member)


_install()
