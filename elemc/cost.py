"""About how long values take to compute, in additions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .values import Fold, Literal, Op, Value

DEAR = 4  # additions from which on a value is kept, not computed again
# Elements of rows less than which these go side by side, by their size; if they come from farther
# than the second cache.
ABREAST, FAR_ABREAST = {4: 40, 8: 24}, {4: 26, 8: 20}
# What a fold of a row gains by that, in elements of rows that are turned; and without functions.
GAINED, FAR_GAINED, PLAIN_GAINED = {4: 72, 8: 48}, {4: 48, 8: 26}, 24
JAMMED = 192  # elements of a row from which on no processor runs ahead to the next one
HELD = 1024  # elements of rows, at most, of which the first cache holds this and the next one
FORESEEN = 1024  # bytes of rows side by side, less than which processors foresee the next late
FAR_FORESEEN = 3072  # bytes of longer ones, at most, of which they foresee several at a time late
FEW_STATES = 12288  # bytes of rows, at most, whose states the first cache holds beside them
SLICED = 2048  # bytes of rows, at most, that are not folded slice by slice: these wait for memory
ALONE = 512  # bytes of such a row from which on it does not wait for what the one before has stored
PAGE = 4096  # bytes: rows of whole pages meet in the same places of the first cache
MEETING = 5  # such rows, at most, that it holds beside as many that are written
KEPT_ROWS = 2048  # rows, and elements of these, that wait for folds where operands meet, at most
STREAM = 8192  # bytes of a row from which on it is a stream of memory, of which four may go at once
SEVERAL_STREAMS = 20480  # bytes, if there are two: each restarts at every row
STREAMED = 5  # additions an element of such rows, at most: registers hold no more of four
LIGHT = 3  # additions an element, at most, beside which processors look ahead by themselves
HEAVY = 15  # the cost of an element from which on computing hides the traffic


def cost(values: Iterable[Value]) -> int:
    """About how many additions the operations among `values` are worth."""
    return sum(v.op.cost for v in values if isinstance(v, Op))


def calls(values: Iterable[Value]) -> bool:
    """Whether the math library is called."""
    return any(isinstance(v, Op) and v.op.cost >= HEAVY for v in values)


def is_mask_of(value: Value, there: Callable[[Value], object]) -> bool:
    """Whether a value compares numbers that are `there`.

    It is computed again: its bytes beside these would make vectors short, or none.
    """
    return isinstance(value, Op) and value.dtype == bool and all(
        isinstance(a, Literal) or there(a) for a in value.args)


def jams(row: str, folds: Iterable[Fold]) -> bool:
    """Whether rows that are folded are worth taking two at a time.

    They wait for each state if it is one vector in lanes, as of floats; where columns are folded,
    too, two rows read and write the states of these once.  Extrema alone take an instruction an
    element, and rows overlap by themselves.
    """
    along = [f for f in folds if row in f.over]
    short = all(f.program.state[0].itemsize <= 4 for f in along)
    return len(along) > 1 and (short or any(row in f.axes for f in folds)) and not all(
        f.program.exact for f in along)
