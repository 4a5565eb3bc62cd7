"""Dataclasses that nobody changes.

Whoever checks types is told that they are frozen, and holds this package to it.  Python, told so,
would check again at every assignment, and write methods for each class: that takes 0.6 ms instead
of 0.05, and a first call needs some 50 classes, of a few hundred records.  What users hold (graphs,
`Accumulator`, `ScalarOp`) is frozen by Python.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(made: type | None = None, *, frozen: bool = False, eq: bool = True,
                  repr: bool = True) -> Any:
        """`dataclasses.dataclass`, of which `frozen=True` leaves the hash only."""
        def decorate(cls: type) -> type:
            if repr and "__repr__" not in vars(cls):
                cls.__repr__ = _text
            cls = _filled(dataclasses.dataclass(init=False, eq=False, repr=False)(cls))
            return _compared(cls, frozen) if eq else cls

        return decorate if made is None else decorate(made)


def _filled(cls: type) -> type:
    """`cls`, whose records are made of the values of their fields, by place or by name."""
    fields = {f.name: f for f in dataclasses.fields(cls)}

    def fill(record: Any, /, *args: Any, **named: Any) -> None:
        values = record.__dict__
        values.update(zip(fields, args, strict=False), **named)
        given = len(values)
        if given < len(fields):
            values |= {name: _default(f) for name, f in fields.items() if name not in values}
        if given < len(args) + len(named) or values.keys() != fields.keys():
            raise TypeError(f"{cls.__qualname__} takes {', '.join(fields)}, each once, not "
                            f"{', '.join([*map(repr, args), *named])}")

    cls.__init__ = fill  # type: ignore[misc]
    return cls


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is dataclasses.MISSING:
        raise TypeError(f"there is no {field.name}")
    return field.default_factory()


def _compared(cls: type, hashed: bool) -> type:
    """`cls`, whose records are equal if all their fields are; no code is written for each class."""
    names = [f.name for f in dataclasses.fields(cls) if f.compare]
    values = attrgetter(*names)

    def equal(one: Any, other: Any) -> Any:
        same = other.__class__ is one.__class__
        return values(one) == values(other) if same else NotImplemented

    def digest(one: Any) -> int:
        return hash(values(one))

    cls.__eq__ = equal  # type: ignore[assignment]
    cls.__hash__ = digest if hashed else None  # type: ignore[assignment]
    return cls


def _text(record: Any) -> str:
    """What `repr` says of all of them; writing one for each takes as long as the rest."""
    fields = [f.name for f in dataclasses.fields(record) if f.repr]
    said = ", ".join(f"{name}={getattr(record, name)!r}" for name in fields)
    return f"{type(record).__qualname__}({said})"
