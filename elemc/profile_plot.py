"""A roofline: what the phases of a kernel reach, below what the machine can do."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .errors import ArgumentError
from .machine import Machine


def roofline(title: str, points: Sequence[tuple[str, float, float]], machine: Machine,
             path: str | Path | None) -> Any:
    """A matplotlib figure, saved to `path` if that is given.

    Parameters
    ----------
    title : str
    points : sequence of (label, operations per byte, operations per second)
    machine : Machine
        Whose triad bandwidths and vector peaks are the roofs.
    path : str or Path or None
    """
    try:
        pyplot: Any = importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise ArgumentError("plots need matplotlib: python -m pip install 'elemc[plot]' "
                            f"({error})") from None
    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    top = max(machine.peak_float32, machine.peak_float64)
    knees = [top / level.triad for level in machine.levels]
    left = min([0.03, *(x / 2 for _, x, _ in points)])
    right = max([2 * max(knees), *(2 * x for _, x, _ in points)])
    for level, knee in zip(machine.levels, knees, strict=True):
        label = f"{level.name}, {level.triad / 1e9:.0f} GB/s"
        axes.plot([left, knee], [left * level.triad / 1e9, top / 1e9], label=label)
    for name, peak in (("float32", machine.peak_float32), ("float64", machine.peak_float64)):
        axes.axhline(peak / 1e9, color="black", linestyle="-" if peak == top else "--")
        axes.annotate(f"{name}, {peak / 1e9:.0f} Gflop/s", (right, peak / 1e9), ha="right",
                      va="bottom")
    for label, intensity, rate in points:
        axes.plot([intensity], [rate / 1e9], "o", color="black")
        axes.annotate(label, (intensity, rate / 1e9), xytext=(0, 6), textcoords="offset points",
                      ha="center")
    axes.set(xscale="log", yscale="log", xlim=(left, right), title=title,
             xlabel="operations, in additions, per byte", ylabel="Gflop/s, one thread")
    axes.legend(loc="lower right")
    if path is not None:
        figure.savefig(path)
        pyplot.close(figure)
    return figure
