"""The stages of the compiler, in order.

1. `close.close`            the graph as written -> closed graph     order and dtypes settled
2. `simplify.simplify`      closed graph -> closed graph             constants folded
3. `maps.extents_of`        closed graph -> extent program           sizes, checked at each call
4. `specialize.specialize`  + signature of a call -> Specialized     named axes, merged
5. `schedule.schedule`      Specialized -> Kernel                    loop nests
6. `emit.emit`              Kernel -> Source                         C, and how to call it
7. `build.load_kernel`      C -> machine code                        compiled once, then cached
8. `runtime`                binds arrays and calls the kernel

`interp.interpret` runs what stage 2 leaves, without a compiler.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property

import numpy as np

from . import build, build_early, build_jobs
from .banner import banner_of
from .close import close
from .cnames import c_names
from .cost import HEAVY
from .emit import Bindings, Source, emit
from .graph import Accumulate, Cast, Graph, Node
from .layout import STEPS
from .maps import Extents, extents_of
from .nest import Kernel, LaneLoop, Write, bodies, fills_its_own, statements, values_of
from .ops import SHORTCUT
from .quotients import divides
from .records import dataclass
from .row_ends import selects
from .schedule import schedule
from .simplify import simplify
from .specialize import Signature, specialize
from .threads import cpus
from .values import Convert, Fold, Literal, Load, Op, Specialized, Value, roots_of, walk

# Operations on complex numbers by which the C makes both parts in the same way, or real numbers.
UNIFORM = set("add subtract multiply square negative positive conjugate real imag absolute sqrt "
              "exp log log2 log10".split())


@dataclass(frozen=True, eq=False)
class Closed:
    """A function for known dtypes: stages 1 to 3."""

    name: str
    written: Graph
    graph: Graph
    extents: Extents
    order: str
    modes: tuple[str, ...]
    names: tuple[str, ...]
    output_names: tuple[str, ...]
    loose: bool
    _specialized: dict[Signature, Specialized] = field(default_factory=dict)

    def specialized(self, signature: Signature) -> Specialized:
        """Stage 4, done once per signature."""
        if signature not in self._specialized:
            self._specialized[signature] = specialize(
                self.graph, self.extents, signature, self.names, self.output_names, self.loose)
        return self._specialized[signature]

    @cached_property
    def banner(self) -> list[str]:
        """The lines of its kernels' first comment."""
        operands = (*self.written.inputs, *self.graph.captured)
        return banner_of(self.name, self.written, self.order, self.modes,
                         dict(zip(operands, self.names, strict=True)), self.output_names)

    @property
    def given_names(self) -> list[str]:
        """The names of the inputs as the user wrote them, and those of the captured arrays."""
        return [*(i.name for i in self.graph.inputs), *(c.name for c in self.graph.captured)]

    @cached_property
    def giving_way(self) -> list[tuple[int, np.dtype]]:
        """Inputs that are Python integers, and the integer dtypes that they are converted to."""
        return [(place, node.dtype) for place, number in enumerate(self.graph.inputs)
                if number.weak and number.dtype and number.dtype.kind in "iu"
                for node in self.graph.nodes
                if isinstance(node, Cast) and node.arg is number and node.dtype.kind in "iu"]

    @cached_property
    def never_empty(self) -> list[tuple[Accumulate, list[int]]]:
        """Folds without identity, and the extents they fold."""
        found = []
        for node in self.graph.nodes:
            if isinstance(node, Accumulate) and node.initial is None:
                if dict(node.options)["program"].identity is None:
                    of = self.extents.of[node.arg]
                    found.append((node, [of[a] for a in node.axes]))
        return found


@dataclass(frozen=True, repr=False)
class Compiled:
    """One specialization, compiled: stages 4 to 7."""

    spec: Specialized
    source: Source
    kernel: build_jobs.Kernel
    in_place: frozenset[tuple[int, int]]

    def __repr__(self) -> str:
        lines = self.source.text.splitlines()
        roles = (" * in ", " * out ", " * captured ", " * mask ")
        reads = [line.removeprefix(" * ") for line in lines if line.startswith(roles)]
        return f"<elemc {self.source.entry}({'; '.join(reads)}), {len(lines)} lines of C>"

    @property
    def bindings(self) -> Bindings:
        """How to call the kernel."""
        return self.source.bindings


def close_function(name: str, graph: Graph, order: str, modes: Sequence[str],
                   names: Sequence[str], output_names: Sequence[str],
                   dtypes: Mapping[Node, np.dtype], loose: bool) -> Closed:
    """Stages 1 to 3; `loose` functions may be contracted, or reassociated."""
    closed = simplify(close(graph, order, dtypes))
    every = (*names, *c_names([*names, *(n.name for n in closed.captured)])[len(names):])
    return Closed(name, graph, closed, extents_of(closed), order, tuple(modes), every,
                  tuple(output_names), loose)


def nests(closed: Closed, signature: Signature) -> tuple[Specialized, Kernel]:
    """Stages 4 and 5."""
    spec = closed.specialized(signature)
    kernel = schedule(spec)
    assert fills_its_own(kernel)
    return spec, kernel


def source_of(closed: Closed, signature: Signature) -> tuple[Specialized, Kernel, Source]:
    """Stages 4 to 6."""
    spec, kernel = nests(closed, signature)
    return spec, kernel, written(closed, kernel)


def written(closed: Closed, kernel: Kernel) -> Source:
    """Stage 6."""
    return emit(kernel, f"kernel_{closed.name}", closed.banner)


