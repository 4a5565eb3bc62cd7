"""One table: NumPy dtype, C types, literals and accumulation dtype.

float16 is stored as `half` (its bits) and computed in `float`; every float16 value held in a C
variable is a `float` already rounded to float16.  bool is stored and computed as `bool_t`, a byte
that is 0 or 1.
"""

from __future__ import annotations

import struct

import numpy as np

from .errors import ArgumentError, DtypeError
from .records import dataclass


@dataclass(frozen=True)
class CType:
    """How one NumPy dtype looks in C.

    Attributes
    ----------
    storage : str
        Type of an array element.
    value : str
        Type of a variable that holds an element.
    suffix : str
        Ending of helper names (`floor_divide_f64`).
    kind : str
        b, i, u, f or c, as in `np.dtype.kind`.
    """

    storage: str
    value: str
    suffix: str
    kind: str


CTYPES: dict[str, CType] = {
    "bool": CType("bool_t", "bool_t", "b8", "b"),
    "int8": CType("int8_t", "int8_t", "i8", "i"),
    "int16": CType("int16_t", "int16_t", "i16", "i"),
    "int32": CType("int32_t", "int32_t", "i32", "i"),
    "int64": CType("int64_t", "int64_t", "i64", "i"),
    "uint8": CType("uint8_t", "uint8_t", "u8", "u"),
    "uint16": CType("uint16_t", "uint16_t", "u16", "u"),
    "uint32": CType("uint32_t", "uint32_t", "u32", "u"),
    "uint64": CType("uint64_t", "uint64_t", "u64", "u"),
    "float16": CType("half", "float", "f16", "f"),
    "float32": CType("float", "float", "f32", "f"),
    "float64": CType("double", "double", "f64", "f"),
    "complex64": CType("complex64", "complex64", "c64", "c"),
    "complex128": CType("complex128", "complex128", "c128", "c"),
}

PYTHON_NUMBERS = {int: np.dtype(np.int64), float: np.dtype(np.float64),
                  complex: np.dtype(np.complex128)}

DTYPES: tuple[np.dtype, ...] = tuple(np.dtype(name) for name in CTYPES)

_CTYPES = {d: CTYPES[dtype.name] for dtype in DTYPES for d in (dtype.newbyteorder(), dtype)}

# Equal dtypes are one key: longlong finds the long of its size.
NAMES: dict[np.dtype, str] = dict(zip(DTYPES, CTYPES, strict=True))
_NATIVE: dict[np.dtype, np.dtype] = {dtype: dtype for dtype in DTYPES}


def dtype_of(spec: object) -> np.dtype:
    """The native-endian NumPy dtype that `spec` names.

    Raises
    ------
    DtypeError
        If elemc does not have that dtype.
    """
    try:
        dtype: np.dtype = np.dtype(spec)  # type: ignore[call-overload]
    except (TypeError, ValueError, SyntaxError) as error:
        raise DtypeError(f"{spec!r} is not a dtype: {error}") from None
    native = _NATIVE.get(dtype.newbyteorder("="))
    if native is None:
        raise DtypeError(f"elemc has no dtype {dtype.newbyteorder('=')}; it has "
                         f"{', '.join(CTYPES)}")
    return native


def number_dtype(value: complex) -> np.dtype:
    """The dtype of a Python number, which gives way to those of arrays."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        if not 0 <= value < 2**64:
            raise DtypeError(f"the integer {value} does not fit 64 bits")
        return np.dtype(np.uint64)
    return PYTHON_NUMBERS[type(value)]


def as_array(value: object) -> np.ndarray:
    """`value` as an array, if that loses nothing.

    Raises
    ------
    ArgumentError
        If it is a masked array, a matrix, or a list of lists that differ in length.
    """
    if isinstance(value, np.ndarray) and type(value) is not np.ndarray:
        if isinstance(value, np.ma.MaskedArray):
            raise ArgumentError("a masked array would lose its mask: pass its .data, and its mask "
                                "for where=, or .filled(value)")
        if isinstance(value, np.matrix):
            raise ArgumentError("a numpy.matrix has products and sums of its own: pass its .A, an "
                                "array, and write products of matrices as x @ y")
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ArgumentError(f"a {type(value).__name__} is no array, and several arrays are several "
                            f"arguments: {error}") from None


def ctype(dtype: np.dtype) -> CType:
    """The C side of `dtype`."""
    return _CTYPES[dtype]  # the name of a dtype takes microseconds


def accumulation_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype in which NumPy sums `dtype`: small integers widen to 64 bits."""
    if dtype.kind in "bi":
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if dtype.kind == "u" else dtype


def state_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of an accumulator's state: float16 is accumulated in float32."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def literal(value: np.generic) -> str:
    """`value` as a C expression of its value type, exact to the bit (NaN payloads excepted)."""
    dtype = value.dtype
    if dtype.kind == "c":
        part = np.float32 if dtype == np.complex64 else np.float64
        real, imag = (literal(part(p)) for p in (value.real, value.imag))
        return f"__builtin_complex({real}, {imag})"  # a constant, for clang, too
    if dtype.kind == "f":
        return _float_literal(float(value), "" if dtype == np.float64 else "f")
    if dtype.kind == "b":
        return "1" if value else "0"
    number = int(value)
    if dtype == np.int64 and number == -(2**63):
        return "(-9223372036854775807LL - 1)"
    if dtype.itemsize == 8 and abs(number) >= 2**31:
        return f"{number}{'ULL' if dtype.kind == 'u' else 'LL'}"
    if dtype == np.int32 and number == -(2**31):
        return "(-2147483647 - 1)"
    return f"{number}u" if dtype == np.uint32 else str(number)


def _float_literal(number: float, end: str) -> str:
    if number != number:
        return f"__builtin_nan{end}(\"\")"
    if number in (float("inf"), float("-inf")):
        return f"{'-' if number < 0 else ''}__builtin_inf{end}()"
    if end:  # the shortest text that reads back as the same float
        text = np.format_float_scientific(np.float32(number), unique=True, trim="-")
        plain = repr(float(text))
        number_text = plain if struct.pack("f", float(plain)) == struct.pack("f", number) else text
    else:
        number_text = repr(number)
    if not any(c in number_text for c in ".en"):
        number_text += ".0"
    return number_text + end
