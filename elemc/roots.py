"""Stores and folds as scheduling takes them: which loops each enters, and which folds it needs.

An order is the axes that a store or a fold enters, outermost first.  `"i0:64"` enters chunks of
`"i0"`, of 64 indices, `"i1/"` the strips of `"i1"`, `"?0"` and `"!0"` either side of a choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .records import dataclass
from .values import At, Fold, Scan, Specialized, Store, Value, is_fold, walk

HOLDS, FAILS = "?", "!"  # how the sides of a choice begin in orders


@dataclass(frozen=True, eq=False)
class Root:
    """A store or a fold, with what scheduling it takes.

    Attributes
    ----------
    order : tuple of str
        The axes as they are entered, outermost first.
    over : frozenset of str
        The axes that are folded.
    needs : tuple of Fold
        The folds whose results are used.
    apart : dict
        Those of them that are read at other indices than the loops', and which of their axes.
    length : str
        How long strips are, as `nest.Loop` has it.
    given : Value or None
        The condition of that choice.
    waits : str
        The axis of rows of which it takes what functions, called for many before, or other folds,
        in a loop of their own, give.
    """

    of: Store | Fold
    order: tuple[str, ...]
    over: frozenset[str]
    needs: tuple[Fold, ...]
    apart: dict[Value, frozenset[str]]
    length: str = "STRIP"
    given: Value | None = None
    waits: str = ""

    @property
    def side(self) -> str | None:
        """The side of the choice that it is on."""
        return next(filter(is_side, self.order), None)

    @property
    def fold(self) -> Fold:
        """What it is, if it is a fold."""
        assert isinstance(self.of, Fold)
        return self.of

    @property
    def loops(self) -> tuple[str, ...]:
        """The axes as they are entered, whether in strips or chunks or not."""
        return tuple(a for a in self.order if a[-1] != "/" and ":" not in a and not is_side(a))

    @property
    def chunk(self) -> str | None:
        """The chunks that it folds, if any."""
        return next((a for a in self.order if ":" in a and axis_of(a) in self.over), None)

    @property
    def kept(self) -> tuple[str, ...]:
        """Those of them that are not folded."""
        return tuple(a for a in self.loops if a not in self.over)

    def kept_in(self, bound: Sequence[str]) -> tuple[str, ...]:
        """Those of the kept axes whose loops are within those over `bound`."""
        return tuple(a for a in self.kept if a not in bound)

    def inputs(self) -> list[Value]:
        """The values that the innermost loop computes."""
        if isinstance(self.of, Scan):
            return [self.of.arg, *self.of.more]
        if isinstance(self.of, Store):
            return [self.of.value] if self.of.mask is None else [self.of.value, self.of.mask]
        return [self.of.arg] if self.of.where is None else [self.of.arg, self.of.where]

    @property
    def merges(self) -> bool:
        """Whether it is a fold whose parts may be folded apart, and merged."""
        return isinstance(self.of, Fold) and self.of.merges

    @property
    def by_rows(self) -> bool:
        """Whether it is a fold whose states are an array over the axes it keeps."""
        return bool(self.over) and not in_strips(self.order) and self.order[-1] not in self.over

    @property
    def args(self) -> Sequence[Value]:
        """The values that it is computed from."""
        own = self.of.args if isinstance(self.of, Fold) else self.inputs()
        return own if self.given is None else [*own, self.given]


def axis_of(entered: str) -> str:
    """The axis whose loop, strips or chunks an order enters."""
    return entered.partition(":")[0].rstrip("/")


def in_strips(order: Iterable[str]) -> bool:
    """Whether an order enters strips."""
    return any(axis.endswith("/") for axis in order)


def is_side(axis: str | None) -> bool:
    """Whether what a root enters next is one side of a choice."""
    return axis is not None and axis[0] in (HOLDS, FAILS)


def open_strip(bound: Sequence[str]) -> str | None:
    """The axis whose strip is around, but not the loop along it."""
    return next((b[:-1] for b in bound if b.endswith("/") and b[:-1] not in bound), None)


def remaining(root: Root, bound: Sequence[str]) -> tuple[str, ...]:
    """The axes whose loops `root` has yet to enter."""
    return tuple(a for a in root.order if a not in bound)


def next_axis(root: Root, bound: Sequence[str]) -> str | None:
    """The axis whose loop `root` enters next."""
    return next(iter(remaining(root, bound)), None)


def folds_below(values: Iterable[Value]) -> tuple[Fold, ...]:
    """The folds below `values`, not looking inside of them."""
    found: dict[Fold, None] = {}
    seen: set[Value] = set()
    stack = list(values)
    while stack:
        value = stack.pop()
        if isinstance(value, Fold):
            found[value] = None
        elif value not in seen:
            seen.add(value)
            stack.extend(value.args)
    return tuple(found)


def read_apart(values: Iterable[Value]) -> dict[Value, frozenset[str]]:
    """The folds below `values` that are read at other indices than the loops', and where not."""
    found: dict[Value, frozenset[str]] = {}
    for value in walk(values, is_fold):
        if isinstance(value, At):
            own = frozenset(axis for axis, _ in value.places)
            found[value.fold] = found.get(value.fold, frozenset()) | own
    return found


def holds(store: Store, value: Value, spec: Specialized) -> bool:
    """Whether what is read where `store` writes can be a value that was written there."""
    operand = spec.operands[store.operand]
    plain = store.mode == "write" and not store.mask and operand.storage == "native"
    return plain and operand.dtype == value.dtype