def early(spec: Specialized, contract: bool,
          reassociate: bool) -> contextlib.AbstractContextManager[None]:
    """Meanwhile the compiler of stage 7 starts, if stage 6 has to load what writes C."""
    tool = build.toolchain()
    if "jinja2" in sys.modules or tool.family != "gcc" or cpus() == 1:
        return contextlib.nullcontext()
    flags, wants = flags_of(spec, contract, reassociate)
    job = build_jobs.Job(tool, "", "", build.kernel_flags(tool, flags, wants), tool.links)
    return build_early.early(job.command(*build_early.SOURCE))


def load(spec: Specialized, kernel: Kernel, source: Source, contract: bool = False,
         reassociate: bool = False) -> Compiled:
    """Stage 7."""
    flags, wants = flags_of(spec, contract, reassociate)
    loaded = build.load_kernel(source.text, source.entry, flags, wants, source.libraries,
                               source.slow)
    return Compiled(spec, source, loaded, _in_place(spec, kernel))


def flags_of(spec: Specialized, contract: bool,
             reassociate: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A kernel's flags for the compiler, and what else it needs of it.

    Nothing is reassociated beside float16: what converts it multiplies and adds numbers that would
    cancel out.
    """
    values = walk(roots_of(spec.stores))
    made = [v.dtype for v in values if isinstance(v, (Op, Fold))]
    made += [dtype for v in values if isinstance(v, Fold) for dtype in v.program.state]
    halves = any(v.dtype == np.float16 for v in values)
    flags = (("-ffp-contract=fast",) if contract else ()) + (
        ("-fassociative-math", "-fno-signed-zeros") if reassociate and not halves else ())
    is_complex = any(dtype.kind == "c" for dtype in made)
    whole = max((len(v.axes) for v in values), default=0)
    wants = ["uncontracted"] if is_complex and not contract and alternates(values) else []
    products = any(isinstance(v, Op) and v.op.name == "multiply" and all(
        a.dtype.kind == "c" for a in v.args) for v in values)
    wants += ["interleaved"] if products and not contract else []
    narrow = any(d.kind in "iu" and d.itemsize <= 2 for d in made)  # gcc 12 fails at some masks
    folds = any(isinstance(v, Fold) for v in values)
    wants += ["folds"] if folds and not narrow else []
    masks = any(v.dtype == bool for v in values)
    branches = any(multiplies(v) or looks_for_nan(v) for v in values)
    wants += ["masks"] if masks and branches else []
    dear = any(isinstance(v, Op) and v.op.cost >= HEAVY for v in values)
    if dear or gathers(spec) and not folds and (selects(values) or converts_masks(values)):
        wants.append("full vectors")
    elif not any(divides(v) and len(v.axes) == whole for v in values):
        wants.append("unrolled")  # no loop waits for divisions
    if any(isinstance(v, Op) and v.op is SHORTCUT for v in values):
        wants.append("unswitched")
    return flags, tuple(wants)


def alternates(values: Sequence[Value]) -> bool:
    """Whether gcc may find sums in one part of complex numbers and differences in the other.

    Not if both are made in the same way.  Products with a constant whose imaginary part is not 0
    are none of these: gcc knows the signs of its parts.
    """
    return not all(
        v.op.name in UNIFORM and v.args[0].dtype.kind == "c" if isinstance(v, Op) else
        v.program.name == "sum" if isinstance(v, Fold) else
        not isinstance(v, Literal) or v.value.imag == 0 for v in values)


def multiplies(value: Value) -> bool:
    """Whether numbers are folded that 1 leaves as they are."""
    neutral = value.program.neutral or () if isinstance(value, Fold) else ()
    return any(number == 1 and number.dtype != bool for number in neutral)


def looks_for_nan(value: Value) -> bool:
    """Whether it is asked if a fold gave NaN: gcc takes the answer from the extremum's branches."""
    return isinstance(value, Op) and value.op.name == "isnan" and isinstance(value.args[0], Fold)


def gathers(spec: Specialized) -> bool:
    """Whether vectors of an operand's elements are gathered.

    Of reversed ones gcc turns round vectors of the narrowest alone.
    """
    steps = [(operand.layout.step, operand.dtype.itemsize) for operand in spec.operands]
    narrowest = min(size for _, size in steps)
    return any(not step or step not in STEPS or step == -1 and size > narrowest
               for step, size in steps)


def converts_masks(values: Sequence[Value]) -> bool:
    """Whether comparisons are taken for numbers of another size than what is compared, or of bytes.

    Of such, gathered, gcc makes short vectors, or none.
    """
    numbers = {v.dtype.itemsize for v in values if isinstance(v, Convert) and v.arg.dtype == bool}
    sizes = numbers | {v.dtype.itemsize for v in values if isinstance(v, Load)}
    return bool(numbers) and (len(sizes) > 1 or 1 in sizes)


def _in_place(spec: Specialized, kernel: Kernel) -> frozenset[tuple[int, int]]:
    """Pairs of output and input that may be one array.

    Every element must have been read for the last time when it is written: all reads go through
    the index of the write, and none follows it in the text, or where lanes end.  Blocks of what
    outgrows the caches may be made in place (`THROUGH`).
    """
    lines = [s for phase in kernel.phases for s in statements(phase.body)]
    for loop in [*lines]:
        if isinstance(loop, LaneLoop) and any(f.end_in_lanes for f in loop.folds):
            lines += statements([s for s in loop.body if bodies(s)])
    reads = [(k, v) for k, s in enumerate(lines) for v in walk(values_of(s)) if isinstance(v, Load)]
    found = set()
    first: dict[int, tuple[int, Write]] = {}
    for place, line in enumerate(lines):
        if isinstance(line, Write):
            first.setdefault(line.operand, (place, line))
    for out, (place, line) in first.items():
        for operand in range(len(spec.operands)):
            at = [(k, load) for k, load in reads if load.operand == operand]
            if all(k <= place and load.access == line.access for k, load in at):
                found.add((out, operand))
    return frozenset(found)
