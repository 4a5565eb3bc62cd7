"""How the results of a function are handed back: one, or in tuples, lists and dicts of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .array import as_node
from .errors import TraceError


class Structure:
    """How the outputs are handed back: in a tuple, a list or a dict, which may hold others.

    Attributes
    ----------
    kind : type
    names : tuple or None
        The keys of a dict, the fields of a named tuple.
    keys : tuple or None
        The same, if there are no structures within: the names of the outputs.
    count : int
        Of the results.
    """

    def __init__(self, kind: type, names: tuple[Any, ...] | None,
                 parts: Sequence[Structure | None]) -> None:
        self.kind, self.names, self.parts = kind, names, tuple(parts)
        self.keys = names if not any(self.parts) else None
        self.count: int = sum(1 if part is None else part.count for part in self.parts)

    def __call__(self, results: Iterable[Any]) -> Any:
        """`results` in this structure."""
        rest = iter(results)
        values = [next(rest) if part is None else part(rest) for part in self.parts]
        if self.kind is dict:
            return dict(zip(self.names or (), values, strict=True))
        return self.kind(values) if self.names is None else self.kind(*values)

    def in_tuples(self) -> Any:
        """Tuples that hold None for each result, which C can make; of other kinds itself."""
        parts = [part and part.in_tuples() for part in self.parts]
        plain = self.kind is tuple and not any(isinstance(part, Structure) for part in parts)
        return tuple(parts) if plain else self


def flatten(result: Any, name: str) -> tuple[list[Any], Structure | None]:
    """The nodes of a function's result, and how they are handed back; None: a single one."""
    if result is None:
        raise TraceError(f"{name} returns nothing, or None among its results")
    if not isinstance(result, (dict, tuple, list)):
        return [as_node(result)], None
    kind, names, values = type(result), getattr(result, "_fields", None), tuple(result)
    if isinstance(result, dict):
        kind, names, values = dict, values, tuple(result.values())
    inner = [flatten(v, name) for v in values]
    leaves = [leaf for nodes, _ in inner for leaf in nodes]
    if not leaves:
        raise TraceError(f"{name} returns nothing in {result!r}, its result or a part of it")
    return leaves, Structure(kind, names, [structure for _, structure in inner])


class Lined:
    """Gradients in a tuple that lines up with the inputs; None for those that have none."""

    keys = None

    def __init__(self, present: tuple[bool, ...], outputs: tuple[str, ...]) -> None:
        self.present, self.outputs = present, outputs

    def __call__(self, results: Sequence[Any]) -> Any:
        """`results` with None in between."""
        rest = iter(results)
        return tuple(next(rest) if p else None for p in self.present)
