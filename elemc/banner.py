"""The first comment of a kernel: what it computes, for which arrays, and how to see it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .array import formula
from .specialize import Operand, Specialized

if TYPE_CHECKING:
    from .compiler import Closed

WIDTH = 96


def banner_of(closed: Closed, spec: Specialized) -> list[str]:
    """The lines of a kernel's first comment."""
    lines = [f"elemc kernel {closed.name}", ""]
    names = {node: name for node, name in zip(
        (*closed.graph.inputs, *closed.graph.captured), closed.names, strict=True)}
    for output, name, mode in zip(
            closed.graph.outputs, closed.output_names, closed.modes, strict=True):
        text = formula(output, names)
        lines += _wrap(f"{name} = {text}")
        lines.append(f"  {name}: {mode}, order {closed.order}")
    lines.append("")
    lines += [_operand(o) for o in spec.operands]
    return [line.replace("*/", "* /") for line in lines]


def _operand(operand: Operand) -> str:
    """One operand: name, dtype, rank and layout."""
    layout = operand.layout
    plain = layout.perm == tuple(sorted(layout.perm)) and all(layout.packed) and layout.unit
    text = "contiguous" if plain else "strided"
    if not plain and all(layout.packed) and layout.unit:
        text = f"contiguous in the order of axes {layout.perm}"
    if len(layout.perm) < operand.ndim:
        ones = [str(d) for d in range(operand.ndim) if d not in layout.perm]
        text += f", size 1 on axis {', '.join(ones)}"
    storage = "" if operand.storage == "native" else f", {operand.storage}"
    return f"{operand.role} {operand.name}: {operand.dtype}[{operand.ndim}], {text}{storage}"


def _wrap(text: str) -> list[str]:
    """`text` in lines of bounded width, broken at spaces."""
    lines = []
    while len(text) > WIDTH and (cut := text.rfind(" ", 8, WIDTH)) > 0:
        lines.append(text[:cut])
        text = "    " + text[cut + 1:]
    return [*lines, text]
