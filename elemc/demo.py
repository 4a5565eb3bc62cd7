"""`elemc demo`: compile, run, check, compare."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .tracing import compile

ROWS, COLUMNS, REPEATS = 4000, 500, 7


def softmax(x: Any) -> Any:
    """Softmax of every row, in NumPy's words."""
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def demo() -> int:
    """Show the C of a row softmax and how it compares with NumPy; returns the exit status."""
    fast = compile(softmax)
    x = np.random.default_rng(0).standard_normal((ROWS, COLUMNS))
    start = time.perf_counter()
    result = fast(x)
    first = time.perf_counter() - start
    print(fast.dump(x), end="\n\n")
    print(f"softmax over the rows of {ROWS} x {COLUMNS} doubles, median of {REPEATS} calls")
    difference = float(np.max(np.abs(result / softmax(x) - 1)))
    right = difference < 1e-12
    verdict = "agrees with NumPy" if right else "DIFFERS FROM NUMPY"
    print(f"{verdict}: largest relative difference {difference:.1e}")
    ours, theirs = _median(lambda: fast(x, out=result)), _median(lambda: softmax(x))
    print(f"NumPy        {1e3 * theirs:8.2f} ms")
    print(f"elemc        {1e3 * ours:8.2f} ms   {theirs / ours:.1f} times as fast")
    print(f"first call   {1e3 * first:8.2f} ms   with tracing and compiling, or the cache")
    return 0 if right else 1


def _median(call: Callable[[], Any]) -> float:
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
