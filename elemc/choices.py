"""Choices made for whole rows: what only one side needs is done only where that side is taken.

Vectors choose by computing both sides.  But where the condition is one for a whole row, and a side
needs a scan, in which every element waits for the one before, the loops of either side stand apart
under an `if` (loop unswitching).  So do those of choices by an index, as stacks are, where nothing
is folded: each side may read arrays of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from .quotients import operation
from .roots import FAILS, HOLDS, Root, folds_below, in_strips, read_apart
from .values import (
    LINED,
    SELECT,
    Fold,
    Load,
    Op,
    Place,
    Scan,
    Specialized,
    Store,
    Value,
    is_fold,
    over_new,
    walk,
)

FEW = 8  # sides, of which vectors along the index choose, as fast as each is written by itself
MOST = 64  # sides of choices by an index, which the compiler takes its time for


def part_sides(found: Sequence[Root], spec: Specialized) -> list[Root]:
    """Roots in which stores are parted by what they choose, and folds wait for their only side."""
    numbers: dict[Value, int] = {}  # of conditions
    made: dict[str, dict[Value, Value]] = {}
    result: list[Root] = []
    plain = all(isinstance(r.of, Store) for r in found)
    for root in found:
        condition = _condition(root)
        if condition is None:
            result += _by_index(root, spec, numbers) if plain else [root]
            continue
        number = numbers.setdefault(condition, len(numbers))
        for side in (f"{HOLDS}{number}", f"{FAILS}{number}"):
            store = _taken(root, condition, side, made.setdefault(side, {}))
            result.append(_waiting(store, condition, side))
    deciding = set(walk(numbers))
    placed = {f for r in found if isinstance(r.of, Place) for f in (r.of, r.of.top)}
    for k, root in reversed([*enumerate(result)] if numbers else []):  # users are done before
        users = [r for r in result if root.of in r.needs]
        if users and root.of not in deciding and root.of not in placed:
            result[k] = _with_users(root, users)
    return sorted(result, key=lambda r: r.given is not None)


def _with_users(root: Root, users: Sequence[Root]) -> Root:
    """A fold that waits as those do that need it, if all of them are on one side of a choice."""
    given, side = users[0].given, users[0].side
    if given is None or side is None or any(r.side != side for r in users):
        return root
    place = _place(root, given)
    elsewhere = frozenset[str]().union(*(r.apart.get(root.fold, ()) for r in users))
    if place is None or not elsewhere.isdisjoint(root.order[:place]):
        return root
    return _waiting(root, given, side)


def _condition(root: Root) -> Value | None:
    """The condition, the same for a whole row, on which it depends what scans a store needs."""
    if not isinstance(root.of, Store) or _may_fail(root.of):
        return None
    return next((v.args[0] for v in walk([root.of.value], is_fold) if _parts(root, v, Scan)), None)


def _parts(root: Root, value: Value, kind: type[Value]) -> bool:
    """Whether a value chooses, for whole rows, between sides that need different ones of a kind."""
    if not isinstance(value, Op) or value.op is not SELECT or _place(root, value.args[0]) is None:
        return False
    one, other = ({v for v in walk([side]) if isinstance(v, kind)} for side in value.args[1:])
    return one != other


def _may_fail(store: Store) -> bool:
    """Whether operations are checked, whose faults are to be found on either side of a choice."""
    return any(isinstance(v, Op) and v.op.fault(tuple(a.dtype for a in v.operands))
               for v in walk([store.value]))


def _by_index(root: Root, spec: Specialized, numbers: dict[Value, int]) -> list[Root]:
    """A store in parts, one for each side of the choices that it makes by the index of a row.

    If a row is of many elements that are chosen so, of what is one for a row, each side goes along
    its own column.
    """
    assert isinstance(root.of, Store)
    if _may_fail(root.of):
        return [root]
    *around, last = root.order or ("",)
    turned = replace(root, order=(*around[:-1], last, *around[-1:]))
    along = any(last in v.axes for v in walk(root.inputs()) if isinstance(v, Load))
    if around and not along and spec.between(last)[0] > FEW and _index(turned, spec):
        root = turned
    parts: list[tuple[Root, tuple[Value, ...]]] = [(root, ())]
    done: list[tuple[Root, tuple[Value, ...]]] = []
    while parts:
        part, given = parts.pop()
        condition = _index(part, spec)
        if condition is None:
            done.append((part, given))
            continue
        fails = operation("logical_not", condition.dtype, condition)
        for side, holds in ((FAILS, fails), (HOLDS, condition)):
            parts.append((_taken(part, condition, side, {}), (*given, holds)))
        if len(parts) + len(done) > MOST:
            return [root]
    if len(done) == 1:
        return [root]
    found = []
    for part, given in done:
        every = reduce(lambda a, b: operation("logical_and", a.dtype, a, b), given)
        found.append(_waiting(part, every, f"{HOLDS}{numbers.setdefault(every, len(numbers))}"))
    return found


def _index(root: Root, spec: Specialized) -> Value | None:
    """A condition on the index of long rows whose sides read different arrays; the outermost."""
    store = root.of
    assert isinstance(store, Store)
    if not root.order or spec.between(root.order[-1])[0] < LINED:
        return None
    return next((v.args[0] for v in reversed(walk([store.value])) if _parts(root, v, Load)
                 and not any(isinstance(a, Load) for a in walk([v.args[0]]))), None)


def _place(root: Root, condition: Value) -> int | None:
    """How many loops a root enters before a condition is known; None if it cannot wait for that."""
    last = max((k for k, a in enumerate(root.order, 1) if a in condition.axes), default=0)
    plain = not in_strips(root.order) and condition.axes.issubset(root.order)
    rows = last < len(root.order) and root.over.isdisjoint(root.order[:last])
    return last if plain and rows else None


def _taken(root: Root, condition: Value, side: str, new: dict[Value, Value]) -> Root:
    """A store of what one side of the choice gives; `new` has what was made for that side."""
    store = root.of
    assert isinstance(store, Store)
    for value in walk([store.value], lambda v: isinstance(v, Fold) or v in new):
        if isinstance(value, Op) and value.op is SELECT and value.operands[0] is condition:
            new[value] = new[value.operands[1 if side.startswith(HOLDS) else 2]]
        elif value not in new:
            same = isinstance(value, Fold) or all(new[a] is a for a in value.args)
            new[value] = value if same else over_new(value, new)
    return replace(root, of=replace(store, value=new[store.value]))


def _waiting(root: Root, condition: Value, side: str) -> Root:
    """A root that enters a side of a choice as soon as the condition is known."""
    place = _place(root, condition)
    assert place is not None
    order = (*root.order[:place], side, *root.order[place:])
    root = replace(root, order=order, given=condition)
    return replace(root, needs=folds_below(root.args), apart=read_apart(root.args))
