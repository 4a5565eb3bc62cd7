"""The symbolic array in users' hands: operators, indexing, constructors.

`protocol` adds NumPy's functions and matrix products; `formula` prints.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from .accumulators import Accumulator, accumulator
from .dtypes import dtype_of
from .errors import ArgumentError, AxisError, DtypeError, ElemcError, TraceError, UnsupportedError
from .formula import formula
from .graph import (
    Accumulate,
    Align,
    Apply,
    Axis,
    Captured,
    Cast,
    Const,
    FrozenArray,
    Index,
    Input,
    Node,
    Only,
    Pick,
    Size,
    const,
    make,
    note_source,
    source_of,
)
from .indexing import axes_of, axis_of, bounds_of, integer_of
from .ops import OPS
from .ops_base import ScalarOp

PYTHON_NUMBERS = {int: np.dtype(np.int64), float: np.dtype(np.float64),
                  complex: np.dtype(np.complex128)}
_count = itertools.count()


class Array:
    """A value that will be an array: the result of writing an expression down.

    Attributes
    ----------
    node : Node
        Its node in the graph.
    ndim : int
    dtype : dtype or None
        None while it depends on an input of unknown dtype.
    """

    __slots__ = ("node",)
    __array_priority__ = 1000.0

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def ndim(self) -> int:
        """The rank."""
        return self.node.ndim

    @property
    def dtype(self) -> Any:
        """The dtype, or None while it is unknown."""
        return self.node.dtype

    @property
    def name(self) -> str | None:
        """The name of an input."""
        return getattr(self.node, "name", None)

    @property
    def shape(self) -> tuple[Array, ...]:
        """The sizes of the axes, as symbolic integers."""
        return tuple(Array(make(Size, self.node, d)) for d in range(self.ndim))

    @property
    def size(self) -> Array:
        """The number of elements, as a symbolic integer."""
        total = Array(const(np.int64(1)))
        for n in self.shape:
            total = total * n
        return total

    @property
    def T(self) -> Array:  # noqa: N802
        """The array with its axes in reverse."""
        return self.transpose()

    real = property(lambda self: apply("real", self), doc="The real part.")
    imag = property(lambda self: apply("imag", self), doc="The imaginary part.")

    def __repr__(self) -> str:
        return f"<elemc {formula(self.node)}: {self.dtype or 'any dtype'}[{self.ndim}]>"

    if TYPE_CHECKING:  # operators are set from a table below

        def __getattr__(self, name: str) -> Any: ...
        def __add__(self, other: Any) -> Array: ...
        def __mul__(self, other: Any) -> Array: ...
        def __sub__(self, other: Any) -> Array: ...
        def __truediv__(self, other: Any) -> Array: ...
        def __floordiv__(self, other: Any) -> Array: ...
        def __mod__(self, other: Any) -> Array: ...
        def __and__(self, other: Any) -> Array: ...

    def __hash__(self) -> int:
        return hash(self.node)

    # -- what a symbolic array cannot tell ----------------------------------------------------

    def _no_value(self, what: str, instead: str) -> NoReturn:
        note = source_of(self.node)
        where = f" (in the expression at {note})" if note else ""
        raise TraceError(f"{what} of the symbolic array {formula(self.node)} asks for its value, "
                         f"which is known only when the compiled function is called: {instead}"
                         f"{where}")

    def __bool__(self) -> bool:
        self._no_value("the truth value", "use elemc.where instead of a branch, & and | instead of "
                       "and and or, or make the argument static")

    def __int__(self) -> int:
        self._no_value("int()", "use astype")

    def __float__(self) -> float:
        self._no_value("float()", "use astype")

    def __complex__(self) -> complex:
        self._no_value("complex()", "use astype")

    def __index__(self) -> int:
        self._no_value("use as an index", "indices are constants; there is no gather")

    def __len__(self) -> int:
        self._no_value("len()", "Python wants a plain integer there; use x.shape[0] or "
                       "elemc.length(x)")

    def __iter__(self) -> Any:
        self._no_value("iterating", "index with constants, x[0], or use axes")

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._no_value("np.asarray()", "call NumPy functions on the symbolic array itself")

    def __contains__(self, item: Any) -> bool:
        self._no_value("in", "use elemc.any(x == value)")

    # -- elementwise -------------------------------------------------------------------------

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def conj(self) -> Array:
        """The complex conjugate."""
        return apply("conjugate", self)

    conjugate = conj

    def round(self, decimals: int = 0) -> Array:
        """The nearest integer, to even."""
        if decimals != 0:
            raise UnsupportedError("round has decimals=0 only: scale before and after")
        return apply("round", self)

    def clip(self, min: Any = None, max: Any = None) -> Array:
        """The value limited to [min, max]; None: no limit."""
        low = self if min is None else apply("maximum", self, min)
        return low if max is None else apply("minimum", low, max)

    def astype(self, dtype: Any) -> Array:
        """The array converted to `dtype`."""
        return Array(_noted(make(Cast, self.node, dtype_of(dtype))))

    # -- shape --------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Array:
        keys = list(key) if isinstance(key, tuple) else [key]
        reading = sum(k is not None and k is not Ellipsis for k in keys)
        if sum(k is Ellipsis for k in keys) > 1:
            raise AxisError("an index has at most one ...")
        if reading > self.ndim:
            raise AxisError(f"{formula(self.node)} of rank {self.ndim} has too many indices: "
                            f"{reading}")
        rest: list[Any] = [slice(None)] * (self.ndim - reading)
        at = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
        keys[at:at + 1] = rest
        forms: list[Axis | Pick | Only] = []
        axis = 0
        for k in keys:
            if k is None:
                axis += 1
            elif isinstance(k, slice):
                forms.append(Axis(axis, *bounds_of(k)))
                axis += 1
            else:
                forms.append(Pick(integer_of(k, "an index")))
        return Array(_noted(make(Index, self.node, tuple(forms), axis)))

    def transpose(self, *axes: Any) -> Array:
        """The array with its axes permuted; without arguments, reversed."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        if order is None or order == ():
            order = range(self.ndim)[::-1]
        places = [axis_of(a, self.ndim) for a in order]
        if sorted(places) != list(range(self.ndim)):
            raise AxisError(f"axes {tuple(order)} are no permutation of {self.ndim} axes")
        return Array(_noted(make(Index, self.node, tuple(
            Axis(places.index(d)) for d in range(self.ndim)), self.ndim)))

    def swapaxes(self, axis1: int, axis2: int) -> Array:
        """The array with two axes exchanged."""
        order = list(range(self.ndim))
        a, b = axis_of(axis1, self.ndim), axis_of(axis2, self.ndim)
        order[a], order[b] = order[b], order[a]
        return self.transpose(order)

    def squeeze(self, axis: int | tuple[int, ...] | None = None) -> Array:
        """The array without the given axes, which must be of size 1 when called."""
        if axis is None:
            raise UnsupportedError("squeeze needs axis=: sizes of 1 are known only when called")
        gone = axes_of(axis, self.ndim)
        kept = [d for d in range(self.ndim) if d not in gone]
        return Array(_noted(make(Index, self.node, tuple(
            Only() if d in gone else Axis(kept.index(d)) for d in range(self.ndim)), len(kept))))


