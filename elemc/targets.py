"""What the command line works on: a function in a file or a module, or an expression."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .arguments import sizes_of
from .dtypes import dtype_of
from .dump import dump
from .errors import ArgumentError, ElemcError, ModeError, ShapeError
from .function import Function, function, make_function
from .grads import gradient_of, vjp
from .parse import parse, parse_shape, parse_spec
from .tracing import TracedFunction

FILE = re.compile(r"(?P<place>.+\.py):(?P<name>[^\W\d]\w*(\.\w+)*)")
MODULE = re.compile(r"(?P<place>[^\W\d]\w*(\.\w+)*):(?P<name>[^\W\d]\w*(\.\w+)*)")


class Target:
    """A TARGET of the command line, under an order and a mode.

    Parameters
    ----------
    text : str
        FILE.py:NAME, MODULE:NAME, or an expression.
    order : {"f", "c"} or None
        None: that of the function; of an expression, "f".
    mode : str or None
        "broadcast" or "accumulate:NAME"; only for expressions.
    gradient : str or None
        "vjp", or "grad NAME": not the function itself, but this.

    Raises
    ------
    ArgumentError
        If there is no such file, module or name, or it is no compiled function.
    """

    def __init__(self, text: str, order: str | None = None, mode: str | None = None,
                 gradient: str | None = None) -> None:
        text = text.strip()
        self.text, self.order, self.mode, self.gradient = text, order, mode, gradient
        about = [*([f"order {order}"] if order else []), *([mode] if mode else []),
                 *([gradient] if gradient else [])]
        self.label = text + (f" ({', '.join(about)})" if about else "")
        self.found: Any = None
        if match := FILE.fullmatch(text):
            self.found = _attribute(_from_file(match["place"]), match["name"], text)
        elif match := MODULE.fullmatch(text):
            self.found = _attribute(_from_module(match["place"]), match["name"], text)
        if self.found is not None and not isinstance(self.found, (Function, TracedFunction)):
            raise ArgumentError(f"{text} is of type {type(self.found).__name__}, no compiled "
                                "function: make one with elemc.function or elemc.compile")
        if self.found is not None and mode is not None:
            raise ModeError(f"{text} has its modes already: --mode is for expressions")

    def dump(self, stage: str, specs: Mapping[str, str]) -> str:
        """The text of one stage, for C-contiguous inputs with these dtypes and ranks, or shapes."""
        parsed = {name: parse_spec(spec) for name, spec in specs.items()}
        shapes = {name: shape for name, spec in specs.items() if (shape := parse_shape(spec))}
        if self.found is None:
            whole = self.expression(specs)
        else:
            traced = isinstance(self.found, TracedFunction)
            whole = self.function_of({name: np.zeros((2,) * rank, dtype)
                                      for name, (dtype, rank) in parsed.items()} if traced else {})
        ranks = {i.name: i.ndim for i in whole.graph.inputs}
        for name, (_, rank) in parsed.items():
            if rank != ranks.get(name, rank):
                raise ShapeError(f"{whole.name}: {name} has rank {ranks[name]}, not {rank}")
        dtypes = {name: dtype for name, (dtype, _) in parsed.items()}
        target = self.derived(whole)
        if not shapes:
            return dump(target, (), stage, dtypes if isinstance(self.found, Function) else {})
        arrays = self.arrays_of(whole, dtypes, shapes)
        if target.nin > len(arrays):
            arrays = [*arrays, *_results(whole, arrays)][:target.nin]
        return dump(target, arrays, stage)

    def arrays_of(self, function: Function, dtypes: Mapping[str, np.dtype],
                  shapes: Mapping[str, tuple[int, ...]]) -> list[np.ndarray]:
        """Arrays for all inputs, of which nothing is ever read."""
        for node in function.graph.inputs:
            if node.ndim and node.name not in shapes:
                like = str((2,) * node.ndim if node.ndim < 5 else (node.ndim,)).replace(" ", "")
                raise ArgumentError(f"{self.text}: nothing says what shape {node.name} has: give "
                                    f"it, with a comma, --arg '{node.name}:"
                                    f"{node.dtype or 'float64'}[{like[1:-1]}]'")
        try:
            return [np.empty(shapes.get(i.name, ()), dtypes.get(i.name, i.dtype or np.float64))
                    for i in function.graph.inputs]
        except (MemoryError, ValueError) as error:
            raise ArgumentError(f"{self.text}: there is no room for such shapes: {error}") from None

    def function_of(self, arrays: Mapping[str, np.ndarray]) -> Function:
        """The function for arrays of these dtypes and ranks, by input name."""
        if self.found is None:
            return self.expression({
                name: f"{dtype_of(a.dtype).name}[{a.ndim}]" for name, a in arrays.items()})
        found = self.found
        if isinstance(found, TracedFunction):
            needed = [n for n, p in found.__signature__.parameters.items() if p.default is p.empty
                      and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
            if missing := [n for n in needed if n not in arrays]:
                raise ArgumentError(f"{self.text}: nothing says what {', '.join(missing)} "
                                    f"{'is' if len(missing) == 1 else 'are'}: give dtype and rank, "
                                    f"or shape, --arg '{missing[0]}:float64[2]'")
            found = found.trace(**arrays)
        return found if self.order in (None, found.order) else self.reordered(found)

    def expression(self, specs: Mapping[str, str]) -> Function:
        """The function of an expression whose inputs have these dtypes and ranks."""
        inputs, outputs = parse(self.text, dict(specs))
        kind, _, name = (self.mode or "broadcast").partition(":")
        if kind not in ("broadcast", "accumulate") or (kind == "accumulate") != bool(name):
            raise ModeError(f"unknown mode {self.mode!r}: it is broadcast or accumulate:NAME, as "
                            "in accumulate:sum")
        mode: Any = ("accumulate", name) if name else "broadcast"
        return function(inputs, outputs, mode, self.order or "f")

    def derived(self, found: Function) -> Function:
        """The function itself, or its gradient if that was asked for."""
        kind, _, name = (self.gradient or "").partition(" ")
        if kind == "vjp":
            found = vjp(found)
        return gradient_of(found, name) if kind == "grad" else found

    def reordered(self, found: Function) -> Function:
        """A function under another order than the one it was built with."""
        if any(mode != "broadcast" for mode in found.modes):
            raise ModeError(f"{self.text} accumulates under order {found.order}, which cannot be "
                            "changed afterwards")
        return make_function(found.graph, self.order, found.modes, found.single, found.name, None,
                             found._structure, found.contract, found.reassociate)


def _results(function: Function, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Arrays as a call on `arrays` gives them: cotangents are like these."""
    closed, _ = function.example(arrays)
    sizes = sizes_of(function.name, closed, arrays)
    return [np.empty([sizes[e] for e in closed.extents.of[o]], o.dtype)
            for o in closed.graph.outputs]


def _from_file(file: str) -> Any:
    path = Path(file)
    if not path.is_file():
        raise ArgumentError(f"there is no file {file}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    loader = spec.loader
    _guarded(lambda: loader.exec_module(module), file, str(path.absolute().parent))
    return module


def _from_module(name: str) -> Any:
    return _guarded(lambda: importlib.import_module(name), name, os.getcwd())


def _guarded(load: Callable[[], Any], what: str, directory: str) -> Any:
    """Run the user's module, beside its neighbours; what it raises becomes a message."""
    sys.path.insert(0, directory)
    try:
        return load()
    except ElemcError:
        raise
    except (Exception, SystemExit) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise ArgumentError(f"{what} cannot be loaded: {type(error).__name__}: {error} "
                            f"(at {last.filename}:{last.lineno})") from None
    finally:
        sys.path.remove(directory)


def _attribute(module: Any, name: str, text: str) -> Any:
    for part in name.split("."):
        if not hasattr(module, part):
            known = [n for n, v in vars(module).items()
                     if isinstance(v, (Function, TracedFunction))]
            raise ArgumentError(f"{text}: there is no {part}; compiled functions: "
                                f"{', '.join(known) or 'none'}")
        module = getattr(module, part)
    return module
