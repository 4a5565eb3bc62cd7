"""The call path in C (callable.c): built once per machine, taught one entry per kind of call.

`fastest("Callable", Function)` is the subclass whose calls go through the C, and so is
`fastest("Dispatcher", TracedFunction)`.  What such a call needs of a
specialization is written down here as a stream of int64, in the order in which the C reads it.
"""

from __future__ import annotations

import importlib.machinery
import pickle
import sys
import threading
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from . import plans
from .arguments import known
from .build import CALLABLE, own_extension, stored_kernel
from .build import CALLABLE_NAME as NAME
from .errors import CompileError, ElemcError, FallbackWarning, MissingHeaders
from .toolchain import find_toolchain

if TYPE_CHECKING:
    from .compiler import Closed, Compiled
    from .emit import Pointer
    from .maps import Instruction
    from .specialize import Signature

FROM = {"second": 1, "third": 2, "memory": 3}  # as in callable.c
KINDS = ("one", "dim", "slice", "pick", "only", "join", "fit")  # as in callable.c

_lock = threading.RLock()
_classes: dict[type, type] = {}


def fastest(kind: str, base: type) -> type:
    """The subclass of `base` whose calls go through C; `base` itself where there is none.

    `base` serves in `_call` what the C does not, and calls `_register` after that.  `kind` is the
    type in callable.c: Callable, Dispatcher.
    """
    with _lock:
        if base not in _classes:
            try:
                if find_toolchain() is None:
                    return base  # the interpreter answers
            except ElemcError:
                return base  # a setting is wrong: the first call says so
            _classes[base] = _subclass(kind, base)
        return _classes[base]


def _subclass(kind: str, base: type) -> type:
    try:
        module = load()
    except MissingHeaders:
        return base  # kernels do without Python.h; calls take longer
    except CompileError as error:
        warnings.warn(f"calls go through Python, and take longer: {error}", FallbackWarning,
                      stacklevel=5)
        return base
    body = {"__doc__": base.__doc__, "__module__": base.__module__}
    teaching = {"Callable": _Teaching, "Dispatcher": _TeachingKinds}[kind]
    made = type(f"Compiled{base.__name__}", (getattr(module, kind), teaching, base), body)
    module.prepare(made, _fail)
    return made


def _fail(status: int, function: Any) -> NoReturn:
    from .runtime import fail

    fail(status, function)


def load() -> Any:
    """The module made of callable.c.

    Raises
    ------
    MissingHeaders
        If this machine lacks Python.h.
    CompileError
        If there is no compiler, or it fails.
    """
    with _lock:
        if NAME not in sys.modules:
            path = own_extension(CALLABLE, NAME)
            loader = importlib.machinery.ExtensionFileLoader(NAME, path)
            module = loader.create_module(importlib.machinery.ModuleSpec(NAME, loader, origin=path))
            loader.exec_module(module)
            sys.modules[NAME] = module
        return sys.modules[NAME]


