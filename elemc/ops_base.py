"""What a scalar operation is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .dtypes import ctype, dtype_of
from .errors import DtypeError

CALL = 16
BOOLEANS = {"subtract": "; where booleans differ, x ^ y is true",
            "negative": "; of booleans, ~x is the opposite"}  # what to write instead
Interval = tuple[float, float] | range  # whole numbers


@dataclass(frozen=True)
class CCode:
    """The C of one operation for operands of known dtypes.

    `text` has {0}, {1}, ... for the operands; `precedence` is that of its outermost operator (16
    for calls); `helpers` and `externs` are the functions it calls, from `templates/helpers.c.j2`
    and from the math library.
    """

    text: str
    precedence: int = CALL
    helpers: tuple[str, ...] = ()
    externs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fault:
    """Arguments that are an error, found while a kernel runs.

    Attributes
    ----------
    status : int
        The bit that the kernel sets in its result.
    condition : str
        In C, of the operands {0} and {1}.
    kind : str
        Of the last operand's dtype; for others the condition cannot be met.
    message : str
        NumPy's.
    """

    status: int
    condition: str
    kind: str
    message: str


NEGATIVE_POWER = Fault(1, "{1} < 0", "i", "Integers to negative integer powers are not allowed.")
ALL_NAN = Fault(2, "{1}", "b", "All-NaN slice encountered")
FAULTS = (NEGATIVE_POWER, ALL_NAN)


@dataclass(frozen=True, eq=False)
class ScalarOp:
    """One row of the table of operations.

    Attributes
    ----------
    name : str
        NumPy's name where NumPy has it.
    nin : int
        Number of operands.
    numpy : callable
        The same on NumPy arrays of the loop's dtypes.
    c : mapping from kind to C text
        Kinds are those of the first operand's dtype (b, i, u, f, c).  The text may use {T} (the
        value type), {S} (the suffix of helpers) and {F} ("f" for float32, else nothing).
    precedence : int
        Of the C text.
    notation : str
        How formulas print it.
    cost : int
        About how many additions it is worth.
    domain : tuple of intervals
        Where each operand is drawn from in tests.
    like : callable, optional
        The ufunc or rule that decides the dtypes; default `numpy`.
    kinds : str
        The kinds it takes, if `like` takes more.
    raises : Fault, optional
        Which arguments are an error, as they are in NumPy.
    algorithm : str
        Where the method comes from, if it is not the C library's or plain arithmetic.
    vjp : callable, optional
        The gradient rule.
    """

    name: str
    nin: int
    numpy: Callable[..., Any]
    c: Mapping[str, str]
    precedence: int = CALL
    notation: str = ""
    cost: int = 1
    domain: tuple[Interval, ...] = ()
    like: Callable[..., Any] | None = None
    kinds: str = "biufc"
    raises: Fault | None = None
    algorithm: str = ""
    vjp: Callable[..., Any] | None = None
    _memo: dict[Any, Any] = field(default_factory=dict, repr=False, init=False)

    def resolve(self, dtypes: Sequence[Any]) -> tuple[tuple[np.dtype, ...], np.dtype]:
        """The dtypes that the operands are converted to, and the result's.

        `dtypes` holds dtypes, or `int`, `float`, `complex` for Python scalars (NEP 50).

        Raises
        ------
        DtypeError
            If the operation does not exist for these dtypes.
        """
        key = tuple(dtypes)
        if key not in self._memo:
            self._memo[key] = self._resolve(key)
        return self._memo[key]  # type: ignore[no-any-return]

    def _resolve(self, dtypes: tuple[Any, ...]) -> tuple[tuple[np.dtype, ...], np.dtype]:
        like = self.like or self.numpy
        try:
            if isinstance(like, np.ufunc):
                *loop, out = like.resolve_dtypes((*dtypes, None))
                result = tuple(map(dtype_of, loop)), dtype_of(out)
            else:
                result = like(*dtypes)
        except TypeError as error:
            if isinstance(error, DtypeError):
                raise
            result = None
        if result is None or any(d.kind not in self.kinds for d in result[0]):
            names = ", ".join(d.__name__ if isinstance(d, type) else str(d) for d in dtypes)
            instead = BOOLEANS.get(self.name, "") if {*dtypes} == {np.dtype(bool)} else ""
            raise DtypeError(f"{self.name} does not exist for operands of dtype {names}{instead}")
        return result

    def code(self, loop: tuple[np.dtype, ...], out: np.dtype) -> CCode:
        """The C for operands of dtypes `loop`."""
        key = ("code", loop, out)
        if key not in self._memo:
            self._memo[key] = self._code(loop, out)
        return self._memo[key]  # type: ignore[no-any-return]

    def _code(self, loop: tuple[np.dtype, ...], out: np.dtype) -> CCode:
        first = loop[-1] if self.name in ("where", "choice") else loop[0]
        kind = first.kind
        if self.nin == 2 and {d.kind for d in loop} == {"i", "u"} and out == np.bool_:
            # C compares signed with unsigned as unsigned
            text = self.c["*"].replace("{0}", "(__int128)({0})")
            return CCode(text.replace("{1}", "(__int128)({1})"), self.precedence)
        text = self.c.get(first.name) or self.c.get(kind) or self.c["*"]
        single = first.name in ("float16", "float32", "complex64")
        text = text.replace("{T}", ctype(first).value).replace("{F}", "f" if single else "")
        text = text.replace("{S}", "f32" if first == np.float16 else ctype(first).suffix)
        return code_of(text, self.precedence)

    def fault(self, loop: tuple[np.dtype, ...]) -> Fault | None:
        """Which arguments of these dtypes are an error; None: none."""
        return self.raises if self.raises and loop[-1].kind == self.raises.kind else None

    def __repr__(self) -> str:
        return f"<elemc op {self.name}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        if row(self.name) is self:
            return row, (self.name,)
        return object.__reduce_ex__(self, protocol)


TABLE: dict[str, ScalarOp] = {}  # what `ops.OPS` is
INTERNAL: dict[str, ScalarOp] = {}  # those that users do not call


def row(name: str) -> ScalarOp | None:
    """The operation of that name, if it is elemc's own."""
    return TABLE.get(name) or INTERNAL.get(name)


def code_of(text: str, precedence: int = CALL) -> CCode:
    """`text` with the functions that it calls."""
    plain = re.fullmatch(r"[\w.]+(\(.*\))?|\{0\}", text)
    called = dict.fromkeys(re.findall(r"(\w+)\(", text))
    return CCode(text, CALL if plain and precedence == CALL else precedence,
                 tuple(c for c in called if is_helper(c)),
                 tuple(c for c in called if c.startswith("elemc_")))


def is_helper(name: str) -> bool:
    """Whether a function that C text calls is one of elemc's helpers."""
    return not name.startswith(("__", "elemc_")) and name not in (
        "if", "for", "while", "sizeof", "AT")
