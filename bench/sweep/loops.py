"""A case as the plain C loops that one would write for it by hand.

Nested loops in the memory order of the largest operand, axes merged that are one in memory, all
in one pass but for what needs two; scalar accumulators, which -ffast-math lets the compiler put
in vectors.  Extents are arguments, and so are strides, but for those that a routine is written
for: 0, and up to two elements in the innermost loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..native import ffi, pointers
from .cases import Case
from .expressions import C_HELPERS, Expression, as_c

HEADER = f"#include <math.h>\n#include <stdint.h>\n#include <float.h>\n{C_HELPERS}"
IDENTITY = {"sum": "0", "mean": "0", "max": "-{}_MAX", "min": "{}_MAX"}
COMBINE = {"sum": "{0} + {1}", "mean": "{0} + {1}", "max": "{1} > {0} ? {1} : {0}",
           "min": "{1} < {0} ? {1} : {0}"}


@dataclass(frozen=True)
class Pass:
    """One visit of all elements: v = value, which may be stored in out, and may be folded.

    Attributes
    ----------
    value : Expression
        Of operands, of what earlier passes folded, and of out.
    stored : bool
        Whether it is written to out.
    fold : str
        sum, mean, max or min; or nothing.
    target : str
        Where to.
    folded : Expression
        What, of v.
    """

    value: Expression
    stored: bool = True
    fold: str = ""
    target: str = ""
    folded: Expression = "v"


@dataclass
class Loop:
    """An axis, or several that are one in memory.

    Attributes
    ----------
    index : str
        Its variable.
    extent : int
        How long.
    strides : dict
        Array to elements.
    reduced : bool
        Whether it is accumulated over.
    """

    index: str
    extent: int
    strides: dict[str, int]
    reduced: bool


def passes(case: Case) -> list[Pass]:
    """What is done to every element, and in how many visits."""
    plain = isinstance(case.inner, str)  # else it is kept in out rather than computed again
    kept = case.inner if plain else "out"
    if case.form == "map":
        return [Pass(case.inner)]
    if case.form == "fold":
        return [Pass(case.inner, False, case.fold, "out")]
    if case.form == "centred":
        return [Pass(case.inner, not plain, "mean", "t"), Pass(("sub", kept, "t"))]
    if case.form == "scaled":
        return [Pass(case.inner, not plain, "mean", "t", ("square", "v")),
                Pass(("norm", kept, "t"))]
    return [Pass(case.inner, not plain, "max", "t"),
            Pass(("expdiff", kept, "t"), True, "sum", "u"), Pass(("ratio", "out", "u"))]


def nest(loops: list[Loop], body: list[str]) -> list[str]:
    """`body` in these loops."""
    for loop in reversed(loops):
        i, n = loop.index, f"n{loop.index[1:]}"
        body = [f"for (int64_t {i} = 0; {i} < {n}; {i}++) {{",
                *("  " + line for line in body), "}"]
    return body


@dataclass
class Emitter:
    """Writes one case.

    Attributes
    ----------
    case : Case
        Which.
    out : ndarray
        Result, in the layout that NumPy gives it.
    loops : list of Loop
        Outermost first.
    arrays : dict
        Name to the array of each pointer, in the order of the arguments.
    numbers : list of (str, int)
        Extents and strides that are arguments.
    """

    case: Case
    out: np.ndarray
    loops: list[Loop] = field(default_factory=list)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    numbers: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        case = self.case
        self.arrays = {**case.operands, "out": self.out}
        self.loops = merged(case, self.arrays)
        self.visits = passes(case)
        whole = next((k for k, loop in enumerate(self.loops) if loop.reduced), len(self.loops))
        # All passes run over one kept outer index after another, with what they fold between.
        self.outer, self.within = self.loops[:whole], self.loops[whole:]
        for visit in self.visits:
            if visit.fold and visit.target != "out":
                size = 1
                for loop in reversed(self.within):
                    loop.strides[visit.target] = 0 if loop.reduced else size
                    size *= 1 if loop.reduced else loop.extent
                for loop in self.outer:
                    loop.strides[visit.target] = 0
                self.arrays[visit.target] = np.zeros(size, case.dtype)
        self.numbers = [(f"n{loop.index[1:]}", loop.extent) for loop in self.loops]
        self.numbers += [(f"{name}_s{loop.index[1:]}", loop.strides[name])
                         for loop in self.loops for name in self.arrays]

    @property
    def type(self) -> str:
        """C's name of the dtype."""
        return "float" if self.case.dtype == np.float32 else "double"

    @property
    def suffix(self) -> str:
        """Of constants and of functions."""
        return "f" if self.type == "float" else ""

    def at(self, name: str) -> str:
        """An element of an array."""
        terms = []
        for loop in self.loops:
            stride = loop.strides[name]
            fixed = loop is self.loops[-1] and abs(stride) <= 2
            if stride:
                step = str(stride) if fixed else f"{name}_s{loop.index[1:]}"
                terms.append(loop.index if stride == 1 and fixed else f"{loop.index} * {step}")
        return f"{name}[{' + '.join(terms) or 0}]"

    def c(self, expression: Expression) -> str:
        """An expression of elements."""
        reads = {name: self.at(name) for name in self.arrays} | {"v": "v"}
        return as_c(expression, reads, self.suffix)

    def visit(self, one: Pass) -> list[str]:
        """The loops of one pass, within the outer ones."""
        start = [f"const {self.type} v = {self.c(one.value)};"]
        start += [f"{self.at('out')} = v;"] * one.stored
        if not one.fold:
            return nest(self.within, start)
        split = len(self.within)
        while split and self.within[split - 1].reduced:
            split -= 1
        middle, last = self.within[:split], self.within[split:]
        kept = [loop for loop in middle if not loop.reduced]
        spread = len(kept) < len(middle)  # the accumulators are met again and again
        target, folded = self.at(one.target), self.c(one.folded)
        limit = "FLT" if self.suffix else "DBL"
        identity, combine = IDENTITY[one.fold].format(limit), COMBINE[one.fold]
        share = f" / {self.count()}" if one.fold == "mean" else ""
        if last:
            body = [f"{self.type} acc = {identity};",
                    *nest(last, [*start, f"const {self.type} w = {folded};",
                                 f"acc = {combine.format('acc', 'w')};"])]
            total = "acc"
        else:
            body, total = [*start, f"const {self.type} w = {folded};"], "w"
        if not spread:
            body = [*body, f"{target} = {total}{share};"]
            return nest(middle, body) if middle else ["{", *("  " + line for line in body), "}"]
        return [*nest(kept, [f"{target} = {identity};"]),
                *nest(middle, [*body, f"{target} = {combine.format(target, total)};"]),
                *(nest(kept, [f"{target} = {target}{share};"]) if share else [])]

    def count(self) -> str:
        """How many elements are accumulated into one."""
        factors = [f"n{loop.index[1:]}" for loop in self.loops if loop.reduced]
        return f"({self.type})({' * '.join(factors) or 1})"

    def function(self) -> str:
        """The whole function, of pointers and numbers."""
        written = {"out", *(visit.target for visit in self.visits)}
        body = nest(self.outer, [line for one in self.visits for line in self.visit(one)])
        used = " ".join(body)
        lines = [f"/* {self.case.text} */",
                 f"void case_{self.case.number}(void *const *p, const int64_t *numbers)", "{"]
        for k, name in enumerate(self.arrays):
            const = "" if name in written else "const "
            lines.append(f"  {const}{self.type} *restrict {name} = p[{k}];")
        lines += [f"  const int64_t {name} = numbers[{k}];"
                  for k, (name, _) in enumerate(self.numbers) if name in used]
        return "\n".join([*lines, *("  " + line for line in body), "}", ""])

    def call(self, library: Any) -> Callable[[], np.ndarray]:
        """The compiled function, on the case's arrays."""
        function = getattr(library, f"case_{self.case.number}")
        places = pointers(self.arrays.values())
        numbers = ffi.new("int64_t[]", [number for _, number in self.numbers])
        held = self.arrays

        def call() -> np.ndarray:
            function(places, numbers)
            return held["out"]

        return call


