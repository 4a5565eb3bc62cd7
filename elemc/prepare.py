"""Kernels ahead of the calls that need them, those of several calls at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from .arguments import arguments_of
from .array import Array
from .errors import ArgumentError
from .threads import cpus


def prepare(name: str, traced: Callable[[tuple[Any, ...]], tuple[Any, Sequence[Any]]],
            calls: Sequence[tuple[Any, ...]]) -> None:
    """Compile what calls need; see `Function.prepare`.

    `traced` gives the function for arguments, and those of them that are arrays.

    Each kernel is a process of the C compiler: those share what CPUs there are, where one file of C
    for all keeps one busy, and every kernel has its own place in the cache, where whoever needs it
    alone finds it.  (Four softmaxes on two CPUs: 0.6 s so, 1.0 s in one file or one by one.)
    """
    for call in calls:
        if not isinstance(call, tuple):  # an array would be taken for its rows
            raise ArgumentError(f"{name}.prepare takes a tuple of arguments for each call, as in "
                                f"{name}.prepare((x, y), (x.T, y)), not {type(call).__name__}")
    meant = [traced(args) for args in calls]
    if meant and not meant[0][0]._has_compiler():
        return  # the interpreter needs none
    from concurrent.futures import ThreadPoolExecutor

    with contextlib.suppress(RuntimeError):  # no more threads: one by one, then
        with ThreadPoolExecutor(cpus()) as pool:
            for function, args in meant:
                pool.submit(_compile, function, args)
    for function, args in meant:
        _compile(function, args)  # it is there, or says what is wrong


def _compile(function: Any, args: Sequence[Any]) -> None:
    full = arguments_of(function.name, function.graph.inputs, tuple(args), {})
    if any(isinstance(a, Array) for a in full):
        return  # such a call gives an expression
    own = function._for_numbers(full)
    own.specialize(*own.example(full))
