"""Expressions as text, for the command line: checked against an allow-list, never evaluated.

Grammar, in Python's notation and precedence::

    text    := value {"," value}                       several values are several outputs
    value   := NAME | NUMBER | True | False | pi | e | inf | nan | [NUMBER, ...]
             | value OPERATOR value | -value | +value | ~value
             | FUNCTION(argument, ..., KEYWORD=argument) | value.METHOD(argument, ...)
             | value.T | value.shape[INTEGER] | value[index, ...]
    index   := INTEGER | [INTEGER]:[INTEGER][:INTEGER] | None | ...
    argument := value | None | "string" | DTYPE | (argument, ...)

A name that is none of these is an input.
"""

from __future__ import annotations

import ast
import difflib
import operator
import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import numpy as np

from .array import Array, apply, as_node
from .constructors import array
from .dtypes import CTYPES, PYTHON_NUMBERS, dtype_of
from .errors import ArgumentError
from .parse_names import (
    ATTRIBUTES,
    BINARY,
    COMPARISONS,
    CONSTANTS,
    FORBIDDEN,
    FUNCTIONS,
    METHOD_NAMES,
    MODULES,
    UNARY,
)
from .parse_text import PLACE, Text
from .protocol import INSTEAD, unsupported

DEEPEST = 100  # values within values

DEFAULT = "float64[1]"
PLAIN = (*PYTHON_NUMBERS, bool)
SPEC = re.compile(r"(?P<dtype>\w+)\[ *(?:(?P<rank>[0-9]{1,2})|"
                  r"(?P<shape>[0-9]+(?: *, *[0-9]+)*(?: *,)?)) *\]")


def parse(text: str, args: Mapping[str, str] | None = None) -> tuple[list[Array], Any]:
    """Inputs and outputs of an expression.

    Parameters
    ----------
    text : str
        For instance `"exp(x) * sum(y, axis=-1)"`.  Values separated by commas are several outputs.
    args : mapping from str to str, optional
        Dtypes and ranks of inputs, as `parse_spec` reads them; default: `float64[1]`.

    Returns
    -------
    inputs : list of Array
        In the order in which the text names them first.
    outputs : Array or list of Array

    Raises
    ------
    ExpressionError
        Where the text leaves the grammar; the message points at the place.
    ArgumentError
        If `args` has a name that the text has not.
    """
    reader = _Reader(text, {n: parse_spec(s) for n, s in (args or {}).items()})
    outputs = reader.outputs()
    for name in reader.specs:
        if name not in reader.inputs:
            raise ArgumentError(f"the expression has no input {name}; it has "
                                f"{', '.join(reader.inputs) or 'none'}")
    return list(reader.inputs.values()), outputs


def parse_spec(spec: str) -> tuple[np.dtype, int]:
    """Dtype and rank of `DTYPE[RANK]`, as in `float32[2]`, or `DTYPE[SHAPE]`."""
    shape = parse_shape(spec)
    match = SPEC.fullmatch(spec)
    assert match is not None
    rank = int(match["rank"]) if shape is None else len(shape)
    if rank > 32:
        raise ArgumentError(f"{spec!r}: a rank is an integer from 0 to 32, a shape has a comma")
    return dtype_of(match["dtype"]), rank


def parse_shape(spec: str) -> tuple[int, ...] | None:
    """The shape of `DTYPE[SHAPE]`: it has a comma, as in `float32[300,20]` and `float32[300,]`."""
    match = SPEC.fullmatch(spec)
    if match is None:
        raise ArgumentError(f"{spec!r} is no dtype and rank: write float32[2] for a float32 "
                            "matrix, or float32[300,20], float32[300,] for shapes")
    shape = match["shape"]
    return None if shape is None else tuple(int(n) for n in shape.split(",") if n.strip())


