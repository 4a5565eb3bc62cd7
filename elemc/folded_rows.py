"""How rows that are folded are taken: by ones or several, asked for, in lanes of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from .accesses import operands_meet
from .cost import ALONE, FAR_FORESEEN, FEW_STATES, FORESEEN, HEAVY, STREAM, cost
from .layout import STEP
from .nest import (
    LANE_BYTES,
    LANES,
    ROWS,
    RUN,
    Assign,
    Blocks,
    Kernel,
    LaneLoop,
    Let,
    Write,
    statements,
    values_of,
)
from .nest_leaves import Element
from .roots import Root, is_side, remaining
from .sharing import rows_of
from .values import (
    BLOCK,
    CHUNKED,
    NARROW,
    VECTOR,
    Convert,
    Fold,
    Load,
    Place,
    Specialized,
    is_fold,
    walk,
)

SHARED = 16  # rows of extrema whose lanes are merged once, at least: few are left to all threads
WIDE = 4  # times as wide are strips of lines from afar: as they go on they are foreseen
EVEN = 4, 5, 6, 3, 7  # rows at once that may leave none; registers hold best what fours share
FAR_RUN = 2 * RUN  # rows that come from memory, and are long, of which as many go at once


def rows_at_once(folded: Sequence[Root], axis: str, strip: str | None, spec: Specialized,
                 whole: bool) -> tuple[int, int]:
    """How many rows are added to a strip of states before these go to memory.

    The second cache sends few lines at a time, so rows of several operands go by twos.  What is
    farther sends less, so they go one by one, unless they are long; but short ones would wait for
    the states that the one before has stored.  Of one operand, so do those that come from memory
    and are neither asked for nor foreseen.  Where sums ask for nothing, for one stream is foreseen,
    so do all whose states stay in the first cache, and longer ones of several operands by fours.
    Where operands meet, few rows of known number, if they are the `whole` axis, go all at once,
    others by as many as divide it.
    """
    low, high = spec.between(strip) if strip else (0, 0)
    values = walk((v for r in folded for v in r.inputs()), is_fold)
    loads = [v for v in values if isinstance(v, Load) and v.axes.issuperset((axis, strip))]
    size, several = min((v.dtype.itemsize for v in loads), default=0), len(loads) > 1
    least, most = (ALONE, NARROW * size) if several else (FORESEEN, FAR_FORESEEN)
    late = (spec.far or several and spec.third) and len(folded) == 1
    if late and least <= low * size and high * size <= most:
        return 1, 1
    run = RUN // 2 if several else FAR_RUN if spec.far and low > NARROW else RUN
    few, many = spec.between(axis)
    if whole and 0 < few == many <= ROWS and all(operands_meet(r.fold) for r in folded):
        twos = any(r.fold.program.exact for r in folded)  # extrema, of which two go in one step
        even = [n for n in EVEN if many % n == 0 and not (twos and n % 2)]
        run = many if many <= max(EVEN) else even[0] if even else run
        return run, run
    again = any(strip in v.axes and axis not in v.axes for v in values)  # for every row
    if not (spec.far and late and least <= low * size):
        return run, run
    return run, 1 if high * size <= (STREAM if again else FEW_STATES) else max(run, RUN)


def times_as_wide(item: Blocks, kernel: Kernel) -> int:
    """How many times as wide as others strips are: lines from afar are read slowly at first.

    From the third cache a single stream is foreseen soon, and of several folds that compute the
    first cache has to hold the states.
    """
    inside = [*statements(item.body)]
    values = walk(v for s in inside for v in values_of(s))
    streams = sum(isinstance(v, Load) for v in values) + sum(isinstance(s, Write) for s in inside)
    comes = kernel.far or kernel.third and streams > 1
    return WIDE if comes and (len(item.folds) == 1 or cost(values) < HEAVY) else 1


def chunk_of(axis: str, folded: Sequence[Root], last: bool, soon: bool, spec: Specialized) -> str:
    """The chunks in which an axis is folded: it, if each of its few turns is one.

    They are rows, if the axis is the `last`, and shorter where they may decide what others are.
    """
    exact = all(r.fold.program.exact for r in folded)
    inner = [remaining(r, (axis,)) for r in folded]
    few = spec.between(axis)[1] < CHUNKED[False] and all(
        row and row[0] in r.over for r, row in zip(folded, inner, strict=True))
    shared = few and exact and all(
        len(row) == 1 and spec.between(row[0])[1] <= BLOCK
        and spec.between(row[0])[0] >= least_shared(r.fold.program.state)
        for r, row in zip(folded, inner, strict=True))
    unit = ((1 if not exact else 4 if soon else 16) * BLOCK) if last else SHARED if shared else ROWS
    return axis if few and not last and not shared else f"{axis}:{unit}"


def foreseen_late(folded: Sequence[Root], axis: str, strip: str | None, spec: Specialized) -> bool:
    """Whether rows that follow each other come from memory, and are shorter than foreseen."""
    if not spec.far or strip is None:
        return False
    loads = [(v, spec.operands[v.operand]) for v in walk(
        (v for r in folded for v in r.inputs()), is_fold)
        if isinstance(v, Load) and axis in v.axes]
    return all(rows_of(v.access, of.layout) == (axis, True)
               and spec.between(strip)[1] * of.dtype.itemsize < FORESEEN
               for v, of in loads)


def singly(roots: Sequence[Root], bound: Sequence[str], spec: Specialized) -> bool:
    """Whether gcc computes what is folded along a short row, the last that is bound, one by one.

    It does not if a long loop goes around, of which each turn folds one row alone: it makes vectors
    along that axis, but multiplies no more than it keeps.  Nor of rows that fill one vector, if
    they are all that is folded there; of those few elements apart, nobody does better.
    """
    *_, around, axis = ("", *(b for b in bound if not is_side(b) and ":" not in b))
    folds = [r for r in roots if axis in r.over]
    fills = spec.between(axis)[0] == VECTOR
    apart = any(1 < spec.operands[v.operand].layout.step <= STEP for r in folds
                for v in walk(r.inputs()) if isinstance(v, Load) and axis in v.axes)
    if not around or around.endswith("/") or fills and apart:
        return False
    product = folds[0].fold.program.name == "prod" and around in folds[0].over
    return product or spec.between(around)[1] < LANES or len(folds) > 1 and not fills


def lane_count(root: Root, axis: str) -> int:
    """As many lanes as a vector has elements of what is narrow beside the states; else 0.

    gcc makes no shorter vectors of masks, and branches of what they choose.
    """
    sizes = [v.dtype.itemsize for v in walk(root.inputs(), is_fold)
             if isinstance(v, Load) and axis in v.axes]
    narrow = min(sizes, default=LANE_BYTES)
    wide = max(d.itemsize for d in root.fold.program.state)
    return LANE_BYTES // narrow if 4 * narrow <= wide else 0


def narrow_lanes(fold: Fold, lanes: int) -> np.dtype | None:
    """The dtype of lanes that hold sums of bytes along a block, of which each adds a part."""
    arg, fits = fold.arg, lanes > 0 and BLOCK // lanes * 255 < 1 << 15
    byte = isinstance(arg, Convert) and arg.arg.dtype.kind in "biu" and arg.arg.dtype.itemsize == 1
    plain = fold.program.name == "sum" and fold.program.state[0].char in "lqLQ"
    return np.dtype(np.int16) if byte and plain and fits else None


def least_shared(states: Iterable[np.dtype]) -> int:
    """Elements of rows that share lanes, at least; gcc keeps no shorter ones in registers."""
    return VECTOR if min(dtype.itemsize for dtype in states) >= 4 else LANES


def share_lanes(rows: Blocks, folded: Sequence[Root]) -> LaneLoop | None:
    """A loop over rows, each of which is folded in lanes, as one whose rows share them.

    So lanes are merged once.  What rounds minds in which order, and so do what does not go on in
    lanes, and places, of which a lane keeps the first; and rows have to fill the lanes, of which
    there are less for short rows.
    """
    match rows:
        case Blocks(strip=None, body=[LaneLoop() as row]) if (
                all(_in_order(r) for r in folded if isinstance(r.of, Place))
                and [f.part for f in rows.folds] == [f.name for f in row.folds]
                and all(f.exact and f.end_in_lanes and not f.lane for f in row.folds)
                and all(isinstance(s, Let) or isinstance(s, Assign)
                        and isinstance(s.target, Element) and s.target.at == "lane"
                        for s in row.body)
                and row.least >= least_shared(f.dtype for f in row.folds)):
            lanes = min(_most_lanes(row), _power_of_two(row.least))
            return replace(row, around=(rows.axis, *row.around), lanes=lanes)
    return None


def _in_order(root: Root) -> bool:
    """Whether loops go on as the elements that are folded are counted."""
    return tuple(a for a in root.loops if a in root.over) == root.fold.over


def _most_lanes(row: LaneLoop) -> int:
    """As many lanes as a vector has elements; where places wait for extrema, in eight vectors."""
    sizes = [f.dtype.itemsize for f in row.folds]
    if any(f.top for f in row.folds):
        return max(LANES, min(4 * LANES, _power_of_two(8 * LANE_BYTES // sum(sizes))))
    return max(LANES, row.lanes, LANE_BYTES // min(sizes))


def _power_of_two(n: int) -> int:
    """The largest one that is not larger."""
    return 1 << n.bit_length() - 1
