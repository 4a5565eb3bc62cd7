"""What `help` says of the functions of the table of operations."""

from __future__ import annotations

import numpy as np

from .dtypes import DTYPES, NAMES
from .errors import DtypeError
from .ops_base import ScalarOp

SUMMARIES = {
    "add": "The sum; of bools, whether either holds.",
    "subtract": "The difference.",
    "multiply": "The product; of bools, whether both hold.",
    "divide": "The quotient, which is floating-point for integers too.",
    "floor_divide": "The quotient rounded down; 0 for integers divided by 0.",
    "remainder": "What `x // y` leaves, with the sign of y; 0 for integers divided by 0.",
    "fmod": "What the quotient rounded towards 0 leaves, with the sign of x.",
    "power": "x to the power y; integers to negative integer powers are a DomainError.",
    "float_power": "x to the power y, in double precision at least.",
    "negative": "The value with the other sign.",
    "positive": "The value itself.",
    "absolute": "The absolute value, real for complex numbers.",
    "fabs": "The absolute value, floating-point for integers too.",
    "sign": "-1, 0 or 1; of a complex number, its direction z / abs(z).",
    "reciprocal": "1 / x, in the dtype of x.",
    "square": "x * x.",
    "sqrt": "The square root, correctly rounded for real numbers.",
    "cbrt": "The cube root.",
    "exp": "e to the power x.",
    "exp2": "2 to the power x.",
    "expm1": "exp(x) - 1, accurate for small x.",
    "log": "The natural logarithm.",
    "log2": "The logarithm to base 2.",
    "log10": "The logarithm to base 10.",
    "log1p": "log(1 + x), accurate for small x.",
    "sin": "The sine.",
    "cos": "The cosine.",
    "tan": "The tangent.",
    "arcsin": "The inverse sine, from -pi/2 to pi/2.",
    "arccos": "The inverse cosine, from 0 to pi.",
    "arctan": "The inverse tangent, from -pi/2 to pi/2.",
    "arctan2": "The angle of the point (y, x), from -pi to pi: x is its ordinate.",
    "sinh": "The hyperbolic sine.",
    "cosh": "The hyperbolic cosine.",
    "tanh": "The hyperbolic tangent.",
    "arcsinh": "The inverse hyperbolic sine.",
    "arccosh": "The inverse hyperbolic cosine.",
    "arctanh": "The inverse hyperbolic tangent.",
    "hypot": "sqrt(x**2 + y**2), without overflow.",
    "deg2rad": "Degrees as radians.",
    "rad2deg": "Radians as degrees.",
    "floor": "The largest integer that is not above x.",
    "ceil": "The smallest integer that is not below x.",
    "trunc": "The integer part, rounded towards 0.",
    "rint": "The nearest integer, even if two are as near; floating-point for integers too.",
    "round": "The nearest integer, even if two are as near, in the dtype of x.",
    "copysign": "The magnitude of x with the sign of y.",
    "nextafter": "The next floating-point number from x towards y.",
    "spacing": "The distance from x to the next floating-point number away from 0.",
    "ldexp": "x * 2**y, y an integer.",
    "signbit": "Whether the sign is set, that of -0.0 too.",
    "heaviside": "The step function: 0 below 0, 1 above it, and y at 0.",
    "maximum": "The greater; NaN if either is NaN (ties=: who gets the gradient: split, all, first).",
    "minimum": "The smaller; NaN if either is NaN.",
    "fmax": "The greater; the other if one is NaN.",
    "fmin": "The smaller; the other if one is NaN.",
    "logaddexp": "log(exp(x) + exp(y)), without overflow.",
    "logaddexp2": "log2(2**x + 2**y), without overflow.",
    "equal": "Whether x == y.",
    "not_equal": "Whether x != y.",
    "less": "Whether x < y; complex numbers by their real, then by their imaginary parts.",
    "less_equal": "Whether x <= y; complex numbers by their real, then by their imaginary parts.",
    "greater": "Whether x > y; complex numbers by their real, then by their imaginary parts.",
    "greater_equal": "Whether x >= y; complex numbers by their real, then by their imaginary parts.",
    "logical_and": "Whether both are other than 0.",
    "logical_or": "Whether either is other than 0.",
    "logical_xor": "Whether one of the two is other than 0.",
    "logical_not": "Whether x is 0.",
    "bitwise_and": "The bits that both have.",
    "bitwise_or": "The bits that either has.",
    "bitwise_xor": "The bits that one of the two has.",
    "invert": "The bits that x has not; of bools, the opposite.",
    "left_shift": "The bits moved to the left; 0 if by the width or more.",
    "right_shift": "The bits moved to the right; the sign if by the width or more.",
    "isnan": "Whether x is NaN, or a part of it.",
    "isinf": "Whether x is infinite, or a part of it.",
    "isfinite": "Whether x is neither infinite nor NaN, nor a part of it.",
    "where": "y where x holds, else z.",
    "gcd": "The greatest common divisor.",
    "lcm": "The least common multiple.",
    "real": "The real part.",
    "imag": "The imaginary part; 0 for real numbers.",
    "conjugate": "The complex conjugate.",
    "angle": "The angle of a complex number, from -pi to pi; 0 or pi for real numbers.",
    "erf": "The error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x.",
    "erfc": "1 - erf(x), accurate for large x.",
    "erfinv": "The inverse of the error function.",
    "gamma": "The gamma function, (x - 1)! for integers; NaN at negative integers.",
    "lgamma": "The logarithm of the absolute value of the gamma function.",
    "digamma": "The logarithmic derivative of the gamma function.",
    "polygamma": "The derivative number x of the digamma function, at y; SciPy's polygamma(n, x).",
    "sigmoid": "1 / (1 + exp(-x)), the logistic function.",
    "logit": "log(x / (1 - x)), the inverse of the logistic function.",
    "softplus": "log(1 + exp(x)), without overflow.",
    "relu": "The greater of x and 0; NaN if x is NaN.",
    "gelu": "x times the distribution function of the normal distribution at x.",
    "silu": "x * sigmoid(x).",
    "sinc": "sin(pi * x) / (pi * x); 1 at 0.",
    "xlogy": "x * log(y); 0 where x is 0, unless y is NaN.",
    "xlog1py": "x * log(1 + y); 0 where x is 0, unless y is NaN.",
}


def docstring(op: ScalarOp) -> str:
    """What it computes, its dtypes, and the method where it is not the C library's."""
    lines = [SUMMARIES.get(op.name, f"{op.name}, element by element."), "",
             f"`{op.notation.format('x', 'y', 'z')}`, element by element, of symbolic arrays, or of "
             "NumPy arrays and numbers.", "", "Dtypes of operands and result:", ""]
    lines += [f"    {row}" for row in _dtypes(op)]
    if op.algorithm:
        lines += ["", f"Method: {op.algorithm}."]
    return "\n".join(lines)


def _dtypes(op: ScalarOp) -> list[str]:
    """Per dtype of the operation's result: operands of which dtypes lead there."""
    found: dict[str, list[str]] = {}
    kept = []
    for dtype in DTYPES:
        rest = (dtype if op.name != "ldexp" else np.dtype(np.int32),) * (op.nin - 1)
        try:
            _, out = op.resolve((dtype, *rest))
        except DtypeError:
            continue
        if out == dtype:
            kept.append(NAMES[dtype])
        else:
            found.setdefault(NAMES[out], []).append(NAMES[dtype])
    rows = [f"{', '.join(names)} -> {out}" for out, names in found.items()]
    return [*([f"{', '.join(kept)} -> the same"] if kept else []), *rows]
