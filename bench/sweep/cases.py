"""Random cases: what is computed, over which axes, of which shapes and strides.

A case is drawn from (seed, number) alone, so that these two numbers repeat it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .expressions import Expression, as_numpy, drawn

FORMS = {"map": 7, "fold": 8, "centred": 2, "softmax": 2, "scaled": 2}
FOLDS = {"sum": 5, "max": 2, "mean": 2, "min": 1}
LAYOUTS = {"c": 5, "f": 2, "transposed": 2, "sliced": 2, "reversed": 1.5, "stretched": 1,
           "broadcast": 3}
SIZES = {10**3: 3, 10**6: 14, 8 * 10**6: 2}
ODD = (1, 3, 7)


@dataclass(frozen=True)
class Case:
    """One computation on given arrays.

    Attributes
    ----------
    seed, number : int
        What it was drawn from.
    form : str
        map: elementwise; fold: an accumulation; centred: less its mean; softmax; scaled: divided
        by its root mean square.
    inner : Expression
        What is mapped, folded, centred...
    fold : str
        Which accumulation, where the form is "fold".
    axes : tuple of int or None
        Accumulated axes; None is all of them.
    shape : tuple of int
        Of the broadcast operands.
    operands : dict
        Name to array; the first has the full shape and no stride 0.
    layouts : tuple of str
        How each came by its strides.
    """

    seed: int
    number: int
    form: str
    inner: Expression
    fold: str
    axes: tuple[int, ...] | None
    shape: tuple[int, ...]
    operands: dict[str, np.ndarray]
    layouts: tuple[str, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of all operands and of the result."""
        return next(iter(self.operands.values())).dtype

    @property
    def text(self) -> str:
        """The computation as a NumPy user writes it: the body of a function."""
        inner = as_numpy(self.inner)
        along = f"axis={self.axes}, keepdims=True"
        return {
            "map": f"return {inner}",
            "fold": f"return np.{self.fold}({inner}, axis={self.axes})",
            "centred": f"t = {inner}; return t - np.mean(t, {along})",
            "softmax": f"t = {inner}; e = np.exp(t - np.max(t, {along})); "
                       f"return e / np.sum(e, {along})",
            "scaled": f"t = {inner}; return t / np.sqrt(np.mean(t * t, {along}) + 0.1)",
        }[self.form]

    def function(self, text: str | None = None) -> Callable[..., Any]:
        """That function, of the operands, over NumPy."""
        scope: dict[str, Any] = {"np": np}
        exec(f"def case({', '.join(self.operands)}): {text or self.text}", scope)
        found: Callable[..., Any] = scope["case"]
        return found

    def answer(self) -> tuple[np.ndarray, float]:
        """The result as computed in double precision, and the size that errors are relative to."""
        doubles = [a.astype(np.float64) for a in self.operands.values()]
        want = np.asarray(self.function()(*doubles))
        inner = np.abs(self.function(f"return {as_numpy(self.inner)}")(*doubles))
        scale = float(np.max(np.abs(want)))
        if self.form == "softmax":  # an error of exp's argument is one of its value
            scale *= 1 + float(np.max(inner))
        elif self.form == "fold" and self.fold in ("sum", "mean"):
            scale = float(np.max(getattr(np, self.fold)(inner, axis=self.axes)))
        return want.astype(self.dtype), max(scale, float(np.max(inner) if self.form == "centred"
                                                         else 0))

    def __str__(self) -> str:
        arrays = "; ".join(
            f"{name} {layout} {list(a.shape)} strides "
            f"{[s // a.itemsize if n > 1 else 0 for s, n in zip(a.strides, a.shape, strict=True)]}"
            for (name, a), layout in zip(self.operands.items(), self.layouts, strict=True)
        )
        return f"--seed {self.seed} --only {self.number}: {self.dtype}, {self.text}\n    {arrays}"


def pick(rng: np.random.Generator, weighted: Mapping[Any, float]) -> Any:
    """A key, by its weight."""
    weights = np.array(list(weighted.values()), float)
    return list(weighted)[int(rng.choice(len(weights), p=weights / weights.sum()))]


def near_power(rng: np.random.Generator, low: int, high: int) -> int:
    """2^k, or one more or less."""
    return int(2 ** rng.integers(low, high + 1) + rng.integers(-1, 2))


def extents(rng: np.random.Generator, rank: int, size: int) -> tuple[int, ...]:
    """A shape of about `size` elements, its last axis often odd and short."""
    if rank == 1:
        power = int(np.log2(size))
        return (near_power(rng, power, power),)
    widest = min(10, int(np.log2(size)) - 2)
    last = int(rng.choice(ODD)) if rng.random() < 0.4 else near_power(rng, 3, widest)
    middle = [int(rng.choice([1, 2, 3, 5, 7, 8, 17, 32, 33])) for _ in range(rank - 2)]
    first = max(1, size // (last * int(np.prod(middle, dtype=int))))
    shape = [first, *middle, last]
    if rng.random() < 0.3:
        rng.shuffle(shape)
    return tuple(shape)


def laid_out(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str, layout: str
) -> np.ndarray:
    """Random numbers between 0.5 and 1.5, of this shape (or one that broadcasts to it)."""
    def fresh(extents: tuple[int, ...]) -> np.ndarray:
        return (0.5 + rng.random(extents, np.float32)).astype(dtype)

    rank = len(shape)
    axis = int(rng.integers(rank))
    some = tuple(1 if rng.random() < 0.5 else n for n in shape)
    if layout == "f":
        return np.asfortranarray(fresh(shape))
    if layout == "transposed":
        order = rng.permutation(rank)
        return fresh(tuple(shape[i] for i in order)).transpose(np.argsort(order))
    if layout == "sliced":
        step = int(rng.integers(1, 4))
        larger = tuple(n * step + 2 if i == axis else n for i, n in enumerate(shape))
        return fresh(larger)[tuple(slice(1, 1 + n * step, step) if i == axis else slice(None)
                                   for i, n in enumerate(shape))]
    if layout == "reversed":
        return np.flip(fresh(shape), axis)
    if layout == "stretched":
        return np.broadcast_to(fresh(some), shape)
    if layout == "broadcast":
        return fresh(some[int(rng.integers(rank)):])
    return fresh(shape)


def case(seed: int, number: int, largest: int) -> Case:
    """Draw one case of at most about `largest` elements."""
    rng = np.random.default_rng([seed, number])
    rank = int(rng.integers(1, 5))
    size = pick(rng, {n: w for n, w in SIZES.items() if n <= largest})
    shape = extents(rng, rank, size)
    dtype = str(rng.choice(["float32", "float64"]))
    form, fold = pick(rng, FORMS), pick(rng, FOLDS)
    some = tuple(i for i in range(rank) if rng.random() < 0.4)
    axes = some or ((int(rng.integers(rank)),) if rng.random() < 0.8 else None)
    names = list("abc"[: 1 + int(rng.integers(3))])
    full = {k: w for k, w in LAYOUTS.items() if k not in ("stretched", "broadcast")}
    layouts = [pick(rng, full if name == "a" else LAYOUTS) for name in names]
    inner = drawn(rng, names, int(rng.integers(1, 4)))
    if form != "map" and rng.random() < 0.4:
        inner = "a"
        names, layouts = names[:1], layouts[:1]
    operands = {name: laid_out(rng, shape, dtype, layout)
                for name, layout in zip(names, layouts, strict=True)}
    return Case(seed, number, form, inner, fold, axes, shape, operands, tuple(layouts))
