"""Scalar operations: the table, casts between dtypes, and the helpers that their C calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from .dtypes import CTYPES, ctype, dtype_of, literal
from .errors import ArgumentError
from .mathlib import ARGUMENTS, COMPLEX, FUNCTIONS, NOTES, SIMD
from .ops_base import ALL_NAN, CALL, INTERNAL, TABLE, CCode, ScalarOp, code_of, is_helper
from .ops_table import ROWS
from .templating import environment

OPS: dict[str, ScalarOp] = TABLE
OPS.update((row.name, row) for row in ROWS)
UFUNCS: dict[np.ufunc, ScalarOp] = {
    row.numpy: row for row in ROWS if isinstance(row.numpy, np.ufunc)}
UFUNCS |= {np.degrees: OPS["rad2deg"], np.radians: OPS["deg2rad"]}
SUFFIXES = {t.suffix: t for t in CTYPES.values()}


# An integer that was a float is exact as float64.  Of a plain conversion gcc 12 makes trunc() of
# that float, which may be -0.0.
INTEGRAL = ScalarOp(
    "integral", 1, lambda i: i.astype(np.float64),
    {"*": "(double)({0} >> 32) * 4294967296.0 + (double)(uint32_t){0}"}, 12, notation="{0}",
    like=lambda dtype: ((dtype,), np.dtype(np.float64)))


def _place(index: Any, missing: Any) -> Any:
    if np.any(missing):
        raise ValueError(ALL_NAN.message)
    return index


# Where something is, and whether it is missing, which is an error.
PLACE = ScalarOp("place", 2, _place, {"*": "{0}"}, 14, notation="{0}", raises=ALL_NAN,
                 like=lambda index, missing: ((index, missing), index))


# What gradients take for a constant.
STOP = ScalarOp("stop_gradient", 1, np.positive, {"*": "{0}"}, 14, notation="stop_gradient({0})",
                like=lambda dtype: ((dtype_of(dtype),), dtype_of(dtype)))


# How far x is below the extremum of which it is one candidate: infinities that are the extremum
# are 0 below it, and the extremum counts as a constant.
BELOW = ScalarOp("below", 2, lambda x, top: np.where(x == top, x.dtype.type(0), x - top),
                 {"*": "{0} == {1} ? 0 : {0} - {1}"}, 3, notation="{0} - {1}", like=np.subtract)


def _sech(x: Any) -> Any:
    if x.dtype.kind != "c":
        return np.reciprocal(np.cosh(x))
    e, part = np.exp(-abs(x.real)), np.copysign(np.expm1(-2 * abs(x.real)), x.real)
    return 2 * e * np.reciprocal((1 + e * e) * np.cos(x.imag) + 1j * (part * np.sin(x.imag)))


# 1 / cosh(x), of which the gradient does not overflow as that of the quotient does.
SECH = ScalarOp("sech", 1, _sech, {"f": "elemc_sech{F}({0})", "c": "sech_{S}({0})"},
                notation="sech({0})", cost=20, like=np.cosh, kinds="fc")


# maximum and its like, of which at ties "all" operands, or the "first", get the whole cotangent.
EXTREMA = tuple(map(OPS.__getitem__, ("maximum", "minimum", "fmax", "fmin")))
TIED = {(op.name, ties): op if ties == "split" else replace(op, name=f"{op.name}_{ties}")
        for op in EXTREMA for ties in ("split", "all", "first")}


def with_ties(name: str, ties: str) -> ScalarOp:
    """The operation; at ties its gradient is as ties= says: "split", "all" or "first"."""
    if (name, ties) not in TIED:
        raise ArgumentError(f"{name}: unknown ties={ties!r}; it is 'split', 'all' or 'first'")
    return TIED[name, ties]


# What gradients give, whose last bit is nobody's: quotients below it may be products.
NEAR = ScalarOp("near", 1, np.positive, {"*": "{0}"}, 14, notation="{0}",
                like=lambda dtype: ((dtype_of(dtype),), dtype_of(dtype)))
# Then y scale has the inverse `high`, and what that lacks is `low`.
QUOTIENT = ScalarOp("quotient", 5, lambda x, y, scale, high, low: x / y,
                    {"f": "quotient_{S}({0}, {2}, {3}, {4})"}, notation="{0} / {1}", kinds="f",
                    cost=3)
# The same where 1 / y, which is no infinity, is known.
PER = ScalarOp("per", 3, lambda x, y, inverse: x / y, {"f": "{0} * {2}"}, 13, notation="{0} / {1}",
               kinds="f")
HIGH = ScalarOp("high", 1, np.reciprocal, {"f": "inverse_high_{S}({0})"}, notation="high({0})",
                kinds="f", cost=6)
LOW = ScalarOp("low", 2, lambda y, high: 1 / y - high, {"f": "inverse_low_{S}({0}, {1})"},
               notation="low({0}, {1})", kinds="f", cost=6)
# The same as x / y of an integer x and a constant y of few bits; see ratios.py.
RATIO = ScalarOp("ratio", 4, lambda x, y, high, low: x / y, {"f": "ratio_{S}({0}, {1}, {2}, {3})"},
                 notation="{0} / {1}", kinds="f", cost=2)
# The same as x / y, where `near` is 1 / y, if nothing leaves the range of exponents.
DIVIDE_BY = ScalarOp("divide_by", 3, lambda x, y, near: x / y, {"f": "divide_by_{S}({0}, {1}, {2})"},
                     notation="{0} / {1}", kinds="f", cost=5)
# The same, of as many x as a block has at a time; see quotients.py.
OVER = ScalarOp("over", 3, lambda x, y, near: x / y, {"f": "{0} / {1}"}, 13, notation="{0} / {1}",
                kinds="f", cost=5)


def inverse_of(y: Any) -> tuple[np.floating, np.floating]:
    """The inverse of a number, rounded towards 0, and what it lacks."""
    from fractions import Fraction

    exact = 1 / Fraction(float(y))
    high = y.dtype.type(float(exact))
    if abs(Fraction(float(high))) > abs(exact):
        high = np.nextafter(high, y.dtype.type(0))
    return high, y.dtype.type(float(exact - Fraction(float(high))))


# The same as x ** y of doubles and a constant y, a whole number of 1 to 63 in size.
WHOLE_POWER = replace(OPS["power"], name="whole_power", kinds="f", cost=12, raises=None,
                      c={"float64": "whole_power_f64({0}, {1})"})

# The square root of something that is 0 where its own gradient is.
ROOT = replace(OPS["sqrt"], name="root")

# Of a maximum the number before it, which only it and NaN are beyond; of NaN infinity.
BEFORE = ScalarOp("before", 1, lambda x: np.where(np.isnan(x), x.dtype.type(np.inf), np.nextafter(
    x, x.dtype.type(-np.inf))), {"f": "before_{S}({0})"}, notation="before({0})", kinds="f", cost=4,
    like=np.positive)

# A choice between two ways to the same value, of which only the general one is differentiated; if
# it is one for a whole row, there is a loop for either in the end.
SHORTCUT = replace(OPS["where"], name="shortcut")

# A choice between numbers for which no branch is taken: nobody foresees what masks choose.
CHOICE = replace(OPS["where"], name="choice", kinds="iuf", precedence=CALL,
                 c={"*": "choose_{S}({0}, {1}, {2})"})

# Of these the result is one of the operands, but for its sign, or whole: no dtype needs to round it.
UNROUNDED = {
    *(op.name for op in (*EXTREMA, *TIED.values())),
    *"positive negative absolute fabs copysign sign floor ceil trunc rint where choice shortcut".split(),
}

INTERNAL.update((op.name, op) for op in (
    INTEGRAL, PLACE, STOP, BELOW, SECH, NEAR, BEFORE, QUOTIENT, PER, HIGH, LOW, RATIO, DIVIDE_BY,
    OVER, WHOLE_POWER, ROOT, SHORTCUT, CHOICE, *TIED.values()))


def cast_code(src: np.dtype, dst: np.dtype, many: bool = True) -> CCode:
    """The C of a conversion, with NumPy's results on x86-64 for what does not fit.

    Of `many` values, those of a loop, in the way of which compilers make vectors.
    """
    s, d = ctype(src), ctype(dst)
    if dst == np.bool_:
        return CCode("{0} != 0", 9)
    if s.kind == "c" and d.kind != "c":
        part = np.dtype(np.float32 if src == np.complex64 else np.float64)
        inner = cast_code(part, dst) if part != dst else CCode("{0}", 14)
        return CCode(inner.text.replace("{0}", "__real__ ({0})"), inner.precedence, inner.helpers)
    if d.kind == "c":
        part_type = "float" if dst == np.complex64 else "double"
        if s.kind == "c":
            return CCode(f"({d.value}){{0}}", 14)
        return code_of(f"make_{d.suffix}(({part_type})({{0}}), 0)")
    if dst == np.float16 and not np.can_cast(src, dst):  # bytes are float16s as they are
        return code_of("half_of_double({0})" if src == np.float64 else "round_half({0})")
    if src == np.bool_ and d.kind == "f":
        # a cast of what several comparisons decide fills no vectors
        return CCode(f"{{0}} ? {literal(dst.type(1))} : {literal(dst.type(0))}", 3)
    if s.kind == "f" and d.kind in "iu":
        return code_of(f"{d.suffix}_of_{'f64' if src == np.float64 else 'f32'}({{0}})")
    if many and s.suffix in ("i64", "u64") and dst == np.float64:
        return code_of(f"f64_of_{s.suffix}({{0}})")
    if src == np.float16 and dst == np.float32:
        return CCode("{0}")
    return CCode(f"({d.value}){{0}}", 14)


@cache
def helper_source(name: str) -> str:
    """The C text of a helper, such as `floor_divide_f64`."""
    base, _, suffix = name.rpartition("_")
    module: Any = environment().get_template("helpers.c.j2").module
    own = getattr(module, name, None)
    if own is not None:
        return str(own())
    macro = getattr(module, base, None)
    if macro is None or suffix not in SUFFIXES:
        raise ArgumentError(f"there is no C helper {name}")
    kind = SUFFIXES[suffix]
    return str(macro(kind.value, suffix, "f" if suffix in ("f32", "c64") else "", kind.kind))


def _called(text: str) -> Iterable[str]:
    """The functions that a helper's body calls."""
    body = text[text.index("{"):]
    return dict.fromkeys(re.findall(r"(\w+)\(", body))


