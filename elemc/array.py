"""The symbolic array in users' hands: operators, indexing, constructors.

`protocol` adds NumPy's functions and matrix products; `formula` prints.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from .accumulators import accumulator
from .accumulators_results import check_options, result_dtype
from .dtypes import PYTHON_NUMBERS, as_array, dtype_of, number_dtype
from .errors import ArgumentError, AxisError, DtypeError, ElemcError, TraceError, UnsupportedError
from .formula import formula
from .graph import (
    Accumulate,
    Apply,
    Axis,
    Captured,
    Cast,
    FrozenArray,
    Graph,
    Index,
    Node,
    Size,
    const,
    make,
    note_source,
    source_of,
)
from .graph_promotion import promotion_types
from .indexing import about_sizes, axes_of, axis_of, forms_of, permutation_of, without
from .ops import OPS, TIED
from .ops_base import ScalarOp


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

    node: Node

    def __init__(self, node: Node) -> None:
        object.__setattr__(self, "node", node)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{name} cannot be set: symbolic arrays are never changed")

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise UnsupportedError("symbolic arrays are never changed: elemc.where(mask, value, x) "
                               "gives a new one")

    def __copy__(self) -> Array:
        return self

    def __deepcopy__(self, memo: Any) -> Array:
        return self

    def __reduce__(self) -> Any:
        return _unpickled, (Graph((), (self.node,)),)

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
        return functools.reduce(operator.mul, self.shape or (Array(as_node(1)),))

    @property
    def T(self) -> Array:  # noqa: N802
        """The array with its axes in reverse."""
        return self.transpose()

    @property
    def mT(self) -> Array:  # noqa: N802
        """The array with its last two axes exchanged."""
        return self.swapaxes(-1, -2)

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
                         f"{about_sizes(self.node)}{where}")

    def __bool__(self) -> bool:
        self._no_value("the truth value", "use elemc.where for a branch, np.maximum for max, & and "
                       "| for and and or, or make the argument static")

    def __int__(self) -> int:
        self._no_value("int()", "use astype")

    def __float__(self) -> float:
        self._no_value("float()", "use astype, and np.sin and its like for math.sin")

    def __complex__(self) -> complex:
        self._no_value("complex()", "use astype")

    def __index__(self) -> int:
        self._no_value("use as an index", "indices are constants, there is no gather; a setting "
                       "is compiled with static=")

    def __len__(self) -> int:
        self._no_value("len()", "Python wants a plain integer there; use x.shape[0] or "
                       "elemc.length(x)")

    def __iter__(self) -> Any:
        self._no_value("iteration", "index with constants, as in a, b = x[0], x[1], or use axes")

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._no_value("np.asarray()", "leave that out, for it is an array already (astype "
                       "converts it); of several in a list, write a + b, np.maximum(a, b), or "
                       "np.stack of them")

    def __contains__(self, item: Any) -> bool:
        self._no_value("looking for a value", "use elemc.any(x == value)")

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
        """The nearest integer, to even, or number of so many decimals, as `np.round` has it."""
        return np.round(self, decimals)  # type: ignore[return-value]

    def clip(self, min: Any = None, max: Any = None) -> Array:
        """The value limited to [min, max]; None: no limit.  Its gradient at a bound is 1."""
        low = self if _beyond(min, self.dtype, -1) else apply(TIED["maximum", "first"], self, min)
        return low if _beyond(max, low.dtype, 1) else apply(TIED["minimum", "first"], low, max)

    __round__ = round

    def copy(self, order: str = "C") -> Array:
        """The array itself, which is never changed; `order` is NumPy's."""
        return self

    def astype(self, dtype: Any, order: str = "K", casting: Any = "unsafe", subok: bool = True,
               copy: bool = True) -> Array:
        """The array converted to `dtype`; of NumPy's other arguments `casting` is heeded."""
        if self.dtype is not None and not np.can_cast(self.dtype, dtype_of(dtype), casting):
            raise DtypeError(f"{self.dtype} does not become {dtype_of(dtype)} under {casting=}")
        return Array(_noted(make(Cast, self.node, dtype_of(dtype))))

    def __pow__(self, other: Any) -> Array:
        if type(other) is int and other == 2 and (self.dtype is None or self.dtype.kind in "bc"):
            return apply("square", self)  # as NumPy: of bools it is int8; cheaper than power
        if type(other) is int and other == -1 and self.dtype is not None and (
                self.dtype.kind == "c"):
            return apply("reciprocal", self)
        return apply("power", self, other)

    # -- shape --------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Array:
        keys = key if isinstance(key, tuple) else (key,)
        reading = sum(k is not None and k is not Ellipsis for k in keys)
        if reading > self.ndim:
            raise AxisError(f"{formula(self.node)} of rank {self.ndim} has too many indices: "
                            f"{reading}")
        return Array(_noted(make(Index, self.node, *forms_of(keys, self.ndim))))

    def transpose(self, *axes: Any) -> Array:
        """The array with its axes permuted; without arguments, reversed."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return Array(_noted(make(Index, self.node, permutation_of(order, self.ndim), self.ndim)))

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
        forms, ndim = without(axes_of(axis, self.ndim), self.ndim)
        return Array(_noted(make(Index, self.node, forms, ndim)))


def _beyond(bound: Any, dtype: np.dtype | None, side: int) -> bool:
    """Whether no value of `dtype` lies beyond `bound`, above it (`side` 1) or below (-1)."""
    if bound is None or type(bound) is not int or dtype is None or dtype.kind not in "iu":
        return bound is None
    return bound >= np.iinfo(dtype).max if side > 0 else bound <= np.iinfo(dtype).min


def _unpickled(graph: Graph) -> Array:
    return Array(graph.outputs[0])


def _accumulation(name: str) -> Callable[..., Array]:
    """The method `name`; positions are NumPy's."""

    def method(self: Any, axis: Any = None, *, keepdims: bool = False, dtype: Any = None,
               initial: Any = None, where: Any = None, **options: Any) -> Array:
        return accumulate(name, self, axis, keepdims, dtype, initial, where, **options)

    def converting(self: Any, axis: Any = None, dtype: Any = None, **options: Any) -> Array:
        return method(self, axis, dtype=dtype, **options)

    made = converting if name in CONVERTING else method
    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"`{name}` over `axis` (default: all axes); see `elemc.accumulate`."
    return made


