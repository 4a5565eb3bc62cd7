"""How what is read and written lies in memory along the axes of its loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .cost import (
    ABREAST,
    FAR_ABREAST,
    FAR_GAINED,
    GAINED,
    PAGE,
    PLAIN_GAINED,
    SLICED,
    calls,
)
from .layout import Operand
from .nest import LANES
from .values import LINED, ZERO, Access, Fold, Load, Specialized, Store, is_fold, roots_of, walk

MANY_ROWS = 32  # at least, for which what they share is repeated: copies take time


def order_in_memory(loads: Iterable[Load], spec: Specialized) -> list[str]:
    """The axes of `loads`, from the largest stride to the smallest; the first ones decide."""
    found: dict[str, None] = {}
    for load in loads:
        found.update(dict.fromkeys(memory_order(load, spec)))
    return list(found)


def memory_order(of: Load | Store, spec: Specialized) -> tuple[str, ...]:
    """The axes of what is read or written, from the largest stride to the smallest."""
    operand = spec.operands[of.operand]
    dims = [*operand.layout.perm, *(d for d in range(operand.ndim) if d not in operand.layout.perm)]
    found: dict[str, None] = {}
    for dim in dims:
        found.update(dict.fromkeys(axis for axis, _ in of.access[dim].terms))
    return tuple(found)


def line_of(of: Load | Store, spec: Specialized) -> tuple[str, ...]:
    """The axis along which lines of memory are read or written; none of what has no axes."""
    return memory_order(of, spec)[-1:]


def records(spec: Specialized, order: Sequence[str]) -> list[tuple[Load, tuple[str, ...]]]:
    """What stores in this order read in records across their lines, and the axes of a record.

    These are what its lines lie along, and what is between them and the axis of the stores' lines.
    """
    *outer, row = order or [""]
    found = []
    for load in walk(roots_of(spec.stores)):
        if isinstance(load, Load):
            memory = memory_order(load, spec)  # guards have more axes
            record = memory[memory.index(row) + 1:] if row in memory else ()
            if record and {*record} <= {*outer}:
                found.append((load, record))
    return found


def most_abreast(row: str, spec: Specialized) -> int:
    """Less than how many elements rows have that are folded side by side.

    Each of these is turned for that, as are those that are stored.
    """
    values = walk(roots_of(spec.stores))
    size = max((4, *(v.dtype.itemsize for v in values if v.axes and v.dtype.kind in "fc")))
    places = {(v.operand, v.access) for v in values if isinstance(v, Load)} | {
        (s.operand, s.access) for s in spec.stores}
    axes = [{a for at in access for a in at.axes} for _, access in places]
    turned = max(1, sum(row in some and len(some) > 1 for some in axes))
    folds = [v for v in values if isinstance(v, Fold) and v.merges and row in v.over]
    far = spec.far or spec.third
    most, gained = (FAR_ABREAST, FAR_GAINED) if far else (ABREAST, GAINED)
    if not calls(walk(a for v in folds for a in v.args)):
        return min(most[4] if size <= 4 else LANES, PLAIN_GAINED * len(folds) // turned)
    return min(most.get(size, LANES), gained.get(size, LANES) * len(folds) // turned)


def runs_along(access: Access, perm: Sequence[int], axis: str) -> bool:
    """Whether indices along `axis` alone are places along lines of memory."""
    last = access[perm[-1]] if perm else ZERO
    return last.terms == ((axis, 1),) and last.divisor == 1 and (
        sum(axis in at.axes for at in access) == 1)


def may_turn(load: Load, axis: str, least: int, spec: Specialized) -> bool:
    """Whether vectors turn squares of what is read in lines along an axis, of so many at least."""
    operand = spec.operands[load.operand]
    return (operand.squares and operand.layout.unit and not load.guard
            and runs_along(load.access, operand.layout.perm, axis)
            and spec.between(axis)[1] >= least)


def most_sliced(loads: Iterable[Load]) -> int:
    """How many elements rows of slices have at most that are folded by rows."""
    return SLICED // min((v.dtype.itemsize for v in loads), default=1)


def meets(row: str, operand: Operand, spec: Specialized) -> bool:
    """Whether rows are whole pages, as long as they are in all calls."""
    low, high = spec.between(row)
    return low == high and high * operand.dtype.itemsize % PAGE == 0


def most_repeated(operands: Sequence[Operand]) -> int:
    """How many elements a row has at most that wastes much of its vectors."""
    return min(LINED, LINED * 4 // min(o.dtype.itemsize for o in operands)) - 1


def follows(operand: Operand, access: Access, rows: str, row: str) -> bool:
    """Whether each row of an operand lies behind the one before."""
    outer, inner = ([d for d, at in enumerate(access) if axis in at.axes] for axis in (rows, row))
    return (len(outer) == len(inner) == 1 and access[outer[0]].shifted == rows
            and access[inner[0]].axis == row and operand.layout.joins(*outer, *inner))


def may_repeat(order: Sequence[str], places: Iterable[Load | Store], least: int, spec: Specialized
               ) -> bool:
    """Whether `least` short rows lie one behind the other, wherever each has its own."""
    if len(order) < 2 or spec.between(order[-2])[0] < least:
        return False
    return spec.between(order[-1])[1] <= most_repeated(spec.operands) and all(
        follows(spec.operands[v.operand], v.access, *order[-2:]) for v in places)


def read_again(loads: Iterable[Load], axis: str, operands: Sequence[Operand]) -> list[Load]:
    """The lines along `axis` that every turn of the loop around reads anew, if they are several."""
    along = [v for v in loads if axis in v.axes]
    again = [v for v in along if any(len(v.axes) < len(w.axes) for w in along)
             and (layout := operands[v.operand].layout).step > 0
             and runs_along(v.access, layout.perm, axis)]
    return again if len(again) > 1 else []


def operands_meet(fold: Fold) -> bool:
    """Whether operands meet in a fold: none of what it reads, or other folds give, has all axes."""
    loads = [v.axes for v in walk(fold.args, is_fold) if isinstance(v, (Load, Fold))]
    return fold.merges and bool(loads) and not any(
        axes.issuperset(fold.axes.union(fold.over)) for axes in loads)