class _Reader(Text):
    """Walks Python's syntax tree of one text and builds symbolic arrays."""

    def __init__(self, text: str, specs: Mapping[str, tuple[np.dtype, int]]) -> None:
        super().__init__(text)
        self.specs = specs
        self.inputs: dict[str, Array] = {}
        self.depth = 0

    def outputs(self) -> Any:
        """The values of the text."""
        tree = self.tree()
        if not isinstance(tree, ast.Tuple):
            return self.output(tree)
        if not tree.elts:
            self.fail(tree, "there is nothing to compute")
        return [self.output(item) for item in tree.elts]

    def output(self, node: ast.expr) -> Array:
        made: Array = self.called(node, PLACE, lambda value: Array(as_node(value)),
                                  [self.operand(node)], {})
        return made

    # -- errors --------------------------------------------------------------------------------

    def unknown(self, node: ast.expr, what: str, name: str, known: Iterable[str]) -> NoReturn:
        """Raise the error of a name that does not exist; it has the nearest one that does."""
        if name in INSTEAD:
            self.called(node, name, unsupported, [name], {})
        near = difflib.get_close_matches(name, known, 1)
        others = ", ".join(known) if what != "function" else (
            "NumPy's elementwise functions, and where, clip, sum, mean, einsum and the like")
        self.fail(node, f"there is no {what} {name!r}; " + (
            f"did you mean {near[0]!r}?" if near else f"there are {others}"))

    # -- values --------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Any:
        """The value of any part of the text: symbolic array, number, string, tuple, ..."""
        self.depth += 1
        if self.depth > DEEPEST:
            self.fail(node, f"the expression is nested deeper than {DEEPEST} levels")
        found = self._value(node)
        self.depth -= 1
        return found

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant():
                return self.constant(node)
            case ast.Name():
                return self.name(node)
            case ast.BinOp():
                return self.binary(node)
            case ast.UnaryOp():
                return self.unary(node)
            case ast.Compare():
                return self.compare(node)
            case ast.Call():
                return self.call(node)
            case ast.Attribute():
                return self.attribute(node)
            case ast.Subscript():
                return self.subscript(node)
            case ast.Tuple():
                return tuple([self.value(item) for item in node.elts])
            case ast.List():
                return self.called(node, "a list", lambda value: Array(as_node(value)),
                                   [self.items(node)], {})
        self.fail(node, FORBIDDEN.get(type(node), "this is no part of an expression"))

    def operand(self, node: ast.expr) -> Any:
        """A value that can be computed with."""
        value = self.value(node)
        if type(value) is bool:
            return Array(as_node(value))
        if type(value) is tuple:
            self.fail(node, "a tuple is no operand: pick one of its parts, as in x.shape[0]")
        if not isinstance(value, (Array, *PYTHON_NUMBERS)):
            self.fail(node, f"{'a string' if type(value) is str else value} is no operand: arrays "
                            "and numbers are")
        return value

    def constant(self, node: ast.Constant) -> Any:
        value = node.value
        if isinstance(value, bytes):
            self.fail(node, "there are no bytes")
        return self.number(node, value) if type(value) is int else value

    def number(self, node: ast.expr, value: int) -> int:
        if not -2**63 <= value < 2**64:
            self.fail(node, "an integer does not fit 64 bits")
        return value

    def name(self, node: ast.Name) -> Any:
        name = node.id
        if name not in self.specs and name not in self.inputs:
            if name in CONSTANTS:
                return CONSTANTS[name]
            if name in CTYPES:
                return name
            if name in FUNCTIONS or name in MODULES or name.startswith("__"):
                self.fail(node, f"{name} is no value" + (
                    f": write {name}(...)" if name in FUNCTIONS else ""))
        if name not in self.inputs:
            dtype, rank = self.specs.get(name) or parse_spec(DEFAULT)
            self.inputs[name] = array(name, rank, dtype)
        return self.inputs[name]

    def items(self, node: ast.List) -> list[Any]:
        """A list of numbers, or of such lists."""
        found = [self.items(item) if isinstance(item, ast.List) else self.operand(item)
                 for item in node.elts]
        for item, value in zip(node.elts, found, strict=True):
            if isinstance(value, Array):
                self.fail(item, "a list has numbers only: arrays are not joined")
        return found

    # -- operations ----------------------------------------------------------------------------

    def binary(self, node: ast.BinOp) -> Any:
        chain = [node]  # a + b + c + ... leans to the left, however long
        while isinstance(chain[-1].left, ast.BinOp):
            chain.append(chain[-1].left)
        left = self.operand(chain[-1].left)
        for item in reversed(chain):
            right = self.operand(item.right)
            left = self.called(item, "the operator", BINARY[type(item.op)], [left, right], {}
                               ) if isinstance(left, Array) or isinstance(right, Array) else (
                self.of_numbers(item, left, right))
        return left

    def of_numbers(self, node: ast.BinOp, left: Any, right: Any) -> Any:
        """Arithmetic of Python's numbers, which gives Python's numbers."""
        if type(left) is type(right) is int:
            bits = left.bit_length() - 1
            if (isinstance(node.op, ast.Pow) and abs(left) > 1 and bits * right > 64) or (
                    isinstance(node.op, ast.LShift) and right > 64):
                self.fail(node, "an integer does not fit 64 bits")
        try:
            result = BINARY[type(node.op)](left, right)
        except (ArithmeticError, TypeError, ValueError) as error:
            self.fail(node, f"{error}")
        return self.number(node, result) if type(result) is int else result

    def unary(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            self.fail(node, "not takes no arrays: ~ of a condition, or logical_not(x)")
        value = self.called(node, "the operator", UNARY[type(node.op)],
                            [self.operand(node.operand)], {})
        return self.number(node, value) if type(value) is int else value

    def compare(self, node: ast.Compare) -> Any:
        if len(node.ops) > 1:
            self.fail(node, "comparisons are not chained: (a < b) & (b < c)")
        name = COMPARISONS.get(type(node.ops[0]))
        if name is None:
            self.fail(node, "in and is take no arrays: ==, !=, <, <=, > and >= do")
        values = [self.operand(node.left), self.operand(node.comparators[0])]
        return self.called(node, name, apply, [name, *values], {})

    # -- functions, methods, attributes, indices -----------------------------------------------

    def call(self, node: ast.Call) -> Any:
        fn = node.func
        if isinstance(fn, ast.Attribute) and not self.is_module(fn.value):
            return self.method(node, fn)
        if not isinstance(fn, (ast.Name, ast.Attribute)):
            self.fail(node, "only functions are called, by their names")
        name = fn.id if isinstance(fn, ast.Name) else fn.attr
        if name not in FUNCTIONS:
            self.unknown(fn, "function", name, FUNCTIONS)
        args, named = self.arguments(node)
        if name in ("min", "max") and len(args) > 1 and isinstance(args[1], Array):
            self.fail(node.args[1], f"{name} folds the axes of one array: {name}imum(a, b)")
        if args and type(args[0]) in PLAIN:
            args[0] = Array(as_node(args[0]))
        return self.called(node, name, FUNCTIONS[name], args, named)

    def is_module(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in MODULES and node.id not in self.specs

    def arguments(self, node: ast.Call) -> tuple[list[Any], dict[str, Any]]:
        for keyword in node.keywords:
            if keyword.arg is None:
                self.fail(keyword.value, "there is no unpacking")
        return [self.value(a) for a in node.args], {
            str(k.arg): self.value(k.value) for k in node.keywords}

    def method(self, node: ast.Call, fn: ast.Attribute) -> Any:
        value = self.array(fn.value)
        if fn.attr not in METHOD_NAMES:
            self.unknown(fn, "method", fn.attr, METHOD_NAMES)
        args, named = self.arguments(node)
        return self.called(node, fn.attr, getattr(value, fn.attr), args, named)

    def array(self, node: ast.expr) -> Array:
        value = self.value(node)
        if not isinstance(value, Array):
            self.fail(node, "only arrays have methods, attributes and indices")
        return value

    def attribute(self, node: ast.Attribute) -> Any:
        if self.is_module(node.value):
            if node.attr in CONSTANTS:
                return CONSTANTS[node.attr]
            if node.attr in CTYPES:
                return node.attr
            self.unknown(node, "constant", node.attr, CONSTANTS)
        value = self.array(node.value)
        if node.attr not in ATTRIBUTES:
            if node.attr in METHOD_NAMES:
                self.fail(node, f"{node.attr} is a method: write .{node.attr}()")
            self.unknown(node, "attribute", node.attr, ATTRIBUTES)
        return self.called(node, node.attr, getattr, [value, node.attr], {})

    def subscript(self, node: ast.Subscript) -> Any:
        value = self.value(node.value)
        key = self.key(node.slice)
        if type(value) is tuple and type(key) is int and -len(value) <= key < len(value):
            return value[key]
        if not isinstance(value, Array):
            self.fail(node, "only arrays, and the sizes x.shape, are indexed")
        return self.called(node, "an index", operator.getitem, [value, key], {})

    def key(self, node: ast.expr) -> Any:
        """An index, with slices."""
        if isinstance(node, ast.Slice):
            return slice(*(None if part is None else self.value(part)
                           for part in (node.lower, node.upper, node.step)))
        if isinstance(node, ast.Tuple):
            return tuple([self.key(item) for item in node.elts])
        return self.value(node)
