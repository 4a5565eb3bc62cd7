"""What people write with NumPy, an expression at a time, against NumPy, numba and JAX."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from timeit import Timer
from typing import Any

import numpy as np

from .measure import TOLERANCE, Ratio, paired

SECONDS = 2e-3  # a sample lasts at least this long

# a, b: matrices; p: a positive one; v, w: as long as its rows and columns; t: of rank 3; x: a long
# vector; s: a table of 3 columns, u: one of 20, e: one of 20 of int8; i, j: matrices of int64, k, l
# of int32, c, d of int8, f, g of bool; y, z: of complex numbers; m: a picture of three channels of
# uint8, n: the weights of these, h: a matrix of float16.
EXPRESSIONS = """
    a + b; a + b.T; a * v; a * w[:, None]; a - b / 2; a ** 2; a ** 3; p ** 0.5; p ** 1.5; p ** b
    a // b; a % b; a % 1.0; np.fmod(a, b); abs(a); np.sign(a); np.floor(a); np.rint(a)
    np.clip(a, -1, 1); np.maximum(a, b); np.where(a > 0, a, b); np.isnan(a); a > b
    np.copysign(a, b); np.sqrt(p); np.cbrt(a); np.hypot(a, b); np.arctan2(a, b); np.exp(a)
    np.exp2(a); np.expm1(a); np.log(p); np.log2(p); np.log10(p); np.log1p(p); np.sin(a); np.cos(a)
    np.tan(a); np.arcsin(np.tanh(a)); np.arctan(a); np.sinh(a); np.tanh(a); np.arcsinh(a)
    np.logaddexp(a, b); np.ldexp(a, 3); i + j; i * j; i // j; i % j; i // 7; i % 7; i ** 3
    (i << 3) ^ (i >> 2); np.gcd(i, j); i * 0.5; k + l; k * l; k // l; k % l; c + d; c * d; c // d
    f & ~g; f ^ g; z * y; z / y; abs(z); np.angle(z); np.exp(z); np.sqrt(z); z.real + z.imag
    z.sum(axis=1); a.sum(); a.sum(axis=0); a.sum(axis=1); a.mean(axis=0); a.mean(axis=1)
    a.var(axis=0); a.var(axis=1); a.std(); (1 + a / 1000).prod(axis=1); a.max(); a.max(axis=0)
    a.min(axis=1); a.max(axis=1) - a.min(axis=1); a.argmax(); a.argmax(axis=0); a.argmax(axis=1)
    i.argmin(axis=1); s.argmax(axis=1); t.argmax(axis=1); i.sum(axis=1); k.sum(axis=1); c.sum()
    c.sum(axis=0); i.max(axis=1); c.max(axis=1); c.mean(axis=1); f.any(axis=1); f.all(axis=0)
    f.sum(axis=0); f.mean(); (a > 0).mean(axis=1); (a > 0).sum(); (a > 9).any()
    np.nansum(a, axis=0); np.nanmax(a, axis=1); np.nanmean(a, axis=1); (a * b).sum(axis=1)
    (a * v).sum(axis=1); (a * w[:, None]).sum(axis=0); np.sqrt((a * a).sum(axis=1))
    a - a.mean(axis=0); a - a.mean(axis=1, keepdims=True); (a - a.mean()) / a.std()
    np.exp(a - a.max(axis=0)) / np.exp(a - a.max(axis=0)).sum(axis=0)
    np.where(f, a, 0).sum(axis=1) / f.sum(axis=1); np.cumsum(x); np.cumsum(a, 0); np.cumsum(a, 1)
    np.cumprod(1 + a / 1000, 1); np.maximum.accumulate(a, 0); np.maximum.accumulate(a, 1)
    np.cumsum(i, 1); np.cumsum(f, 1); np.cumsum(t, 1); np.cumsum(s, 0)
    np.logaddexp.accumulate(a, 1); np.diff(x); np.diff(a, axis=0); a[::-1, ::-1] + 1
    a[:, ::2] + 1; x[::3] * 2; x[::-1] + x; v * w[:, None]
    a[1:-1, 1:-1] * 4 - a[:-2, 1:-1] - a[2:, 1:-1] - a[1:-1, 2:] - a[1:-1, :-2]; a.T + 0
    a.astype("int64"); t.transpose(2, 0, 1) * 2; t.sum(axis=1); t.sum(axis=(0, 2)); t.max(axis=0)
    s.mean(axis=1); s.sum(axis=0); s.max(axis=0); s.std(axis=0); np.sqrt((s * s).sum(axis=1))
    ((s[:400, None, :] - s[None, :300, :]) ** 2).sum(axis=-1); s.argmax(axis=0); u.argmax(axis=0)
    u.argmax(axis=1); u + u[0]; u > u[0]; (u > u[0]) & (u < 2); u.max(axis=0); u.max(axis=1)
    np.where(u > 0, u, u[0]); u / abs(u).sum(axis=1, keepdims=True)
    (u - u.mean(axis=0)) / u.std(axis=0); e + e[0]; e > e[0]; e.max(axis=0); e.sum(axis=1)
    e.argmax(axis=0); (e == 3).sum(axis=1); a * np.exp(v); (a - v) / np.sqrt(w * w + 1)
    a * np.sin(w)[:, None]; a ** abs(v); u * np.exp(u[0]); np.exp(-np.abs(v)) * w[:, None]
    (a * np.cos(v)).sum(axis=1); a / (1 + v * v)
    np.argmin((v[:, None, None] - u[None, :20]) ** 2, axis=1)
    (m / 255 - n) / n; m * n; (m / n.dtype.type(255)) ** 2.2; m.astype(n.dtype).mean(axis=(0, 1))
    np.clip(m * n, 0, 255).astype("uint8"); np.where(m > 128, 255, 0).astype("uint8"); 255 - m
    (m * n).sum(axis=-1); m.max(axis=-1); m.argmax(axis=-1); (m > 128).any(axis=-1)
    (m[..., 0] * n[0] + m[..., 1] * n[1] + m[..., 2] * n[2]).astype("uint8"); m[..., ::-1] * n
    np.maximum(m[..., 0], m[..., 1]) - np.minimum(m[..., 0], m[..., 1]); m[..., 1] * n[1]
    (m.transpose(2, 0, 1) - n[:, None, None]) / 255; m[::2, ::2] / 255; m[..., 0].max()
    ((m[..., 1] > 100) & (m[..., 1] < 200)).sum(); np.where(m[..., 0] > 9, m[..., 1], 0).mean()
    ((a > 0) & (b < 1)) * 1.5; np.sqrt((a > 0) | (b < 1)); np.where((a > 0) & f, a, b).mean(axis=1)
    np.prod(np.where(a > 0, p, 1), axis=1); (a > 0) * a + (b > 0) * b; f * a + f; np.exp(f) - a
    np.sqrt(s[:, 0] ** 2 + s[:, 1] ** 2 + s[:, 2] ** 2); np.arctan2(s[:, 1], s[:, 0]); s[:, 2] > 0
    s[:, 0] - s[:, 0].mean(); h * 2 + 1; h.sum(axis=1); np.exp(h); h * h[0]; np.sign(c) * a
    np.clip(a * 9, -99, 99).astype("int8"); np.floor(a).astype("int64"); np.rint(b).astype("int32")
    i / 1000; k / 7 + a; (i % 2 == 0).sum(); i // 8 - j % 4; (i / 1e6).sum(axis=1); z * y + z
    (z * np.conj(y)).sum(); 2 * z - np.conj(y); np.where(i % 2 == 0, i // 2, 3 * i + 1); m / 255
    np.stack([a, b]); np.stack([a * 2, b + 1, a * b], axis=1); np.column_stack([x, x * x, x ** 3])
    np.stack([np.cos(x), np.sin(x)], axis=-1); np.stack([s[:, 0] - 1, s[:, 2]])
    np.cross(s, s[::-1])
    np.stack([x, x + 1, x * 2, x * x, -x, abs(x), x - 3, x / 2, 3 * x, 1 - x], axis=-1)
"""


def expressions() -> list[str]:
    """The expressions, in order."""
    return [text.strip() for text in EXPRESSIONS.replace("\n", ";").split(";") if text.strip()]


def operands(elements: int, dtype: str) -> dict[str, np.ndarray]:
    """What the expressions' names stand for; matrices have about so many elements."""
    rng = np.random.default_rng(0)
    side = max(4, math.isqrt(elements))
    cube = max(2, round(elements ** (1 / 3)))
    a, b = rng.standard_normal((2, side, side)).astype(dtype)
    i, j = rng.integers(1, 100, (2, side, side))
    complexes = np.result_type(dtype, np.complex64)
    return {"a": a, "b": b, "p": abs(a) + np.array(0.01, dtype), "v": a[0].copy(), "w": b[0].copy(),
            "t": rng.standard_normal((cube,) * 3).astype(dtype), "x": b.ravel(),
            "s": rng.standard_normal((max(400, elements // 3), 3)).astype(dtype),
            "u": rng.standard_normal((max(20, elements // 20), 20)).astype(dtype),
            "e": rng.integers(-9, 9, (max(20, elements // 20), 20)).astype("int8"), "i": i, "j": j,
            "k": i.astype("int32"), "l": j.astype("int32"), "c": i.astype("int8"),
            "d": j.astype("int8"), "f": a > 0, "g": b > 0, "y": (a + 1j * b).astype(complexes),
            "z": (b - 1j * a).astype(complexes),
            "m": rng.integers(0, 256, (max(2, side // 3), side, 3)).astype("uint8"),
            "n": np.array([0.3, 0.59, 0.11], dtype), "h": a.astype("float16")}


@dataclass(frozen=True)
class Row:
    """An expression, and how long it takes.

    Attributes
    ----------
    text : str
        The expression.
    peer : str
        Who is the fastest of the others.
    ours, theirs : float
        Median seconds of elemc, and of that one.
    ratio : Ratio
        The latter by the former.
    """

    text: str
    peer: str
    ours: float
    theirs: float
    ratio: Ratio


def times(elements: int, dtype: str, rounds: int, peers: Sequence[str] = ("numpy",)
          ) -> Iterator[Row]:
    """Every expression, beside those peers that can compute it.

    Raises
    ------
    RuntimeError
        If elemc's answer is not NumPy's.
    """
    import elemc

    every = operands(elements, dtype)
    for text in expressions():
        names = [n for n in compile(text, text, "eval").co_names if n in every]
        plain = _function(text, names, np)
        arrays = [every[name] for name in names]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            want = np.asarray(plain(*arrays))
            tolerance = 1e-2 if want.dtype == np.float16 else TOLERANCE[dtype]
            calls = {"elemc": partial(elemc.compile(plain), *arrays)}
            if problem := _wrong(np.asarray(calls["elemc"]()), want, tolerance):
                raise RuntimeError(f"{text}: {problem}")
            for name in peers:
                call = PEERS[name](text, names, arrays)
                if call and not _wrong(np.asarray(call()), want, tolerance):
                    calls[name] = call
            timers = {name: Timer(call) for name, call in calls.items()}
            often = {name: max(1, round(SECONDS / min(timer.repeat(3, 1)[1:])))
                     for name, timer in timers.items()}
            samples = [{name: timer.timeit(often[name]) / often[name]
                        for name, timer in timers.items()} for _ in range(rounds + 1)][1:]
        if len(timers) == 1:
            continue  # none of them can
        taken = {name: np.array([sample[name] for sample in samples]) for name in timers}
        medians = {name: float(np.median(seconds)) for name, seconds in taken.items()}
        best = min((name for name in medians if name != "elemc"), key=medians.__getitem__)
        yield Row(text, best, medians["elemc"], medians[best], paired(taken[best], taken["elemc"]))


def _function(text: str, names: Sequence[str], module: Any) -> Callable[..., Any]:
    """The expression as a function, of this module in NumPy's place."""
    function: Callable[..., Any] = eval(f"lambda {', '.join(names)}: {text}", {"np": module})
    return function


def _numba(text: str, names: Sequence[str], arrays: Sequence[np.ndarray]
           ) -> Callable[[], Any] | None:
    """A call of what numba compiles; None if it cannot."""
    import numba

    call = partial(numba.njit(_function(text, names, np)), *arrays)
    try:
        call()
    except (numba.core.errors.NumbaError, NotImplementedError):  # it has less than NumPy
        return None
    return call


def _jax(text: str, names: Sequence[str], arrays: Sequence[np.ndarray]
         ) -> Callable[[], Any] | None:
    """A call of what JAX compiles, on arrays of its own; None if it cannot."""
    from .contestants.jax_ import jax, jnp

    compiled, held = jax.jit(_function(text, names, jnp)), [jnp.asarray(a) for a in arrays]
    try:
        compiled(*held)
    except (AttributeError, NotImplementedError, TypeError):  # it has less than NumPy
        return None
    return lambda: jax.block_until_ready(compiled(*held))


PEERS: dict[str, Callable[..., Callable[[], Any] | None]] = {
    "numpy": lambda text, names, arrays: partial(_function(text, names, np), *arrays),
    "numba": _numba, "jax": _jax}


def _wrong(got: np.ndarray, want: np.ndarray, tolerance: float) -> str:
    """What is wrong with an answer; numbers that are not finite are compared as they are."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    if want.dtype.kind in "biu":
        return "" if np.array_equal(got, want) else "other integers"
    plain = np.isfinite(want)
    if not np.array_equal(got[~plain], want[~plain], equal_nan=True):
        return "other infinities or NaNs"
    largest = np.max(np.abs(want[plain]), initial=0) or 1
    error = np.max(np.abs(got - want)[plain], initial=0) / largest
    return "" if error <= tolerance else f"relative error {error:.1e}"
