"""Programs of several lines, and gradients, against NumPy and JAX: calls, and first calls."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .measure import Ratio, as_tuple, fault, interleaved, paired
from .program_list import PROGRAMS, Program

Call = Callable[[], Any]
SLACK = 99  # times the tolerance of the workloads: long programs gather errors


@dataclass
class Row:
    """The times of one program: seconds of calls, and of the first one."""

    name: str
    samples: dict[str, list[float]]
    first: dict[str, float]
    wrong: str

    def ratio(self, peer: str) -> Ratio:
        """How many times as long as elemc a peer takes."""
        return paired(np.array(self.samples[peer]), np.array(self.samples["elemc"]))

    def best(self) -> str:
        """The peer that is quickest."""
        others = {n: float(np.median(s)) for n, s in self.samples.items() if n != "elemc"}
        return min(others, key=others.__getitem__)


def operands(one: Program, elements: int, dtype: str) -> list[np.ndarray]:
    """Its arrays, of so many elements."""
    rng, found = np.random.default_rng(0), []
    scope = {"n": elements, "r": max(2, math.isqrt(elements))}
    for text in one.shapes:
        shape = eval(f"({text.removeprefix('+')},)", scope)
        drawn = rng.uniform(0.5, 1.5, shape) if text[0] == "+" else rng.normal(size=shape)
        found.append(drawn.astype(dtype))
    return found


def plain(one: Program, module: Any) -> Callable[..., Any]:
    """A program with as many named arguments as it has arrays."""
    names = ", ".join(f"x{k}" for k in range(len(one.shapes)))
    made: Callable[..., Any] = eval(f"lambda {names}: f(np, {names})",
                                    {"f": one.function, "np": module})
    return made


def with_elemc(one: Program, arrays: Sequence[np.ndarray]) -> Call:
    """A call of what elemc compiles."""
    import elemc

    compiled = elemc.compile(plain(one, np), name=one.name.split()[0])
    function = elemc.grad(compiled, one.wrt) if one.wrt else compiled
    return partial(function, *arrays)


def with_numpy(one: Program, arrays: Sequence[np.ndarray]) -> Call | None:
    """A call of it, but for gradients."""
    return None if one.wrt else partial(plain(one, np), *arrays)


def with_jax(one: Program, arrays: Sequence[np.ndarray]) -> Call:
    """A call of what JAX compiles, on arrays that it holds already."""
    from .contestants.jax_ import jax, jnp

    function = plain(one, jnp)
    compiled = jax.jit(jax.grad(function, one.wrt) if one.wrt else function)
    held = [jnp.asarray(array) for array in arrays]
    return lambda: jax.block_until_ready(compiled(*held))


PEERS = {"numpy": with_numpy, "jax": with_jax}


def times(elements: int, dtype: str, rounds: int, peers: Sequence[str]) -> Iterator[Row]:
    """Every program that a peer has, checked against all that have it."""
    for one in PROGRAMS.values():
        arrays = operands(one, elements, dtype)
        made = {name: PEERS[name](one, arrays) for name in peers}
        calls: dict[str, Call] = {"elemc": with_elemc(one, arrays)}
        calls |= {name: call for name, call in made.items() if call}
        if len(calls) == 1:
            continue
        first, answers = {}, {}
        with np.errstate(all="ignore"):
            for name, call in calls.items():
                start = time.perf_counter()
                answers[name] = call()
                first[name] = time.perf_counter() - start
        faults = (fault(answers["elemc"], as_tuple(answers[name]), slack=SLACK)
                  for name in answers if name != "elemc")
        wrong = next(filter(None, faults), "")
        yield Row(one.name, {} if wrong else interleaved(calls, rounds), first, wrong)


def summary(rows: Sequence[Row], peers: Sequence[str]) -> list[str]:
    """The rows, the worst first, and means."""
    from .report import short_time

    timed = sorted((row for row in rows if row.samples), key=lambda r: r.ratio(r.best()).median)
    lines = [f"wrong, not timed: {row.name}: {row.wrong}" for row in rows if row.wrong]
    for row in timed:
        peer, ratio = row.best(), row.ratio(row.best())
        first = ", ".join(f"{name} {row.first[name] * 1e3:.0f} ms" for name in row.first
                          if name != "numpy")
        lines.append(f"{ratio.median:7.2f} [{ratio.low:.2f}, {ratio.high:.2f}]  {row.name} "
                     f"({short_time(float(np.median(row.samples['elemc'])))}, {peer})  "
                     f"first call: {first}")
    for peer in peers:
        logs = [math.log(row.ratio(peer).median) for row in timed if peer in row.samples]
        if logs:
            mean, below = math.exp(np.mean(logs)), sum(x < 0 for x in logs)
            lines.append(f"{peer} takes {mean:.2f} times as long in the geometric mean of "
                         f"{len(logs)}; {below} below 1")
    both = [row for row in timed if "jax" in row.first]
    if both:
        taken = [sum(row.first[name] for row in both) for name in ("elemc", "jax")]
        lines.append(f"first calls, kernels in the cache or not: {taken[0]:.1f} s, of jax "
                     f"{taken[1]:.1f} s")
    return lines
