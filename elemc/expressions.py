"""C expressions: names, elements of operands, and operations with the parentheses they need."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import chain
from typing import Any

import numpy as np

from . import ops
from .cost import calls
from .dtypes import ctype, literal
from .layout import STEPS, Operand
from .nest import LANES, Blocks, Kernel, LaneLoop, Loop, Statement, bodies, statements, values_of
from .nest_leaves import Element, FoldIndex, LaneFold, Named
from .records import dataclass
from .strides import told
from .values import (
    SELECT,
    Access,
    Affine,
    At,
    Convert,
    Extent,
    Literal,
    Load,
    Op,
    Position,
    Value,
    walk,
)

PRIMARY, CAST = 16, 14
FIXED = ("ABREAST", "SIDED", "TURN")  # strips in whose buffers shorter rows are as long, too

Text = tuple[str, int]  # an expression and its precedence


@dataclass
class Use:
    """A pointer in the making: strides along axes or dimensions; how far `ahead` loops ask."""

    base: str
    operand: int
    access: Access
    written: bool
    strides: dict[str | int, str] = field(default_factory=dict)
    ahead: str = ""


def terms_along(access: Access, key: str | int) -> tuple[tuple[int, int], ...]:
    """The dimensions in which a step along a loop axis goes on, and how far; or a dimension."""
    if isinstance(key, int):
        return ((key, 1),)
    plain = [(dim, at) for dim, at in enumerate(access) if at.divisor == 1]
    return tuple((dim, c) for dim, at in plain for a, c in at.terms if a == key)


class Expressions:
    """Writes the expressions of one kernel, and notes what they need declared."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.digit = {axis: k for k, axis in enumerate(_entered(kernel))}
        self.uses: dict[tuple[int, Access], Use] = {}
        self.sizes: dict[tuple[str, Any], str] = {}
        self.helpers: dict[str, None] = {}
        self.externs: dict[str, None] = {}
        self.slow_externs: dict[str, None] = {}  # where the machine divides slowly
        self.types: set[str] = set()
        self.mentioned: set[str] = set()
        self.running: set[str] = set()  # folds whose states are in registers for several rows
        self.crossed: dict[str, Any] = {}  # the loop of which each turn has `states` of its own
        self.target = ""  # what is being assigned to
        self.width = 0  # of narrow rows
        self.strip = "STRIP"  # the name of the length of strips around
        self.ends: tuple[()] | tuple[str, str] = ()  # where the part of a strip begins and ends
        self.staged: set[str] = set()  # arrays that are as long as parts
        self.after_lanes = False  # in rows shorter than the lanes, and in what is left of others
        self.singly = False  # where nothing chooses for a vector at once
        self.within: dict[str, tuple[str, str]] = {}  # the part of an axis that loops go through
        self.tile_begins: dict[str, str] = {}
        self.instead: dict[str, str] = {}  # what counts along an axis, if not its variable
        self.stored: Value | None = None  # what is being stored as a float16
        self.apart_of: dict[Load, str] = {}  # where a turn has picked elements, in C
        self.finer: dict[str, int] = {}  # how many turns go to one element of an axis
        self.laned: set[str] = set()  # the axes of folds in lanes, and of rows whose ends gather
        self.lanes: dict[str, str] = {}  # how many lanes folds have, by their names in C
        self.turn = ""  # which of several turns at once names are of: "" of the first, "2" and on
        self.lane = ""  # that of the lanes that are being folded
        self.over = ""  # that of a loop of calls whose vectors read on behind their last elements
        values = walk(v for p in kernel.phases for s in statements(p.body) for v in values_of(s))
        self.calls = calls(values)
        self.numbers = {v.arg.name for v in values if isinstance(v, Convert)
                        and isinstance(v.arg, Named) and v.arg.dtype == np.bool_}  # of bools

    # -- names -------------------------------------------------------------------------------

    def extent(self, axis: str) -> str:
        """The C variable with the length of a loop axis."""
        return self.size(self.extent_of(axis))

    def extent_of(self, axis: str) -> tuple[str, Any]:
        """What the length of a loop axis is."""
        if chunks := self.kernel.chunks.get(axis):
            return "chunks", (chunks.unit, self.kernel.axes[chunks.axis])
        return "product", self.kernel.axes[axis]

    def length(self, what: tuple[str, Any]) -> str | None:
        """The number that an entry of `n` is in all calls of this kernel, if it is known."""
        known = what[0] == "product" and all(e in self.kernel.exact for e in what[1])
        return str(math.prod(self.kernel.exact[e] for e in what[1])) if known else None

    def bounds(self, axis: str) -> tuple[str, str]:
        """The C expressions between which a loop over an axis runs."""
        return self.within.get(axis, ("0", self.extent(axis)))

    def size(self, what: tuple[str, Any]) -> str:
        """The C variable for an entry of `n`."""
        return self.sizes.setdefault(what, f"n{len(self.sizes)}")

    def var(self, axis: str) -> str:
        """The C variable that counts along a loop axis."""
        self.mentioned.add(axis)
        return self.instead.get(axis, f"i{self.digit[axis]}")

    def use(self, operand: int, access: Access, written: bool = False) -> Use:
        """The pointer for one way of reading an operand."""
        use = self.uses.get((operand, access))
        if use is None:
            base = self.kernel.operands[operand].name
            count = sum(u.operand == operand for u in self.uses.values())
            base += f"_{count + 1}" if count else ""
            use = self.uses[operand, access] = Use(base, operand, access, written)
        use.written |= written
        return use

    def offset(self, use: Use) -> str:
        """The distance in bytes of an element from its pointer."""
        whole = frozenset[str]().union(*(at.axes for at in use.access if at.divisor == 1))
        parts = []
        for axis in sorted(whole, key=self.digit.__getitem__):
            if (index := self.var(axis)) != "0":
                parts.append(f"{index} * {self.own_stride(use, axis, self.stride(use, axis))}")
        for dim, at in enumerate(use.access):
            if at.divisor > 1:
                stride = use.strides.setdefault(dim, f"{use.base}_d{dim}")
                parts.append(f"{self.affine(at)[0]} * {stride}")
        return " + ".join(parts) or "0"

    def stride(self, use: Use, axis: str) -> str:
        """The distance in bytes along a loop axis."""
        return use.strides.setdefault(axis, f"{use.base}_s{self.digit[axis]}")

    def lanes_of(self, count: int, folds: Sequence[LaneFold] = ()) -> str:
        """How many lanes there are, in C; of wide places less where there are few registers."""
        places = count > LANES and any(f.top and f.size == 8 for f in folds)
        name = "LANES" if count == LANES else f"{'PLACES' if places else 'LANES'}_{count}"
        self.lanes[name] = f"{count} >> FEW_REGISTERS" if places else f"{count}"
        return name

    def address(self, use: Use, axis: str, index: str, distance: str = "") -> str:
        """The address of what lies `distance` behind the element at `index` along `axis`."""
        before, self.instead = self.instead, {**self.instead, axis: index}
        offset, self.instead = self.offset(use), before
        return " + ".join([f"{use.base}_p", offset, *([distance] if distance else [])])

    def own_stride(self, use: Use, axis: str, stride: str) -> str:
        """The distance in bytes for this loop: that for all, or what it alone may be told.

        In lanes gcc would want to read on behind the last one, and cannot; in others over the axis
        it makes vectors of some, if where functions are called they go `over` their last vector.
        """
        by, size = self.finer.get(axis, 0), self.kernel.operands[use.operand].dtype.itemsize
        if not by and axis != self.over and (
                self.calls or axis not in self.laned or axis == self.lane):
            return stride
        known = self.known_stride(use.operand, use.access, axis) or 0
        return str(known // by) if by else (
            told(known, stride) if abs(known) > size and known // size in STEPS else stride)

    def known_stride(self, operand: int, access: Access, axis: str | int) -> int | None:
        """The distance in bytes along a loop axis, or a dimension, if it is known."""
        terms = terms_along(access, axis)
        known = [self.kernel.operands[operand].stride(dim) for dim, _ in terms]
        return None if None in known else sum(
            c * (s or 0) for s, (_, c) in zip(known, terms, strict=True))

    def element(self, use: Use, operand: Operand) -> str:
        """The lvalue of an element in native byte order."""
        kind = "const " if not use.written else ""
        return f"AT({kind}{self.stored_type(operand)}, {use.base}_p, {self.offset(use)})"

    def stored_type(self, operand: Operand) -> str:
        """The C type of the elements of an operand, where they lie."""
        storage = ctype(operand.dtype).storage
        own = storage if operand.storage == "native" else f"{storage}_unaligned"
        self.types |= {storage, own}
        return own

    # -- expressions -------------------------------------------------------------------------

    def text(self, value: Value, stored: bool = False) -> str:
        """`value` as a C expression; if it is `stored` as a float16, that rounds it."""
        before, self.stored = self.stored, value if stored else self.stored
        text, self.stored = self.expr(value)[0], before
        return text

    def expr(self, value: Value) -> Text:
        """`value` as a C expression, with its precedence."""
        match value:
            case Named():
                return value.name, PRIMARY
            case Element():
                if value.at == "lane" and (self.after_lanes or self.finer):
                    name = value.name.removesuffix("_lane")
                    return f"{name}_wide[l]" if self.finer else name, PRIMARY
                if value.name in self.running:
                    return self.of_turn(value.name, "_l"), PRIMARY
                text = f"{self.of_turn(value.name)}[{self.place(value)}]"
                if value.dtype == bool and value.at != "lane" and value.name != self.target:
                    return f"{text} != 0", 9  # gcc 12 may mistake bytes for masks
                return text, PRIMARY
            case At():
                assert isinstance(value.fold, Element)
                text = f"{value.fold.name}[{self.place(value.fold, dict(value.places))}]"
                if value.guard is None:
                    return text, PRIMARY
                return f"({self.text(value.guard)} ? {text} : 0)", PRIMARY
            case Literal():
                text = literal(value.value)
                return text, CAST if text.startswith("-") else PRIMARY
            case Load():
                return self.load(value)
            case Extent():
                return self.size(("product", (value.extent,))), PRIMARY
            case FoldIndex():
                return self.fold_index(value)
            case Position():
                return self.affine(value.affine)
            # not where narrow lanes have ended: there gcc makes more of a comparison
            case Convert(arg=Load() as load) if load.dtype == np.bool_ and not (
                    self.after_lanes and value.dtype.char == "h") and (
                    value.dtype.kind == "f" or value.dtype.char in "hHiI" or self.kernel.exact):
                return f"({ctype(value.dtype).value}){self.truth(load)}", CAST
            case Convert() if value.dtype == np.float16 and self.rounds_later(value):
                return self.expr(value.arg)
            case Convert():
                cast = ops.cast_code(value.arg.dtype, value.dtype, bool(value.axes))
                return self.code(cast, value)
            case Op():
                loop = tuple(a.dtype for a in value.operands)
                kind = value.dtype.kind
                # gcc 12 branches in extrema of these if `?:` makes constants of some, or fails
                some = isinstance(value.args[0], Load) and any(
                    isinstance(a, Literal) for a in value.args)
                small = kind == "u" or some and kind == "i" and value.dtype.itemsize <= 2
                choice = value.op is SELECT and (small or self.singly and kind in "if")
                op = ops.CHOICE if choice else value.op
                return self.code(op.code(loop, value.dtype), value)
        raise AssertionError(type(value).__name__)

    def code(self, code: Any, value: Value) -> Text:
        """An operation's C text, filled in."""
        if code.text == "{0}":
            self.stored = value.args[0] if value is self.stored else self.stored
            return self.expr(value.args[0])
        self.helpers.update(dict.fromkeys(code.helpers))
        self.externs.update(dict.fromkeys(code.externs))
        parts = []
        for k, arg in enumerate(value.args):
            text, precedence = self.expr(arg)
            loose = precedence > code.precedence or code.precedence >= PRIMARY
            same = precedence == code.precedence and 5 < precedence < CAST and (
                k == 0 and code.text.startswith("{0}"))
            parts.append(text if loose or same else f"({text})")
        text, precedence = code.text.format(*parts), code.precedence
        if isinstance(value, Op):
            small = value.dtype.kind in "iu" and value.dtype.itemsize < 4
            if value.dtype == np.float16 and not self.rounds_later(value):
                self.helpers["round_half"] = None
                return f"round_half({text})", PRIMARY
            if small and precedence < PRIMARY:
                return f"({ctype(value.dtype).value})({text})", CAST
        return text, precedence

    def rounds_later(self, value: Op | Convert) -> bool:
        """Whether a float16 is one as it is, or is stored, which rounds it from a float."""
        exact = isinstance(value, Op) and value.op.name in ops.UNROUNDED
        return exact or value is self.stored and not (isinstance(value, Convert) and (
            value.arg.dtype == np.float64 or value.arg.dtype.kind == "c"))

    def load(self, value: Load) -> Text:
        """An element of an operand, in its value type."""
        text = self.as_stored(value)
        if value.dtype == np.float16:
            self.helpers["half_to_float"] = None
            return f"half_to_float({text})", PRIMARY
        return (f"{text} != 0", 9) if value.dtype == np.bool_ else (text, PRIMARY)

    def truth(self, value: Load) -> str:
        """A bool that is read, as a number to compute with: 1, if it is not 0.

        gcc makes vectors of it where it makes branches of a comparison, or none; of less width,
        and of what only folds or chooses, comparisons make shorter ones.
        """
        return f"TRUTH({self.as_stored(value)})"

    def as_stored(self, value: Load) -> str:
        """An element of an operand, as it is stored, in native order."""
        operand = self.kernel.operands[value.operand]
        text = (f"{self.apart_of[value]}[l]" if value in self.apart_of else
                self.element(self.use(value.operand, value.access), operand))
        if value.guard is not None:
            text = f"({self.text(value.guard)} ? {text} : 0)"
        if operand.storage == "swapped":
            swap = f"swap_{ctype(operand.dtype).suffix}"
            self.helpers[swap] = None
            text = f"{swap}({text})"
        return text

    def fold_index(self, index: FoldIndex) -> Text:
        """The index among the folded elements, in C order; vectors multiply no int64."""
        first, *rest = map(self.var, index.over)
        size, kind = index.dtype.itemsize, ctype(index.dtype).value
        if not rest:
            return (f"({kind}){first}", CAST) if size < 8 else (first, PRIMARY)
        cast = "(int32_t)" if size < 8 else ""
        text = f"{cast}{first}"
        for axis, var in zip(index.over[1:], rest, strict=True):
            whole = f"({text})" if " + " in text else text
            text = f"{whole} * {cast}{self.extent(axis)} + {cast}{var}"
        return (f"({kind})({text})", CAST) if size < 4 else (text, 12)

    def affine(self, at: Affine) -> Text:
        """A loop index as a value."""
        starts = [(c, self.size(("start", e))) for c, e in at.starts]
        parts = [name if c == 1 else f"{c} * {name}" for c, name in starts]
        parts += [self.var(a) if c == 1 else f"{c} * {self.var(a)}" for a, c in at.terms]
        parts += [str(at.const)] if at.const or not parts else []
        text, simple = " + ".join(parts), len(parts) == 1 and "*" not in parts[0]
        if at.divisor > 1:
            return f"{text if simple else f'({text})'} / {at.divisor}", 13
        return text, PRIMARY if simple else 12

    def of_turn(self, name: str, end: str = "") -> str:
        """The states of a fold, or another array, of this turn of a loop."""
        return f"{name}{end}{'[m]' if name in self.crossed.get('states', ()) else ''}"

    def place(self, element: Element, places: Mapping[str, Affine] | None = None) -> str:
        """The index of an element of a buffer or local array; at `places` along some axes."""
        if element.at in ("tile", "chunk"):
            begins = self.tile_begins if element.at == "tile" else {}
            return "][".join(f"{self.var(axis)} - {begins.get(axis, f'begin{self.digit[axis]}')}"
                             for axis in element.dims)
        if element.at == "turn":
            row, *columns = element.dims
            text = self.place(replace(element, dims=tuple(columns), at=None), places)
            length = " * ".join(map(self.extent, columns))
            return f"{self.var(row)} % TURN * {length}{f' + {text}' if text != '0' else ''}"
        if element.at == "row":
            return f"r * {self.width} + l"
        if element.at is not None and not element.dims:
            return "l - at" if element.name in self.staged else "l"
        text = ""
        for axis in element.dims:
            at = self.affine(places[axis])[0] if places and axis in places else self.var(axis)
            if text and text != "0":
                text = f"{f'({text})' if ' + ' in text else text} * {self.extent(axis)}"
                at = f"{text} + {at}" if at != "0" else text
            text = at
        if element.at is not None:
            row = self.strip if self.strip in FIXED else f"w{self.digit[element.at]}"
            return f"{f'({text})' if ' + ' in text else text} * {row} + l"
        return text or "0"

    def type(self, dtype: np.dtype) -> str:
        """The C type of a variable."""
        self.types.add(ctype(dtype).value)
        return ctype(dtype).value


def _entered(kernel: Kernel) -> list[str]:
    """The loop axes in the order in which the text meets them, first in its deepest phases."""
    def visit(body: Sequence[Statement], found: dict[str, None]) -> dict[str, None]:
        for item in body:
            if isinstance(item, (Loop, LaneLoop, Blocks)):
                found.update(dict.fromkeys(item.around if isinstance(item, LaneLoop) else ()))
                chunks = kernel.chunks.get(item.axis) if isinstance(item, Loop) else None
                found.setdefault(chunks.axis if chunks else item.axis)
            for inner in bodies(item):
                visit(inner, found)
        return found

    phases = sorted((visit(p.body, {}) for p in kernel.phases), key=len, reverse=True)
    return [*dict.fromkeys((*chain(*phases), *kernel.axes, *kernel.chunks))]
