"""Where the time of a call goes: what `f.profile(...)` measures, and how near it is to the machine.

Each phase of the kernel runs alone on one thread, again and again on the same arrays, and is
compared with what it has to do at least (`counts`) and what the machine can do at most
(`machine`): the roofline model of Williams, Waterman and Patterson (CACM 52, 2009).
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import compiler, runtime
from .arguments import arguments_of, array_of, known, sizes_of
from .compiler import Closed, Compiled
from .counts import Counts, counts_of, distinct_elements
from .errors import ArgumentError
from .machine import Level, Machine, aligned, size_text, this_machine
from .specialize import Signature
from .threads import number_of_threads

HEAD = ("phase", "loops", "elements", "best", "median", "bytes", "flop", "GB/s", "of",
        "Gflop/s", "of peak", "bound by")
EARLIER = "; the kernel was in the cache, compiled earlier"


@dataclass(frozen=True)
class PhaseProfile:
    """One phase of a kernel, measured.

    Attributes
    ----------
    counts : Counts
        Elements, bytes and operations.
    best, median : float
        Seconds, of all repeats.
    level : Level
        The cache, or memory, that holds what the kernel works on.
    machine : Machine
        What the fractions are of.
    """

    counts: Counts
    best: float
    median: float
    level: Level
    machine: Machine

    @property
    def bandwidth(self) -> float:
        """Bytes per second."""
        return self.counts.bytes / self.best

    @property
    def rate(self) -> float:
        """Operations per second, in additions."""
        return self.counts.flops / self.best

    @property
    def memory_seconds(self) -> float:
        """How long its bytes take at the measured bandwidth."""
        written = self.counts.written / max(1, self.counts.bytes)
        return self.counts.bytes / self.machine.bandwidth(self.level, written)

    @property
    def compute_seconds(self) -> float:
        """How long its operations take at the measured vector peaks."""
        return (self.counts.flops32 / self.machine.peak_float32
                + self.counts.flops64 / self.machine.peak_float64)

    @property
    def of_bandwidth(self) -> float:
        """The fraction of the measured bandwidth that is reached."""
        return self.memory_seconds / self.best

    @property
    def of_peak(self) -> float:
        """The fraction of the measured vector peak that is reached."""
        return self.compute_seconds / self.best

    @property
    def bound(self) -> str:
        """What bounds it: "memory" or "compute"."""
        return "memory" if self.memory_seconds >= self.compute_seconds else "compute"


@dataclass(frozen=True)
class Profile:
    """What `f.profile(...)` returns; `print` shows it as a table.

    Attributes
    ----------
    name : str
        Of the function, with its signature.
    phases : tuple of PhaseProfile
    working_set : int
        Bytes that all phases together read and write.
    repeats : int
    call : float
        Seconds of a whole call that is given its outputs, the best of all repeats.
    threads : int
        How many of them a call may use.
    stages : dict of str to float or None
        Seconds of tracing the Python code (None: there was none), of the stages that close the
        graph, schedule and emit it, of the C compiler, of having the libraries that the kernel
        calls, which are compiled beside it, and of storing and loading it.
        Tracing and the last three took so long when they ran; the others have been done again.
    cached : bool
        Whether the machine code was there before this process asked for it.
    machine : Machine
    """

    name: str
    phases: tuple[PhaseProfile, ...]
    working_set: int
    repeats: int
    call: float
    threads: int
    stages: dict[str, float | None]
    cached: bool
    machine: Machine

    def __str__(self) -> str:
        rows = [list(HEAD)]
        for number, p in enumerate(self.phases):
            rows.append([
                str(number), ", ".join(p.counts.axes) or "-", f"{p.counts.elements:,}",
                seconds_text(p.best), seconds_text(p.median), size_text(p.counts.bytes),
                _thousands(p.counts.flops), f"{p.bandwidth / 1e9:.1f}",
                f"{p.level.name} {p.of_bandwidth:.0%}", f"{p.rate / 1e9:.1f}", f"{p.of_peak:.0%}",
                p.bound])
        upto = "one thread" if self.threads == 1 else f"up to {self.threads} threads"
        stages = ", ".join(f"{stage} {seconds_text(t)}" for stage, t in self.stages.items()
                           if t is not None)
        return "\n".join([
            f"{self.name}: {self.repeats} runs of each phase on one thread",
            *aligned(rows),
            f"works on {size_text(self.working_set)}; flop counts operations by their weight in "
            "additions",
            f"a call into given outputs: {seconds_text(self.call)} on {upto}",
            f"before the first call: {stages}{EARLIER if self.cached else ''}"])

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw the phases below the roofs of this machine; needs `elemc[plot]`.

        Parameters
        ----------
        path : str or Path, optional
            Where to save the figure; its suffix says in which format.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        ArgumentError
            If matplotlib is not installed.
        """
        from .profile_plot import roofline

        points = [(f"phase {k}", p.counts.flops / p.counts.bytes, p.rate)
                  for k, p in enumerate(self.phases) if p.counts.bytes and p.counts.flops]
        return roofline(self.name, points, self.machine, path)


