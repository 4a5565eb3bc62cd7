"""From loop nests to C.  This module writes expressions and names; the templates do the rest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import ops
from .dtypes import ctype
from .expressions import FIXED, Use, terms_along
from .fetching import AHEAD
from .fold_loops import STRIP_BYTES
from .jamming import ROWS_IN_TURN
from .layout import STEPS
from .mathlib import LIBRARIES
from .nest import (
    LANE_BYTES,
    PACK,
    REPEATED,
    ROWS,
    TREE,
    Buffer,
    Kernel,
    LaneLoop,
    Loop,
    Phase,
    Write,
    statements,
    values_of,
)
from .records import dataclass
from .statements import Statements
from .strides import taken_across, told
from .templating import environment
from .values import BLOCK, FILLED, LINED, VECTOR, Load, walk
from .work import work_of

REST = 128  # bytes that runtime.c holds of an output which goes past the caches
COLUMNS = 512  # the least that a thread folds, of many: shorter pieces of rows are read slowly


@dataclass(frozen=True)
class Pointer:
    """One way a kernel reads an operand: which, from where, and its strides along the axes.

    `starts` are (dimension, coefficient, extent or None) added to the operand's address;
    `strides` holds, for every stride the kernel asks for, pairs of (dimension, coefficient).
    """

    operand: int
    starts: tuple[tuple[int, int, int | None], ...]
    strides: tuple[tuple[tuple[int, int], ...], ...]


@dataclass(frozen=True)
class Part:
    """One phase of a kernel: what it may be cut along, and how much work it is.

    `axis` is the place of its parallel axis in `sizes`, or None if it runs in one piece.  `work`
    is a sum, in units of 1/16 nanosecond: of pairs of a factor and places of other factors.
    `least` is how many indices of the axis a thread takes at a time, or more, if there are enough.
    """

    axis: int | None
    least: int
    work: tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Bindings:
    """What a caller passes to a kernel.

    Attributes
    ----------
    pointers : tuple of Pointer
    sizes : tuple
        Per entry of `n`: ("product", extents), ("start", extent), ("chunks", (unit, extents)), for
        how many times `unit` indices the product is, or ("most", (length, extents)), the lesser.
    buffers : tuple
        Per buffer: places in `sizes` whose product is its length, its item size, and whether
        it is shared among threads.
    phases : tuple of Part
    """

    pointers: tuple[Pointer, ...]
    sizes: tuple[tuple[str, Any], ...]
    buffers: tuple[tuple[tuple[int, ...], int, bool], ...]
    phases: tuple[Part, ...]


@dataclass
class Source:
    """The C of one kernel, its entry point, and how to call it."""

    text: str
    entry: str
    bindings: Bindings
    libraries: tuple[str, ...]  # of the math library, whose functions it calls
    slow: tuple[str, ...]  # and those that it calls where the machine divides slowly


def emit(kernel: Kernel, entry: str, banner: Sequence[str]) -> Source:
    """The C of `kernel`, with `banner` in its first comment."""
    return _Emitter(kernel).source(entry, banner)


class _Emitter(Statements):
    def source(self, entry: str, banner: Sequence[str]) -> Source:
        for axis in self.digit:  # extents of loop axes first, in loop order
            self.extent(axis)
        phases = []
        for phase in self.kernel.phases:
            self.fetched.clear()
            self.streamed.clear()
            body = [self.statement(s, "begin", "end") for s in phase.body]
            phases.append({"body": body, "streamed": dict(self.streamed)})
        pointers, views = self.pointers()
        buffers = [*map(self.memory, self.kernel.buffers)]
        bindings = Bindings(
            pointers, tuple(self.sizes), tuple(buffers), tuple(map(self.part, self.kernel.phases)))
        memory = [{"name": b.name, "type": ctype(b.dtype).value} for b in self.kernel.buffers]
        text = environment().get_template("kernel.c.j2").render(
            banner=[*banner, "", *self.operand_lines()], entry=ENTRY % entry, phases=phases,
            pointers=views,
            extents=[(name, self.length(what) or f"n[{k}]")
                     for k, (what, name) in enumerate(self.sizes.items())],
            facts=[f"{self.extent(a)} < {n}" for a, n in self.least.items()],
            buffers=memory, checks=self.checks, words_of=words_of, prologue=self.prologue)
        libraries, slow = ({LIBRARIES[e] for e in externs}
                           for externs in (self.externs, self.slow_externs))
        return Source(text, entry, bindings, (*sorted(libraries),), (*sorted(slow - libraries),))

    def size_place(self, axis: str) -> int:
        """Where the extent of an axis stands among the sizes."""
        return list(self.sizes).index(self.extent_of(axis))

    def memory(self, buffer: Buffer) -> tuple[tuple[int, ...], int, bool]:
        """An entry of `Bindings.buffers`; rows of strips are no longer than these."""
        places = [*map(self.size_place, buffer.axes)]
        size = 4 if buffer.dtype == np.float16 else buffer.dtype.itemsize
        if buffer.strip in FIXED:
            size *= self.strip_length(buffer.strip)
        elif buffer.along:
            most = ("most", (self.strip_length(buffer.strip), self.kernel.axes[buffer.along]))
            self.size(most)
            places.append([*self.sizes].index(most))
        return tuple(places), size, buffer.shared

    def part(self, phase: Phase) -> Part:
        """What a caller needs to know of a phase."""
        work = work_of(self.kernel, phase)
        axis = phase.axis and phase.axis.rstrip("/")
        lengths = [s.length for s in statements(phase.body)
                   if isinstance(s, Loop) and s.kind == "strip" and s.shared]
        least = COLUMNS if "STRIP" in lengths else max(
            (self.strip_length(n) for n in lengths
             if not n.endswith(("STAGE", "LINE", "PIECE"))), default=1)
        return Part(None if axis is None else self.size_place(axis), least, tuple(
            (units, tuple(map(self.size_place, axes))) for units, axes in work))

    def prologue(self, words: set[str]) -> dict[str, list[str]]:
        """Everything that the body, of these words, asked for, in a fixed order."""
        helpers = ops.with_dependencies(list(self.helpers))
        texts = [ops.helper_source(h) for h in helpers]
        for name in helpers:
            self.externs.update(dict.fromkeys(ops.helper_externs(name)))
        env = environment()
        texts += [env.get_template("tree.c.j2").render(helper=h, exported=False, **t)
                  for h, t in self.trees.items()]
        words = words | words_of(*texts) | {"int64_t"}
        words |= words_of(*(text for name, text in self.lanes.items() if name in words))
        for name in reversed(MACROS):  # later ones are made of earlier ones, as types are
            words |= words_of(MACROS[name]) if name in words else set()
        macros = [text for name, text in MACROS.items() if name in words]
        constants = {**dict(sorted(self.lanes.items())),
                     **{name: self.strip_length(name) for name in STRIP_BYTES},
                     "RUN": self.rows_at_once(), "BLOCK": BLOCK, "ROWS": ROWS, "PACK": PACK,
                     "TREE": TREE, "TILE": self.tile, "PAD": self.pad, "LINE": self.line_length,
                     "REST": REST, "AHEAD": AHEAD}
        if used := [f"{name} = {n}" for name, n in constants.items() if name in words]:
            macros.append(f"enum {{ {', '.join(used)} }};")
        externs = [ops.extern_declaration(e) for e in sorted({*self.externs, *self.slow_externs})]
        words |= words_of(*externs)
        for name in reversed(TYPES):
            words |= words_of(TYPES[name]) if name in words else set()
        types = [text for name, text in TYPES.items() if name in words]
        return {"types": types, "macros": macros, "externs": externs, "helpers": texts}

    def operand_lines(self) -> list[str]:
        """For every way of reading an operand: which, its dtype, and along which axes."""
        lines = []
        for use in self.uses.values():
            operand = self.kernel.operands[use.operand]
            axes = sorted(frozenset[str]().union(*(at.axes for at in use.access)),
                          key=self.digit.__getitem__)
            last = operand.layout.perm[-1:] if operand.layout.unit else ()
            unit = any(use.access[dim].terms for dim in last)
            how = ", contiguous" if unit else ", strided" if axes else ""
            storage = "" if operand.storage == "native" else f", {operand.storage}"
            at = ", ".join(f"i{self.digit[a]}" for a in axes)
            lines.append(f"{operand.role} {use.base}[{at}]: {operand.dtype}{how}{storage}")
        return lines

    def stated_stride(self, use: Use, key: str | int) -> int | None:
        """The distance in bytes along a loop axis, or a dimension, if gcc is better off with it."""
        stride = self.known_stride(use.operand, use.access, key)
        size = self.kernel.operands[use.operand].dtype.itemsize
        step = (stride or 0) // size
        if key in self.laned and abs(step) != 1:
            return None  # it would want to read on behind the last lane, and cannot
        if step == -1 and isinstance(key, str) and size > self.narrowest(key):
            return None  # it turns round vectors of the narrowest elements alone
        if step not in STEPS and key not in self.packs:
            return None  # it would give up
        return stride

    def narrowest(self, axis: str) -> int:
        """The size of the smallest elements in loops over an axis, if they are long."""
        known = self.known(axis)
        if known and int(known) <= VECTOR:
            return LANE_BYTES
        lines = [s for p in self.kernel.phases for s in statements(p.body)]
        values = walk(v for s in lines for v in values_of(s))
        stored = [self.kernel.operands[s.operand].dtype for s in lines
                  if isinstance(s, Write) and any(axis in at.axes for at in s.access)]
        stored += [f.dtype for s in lines if isinstance(s, LaneLoop) and s.axis == axis
                   for f in s.folds]
        return min(d.itemsize for d in (*stored, *(
            v.dtype for v in values
            if axis in v.axes and (isinstance(v, Load) or v.dtype != bool))))

    def pointers(self) -> tuple[tuple[Pointer, ...], list[dict[str, Any]]]:
        """How the operands are bound, and the lines that declare them."""
        bound, views = [], []
        number, across = 0, taken_across(self.kernel, self.laned)
        for use in self.uses.values():
            starts = tuple(
                (d, c, e) for d, at in enumerate(use.access) if at.divisor == 1
                for c, e in ((at.const, None), *at.starts) if c)
            lines, strides = [], []
            for key, name in use.strides.items():
                terms = terms_along(use.access, key)
                stride = self.stated_stride(use, key)
                given = f"s[{number}]"
                text = given if stride is None else told(stride, given) if (
                    (use.operand, key) in across and key not in self.packs) else str(stride)
                lines.append((name, text))
                if given in text:
                    strides.append(terms)
                    number += 1
            lines += [(f"{use.base}_ahead", use.ahead)] if use.ahead else []
            bound.append(Pointer(use.operand, starts, tuple(strides)))
            views.append({"name": use.base, "type": "char" if use.written else "const char",
                          "strides": lines})
        return tuple(bound), views


def words_of(*texts: str) -> set[str]:
    """The names and numbers in C."""
    return set(re.findall(r"\w+", " ".join(texts)))


ENTRY = ("int %s(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,\n"
         "       const int64_t *n, volatile int64_t *decided, char *const *w)")

TYPES = {f"{u}int{b}_t": f"typedef __{u.upper()}INT{b}_TYPE__ {u}int{b}_t;"
         for b in (8, 16, 32, 64) for u in ("", "u")}
TYPES |= {
    "bool_t": "typedef uint8_t bool_t;",
    "half": "typedef uint16_t half;",
    "complex64": "typedef float _Complex complex64;",
    "complex128": "typedef double _Complex complex128;",
}
TYPES |= {f"{t}_unaligned": f"typedef {t} {t}_unaligned __attribute__((aligned(1)));" for t in
          (*TYPES, "float", "double")}

MACROS = {
    "AT": "#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))",
    "TO_LINE": f'''\
#define TO_LINE(to, size, n) /* elements until a line begins, if enough vectors follow */ \\
  ((n) < {LINED} || (n) * (size) < 1024 ? (n) : (-(int64_t)(to) & 63) / (size))''',
    "ROWS_OF": f'''\
#define ROWS_OF(n, all) /* rows of n elements that go as one: some of all, within copies */ \\
  (8 * ((all) / 64 < {REPEATED // 8} / (n) ? (all) / 64 + 1 : {REPEATED // 8} / (n)))''',
    "WHOLE_LINES": "#define WHOLE_LINES(to, size, n) ((n) - ((int64_t)(to) & 63) / (size) % (n)) "
                   "/* n elements, or until a line ends */",
    "NEXT_LINE": "#define NEXT_LINE(to, size) ((-(int64_t)(to) & 63) / (size)) "
                 "/* elements until a line begins */",
    "ROWS_IN_TURN": f"#define ROWS_IN_TURN (ASK == 8 || ASK_MAP == 2 ? 1 : {ROWS_IN_TURN}) "
                    "/* where several are no better than one */",
    # whoever calls this ends it
    "elemc_stream": "extern void elemc_stream(void *rest, char *to, const void *block, "
                    "int64_t bytes), elemc_end_stream(void *rest);",
    "FETCH": "#define FETCH(from) __builtin_prefetch(from)",
    "FETCH_OUT": "#define FETCH_OUT(to) __builtin_prefetch(to, 1) /* to write it */",
    "FETCH_ROW": "#define FETCH_ROW(from) __builtin_prefetch(from, 0, 2) /* to the second cache */",
    "FILLS": f"#define FILLS(bytes) ((bytes) > {FILLED}) /* the first cache, with what passes */",
    "IN_TURNS": """\
