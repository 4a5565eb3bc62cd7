"""Results as a table of ratios, as JSON, and as a picture."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from .measure import Cell


def machine(threads: int) -> dict[str, Any]:
    """What the figures depend on besides the code."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        model = next((s.partition(": ")[2] for s in lines if s.startswith("model name")), model)
    compiler = os.environ.get("ELEMC_CC", "cc")
    try:
        version = subprocess.run([*compiler.split(), "--version"], capture_output=True, text=True,
                                 check=False).stdout.partition("\n")[0]
    except OSError as error:
        version = str(error)
    return {
        "cpu": model, "cores": os.cpu_count(), "threads": threads,
        "system": platform.platform(), "python": platform.python_version(),
        "compiler": version, "date": time.strftime("%Y-%m-%d"),
    }


def short_size(size: int) -> str:
    """Write 8000000 as 8M."""
    for unit, factor in (("M", 10**6), ("k", 10**3)):
        if size >= factor:
            return f"{size / factor:.3g}{unit}"
    return str(size)


def short_time(seconds: float) -> str:
    """Three digits and a unit."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def header(names: Sequence[str], base: str) -> str:
    """First line of the table."""
    others = "".join(f"{name:>24}" for name in names if name != base)
    return f"{'workload':<20}{'size':>6} {'dtype':<8}{'call':<8}{base:>9}{others}"


def row(cell: Cell, names: Sequence[str], base: str) -> str:
    """One cell as a line: time of the base, then the others' ratios to it."""
    start = f"{cell.workload:<20}{short_size(cell.size):>6} {cell.dtype:<8}{cell.kind:<8}"
    if base not in cell.samples:
        return f"{start}{'off' if base in cell.wrong else '-':>9}"
    columns = ""
    for name in names:
        if name == base:
            continue
        text = "off" if name in cell.wrong else "-"
        if name in cell.samples:
            r = cell.ratio(name, base)
            text = f"{r.median:.2f} [{r.low:.2f},{r.high:.2f}]"
        columns += f"{text:>24}"
    return f"{start}{short_time(cell.median(base)):>9}{columns}"


def geometric_means(cells: Sequence[Cell], names: Sequence[str], base: str) -> list[str]:
    """One line per contestant: its geometric mean ratio over the rows it shares with the base."""
    lines = []
    for name in names:
        both = [cell for cell in cells if {name, base} <= cell.samples.keys()]
        if name == base or not both:
            continue
        mean = float(np.exp(np.mean([np.log(cell.ratio(name, base).median) for cell in both])))
        lines.append(f"{name}: {mean:.2f} times {base}'s time over {len(both)} rows")
    return lines


def document(
    cells: Sequence[Cell], base: str, versions: dict[str, str], missing: dict[str, str],
    about: dict[str, Any],
) -> dict[str, Any]:
    """Everything, as JSON holds it: seconds per call of every round, and the ratios."""
    rows = []
    for cell in cells:
        entry = asdict(cell)
        entry["seconds"] = {name: cell.median(name) for name in cell.samples}
        if base in cell.samples:
            entry["ratios"] = {name: asdict(cell.ratio(name, base))
                               for name in cell.samples if name != base}
        rows.append(entry)
    return {"machine": about, "versions": versions, "missing": missing, "base": base,
            "cells": rows}


def plot(cells: Sequence[Cell], names: Sequence[str], base: str, path: str) -> None:
    """Draw all ratios on a logarithmic axis, one line of dots per row of the table."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = [cell for cell in cells if base in cell.samples]
    figure, axes = plt.subplots(figsize=(8, 1.2 + 0.24 * len(shown)), layout="constrained")
    colors = plt.get_cmap("tab20").colors  # type: ignore[attr-defined]
    axes.set_prop_cycle(color=[*colors[::2], *colors[1::2]])  # more than ten contestants
    for name in names:
        ys = [y for y, cell in enumerate(shown) if name in cell.samples and name != base]
        if not ys:
            continue
        ratios = [shown[y].ratio(name, base) for y in ys]
        middle = np.array([r.median for r in ratios])
        spread = np.array([(r.median - r.low, r.high - r.median) for r in ratios]).T
        axes.errorbar(middle, ys, xerr=np.maximum(spread, 0), fmt="o", ms=4, lw=1, label=name)
    axes.axvline(1, color="black", lw=1)
    axes.set_xscale("log")
    axes.set_xlabel(f"time / {base}'s time (right of the line: {base} is faster)")
    labels = [f"{cell.workload}  {short_size(cell.size)}  {cell.dtype}  {cell.kind}"
              for cell in shown]
    axes.set_yticks(range(len(shown)), labels, fontsize=7)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside upper center", ncols=min(6, len(names)), fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)
