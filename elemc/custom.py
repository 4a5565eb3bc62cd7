"""Gradient rules of the user's own for whole functions, and a numerical check of any rule."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from .array import Array, as_node
from .errors import ArgumentError, ElemcError
from .function import Function
from .grads import vjp
from .graph import make, note_source
from .graph_gradients import Custom, Result
from .tracing import TracedFunction, compile
from .tracing_results import flatten


class custom_vjp:  # noqa: N801 - a decorator
    """A function whose gradient is given, not derived.

    ::

        @ec.custom_vjp
        def log1pexp(x):
            return np.log(1 + np.exp(x))

        @log1pexp.defvjp
        def rule(g, z, x):
            return g * (1 - 1 / (1 + np.exp(x)))

    The rule takes the cotangent of the result, the result, and the arguments; it gives a cotangent
    for every argument, in its shape, or None.  Where the function gives a tuple or a dict, so are
    the cotangents and results; those of integers and bools are None, and those of results that do
    not matter are zeros.

    Raises
    ------
    ArgumentError
        If the rule gives another number of cotangents than there are arguments.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fn)
        self.fn, self.name = fn, str(getattr(fn, "__name__", "f"))
        self.rule: Callable[..., Any] | None = None

    def defvjp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Give the rule; usable as a decorator."""
        self.rule = rule
        return rule

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The function of symbolic arrays, or of NumPy arrays."""
        if named:
            args = inspect.signature(self.fn).bind(*args, **named).args
        if not any(isinstance(a, Array) for a in args):
            return compile(self, name=self.name)(*args)
        if self.rule is None:
            raise ArgumentError(f"custom_vjp {self.name}: give its rule with defvjp")
        results, rebuild = flatten(self.fn(*args), self.name)
        inputs = tuple(as_node(a) for a in args)
        call = make(Custom, self.name, tuple(results), inputs, self.rule, rebuild, False)
        note_source(call)
        arrays = [Array(make(Result, call, k)) for k in range(len(results))]
        return arrays[0] if rebuild is None else rebuild(arrays)


def check_vjp(f: Any, *inputs: Any, rtol: float = 1e-5, atol: float = 1e-7,
              step: float = 1e-4) -> None:
    """Compare the gradients of a function with central differences.

    Parameters
    ----------
    f : Function, or what `elemc.compile` made, or NumPy code
    *inputs : array_like
        Floating-point ones in float64 or complex128, away from kinks.
    rtol, atol : float
        How much they may differ, `atol` by the largest gradient.
    step : float
        Of the differences, which are of fourth order.

    Notes
    -----
    The results are weighted at random and summed.  The differences of that sum cannot be more exact
    than its rounding lets them be: 8 epsilons of the results' dtype, times the sum of magnitudes,
    divided by `step`, are allowed besides.

    Raises
    ------
    ElemcError
        If they do; it names the input, the element, and both numbers.
    """
    if not isinstance(f, Function):
        f = (f if isinstance(f, TracedFunction) else compile(f)).trace(*inputs)
    arrays = [np.asarray(a) for a in inputs]
    outputs = _flat(f(*arrays))
    rng = np.random.default_rng(0)
    weights = [_draw(rng, z) for z in outputs]
    found = vjp(f)(*arrays, *(w for w in weights if w is not None))

    def cost(k: int, moved: np.ndarray) -> float:
        results = _flat(f(*(moved if j == k else a for j, a in enumerate(arrays))))
        return float(sum(np.sum(np.real(np.conj(w) * z)) for w, z in
                         zip(weights, results, strict=True) if w is not None))

    noise = 8 / step * sum(float(np.finfo(z.dtype).eps * np.sum(np.abs(w * z)))
                           for w, z in zip(weights, outputs, strict=True) if w is not None)
    for k, got in enumerate(found):
        if got is None:
            continue
        want = _differences(functools.partial(cost, k), arrays[k], step)
        allowed = rtol * np.abs(want) + atol * np.max(np.abs(want), initial=0) + noise
        near = np.abs(got - want) <= allowed
        if not np.all(near):
            at = tuple(int(i) for i in np.argwhere(~near)[0])
            place = f"{f.graph.inputs[k].name} at {at}" if at else f.graph.inputs[k].name
            raise ElemcError(f"check_vjp of {f.name}: the gradient of {place} is {got[at]}, and "
                             f"by differences {want[at]}")


def _flat(result: Any) -> list[np.ndarray]:
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in _flat(part)]
    return [np.asarray(result)]


def _draw(rng: np.random.Generator, like: np.ndarray) -> np.ndarray | None:
    if like.dtype.kind not in "fc":
        return None
    drawn = rng.normal(size=like.shape).astype(like.dtype)
    return drawn + 1j * rng.normal(size=like.shape) if like.dtype.kind == "c" else drawn


def _differences(cost: Callable[[np.ndarray], float], x: np.ndarray, step: float) -> np.ndarray:
    """The gradient of `cost` at `x`, element by element."""
    found = np.zeros(x.shape, x.dtype)
    for at in np.ndindex(x.shape):
        for direction in (1, 1j) if x.dtype.kind == "c" else (1,):
            values = []
            for count in (1, -1, 2, -2):
                moved = x.copy()
                moved[at] += count * step * direction
                values.append(cost(moved))
            slope = (8 * (values[0] - values[1]) - values[2] + values[3]) / (12 * step)
            found[at] += slope * direction
    return found
