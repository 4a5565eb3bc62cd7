"""The first comment of a kernel: what it computes, for which arrays, and how to see it again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .formula import formula
from .graph import Graph, Node

WIDTH = 96


def banner_of(name: str, graph: Graph, order: str, modes: Sequence[str],
              names: Mapping[Node, str], output_names: Sequence[str]) -> list[str]:
    """The lines of a kernel's first comment."""
    lines = [f"elemc kernel {name}", ""]
    for output, own, mode in zip(graph.outputs, output_names, modes, strict=True):
        lines += _wrap(f"{own} = {formula(output, names)}")
        lines.append(f"  {own}: {mode}, order {order}")
    return [re.sub(r"\s*[\r\n\f\v]\s*", " ", line).replace("*/", "* /") for line in lines]


def _wrap(text: str) -> list[str]:
    """`text` in lines of bounded width, broken at spaces."""
    lines = []
    while len(text) > WIDTH and (cut := text.rfind(" ", 8, WIDTH)) > 0:
        lines.append(text[:cut])
        text = "    " + text[cut + 1:]
    return [*lines, text]
