"""How expressions print: as a person would write them."""

from __future__ import annotations

from collections.abc import Mapping

from .graph import (
    Accumulate,
    Align,
    Apply,
    Axis,
    Captured,
    Cast,
    Const,
    ExpandTo,
    Graph,
    Index,
    Input,
    Iota,
    Node,
    Only,
    Pick,
    Scan,
    Size,
    make,
    toposort,
)
from .graph_gradients import Custom, Exactly, Result, Scatter, SumTo

LONGEST = 400  # characters; what is longer is abbreviated
CALL = 16


def formula(node: Node, names: Mapping[Node, str] | None = None) -> str:
    """The expression of `node`; parts that would make it too long are written as `...`.

    Parameters
    ----------
    node : Node
    names : mapping from Node to str, optional
        What to call inputs and captured arrays, if not by their own names.
    """
    texts: dict[Node, tuple[str, int]] = {}
    for below in toposort([node]):
        text, precedence = _text(below, names or {}, texts)
        texts[below] = (text, precedence) if len(text) <= LONGEST else ("...", CALL)
    return texts[node][0]


def _text(node: Node, names: Mapping[Node, str],
          texts: dict[Node, tuple[str, int]]) -> tuple[str, int]:
    if node in names:
        return names[node], CALL
    match node:
        case Input() | Captured():
            return node.name, CALL
        case Const():
            value = node.value.item()
            return repr(value), 14 if str(value).startswith("-") else CALL
        case Size(arg=Captured(array=array)):
            return str(array.data.shape[node.dim]), CALL
        case Size():
            return f"{_tight(node.arg, texts)}.shape[{node.dim}]", CALL
        case Iota():
            return f"arange({texts[node.size][0]})", CALL
        case Cast():
            return f"{_tight(node.arg, texts)}.astype({node.dtype})", CALL
        case Align():
            return f"align({texts[node.arg][0]}, {node.order!r})", CALL
        case ExpandTo() if not isinstance(node, Exactly):
            return f"expand_to({texts[node.arg][0]}, {texts[node.like][0]})", CALL
        case Exactly() | Result():
            return texts[node.arg]
        case Custom():
            return "", CALL
        case SumTo():
            return f"sum_to({texts[node.arg][0]}, {texts[node.like][0]})", CALL
        case Scatter():
            where = _index(make(Index, node.like, node.forms, node.arg.ndim))
            return f"scatter({texts[node.arg][0]}, {_tight(node.like, texts)}{where})", CALL
        case Apply():
            return _apply(node, texts)
        case Accumulate():
            return _accumulate(node, texts)
        case Scan():
            more = "".join(f", {w}=True" for w in ("reverse", "exclusive") if getattr(node, w))
            element = ", ".join(texts[n][0] for n in (node.arg, *node.more))
            axis = node.axes[0] if len(node.axes) == 1 else node.axes
            return f"scan({node.acc.name}, {element}, axis={axis}{more})", CALL
        case Index():
            return _tight(node.arg, texts) + _index(node), CALL
    raise AssertionError(type(node).__name__)


def _tight(node: Node, texts: dict[Node, tuple[str, int]]) -> str:
    """The text of an operand that a dot or bracket follows."""
    text, precedence = texts[node]
    return text if precedence == CALL else f"({text})"


PYTHON = {"|": 6, "^": 7, "&": 8, "==": 5, "!=": 5, "<": 5, "<=": 5, ">": 5, ">=": 5, "<<": 11,
          ">>": 11, "+": 12, "-": 12, "*": 13, "/": 13, "//": 13, "%": 13, "**": 15}


def _apply(node: Apply, texts: dict[Node, tuple[str, int]]) -> tuple[str, int]:
    """An operation in the notation of its row."""
    notation = node.op.notation
    args = [texts[a] for a in node.args]
    if notation.endswith(")"):
        return notation.format(*(text for text, _ in args)), CALL
    words = notation.split()
    own = PYTHON.get(words[1], 14) if len(words) == 3 else 15 if "**" in notation else 14
    parts = [text if precedence > own or (precedence == own and k == 0 and own != 15)
             else f"({text})" for k, (text, precedence) in enumerate(args)]
    return notation.format(*parts), own


def _graph_text(self: Graph) -> str:
    """The inputs of a graph with their dtypes and ranks, and its outputs as formulas."""
    ends = ", ".join(f"{i.name}: {i.dtype or 'any dtype'}[{i.ndim}]" for i in self.inputs)
    return f"Graph({ends} -> {', '.join(map(formula, self.outputs))})"


def _node_text(self: Node) -> str:
    return f"<node {formula(self)}>"


setattr(Graph, "__repr__", _graph_text)  # noqa: B010 - methods of a layer below
setattr(Node, "__repr__", _node_text)  # noqa: B010


HIDDEN = ("program", "ties", "matched")


def _accumulate(node: Accumulate, texts: dict[Node, tuple[str, int]]) -> tuple[str, int]:
    """A fold, with the keywords that were given."""
    more = ""
    if len(node.axes) < node.arg.ndim:
        more += f", axis={node.axes[0] if len(node.axes) == 1 else node.axes}"
    for name in ("initial", "where"):
        part = getattr(node, name)
        more += f", {name}={texts[part][0]}" if part is not None else ""
    more += "".join(f", {k}={v}" for k, v in node.options
                    if k not in HIDDEN and v != "same")
    return f"{node.acc.name}({texts[node.arg][0]}{more})", CALL


def _index(node: Index) -> str:
    """Brackets, or a transposition."""
    axes = [f.axis for f in node.forms if isinstance(f, Axis)]
    plain = all(isinstance(f, Axis) and f.full for f in node.forms)
    if len(set(axes)) < len(axes):
        dims = [str(d) for d, a in enumerate(axes) if axes.count(a) > 1]
        return f".diagonal({'' if dims == ['0', '1'] else ', '.join(('0', *dims))})"
    if plain and axes != sorted(axes):
        if axes == list(range(node.ndim))[::-1]:
            return ".T"
        return f".transpose({', '.join(str(axes.index(a)) for a in range(node.ndim) if a in axes)})"
    keys: list[str] = []
    at = 0
    for form in node.forms:
        if isinstance(form, Axis):
            keys += ["None"] * (form.axis - at)
            at = form.axis + 1
            start, stop = ("" if b is None else str(b) for b in (form.start, form.stop))
            keys.append(f"{start}:{stop}" + (f":{form.step}" if form.step != 1 else ""))
        elif isinstance(form, Pick):
            keys.append(str(form.index))
        else:
            assert isinstance(form, Only)
            keys.append("0")
    keys += ["None"] * (node.ndim - at)
    return f"[{', '.join(keys)}]"
