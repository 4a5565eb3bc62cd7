"""`Function`, the callable object.

The compiler's stages and the call path are imported where a function first needs them, and not
with `import elemc`, which would take twice as long.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import modes
from .arguments import (
    arguments_of,
    array_of,
    check_numbers,
    check_outputs,
    known,
    mask_of,
    outputs_of,
    sizes_of,
    store_all,
)
from .array import Array, as_node
from .close import settle
from .cnames import c_names, identifier, output_names
from .dtypes import PYTHON_NUMBERS, dtype_of, number_dtype
from .errors import ArgumentError, DtypeError, FallbackWarning, ShapeError
from .formula import formula
from .graph import Cast, Graph, Input, Node, make, replaced
from .interp import interpret
from .portable import portable

if TYPE_CHECKING:
    from .compiler import Closed, Compiled
    from .specialize import Signature

_warned = threading.Event()


def function(inputs: Sequence[Array], outputs: Any, mode: Any = "broadcast", order: str = "f",
             name: str | None = None, contract: bool = False,
             reassociate: bool = False) -> Function:
    """Compile an expression.

    Parameters
    ----------
    inputs : sequence of Array
        The arguments, in order; made by `matrix`, `array` and their like.
    outputs : Array or list of Array
        A list makes the function return a tuple.
    mode : str, tuple, or list of these
        Per output "broadcast" (rank of the widest input) or ("accumulate", accumulator)
        (rank of the narrowest input; wider ones are accumulated first).
    order : {"f", "c"}
        Which ends of two shapes align: trailing (NumPy's rule) or leading.  Has nothing to do
        with storage.
    name : str, optional
        What messages and the C call the function.
    contract : bool
        Allow fused multiply-adds: faster, and rounded differently from NumPy.
    reassociate : bool
        Allow the C compiler to reorder additions and multiplications, but beside float16.

    Returns
    -------
    Function
        Callable on NumPy arrays.

    Raises
    ------
    ModeError
        If a mode or order is unknown, or a mode does not fit an expression.
    ArgumentError
        If an output depends on an input that is not listed, or one is listed twice.
    """
    if isinstance(inputs, Array):
        raise ArgumentError("inputs are a list of arrays, as in elemc.function([x], x + 1)")
    single = not isinstance(outputs, (list, tuple))
    nodes = [as_node(o) for o in ([outputs] if single else outputs)]
    ends = tuple(_input(i) for i in inputs)
    listed = modes.per_output(mode, len(nodes))
    text = tuple(modes.describe(m) for m in listed)
    graph = modes.apply_modes(Graph(ends, tuple(nodes)), listed, order)
    return make_function(graph, order, text, single, name or "f", None, None, contract, reassociate)


def make_function(*args: Any) -> Function:
    """A `Function` of these arguments, with the fastest call path that this machine allows."""
    from . import fastcall

    made: Function = fastcall.fastest("Callable", Function)(*args)
    return made


def _input(array: Any) -> Input:
    node = array.node if isinstance(array, Array) else array
    if not isinstance(node, Input):
        raise ArgumentError(f"inputs are made by elemc.array and its like, not {array!r}")
    return node


class Function:
    """An expression, callable on NumPy arrays with the feel of a ufunc.

    Attributes
    ----------
    graph : Graph
        What it computes; pickled functions are rebuilt from it.
    order : str
    modes : tuple of str
        Per output.
    trace_seconds : float or None
        How long `elemc.compile` took to trace it.
    """

    trace_seconds: float | None = None

    def __init__(self, graph: Graph, order: str, mode_names: tuple[str, ...], single: bool,
                 name: str, doc: str | None = None, structure: Any = None,
                 contract: bool = False, reassociate: bool = False) -> None:
        self.graph, self.order, self.modes, self.single = graph, order, mode_names, single
        self.contract, self.reassociate = contract, reassociate
        self.name = self.__name__ = name
        self._structure = structure
        self._check_inputs()
        self.input_names = c_names([i.name for i in graph.inputs])
        self.output_names = getattr(structure, "outputs", None) or output_names(
            len(graph.outputs), self.input_names)
        self._closed: dict[tuple[np.dtype, ...], Closed] = {}
        self._compiled: dict[Any, Compiled] = {}
        self._by_signature: dict[Any, Compiled] = {}
        self._for_kinds: dict[Any, Function] = {}
        self._lock = threading.RLock()
        self._outputs: tuple[str, ...] = ()
        self._open()
        self.__doc__ = doc or self._document()

    def _check_inputs(self) -> None:
        if len(set(self.graph.inputs)) < len(self.graph.inputs):
            raise ArgumentError(f"{self.name}: an input is listed twice")
        for node in self.graph.nodes:
            if isinstance(node, Input) and node not in self.graph.inputs:
                alike = any(i.name == node.name for i in self.graph.inputs)
                raise ArgumentError(f"{self.name}: the outputs use {'another ' * alike}{node.name},"
                                    " which is not among the inputs")

    def _open(self) -> None:
        """Describe the outputs; errors surface now."""
        outputs = self.graph.outputs
        if all(i.dtype is not None for i in self.graph.inputs):
            outputs = self.close(tuple(i.dtype for i in self.graph.inputs)).graph.outputs
        self._outputs = tuple(map(_spec, outputs))

    # -- what a ufunc has ----------------------------------------------------------------------

    @property
    def nin(self) -> int:
        """Number of inputs."""
        return len(self.graph.inputs)

    @property
    def nout(self) -> int:
        """Number of outputs."""
        return len(self.graph.outputs)

    @property
    def nargs(self) -> int:
        """Number of inputs and outputs."""
        return self.nin + self.nout

    @property
    def signature(self) -> str:
        """Names, dtypes and ranks: `(x: float64[2], y: float64[1]) -> (float64[2])`."""
        ins = ", ".join(f"{i.name}: {_spec(i)}" for i in self.graph.inputs)
        return f"({ins}) -> ({', '.join(self._outputs)})"

    @property
    def types(self) -> list[str]:
        """Dtype characters of inputs and outputs, as of a ufunc, for every dtypes met so far."""
        return ["".join(known(i).char for i in c.graph.inputs) + "->" +
                "".join(known(o).char for o in c.graph.outputs) for c in self.closings()]

    @property
    def specializations(self) -> list[Compiled]:
        """The kernels compiled so far."""
        self.closings()
        every = [*self._compiled.values(),
                 *(c for f in self._for_kinds.values() for c in f.specializations)]
        return list({c.source.text: c for c in every}.values())

    def __repr__(self) -> str:
        return f"<elemc function {self.name}{self.signature}, order {self.order}>"

    def _document(self) -> str:
        names: dict[Node, str] = dict(zip(self.graph.inputs, self.input_names, strict=True))
        lines = [f"{self.name}{self.signature}", ""]
        lines += [f"{o} = {formula(n, names)}    # {m}" for o, n, m in
                  zip(self.output_names, self.graph.outputs, self.modes, strict=True)]
        return "\n".join(lines)

    def __reduce__(self) -> Any:
        return make_function, (portable(self.graph), self.order, self.modes, self.single, self.name,
                               self.__doc__, self._structure, self.contract, self.reassociate)

    def __copy__(self) -> Function:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Function:
        return self

    # -- calls ---------------------------------------------------------------------------------

    def __call__(self, *args: Any, out: Any = None, where: Any = True, req: Any = None,
                 **named: Any) -> Any:
        """Compute the outputs for these arrays; see `Function`."""
        args = arguments_of(self.name, self.graph.inputs, args, named)
        if any(isinstance(a, Array) for a in args):
            return self.inline(args)
        other = self._for_numbers(args)
        if other is not self:
            return other(*args, out=out, where=where, req=req)
        arrays = [array_of(self.name, i, a) for i, a in zip(self.graph.inputs, args, strict=True)]
        dtypes = tuple(i.dtype or dtype_of(a.dtype) for i, a in
                       zip(self.graph.inputs, arrays, strict=True))
        closed = self.close(dtypes)
        check_numbers(self.name, closed, arrays)
        sizes = sizes_of(self.name, closed, arrays)
        outs, reqs = outputs_of(self.name, self.nout, out, req, self._structure)
        shapes = [tuple(sizes[e] for e in closed.extents.of[o]) for o in closed.graph.outputs]
        mask = None if where is True else mask_of(self.name, where, shapes, reqs)
        check_outputs(self.name, closed, outs, reqs, shapes)
        if not self._has_compiler():
            results = store_all(interpret(closed.graph, arrays), outs, reqs, mask)
        else:
            from .binding import run

            results = run(self, closed, arrays, sizes, shapes, outs, reqs, mask)
        results = [r if o is not None or r is None or r.ndim else r[()]
                   for r, o in zip(results, outs, strict=True)]
        if self._structure is not None:
            return self._structure(results)
        return results[0] if self.single else tuple(results)

    _call = __call__  # what the call path in C leaves to Python

    def _for_numbers(self, args: Sequence[Any]) -> Function:
        """The function for Python numbers as those among `args` that meet an input of any dtype.

        Their dtype gives way to those of arrays, so they are inputs of another kind.
        """
        kinds = tuple(number_dtype(a) if i.dtype is None and not i.ndim and
                      type(a) in PYTHON_NUMBERS else None
                      for i, a in zip(self.graph.inputs, args, strict=True))
        if not any(kinds):
            return self
        with self._lock:
            if kinds not in self._for_kinds:
                new = {i: make(Input, i.name, 0, dtype, i.ident, True)
                       for i, dtype in zip(self.graph.inputs, kinds, strict=True) if dtype}
                self._for_kinds[kinds] = make_function(
                    self.graph.map(lambda node: new.get(node, node)), self.order, self.modes,
                    self.single, self.name, self.__doc__, self._structure, self.contract,
                    self.reassociate)
            return self._for_kinds[kinds]

    def inline(self, args: Sequence[Any]) -> Any:
        """The outputs as symbolic arrays, for symbolic arguments of the inputs' ranks."""
        settled = settle(self.graph, self.order)
        new: dict[Node, Node] = {}
        for node, arg in zip(self.graph.inputs, map(as_node, args), strict=True):
            if arg.ndim != node.ndim:
                raise ShapeError(f"{self.name}: {node.name} has rank {arg.ndim}, but rank "
                                 f"{node.ndim} is needed")
            if node.dtype is not None and arg.dtype is not None and not np.can_cast(
                    arg.dtype, node.dtype, "safe") and not getattr(arg, "weak", False):
                raise DtypeError(f"{self.name}: {node.name} has dtype {arg.dtype}, which does not "
                                 f"cast safely to {node.dtype}")
            as_it_is = node.dtype is None or node.dtype == arg.dtype
            new[node] = arg if as_it_is else make(Cast, arg, node.dtype)
        results = map(Array, replaced(settled.outputs, new))
        return (self._structure or (next if self.single else tuple))(results)

    def close(self, dtypes: tuple[np.dtype | None, ...]) -> Closed:
        """The closed graph and extents for inputs of these dtypes."""
        closed = self._closed.get(dtypes)  # type: ignore[arg-type]
        if closed is None:
            from . import compiler

            with self._lock:
                dtype_of_input: dict[Node, np.dtype] = {
                    i: d for i, d in zip(self.graph.inputs, dtypes, strict=True) if d is not None}
                closed = self._closed[dtypes] = compiler.close_function(  # type: ignore[index]
                    identifier(self.name), self.graph, self.order, self.modes, self.input_names,
                    self.output_names, dtype_of_input, self.contract or self.reassociate)
        return closed

    def closings(self) -> list[Closed]:
        """The closed graphs for all dtypes met so far."""
        return list(self._closed.values())

    # -- kernels -------------------------------------------------------------------------------

    def _has_compiler(self) -> bool:
        """Whether kernels can be compiled; without a compiler, warn once."""
        from .toolchain import fallback, find_toolchain

        if fallback() == "error" or find_toolchain() is not None:
            return True  # the build reports what is missing
        if not _warned.is_set():
            _warned.set()
            warnings.warn("elemc found no C compiler (ELEMC_CC, CC, cc, gcc, clang, the package "
                          "ziglang): the NumPy interpreter answers, slowly", FallbackWarning,
                          stacklevel=3)
        return False

    def _register(self, closed: Closed, compiled: Compiled, signature: Signature,
                  arrays: Sequence[np.ndarray], sizes: Sequence[int],
                  outs: Sequence[np.ndarray | None], mask: np.ndarray | None) -> None:
        """Hear of a call that any call path can serve; see `fastcall`."""

    def specialize(self, closed: Closed, signature: Signature) -> Compiled:
        """The kernel for one signature, compiled when first met."""
        key = (closed, signature)
        compiled = self._by_signature.get(key)
        if compiled is None:
            from . import compiler

            spec, kernel = compiler.nests(closed, signature)
            with compiler.early(spec, self.contract, self.reassociate):
                source = compiler.written(closed, kernel)
                same = (source.text, source.bindings)
                compiled = self._compiled.get(same)
                if compiled is None:
                    compiled = self._compiled.setdefault(same, compiler.load(
                        spec, kernel, source, self.contract, self.reassociate))
            self._by_signature[key] = compiled
        return compiled

    def prepare(self, *calls: tuple[Any, ...]) -> None:
        """Compile the kernels of several calls, as many side by side as there are CPUs.

        A call is a tuple of its arguments: `f.prepare((x, y), (x.T, y))`. Shapes count, values do
        not: `np.empty(shape)` will do. Calls with `where=` or `req=` have kernels of their own.
        """
        from .prepare import prepare

        prepare(self.name, lambda args: (self, args), calls)

    def dump(self, *arrays: Any, stage: str = "c") -> str:
        """The text of one stage: graph, nest, c, asm or vectorization.

        The last says which loops of the C the compiler vectorized, and why not the others.

        Parameters
        ----------
        *arrays : array_like, optional
            The kernel for these arrays; default: C-contiguous ones without an axis of size 1.
        stage : {"graph", "nest", "c", "asm", "vectorization"}
        """
        from .dump import dump  # the printers are needed only here

        return dump(self, arrays, stage)

    def profile(self, *arrays: Any, repeats: int = 20) -> Any:
        """Measure the kernel of a call on these arrays, phase by phase.

        Returns
        -------
        elemc.profile.Profile
            Times, bytes and operations, and how much of what this machine can do they are.
        """
        from .profile import profile  # as dump

        return profile(self, arrays, repeats)

    def example(self, arrays: Sequence[Any]) -> tuple[Closed, Signature]:
        """The signature of a call on these arrays."""
        from .binding import signature_of

        full = arguments_of(self.name, self.graph.inputs, tuple(arrays), {})
        other = self._for_numbers(full)
        if other is not self:
            return other.example(full)
        given = [array_of(self.name, i, a) for i, a in zip(self.graph.inputs, full, strict=True)]
        closed = self.close(tuple(i.dtype or dtype_of(a.dtype) for i, a in
                                  zip(self.graph.inputs, given, strict=True)))
        check_numbers(self.name, closed, given)
        sizes = sizes_of(self.name, closed, given)
        ins = [*given, *(c.array.data for c in closed.graph.captured)]
        return closed, signature_of(closed, sizes, ins, (None,) * self.nout, ("write",) * self.nout)


def _spec(node: Node) -> str:
    return f"{node.dtype or 'any'}[{node.ndim}]"
