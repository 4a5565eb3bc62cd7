"""Dataclasses that nobody changes.

Whoever checks types is told that they are frozen, and holds this package to it.  Python, told so,
would check again at every assignment: a class takes 0.6 instead of 0.1 ms to make, of which a
first call needs some 60.  What users hold (graphs, `Accumulator`, `ScalarOp`) is frozen by Python.
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
            cls = dataclasses.dataclass(eq=False, repr=False)(cls)
            return _compared(cls, frozen) if eq else cls

        return decorate if made is None else decorate(made)


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
