"""The text of an expression: its syntax tree, and errors that point at a place in it."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, NoReturn

from .errors import ElemcError, ExpressionError

LONGEST = 10_000  # characters
SHOWN = 76  # characters of the text in an error
PLACE = "the expression"  # the file of the operations that a text makes, in messages


class Text:
    """One expression as the user wrote it."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self.lines = re.split("\r\n|\r|\n", self.text)  # what Python counts as lines

    def tree(self) -> ast.expr:
        """Python's syntax tree of the text."""
        if not self.text:
            raise ExpressionError("the expression is empty")
        if len(self.text) > LONGEST:
            raise ExpressionError(f"the expression has {len(self.text)} characters; at most "
                                  f"{LONGEST} are read")
        try:
            return ast.parse(self.text, mode="eval").body
        except SyntaxError as error:
            end = LONGEST  # an offset of 0 is the end of the line
            where = self.place(error.lineno or 1, (error.offset or end) - 1)
            raise ExpressionError(f"{error.msg}{where}") from None
        except (ValueError, RecursionError, MemoryError) as error:
            why = error if isinstance(error, ValueError) else "it is nested too deep"
            raise ExpressionError(f"the expression cannot be read: {why}") from None

    def place(self, line: int, column: int) -> str:
        """The line of the text, with a caret under the column."""
        text = self.lines[min(line, len(self.lines)) - 1]
        column = min(max(column, 0), len(text))
        start = max(0, column - SHOWN // 2) if len(text) > SHOWN else 0
        return f"\n    {text[start:start + SHOWN]}\n    {' ' * (column - start)}^"

    def at(self, node: ast.expr) -> str:
        """The line of `node`, with a caret."""
        before = self.lines[node.lineno - 1].encode()[:node.col_offset]
        return self.place(node.lineno, len(before.decode()))

    def fail(self, node: ast.expr, message: str) -> NoReturn:
        """Raise an error that points at `node`."""
        raise ExpressionError(message + self.at(node))

    def called(self, node: ast.expr, name: str, fn: Callable[..., Any], args: list[Any],
               named: dict[str, Any]) -> Any:
        """`fn(*args, **named)`, whose errors point at `node`."""
        try:
            if isinstance(fn, (FunctionType, MethodType)):
                inspect.signature(fn).bind(*args, **named)
            return _from_expression(fn, args, named)
        except ElemcError as error:
            text = str(error.args[0]).removesuffix(f" (in the expression at {PLACE}:1)")
            error.args = (text + self.at(node),)
            raise error from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ExpressionError(f"{name}: {error}{self.at(node)}") from None


def _call(fn: Callable[..., Any], args: list[Any], named: dict[str, Any]) -> Any:
    return fn(*args, **named)


# Messages name the user's line, the nearest outside of this package: here, that of the text.
_from_expression = FunctionType(
    _call.__code__.replace(co_filename=PLACE, co_firstlineno=0), globals())
