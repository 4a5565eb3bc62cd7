"""What an accumulator is made of, checked: its name, its identity, and what its functions take."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import ArgumentError


class Part:
    """`combine`, `merge`, `finish` or `start`: a function whose calls check their counts.

    Parameters
    ----------
    owner : str
        The accumulator.
    role : str
    fn : callable
        The user's function.
    gives : int or None
        How many values it has to give, if that is known.
    """

    def __init__(self, owner: str, role: str, fn: Any, gives: int | None) -> None:
        self.owner, self.role, self.gives = owner, role, gives
        self.fn: Callable[..., Any] = fn.fn if isinstance(fn, Part) else fn
        if not callable(self.fn):
            raise ArgumentError(f"accumulator {owner!r}: {role}= is a function, not "
                                f"{type(fn).__name__}")

    def takes(self, count: int) -> None:
        """Raise the error of a function that does not take `count` values."""
        try:
            signature = inspect.signature(self.fn)
        except (TypeError, ValueError):
            return  # a function written in C does not say
        try:
            signature.bind(*range(count))
        except TypeError:
            raise ArgumentError(
                f"accumulator {self.owner!r}: {self.role}{signature} is called with {count} "
                f"value{'s' * (count != 1)}, {TAKES[self.role]}") from None

    def __call__(self, *values: Any) -> Any:
        """The function of these values."""
        self.takes(len(values))
        result = self.fn(*values)
        given = len(result) if isinstance(result, tuple) else 1
        if self.gives not in (None, given):
            raise ArgumentError(f"accumulator {self.owner!r}: {self.role} gives {given} value"
                                f"{'s' * (given != 1)}, and {GIVES[self.role]} {self.gives}")
        return result


TAKES = {"combine": "all of the state, the element, and with index= its index",
         "merge": "all of one state, then all of another", "finish": "all of the state",
         "start": "the first element, and with index= its index"}
GIVES = {"combine": "the parts of the state are", "merge": "the parts of the state are",
         "finish": "the result is", "start": "without finish= the parts of the state are"}


def parts_of(acc: Any) -> dict[str, Part]:
    """The functions of an accumulator, checked as far as they can be before they are called.

    Raises
    ------
    ArgumentError
        If its name, its identity or one of its functions cannot be right.
    """
    if not isinstance(acc.name, str):
        raise ArgumentError(f"Accumulator(name, identity, combine): the name comes first, and "
                            f"{acc.name!r} is no string")
    count = _state(acc)
    gives = {"combine": count, "merge": count, "finish": 1,
             "start": 1 if acc.finish is None else None}
    parts = {role: Part(acc.name, role, fn, gives[role]) for role in gives
             if (fn := getattr(acc, role)) is not None}
    element = 1 + bool(acc.index)
    takes = {"start": element}
    if count is not None:
        takes |= {"combine": count + element, "merge": 2 * count, "finish": count}
    for role in takes.keys() & parts.keys():
        parts[role].takes(takes[role])
    return parts


def _state(acc: Any) -> int | None:
    """How many parts the state has; None: `start` decides."""
    name = f"accumulator {acc.name!r}"
    if acc.identity is None:
        return 1 if acc.start is None else None
    if acc.start is not None:
        raise ArgumentError(f"{name}: start= is for identity=None, which it takes the place of")
    parts = acc.identity if isinstance(acc.identity, tuple) else (acc.identity,)
    wrong = [p for p in parts if np.ndim(p) or np.asarray(p).dtype.kind not in "biufc"]
    if wrong or not parts:
        raise ArgumentError(f"{name}: identity= is a number, a tuple of numbers, or None for a "
                            f"state that starts from the first element, not {acc.identity!r}")
    if len(parts) > 1 and acc.finish is None:
        raise ArgumentError(f"{name}: the state has {len(parts)} parts; finish= says what is made "
                            "of them")
    return len(parts)