def with_dependencies(names: Iterable[str]) -> list[str]:
    """`names` and all helpers they call, each after those it calls."""
    found: dict[str, None] = {}

    def visit(name: str) -> None:
        if name not in found:
            for other in _called(helper_source(name)):
                if is_helper(other):
                    visit(other)
            found[name] = None

    for name in names:
        visit(name)
    return list(found)


def helper_externs(name: str) -> list[str]:
    """The math library's functions that a helper calls."""
    return [f for f in _called(helper_source(name)) if f.startswith("elemc_")]


def extern_declaration(name: str) -> str:
    """The C declaration of a function of the math library."""
    if name in ARGUMENTS:
        note = f" /* {NOTES[name]} */" if name in NOTES else ""
        return f"extern void {name}({ARGUMENTS[name]});{note}"
    plain = name.removeprefix("elemc_")
    single = plain not in FUNCTIONS and plain.removeprefix("c") not in COMPLEX
    plain = plain[:-1] if single else plain
    if plain in FUNCTIONS:
        kind, count = "float" if single else "double", FUNCTIONS[plain]
    else:
        kind, count = "complex64" if single else "complex128", 2 if plain == "cpow" else 1
    how = "SIMD" if plain in SIMD else "PURE"
    return f"extern {kind} {name}({', '.join([kind] * count)}) {how};"


