"""What elemc costs besides the loops: a call, a compilation, a start of the process.

`python -m bench.startup` is the child process that measures one start and prints JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from time import perf_counter
from timeit import Timer
from typing import Any


def child() -> dict[str, float]:
    """Seconds of the import, and of the first calls of three functions, the last one with `exp`."""
    t0 = perf_counter()
    import numpy as np

    t1 = perf_counter()
    import elemc

    t2 = perf_counter()
    x = np.linspace(0, 1, 8)
    elemc.compile(lambda x, y: x * y + 1)(x, x)
    t3 = perf_counter()
    elemc.compile(lambda x, y: x * y + (x - y) / (x * x + 1))(x, x)
    t4 = perf_counter()
    elemc.compile(lambda x, y: np.exp(x) * y)(x, x)
    t5 = perf_counter()
    return {"numpy": t1 - t0, "import": t2 - t1, "first": t3 - t2, "second": t4 - t3,
            "math": t5 - t4}


def start(cache: str) -> dict[str, float]:
    """Measure one fresh process with this cache, and with bytecode, as installed packages have."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-m", "bench.startup"], capture_output=True, text=True, check=False,
        env=env | {"ELEMC_CACHE_DIR": cache},
    )
    if done.returncode:
        raise RuntimeError(f"the measured process failed:\n{done.stderr}")
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def call_costs(rounds: int) -> list[tuple[str, float, str]]:
    """Microseconds of calls on 8 elements, against NumPy's own given multiply."""
    import numpy as np

    import elemc

    x, y, z, out = (np.linspace(0, 1, 8) for _ in range(4))
    f = elemc.compile(lambda x, y: x * y + 1)
    three = elemc.compile(lambda x, y, z: x * y + z)
    s, t = elemc.vector("s"), elemc.vector("t")
    made = elemc.function([s, t], s * t + 1)  # for known arguments, without a tracer before it
    table, row, place = x.reshape(4, 2), y[:2].copy(), np.empty((4, 2))
    calls: dict[str, Any] = {
        "elemc x*y+1, natural": lambda: f(x, y),
        "elemc x*y+1, given": lambda: f(x, y, out=out),
        "elemc x*y+1 of (4, 2) and (2,), natural": lambda: f(table, row),
        "elemc x*y+1 of (4, 2) and (2,), given": lambda: f(table, row, out=place),
        "elemc.function x*y+1, natural": lambda: made(x, y),
        "elemc.function x*y+1, given": lambda: made(x, y, out=out),
        "elemc x*y+z, natural": lambda: three(x, y, z),
        "elemc x*y+z, given": lambda: three(x, y, z, out=out),
        "numpy x*y+1, natural": lambda: x * y + 1,
        "numpy multiply, natural": lambda: np.multiply(x, y),
        "numpy multiply, given": lambda: np.multiply(x, y, out=out),
    }
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        Timer(call).timeit(1000)
    for _ in range(rounds):
        for name, call in calls.items():
            samples[name].append(Timer(call).timeit(10000) / 10000)
    return [(name, statistics.median(s) * 1e6, "us") for name, s in samples.items()]


def process_costs(rounds: int) -> list[tuple[str, float, str]]:
    """Milliseconds of cold and warm starts, each a fresh process."""
    cold, warm = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(start(cache))
            warm.append(start(cache))

    def middle(runs: list[dict[str, float]], key: str) -> float:
        return statistics.median(run[key] for run in runs) * 1e3

    return [
        ("import numpy", middle(warm, "numpy"), "ms"),
        ("import elemc, after numpy", middle(warm, "import"), "ms"),
        ("first call, empty cache: runtime, call path and kernel", middle(cold, "first"), "ms"),
        ("cold compile of one more kernel", middle(cold, "second"), "ms"),
        ("cold compile of a function: math library and kernel", middle(cold, "math"), "ms"),
        ("first call, warm cache", middle(warm, "first"), "ms"),
        ("warm load of one more kernel", middle(warm, "second"), "ms"),
        ("warm load of a function: math library and kernel", middle(warm, "math"), "ms"),
    ]


if __name__ == "__main__":
    print(json.dumps(child()))
