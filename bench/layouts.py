"""Random expressions of all dtypes, on operands that lie in memory in all kinds of ways.

Each is timed against NumPy, and against the same call on contiguous copies, made in arrays that
were there before: where copies pay, a loop reads what it is given worse than it could.  A case is
drawn from (seed, number) alone, so that these two numbers repeat it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import elemc

from . import measure, report

DTYPES = ("float64", "float32", "float32", "float64", "float32", "int32", "int64", "uint8", "int16",
          "bool", "complex64", "complex128", "float16", "uint32", "int8", "uint16")
LAYOUTS = ("c", "c", "f", "permuted", "stepped", "backwards", "reversed", "broadcast", "field")
EXTENTS = (2, 3, 4, 5, 7, 8, 16, 17, 31, 33, 64, 100, 129, 255)
SIZES = (2_000, 40_000, 40_000, 300_000, 1_500_000)
UNARY = """abs({}); (-{}); np.sqrt(abs({})); np.exp({}); np.square({}); np.floor({}); np.sign({});
    ({} > 0); np.tanh({}); {}.astype("float32"); {}.astype("float64"); np.isfinite({});
    np.clip({}, -1, 1); ({} ** 2); ({} * 2); ({} + 1); np.sin({}); ~({} > 1); np.log1p(abs({}));
    np.cos({}); np.rint({}); {}.astype("int32")""".split(";")
BINARY = """({} + {}); ({} * {}); ({} - {}); np.maximum({}, {}); np.minimum({}, {}); ({} / {});
    np.where({} > 0, {}, 0); ({} < {}); np.hypot({}, {}); np.where({} > {}, 1.5, -1); ({} // {});
    ({} % {}); np.arctan2({}, {}); np.logaddexp({}, {}); np.copysign({}, {});
    np.power(abs({}), abs({}))""".split(";")
FOLDS = ("sum", "mean", "max", "min", "argmax", "any", "all", "prod", "var", "std", "cumsum",
         "count_nonzero", "argmin", "ptp")
ROUNDED = ("sum", "mean", "prod", "var", "std", "cumsum")  # in an order that layouts decide
SINGLE = ("argmax", "argmin", "cumsum", "ptp", "count_nonzero")  # along one axis, or all
CENTRED = ("max", "mean", "std", "sum")  # may be taken from what they fold
TOLERANCE = {"float16": 2e-2, "float32": 2e-4, "float64": 1e-9}  # relative to the largest value
RARE = 1e-2  # of the elements may be off: on the other side of a comparison, of an overflow
WORST = 10


@dataclass
class Case:
    """An expression and what it is computed of; after `run` also what it took.

    Attributes
    ----------
    number : int
        What it was drawn from, beside the seed.
    text : str
        A NumPy expression of `a`, `b`, `c`.
    operands : dict
        Name to array.
    layouts : dict
        Name to how it came by its strides, in words.
    samples : dict
        elemc, numpy, copies -> seconds of each round.
    wrong : str
        What is wrong with elemc's answer.
    """

    number: int
    text: str
    operands: dict[str, np.ndarray]
    layouts: dict[str, str]
    samples: dict[str, list[float]] = field(default_factory=dict)
    wrong: str = ""

    def function(self) -> Callable[..., Any]:
        """The expression as a function of the operands."""
        found: Callable[..., Any] = eval(f"lambda {', '.join(self.operands)}: {self.text}",
                                         {"np": np})
        return found

    def ratio(self, name: str) -> measure.Ratio:
        """The time of NumPy or of the call on copies divided by elemc's."""
        return measure.paired(np.array(self.samples[name]), np.array(self.samples["elemc"]))

    def dump(self) -> str:
        """The C of it."""
        return str(elemc.compile(self.function()).dump(*self.operands.values()))

    def document(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {"number": self.number, "text": self.text, "layouts": self.layouts,
                "shapes": {name: a.shape for name, a in self.operands.items()},
                "samples": self.samples, "wrong": self.wrong}

    def __str__(self) -> str:
        lie = "; ".join(f"{name} {a.dtype} {list(a.shape)} {self.layouts[name]}"
                        for name, a in self.operands.items())
        return f"--only {self.number}: {self.text}\n    {lie}"


def filled(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Normal numbers, integers of -50 to 59 or 1 to 59, or truth values."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.random(shape) > 0.5
    if kind in "iu":
        return rng.integers(1 if kind == "u" else -50, 60, shape).astype(dtype)
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if kind == "c" else values).astype(dtype)


def laid_out(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str, layout: str
) -> tuple[np.ndarray, str]:
    """An array of this shape (or one that broadcasts to it), and its layout in words."""
    rank = len(shape)
    fresh = partial(filled, rng, dtype=dtype)
    if layout == "f":
        return np.asfortranarray(fresh(shape)), layout
    if layout == "permuted":
        order = rng.permutation(rank)
        return (fresh(tuple(shape[i] for i in order)).transpose(np.argsort(order)),
                f"permuted {order.tolist()}")
    if layout in ("stepped", "backwards"):
        steps = [int(rng.integers(1, 6)) if i == rank - 1 or rng.random() < 0.3 else 1
                 for i in range(rank)]
        whole = fresh(tuple(n * step for n, step in zip(shape, steps, strict=True)))
        if layout == "backwards":
            steps = [-step if rng.random() < 0.7 else step for step in steps]
        return whole[tuple(slice(None, None, step) for step in steps)], f"steps {steps}"
    if layout == "reversed":
        axis = int(rng.integers(rank))
        return np.flip(fresh(shape), axis), f"reversed along axis {axis}"
    if layout == "broadcast":
        return fresh(tuple(1 if rng.random() < 0.5 else n for n in shape)), layout
    if layout == "field":  # of records of so many
        width = int(rng.integers(2, 4))
        return fresh((*shape, width))[..., 0], f"field of {width}"
    return fresh(shape), layout


def extents(rng: np.random.Generator) -> tuple[int, ...]:
    """A shape of one to four axes, most of them short."""
    rank = int(rng.choice([1, 2, 2, 3, 3, 4]))
    left = int(rng.choice(SIZES))
    shape = []
    for _ in range(rank - 1):
        shape.append(min(int(rng.choice(EXTENTS)), left))
        left = max(1, left // shape[-1])
    return tuple(rng.permutation([*shape, left]).tolist())


def drawn(rng: np.random.Generator, names: list[str], depth: int) -> str:
    """An expression of this depth or less."""
    if depth == 0 or rng.random() < 0.15:
        return str(rng.choice(names))
    if rng.random() < 0.4:
        return str(rng.choice(UNARY)).strip().format(drawn(rng, names, depth - 1))
    return str(rng.choice(BINARY)).strip().format(drawn(rng, names, depth - 1),
                                                  drawn(rng, names, depth - 1))


def folded(rng: np.random.Generator, inner: str, rank: int) -> str:
    """The expression folded along an axis, two or all of them; or what is left of it."""
    fold = str(rng.choice(FOLDS))
    every = fold != "cumsum" and rng.random() < 0.2  # elemc does not flatten
    axis: Any = None if every else int(rng.integers(rank))
    if fold not in SINGLE and axis is not None and rank > 2 and rng.random() < 0.3:
        axis = tuple(sorted(rng.permutation(rank)[:2].tolist()))
    if fold in CENTRED and rng.random() < 0.3:
        return f"({inner}) - np.{fold}({inner}, axis={axis}, keepdims=True)"
    return f"np.{fold}({inner}, axis={axis})"


def case(seed: int, number: int) -> Case:
    """Draw a case; its expression is one that NumPy takes, and more than an operand's name."""
    rng = np.random.default_rng([seed, number])
    shape = extents(rng)
    names = ["a", "b", "c"][: int(rng.choice([1, 2, 2, 3]))]
    usual = str(rng.choice(DTYPES))
    operands, layouts = {}, {}
    for name in names:
        dtype = usual if rng.random() < 0.7 else str(rng.choice(DTYPES))
        kinds = [k for k in LAYOUTS if k != "broadcast" or name != "a"]
        operands[name], layouts[name] = laid_out(rng, shape, dtype, str(rng.choice(kinds)))
    while True:
        text = drawn(rng, names, int(rng.choice([1, 2, 2, 3])))
        if rng.random() < 0.5:
            text = folded(rng, text, len(shape))
        one = Case(number, text, operands, layouts)
        if text not in names and taken(one):
            return one


def taken(one: Case) -> bool:
    """Whether NumPy has what the expression needs, for such dtypes."""
    try:
        one.function()(*(np.ones((1,) * a.ndim, a.dtype) for a in one.operands.values()))
    except (TypeError, AttributeError, ValueError):
        return False
    return True


def tolerance(one: Case, answer: str) -> float | None:
    """What the narrowest floating-point numbers admit that NumPy computes functions, or this, in.

    None do where the place of an extremum is the answer, which rounding may move, and where NumPy
    adds float16 to float16 along an axis.
    """
    some = [np.sin(np.empty(0, a.dtype)).real.dtype.name for a in one.operands.values()]
    if "np.arg" in one.text or ("cumsum" in one.text and "float16" in some):
        return None
    return max(of for name, of in TOLERANCE.items() if name in (*some, answer) or name in one.text)


def fault(one: Case, got: np.ndarray, want: np.ndarray, copied: np.ndarray) -> str:
    """What is wrong with an answer: its digits are those of NumPy, its bits those of copies.

    Bits are compared where nothing is summed.  As for digits, a few elements may be off.
    """
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    if got.tobytes() != copied.tobytes() and not any(f"np.{f}(" in one.text for f in ROUNDED):
        return "not the bits that contiguous copies have"
    if (allowed := tolerance(one, want.dtype.name)) is None:
        return ""
    finite = np.isfinite(want) & np.isfinite(got)
    exact: Any = complex if want.dtype.kind == "c" else np.longdouble
    largest = np.max(np.abs(want[finite].astype(exact)), initial=1)
    apart = np.abs(got[finite].astype(exact) - want[finite].astype(exact)) / largest
    off = np.count_nonzero(apart > allowed)  # and what NumPy had no trouble with:
    off += np.count_nonzero(np.isfinite(want) & ~np.isfinite(got))
    return f"{off} of {want.size} elements are off" if off > RARE * want.size else ""


def run(one: Case, rounds: int) -> None:
    """Check and time a case."""
    plain, compiled = one.function(), elemc.compile(one.function())
    arrays = list(one.operands.values())
    room = [np.array(a, order="C") for a in arrays]

    def copies() -> Any:
        for into, a in zip(room, arrays, strict=True):
            np.copyto(into, a)
        return compiled(*room)

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        want = plain(*arrays)
        try:
            one.wrong = fault(one, *(np.asarray(each)
                                     for each in (compiled(*arrays), want, copies())))
        except elemc.ElemcError as error:
            one.wrong = f"{type(error).__name__}: {error}"
        if not one.wrong:
            one.samples = measure.interleaved(
                {"elemc": partial(compiled, *arrays), "numpy": partial(plain, *arrays),
                 "copies": copies}, rounds)


def summary(found: list[Case]) -> list[str]:
    """What answered wrongly, and the worst cases against NumPy and against copies."""
    lines = [f"wrong, not timed: {one.wrong}\n    {one}" for one in found if one.wrong]
    for name in ("numpy", "copies"):
        rated = [(one.ratio(name), one) for one in found if one.samples]
        rated.sort(key=lambda pair: pair[0].median)
        lines.append(f"\nworst against {name}: its time / elemc's")
        for r, one in rated[:WORST]:
            mine = report.short_time(float(np.median(one.samples["elemc"])))
            lines.append(f"{r.median:5.2f} [{r.low:.2f},{r.high:.2f}] elemc {mine}  {one}")
        mean = math.exp(np.mean([math.log(r.median) for r, _ in rated] or [math.nan]))
        lines.append(f"{sum(r.median < 1 for r, _ in rated)} of {len(rated)} cases below 1 "
                     f"({sum(r.high < 1 for r, _ in rated)} with their whole interval); "
                     f"geometric mean {mean:.2f}")
    return lines
