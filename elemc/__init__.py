"""elemc: NumPy-like expressions, fused into one C loop nest.

See the README for a tour, and `elemc.compiler` for the stages of the compiler.
"""

import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from .accumulators import ACCUMULATORS as _ACCUMULATORS
from .accumulators import Accumulator
from .array import Array, accumulate
from .constructors import (
    align,
    arange,
    array,
    astype,
    clip,
    constant,
    cumprod,
    cumsum,
    diagonal,
    expand_dims,
    expand_to,
    flip,
    full_like,
    length,
    logcumsumexp,
    matrix,
    moveaxis,
    ones_like,
    scalar,
    scan,
    squeeze,
    swapaxes,
    tensor3,
    tensor4,
    transpose,
    vector,
    where,
    zeros_like,
)
from .errors import (
    ArgumentError,
    AxisError,
    CacheWarning,
    CompileError,
    DomainError,
    DtypeError,
    ElemcError,
    ExpressionError,
    FallbackWarning,
    ModeError,
    ShapeError,
    TraceError,
    UnsupportedError,
)
from .evaluate import at_once as _at_once
from .evaluate import dot, einsum, inner, matmul, outer, tensordot, vdot
from .function import Function, function
from .ops import OPS as _OPS
from .ops_table import ALIASES as _ALIASES
from .protocol import divmod
from .protocol import fold_function as _fold_function
from .protocol import public as _public
from .tracing import compile
from .user import scalar_op

if _TYPE_CHECKING:
    from .custom import check_vjp, custom_vjp
    from .grads import grad, jvp, stop_gradient, value_and_grad, vjp
    from .settings import (
        get_num_threads,
        get_recycling,
        set_num_threads,
        set_recycling,
        show_config,
    )

__version__ = "0.1.0"

__all__ = [
    "Accumulator", "ArgumentError", "Array", "AxisError", "CacheWarning", "CompileError",
    "DomainError", "DtypeError", "ElemcError", "ExpressionError", "FallbackWarning", "Function",
    "ModeError", "ShapeError", "TraceError", "UnsupportedError", "accumulate", "align", "arange",
    "array", "astype", "check_vjp", "clip", "compile", "constant", "cumprod", "cumsum",
    "custom_vjp", "diagonal", "divmod", "dot", "einsum", "expand_dims", "expand_to", "flip",
    "full_like", "function", "get_num_threads", "get_recycling", "grad", "inner", "jvp", "length",
    "logcumsumexp", "matmul", "matrix", "moveaxis", "ones_like", "outer", "scalar", "scalar_op",
    "scan", "set_num_threads", "set_recycling", "show_config", "squeeze", "stop_gradient",
    "swapaxes", "tensor3", "tensor4", "tensordot", "transpose", "value_and_grad", "vdot", "vector",
    "vjp", "where", "zeros_like",
]

# one function per row of the tables: elemc.exp, elemc.erf, elemc.sum, elemc.logsumexp, ...
__all__ += [*dict.fromkeys(n for n in (*_OPS, *_ACCUMULATORS, *_ALIASES) if n not in __all__)]
accumulate, scan = _at_once(accumulate, slice(1, 2)), _at_once(scan, slice(1, 2))
cumsum, cumprod, logcumsumexp = (_at_once(_fn, slice(1)) for _fn in (cumsum, cumprod, logcumsumexp))
diagonal, expand_to = _at_once(diagonal, slice(1)), _at_once(expand_to, slice(2))

# what differentiates, and what looks at compiler and cache, is imported when it is first used
_LATER = {**dict.fromkeys(("check_vjp", "custom_vjp"), ".custom"),
          **dict.fromkeys(("grad", "jvp", "stop_gradient", "value_and_grad", "vjp"), ".grads"),
          **dict.fromkeys(("get_num_threads", "get_recycling", "set_num_threads", "set_recycling",
                           "show_config"), ".settings")}


def __getattr__(name: str) -> _Any:
    """A name of `_LATER` or the tables, imported or made at its first use (PEP 562)."""
    if name in _LATER:
        found = getattr(_import_module(_LATER[name], __name__), name)
    elif name in _ALIASES:
        found = getattr(_sys.modules[__name__], _ALIASES[name])
    elif name in _OPS:
        found = _public(name)
    elif name in _ACCUMULATORS:
        found = _at_once(_fold_function(name), slice(1))
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, found)


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
