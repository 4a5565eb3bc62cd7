"""Loops whose elements wait for one function after another, cut where they wait.

A processor runs ahead of what it waits for, but not further than some hundred instructions: about
one turn of a loop in which an `exp` takes the result of a `log`.  Cut in two loops over a strip,
the turns of each are independent, and their functions overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .blocks import of_many
from .cost import DEAR, HEAVY
from .values import Op, Value, walk

LONG = 5  # additions in a row that have a stage of their own, before functions or after them,
CROWDED = 40  # in loops that compute so many in all


def stages(wanted: Sequence[Value], known: Callable[[Value], bool], apart: bool
           ) -> list[list[Value]]:
    """What each loop but the last computes for later ones; empty if none waits for a function.

    Functions that are called for blocks, `apart` from the loop, cut it anyway, and do not count.

    A heavy operation's stage is the number of them on the longest way to it.  In crowded loops,
    where a processor sees few turns at once, functions do not share theirs with what is long.
    """
    order = walk(wanted, known)
    stage: dict[Value, int] = {}
    price: dict[Value, int] = {}  # of computing it again
    way: dict[Value, int] = {}  # to it from a function or a load, one addition after the other
    own = {v: v.op.cost if isinstance(v, Op) and not known(v) and not (
        apart and of_many(v)) else 0 for v in order}
    crowded = sum(own.values()) >= CROWDED
    for value in order:
        args = () if known(value) else value.args
        before, heavy = max((way[a] for a in args), default=0), own[value] >= HEAVY
        stage[value] = max((stage[a] for a in args), default=0) + heavy
        if heavy and crowded and before >= LONG:
            stage[value] = max(2, stage[value])
        way[value] = 0 if heavy else before + own[value]
        price[value] = own[value] + sum(price[a] for a in args if price[a] < DEAR)
    last = max((stage[v] for v in wanted), default=0)
    if last and crowded and any(stage[v] == last and way[v] >= LONG for v in wanted):
        last += 1
    if last < 2:
        return []
    found: list[list[Value]] = [[] for _ in range(last - 1)]
    users: dict[Value, set[int]] = {v: set() for v in order}  # the stages in which it is used
    for value in wanted:
        users[value].add(last)
    awaited: set[Value] = set()  # what functions wait for
    for value in reversed(order):
        if known(value):
            continue
        heavy = own[value] >= HEAVY
        dear = price[value] >= DEAR
        early = heavy or dear and value in awaited
        first = max(1, stage[value]) if early else min(users[value])
        if dear and max(users[value]) > first:
            found[first - 1].append(value)
        for arg in value.args:
            users[arg] |= {first} if dear else users[value]
        if heavy or value in awaited:
            awaited.update(value.args)
    return [values[::-1] for values in found]
