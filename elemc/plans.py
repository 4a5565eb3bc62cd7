"""Plans: what the call path in C needs to serve a call, kept from one process to the next.

Once a process has compiled a function and called it, the next process that makes the same function
and calls it alike imports no stage of the compiler: it finds here what `fastcall` taught the C
then.  A plan is found by all that it was made of: the content of the function (its graph, names
and options), this package, the compiler and the machine, and the C's own key of the call; that
the sizes fit, the C checks at every call.  Whatever cannot be written down, such as a class that
an accumulator uses, has no plan, and whatever is not as it was is none::

    <cache directory>/plans/<two digits of the key>/<key>      the plans of one function

There are 256 shelves, of the `SHELF` functions kept there last.
"""

from __future__ import annotations

import builtins
import os
import pickle
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .accumulators import ACCUMULATORS, LOGADDEXP, Accumulator, Composite
from .accumulators_parts import Part
from .build import STAMP
from .cache_dirs import cache_dir, checksum, key_of, record, save_record
from .close import Program
from .errors import ElemcError
from .graph import Axis, FrozenArray, Graph, Input, Node, Only, Pick, toposort
from .graph_gradients import Adjoint, Custom
from .ops import OPS
from .ops_base import ScalarOp
from .portable import GraphFunction
from .templating import stamp_now
from .toolchain import find_toolchain

if TYPE_CHECKING:
    from .compiler import Closed, Compiled
    from .specialize import Signature

SHELF = 16  # functions
CALLS = 16  # plans of one function
MOST_CAPTURED = 2**20  # bytes of captured arrays; more take too long to look at

HOMES = ("builtins", "elemc", "math", "numpy")  # whose functions are known by their names
PLAIN = (type(None), type(...), bool, int, float, complex, str, bytes)


class Plan(NamedTuple):
    """What serves one kind of call.

    Attributes
    ----------
    shapes : tuple
        Of the arrays of the call it was made for; it serves others too.
    kernel, checksum, entry : str
        The kernel's key in the cache, checksum, and function.
    libraries : tuple of str
        Those of the math library that it calls.
    code : bytes
        See `fastcall.stream`.
    captured : tuple of int
        Places of the captured arrays that the kernel reads, among those of the function.
    dtypes : tuple of str
        Of the outputs.
    closed : tuple of str
        Dtypes of the inputs.
    signature : bytes
        The pickled `specialize.Signature`, for who asks for the specialization.
    """

    shapes: tuple[tuple[int, ...], ...]
    kernel: str
    checksum: str
    entry: str
    libraries: tuple[str, ...]
    code: bytes
    captured: tuple[int, ...]
    dtypes: tuple[str, ...]
    closed: tuple[str, ...]
    signature: bytes


class _Unknown(Exception):
    """What a function is made of cannot be written down."""


def compiler() -> str | None:
    """All that plans depend on of the compiler to use and of the machine; None without one."""
    try:
        tool = find_toolchain()
    except ElemcError:
        return None  # a setting is wrong: the first call says so
    return None if tool is None else tool.identity


def place_of(function: Any, identity: str | None) -> str | None:
    """The file of the plans of `function` for this compiler; None if it can have none."""
    if identity is None or STAMP is None:
        return None
    try:
        words = _Writer().graph(function.graph)
    except (_Unknown, KeyError, TypeError, ValueError, RecursionError):
        return None
    options = (function.order, function.modes, function.name, tuple(function.output_names),
               function.contract, function.reassociate)
    key = key_of(STAMP, identity, repr(options), *words)
    return os.path.join("plans", key[:2], key)


def held(place: str | None) -> tuple[Any, dict[bytes, list[Plan]]] | None:
    """What was said of the function itself, and its plans by the C's keys."""
    found = None if place is None else record(place)
    if found is None:
        return None
    about, rows = found
    plans: dict[bytes, list[Plan]] = {}
    for key, row in rows:
        plans.setdefault(key, []).append(Plan(*row))
    return about, plans


def keep(place: str | None, about: Any, key: bytes = b"", plan: Plan | None = None) -> None:
    """Keep a plan for other processes, unless this package changed since it was imported.

    Without a plan, keep what is said of the function: some are made and never called.
    """
    if place is None or stamp_now() != STAMP:
        return
    rows: list[Any] = (record(place) or (None, []))[1]
    if plan is not None:
        rest = [(k, row) for k, row in rows if (k, row[0]) != (key, plan.shapes)]
        rows = [(key, tuple(plan)), *rest[:CALLS - 1]]
    save_record(place, (about, rows))
    _bound(os.path.join(cache_dir(), os.path.dirname(place)))


def _bound(shelf: str) -> None:
    try:
        with os.scandir(shelf) as files:
            dated = sorted((-file.stat().st_mtime, file.path) for file in files)
        for _, path in dated[SHELF:]:
            os.unlink(path)
    except OSError:
        pass  # another process is at it


def plan_of(function: Any, closed: Closed, compiled: Compiled, signature: Signature,
            arrays: Sequence[np.ndarray], code: bytes) -> Plan | None:
    """The plan of a call that `compiled` served; None if it cannot be kept."""
    from .cache import checksum_of  # whoever has compiled it has this

    places = [c.array for c in function.graph.captured]
    used = [c.array for c in closed.graph.captured]
    known = checksum_of(compiled.kernel.path)
    if known is None or any(array not in places for array in used):
        return None
    return Plan(shapes(arrays), compiled.kernel.path.parent.name, known, compiled.kernel.entry,
                compiled.kernel.libraries, code, tuple(map(places.index, used)),
                tuple(str(o.dtype) for o in closed.graph.outputs),
                tuple(str(i.dtype) for i in closed.graph.inputs), pickle.dumps(signature))


