"""How arrays lie in memory, up to what kernels care about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Layout:
    """The order of an array's dimensions, and which of them are one.

    Attributes
    ----------
    perm : tuple of int
        The dimensions of size other than 1, from the largest stride to the smallest.
    packed : tuple of bool
        For neighbours in `perm`: whether they can be walked as one dimension.
    unit : bool
        Whether the elements along the last of `perm` are adjacent.
    """

    perm: tuple[int, ...]
    packed: tuple[bool, ...]
    unit: bool

    def joins(self, outer: int, inner: int) -> bool:
        """Whether dimensions `outer` and `inner` can be walked as one."""
        pairs = zip(self.perm, self.perm[1:], self.packed, strict=False)
        return any((a, b) == (outer, inner) and packed for a, b, packed in pairs)


def layout_of(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> Layout:
    """The layout of an array of this shape and these strides (in bytes)."""
    dims = [d for d, n in enumerate(shape) if n != 1]
    if 0 in shape:  # nothing is read: any layout will do
        return Layout(tuple(dims), (True,) * (len(dims) - 1), True)
    perm = tuple(sorted(dims, key=lambda d: -abs(strides[d])))
    packed = tuple(strides[a] == strides[b] * shape[b]
                   for a, b in zip(perm, perm[1:], strict=False))
    return Layout(perm, packed, not perm or strides[perm[-1]] == itemsize)


@dataclass(frozen=True)
class Operand:
    """An array argument of a kernel.

    `storage` is "native", "unaligned" or "swapped" (byte order; aligned or not).
    """

    name: str
    role: str  # in | captured | mask | out
    ndim: int
    dtype: np.dtype
    storage: str
    layout: Layout
    shape: tuple[int | None, ...] = ()  # as far as it is known

    def stride(self, dim: int) -> int | None:
        """The distance in bytes between neighbours along `dim`, if it is known."""
        if not self.layout.unit:
            return None
        stride, perm = self.dtype.itemsize, self.layout.perm
        for place in reversed(range(len(perm))):
            length = self.shape[perm[place]] if self.shape else None
            if perm[place] == dim:
                return stride
            if length is None or not place or not self.layout.packed[place - 1]:
                return None
            stride *= length
        return None
