"""How arrays lie in memory, up to what kernels care about."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .records import dataclass

STEP = 4  # elements between neighbours that compilers load and rearrange; as in callable.c
INTERLEAVED = (2, 3, 4, 8)  # lengths of rows that they read as columns
STEPS = (-3, -1, 0, 1, 2, 3, 4, 8, 16)  # those of which gcc makes vectors, and so is told


@dataclass(frozen=True)
class Layout:
    """The order of an array's dimensions, and which of them are one.

    Attributes
    ----------
    perm : tuple of int
        The dimensions along which elements differ, from the largest stride to the smallest: not
        those of size 1 and of stride 0.
    packed : tuple of bool
        For neighbours in `perm`: whether they can be walked as one dimension.
    step : int
        How many elements lie between neighbours along the last of `perm`, if it is at most `STEP`
        and so worth knowing, with its sign; else 0.
    """

    perm: tuple[int, ...]
    packed: tuple[bool, ...]
    step: int

    @property
    def unit(self) -> bool:
        """Whether the elements along the last of `perm` are adjacent."""
        return self.step == 1

    def joins(self, outer: int, inner: int) -> bool:
        """Whether dimensions `outer` and `inner` can be walked as one."""
        pairs = zip(self.perm, self.perm[1:], self.packed, strict=False)
        return any((a, b) == (outer, inner) and packed for a, b, packed in pairs)


def layout_of(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> Layout:
    """The layout of an array of this shape and these strides (in bytes)."""
    dims = [d for d, n in enumerate(shape) if n != 1]
    if 0 in shape:  # nothing is read: any layout will do
        return Layout(tuple(dims), (True,) * (len(dims) - 1), 1)
    perm = tuple(sorted((d for d in dims if strides[d]), key=lambda d: -abs(strides[d])))
    packed = tuple(strides[a] == strides[b] * shape[b]
                   for a, b in zip(perm, perm[1:], strict=False))
    step, rest = divmod(strides[perm[-1]], itemsize) if perm else (1, 0)
    return Layout(perm, packed, step if abs(step) <= STEP and not rest else 0)


@dataclass(frozen=True)
class Operand:
    """An array argument of a kernel.

    `storage` is "native", "unaligned" or "swapped" (byte order; aligned or not).  `extents` are
    those of its dimensions, and `shape` how long they are in all calls of the kernel; a mask, whose
    dimensions are all walked, has neither.
    """

    name: str
    role: str  # in | captured | mask | out
    ndim: int
    dtype: np.dtype
    storage: str
    layout: Layout
    extents: tuple[int, ...] = ()
    shape: tuple[int | None, ...] = ()  # as far as it is known

    @property
    def squares(self) -> bool:
        """Whether vectors turn squares of its lines: of up to 8 bytes that mean what they are."""
        plain = self.storage == "native" and self.dtype not in (np.float16, np.bool_)
        return plain and self.dtype.itemsize <= 8

    def stride(self, dim: int) -> int | None:
        """The distance in bytes between neighbours along `dim`, if it is known."""
        if not self.layout.step:
            return None
        stride, perm = self.dtype.itemsize * self.layout.step, self.layout.perm
        for place in reversed(range(len(perm))):
            length = self.shape[perm[place]] if self.shape else None
            if perm[place] == dim:
                return stride
            if length is None or not place or not self.layout.packed[place - 1]:
                return None
            stride *= length
        return None