def shapes(arrays: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    """The shapes of arrays and numbers."""
    return tuple(getattr(a, "shape", ()) for a in arrays)


_NAMES: dict[type, tuple[str, ...]] = {}


def _names(cls: Any) -> tuple[str, ...]:
    """The fields of a node that its value depends on."""
    if cls not in _NAMES:
        less = ("ident",) if cls is Input else ("rule", "structure") if cls is Custom else ()
        _NAMES[cls] = tuple(f.name for f in fields(cls) if f.name not in less)
    return _NAMES[cls]


class _Writer:
    """Writes down what a graph is made of; equal text means equal kernels."""

    def __init__(self) -> None:
        self.captured = 0
        self.known: dict[int, int] = {}  # functions by identity, which may call themselves

    def graph(self, graph: Graph) -> list[str]:
        nodes = toposort((*graph.inputs, *graph.outputs))
        place = {node: k for k, node in enumerate(nodes)}
        words = [f"{type(n).__name__}:" + ",".join(
            self.text(getattr(n, name), place) for name in _names(type(n))) for n in nodes]
        ends = [place[n] for n in graph.inputs], [place[n] for n in graph.outputs]
        return [*words, str(ends)]

    def text(self, value: Any, place: Mapping[Node, int] | None = None) -> str:
        if type(value) in PLAIN:
            return repr(value)
        if isinstance(value, Node):
            return f"@{(place or {})[value]}"
        if type(value) in (tuple, list, frozenset, dict):
            parts = sorted(value) if type(value) is frozenset else (
                value.items() if type(value) is dict else value)
            return f"{type(value).__name__}({','.join(self.text(v, place) for v in parts)})"
        if isinstance(value, np.dtype) and value.names is None:
            return f"dtype {value.str}"
        if isinstance(value, np.generic):
            return f"{value.dtype.str} {value.tobytes()!r}"
        if isinstance(value, (Axis, Pick, Only)):
            return repr(value)
        if isinstance(value, FrozenArray):
            return self.array(value.data)
        if isinstance(value, ScalarOp):
            return self.op(value)
        if isinstance(value, (Accumulator, Composite)):
            return self.accumulator(value)
        if isinstance(value, Part):
            return self.text(value.fn)
        if isinstance(value, GraphFunction):
            return f"{value.single} {self.graph(value.graph)}"
        if isinstance(value, Graph):
            return f"graph {self.graph(value)}"
        if isinstance(value, (Program, Adjoint)):  # of gradients
            parts = [getattr(value, f.name) for f in fields(value)]
            return f"{type(value).__name__} {self.text(parts)}"
        return self.code(value)

    def array(self, data: np.ndarray) -> str:
        self.captured += data.nbytes
        if self.captured > MOST_CAPTURED:
            raise _Unknown(data)
        return f"{data.dtype.str}{data.shape}{checksum(data.tobytes())}"

    def op(self, op: ScalarOp) -> str:
        if OPS.get(op.name) is op:
            return f"op {op.name}"
        rest = {f.name: getattr(op, f.name) for f in fields(op)
                if f.name not in ("numpy", "vjp", "domain", "_memo")}
        return f"user's {self.text({**rest, 'c': dict(op.c)})}"

    def accumulator(self, acc: Accumulator | Composite) -> str:
        if ACCUMULATORS.get(acc.name) is acc or acc is LOGADDEXP:
            return f"accumulator {acc.name}"
        rest = {f.name: getattr(acc, f.name) for f in fields(acc)
                if f.name not in ("adjoint", "reduce")}
        return f"user's {self.text(rest)}"

    def code(self, value: Any) -> str:
        """A function, by its code and all that this refers to; NumPy and elemc by their names."""
        if isinstance(value, ModuleType):
            home, found = value.__name__, sys.modules.get(value.__name__)
        else:
            home = getattr(value, "__module__", None) or "numpy"
            found = getattr(sys.modules.get(home), getattr(value, "__qualname__", ""), None)
        if found is not None and found is value and home.partition(".")[0] in HOMES:
            return f"{type(value).__name__} {home} {found.__name__}"
        if type(value) is not FunctionType:
            raise _Unknown(value)
        if id(value) in self.known:
            return f"function {self.known[id(value)]}"
        self.known[id(value)] = len(self.known)
        within = [cell.cell_contents for cell in value.__closure__ or ()]
        outer = {name: value.__globals__.get(name, getattr(builtins, name, None))
                 for name in _globals(value.__code__)}
        return self.text([_code(value.__code__), value.__defaults__, value.__kwdefaults__, within,
                          outer])


def _code(code: CodeType) -> list[Any]:
    consts = [_code(c) if isinstance(c, CodeType) else c for c in code.co_consts]
    return [code.co_code, consts, list(code.co_names), list(code.co_varnames), code.co_flags,
            code.co_argcount, code.co_kwonlyargcount]


def _globals(code: CodeType) -> list[str]:
    """Names that a function may look up in its module: attributes are among them."""
    inner = [name for c in code.co_consts if isinstance(c, CodeType) for name in _globals(c)]
    return sorted({*code.co_names, *inner})