def _accumulation(name: str) -> Callable[..., Array]:
    def method(self: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None,
               initial: Any = None, where: Any = None, **options: Any) -> Array:
        return accumulate(name, self, axis, keepdims, dtype, initial, where, **options)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"`{name}` over `axis` (default: all axes); see `elemc.accumulate`."
    return method


def _binary(op: str, reflected: bool = False) -> Callable[..., Array]:
    if reflected:
        return lambda self, other: apply(op, other, self)
    return lambda self, other: apply(op, self, other)


def _unary(op: str) -> Callable[..., Array]:
    return lambda self: apply(op, self)


METHODS = "sum prod min max any all mean var std argmin argmax ptp".split()
BINARY = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
          "floordiv": "floor_divide", "mod": "remainder", "pow": "power", "and": "bitwise_and",
          "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift"}
COMPARISONS = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
               "gt": "greater", "ge": "greater_equal"}
UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}
for _name in METHODS:
    setattr(Array, _name, _accumulation(_name))
for _name, _op in BINARY.items():
    setattr(Array, f"__{_name}__", _binary(_op))
    setattr(Array, f"__r{_name}__", _binary(_op, reflected=True))
for _name, _op in COMPARISONS.items():
    setattr(Array, f"__{_name}__", _binary(_op))
