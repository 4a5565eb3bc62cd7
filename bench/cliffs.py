"""Functions of tables of many shapes, each beside its own median: a cliff shows without a peer.

Where a function of so many elements takes several times as long in one shape as in others, the
loops made for that shape are not what they could be.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import elemc

from .measure import TOLERANCE, interleaved

# a: the table; k: one or two of its axes; K: the same, which are kept.
FUNCTIONS = """
    np.sum(a, k); np.max(a, k); np.prod(a, k); np.argmax(a, k); np.cumsum(a, k); np.mean(1 / a, k)
    np.sum(a > 1, k); np.any(a > 2, k); np.sum(np.where(a > 1, a, 0), k); np.nanmax(a, k)
    np.sum(np.exp(a), k); np.sqrt(np.mean(a * a, k)); np.sum(a * np.log(a), k); np.var(a, k)
    np.exp(np.mean(np.log(a), k)); np.cumsum(np.exp(a), k); np.exp(np.cumsum(np.log(a) / 99, k))
    np.sum(np.sqrt(np.sum(a * a, k))); np.argmin(a * a - a, k); np.sum(abs(a) ** 3, k)
    np.nanmean(a, k); np.mean(1 / (1 + np.exp(-a)), k); np.maximum.accumulate(a, k)
    a - np.mean(a, K); a / np.sum(a, K); a / np.sqrt(np.sum(a * a, K))
    np.cumsum(a, k) / np.sum(a, K)
    (a - np.min(a, K)) / (np.max(a, K) - np.min(a, K)); (a - np.mean(a, K)) / np.std(a, K)
    np.exp(a - np.max(a, K)) / np.sum(np.exp(a - np.max(a, K)), K)
    np.log(np.sum(np.exp(a - np.max(a, K)), k)); a - np.log(np.sum(np.exp(a), K))
    np.mean(((a - np.mean(a, K)) / (np.std(a, K) + 1)) ** 3, k)
    grad: np.var(a, k); grad: np.max(a, k) ** 2; grad: np.prod(a, k) ** 2
    grad: np.log(np.sum(np.exp(a), k)) ** 2; grad: np.sqrt(np.sum(a * a, k))
    grad: (np.exp(a - np.max(a, K)) / np.sum(np.exp(a - np.max(a, K)), K)) ** 2
    grad: ((a - np.mean(a, K)) / np.sqrt(np.mean((a - np.mean(a, K)) ** 2, K) + 1e-5)) ** 3
    grad: (a / np.sqrt(np.sum(a * a, K))) ** 3
"""
SINGLE = ("arg", "cumsum", "accumulate")  # take one axis
FEW = (2, 3, 4, 5, 7, 8, 9, 12, 13, 15, 16, 17, 24, 31, 33, 64, 100, 128, 300, 1000)
FEWER = FEW[:10] + (32, 100)  # of which there are two
FAR = 2.5  # times the median of its function, from which on a case is named


@dataclass
class Case:
    """A function of a table of one shape, folded along one axis or two; and how long it takes."""

    number: int
    text: str
    shape: tuple[int, ...]
    axis: int | tuple[int, ...]
    dtype: str
    wrong: str = ""
    samples: list[float] = field(default_factory=list)

    @property
    def nanoseconds(self) -> float:
        """The least time of an element."""
        return min(self.samples, default=math.nan) / math.prod(self.shape) * 1e9

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.shape))} {self.dtype}, k = {self.axis}: {self.text}"

    def plain(self) -> Callable[[Any], Any]:
        """What NumPy computes, or what the gradient is of."""
        text = self.text.removeprefix("grad: ").replace("k)", f"{self.axis})")
        text = text.replace("K)", f"{self.axis}, keepdims=True)")
        function: Callable[[Any], Any] = eval(f"lambda a: {text}", {"np": np})
        return function

    def function(self) -> Any:
        """What elemc compiles."""
        plain = self.plain()
        if self.text.startswith("grad: "):
            return elemc.grad(elemc.compile(lambda a: np.sum(plain(a))))
        return elemc.compile(plain)

    def table(self) -> np.ndarray:
        """Numbers around 1, so that products of many stay in range."""
        rng = np.random.default_rng(self.number)
        return rng.uniform(0.8, 1.25, self.shape).astype(self.dtype)

    def dump(self) -> str:
        """The C of it."""
        return str(self.function().dump(self.table()))

    def document(self) -> dict[str, Any]:
        """What of it is written as JSON."""
        return {"case": str(self), "ns": self.nanoseconds, "wrong": self.wrong}


def functions() -> list[str]:
    """The functions, in order."""
    return [text.strip() for text in FUNCTIONS.replace("\n", ";").split(";") if text.strip()]


def case(seed: int, number: int, elements: int, dtype: str) -> Case:
    """Draw a case; every function has its turn."""
    rng, every = np.random.default_rng([seed, number]), functions()
    text = every[number % len(every)]
    few = [int(rng.choice(FEW))] if rng.random() < 0.3 else rng.choice(FEWER, 2).tolist()
    shape = [*few, max(1, elements // math.prod(few))]
    rng.shuffle(shape)
    axes: list[Any] = [*range(len(shape))]
    if len(shape) > 2 and not any(name in text for name in SINGLE):
        axes += [(0, 1), (1, 2), (0, 2)]
    return Case(number, text, tuple(shape), axes[rng.integers(len(axes))], dtype)


def run(one: Case, rounds: int) -> None:
    """Check what NumPy has, too, and time it."""
    a, compiled = one.table(), one.function()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        got = np.asarray(compiled(a))
        if not one.text.startswith("grad: "):
            want = np.asarray(one.plain()(a))
            off = 99 * TOLERANCE[one.dtype] * np.max(abs(want), initial=1)
            apart = abs(got.astype(float) - want) if got.shape == want.shape else math.inf
            if not np.max(apart, initial=0) <= off:
                one.wrong = "not NumPy's answer"
    if not one.wrong:
        one.samples = interleaved({"elemc": lambda: compiled(a)}, rounds)["elemc"]


def summary(found: Sequence[Case]) -> list[str]:
    """The median of each function, and what is far from it, the farthest first."""
    lines = [f"wrong, not timed: {one.wrong}\n    {one}" for one in found if one.wrong]
    far: list[tuple[float, Case]] = []
    lines.append("median of an element of every function")
    for text in functions():
        timed = [one for one in found if one.text == text and one.samples]
        if timed:
            usual = float(np.median([one.nanoseconds for one in timed]))
            lines.append(f"{usual:7.3f} ns  {text}")
            far += [(one.nanoseconds / usual, one) for one in timed]
    far = sorted(((times, one) for times, one in far if times >= FAR), key=lambda pair: -pair[0])
    lines.append(f"\n{len(far)} of {len(found)} cases take {FAR} times as long as that")
    lines += [f"{times:7.2f}  {one.nanoseconds:.3f} ns  --only {one.number}: {one}"
              for times, one in far]
    return lines
