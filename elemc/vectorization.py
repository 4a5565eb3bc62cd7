"""Which loops of a kernel the C compiler vectorized, and why not the others.

The compiler is asked for its remarks (gcc's -fopt-info, clang's -Rpass), of which this makes one
line per loop of the C.  A loop that became several, in functions that were inlined or for the rest
of a row, is vectorized if one of them is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field

from . import build, build_listing
from .records import dataclass
from .toolchain import find_toolchain

LOOP = re.compile(r"\s*(if \(.*\) )?((INDEPENDENT|UNROLL|UNROLL_8|ROLLED) )*(for|while) \(")

LEFT_OUT = "for other machines"  # what became of a loop that this one does not compile

GCC = ("-fopt-info-vec-optimized-missed", "-fopt-info-loop-optimized")
CLANG = ("-Rpass=loop-vectorize|loop-unroll|loop-idiom", "-Rpass-missed=loop-vectorize",
         "-Rpass-analysis=loop-vectorize")

GCC_REMARK = re.compile(r"[^:\n]+:(\d+):\d+: (?:optimized|missed): +(.*)")
CLANG_REMARK = re.compile(r"[^:\n]+:(\d+):\d+: remark: (.*) \[-Rpass.*\]")


@dataclass
class _Loop:
    """A loop of the C; `last` is the last line of its body, `inner` that it has no loop inside."""

    line: int
    text: str
    last: int
    inner: bool
    vectors: list[str] = field(default_factory=list)
    other: str = ""  # what else became of it
    why: str = ""  # it was not vectorized
    at: int = 0  # the line that this is about

    @property
    def verdict(self) -> str:
        """What became of the loop, in a few words."""
        if self.vectors:
            return f"vectorized, {self.vectors[0]}"
        if self.other:
            return self.other
        return "outer loop" if not self.inner else "scalar" if self.why else "no remark"


def report(source: str, entry: str, flags: tuple[str, ...] = (),
           wants: tuple[str, ...] = ()) -> str:
    """The loops of a kernel, one a line: its number, what became of the loop, its text.

    Below a loop that is not vectorized stands the compiler's first reason.  Arguments as for
    `build.load_kernel`.

    Raises
    ------
    CompileError
        If there is no compiler, or it fails.
    """
    tool = find_toolchain()
    gcc = tool is not None and tool.family == "gcc"
    words = build_listing.remarks(source, GCC if gcc else CLANG, flags, wants)
    loops = _loops(source)
    read, remark = (_read_gcc, GCC_REMARK) if gcc else (_read_clang, CLANG_REMARK)
    read([(int(m[1]), m[2]) for m in map(remark.match, words.splitlines()) if m], loops)
    if tool is not None:
        quick = "-DDIVIDES=1" in build.kernel_flags(tool, flags, wants)
        for loop in loops:
            if any(loop.line in lines for lines in _left_out(source, quick)):
                loop.other = LEFT_OUT
    inner = [loop for loop in _innermost(loops) if loop.other != LEFT_OUT]
    done = sum(bool(loop.vectors) for loop in inner)
    width = max((len(loop.verdict) for loop in loops), default=0)
    lines = [f"{entry}: {done} of {len(inner)} innermost loops vectorized by "
             f"{tool.version if tool else 'no compiler'}"]
    text = source.splitlines()
    for loop in loops:
        lines.append(f"{loop.line:5}  {loop.verdict:{width}}  {loop.text}")
        if loop.verdict == "scalar":
            inside = loop.line < loop.at <= loop.last  # some remarks are about the function
            where = f" (line {loop.at}: {text[loop.at - 1].strip()})" if inside else ""
            lines.append(f"{'':7}{loop.why}{where}")
    return "\n".join([*lines, ""])


def _loops(source: str) -> list[_Loop]:
    """The loops of the C, whose lines are indented by their depth."""
    lines = source.splitlines()
    depth = [len(line) - len(line.lstrip()) for line in lines]
    found = []
    for k, line in enumerate(lines):
        if LOOP.match(line):
            last = k
            while last + 1 < len(lines) and (depth[last + 1] > depth[k] or not lines[last + 1]):
                last += 1
            inner = not any(map(LOOP.match, lines[k + 1:last + 1]))
            found.append(_Loop(k + 1, line, last + 1, inner))
    return found


def _innermost(loops: Sequence[_Loop]) -> list[_Loop]:
    """The loops with no loop inside, but for such as merely call a function.

    What is unrolled inside of a vectorized one is a part of it.
    """
    found = []
    for loop in loops:
        around = any(o.vectors and o.line < loop.line <= o.last for o in loops)
        inside = [o for o in loops if loop.line < o.line <= loop.last]
        whole = bool(loop.vectors) and all(o.other == "unrolled" for o in inside)
        part = around and loop.other == "unrolled"
        if whole if inside else not (part or loop.verdict == "no remark"):
            found.append(loop)
    return found


def _left_out(source: str, quick: bool) -> list[range]:
    """The lines that are for machines which do not divide as this one does: sides of a choice."""
    lines = source.splitlines()
    found = []
    for k, line in enumerate(lines):
        if line.endswith("if (DIVIDES) {"):
            indent = line[:-len("if (DIVIDES) {")]
            other = lines.index(f"{indent}}} else {{", k)
            end = lines.index(f"{indent}}}", other)
            found.append(range(other + 1, end + 1) if quick else range(k + 1, other + 1))
    return found


Remarks = Sequence[tuple[int, str]]


def _read_gcc(remarks: Remarks, loops: Sequence[_Loop]) -> None:
    """Sort gcc's remarks; after that a loop is not vectorized comes why."""
    at = {loop.line: loop for loop in loops}
    waiting: _Loop | None = None
    blocks = []
    for line, words in remarks:
        loop = at.get(line)
        if words.startswith("couldn't vectorize loop"):
            waiting = loop
        elif words.startswith("not vectorized: "):
            if waiting is not None and not waiting.why:
                waiting.why, waiting.at = _plain(words.removeprefix("not vectorized: ")), line
            waiting = None
        elif "block part vectorized" in words:
            blocks.append(line)
        elif loop is None:
            continue
        elif match := re.match(r"loop vectorized using (\d+) byte vectors", words):
            loop.vectors.append(f"{match[1]} bytes")
        elif re.search(r"split to 0 loops and \d+ library calls", words):
            loop.other = loop.other or "library call"
        elif re.search(r"(\d+) iterations completely unrolled|never loops", words) and (
                loop.inner or loop.text.lstrip().startswith("UNROLL")):
            loop.other = loop.other or "unrolled"
    for loop in loops:
        loop.vectors.sort(key=lambda text: -int(text.split()[0]))
        if loop.inner and any(loop.line <= line <= loop.last for line in blocks):
            if loop.other == "unrolled":
                loop.other = "unrolled, in vectors"
            elif not loop.why:
                loop.other = "partly in vectors"


def _plain(words: str) -> str:
    """A reason without the compiler's own names of values."""
    return re.sub(r"(: )?\b\w*_\d+\b.*", "", words).rstrip(".: ")


def _read_clang(remarks: Remarks, loops: Sequence[_Loop]) -> None:
    """Sort clang's remarks; that a loop is not vectorized comes after why."""
    at = {loop.line: loop for loop in loops}
    why: tuple[str, int] | None = None
    for line, words in remarks:
        loop = at.get(line)
        if words.startswith("loop not vectorized: "):
            reason = words.removeprefix("loop not vectorized: ")
            why = why or (re.split(r"[;.] ", reason)[0], line)
        elif words.startswith("loop not vectorized"):
            if loop is not None and not loop.why:
                loop.why, loop.at = why or ("the compiler does not say", line)
            why = None
        elif loop is None:
            continue
        elif match := re.match(r"vectorized loop \(vectorization width: (\d+), interleaved "
                               r"count: (\d+)", words):
            times = f" x {match[2]}" if match[2] != "1" else ""
            loop.vectors.append(f"{match[1]} elements{times}")
        elif words.startswith("completely unrolled"):
            loop.other = loop.other or "unrolled"
        elif words.startswith("Formed a call"):
            loop.other = "library call"