class _Teaching:
    """What the subclass adds to `Function`: after a call in Python, the C learns to serve it.

    What it learned is a plan for other processes, where the C learns it before the first call.
    """

    def __init__(self: Any, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        structure = self._structure
        if structure is None and not self.single:
            structure = (None,) * self.nout
        elif hasattr(structure, "in_tuples"):
            structure = structure.in_tuples()
        self._ready(self._wanted, self.nout, structure)

    def _open(self: Any) -> None:
        self._compiler = plans.compiler()
        self._place, self._plans = plans.place_of(self, self._compiler), {}
        self._recalled: list[tuple[tuple[np.dtype, ...], bytes | None]] = []
        held = plans.held(self._place)
        if held is None:
            super()._open()  # type: ignore[misc]
            self._wanted = tuple(map(self._number, range(self.nin)))
            plans.keep(self._place, (self._wanted, self._outputs))
            return
        (self._wanted, self._outputs), self._plans = held
        if all(i.dtype is not None for i in self.graph.inputs):
            self._recalled.append((tuple(i.dtype for i in self.graph.inputs), None))

    def _call(self: Any, *args: Any, out: Any = None, where: Any = True, req: Any = None,
              **named: Any) -> Any:
        if self._plans and not named and self._recall(args, (out, where, req)):
            return load().Callable.__call__(self, *args, out=out, where=where, req=req)
        return super()._call(*args, out=out, where=where, req=req, **named)  # type: ignore[misc]

    def _recall(self: Any, args: tuple[Any, ...], rest: tuple[Any, ...]) -> bool:
        """Teach the C what another process found out of calls like this; whether that was enough.

        If it was not, or the C declines the call for its data, Python serves it, and has the error.
        """
        if not self._has_compiler() or not self._lacks(args, rest):
            return False
        if self._compiler != plans.compiler():
            return False  # it is another by now
        shapes = plans.shapes(args)
        with self._lock:
            key = self._key(args, rest)
            for plan in sorted(self._plans.get(key, ()),
                               key=lambda plan: plan.shapes != shapes):
                found = stored_kernel(plan.kernel, plan.checksum, plan.entry, plan.libraries)
                if found is not None and self._lacks(args, rest):
                    arrays = self.graph.captured
                    self._add(args, rest, found[0], plan.code,
                              tuple(arrays[k].array.data for k in plan.captured),
                              tuple(map(np.dtype, plan.dtypes)), found[1])
                    self._recalled.append((tuple(map(np.dtype, plan.closed)), plan.signature))
            self._plans.pop(key, None)
            return not self._lacks(args, rest)

    def closings(self: Any) -> list[Closed]:
        """The closed graphs for all dtypes met so far; the compiler catches up with the plans."""
        with self._lock:
            while self._recalled:
                dtypes, signature = self._recalled.pop()
                closed = self.close(dtypes)
                if signature is not None:
                    self.specialize(closed, pickle.loads(signature))
        return super().closings()  # type: ignore[misc, no-any-return]

    def _number(self: Any, place: int) -> int:
        """The type number that the C gives a Python number; -1: Python looks at it."""
        node = self.graph.inputs[place]
        if node.dtype is None or node.weak and not self._closed:
            return -1
        ranges = [k for closed in self._closed.values() for k, _ in closed.giving_way]
        return -1 if place in ranges else int(node.dtype.num)

    def _register(self: Any, closed: Closed, compiled: Compiled, signature: Signature,
                  arrays: Sequence[np.ndarray], sizes: Sequence[int],
                  outs: Sequence[np.ndarray | None], mask: np.ndarray | None) -> None:
        """Add an entry for calls like this one, which wrote all of `outs` with `compiled`."""
        ins = tuple(arrays)
        given = tuple(o for o in outs if o is not None)
        rest = (given or None, True if mask is None else mask, signature.modes if given else None)
        if len(given) not in (0, len(outs)) or not self._lacks(ins, rest):
            return
        if not fits(closed, compiled):
            return
        code = np.array(stream(closed, compiled, signature, sizes), np.int64).tobytes()
        self._add(ins, rest, compiled.kernel.address, code,
                  tuple(c.array.data for c in closed.graph.captured),
                  tuple(o.dtype for o in closed.graph.outputs), compiled)
        if self._place is not None and self._compiler == plans.compiler():
            plan = plans.plan_of(self, closed, compiled, signature, ins, code)
            plans.keep(self._place, (self._wanted, self._outputs), self._key(ins, rest), plan)


class _TeachingKinds:
    """What the subclass adds to `TracedFunction`."""

    def __init__(self: Any, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        kinds = self._signature.parameters
        names = tuple(name if kinds[name].kind is kinds[name].POSITIONAL_OR_KEYWORD else None
                      for name in self._places)
        statics = sum(1 << k for k, name in enumerate(self._places) if name in self.static)
        self._accept(names, statics)

    def _register(self: Any, args: tuple[Any, ...], settings: int, function: Any,
                  rest: tuple[Any, ...]) -> None:
        """Calls of these kinds of arguments are calls of `function`; see callable.c."""
        self._remember(args, settings, function, rest)


def fits(closed: Closed, compiled: Compiled) -> bool:
    """Whether the C has room for all that this kernel needs."""
    module, bind = load(), compiled.bindings
    most = max(len(closed.extents.program), len(bind.pointers), len(bind.buffers))
    return bool(len(compiled.spec.operands) <= module.OPERANDS and most <= module.PLACES)


def stream(closed: Closed, compiled: Compiled, signature: Signature,
           sizes: Sequence[int]) -> list[int]:
    """How calls like one with this signature and extents `sizes` bind their arrays.

    In order: the extent program, with bounds; the dimensions of the mask that are 1, as bits;
    whether it is for small inputs alone, where inputs come from (`FROM`; 0: anywhere), whether
    outputs outgrow the caches; their lines, whether lines read across outgrow the first one, what
    is read across, the folds that must not be empty, the outputs, the sizes, the pointers with
    their strides, the phases with their work, the buffers.  Lists start with their length.
    """
    from .bounds import bounds_of_rows
    from .quotients import folds
    from .sharing import crossing
    from .specialize import line_extents

    bind, program = compiled.bindings, closed.extents.program
    bounds = {e: (low, high) for e, low, high in signature.bounds}
    words = [len(program)]
    for place, step in enumerate(program):
        words += [*_instruction(step), *_bounds(sizes[place], bounds.get(place))]
    few = not bounds and bool(bounds_of_rows(compiled.spec, sizes))
    come = FROM["memory" if signature.far else "third" if signature.third else "second"]
    lines = line_extents(compiled.spec)
    ones = sum(one << d for d, one in enumerate(signature.mask_ones))
    words += [ones, int(few), come if folds(compiled.spec) else 0, int(signature.large), len(lines)]
    for itemsize, least, line, every in lines:
        words += [itemsize, least, len(line), *line, len(every), *every]
    across = crossing(compiled.spec)
    words += [int(signature.crossed), len(across)]
    for operand, dim, held, extents in across:
        words += [operand, dim, held, len(extents), *extents]
    words += [len(closed.never_empty)]
    for _, over in closed.never_empty:
        words += [len(over), *over]
    first = len(compiled.spec.operands) - len(closed.graph.outputs)
    for place, node in enumerate(closed.graph.outputs, first):
        words += _output(compiled, place, closed.extents.of[node], known(node))
    words += [len(bind.sizes)]
    for kind, what in bind.sizes:
        unit, extents = (1, what) if kind in ("product", "start") else what
        unit = -unit if kind == "most" else unit
        words += [0, what] if kind == "start" else [unit, len(extents), *extents]
    words += [len(bind.pointers)]
    for pointer in bind.pointers:
        words += _pointer(pointer)
    words += [len(bind.phases)]
    for phase in bind.phases:
        words += [-1 if phase.axis is None else phase.axis, phase.least, len(phase.work)]
        for units, places in phase.work:
            words += [units, len(places), *places]
    words += [len(bind.buffers)]
    for places, itemsize, shared in bind.buffers:
        words += [itemsize, int(shared), len(places), *places]
    return words


def _instruction(step: Instruction) -> list[int]:
    """Kind and four arguments; a slice's bounds as CPython's C functions take them."""
    kind, *args = step
    if kind == "slice":
        extent, start, stop, by = args
        by = 1 if by is None else by
        last = sys.maxsize if by > 0 else -sys.maxsize - 1
        if start is None:
            start = 0 if by > 0 else sys.maxsize
        args = [extent, *(_clip(v) for v in (start, last if stop is None else stop, by))]
        args[3] = max(args[3], -sys.maxsize)
    elif kind == "pick":
        args[1] = _clip(args[1])
    return [KINDS.index(kind), *args, *[0] * (4 - len(args))]


def _bounds(size: int, known: tuple[int, int] | None) -> tuple[int, int]:
    """The least and the most that an extent may be; 0 and 1 have entries of their own."""
    return known or ((size, size) if size < 2 else (0, sys.maxsize))


def _clip(value: int) -> int:
    return max(-sys.maxsize - 1, min(value, sys.maxsize))


def _output(compiled: Compiled, place: int, extents: Sequence[int], dtype: np.dtype) -> list[int]:
    """Inputs that it may be, as bits; where it begins; its extents; its order in memory.

    It begins so many bytes behind a line: half of one if functions fill it, and none if it goes
    past the caches in lines; else as far behind as a large input.  That is how many bytes, and
    behind multiples of how many.  The order is there unless it is C's.
    """
    bits = sum(1 << j for out, j in compiled.in_place if out == place)
    from . import runtime
    from .cost import calls
    from .values import is_fold, walk

    [value] = (s.value for s in compiled.spec.stores if s.operand == place)
    called = calls(v for v in walk([value], is_fold) if v.axes == value.axes)
    perm = compiled.spec.operands[place].layout.perm
    order = runtime.memory_order(len(extents), perm)
    begins = (32, 64) if called else (0, 64 if compiled.spec.large else dtype.itemsize)
    words = [bits, *begins, len(extents), *extents]
    return [*words, 0] if order == sorted(order) else [*words, 1, *order]


def _pointer(pointer: Pointer) -> list[int]:
    words = [pointer.operand, len(pointer.starts)]
    for dim, coef, extent in pointer.starts:
        words += [dim, coef, -1 if extent is None else extent]
    words += [len(pointer.strides)]
    for terms in pointer.strides:
        words += [len(terms), *(word for term in terms for word in term)]
    return words
