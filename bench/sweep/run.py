"""Time the cases and say which are worst."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import elemc

from .. import measure, native, report
from ..contestants import Call
from .cases import Case, case
from .loops import Emitter, source

BATCH = 12  # cases in one C file
WORST = 10
NAIVE = 200  # how much further off than elemc a plain sum in order may be
GOAL = {"plain_c": 0.8, "numpy": 1.0}  # of the ratios' medians


@dataclass
class Outcome:
    """A case's figures.

    Attributes
    ----------
    about : dict
        The case, for JSON.
    text : str
        The case, in words, with what repeats it.
    samples : dict
        numpy, natural, given (elemc's two calls), plain_c -> seconds of each round.
    wrong : dict
        The same names -> what is wrong with the answer.
    """

    about: dict[str, Any]
    text: str
    samples: dict[str, list[float]] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)

    def ratio(self, name: str) -> measure.Ratio | None:
        """The time of plain C or of NumPy divided by elemc's, called alike."""
        base = {"plain_c": "given", "numpy": "natural"}[name]
        if not {name, base} <= self.samples.keys():
            return None
        return measure.paired(np.array(self.samples[name]), np.array(self.samples[base]))

    def document(self) -> dict[str, Any]:
        """All of it, for JSON."""
        ratios = {name: self.ratio(name) for name in GOAL}
        return self.about | {"samples": self.samples, "wrong": self.wrong,
                             "ratios": {n: vars(r) for n, r in ratios.items() if r}}


def run(one: Case, emitter: Emitter, library: Any, rounds: int) -> Outcome:
    """Check and time one case."""
    arrays = list(one.operands.values())
    want, scale = one.answer()
    compiled, function = elemc.compile(one.function()), one.function()
    out = np.full_like(emitter.out, np.nan)
    calls: dict[str, Call] = {
        "natural": partial(compiled, *arrays),
        "given": partial(compiled, *arrays, out=out),
        "numpy": partial(function, *arrays),
        "plain_c": emitter.call(library),
    }
    outcome = Outcome(
        {"number": one.number, "seed": one.seed, "form": one.form, "dtype": one.dtype.name,
         "text": one.text, "shape": one.shape, "layouts": one.layouts,
         "strides": {name: a.strides for name, a in one.operands.items()}}, str(one))
    good: dict[str, Call] = {}
    for name, call in calls.items():
        try:
            slack = 1 if name in ("natural", "given") else NAIVE
            problem = measure.fault(call(), (want,), scale * slack)
        except elemc.ElemcError as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            outcome.wrong[name] = problem
        else:
            good[name] = call
    outcome.samples = measure.interleaved(good, rounds)
    return outcome


def outcomes(seed: int, numbers: list[int], largest: int, rounds: int) -> Iterator[Outcome]:
    """Every case, a batch of C at a time."""
    for start in range(0, len(numbers), BATCH):
        cases = [case(seed, number, largest) for number in numbers[start: start + BATCH]]
        emitters = [Emitter(one, np.empty_like(one.function()(*one.operands.values())))
                    for one in cases]
        library = native.library(source(emitters))
        while cases:
            yield run(cases.pop(0), emitters.pop(0), library, rounds)


def shown(one: Case) -> str:
    """The loops of plain C and those of elemc."""
    arrays = list(one.operands.values())
    emitter = Emitter(one, np.empty_like(one.function()(*arrays)))
    numbers = ", ".join(f"{name} = {number}" for name, number in emitter.numbers)
    out = f"out strides {[s // emitter.out.itemsize for s in emitter.out.strides]}"
    return "\n".join([str(one), out, "", emitter.function(), f"/* {numbers} */", "",
                      elemc.compile(one.function()).dump(*arrays)])


def mean(ratios: list[tuple[measure.Ratio, Outcome]]) -> float:
    """Geometric mean of the medians."""
    return float(np.exp(np.mean([np.log(r.median) for r, _ in ratios] or [np.nan])))


def summary(found: list[Outcome]) -> list[str]:
    """The worst cases against plain C and against NumPy, and how many miss the goal."""
    lines = []
    for name, goal in GOAL.items():
        rated = [(r, o) for o in found if (r := o.ratio(name))]
        rated.sort(key=lambda pair: pair[0].median)
        lines.append(f"\nworst against {name}: its time / elemc's")
        for r, o in rated[:WORST]:
            mine = np.median(o.samples["given" if name == "plain_c" else "natural"])
            lines += [f"{r.median:5.2f} [{r.low:.2f},{r.high:.2f}] "
                      f"elemc {report.short_time(float(mine))}", f"    {o.text}"]
        missed = sum(r.median < goal for r, _ in rated)
        sure = sum(r.high < goal for r, _ in rated)
        lines.append(f"{missed} of {len(rated)} cases below {goal} of {name} ({sure} with their "
                     f"whole interval); geometric mean {mean(rated):.2f}")
        for form in dict.fromkeys(o.about["form"] for o in found):
            some = [(r, o) for r, o in rated if o.about["form"] == form]
            lines.append(f"  {form:<8} {sum(r.median < goal for r, _ in some):3} of {len(some):3}; "
                         f"geometric mean {mean(some):.2f}")
    return lines


def failures(found: list[Outcome]) -> list[str]:
    """What answered wrongly."""
    return [f"wrong, not timed: {name}: {problem}\n    {o.text}"
            for o in found for name, problem in o.wrong.items()]
