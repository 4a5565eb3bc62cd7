"""Random scalar expressions, which print themselves as NumPy and as C.

An expression is the name of an operand, or a number, or a tuple (op, expression...).
"""

from __future__ import annotations

from typing import Any

import numpy as np

Expression = str | float | tuple[Any, ...]

# op: arguments, weight, NumPy, C ({s} is the suffix of single precision)
OPS: dict[str, tuple[int, float, str, str]] = {
    "add": (2, 6, "({0} + {1})", "({0} + {1})"),
    "sub": (2, 4, "({0} - {1})", "({0} - {1})"),
    "mul": (2, 6, "({0} * {1})", "({0} * {1})"),
    "div": (2, 2, "({0} / (np.abs({1}) + 0.5))", "({0} / (fabs{s}({1}) + 0.5{s}))"),
    "maximum": (2, 1, "np.maximum({0}, {1})", "fmax{s}({0}, {1})"),
    "where": (2, 1, "np.where({0} > {1}, {0}, -{1})", "pick{s}({0}, {1})"),
    "neg": (1, 1, "(-{0})", "(-{0})"),
    "square": (1, 2, "np.square({0})", "square{s}({0})"),
    "sqrt": (1, 1, "np.sqrt(np.abs({0}))", "sqrt{s}(fabs{s}({0}))"),
    "exp": (1, 1.5, "np.exp(-np.abs({0}))", "exp{s}(-fabs{s}({0}))"),
    "sin": (1, 0.5, "np.sin({0})", "sin{s}({0})"),
    "tanh": (1, 0.5, "np.tanh({0})", "tanh{s}({0})"),
    "log1p": (1, 0.5, "np.log1p(np.abs({0}))", "log1p{s}(fabs{s}({0}))"),
    # Only where the forms of a case put them.
    "norm": (2, 0, "({0} / np.sqrt({1} + 0.1))", "({0} / sqrt{s}({1} + 0.1{s}))"),
    "expdiff": (2, 0, "np.exp({0} - {1})", "exp{s}({0} - {1})"),
    "ratio": (2, 0, "({0} / {1})", "({0} / {1})"),
}

C_HELPERS = """
static inline double square(double x) { return x * x; }
static inline float squaref(float x) { return x * x; }
static inline double pick(double x, double y) { return x > y ? x : -y; }
static inline float pickf(float x, float y) { return x > y ? x : -y; }
"""


def drawn(rng: np.random.Generator, names: list[str], depth: int) -> Expression:
    """A random expression in which every name stands at least once."""
    weights = np.array([row[1] for row in OPS.values()])

    def tree(left: int) -> Expression:
        if left == 0 or (left < depth and rng.random() < 0.15):
            return str(rng.choice(names))
        op = str(rng.choice(list(OPS), p=weights / weights.sum()))
        parts = [tree(left - 1) for _ in range(OPS[op][0])]
        # Beside an operator only does a number keep its weak dtype.
        if op in ("add", "sub", "mul") and rng.random() < 0.15:
            parts[1] = round(0.5 + rng.random(), 2)
        # Of (x + y) - x, -ffast-math would read no x.
        if op in ("add", "sub") and leaves(parts[0]) & leaves(parts[1]):
            op = "mul"
        return (op, *parts)

    found = tree(depth)
    for name in names:
        if name not in leaves(found):
            found = (str(rng.choice(["add", "mul", "sub"])), found, name)
    return found


def leaves(expression: Expression) -> set[str]:
    """Names of the operands in it."""
    if isinstance(expression, tuple):
        return set().union(*(leaves(part) for part in expression[1:]))
    return {expression} if isinstance(expression, str) else set()


def as_numpy(expression: Expression) -> str:
    """Python text."""
    if isinstance(expression, tuple):
        return OPS[expression[0]][2].format(*map(as_numpy, expression[1:]))
    return str(expression)


def as_c(expression: Expression, reads: dict[str, str], suffix: str) -> str:
    """C text; `reads` says how each operand is read."""
    if isinstance(expression, tuple):
        parts = [as_c(part, reads, suffix) for part in expression[1:]]
        return OPS[expression[0]][3].format(*parts, s=suffix)
    return reads[expression] if isinstance(expression, str) else f"{expression}{suffix}"
