"""What the accumulators of the table accept and give: keywords, and the dtype of the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .accumulators import ACCUMULATORS, Accumulator, Composite
from .dtypes import accumulation_dtype
from .errors import ArgumentError, UnsupportedError

EXTREMA = ("max", "min", "fmax", "fmin")
TIES = ("split", "all", "first")  # who gets the cotangent of an extremum: see gradient_folds
DtypeRule = Callable[[np.dtype], np.dtype]


def _same(dtype: np.dtype) -> np.dtype:
    return dtype


def _count(_: np.dtype) -> np.dtype:
    return np.dtype(np.int64)


def _inexact(dtype: np.dtype) -> np.dtype:
    return dtype if dtype.kind in "fc" else np.dtype(np.float64)


def _real(dtype: np.dtype) -> np.dtype:
    return np.zeros(0, _inexact(dtype)).real.dtype


RESULTS: dict[str, DtypeRule] = dict.fromkeys(
    "argmin argmax nanargmin nanargmax count_nonzero".split(), _count)
RESULTS |= dict.fromkeys("ptp nanmin nanmax".split(), _same)
RESULTS |= dict.fromkeys("nansum nanprod".split(), accumulation_dtype)
RESULTS |= dict.fromkeys("mean nanmean logsumexp".split(), _inexact)
RESULTS |= dict.fromkeys("var std nanvar nanstd norm norm1 norm2 norminf".split(), _real)


def result_dtype(acc: Accumulator | Composite, dtype: np.dtype,
                 given: np.dtype | None = None) -> np.dtype | None:
    """The dtype of `acc` over values of `dtype`; None for accumulators that must be traced.

    Parameters
    ----------
    acc : Accumulator or Composite
    dtype : dtype
        Of the values.
    given : dtype, optional
        The keyword `dtype=`.
    """
    if isinstance(acc, Accumulator) and acc.reduce is not None:
        return given or acc.value_dtype(dtype)
    rule = RESULTS.get(acc.name) if ACCUMULATORS.get(acc.name) is acc else None
    if rule is None or given is None:
        return rule and rule(dtype)
    return given if rule in (_inexact, accumulation_dtype) else rule(given)


def check_options(acc: Accumulator | Composite, options: Mapping[str, Any]) -> None:
    """Raise the error of a keyword that `acc` has not, or of a `ties=` that does not exist."""
    if "out" in options:
        raise UnsupportedError(f"{acc.name} of a symbolic array has no out=: pass it to the "
                               "compiled function")
    known = acc.options if isinstance(acc, Composite) else ("dtype",)
    if acc.name in (*EXTREMA, "nanmax", "nanmin", "ptp", "norm", "norminf"):
        known = (*known, "ties")
    unknown = [name for name in options if name not in known]
    if unknown:
        raise ArgumentError(f"{acc.name} has no option {', '.join(unknown)}; it has "
                            f"{', '.join(known) or 'none'}")
    for name in ("ddof", "ord"):
        if not isinstance(options.get(name, 0), (int, float, np.integer, np.floating)):
            raise ArgumentError(f"{acc.name}: {name}= is a number, not "
                                f"{type(options[name]).__name__} (an argument of a compiled "
                                f"function: compile with static={name!r})")
    ties = options.get("ties", "split")
    if ties not in TIES:
        raise ArgumentError(f"{acc.name}: unknown ties={ties!r}; it is 'split', 'all' or 'first'")
