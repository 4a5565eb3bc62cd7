"""Loops that go block by block, for functions of the library that take many elements at once.

What such a function needs, or leaves, lies in an operand or in an array of the block.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .layout import Operand
from .nest import Assign, Element, Let, Loop, Statement, Write
from .values import Load


def is_map(loop: Loop) -> bool:
    """Whether a loop over whole rows, or a block of them, computes each element for itself."""
    return loop.independent and loop.kind in ("serial", "parallel", "lane") and not (
        loop.reverse or loop.ahead) and all(
        isinstance(s, Let) or isinstance(s, Assign) and isinstance(s.target, Element)
        or isinstance(s, Write) and s.mask is None and s.mode == "write" for s in loop.body)


def lies_along(place: Load | Write, axis: str, dtype: np.dtype, operands: Sequence[Operand]
               ) -> bool:
    """Whether what is read, or written, has this dtype, and lies in memory as a block does."""
    of = operands[place.operand]
    return of.dtype == dtype and of.storage == "native" and of.layout.unit and all(
        at.axes.isdisjoint({axis}) or (dim,) == of.layout.perm[-1:] and at.shifted == axis
        for dim, at in enumerate(place.access))


def go_by_blocks(loop: Loop, body: list[Statement], length: str) -> None:
    """Make a loop one over blocks, of this length, of which `body` does one."""
    loop.kind = "parallel strip" if loop.kind == "parallel" else "strip"
    loop.body, loop.length, loop.independent, loop.lined = body, length, False, None


def divided(strip: Loop) -> bool:
    """Whether this is a loop over a row that is divided block by block; see `dividing`."""
    return strip.kind == "strip" and not strip.asks and any(
        isinstance(s, Loop) and s.kind == "quotients" for s in strip.body)
