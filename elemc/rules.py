"""The gradient rules of scalar operations: one row each, knowing nothing of ranks.

A rule takes the cotangent `g` of the result `z`, `z` itself, and the operands; it gives what each
operand contributes to its cotangent, or None for nothing.  The convention for complex numbers is
PyTorch's: a holomorphic f gives g * conj(f'(z)).  At kinks: 0 for abs, relu, sign and hypot(0, 0),
half for either of two equal arguments of maximum and minimum, and of two equal infinities of
logaddexp; equal shares for infinities that are the maximum of logsumexp, whose gradient sums to 1.

Rules are written so that they neither overflow nor cancel where the gradient itself is finite:
tanh' is 1 / cosh**2, not 1 - tanh**2, which is 0 from 19 on; tan' of complex numbers 1 / cos**2.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .array import Array, apply, as_node
from .errors import ArgumentError, ShapeError, UnsupportedError
from .graph import Const
from .ops import SECH, TIED
from .ops_base import row
from .records import dataclass

Rule = Callable[..., tuple[Any, ...]]


@dataclass(frozen=True)
class Ratio:
    """`value / by`, where `by` knows of the operand alone: sums over what it lacks come first."""

    value: Any
    by: Any


LN2, LN10, PI = math.log(2), math.log(10), math.pi


def conj(x: Any) -> Any:
    """The conjugate; of a real number itself."""
    return np.conjugate(x) if x.dtype.kind == "c" else x


def _real(x: Any) -> bool:
    return bool(x.dtype.kind != "c")


def _where(condition: Any, x: Any, y: Any) -> Any:
    return apply("where", condition, x, y)


def _zero_at(pole: Any, value: Any) -> Any:
    """`value`, but 0 at a pole."""
    return _where(pole, 0, value)


# -- one operand -----------------------------------------------------------------------------------


def _sqrt(g: Any, z: Any, x: Any) -> Any:
    return g / (2 * conj(z))


def _tanh(g: Any, z: Any, x: Any) -> Any:
    r = conj(apply(SECH, x))
    return g * r * r


def _tan(g: Any, z: Any, x: Any) -> Any:
    if _real(x):
        return g * (1 + z * z)
    r = conj(apply(SECH, 1j * x))  # 1 / cos(x); 1 + z * z cancels far from the real axis
    return g * r * r


def _absolute(g: Any, z: Any, x: Any) -> Any:
    if _real(x):
        return g * np.sign(x)
    return g * _zero_at(z == 0, x / z)


def _sign(g: Any, z: Any, x: Any) -> Any:
    if _real(x):
        return None
    return _zero_at(x == 0, (g - z * np.real(conj(z) * g)) / abs(x))


def _arcsinh(g: Any, z: Any, x: Any) -> Any:
    return g / (np.hypot(x, 1) if _real(x) else conj(np.sqrt(x * x + 1)))


def _angle(g: Any, z: Any, x: Any) -> Any:
    if _real(x):
        return None
    size = abs(x)
    return 1j * g * _zero_at(size == 0, x / size / size)


def _gelu(g: Any, z: Any, x: Any) -> Any:
    density = np.exp(-0.5 * x * x) * (1 / math.sqrt(2 * PI))
    half: Any = 0.5
    return g * (half * apply("erfc", x * -math.sqrt(0.5)) + _zero_at(np.isinf(x), x * density))


def _silu(g: Any, z: Any, x: Any) -> Any:
    """sigmoid(x) + silu(x) sigmoid(-x)."""
    return g * (apply("sigmoid", x) + _zero_at(np.isinf(x), z * apply("sigmoid", -x)))


def _sinc(g: Any, z: Any, x: Any) -> Any:
    """(cos(pi x) - sinc(x)) / x, with x reduced exactly in the cosine, and near 0 its series."""
    square: Any = (PI * x) ** 2
    series: Any = 0.0
    for k in range(9, 0, -1):
        series = series * square + (-1) ** k * 2 * k / math.factorial(2 * k + 1)
    cosine = np.cos(PI * (x - 2 * np.rint(0.5 * x)))
    return g * _where(abs(x) < 0.3, series * PI * PI * x, (cosine - z) / x)


UNARY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "negative": lambda g, z, x: -g,
    "positive": lambda g, z, x: g,
    "absolute": _absolute,
    "fabs": _absolute,
    "sign": _sign,
    "reciprocal": lambda g, z, x: -g * conj(z * z),
    "square": lambda g, z, x: 2 * (g * conj(x)),
    "sqrt": _sqrt,
    "near": lambda g, z, x: g,
    "root": lambda g, z, x: _zero_at(z == 0, g / (2 * z)),
    "cbrt": lambda g, z, x: g / (3 * z * z),
    "exp": lambda g, z, x: g * conj(z),
    "exp2": lambda g, z, x: g * conj(z) * LN2,
    "expm1": lambda g, z, x: g * conj(np.exp(x)),
    "log": lambda g, z, x: g / conj(x),
    "log2": lambda g, z, x: g / (conj(x) * LN2),
    "log10": lambda g, z, x: g / (conj(x) * LN10),
    "log1p": lambda g, z, x: g / (1 + conj(x)),
    "sin": lambda g, z, x: g * conj(np.cos(x)),
    "cos": lambda g, z, x: -g * conj(np.sin(x)),
    "tan": _tan,
    "arcsin": lambda g, z, x: g / conj(np.sqrt((1 - x) * (1 + x))),
    "arccos": lambda g, z, x: -g / conj(np.sqrt((1 - x) * (1 + x))),
    "arctan": lambda g, z, x: g / conj(1 + x * x),
    "sinh": lambda g, z, x: g * conj(np.cosh(x)),
    "cosh": lambda g, z, x: g * conj(np.sinh(x)),
    "tanh": _tanh,
    "sech": lambda g, z, x: -g * conj(z * np.tanh(x)),
    "arcsinh": _arcsinh,
    "arccosh": lambda g, z, x: g / conj(np.sqrt(x - 1) * np.sqrt(x + 1)),
    "arctanh": lambda g, z, x: g / conj((1 - x) * (1 + x)),
    "deg2rad": lambda g, z, x: g * (PI / 180),
    "rad2deg": lambda g, z, x: g * (180 / PI),
    "real": lambda g, z, x: g,
    "imag": lambda g, z, x: None if _real(x) else 1j * g,
    "conjugate": lambda g, z, x: conj(g),
    "angle": _angle,
    "erf": lambda g, z, x: g * np.exp(-x * x) * (2 / math.sqrt(PI)),
    "erfc": lambda g, z, x: g * np.exp(-x * x) * (-2 / math.sqrt(PI)),
    "erfinv": lambda g, z, x: g * np.exp(z * z) * (math.sqrt(PI) / 2),
    "gamma": lambda g, z, x: g * z * apply("digamma", x),
    "lgamma": lambda g, z, x: g * apply("digamma", x),
    "digamma": lambda g, z, x: g * apply("polygamma", 1, x),
    "sigmoid": lambda g, z, x: g * z * apply("sigmoid", -x),
    "logit": lambda g, z, x: g / (x * (1 - x)),
    "softplus": lambda g, z, x: g * apply("sigmoid", x),
    "relu": lambda g, z, x: _where(x > 0, g, 0),
    "gelu": _gelu,
    "silu": _silu,
    "sinc": _sinc,
}

# -- two operands ----------------------------------------------------------------------------------


def _power(g: Any, z: Any, x: Any, y: Any) -> Any:
    """Of x**0, x**inf and 0**y, whose gradients are 0 where the factors are infinite."""
    if isinstance(y.node, Const):
        return _by_base(g, x, y.node.value), None
    lower = x ** (y - 1)
    pole = (x == 0) & (y == 0) | (lower == 0) & np.isinf(y)
    by_x = _zero_at(pole, g * conj(y * lower))
    flat = (x == 0) & ((y if _real(y) else np.real(y)) >= 0)
    return by_x, _zero_at(flat, g * conj(z * np.log(x)))


def _by_base(g: Any, x: Any, power: Any) -> Any:
    """The gradient of x**power in x, without pow where products do."""
    if power == 0:
        return None
    if power == 2:
        return 2 * (g * conj(x))
    return g * conj(power * x ** (power - 1))


def _arctan2(g: Any, z: Any, y: Any, x: Any) -> Any:
    size = np.hypot(x, y)
    return tuple(_zero_at((size == 0) | np.isinf(v), g * (v / size) / size) for v in (x, -y))


def _hypot(g: Any, z: Any, x: Any, y: Any) -> Any:
    """Cosine and sine of the angle; that of two infinities is 45 degrees, as arctan2 has it."""
    def part(v: Any, other: Any) -> Any:
        infinite = _where(np.isinf(other), math.sqrt(0.5), 1.0) * np.sign(v)
        return _zero_at(z == 0, g * _where(np.isinf(v), infinite, v / z))

    return part(x, y), part(y, x)


def _isnan(x: Any) -> Any:
    """Whether `x` is NaN; None if it never is."""
    known = isinstance(x.node, Const) and not np.isnan(x.node.value)
    return None if known else np.isnan(x)


def _either(a: Any, b: Any) -> Any:
    return a if b is None else a | b


def _extremum(better: Callable[[Any, Any], Any], skips_nan: bool, ties: str) -> Rule:
    """Of maximum and its like: where both are equal, or NaN, `ties` says who gets how much."""
    shares = {"split": (0.5, 0.5), "all": (1.0, 1.0), "first": (1.0, 0.0)}[ties]

    def rule(g: Any, z: Any, x: Any, y: Any) -> Any:
        nan_x, nan_y = _isnan(x), _isnan(y)
        equal = _either(x == y, None if nan_x is None or nan_y is None else nan_x & nan_y)
        first, second = (nan_y, nan_x) if skips_nan else (nan_x, nan_y)
        return (_where(equal, shares[0] * g, _where(_either(better(x, y), first), g, 0)),
                _where(equal, shares[1] * g, _where(_either(better(y, x), second), g, 0)))

    return rule


def _logaddexp(scale: float) -> Rule:
    def rule(g: Any, z: Any, x: Any, y: Any) -> Any:
        equal = (x == y) & np.isinf(x)  # which have no difference
        return tuple(g * _where(equal, 0.5, apply("sigmoid", (a - b) * scale))
                     for a, b in ((x, y), (y, x)))

    return rule


def _divide(g: Any, z: Any, x: Any, y: Any) -> Any:
    return g / conj(y), Ratio(-g * conj(z), conj(y))


def _xlogy(g: Any, z: Any, x: Any, y: Any) -> Any:
    pole = (x == 0) & (y == 0)
    return tuple(_zero_at(pole, part) for part in (g * np.log(y), g * (x / y)))


def _xlog1py(g: Any, z: Any, x: Any, y: Any) -> Any:
    pole = (x == 0) & (y == -1)
    return tuple(_zero_at(pole, part) for part in (g * np.log1p(y), g * (x / (1 + y))))


BINARY: dict[str, Rule] = {
    "add": lambda g, z, x, y: (g, g),
    "below": lambda g, z, x, top: (g, None),
    "subtract": lambda g, z, x, y: (g, -g),
    "multiply": lambda g, z, x, y: (g * conj(y), g * conj(x)),
    "divide": _divide,
    "power": _power,
    "float_power": _power,
    "remainder": lambda g, z, x, y: (g, -g * np.floor(x / y)),
    "fmod": lambda g, z, x, y: (g, -g * np.trunc(x / y)),
    "arctan2": _arctan2,
    "hypot": _hypot,
    "copysign": lambda g, z, x, y: (g * (np.sign(x) * np.copysign(1.0, y)), None),
    "nextafter": lambda g, z, x, y: (g, None),
    "ldexp": lambda g, z, x, y: (np.ldexp(g, y), None),
    "heaviside": lambda g, z, x, y: (None, _where(x == 0, g, 0)),
    **{op.name: _extremum(operator.gt if name in ("maximum", "fmax") else operator.lt,
                          name in ("fmax", "fmin"), ties) for (name, ties), op in TIED.items()},
    "logaddexp": _logaddexp(1.0),
    "logaddexp2": _logaddexp(LN2),
    "shortcut": lambda g, z, quick, x, y: (None, None, g),
    "polygamma": lambda g, z, n, x: (None, g * apply("polygamma", n + 1, x)),
    "xlogy": _xlogy,
    "xlog1py": _xlog1py,
}

# Constant almost everywhere, or of integers and bools only.
FLAT = frozenset(
    "floor_divide floor ceil trunc rint round spacing signbit equal not_equal less less_equal "
    "greater greater_equal logical_and logical_or logical_xor logical_not bitwise_and bitwise_or "
    "bitwise_xor invert left_shift right_shift isnan isinf isfinite gcd lcm integral "
    "stop_gradient".split())

RULES: dict[str, Rule] = {
    name: (lambda g, z, x, rule=rule: (rule(g, z, x),)) for name, rule in UNARY.items()} | BINARY


def rule_of(op: Any) -> Rule | None:
    """The gradient rule of an operation; None if its gradient is 0 everywhere.

    Raises
    ------
    UnsupportedError
        If it is smooth, and the rule is missing.
    """
    if op.vjp is not None:
        return lambda g, z, *xs: ask(op.name, op.vjp, g, z, xs, [z.ndim] * len(xs))
    own: bool = row(op.name) is op  # not a user's of the same name
    if not own or op.name not in FLAT and op.name not in RULES:
        raise UnsupportedError(f"{op.name} has no gradient: scalar_op(..., vjp=) gives it one")
    return RULES.get(op.name)


def ask(op: str, rule: Rule, g: Any, z: Any, operands: Sequence[Any], ranks: Sequence[int]
        ) -> tuple[Any, ...]:
    """What the user's rule of `op` gives: for each operand a cotangent of this rank, or None."""
    try:
        result = rule(g, z, *operands)
        parts = result if isinstance(result, (tuple, list)) else (result,)
        found = tuple(None if part is None else Array(as_node(part)) for part in parts)
    except Exception as error:
        error.add_note(f"in the gradient rule of {op}")
        raise
    if len(found) != len(operands):
        raise ArgumentError(f"the gradient rule of {op} gives {len(found)} cotangents for "
                            f"{len(operands)} operands")
    for k, (part, rank) in enumerate(zip(found, ranks, strict=True)):
        constant = part is not None and isinstance(part.node, Const)
        if part is not None and part.ndim != rank and not constant:
            raise ShapeError(f"the gradient rule of {op} gives a cotangent of rank {part.ndim} for "
                             f"operand {k}, whose rank is {rank}")
    return found
