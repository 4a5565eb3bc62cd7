"""The rows of the table of scalar operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import ops_numpy as special
from .dtypes import dtype_of
from .ops_base import NEGATIVE_POWER, ScalarOp

WIDE = (-20.0, 20.0)
UNIT = (-0.999, 0.999)
POSITIVE = (1e-3, 50.0)


def infix(name: str, symbol: str, precedence: int, **more: Any) -> ScalarOp:
    """An operation that is an infix operator in C, for all kinds unless `c` says otherwise."""
    c = {"*": f"{{0}} {symbol} {{1}}"} | more.pop("c", {})
    more.setdefault("domain", (WIDE, WIDE))
    more.setdefault("notation", f"{{0}} {symbol} {{1}}")
    return ScalarOp(name, 2, more.pop("numpy", getattr(np, name, None)), c, precedence, **more)


def call(name: str, nin: int = 1, **more: Any) -> ScalarOp:
    """An operation that is a function call."""
    more.setdefault("domain", (WIDE,) * nin)
    more.setdefault("notation", f"{name}({', '.join(f'{{{k}}}' for k in range(nin))})")
    return ScalarOp(name, nin, more.pop("numpy", None) or getattr(np, name), more.pop("c"), **more)


def helper(name: str, nin: int = 1, **more: Any) -> ScalarOp:
    """An operation that is a helper of the same name, unless `c` says otherwise."""
    args = ", ".join(f"{{{k}}}" for k in range(nin))
    return call(name, nin, c={"*": f"{name}_{{S}}({args})"} | more.pop("c", {}), **more)


def math(name: str, libm: str | None = None, domain: Any = (WIDE,), **more: Any) -> ScalarOp:
    """A function of the math library, of one argument, real and complex."""
    libm = libm or name
    c = {"f": f"elemc_{libm}{{F}}({{0}})", "c": f"elemc_c{libm}{{F}}({{0}})"}
    return call(name, 1, c=c | more.pop("c", {}), cost=20, domain=domain, **more)


def _select(_: Any, *values: Any) -> Any:
    """The dtypes of `where`: those of its branches, promoted."""
    *loop, out = np.maximum.resolve_dtypes((*values, None)) if all(
        not isinstance(v, type) for v in values) else np.add.resolve_dtypes((*values, None))
    if all(isinstance(v, type) or v.kind == "b" for v in values):
        out = np.result_type(*(v(0) if isinstance(v, type) else v for v in values))
    out = dtype_of(out)
    return (np.dtype(bool), out, out), out


def _part(dtype: Any) -> Any:
    """The dtypes of `real` and `imag`."""
    dtype = dtype_of(dtype)
    return (dtype,), np.zeros(0, dtype).real.dtype


def _angle(dtype: Any) -> Any:
    loop = dtype_of(dtype) if np.dtype(dtype).kind == "c" else (
        np.arctan2.resolve_dtypes((int, dtype, None))[-1])  # NumPy's is arctan2(0, x)
    return (loop,), np.zeros(0, loop).real.dtype


def _round(dtype: Any) -> Any:
    return np.positive.resolve_dtypes((dtype, None))[:1], dtype_of(
        np.positive.resolve_dtypes((dtype, None))[1])


def unary(name: str, fn: Callable[..., Any], domain: Any, **more: Any) -> ScalarOp:
    """A special function of one real argument."""
    return call(name, 1, numpy=fn, like=np.cbrt, kinds="f", domain=(domain,), cost=20, **more)


POWER = ("complex numbers as exp(y log(x)) in long double, the C library's cpowl; powers of 0 are NumPy's, and small integer "
         "powers of infinities are products")

# NumPy 2's other names, and SciPy's, of rows.
ALIASES = {
    "abs": "absolute", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh",
    "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh", "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift", "bitwise_not": "invert", "bitwise_right_shift": "right_shift",
    "conj": "conjugate", "degrees": "rad2deg", "expit": "sigmoid", "mod": "remainder", "pow": "power",
    "radians": "deg2rad", "true_divide": "divide"}

LIB = "elemc_{}{{F}}({{0}})".format
ROWS: tuple[ScalarOp, ...] = (
    # arithmetic
    infix("add", "+", 12, c={"b": "({0} | {1})"}),
    infix("subtract", "-", 12),
    infix("multiply", "*", 13, c={"b": "({0} & {1})", "c": "multiply_{S}({0}, {1})"}),
    infix("divide", "/", 13, cost=4, c={"c": "divide_{S}({0}, {1})"}, algorithm="complex quotients by Smith (CACM 5, 1962)"),
    helper("floor_divide", 2, cost=8, notation="{0} // {1}", algorithm="NumPy's, from the exact remainder of fmod"),
    helper("remainder", 2, cost=8, notation="{0} % {1}", algorithm="NumPy's, from the exact remainder of fmod"),
    helper("fmod", 2, cost=20, c={"f": "elemc_fmod{F}({0}, {1})"}),
    call("power", 2, cost=30, notation="{0} ** {1}", domain=((0.1, 5.0), (-3.0, 3.0)), raises=NEGATIVE_POWER,
         algorithm=f"integers by squaring; {POWER}",
         c={"f": "elemc_pow{F}({0}, {1})", "c": "elemc_cpow{F}({0}, {1})", "*": "power_{S}({0}, {1})"}),
    call("float_power", 2, cost=30, domain=((0.1, 5.0), (-3.0, 3.0)), algorithm=POWER,
         c={"f": "elemc_pow{F}({0}, {1})", "c": "elemc_cpow{F}({0}, {1})"}),
    call("negative", precedence=14, notation="-{0}", c={"*": "-{0}", "c": "negative_{S}({0})"}),
    call("positive", notation="+{0}", c={"*": "{0}"}),
    helper("absolute", notation="abs({0})", c={"b": "{0}", "u": "{0}", "f": "__builtin_fabs{F}({0})"}),
    call("fabs", c={"f": "__builtin_fabs{F}({0})"}),
    helper("sign"),
    call("reciprocal", precedence=13, cost=4, c={
        "f": "1 / {0}", "c": "reciprocal_{S}({0})", "*": "reciprocal_{S}({0})"}),
    call("square", precedence=13, notation="{0}**2", c={"*": "{0} * {0}", "c": "multiply_{S}({0}, {0})"}),
    call("sqrt", cost=4, domain=((0.0, 50.0),), c={"f": "__builtin_sqrt{F}({0})", "c": "sqrt_{S}({0})"}),
    # exponentials and logarithms
    math("cbrt"),
    math("exp", domain=((-10.0, 10.0),), c={"c": "exp_{S}({0})"}),
    math("exp2", domain=((-10.0, 10.0),), c={"c": "exp2_{S}({0})"}, algorithm="of complex z, 2**re (cos y + i sin y) "
         "with y = im log 2 in twice the precision"),
    math("expm1", domain=((-5.0, 5.0),), algorithm="of complex x + iy, expm1(x) cos y - 2 sin(y / 2)**2 + i exp(x) sin y"),
    math("log", domain=(POSITIVE,), c={"c": "log_{S}({0})"}, algorithm="of complex z, log(|z|**2) / 2, near 1 log1p of "
         "|z|**2 - 1 in twice the precision"),
    math("log2", domain=(POSITIVE,), c={"c": "log2_{S}({0})"}, algorithm="of complex z, log(z) / log(2)"),
    math("log10", domain=(POSITIVE,), c={"c": "log10_{S}({0})"}, algorithm="of complex z, log(z) / log(10)"),
    math("log1p", domain=((-0.9, 50.0),), algorithm="of complex x + iy, the real part is log1p(x (2 + x) + y**2) / 2, the "
         "argument in twice the precision"),
    # trigonometry
    math("sin"), math("cos"), math("tan", domain=((-1.5, 1.5),), algorithm="of complex z, -i tanh(iz); see tanh"),
    math("arcsin", "asin", (UNIT,)), math("arccos", "acos", (UNIT,)),
    math("arctan", "atan", algorithm="of complex z, -i arctanh(iz); see arctanh"),
    call("arctan2", 2, cost=25, c={"f": "elemc_atan2{F}({0}, {1})"}),
    math("sinh", domain=((-5.0, 5.0),)), math("cosh", domain=((-5.0, 5.0),)),
    math("tanh", domain=((-5.0, 5.0),), algorithm="of complex x + iy with |x| > 0.7, with e = exp(-2 |x|) and d = 1 + 2 e cos 2y + "
         "e**2: 1 - 2 e (cos 2y + e) / d, with the sign of x, + 2 i e sin(2 y) / d"),
    math("arcsinh", "asinh"), math("arccosh", "acosh", ((1.001, 50.0),)),
    math("arctanh", "atanh", (UNIT,), algorithm="of small complex z, the real part is arctanh(2 x / (1 + |z|**2)) / 2"),
    call("hypot", 2, cost=10, c={"f": "elemc_hypot{F}({0}, {1})"}),
    call("deg2rad", precedence=13, c={"f": "{0} * (3.141592653589793{F} / 180)"}),
    call("rad2deg", precedence=13, c={"f": "{0} * (180 / 3.141592653589793{F})"}),
    # rounding and floating-point parts
    *(call(name, c={"*": "{0}", "f": f"__builtin_{name}{{F}}({{0}})"}) for name in ("floor", "ceil", "trunc")),
    call("rint", c={"f": "__builtin_rint{F}({0})", "c": "rint_{S}({0})"}),
    call("round", numpy=np.round, like=_round, kinds="iufc",
         c={"*": "{0}", "f": "__builtin_rint{F}({0})", "c": "rint_{S}({0})"}),
    call("copysign", 2, c={"f": "__builtin_copysign{F}({0}, {1})"}),
    call("nextafter", 2, cost=10, c={"f": "elemc_nextafter{F}({0}, {1})", "float16": "nextafter_f16({0}, {1})"}),
    call("spacing", cost=10, c={"f": "spacing_{S}({0})", "float16": "spacing_f16({0})"}),
    helper("ldexp", 2, cost=10, domain=(WIDE, (-5.0, 5.0)), kinds="fi"),
    call("signbit", precedence=10, c={"f": "__builtin_copysign{F}(1, {0}) < 0"}),
    helper("heaviside", 2),
    # extrema
    helper("maximum", 2), helper("minimum", 2), helper("fmax", 2), helper("fmin", 2),
    helper("logaddexp", 2, cost=40, algorithm="max(x, y) + log1p(exp(-|x - y|))"),
    helper("logaddexp2", 2, cost=40, algorithm="max(x, y) + log1p(2**-|x - y|) / log(2)"),
    # comparisons and logic
    infix("equal", "==", 9), infix("not_equal", "!=", 9),
    infix("less", "<", 10, c={"c": "less_{S}({0}, {1})"}),
    infix("less_equal", "<=", 10, c={"c": "less_equal_{S}({0}, {1})"}),
    infix("greater", ">", 10, c={"c": "less_{S}({1}, {0})"}),
    infix("greater_equal", ">=", 10, c={"c": "less_equal_{S}({1}, {0})"}),
    infix("logical_and", "&", 8, notation="logical_and({0}, {1})",
          c={"*": "({0} && {1})", "b": "{0} & {1}"}),
    infix("logical_or", "|", 6, notation="logical_or({0}, {1})",
          c={"*": "({0} || {1})", "b": "{0} | {1}"}),
    call("logical_xor", 2, precedence=9, c={"*": "!({0}) != !({1})"}),
    call("logical_not", precedence=14, c={"*": "!{0}"}),
    infix("bitwise_and", "&", 8), infix("bitwise_or", "|", 6), infix("bitwise_xor", "^", 7),
    call("invert", precedence=14, notation="~{0}", c={"b": "!{0}", "*": "~{0}"}),
    helper("left_shift", 2, notation="{0} << {1}", domain=(WIDE, (0.0, 9.0))),
    helper("right_shift", 2, notation="{0} >> {1}", domain=(WIDE, (0.0, 9.0))),
    *(call(name, c={"f": f"__builtin_{name}({{0}})", "c": f"{name}_{{S}}({{0}})", "*": other})
      for name, other in (("isnan", "0"), ("isinf", "0"), ("isfinite", "1"))),
    call("where", 3, like=_select, precedence=3, c={"*": "{0} ? {1} : {2}"}, domain=((0.0, 2.0), WIDE, WIDE)),
    # integers and complex numbers
    helper("gcd", 2, cost=30, algorithm="Stein's, on magnitudes"), helper("lcm", 2, cost=30, algorithm="x / gcd(x, y) * y, on magnitudes"),
    call("real", precedence=14, like=_part, c={"*": "{0}", "c": "__real__ {0}"}),
    call("imag", precedence=14, like=_part, c={"*": "0", "f": "0.0{F}", "c": "__imag__ {0}"}),
    call("conjugate", notation="conj({0})", c={"*": "{0}", "c": "conjugate_{S}({0})"}),
    call("angle", cost=25, like=_angle, c={"f": "elemc_atan2{F}(0, {0})", "c": "angle_{S}({0})"}),
    # what scientists add
    unary("erf", special.erf, (-5.0, 5.0), c={"f": LIB("erf")}),
    unary("erfc", special.erfc, (-5.0, 20.0), c={"f": LIB("erfc")}),
    unary("erfinv", special.erfinv, UNIT, c={"f": LIB("erfinv")},
          algorithm="the normal quantile PPND7 of Wichura (Algorithm AS 241, Applied Statistics 37, 1988), and one step of Halley "
                    "on erf, or near the ends on erfc"),
    unary("gamma", special.gamma, (0.1, 30.0), c={"f": LIB("gamma")},
          algorithm="for -20 < x <= 20 Moshier's rational function on [2, 3] (Cephes) and the recurrence in twice the precision; "
                    "beyond, Stirling's series, and the reflection formula below 0 (Abramowitz and Stegun, 6.1)"),
    unary("lgamma", special.lgamma, (0.1, 50.0), c={"f": LIB("lgamma")}, algorithm="the C library's; float32 in double precision"),
    unary("digamma", special.digamma, (0.1, 50.0), c={"f": LIB("digamma")},
          algorithm="the recurrence and Maddock's rational function on [1, 2] (Boost); from 10 on the asymptotic series, below 0 the "
                    "reflection formula (Abramowitz and Stegun, 6.3)"),
    call("polygamma", 2, numpy=special.polygamma, like=np.arctan2, kinds="f", cost=200, domain=(range(8), (0.1, 50.0)),
         c={"f": "elemc_polygamma{F}({0}, {1})"},
         algorithm="n! times Hurwitz's zeta function, by the formula of Euler and Maclaurin, below 0 by the reflection formula (Abramowitz "
                   "and Stegun, 23.1.30 and 6.4); the digamma function for n = 0; NaN unless n is a whole number from 0 to 2**40"),
    unary("sigmoid", special.sigmoid, WIDE, c={"f": "sigmoid_{S}({0})"}, algorithm="with e = exp(-|x|), 1 / (1 + e) or e / (1 + e)"),
    unary("logit", special.logit, (0.001, 0.999), c={"f": "logit_{S}({0})"},
          algorithm="log1p(|2 x - 1| / min(x, 1 - x)) with the sign of x - 1/2: 2 x - 1 is exact near 1/2"),
    unary("softplus", special.softplus, WIDE, c={"f": "softplus_{S}({0})"}, algorithm="max(x, 0) + log1p(exp(-|x|))"),
    call("relu", numpy=special.relu, like=np.positive, kinds="iuf", c={"*": "maximum_{S}({0}, 0)"}),
    unary("gelu", special.gelu, (-6.0, 6.0), c={"f": "gelu_{S}({0})"},
          algorithm="x * erfc(-x / sqrt(2)) / 2, the rounding of the argument made good to first order; below -37 "
                    "the asymptotic series of erfc (Abramowitz and Stegun, 7.1.23)"),
    unary("silu", special.silu, WIDE, c={"f": "silu_{S}({0})"}, algorithm="x / (1 + exp(-x)); where that is subnormal, scaled by exp(64)"),
    unary("sinc", special.sinc, (-5.0, 5.0), c={"f": LIB("sinc")},
          algorithm="x is reduced exactly, so that integers give 0, and the rounding of pi x is made good"),
    call("xlogy", 2, numpy=special.xlogy, like=np.arctan2, cost=25, domain=(WIDE, POSITIVE), c={"f": "xlogy_{S}({0}, {1})"}),
    call("xlog1py", 2, numpy=special.xlog1py, like=np.arctan2, cost=25, domain=(WIDE, (-0.9, 50.0)), c={"f": "xlog1py_{S}({0}, {1})"}),
)
