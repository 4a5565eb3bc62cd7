"""The workloads: one row each, written once as NumPy code over any NumPy-like module.

`numpy` takes the module (`np`, `jnp`, torch's namesake) and returns the function to time;
`numexpr` is the same in numexpr's language; `given` is how a NumPy user fills outputs that exist
already.  Numba's loops, which are a text of their own, stand in `contestants/numba_.py`.
Of a workload with `wrt`, `numpy` is a cost, and what is computed is its gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import gradients
from .gradients import CUBE, WIDTH, Function

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Workload:
    """A named computation.

    Attributes
    ----------
    name, text : str
        What it is called, and what it computes.
    shapes : callable
        (rows, columns) to the operands' shapes; elementwise work is measured on vectors.
    numpy : callable
        NumPy-like module to the function of the operands.
    numexpr : tuple of str
        One expression per output, of a, b, c...; empty where numexpr cannot say it.
    given : callable, optional
        NumPy code with the outputs as last arguments; returns nothing.
    wrt : tuple of int
        Operands by which `numpy`, then a scalar, is to be differentiated; the answer is a tuple
        that lines up with it.
    by_hand : callable, optional
        That gradient as a NumPy user writes it.
    amend : callable, optional
        Random operands to those that the workload is measured on.
    views : callable, optional
        Operands to what `numexpr` is written for, which can neither index nor transpose.
    memory_bound : bool
        Whether moving the data is what takes the time.
    large : int
        Elements of each operand where 8M are asked for.
    """

    name: str
    text: str
    shapes: Callable[[int, int], tuple[Shape, ...]]
    numpy: Callable[[Any], Function]
    numexpr: tuple[str, ...] = ()
    given: Function | None = None
    wrt: tuple[int, ...] = ()
    by_hand: Function | None = None
    amend: Function | None = None
    views: Function | None = None
    memory_bound: bool = False
    large: int = 8 * 10**6

    @property
    def reference(self) -> Function:
        """NumPy's own answer, which the others' are held against."""
        return self.by_hand or self.numpy(np)

    def specs(self, operands: list[np.ndarray]) -> list[tuple[Shape, np.dtype[Any]]]:
        """Shapes and dtypes of the outputs, as NumPy's answer has them."""
        found = self.reference(*operands)
        return [(np.shape(out), out.dtype) for out in
                (found if isinstance(found, tuple) else (found,))]

    def elements(self, size: int) -> int | None:
        """How many are measured where `size` are asked for; None if none.

        Beyond 8M, arrays outgrow every cache, and rows that memory does not bound tell nothing new.
        """
        if size == 8 * 10**6:
            return self.large
        return size if size < 8 * 10**6 or self.memory_bound else None


def grid(size: int) -> tuple[int, int]:
    """Rows and columns, nearly square, of a matrix of about `size` elements."""
    columns = math.isqrt(size)
    return size // columns, columns


def operands(work: Workload, size: int, dtype: str, seed: int = 0) -> list[np.ndarray]:
    """Random operands between 0.5 and 1.5, away from every pole, if the row does not amend them."""
    rng = np.random.default_rng(seed)
    shapes = work.shapes(*grid(size))
    if all(len(shape) == 1 for shape in shapes):
        shapes = ((size,),) * len(shapes)
    found = [(0.5 + rng.random(shape)).astype(dtype) for shape in shapes]
    return list(work.amend(*found)) if work.amend else found


def softmax(xp: Any) -> Function:
    """Softmax of each row."""

    def softmax(x: Any) -> Any:
        e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
        return e / xp.sum(e, axis=-1, keepdims=True)

    return softmax


def logsumexp(xp: Any) -> Function:
    """Logarithm of the sum of each row's exponentials, without overflow."""

    def logsumexp(x: Any) -> Any:
        top = xp.max(x, axis=-1, keepdims=True)
        return xp.log(xp.sum(xp.exp(x - top), axis=-1)) + top[:, 0]

    return logsumexp


def gelu(xp: Any) -> Function:
    """GELU, approximated by tanh."""
    return lambda x: 0.5 * x * (1 + xp.tanh(WIDTH * (x + CUBE * x * x * x)))


def layer_norm(xp: Any) -> Function:
    """Rows with mean 0 and variance 1, then scaled and shifted by column."""

    def layer_norm(x: Any, g: Any, b: Any) -> Any:
        d = x - xp.mean(x, axis=-1, keepdims=True)
        variance = xp.mean(d * d, axis=-1, keepdims=True)
        return d / xp.sqrt(variance + 1e-5) * g + b

    return layer_norm