for _name, _op in UNARY.items():
    setattr(Array, f"__{_name}__", _unary(_op))


def _noted(node: Node) -> Node:
    note_source(node)
    return node


# -- building ---------------------------------------------------------------------------------


def as_node(value: Any) -> Node:
    """The node of an operand: symbolic array, number, NumPy scalar, array or list."""
    if isinstance(value, Array):
        return value.node
    if isinstance(value, Node):
        return value
    if type(value) in PYTHON_NUMBERS:
        try:
            return const(value, PYTHON_NUMBERS[type(value)], weak=True)
        except OverflowError:
            if 0 <= value < 2**64:
                return const(value, np.dtype(np.uint64), weak=True)
            raise DtypeError(f"the integer {value} does not fit 64 bits") from None
    if isinstance(value, (bool, np.generic)):
        return const(value, dtype_of(np.asarray(value).dtype))
    if isinstance(value, (np.ndarray, list, tuple)):
        array = np.asarray(value)
        if array.dtype == object:
            raise ArgumentError("an operand is an array of objects; symbolic arrays are not "
                                "stacked into lists: elemc has no concatenate")
        dtype_of(array.dtype)
        return make(Captured, f"captured{next(_count)}", FrozenArray(array))
    raise ArgumentError(f"{type(value).__name__} is no operand: symbolic arrays, numbers and NumPy "
                        "arrays are")


def apply(op: ScalarOp | str, *operands: Any) -> Array:
    """A scalar operation, element by element."""
    op = OPS[op] if isinstance(op, str) else op
    nodes = tuple(map(as_node, operands))
    types = [promotion_type(n) for n in nodes]
    probe = make(Apply, op, nodes, None)
    note_source(probe)
    if any(t is None for t in types):
        return Array(probe)
    try:
        dtype = op.resolve(types)[1]
    except ElemcError as error:
        source = source_of(probe)
        error.args = (f"{error.args[0]} (in the expression at {source})",)
        raise
    node = make(Apply, op, nodes, dtype)
    return Array(_noted(node))


def promotion_type(node: Node) -> Any:
    """The dtype of `node`, the Python type of a weak scalar, or None."""
    while isinstance(node, Align):
        node = node.arg
    if isinstance(node, (Const, Input)) and node.weak and node.dtype is not None:
        return {"i": int, "u": int, "f": float, "c": complex}.get(node.dtype.kind, node.dtype)
    return node.dtype


def accumulate(acc: Any, x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None,
               initial: Any = None, where: Any = None, **options: Any) -> Array:
    """Fold `x` over some of its axes.

    Parameters
    ----------
    acc : str or Accumulator
        `"sum"`, `"max"`, ... or the user's own.
    x : Array
    axis : int, tuple of int, or None
        Which axes; None: all.
    keepdims : bool
        Keep the folded axes with size 1.
    dtype : dtype, optional
        What elements are converted to before they are folded.
    initial : scalar, optional
        What the fold starts from.
    where : Array of bool, optional
        Which elements take part.

    Raises
    ------
    AxisError
        If an axis is out of range or named twice.
    """
    acc = accumulator(acc)
    node = as_node(x)
    axes = axes_of(axis, node.ndim)
    if dtype is not None:
        options["dtype"] = dtype_of(dtype)
    result = None
    if isinstance(acc, Accumulator) and node.dtype is not None and acc.reduce is not None:
        result = options.get("dtype") or acc.value_dtype(node.dtype)
    where = None if where is None or where is True else as_node(where)
    start = None if initial is None or initial is np._NoValue else as_node(initial)
    folded = _noted(make(Accumulate, acc, node, axes, result, start, where,
                         tuple(sorted(options.items()))))
    if not keepdims:
        return Array(folded)
    kept = tuple(Axis(a) for a in range(node.ndim) if a not in axes)
    return Array(_noted(make(Index, folded, kept, node.ndim)))
