"""What composite accumulators are written with, when they are expanded."""

from __future__ import annotations

from typing import Any

import numpy as np

from .accumulators_results import EXTREMA
from .array import Array, accumulate, apply
from .graph import ExpandTo, Node, Size, const, make
from .ops import BELOW, PLACE, ROOT, STOP


class Fold:
    """What a composite accumulator is written with: `fold(x, "sum")` keeps the folded axes."""

    def __init__(self, axes: tuple[int, ...], where: Array | None, initial: Node | None,
                 ties: str | None) -> None:
        self.axes, self.where, self.initial, self.ties = axes, where, initial, ties

    def __call__(self, x: Array, name: str, **options: Any) -> Array:
        """`x` folded by accumulator `name`, the folded axes kept with size 1."""
        if self.initial is not None:
            options["initial"] = Array(self.initial)
        if self.ties is not None and name in EXTREMA:
            options["ties"] = self.ties
        return accumulate(name, x, axis=self.axes, keepdims=True, where=self.where, **options)

    def count(self, x: Array) -> Array:
        """How many elements of `x` are folded into each result, an int64 array."""
        if self.where is None:
            total = Array(const(np.int64(1)))
            for axis in self.axes:
                total = total * Array(make(Size, x.node, axis))
            return total
        ones = Array(make(ExpandTo, const(np.int64(1)), x.node))
        return accumulate("sum", ones, axis=self.axes, keepdims=True, where=self.where)

    def place(self, index: Array, missing: Array) -> Array:
        """`index`; the call is an error where it is `missing`."""
        return apply(PLACE, index, missing)

    def constant(self, x: Array) -> Array:
        """`x`, of which gradients know nothing."""
        return apply(STOP, x)

    def below(self, x: Array, top: Array) -> Array:
        """X - top, but 0 where both are the same infinity; gradients take `top` for a constant."""
        return apply(BELOW, x, top)

    def root(self, x: Array) -> Array:
        """The square root, whose gradient at 0 counts as 0."""
        return apply(ROOT, x)

    def masked(self, mask: Array) -> Fold:
        """The same fold over the elements that `mask` selects as well."""
        return Fold(self.axes, mask if self.where is None else self.where & mask, self.initial,
                    self.ties)