def black_scholes(xp: Any) -> Function:
    """Call and put price of spot s, strike k, years t; rate 0.03, volatility 0.2.

    The normal distribution function is Abramowitz and Stegun's 26.2.17, for NumPy has no erf.
    """

    def phi(x: Any) -> Any:
        k = 1 / (1 + 0.2316419 * xp.abs(x))
        poly = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937
                    + k * (-1.821255978 + k * 1.330274429))))
        tail = 0.3989422804014327 * xp.exp(-0.5 * x * x) * poly
        return xp.where(x > 0, 1 - tail, tail)

    def black_scholes(s: Any, k: Any, t: Any) -> tuple[Any, Any]:
        spread = 0.2 * xp.sqrt(t)
        d1 = (xp.log(s / k) + 0.05 * t) / spread
        d2 = d1 - spread
        discounted = k * xp.exp(-0.03 * t)
        call = s * phi(d1) - discounted * phi(d2)
        return call, call - s + discounted

    return black_scholes


def _phi_text(x: str) -> str:
    k = f"(1 / (1 + 0.2316419 * abs({x})))"
    poly = (f"{k} * (0.319381530 + {k} * (-0.356563782 + {k} * (1.781477937 "
            f"+ {k} * (-1.821255978 + {k} * 1.330274429))))")
    tail = f"0.3989422804014327 * exp(-0.5 * {x} * {x}) * {poly}"
    return f"where({x} > 0, 1 - {tail}, {tail})"


_D1 = "((log(a / b) + 0.05 * c) / (0.2 * sqrt(c)))"
_D2 = f"({_D1} - 0.2 * sqrt(c))"
_CALL = f"(a * {_phi_text(_D1)} - b * exp(-0.03 * c) * {_phi_text(_D2)})"


def _axpy_given(x: Any, y: Any, out: Any) -> None:
    np.multiply(x, 2, out=out)
    np.add(out, y, out=out)


def _madd_given(x: Any, y: Any, out: Any) -> None:
    np.multiply(x, y, out=out)
    np.add(out, 1, out=out)


def _affine_given(x: Any, g: Any, b: Any, out: Any) -> None:
    np.multiply(x, g, out=out)
    np.add(out, b, out=out)


def _lead_given(x: Any, s: Any, t: Any, out: Any) -> None:
    np.multiply(x, s[:, None], out=out)
    np.add(out, t[:, None], out=out)


def _vectors(count: int) -> Callable[[int, int], tuple[Shape, ...]]:
    return lambda m, n: ((m * n,),) * count


def _alike(count: int) -> Callable[[int, int], tuple[Shape, ...]]:
    return lambda m, n: ((m, n),) * count


def _by_column(count: int) -> Callable[[int, int], tuple[Shape, ...]]:
    return lambda m, n: ((m, n), *((n,),) * count)


