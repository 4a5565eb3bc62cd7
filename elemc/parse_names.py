"""What a text may name and write: the allow-list, and hints for what is refused."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from . import constructors, linear
from .accumulators import ACCUMULATORS
from .array import METHODS
from .ops import OPS
from .ops_table import ALIASES
from .protocol import fold_function, public

MODULES = ("np", "numpy", "ec", "elemc")
CONSTANTS: dict[str, Any] = {
    "pi": np.pi, "e": np.e, "inf": np.inf, "nan": np.nan, "newaxis": None}

FUNCTIONS: dict[str, Callable[..., Any]] = {name: public(name) for name in OPS}
FUNCTIONS |= {name: fold_function(name) for name in ACCUMULATORS}
FUNCTIONS |= {name: getattr(constructors, name) for name in (
    "align arange astype clip cumprod cumsum diagonal expand_dims expand_to flip full_like length "
    "logcumsumexp moveaxis ones_like scan squeeze swapaxes transpose where zeros_like").split()}
FUNCTIONS |= {name: getattr(linear, name) for name in (
    "dot einsum inner matmul outer tensordot vdot").split()}
FUNCTIONS |= {alias: FUNCTIONS[name] for alias, name in ALIASES.items()}
FUNCTIONS |= {"amax": FUNCTIONS["max"], "amin": FUNCTIONS["min"], "len": FUNCTIONS["length"]}
ATTRIBUTES = ("T", "real", "imag", "shape", "size", "ndim")
METHOD_NAMES = (*METHODS, "astype", "clip", "conj", "conjugate", "copy", "cumprod", "cumsum",
                "diagonal", "dot", "round", "squeeze", "swapaxes", "trace", "transpose")

BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Pow: operator.pow,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.MatMult: operator.matmul}
UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert}
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "equal", ast.NotEq: "not_equal", ast.Lt: "less", ast.LtE: "less_equal",
    ast.Gt: "greater", ast.GtE: "greater_equal"}
FORBIDDEN: dict[type[ast.expr], str] = {
    ast.IfExp: "there is no if: where(condition, a, b)",
    ast.BoolOp: "and and or take no arrays: & and |, with parentheses around comparisons",
    ast.Lambda: "there are no functions of one's own", ast.NamedExpr: "there is no assignment",
    ast.JoinedStr: "there are no formatted strings", ast.Starred: "there is no unpacking",
    ast.Dict: "there are no dictionaries", ast.Set: "there are no sets",
    ast.Slice: "a slice stands in brackets after a value"}
