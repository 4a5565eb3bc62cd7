"""`elemc.compile`: NumPy code, traced once per dtypes and ranks."""

from __future__ import annotations

import enum
import functools
import inspect
import itertools
import sys
import time
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .accumulators import Accumulator
from .array import Array
from .constructors import new_input
from .dtypes import PYTHON_NUMBERS, as_array, dtype_of, number_dtype
from .errors import ArgumentError, DtypeError, ElemcError, TraceError
from .function import Function, make_function
from .graph import Graph, Input, toposort
from .indexing import OF_SIZES
from .node import user_line
from .tracing_results import flatten

# Settings, as functions are: static without being named so, for they are no arrays.
SETTINGS = (type(None), str, bytes, np.dtype, enum.Enum, Accumulator)
FIXED = {type(None), bool, int, float, complex, str, bytes, type}
PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def compile(fn: Callable[..., Any] | None = None, *, static: str | Sequence[str] = (),
            order: str = "f", name: str | None = None, contract: bool = False,
            reassociate: bool = False) -> Any:
    """Compile a Python function of NumPy arrays.

    The function is run once, on symbolic arrays, for every combination of dtypes and ranks that
    it is called with; what it does to them is compiled.

    Parameters
    ----------
    fn : callable
        NumPy code.  It returns an array, or a tuple, list or dict of arrays.
    static : str or sequence of str
        Arguments that are no arrays (an axis, a flag, a method's self): the function is traced
        once per value, which must be hashable.  None, strings, dtypes, enums, functions and
        accumulators need no naming, nor does what is left at its default, arrays apart.
    order : {"f", "c"}
        Which ends of two shapes align.
    name : str, optional
        Default: the function's own.
    contract, reassociate : bool
        See `elemc.function`.

    Returns
    -------
    TracedFunction
        Called as `fn`, and with `out=`, `where=` and `req=` as a ufunc.

    Raises
    ------
    TraceError
        On a call, if the function asks for an array's value, as a branch does.
    """
    if fn is None:
        return functools.partial(compile, static=static, order=order, name=name,
                                 contract=contract, reassociate=reassociate)
    names = (static,) if isinstance(static, str) else tuple(static)
    return make_traced(fn, names, order, name or str(getattr(fn, "__name__", "f")),
                       (contract, reassociate))


def make_traced(*args: Any) -> TracedFunction:
    """A `TracedFunction` of these arguments, with the fastest call path of this machine."""
    from . import fastcall  # as in `function`

    made: TracedFunction = fastcall.fastest("Dispatcher", TracedFunction)(*args)
    return made


def signature_of(fn: Callable[..., Any]) -> inspect.Signature:
    """The signature of `fn`; an operation, as a ufunc is, has its operands for arguments."""
    count = getattr(fn, "nin", None)
    if not isinstance(count, int):
        return inspect.signature(fn)
    kind = inspect.Parameter.POSITIONAL_ONLY
    return inspect.Signature([inspect.Parameter(f"x{k}", kind) for k in range(count)])


