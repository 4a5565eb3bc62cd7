"""What a node of a graph is: frozen, interned, and aware of the user's line that made it."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from dataclasses import dataclass, fields
from types import TracebackType
from typing import Any, ClassVar, TypeVar

import numpy as np

_interned: weakref.WeakValueDictionary[Any, Node] = weakref.WeakValueDictionary()
_interning = threading.RLock()  # the garbage collector may run user code meanwhile
sources: weakref.WeakKeyDictionary[Node, str] = weakref.WeakKeyDictionary()
_OTHERS = (os.path.dirname(__file__), os.path.dirname(np.__file__))  # whose lines no user wrote

N = TypeVar("N", bound="Node")


class Node:
    """One value of a graph.  Make nodes with `make`, which interns them.

    What follows from the children is settled when a node is made: deep graphs would exhaust the
    stack, and shared nodes cost exponential time, if every question went down to the inputs.
    """

    __slots__ = ("__weakref__", "_dtype", "_ndim")
    _dtype: np.dtype | None
    _ndim: int
    ndim: int
    dtype: np.dtype | None

    parts: ClassVar[tuple[str, ...]] = ()
    """The fields that hold nodes: one, a tuple, or None."""

    @property
    def children(self) -> tuple[Node, ...]:
        """The nodes this one is computed from, in a fixed order."""
        found: list[Node] = []
        for name in self.parts:
            part = getattr(self, name)
            if part is not None:
                found += part if type(part) is tuple else (part,)
        return tuple(found)

    def rebuild(self: N, children: tuple[Node, ...]) -> N:
        """The same operation over other children."""
        rest = iter(children)
        new = {}
        for name in self.parts:
            part = getattr(self, name)
            if part is not None:
                new[name] = tuple(next(rest) for _ in part) if type(part) is tuple else next(rest)
        names = (f.name for f in fields(self))  # type: ignore[arg-type]
        return make(type(self), *(new.get(n, getattr(self, n)) for n in names))

    def settle(self, ndim: int, dtype: np.dtype | None = None) -> None:
        """Keep what follows from the children; for `__post_init__`."""
        object.__setattr__(self, "_ndim", ndim)
        object.__setattr__(self, "_dtype", dtype)


class Ranked(Node):
    """A node whose rank follows from its children."""

    __slots__ = ()

    @property
    def ndim(self) -> int:  # type: ignore[override]
        """The rank."""
        return self._ndim


class Typed(Node):
    """A node whose dtype follows from its children."""

    __slots__ = ()

    @property
    def dtype(self) -> np.dtype | None:  # type: ignore[override]
        """The dtype, None while it is unknown."""
        return self._dtype


class Derived(Ranked, Typed):
    """A node whose rank and dtype follow from its children."""

    __slots__ = ()


def make(cls: type[N], *args: Any) -> N:
    """The one node of class `cls` with these fields."""
    key = (cls, *args)
    with _interning:
        node = _interned.get(key)
        if node is None:
            node = _interned[key] = cls(*args)
    return node  # type: ignore[return-value]


def node_class(cls: type[N]) -> type[N]:
    """Declare a node class: a frozen dataclass compared by identity."""
    return dataclass(frozen=True, eq=False, repr=False, slots=True, weakref_slot=False)(cls)


class FrozenArray:
    """A read-only C-contiguous copy of an array, compared by identity."""

    def __init__(self, array: np.ndarray) -> None:
        self.data = np.array(array, order="C", copy=True, subok=False)
        self.data = self.data.astype(self.data.dtype.newbyteorder("="), copy=False)
        self.data.flags.writeable = False


def note_source(node: Node) -> None:
    """Remember the user's line that made `node`: the nearest outside of this package and NumPy."""
    if node in sources:
        return
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OTHERS):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is not None:
        sources[node] = f"{frame.f_code.co_filename}:{frame.f_lineno}"


def user_line(trace: TracebackType | None) -> str | None:
    """`file:line` of the innermost frame of a traceback outside of this package and NumPy."""
    found = None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(_OTHERS) and not file.endswith(".pyx"):
            found = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def carry_source(old: Node, new: Node) -> None:
    """Let `new`, which stands for `old`, point to the same line."""
    if new is not old and old in sources:
        sources.setdefault(new, sources[old])


def source_of(node: Node) -> str | None:
    """`file:line` of the user's code that made `node`, if known."""
    return sources.get(node)
