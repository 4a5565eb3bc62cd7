"""The first comment of a kernel: what it computes, for which arrays, and how to see it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .formula import formula

if TYPE_CHECKING:
    from .compiler import Closed

WIDTH = 96


def banner_of(closed: Closed) -> list[str]:
    """The lines of a kernel's first comment."""
    lines = [f"elemc kernel {closed.name}", ""]
    names = {node: name for node, name in zip(
        (*closed.graph.inputs, *closed.graph.captured), closed.names, strict=True)}
    for output, name, mode in zip(
            closed.graph.outputs, closed.output_names, closed.modes, strict=True):
        text = formula(output, names)
        lines += _wrap(f"{name} = {text}")
        lines.append(f"  {name}: {mode}, order {closed.order}")
    return [line.replace("*/", "* /") for line in lines]


def _wrap(text: str) -> list[str]:
    """`text` in lines of bounded width, broken at spaces."""
    lines = []
    while len(text) > WIDTH and (cut := text.rfind(" ", 8, WIDTH)) > 0:
        lines.append(text[:cut])
        text = "    " + text[cut + 1:]
    return [*lines, text]