class TracedFunction:
    """A Python function that is compiled for the dtypes and ranks it is called with."""

    def __init__(self, fn: Callable[..., Any] | None, static: tuple[str, ...], order: str,
                 name: str, opts: tuple[bool, bool], traced: dict[Any, Function] | None = None,
                 signature: inspect.Signature | None = None, doc: str | None = None) -> None:
        if fn is not None:
            functools.update_wrapper(self, fn)  # and its attributes, name and all
            signature = signature_of(fn)
            doc = fn.__doc__
        self.static, self.order, self.name, self._opts = static, order, name, opts
        assert signature is not None
        self._fn, self._signature = fn, signature
        self.__name__, self.__doc__ = name, doc
        unknown = [s for s in static if s not in signature.parameters]
        if unknown:
            raise ArgumentError(f"{name} has no argument {', '.join(unknown)} to be static")
        self._traced = traced or {}
        self.__signature__ = signature
        self._kept = {  # whose defaults are arguments: arrays, which are read at every call
            n for n, p in signature.parameters.items() if isinstance(p.default, (np.ndarray, list))
            or n in static and not any(p.default is v for v in (p.empty, np._NoValue))}
        self._places = [*itertools.takewhile(  # the names of the arguments that have places
            lambda n: signature.parameters[n].kind in PLACED, signature.parameters)]

    def __call__(self, *args: Any, out: Any = None, where: Any = True, req: Any = None,
                 **named: Any) -> Any:
        """Call the compiled function; trace it first if these dtypes and ranks are new."""
        bound = self._bind(args, named)
        arrays = self._arrays(bound)
        function = self._function(bound, arrays)
        if _symbolic(arrays) or function.nin > len(arrays):  # its order is its own
            free = function.graph.inputs[len(arrays):]
            return function.inline([*(a for _, a in arrays), *map(Array, free)])
        result = function(*(a for _, a in arrays), out=out, where=where, req=req)
        self._learn(args, named, bound, function, [a for _, a in arrays])
        return result

    def _learn(self, args: tuple[Any, ...], named: Mapping[str, Any], bound: inspect.BoundArguments,
               function: Function, arrays: Sequence[Any]) -> None:
        """Register a call whose arguments take the first places, one after the other."""
        static, kinds = self._static(bound), self._signature.parameters
        by_name = self._places[len(args):len(args) + len(named)]
        if {*by_name} != {*named} or any(
                n in static and kinds[n].kind is inspect.Parameter.VAR_POSITIONAL for n in kinds):
            return
        given = (*args, *(named[n] for n in by_name))
        settings = [k for k, (n, _) in enumerate(zip(self._places, given, strict=False))
                    if n in static]
        if all(_is_fixed(given[k]) for k in settings):
            rest = tuple(arrays[len(given) - len(settings):])
            self._register(given, sum(1 << k for k in settings), function, rest)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A method, whose first argument has to be static."""
        return self if instance is None else types.MethodType(self, instance)

    _call = __call__  # what the call path in C leaves to Python

    def _register(self, args: tuple[Any, ...], settings: int, function: Function,
                  rest: tuple[Any, ...]) -> None:
        """Hear of a call that `function(*args, *rest)` serves, without the settings among `args`.

        These have the bits of `settings`; see `fastcall`.
        """

    def traced(self, args: tuple[Any, ...], named: Mapping[str, Any]
               ) -> tuple[Function, list[Any]]:
        """The compiled function for arguments like these, and those of them that are arrays."""
        bound = self._bind(args, named)
        arrays = self._arrays(bound)
        return self._function(bound, arrays), [a for _, a in arrays]

    def trace(self, *args: Any, **named: Any) -> Function:
        """The compiled function for arguments like these."""
        return self.traced(args, named)[0]

    def dump(self, *args: Any, stage: str = "c", **named: Any) -> str:
        """The text of one stage for arguments like these; see `Function.dump`."""
        function, arrays = self.traced(args, named)
        return function.dump(*arrays, stage=stage)

    def prepare(self: Any, *calls: tuple[Any, ...], **named: Any) -> None:
        """Trace and compile for several calls, all with `named`; see `Function.prepare`."""
        from .prepare import prepare

        prepare(self.__name__, lambda args: self.traced(args, named), calls)

    def profile(self, *args: Any, repeats: int = 20, **named: Any) -> Any:
        """Measure the kernel of a call with these arguments; see `Function.profile`."""
        function, arrays = self.traced(args, named)
        return function.profile(*arrays, repeats=repeats)

    @property
    def specializations(self) -> list[Any]:
        """The kernels compiled so far."""
        return [s for f in self._traced.values() for s in f.specializations]

    def __repr__(self) -> str:
        return f"<elemc compile {self.name}{self._signature}, {len(self._traced)} traced>"

    def _bind(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> inspect.BoundArguments:
        parameters = self._signature.parameters
        unknown = [n for n in named if n not in parameters]
        if unknown and all(p.kind is not p.VAR_KEYWORD for p in parameters.values()):
            raise ArgumentError(f"{self.name} has no argument {unknown[0]}; it has "
                                f"{', '.join(parameters)}")
        try:
            bound = self._signature.bind(*args, **named)
        except TypeError as error:
            raise ArgumentError(f"{self.name}: {error}") from None
        given = bound.arguments  # other defaults are left to the function
        bound.arguments = {n: given.get(n, p.default) for n, p in parameters.items()
                           if n in given or n in self._kept}
        return bound

    def _static(self, bound: inspect.BoundArguments) -> dict[str, Any]:
        """The arguments that are looked at while tracing."""
        return {n: v for n, v in bound.arguments.items()
                if n in self.static or isinstance(v, SETTINGS) or callable(v)}

    def _arrays(self, bound: inspect.BoundArguments) -> list[tuple[str, Any]]:
        """The arguments that are arrays, flattened, with names."""
        found: list[tuple[str, Any]] = []
        static = self._static(bound)
        for name, value in bound.arguments.items():
            if name in static:
                continue
            kind = self._signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                found += [(f"{name}{k}", v) for k, v in enumerate(value)]
            elif kind is inspect.Parameter.VAR_KEYWORD:
                found += list(value.items())
            else:
                found.append((name, value))
        return [(n, _array(self.name, n, v)) for n, v in found]

    def _function(self, bound: inspect.BoundArguments, arrays: list[tuple[str, Any]]) -> Function:
        # 1, 1.0 and True are equal, so are 0.0 and -0.0, and mean different code
        static = tuple((n, type(v), v, str(v) if isinstance(v, float) else "")
                       for n, v in self._static(bound).items())
        for name, _, value, _ in static:
            try:
                hash(value)
            except TypeError:
                raise ArgumentError(
                    f"{self.name}: the static argument {name} is {type(value).__name__}, "
                    "which is not hashable") from None
        key = (static, tuple((n, *_kind(a)) for n, a in arrays))
        function = self._traced.get(key)
        if function is None:
            start = time.perf_counter()
            function = self._trace(bound, arrays)
            function.trace_seconds = time.perf_counter() - start
            if function.nin == len(arrays):
                self._traced[key] = function
        return function

    def _trace(self, bound: inspect.BoundArguments, arrays: list[tuple[str, Any]]) -> Function:
        inputs = [new_input(n, *_kind(a)) for n, a in arrays]
        rest, static = iter(inputs), self._static(bound)
        args = inspect.BoundArguments(self._signature, dict(bound.arguments))
        for name, value in bound.arguments.items():
            if name in static:
                continue
            kind = self._signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL and not value:
                del args.arguments[name]  # what comes before may have been left out
            elif kind is inspect.Parameter.VAR_POSITIONAL:
                args.arguments[name] = tuple(next(rest) for _ in value)
            elif kind is inspect.Parameter.VAR_KEYWORD:
                args.arguments[name] = {k: next(rest) for k in value}
            else:
                args.arguments[name] = next(rest)
        try:
            result = self._python()(*args.args, **args.kwargs)
        except ElemcError as error:
            error.locate(user_line(error.__traceback__))
            if error.args and not str(error.args[0]).startswith(f"{self.name}: "):
                error.args = (f"{self.name}: {error.args[0]}", *error.args[1:])
            raise
        except TypeError as error:
            if "<elemc " not in str(error):
                raise
            made = TraceError(f"{self.name}: {error}; sizes are known only when the compiled "
                              f"function is called: {OF_SIZES}")
            made.locate(user_line(error.__traceback__))
            raise made from error
        leaves, structure = flatten(result, self.name)
        ends = [i.node for i in inputs]  # and symbols of another trace that this one closes over
        ends += [n for n in toposort(leaves) if isinstance(n, Input) and n not in ends]
        graph = Graph(tuple(ends), tuple(leaves))  # type: ignore[arg-type]
        return make_function(graph, self.order, ("broadcast",) * len(leaves), structure is None,
                             self.name, self.__doc__, structure, *self._opts)

    def _python(self) -> Callable[..., Any]:
        if self._fn is None:
            raise TraceError(f"{self.name} was unpickled without its Python code: it can be called "
                             "with dtypes and ranks it had been called with, and no others")
        return self._fn

    def __reduce__(self) -> Any:
        module = sys.modules.get(getattr(self, "__module__", ""))
        name = getattr(self, "__qualname__", self.name)
        # another process may have another __main__: once there are graphs, they are safer
        main = module is not None and module.__name__ == "__main__" and self._traced
        if not main and _lookup(module, name) is self:
            return name
        return make_traced, (None, self.static, self.order, self.name, self._opts,
                             self._traced, self._signature, self.__doc__)


def _lookup(module: Any, qualified: str) -> Any:
    for part in qualified.split("."):
        module = getattr(module, part, None)
    return module


def _array(function: str, name: str, value: Any) -> Any:
    if isinstance(value, Array):
        return value
    try:
        if type(value) in PYTHON_NUMBERS:
            number_dtype(value)  # or it is too large
            return value
        array = as_array(value)
    except (ArgumentError, DtypeError) as error:
        raise type(error)(f"{function}: argument {name}: {error}") from None
    if array.dtype.kind not in "biufc":
        what = f"an array of {array.dtype}" if isinstance(value, np.ndarray) else (
            f"{type(value).__name__}, not an array")
        advice = f"if it is a setting, compile with static={name!r}"
        if isinstance(value, (dict, set)):
            advice = "pass its values as arguments"
        elif isinstance(value, np.ndarray):
            advice = "elemc computes with bools, integers, and real and complex numbers"
        raise ArgumentError(f"{function}: argument {name} is {what}; {advice}")
    if array.dtype.char in "gG":  # long doubles, and complex ones
        raise DtypeError(f"{function}: argument {name}: elemc has no dtype {array.dtype}; convert "
                         f"it to {'float64' if array.dtype.char == 'g' else 'complex128'}")
    return array


def _is_fixed(value: Any) -> bool:
    """Whether a setting remains the value that it is, as long as it is the same object."""
    kind: Any = type(value)  # whose hash, if it is object's, is that of the object itself
    return kind.__hash__ is object.__hash__ or kind in FIXED or isinstance(
        value, (np.generic, np.dtype, enum.Enum)) or (
        kind is tuple and all(map(_is_fixed, value)))


def _symbolic(arrays: Iterable[tuple[str, Any]]) -> bool:
    return any(isinstance(a, Array) for _, a in arrays)


def _kind(value: Any) -> tuple[int, np.dtype | None, bool]:
    """Rank, dtype, and whether it is a Python number, whose dtype gives way."""
    if type(value) in PYTHON_NUMBERS:
        return 0, number_dtype(value), True
    if isinstance(value, Array):
        return value.ndim, value.dtype, bool(getattr(value.node, "weak", False))
    return value.ndim, dtype_of(value.dtype), False