#define IN_TURNS(from) ((from) + 32768 - ((int64_t)(from) & 32767) /* 32 KiB on, of 8 pages */ \\
  + (((int64_t)(from) >> 6 & 7) << 12) + (((int64_t)(from) >> 9 & 63) << 6))""",
    "FETCH_FROM": "#define FETCH_FROM(way, from, on) /* 0: not; 1, 2: to that cache, `on` bytes "
                  "ahead; 8: in turns */ \\\n  ((way) ? __builtin_prefetch((way) == 8 ? "
                  "IN_TURNS(from) : (from) + (on), 0, (way) == 1 ? 3 : 2) : (void)0)",
    "FETCH_AHEAD": "#define FETCH_AHEAD(from) FETCH_FROM(ASK, from, 8192) "
                   "/* as this machine reads best */",
    "FETCH_SUM": "#define FETCH_SUM(from) FETCH_FROM(ASK_SUM, from, 8192) "
                 "/* of what is only added up */",
    "FETCH_SHORT": "#define FETCH_SHORT(from) FETCH_FROM(ASK_SUM ? ASK_SUM : 2, from, 8192) "
                   "/* in rows too short to be foreseen */",
    "FETCH_MAP": "#define FETCH_MAP(from) FETCH_FROM(ASK_MAP, from, 8192) "
                 "/* for what outgrows the caches */",
    "FETCH_STREAM": "#define FETCH_STREAM(from) (ASK_SUM ? __builtin_prefetch(from) : (void)0) "
                    "/* if none is foreseen */",
    "FETCH_NEXT": "#define FETCH_NEXT(from) __builtin_prefetch(from, 0, ASK_MAP == 2 ? 2 : 3) "
                  "/* of the next row, or a later one */",
    "BY_RUNS": "#define BY_RUNS (ASK_SUM != 0) /* else one row at a time, which is foreseen */",
    "STREAMS": "#define STREAMS (SUM_ROWS == 4) /* if four streams come sooner than one */",
    "FETCH_SEVERAL": "#define FETCH_SEVERAL(from) FETCH_FROM(ASK, from, 256) /* one of several */",
    "FETCH_APART": "#define FETCH_APART(from) __builtin_prefetch((from) + 8192) /* 8 KiB on */",
    "FETCH_LINE": "#define FETCH_LINE(fetch, from, bytes) "
                  "for (int64_t line = 0; line < (bytes); line += 64) fetch((from) + line)",
    "FEW_REGISTERS": """\
#ifdef __AVX512F__
#define FEW_REGISTERS 0
#else
#define FEW_REGISTERS 1 /* or narrow ones: more lanes would go through memory */
#endif""",
    "VECTOR_BYTES": """\
#ifdef __AVX512F__
#define VECTOR_BYTES 64
#else
#define VECTOR_BYTES 32
#endif""",
    "TOLD": "#define TOLD(bytes, given) ((bytes) > VECTOR_BYTES ? (given) : (bytes)) "
            "/* of what is further apart gcc makes vectors if it does not know */",
    "TRUTH": "#define TRUTH(bool) (((bool) + 255) >> 8) /* 0 or 1; gcc makes branches of `!= 0` */",
    "LEVELS": "#define LEVELS(parts) (64 - __builtin_clzll((parts) | 1)) /* of a pairwise tree */",
    "ROLLED": '#define ROLLED _Pragma("GCC unroll 1") /* until there are vectors */',
    "UNROLL": '#define UNROLL _Pragma("GCC unroll 4")',
    "UNROLL_8": '#define UNROLL_8 _Pragma("GCC unroll 8")',
    "INDEPENDENT": '#define INDEPENDENT _Pragma("GCC ivdep")',
}