def profile(function: Any, args: Sequence[Any], repeats: int = 20) -> Profile:
    """Measure a call of `function`, a `Function`, on these arguments; see `Profile`.

    The answers go to outputs of its own.

    Raises
    ------
    ArgumentError
        If `repeats` is not a positive integer.
    CompileError
        If there is no C compiler.
    """
    if not isinstance(repeats, int) or isinstance(repeats, bool) or repeats < 1:
        raise ArgumentError(f"{function.name}.profile: repeats is a positive integer, not "
                            f"{repeats!r}")
    full = arguments_of(function.name, function.graph.inputs, tuple(args), {})
    own = function._for_numbers(full)
    closed, signature = own.example(full)
    arrays = [array_of(own.name, i, a) for i, a in zip(own.graph.inputs, full, strict=True)]
    sizes = sizes_of(own.name, closed, arrays)
    compiled = own.specialize(closed, signature)
    operands = [*arrays, *(c.array.data for c in closed.graph.captured)]
    outs = []
    for place, node in enumerate(closed.graph.outputs, len(operands)):
        shape = [sizes[e] for e in closed.extents.of[node]]
        perm = compiled.spec.operands[place].layout.perm
        outs.append(runtime.allocate(shape, known(node), perm, False))
    times = _times(own, runtime.bind(
        compiled, [*operands, *outs], sizes, closed.extents.program, most_threads=1), repeats)
    out = outs[0] if own.single else tuple(outs)
    call = min(_seconds(lambda: function(*full, out=out)) for _ in range(repeats + 1))
    stages, kernel = _stages(own, closed, signature, compiled)
    counts, whole = counts_of(kernel, closed.extents.program, sizes,
                              [distinct_elements(a) for a in (*operands, *outs)])
    machine = this_machine()
    level = machine.level(whole.bytes)
    return Profile(
        f"{own.name}{own.signature}",
        tuple(PhaseProfile(c, min(t), statistics.median(t), level, machine)
              for c, t in zip(counts, times, strict=True)),
        whole.bytes, repeats, call, number_of_threads(), stages, compiled.kernel.cached, machine)


def _times(function: Any, phases: Sequence[Callable[[], int]],
           repeats: int) -> list[list[float]]:
    """The seconds of every run of every phase, after one to warm up."""
    for phase in phases:
        if status := phase():
            runtime.fail(status, function)
    times: list[list[float]] = [[] for _ in phases]
    for _ in range(repeats):
        for phase, found in zip(phases, times, strict=True):
            found.append(_seconds(phase))
    return times


def _stages(function: Any, closed: Closed, signature: Signature,
            compiled: Compiled) -> tuple[dict[str, float | None], Any]:
    """The seconds of the stages before the first call, and the loop nests."""
    from .emit import emit

    found: list[Any] = []
    dtypes = {i: known(c) for i, c in
              zip(function.graph.inputs, closed.graph.inputs, strict=True)}
    close = _seconds(lambda: found.append(compiler.close_function(
        closed.name, closed.written, closed.order, closed.modes, function.input_names,
        closed.output_names, dtypes, closed.loose)))
    schedule = _seconds(lambda: found.append(compiler.nests(found[0], signature)))
    kernel = found[1][1]
    written = _seconds(lambda: emit(kernel, compiled.source.entry, closed.banner))
    made, load = _compiled_in(compiled), compiled.kernel.seconds
    if not compiled.kernel.cached and made is not None:
        load = max(0.0, load - made)
    return {"trace": function.trace_seconds, "close": close, "schedule": schedule,
            "emit": written, "compile": made, "libraries": compiled.kernel.waited,
            "load": load}, kernel


def _compiled_in(compiled: Compiled) -> float | None:
    """How many seconds the C compiler took, whenever that was; None if nothing says so."""
    try:
        held = json.loads(compiled.kernel.path.with_name("meta.json").read_bytes())
        return float(held["seconds"])
    except (OSError, ValueError, TypeError, KeyError):
        return None  # the entry is gone by now


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return max(time.perf_counter() - start, 1e-9)


def seconds_text(seconds: float) -> str:
    """A time for people."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def _thousands(count: int) -> str:
    power = 0 if count < 1000 else min(4, int(math.log10(count)) // 3)
    return f"{count / 1000 ** power:.3g}{('', ' k', ' M', ' G', ' T')[power]}"
