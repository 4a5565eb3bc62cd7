"""The exception family of elemc.

Every error derives from `ElemcError` and also from the exception that a NumPy user would catch in
the same place.  A message names the function, the operand, the axis and both sizes, as far as each
is known, and ends with the user's source line of the failing expression.
"""


class ElemcError(Exception):
    """Base of everything elemc raises."""

    def locate(self, source: str | None) -> None:
        """End the message with the user's line, once."""
        if source and self.args and "the expression at" not in str(self.args[0]):
            self.args = (f"{self.args[0]} (in the expression at {source})", *self.args[1:])


class ShapeError(ElemcError, ValueError):
    """Ranks or sizes that do not fit together."""


class DtypeError(ElemcError, TypeError):
    """A dtype that does not cast, or that an operation does not have."""


class ModeError(ElemcError, ValueError):
    """An unknown mode or order, or a mode that the expression does not allow."""


class AxisError(ElemcError, ValueError, IndexError):
    """An axis outside of an array's rank, or named twice."""


class ArgumentError(ElemcError, TypeError):
    """A call with the wrong number, names or kinds of arguments."""


class UnsupportedError(ElemcError, TypeError):
    """Something NumPy has and elemc has not; the message names the nearest thing that works."""


class TraceError(ElemcError, TypeError):
    """Python code that asks a symbolic array for its value (a branch, `float(x)`, ...)."""


class ExpressionError(ElemcError, ValueError):
    """An expression string outside of the allowed grammar."""


class CompileError(ElemcError, RuntimeError):
    """The C compiler is missing or failed; holds the command, its words and the kept source."""


class MissingHeaders(CompileError):
    """There is a C compiler, but not the header files that an extension module needs."""


class DomainError(ElemcError, ValueError):
    """A value, seen only while computing, that the operation rejects (2 ** -1 on integers)."""


class FallbackWarning(UserWarning):
    """Something takes longer: there is no C compiler, or it crashes if it makes vectors."""


class CacheWarning(UserWarning):
    """A damaged cache entry was rebuilt, or the cache directory cannot be used."""
