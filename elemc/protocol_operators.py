"""Operators that NumPy arrays have in place; symbolic ones are never changed."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .array import Array
from .errors import DtypeError, ShapeError


def in_place(name: str) -> Callable[..., Any]:
    """`a += b`: a new array, of the dtype and rank that `a` would have kept."""
    operation = getattr(operator, name)

    def update(self: Array, other: Any) -> Any:
        result = operation(self, other)
        if result.ndim > self.ndim:
            raise ShapeError(f"in-place {name}: an operand of rank {result.ndim} does not fit one "
                             f"of rank {self.ndim}")
        if self.dtype in (None, result.dtype) or result.dtype is None:
            return result
        if not np.can_cast(result.dtype, self.dtype, "same_kind"):
            raise DtypeError(f"in-place {name}: the result is {result.dtype}, which does not "
                             f"become {self.dtype}")
        return result.astype(self.dtype)

    return update
