"""The first call of a fresh process, compiler and all, of every contestant that compiles.

`python -m bench.first_calls CONTESTANT WORKLOAD THREADS` is the child process that measures one and
prints JSON.  Its caches are in a directory of its own: empty ("cold"), or as the process before
left it ("warm").  What elemc builds once per machine, its runtime and call path, is in it before.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

COMPILING = ("elemc", "jax", "numba", "pytensor", "torch_compile")
WORKS = ("poly", "layer_norm", "layer_norm_grad")
BEFORE = "madd"  # what elemc compiles to have its runtime
SIZE = 100_000  # elements


@dataclass(frozen=True)
class First:
    """Milliseconds of one contestant's start: of its import after NumPy's, and of first calls."""

    contestant: str
    workload: str
    imported: float
    cold: float
    warm: float


def times(names: Sequence[str], works: Sequence[str], threads: int,
          rounds: int) -> Iterator[First]:
    """Measure fresh processes in turn, in a new order each round; medians."""
    for work in works:
        runs: dict[str, list[tuple[dict[str, float], dict[str, float]]]] = {n: [] for n in names}
        for _ in range(rounds):
            for name in random.sample(names, len(names)):
                runs[name].append(_cold_and_warm(name, work, threads))
        for name, pairs in runs.items():
            yield First(name, work, *(statistics.median(values) * 1e3 for values in (
                [warm["import"] for _, warm in pairs], [cold["first"] for cold, _ in pairs],
                [warm["first"] for _, warm in pairs])))


def _cold_and_warm(name: str, work: str, threads: int) -> tuple[dict[str, float], dict[str, float]]:
    with tempfile.TemporaryDirectory() as directory:
        if name == "elemc":
            _process(name, BEFORE, threads, directory)
        return (_process(name, work, threads, directory), _process(name, work, threads, directory))


def _process(name: str, work: str, threads: int, directory: str) -> dict[str, float]:
    """What one fresh process says, whose caches are in `directory`; with bytecode."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.first_calls", name, work, str(threads)],
        capture_output=True, text=True, check=False, env=_environment(Path(directory)))
    if done.returncode:
        raise RuntimeError(f"the process of {name} failed:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _environment(directory: Path) -> dict[str, str]:
    """Every contestant keeps there what it compiles, however small."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return kept | {
        "ELEMC_CACHE_DIR": str(directory / "elemc"),
        "JAX_COMPILATION_CACHE_DIR": str(directory / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "NUMBA_CACHE_DIR": str(directory / "numba"),
        "PYTENSOR_FLAGS": f"base_compiledir={directory / 'pytensor'}",
        "TORCHINDUCTOR_CACHE_DIR": str(directory / "torch"),
    }


def child(name: str, work: str, threads: int) -> dict[str, float]:
    """Seconds of a contestant's import, and from the code of a function to its first result."""
    from .workloads import WORKLOADS, operands

    workload = WORKLOADS[work]
    arrays = operands(workload, SIZE, "float64")
    start = perf_counter()
    from . import contestants

    found, missing = contestants.load([name], threads)
    if missing:
        raise ImportError(missing[name])
    imported = perf_counter()
    call = found[name].prepare(workload, arrays, None)
    if call is None:
        raise ValueError(f"{name} has no {work}")
    call()
    return {"import": imported - start, "first": perf_counter() - imported}


if __name__ == "__main__":
    print(json.dumps(child(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
