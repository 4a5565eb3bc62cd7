"""What lies across the loops: copied along its lines, in tiles, or some rows at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .keeping import Keeping
from .nest import Assign, Local, Loop
from .nest_leaves import Element
from .roots import Root, remaining
from .scope import Scope
from .sharing import Segment, across, axes_inside, beside
from .values import LINED, Load, Value, is_fold


class Crossing(Keeping):
    """What it takes to go along lines of all operands."""

    def tiled(self, segment: Segment, bound: tuple[str, ...]) -> list[Load]:
        """What a segment reads across and copies in tiles."""
        return across(segment.roots, bound, self.spec, self.is_there) if self.spec.large or (
            self.spec.crossed) else []

    def tiles_of(self, segment: Segment, bound: tuple[str, ...]) -> tuple[str, ...]:
        """The axes of the loops over tiles: of few lines, threads share the elements."""
        rows, columns = remaining(segment.roots[0], bound)
        few = not bound and self.spec.between(rows)[1] < LINED
        return (columns, rows) if few else (rows, columns)

    def tiles(self, segment: Segment, loads: Sequence[Load], bound: tuple[str, ...],
              scope: Scope) -> None:
        """Two loops over tiles; `loads`, which lie across, are copied first, along their lines."""
        rows, columns = remaining(segment.roots[0], bound)
        around, within = self.tiles_of(segment, bound)
        inner = Loop(within, "tiles", [])
        scope.body.append(Loop(around, "tiles", [inner], shared=not bound))
        inside = scope.inside(inner.body)
        for load in loads:
            tile = Element(load.axes, load.dtype, inside.name(
                f"{self.spec.operands[load.operand].name}_tile"), (rows, columns), "tile")
            copy = Loop(rows, "plain", [Assign(tile, load)], independent=True)
            inner.body += [Local(tile.name, load.dtype, tile=True),
                           Loop(columns, "turned", [copy])]
            inside.known[load] = tile
        loop = Loop(rows, "plain", [])
        inner.body.append(loop)
        self.level(segment.roots, (*bound, rows), inside.inside(loop.body))

    def turn_rows(self, level_roots: Sequence[Root], bound: tuple[str, ...],
                  scope: Scope) -> None:
        """Of what lies across, some rows at a time are copied along their lines."""
        def is_there(value: Value) -> bool:
            return is_fold(value) or scope.find(value) is not None

        for load in beside(level_roots, bound, self.spec, is_there):
            columns = tuple(a for a in axes_inside(level_roots, bound) if a in load.axes)
            buffer = self.buffer(f"{self.spec.operands[load.operand].name}_rows", load.dtype,
                                 columns, shared=False, strip=bound[-1], length="TURN")
            rows = replace(buffer, axes=load.axes, dims=(bound[-1], *columns), at="turn")
            copy = Loop(bound[-1], "plain", [Assign(rows, load)], independent=True)
            for axis in reversed(columns):
                copy = Loop(axis, "turned" if axis == columns[-1] else "plain", [copy])
            scope.body.append(Loop(bound[-1], "turning", [copy]))
            scope.known[load] = rows
