"""Loops whose elements wait for one function after another, cut where they wait.

A processor runs ahead of what it waits for, but not further than some hundred instructions: about
one turn of a loop in which an `exp` takes the result of a `log`.  Cut in two loops over a strip,
the turns of each are independent, and their functions overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .order import HEAVY
from .values import Op, Value, walk

DEAR = 4  # additions from which on a value is kept for the next stage, not computed again


def stages(wanted: Sequence[Value], known: Callable[[Value], bool]) -> list[list[Value]]:
    """What each loop but the last computes for later ones; empty if none waits for a function.

    A heavy operation's stage is the number of them on the longest way to it.
    """
    order = walk(wanted, known)
    stage: dict[Value, int] = {}
    price: dict[Value, int] = {}  # of computing it again
    for value in order:
        args = () if known(value) else value.args
        own = value.op.cost if isinstance(value, Op) and args else 0
        stage[value] = max((stage[a] for a in args), default=0) + (own >= HEAVY)
        price[value] = own + sum(price[a] for a in args if price[a] < DEAR)
    last = max((stage[v] for v in wanted), default=0)
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
        heavy = isinstance(value, Op) and value.op.cost >= HEAVY
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
