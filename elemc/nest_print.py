"""Loop nests as text: indentation for loops, one statement a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .layout import Operand
from .maps import Instruction
from .nest import (
    PACK,
    Assign,
    Blocks,
    Buffer,
    Check,
    If,
    Kernel,
    LaneLoop,
    Let,
    Local,
    Loop,
    Parted,
    Repeat,
    Statement,
    Write,
)
from .nest_leaves import Element, FoldIndex, LaneFold, Named
from .values import (
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

STEP = "  "


def print_kernel(kernel: Kernel, program: Sequence[Instruction]) -> str:
    """The operands, axes, buffers and phases of a kernel.

    `program` is the extent program of the function: how long axes are, and where slices start.
    """
    return _Printer(kernel, program).text()


class _Printer:
    def __init__(self, kernel: Kernel, program: Sequence[Instruction]) -> None:
        self.kernel, self.program = kernel, program

    def text(self) -> str:
        lines = [_operand(o) for o in self.kernel.operands]
        lines += [f"axis {name}: {' * '.join(map(self.size, extents))}"
                  for name, extents in self.kernel.axes.items()]
        lines += [_buffer(b) for b in self.kernel.buffers]
        for number, phase in enumerate(self.kernel.phases):
            over = "" if phase.axis is None else f", parallel over {phase.axis}"
            lines.append(f"phase {number}{over}:")
            lines += self.body(phase.body, STEP)
        return "\n".join([*lines, ""])

    def size(self, extent: int) -> str:
        """Where an extent comes from."""
        kind, *args = self.program[extent]
        if kind == "dim":
            return f"{self.kernel.operands[args[0]].name}.shape[{args[1]}]"
        if kind == "slice":
            bounds = ":".join("" if b is None else str(b) for b in args[1:])
            return f"len({self.size(args[0])}[{bounds}])"
        return "1" if kind in ("one", "pick", "only") else self.size(args[-1])

    def body(self, statements: Iterable[Statement], indent: str) -> list[str]:
        return [line for s in statements for line in self.statement(s, indent)]

    def statement(self, statement: Statement, indent: str) -> list[str]:
        """One statement and what stands inside of it."""
        inner = indent + STEP
        match statement:
            case Let():
                line = f"{statement.name} = {self.value(statement.value)}"
            case Local():
                many = " per element of the strip" if statement.strip else ""
                line = f"var {statement.name}: {statement.dtype}{many}"
            case Assign():
                line = f"{self.value(statement.target)} := {self.value(statement.value)}"
            case Write():
                at = self.access(statement.operand, statement.access)
                sign = "+=" if statement.mode == "add" else "="
                line = f"{at} {sign} {self.value(statement.value)}"
                if statement.mask is not None:
                    line += f"  where {self.value(statement.mask)}"
            case Repeat():
                line = (f"{self.value(statement.array)} := {self.value(statement.value)}, "
                        f"repeated for some {statement.rows}")
            case Check():
                line = f"check {self.value(statement.value)}"
            case Loop():
                how = _how(statement)
                return [f"{indent}for {statement.axis}{how}:", *self.body(statement.body, inner)]
            case LaneLoop() | Blocks():
                return [*self.head(statement, indent), *self.body(statement.body, inner)]
            case Parted():
                between = ", ".join(f"{self.value(at)} in {self.value(of)}"
                                    for at, of in statement.terms)
                rows = "".join(f", {self.value(v)}" for v in statement.rows)
                return [f"{indent}where {between}{rows}:", *self.body(statement.free, inner),
                        f"{indent}else:", *self.body(statement.body, inner)]
            case If():
                condition = self.value(statement.condition)
                if not statement.body:
                    return [f"{indent}if not {condition}:", *self.body(statement.rest, inner)]
                rest = [f"{indent}else:", *self.body(statement.rest, inner)]
                return [f"{indent}if {condition}:", *self.body(statement.body, inner),
                        *(rest if statement.rest else [])]
        return [indent + line]

    def head(self, statement: LaneLoop | Blocks, indent: str) -> list[str]:
        """The line of a loop that folds, and one per fold."""
        if isinstance(statement, LaneLoop):
            rows = f" of all {', '.join(statement.around)}" if statement.around else ""
            word = f"for {statement.axis} (lanes{rows}):"
        else:
            strip = f", strip {statement.strip}" if statement.strip else ""
            rows = f", {PACK} of {statement.width} side by side" if statement.packed else ""
            several = f", {statement.at_once} at once" if statement.at_once > 1 else ""
            word = f"for {statement.axis} (blocks{strip}{rows}{several}):"
        return [indent + word, *(indent + STEP + self.fold(f) for f in statement.folds)]

    def fold(self, fold: LaneFold) -> str:
        how = "pairwise" if fold.tree else "in any order"
        part = f" of {fold.part}" if fold.part else ""
        return (f"fold {fold.name}: {fold.kind}{part}, {fold.dtype}, from "
                f"{self.value(fold.neutral)}, merged {how} by {self.value(fold.merge)}")

    def value(self, value: Value) -> str:
        """An expression; everything below is written out."""
        texts: dict[Value, str] = {}
        for below in walk([value]):
            texts[below] = self.one(below, texts)
        return texts[value]

    def one(self, value: Value, texts: Mapping[Value, str]) -> str:
        match value:
            case Named():
                return value.name
            case Element():
                at = [*value.dims, *([value.at] if value.at else [])]
                return f"{value.name}[{', '.join(at)}]"
            case FoldIndex():
                return f"index({', '.join(value.over)})"
            case Load():
                text = self.access(value.operand, value.access)
                return text if value.guard is None else f"({texts[value.guard]} and {text})"
            case At():
                where = ", ".join(f"{a}={self.affine(index)}" for a, index in value.places)
                text = f"{texts[value.fold]} at {where}"
                return f"({text})" if value.guard is None else f"({texts[value.guard]} and {text})"
            case Literal():
                return repr(value.value.item())
            case Extent():
                return self.size(value.extent)
            case Position():
                return self.affine(value.affine)
            case Convert():
                return f"{value.dtype}({texts[value.arg]})"
            case Op():
                call = value.op.notation.endswith(")")
                args = [texts[a] if call or " " not in texts[a] else f"({texts[a]})"
                        for a in value.operands]
                return str(value.op.notation.format(*args))
        raise AssertionError(type(value).__name__)

    def access(self, operand: int, access: Access) -> str:
        """An element of an operand."""
        return f"{self.kernel.operands[operand].name}[{', '.join(map(self.affine, access))}]"

    def affine(self, at: Affine) -> str:
        """An index: loop axes, starts of slices, and a constant."""
        parts = [axis if c == 1 else f"{c}*{axis}" for axis, c in at.terms]
        parts += [s if c == 1 else f"{c}*({s})" for c, e in at.starts
                  if (s := self.start(e)) != "0"]
        parts += [str(at.const)] if at.const or not parts else []
        text = " + ".join(parts).replace("+ -", "- ")
        return text if at.divisor == 1 else f"({text})/{at.divisor}"

    def start(self, extent: int) -> str:
        """Where a slice or a single index starts."""
        kind, _, first, *rest = self.program[extent]
        step = rest[1] if kind == "slice" else 1
        if first is None:
            return "0" if step > 0 else "end - 1"
        return str(first) if first >= 0 else f"end - {-first}"


def _operand(operand: Operand) -> str:
    storage = "" if operand.storage == "native" else f", {operand.storage}"
    return f"{operand.role} {operand.name}: {operand.dtype}[{operand.ndim}]{storage}"


def _how(loop: Loop) -> str:
    kind = f"{'parallel ' * loop.shared}{loop.kind.removeprefix('plain')}".strip()
    free = ", independent" if loop.independent else ""
    return (f" ({kind}{free})" if kind else "") + (", from its end" if loop.reverse else "") + (
        f", {loop.at_once} at once" if loop.at_once > 1 else "")


def _buffer(buffer: Buffer) -> str:
    kind = "shared" if buffer.shared else "private"
    per = ", ".join((*buffer.axes, *(("element of a strip",) if buffer.strip else ()))) or "call"
    return f"buffer {buffer.name}: {buffer.dtype} per {per}, {kind}"