def _binary(op: str, reflected: bool = False) -> Callable[..., Array]:
    if reflected:
        return lambda self, other: apply(op, other, self)
    return lambda self, other: apply(op, self, other)


def _unary(op: str) -> Callable[..., Array]:
    return lambda self: apply(op, self)


METHODS = "sum prod min max any all mean var std argmin argmax ptp".split()
CONVERTING = "sum prod mean var std".split()
BINARY = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
          "floordiv": "floor_divide", "mod": "remainder", "and": "bitwise_and",
          "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift"}
COMPARISONS = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
               "gt": "greater", "ge": "greater_equal"}
UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}
for _name in METHODS:
    setattr(Array, _name, _accumulation(_name))
for _name, _op in BINARY.items():
    setattr(Array, f"__{_name}__", _binary(_op))
    setattr(Array, f"__r{_name}__", _binary(_op, reflected=True))
Array.__rpow__ = _binary("power", reflected=True)  # type: ignore[attr-defined]
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
        return const(value, number_dtype(value), weak=True)
    if isinstance(value, (bool, np.generic)):
        return const(value, dtype_of(np.asarray(value).dtype))
    if isinstance(value, (np.ndarray, list, tuple)):
        array = as_array(value)
        if array.dtype == object:
            raise ArgumentError("an operand is an array of objects; symbolic arrays in a list "
                                "are made one by np.stack")
        dtype_of(array.dtype)
        return make(Captured, "captured", FrozenArray(array))
    raise ArgumentError(f"{type(value).__name__} is no operand: symbolic arrays, numbers and NumPy "
                        "arrays are")


def apply(op: ScalarOp | str, *operands: Any) -> Array:
    """A scalar operation, element by element."""
    op = OPS[op] if isinstance(op, str) else op
    nodes = tuple(map(as_node, operands))
    types = promotion_types(op.name, nodes, [n.dtype for n in nodes])
    probe = make(Apply, op, nodes, None)
    note_source(probe)
    if any(t is None for t in types):
        return Array(probe)
    try:
        dtype = op.resolve(types)[1]
    except ElemcError as error:
        error.locate(source_of(probe))
        raise
    node = make(Apply, op, nodes, dtype)
    return Array(_noted(node))


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
    if options.get("out") is None:
        options.pop("out", None)
    if "correction" in options:
        options["ddof"] = options.pop("correction")  # NumPy has two names for it
    check_options(acc, options)
    if dtype is not None:
        options["dtype"] = dtype_of(dtype)
    result = None if node.dtype is None else result_dtype(acc, node.dtype, options.get("dtype"))
    where = None if where is None or where is True else as_node(where)
    if where is not None and where.dtype is not None and where.dtype.kind != "b":
        raise DtypeError(f"where= of {acc.name} is {where.dtype}: it is a mask of bools")
    start = None if initial is None or initial is np._NoValue else as_node(initial)
    folded = _noted(make(Accumulate, acc, node, axes, result, start, where,
                         tuple(sorted(options.items()))))
    if not keepdims:
        return Array(folded)
    kept = tuple(Axis(a) for a in range(node.ndim) if a not in axes)
    return Array(_noted(make(Index, folded, kept, node.ndim)))