def _rows_of_64(m: int, n: int) -> tuple[Shape, ...]:
    rows = max(m * n // 64, 1)
    return (rows, 64), (rows,)


def _near_one(x: Any) -> tuple[Any, ...]:
    return (1 + (x - 1) / 32,)  # or products leave the range of float32


ROWS = (
    Workload("madd", "x*y + 1", _vectors(2), lambda xp: lambda x, y: x * y + 1, ("a*b + 1",),
             _madd_given, memory_bound=True),
    Workload("axpy", "2*x + y", _vectors(2),
             lambda xp: lambda x, y: 2 * x + y, ("2*a + b",), _axpy_given, memory_bound=True),
    Workload("poly", "x*y + (x-y)/(x*x + y*y + 1)", _vectors(2),
             lambda xp: lambda x, y: x * y + (x - y) / (x * x + y * y + 1),
             ("a*b + (a-b)/(a*a + b*b + 1)",), memory_bound=True),
    Workload("transcendental", "exp(-x*x/2)*sin(y) + log1p(abs(x))", _vectors(2),
             lambda xp: lambda x, y: xp.exp(-x * x / 2) * xp.sin(y) + xp.log1p(xp.abs(x)),
             ("exp(-a*a/2)*sin(b) + log1p(abs(a))",)),
    Workload("gelu", "0.5*x*(1 + tanh(c*(x + d*x*x*x)))", _vectors(1), gelu,
             (f"0.5*a*(1 + tanh({WIDTH}*(a + {CUBE}*a*a*a)))",)),
    Workload("standardize", "(x-mu)/sd*g + b, all by column", _by_column(4),
             lambda xp: lambda x, mu, sd, g, b: (x - mu) / sd * g + b, ("(a-b)/c*d + e",),
             memory_bound=True),
    Workload("row_broadcast", "x*g + b, g and b by column", _by_column(2),
             lambda xp: lambda x, g, b: x * g + b, ("a*b + c",), _affine_given, memory_bound=True),
    Workload("lead_broadcast", "x*s[:,None] + t[:,None]", lambda m, n: ((m, n), (m,), (m,)),
             lambda xp: lambda x, s, t: x * s[:, None] + t[:, None], ("a*b + c",), _lead_given,
             views=lambda x, s, t: (x, s[:, None], t[:, None]), memory_bound=True),
    Workload("sum", "sum(x*y)", _alike(2),
             lambda xp: lambda x, y: xp.sum(x * y), ("sum(a*b)",), memory_bound=True),
    Workload("squared_distance", "sum((x-y)**2)", _alike(2),
             lambda xp: lambda x, y: xp.sum((x - y) ** 2), ("sum((a-b)**2)",), memory_bound=True),
    Workload("row_sums", "sum(x*y, axis=1)", _alike(2),
             lambda xp: lambda x, y: xp.sum(x * y, axis=1), ("sum(a*b, axis=1)",),
             memory_bound=True),
    Workload("row_norms", "sqrt(sum(x*x, axis=1)) + v", lambda m, n: ((m, n), (m,)),
             lambda xp: lambda x, v: xp.sqrt(xp.sum(x * x, axis=1)) + v, memory_bound=True),
    Workload("column_sums", "sum(x*y, axis=0)", _alike(2),
             lambda xp: lambda x, y: xp.sum(x * y, axis=0), ("sum(a*b, axis=0)",),
             memory_bound=True),
    Workload("weighted_columns", "sum(x*w, axis=0), w by column", _by_column(1),
             lambda xp: lambda x, w: xp.sum(x * w, axis=0), ("sum(a*b, axis=0)",),
             memory_bound=True),
    Workload("row_max", "max(x, axis=1)", _alike(1), lambda xp: lambda x: xp.max(x, axis=1),
             ("max(a, axis=1)",), memory_bound=True),
    Workload("row_product", "prod(x, axis=1)", _alike(1), lambda xp: lambda x: xp.prod(x, axis=1),
             ("prod(a, axis=1)",), amend=_near_one, memory_bound=True),
    Workload("softmax", "softmax of rows", _alike(1), softmax),
    Workload("logsumexp", "log(sum(exp(x), axis=1)), shifted", _alike(1), logsumexp),
    Workload("layer_norm", "layer norm of rows", _by_column(2), layer_norm),
    Workload("black_scholes", "call and put prices", _vectors(3), black_scholes,
             (_CALL, f"{_CALL} - a + b * exp(-0.03 * c)"), large=4 * 10**6),
    Workload("transposed", "a + b.T", lambda m, n: ((m, n), (n, m)),
             lambda xp: lambda a, b: a + b.T, ("a + b",),
             lambda a, b, out: np.add(a, b.T, out=out), views=lambda a, b: (a, b.T),
             large=4096**2),
    Workload("gelu_grad", "gradient of mean(gelu(x*g + b)) in x, g, b", _by_column(2),
             gradients.gelu, wrt=(0, 1, 2), by_hand=gradients.gelu_by_hand),
    Workload("layer_norm_grad", "gradient of sum(layer_norm(x, g, b)*c) in x, g, b",
             lambda m, n: ((m, n), (n,), (n,), (m, n)),
             lambda xp: lambda x, g, b, c: xp.sum(layer_norm(xp)(x, g, b) * c),
             wrt=(0, 1, 2), by_hand=gradients.layer_norm_by_hand),
    Workload("cross_entropy_grad", "gradient of mean(-sum(t*log_softmax(x), 1)) in x, t one-hot",
             _alike(2), gradients.cross_entropy, wrt=(0,),
             by_hand=gradients.cross_entropy_by_hand, amend=gradients.one_hot),
    Workload("product_grad", "gradient of sum(w*prod(x, axis=1)) in x, rows of 64", _rows_of_64,
             gradients.product, wrt=(0,), by_hand=gradients.product_by_hand),
    Workload("logistic_grad", "gradient of mean(softplus(x*w + b) - t*(x*w + b)) in x, w, b",
             lambda m, n: ((m, n), (n,), (n,), (m, n)), gradients.logistic, wrt=(0, 1, 2),
             by_hand=gradients.logistic_by_hand),
    Workload("student_t_grad", "gradient of sum(-log p(x)), p Student's t, in mu and s by column",
             _by_column(2), gradients.student_t, wrt=(1, 2),
             by_hand=gradients.student_t_by_hand),
)

WORKLOADS = {row.name: row for row in ROWS}
