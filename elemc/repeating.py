"""Short rows, several at a time: what all of them share lies there as often, side by side.

`(x - mean) / scale` goes over every row of a table anew, and what fills no vector at its end takes
as long as the rest.  If rows follow each other in memory wherever they are read and written, but
for one that all of them need, many are one long row, given as many copies of that one.  If they
share none, as where only what was turned lay otherwise, all of them are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from .accesses import MANY_ROWS, follows, most_repeated
from .cnames import fresh
from .layout import Operand
from .nest import (
    LANE_BYTES,
    Assign,
    Kernel,
    Let,
    Loop,
    Repeat,
    Statement,
    Write,
    names_made,
    statements,
    values_of,
)
from .nest_leaves import Element, Named
from .values import (
    Convert,
    Extent,
    Literal,
    Load,
    Op,
    Position,
    Specialized,
    Value,
    over_new,
    walk,
)


def repeat_rows(kernel: Kernel, spec: Specialized) -> None:
    """Let loops over short rows take several at a time, if shared ones are in the way, or all."""
    for phase in kernel.phases:
        body: list[Statement] = []
        buffers = {b.name for b in kernel.buffers}
        taken = names_made(phase.body) | buffers
        for item in phase.body:
            for rows, row in _short_rows([item], spec):
                shared = _shared(rows, row, kernel.operands, buffers if rows is item else ())
                copies = {v: Element(v.axes, v.dtype, _name(v, kernel.operands, taken), (row.axis,))
                          for v in shared or ()}
                if shared is not None and (
                        not copies or spec.between(rows.axis)[0] >= MANY_ROWS):
                    rows.kind = "rows" if copies else "joined rows"
                    row.body = [with_copies(s, copies) for s in row.body]
                    body += [Repeat(copy, value, rows.axis) for value, copy in copies.items()]
            body.append(item)
        phase.body[:] = body


def _short_rows(body: Sequence[Statement], spec: Specialized) -> Iterator[tuple[Loop, Loop]]:
    """Loops over rows in which there is nothing but a loop along a short row."""
    for rows in statements(body):
        match rows:
            case Loop(kind="plain", body=[Loop(kind="plain") as row]):
                plain = row.independent and not (
                    rows.reverse or row.reverse or rows.lines or row.lines or row.ahead)
                if plain and _is_short(row.axis, spec) and all(
                        isinstance(s, (Let, Write)) for s in row.body):
                    yield rows, row


def _is_short(row: str, spec: Specialized) -> bool:
    """Whether such a row does not fill its vectors."""
    least, most = spec.between(row)
    size, *others = {o.dtype.itemsize for o in spec.operands}
    known = least == most > 0 and not others
    fills = known and (least * size % LANE_BYTES == 0 or least * size == LANE_BYTES // 2)
    return most <= most_repeated(spec.operands) and not fills


def _shared(rows: Loop, row: Loop, operands: Sequence[Operand], buffers: Collection[str]
            ) -> list[Value] | None:
    """What all rows need anew, which may be nothing, or None: something else follows no row before.

    `buffers` are there already.
    """
    pair, made = (rows.axis, row.axis), names_made(row.body)

    def there(value: Value) -> bool:
        match value:
            case Load():
                return operands[value.operand].role != "out"
            case Element():
                return value.at is None and value.name in buffers
        return isinstance(value, (Op, Convert, Literal, Extent, Position))

    def is_shared(value: Value) -> bool:
        return value.axes == {row.axis} and all(map(there, walk([value])))

    found = []
    for value in walk((v for s in row.body for v in values_of(s)), is_shared):
        if is_shared(value):
            found.append(value)
        elif isinstance(value, Load):
            if value.guard or not value.axes.isdisjoint(pair) and not follows(
                    operands[value.operand], value.access, *pair):
                return None
        elif isinstance(value, Named):
            if value.name not in made and not value.axes.isdisjoint(pair):
                return None
        elif isinstance(value, Element):
            if value.dims[-2:] != pair or value.at not in (None, "turn"):  # of strips, tiles
                return None
        elif not isinstance(value, (Op, Convert, Literal, Extent)):
            return None
    written = (s for s in row.body if isinstance(s, Write))
    return found if all(follows(operands[w.operand], w.access, *pair) for w in written) else None


def _name(value: Value, operands: Sequence[Operand], taken: set[str]) -> str:
    """What the copies of a row are called: as what it is made of."""
    of = next((v for v in walk([value]) if isinstance(v, (Load, Element))), None)
    base = of.name if isinstance(of, Element) else operands[of.operand].name if of else "place"
    return fresh(f"{base}_rows", taken)


def with_copies(item: Statement, copies: Mapping[Value, Value]) -> Statement:
    """A statement that reads copies."""
    below, new = walk(values_of(item), copies.__contains__), dict[Value, Value]()
    if copies.keys().isdisjoint(below):
        return item
    for value in below:
        new[value] = copies.get(value) or over_new(value, new)
    if isinstance(item, Write):
        return replace(item, value=new[item.value], mask=item.mask and new[item.mask])
    assert isinstance(item, (Let, Assign))
    return replace(item, value=new[item.value])
