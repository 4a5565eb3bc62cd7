"""Loops that go block by block, for functions of the library that take many elements at once.

What such a function needs, or leaves, lies in an operand or in an array of the block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from .layout import Operand
from .mathlib import ARGUMENTS
from .nest import Assign, Let, Loop, Statement, Write, statements
from .nest_leaves import Element, Named
from .ops_base import ScalarOp
from .values import Load, Op, Value

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


def maps_of_parts(body: Sequence[Statement]) -> Iterator[tuple[Loop, Loop]]:
    """Such loops over a part of a strip, and the loop over parts in which each stands."""
    for item in statements(body):
        if isinstance(item, Loop) and item.kind == "parts":
            yield from ((item, s) for s in [*item.body] if isinstance(s, Loop) and _is_map(s))


def _is_map(loop: Loop) -> bool:
    return loop.independent and loop.kind in ("plain", "lane") and not (
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


def by_blocks(loop: Loop, block: list[Statement], length: str) -> list[Statement]:
    """What stands in place of a loop: what does one block, in a loop over blocks of this length.

    Blocks of a "lane" loop are those of the strip around.
    """
    if loop.kind == "lane":
        return block
    return [replace(loop, kind="strip", body=block, length=length, independent=False, lined=None)]


def divided(strip: Loop) -> bool:
    """Whether this is a loop over a row that goes by blocks for functions; see `calling`."""
    return strip.kind == "strip" and not strip.asks and any(
        isinstance(s, Loop) and s.kind == "called" for s in strip.body)


def of_many(value: Value) -> str:
    """The math library's function that computes this for many arguments at a time, if any."""
    if not isinstance(value, Op) or len(value.args) != 1 or value.dtype.char not in "fd":
        return ""
    return _each(value.op, value.args[0].dtype, value.dtype)


@cache
def _each(op: ScalarOp, of: np.dtype, dtype: np.dtype) -> str:
    code = op.code((of,), dtype)
    names = (f"{name}_each" for name in code.externs if code.text == f"{name}({{0}})")
    return next((n for n in names if n in ARGUMENTS), "")