def user_op(name: str, arity: int, c: str, numpy: Callable[..., Any]) -> ScalarOp:
    """An operation of the user's: C text with {x}, {y}, {z} or {x0}, {x1}, ... for operands.

    It takes real floating-point operands and gives their common dtype.  Functions of C's <math.h>
    may be called by name.
    """
    letters = ["x", "y", "z"] if arity <= 3 else []
    text = c
    for k in range(arity):
        for spelled in (f"{{x{k}}}", *([f"{{{letters[k]}}}"] if letters else [])):
            text = text.replace(spelled, f"({{{k}}})")
    if re.search(r"\{[^0-9}]", text):
        raise ArgumentError(f"scalar_op {name}: the C text {c!r} names an operand that does not exist; "
                            f"there are {', '.join(letters[:arity]) or f'x0 to x{arity - 1}'}")
    text = re.sub(r"\b([a-z]\w*)(?=\()", lambda m: _libm(name, m.group(1)), text)
    like = np.cbrt if arity == 1 else _common_float
    plain = name.replace("{", "{{").replace("}", "}}")
    return ScalarOp(name, arity, numpy, {"f": f"({text})"}, CALL, like=like, kinds="f", cost=20,
                    notation=f"{plain}({', '.join(f'{{{k}}}' for k in range(arity))})",
                    domain=((-2.0, 2.0),) * arity)


BUILTIN = "fabs floor ceil trunc rint copysign sqrt fmin fmax isnan isinf isfinite signbit".split()


def _libm(op: str, function: str) -> str:
    if function in BUILTIN:
        return f"__builtin_{function}" + ("" if function.startswith(("is", "sign")) else "{F}")
    if function in FUNCTIONS:
        return f"elemc_{function}{{F}}"
    raise ArgumentError(f"scalar_op {op}: elemc's C has no function {function}")


def _common_float(*dtypes: Any) -> Any:
    *_, out = np.arctan2.resolve_dtypes((dtypes[0], dtypes[-1], None))
    for dtype in dtypes[1:]:
        *_, out = np.arctan2.resolve_dtypes((out, dtype, None))
    return (out,) * len(dtypes), out
