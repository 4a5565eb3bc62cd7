"""Loops that go block by block, for functions of the library that take many elements at once.

What such a function needs, or leaves, lies in an operand or in an array of the block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .layout import Operand
from .nest import Assign, Element, Let, Loop, Named, Statement, Write
from .values import Load

# Whether this machine divides sooner than it multiplies and corrects; see constants.py.
QUICK = Named(frozenset(), np.dtype(bool), "DIVIDES")


def maps(body: list[Statement]) -> Iterator[tuple[list[Statement], Loop]]:
    """Loops that compute each element for itself, and where they stand.

    They go over whole rows, or over blocks that go through stages; other strips are too long.
    """
    yield from ((body, s) for s in [*body] if isinstance(s, Loop) and _is_map(s))
    for item in [*body]:
        if isinstance(item, Loop) and item.kind != "parts" and (
                not item.kind.endswith("strip") or item.length == "STAGE"):
            yield from maps(item.body)


def _is_map(loop: Loop) -> bool:
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


def go_by_blocks(loop: Loop, where: list[Statement], block: list[Statement], length: str) -> None:
    """Put what does one block in place of a loop over it, or of the body of one over all of them.

    These are of this length then; blocks of a "lane" loop are those of the strip around.
    """
    if loop.kind == "lane":
        at = where.index(loop)
        where[at:at + 1] = block
    else:
        loop.kind = "parallel strip" if loop.kind == "parallel" else "strip"
        loop.body, loop.length, loop.independent, loop.lined = block, length, False, None


def divided(strip: Loop) -> bool:
    """Whether this is a loop over a row that is divided block by block; see `dividing`."""
    return strip.kind == "strip" and not strip.asks and any(
        isinstance(s, Loop) and s.kind == "quotients" for s in strip.body)
