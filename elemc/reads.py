"""Lowering, first half: which elements of its arguments an element of a node needs.

Loop axes are named here.  A fold gets axes that the index of its result does not use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from .graph import (
    Accumulate,
    Apply,
    Axis,
    Cast,
    ExpandTo,
    Index,
    Node,
    Only,
    Pick,
    Scan,
)
from .graph_gradients import Result, Scatter, SumTo
from .maps import Extents
from .values import ZERO, Affine

Env = tuple[Affine | None, ...]


class Reads:
    """The reads of a closed graph, and the loop axes that they name."""

    def __init__(self, extents: Extents, ones: frozenset[int]) -> None:
        self.extents, self.ones = extents, ones
        self.classes = _classes(extents.program, ones)
        self.names: dict[tuple[int, int], str] = {}
        self.axes: dict[str, tuple[int, ...]] = {}
        self.over: dict[tuple[Node, Env], tuple[str, ...]] = {}

    def axis(self, extent: int, used: set[str]) -> str:
        """The first axis of the extent's class that is not in use: equal lengths share loops."""
        kind = self.classes[extent]
        ordinal = 0
        while (name := self.names.get((kind, ordinal))) in used and name is not None:
            ordinal += 1
        if name is None:
            name = self.names[kind, ordinal] = f"i{len(self.names)}"
            self.axes[name] = (kind,)
        used.add(name)
        return name

    def output_env(self, output: Node) -> Env:
        """Names for the axes of an output."""
        used: set[str] = set()
        return tuple(
            None if e in self.ones else Affine(terms=((self.axis(e, used), 1),))
            for e in self.extents.of[output])

    def fit(self, node: Node, env: Env) -> tuple[Node, Env]:
        """`node` read at `env`, its axes of size 1 at 0."""
        if not node.ndim:
            return node, ()
        of = self.extents.of[node]
        return node, tuple(None if e in self.ones else a for e, a in zip(of, env, strict=True))

    def reads(self, node: Node, env: Env) -> Iterator[tuple[Node, Env]]:
        """Which elements of its arguments an element of `node` needs."""
        match node:
            case Apply():
                yield from (self.fit(arg, env) for arg in node.args)
            case Cast() | ExpandTo() | Result():
                yield self.fit(node.arg, env)
            case Scan():
                inside = self.inside(node, env)
                yield from (self.fit(part, inside) for part in (node.arg, *node.more))
                outside = tuple(at for d, at in enumerate(inside) if d not in node.axes)
                yield from (self.fit(part, outside) for part in node.initial)
            case Index():
                at = tuple(self.form(node, d, env) for d in range(node.arg.ndim))
                yield self.fit(node.arg, at)
            case Scatter():
                yield self.fit(node.arg, self.scattered(node, env)[0])
            case SumTo():
                yield self.sum_reads(node, env)
            case Accumulate():
                yield from self.fold_reads(node, env)

    def form(self, node: Index, dim: int, env: Env) -> Affine | None:
        """How dimension `dim` of an index's argument is read."""
        form, extent = node.forms[dim], self.extents.of[node.arg][dim]
        match form:
            case Axis():
                at = env[form.axis]
                if form.full:
                    return at
                return (at or ZERO).scaled(form.step).after(self.slice(form, extent))
            case Pick():
                return Affine(starts=((1, self.extents.add(("pick", extent, form.index))),))
            case Only():
                return None

    def slice(self, form: Axis, extent: int) -> int:
        """The extent of a slice."""
        return self.extents.add(("slice", extent, form.start, form.stop, form.step))

    def scattered(self, node: Scatter, env: Env) -> tuple[Env, list[tuple[Affine, Affine | int]]]:
        """Where an element of a `Scatter` comes from; what has to hold, or it is 0.

        What has to hold are pairs: an index and the extent that it lies below, or its equal.
        """
        inner: list[Affine | None] = [None] * node.arg.ndim
        conditions: list[tuple[Affine, Affine | int]] = []
        for form, at, extent in zip(node.forms, env, self.extents.of[node.like], strict=True):
            if isinstance(form, Pick):
                if extent in self.ones:
                    continue  # the only index that there is
                picked = self.extents.add(("pick", extent, form.index))
                conditions.append((at or ZERO, Affine(starts=((1, picked),))))
            elif isinstance(form, Axis) and not form.full:
                length = self.slice(form, extent)
                index = (at or ZERO).after(length, -1).divided(form.step)
                conditions.append((index, length))
                inner[form.axis] = replace(index, guards=(*index.guards, (index, length)))
            elif isinstance(form, Axis):
                before = inner[form.axis]
                if before is not None and at is not None:  # a diagonal
                    conditions.append((at, before))
                inner[form.axis] = at
        return tuple(inner), conditions

    def inside(self, node: Node, env: Env) -> Env:
        """Where a fold or scan runs that is read at `env`: there, or along axes of its own.

        Scans go along whole axes.  Folds that are read here and there only, under a guard, would
        have the guard in their innermost loop.
        """
        inside, used = list(env), _used(env)
        along = node.axes if isinstance(node, Scan) else ()
        if along and all(self.extents.of[node][a] in self.ones for a in along):
            return tuple(None if d in along else at for d, at in enumerate(env))
        for dim, (extent, at) in enumerate(zip(self.extents.of[node], env, strict=True)):
            if dim in along and extent in self.ones:
                inside[dim] = None
            elif at is not None and at.guards or dim in along and (at is None or at.axis is None):
                inside[dim] = Affine(terms=((self.axis(extent, used), 1),))
        return tuple(inside)

    def sum_reads(self, node: SumTo, env: Env) -> tuple[Node, Env]:
        """The read of a sum over the axes that stretching added, at axes that `env` has not."""
        pairs = zip(self.extents.of[node.like], self.extents.of[node.arg], strict=True)
        folded = [like in self.ones and extent not in self.ones for like, extent in pairs]
        inner = list(self.inside(node, env) if any(folded) else env)
        used, over = _used(env) | _used(inner), []
        for dim in (d for d, is_so in enumerate(folded) if is_so):
            over.append(self.axis(self.extents.of[node.arg][dim], used))
            inner[dim] = Affine(terms=((over[-1], 1),))
        self.over[node, env] = tuple(over)
        return self.fit(node.arg, tuple(inner))

    def fold_reads(self, node: Accumulate, env: Env) -> Iterator[tuple[Node, Env]]:
        """The reads of a fold, over axes that its result's index does not use."""
        folded = any(self.extents.of[node.arg][a] not in self.ones for a in node.axes)
        outside = self.inside(node, env) if folded else env
        used = _used(env) | _used(outside)
        rest = iter(outside)
        over: list[str] = []
        inner: list[Affine | None] = []
        for dim, extent in enumerate(self.extents.of[node.arg]):
            if dim not in node.axes:
                inner.append(next(rest))
            elif extent in self.ones:
                inner.append(None)
            else:
                over.append(self.axis(extent, used))
                inner.append(Affine(terms=((over[-1], 1),)))
        self.over[node, env] = tuple(over)
        yield self.fit(node.arg, tuple(inner))
        if node.initial is not None:
            yield self.fit(node.initial, outside)
        if node.where is not None:
            yield self.fit(node.where, tuple(inner))


def _used(env: Sequence[Affine | None]) -> set[str]:
    """The loop axes of an index."""
    return {axis for at in env if at is not None for axis in at.axes}


def _classes(program: Sequence[tuple[Any, ...]], ones: frozenset[int]) -> list[int]:
    """For every extent, the representative of those that must equal it."""
    parent = list(range(len(program)))

    def find(e: int) -> int:
        while parent[e] != e:
            e = parent[e]
        return e

    for place, (kind, *args) in enumerate(program):
        if place in ones or kind not in ("join", "fit"):
            continue
        for other in args[:2]:
            if other not in ones:
                a, b = sorted((find(place), find(other)))
                parent[b] = a
    return [find(e) for e in range(len(program))]
