"""Kernels ahead of the calls that need them, those of several calls at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .arguments import arguments_of
from .errors import ArgumentError
from .threads import cpus


def check_calls(name: str, calls: Sequence[Any]) -> None:
    """Every call is a tuple of arguments; an array alone would be taken for its rows."""
    for call in calls:
        if not isinstance(call, (tuple, list)):
            raise ArgumentError(f"{name}.prepare takes a tuple of arguments for each call, as in "
                                f"{name}.prepare((x, y), (x.T, y)), not {type(call).__name__}")


def prepare(calls: Sequence[tuple[Any, Sequence[Any]]]) -> None:
    """Compile what calls of functions need; see `Function.prepare`.

    Each kernel is a process of the C compiler: those share what CPUs there are, where one file of C
    for all keeps one busy, and every kernel has its own place in the cache, where whoever needs it
    alone finds it.  (Four softmaxes on two CPUs: 0.6 s so, 1.0 s in one file or one by one.)
    """
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(cpus()) as pool:
        for begun in [pool.submit(_compile, function, args) for function, args in calls]:
            begun.result()


def _compile(function: Any, args: Sequence[Any]) -> None:
    full = arguments_of(function.name, function.graph.inputs, tuple(args), {})
    own = function._for_numbers(full)
    closed, signature = own.example(full)
    if own._has_compiler():
        own.specialize(closed, signature)