def merged(case: Case, arrays: dict[str, np.ndarray]) -> list[Loop]:
    """The loops, in the memory order of the largest operand, as few as there can be."""
    rank = len(case.shape)
    reduced = set() if case.form == "map" else set(range(rank) if case.axes is None else case.axes)
    strides = {}
    for name, array in arrays.items():
        if array.ndim < rank and name == "out":  # without the accumulated axes
            left = iter(array.strides)
            steps = [0 if axis in reduced else next(left) for axis in range(rank)]
        else:
            steps = [0] * (rank - array.ndim) + [
                s if n > 1 else 0 for s, n in zip(array.strides, array.shape, strict=True)]
        strides[name] = [step // array.itemsize for step in steps]
    order = sorted((axis for axis in range(rank) if case.shape[axis] > 1),
                   key=lambda axis: -abs(strides["a"][axis]))
    loops: list[Loop] = []
    for axis in order:
        loop = Loop("", case.shape[axis], {name: s[axis] for name, s in strides.items()},
                    axis in reduced)
        last = loops[-1] if loops else None
        if last and last.reduced == loop.reduced and all(
            last.strides[name] == step * loop.extent for name, step in loop.strides.items()
        ):
            loops[-1] = Loop("", last.extent * loop.extent, loop.strides, loop.reduced)
        else:
            loops.append(loop)
    for k, loop in enumerate(loops):
        loop.index = f"i{k}"
    return loops


def source(emitters: list[Emitter]) -> str:
    """One C file for several cases."""
    return "\n".join([HEADER, *(e.function() for e in emitters)])
