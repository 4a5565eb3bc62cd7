"""Random expressions: a hypothesis strategy of programs.

A case is a list of lines of Python.  Run on symbolic arrays they build an elemc function; run on
`Bounded` arrays they are the oracle.  Every line is run on the arrays of the first call when it is
drawn, so that only what NumPy accepts, and can vouch for, is written.
"""

import contextlib
from dataclasses import dataclass, field

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import elemc as ec
from elemc.accumulators import ACCUMULATORS
from elemc.array import apply
from elemc.ops import OPS

from .helpers import layouts, quiet, sample, specials
from .random_oracle import Oracle

fold, align = ec.accumulate, ec.align

DTYPES = ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 complex64 complex128 "
          + "float32 float64 " * 5).split()


@dataclass
class Line:
    """`v3 = ...`, with the values it depends on."""

    text: str
    needs: frozenset
    elementwise: bool


@dataclass
class Leaf:
    """An input, or an array captured in the expression."""

    rank: int
    dtype: str
    captured: np.ndarray | None = None
    text: str = ""


@dataclass
class Case:
    order: str
    leaves: list
    lines: dict = field(default_factory=dict)  # number of the value -> Line
    outputs: list = field(default_factory=list)
    modes: list = field(default_factory=list)
    calls: list = field(default_factory=list)  # each a list of texts that make arrays

    oracle = Oracle
    words = {"apply": apply, "fold": fold, "align": align, "np": np}

    def code(self):
        """The case as a program."""
        texts = [f"from {type(self).__module__} import *"]
        for k, leaf in enumerate(self.leaves):
            made = f"ec.constant({leaf.text})" if leaf.text else f"ec.array('v{k}', {leaf.rank}, '{leaf.dtype}')"
            texts.append(f"v{k} = {made}")
        texts += [self.lines[k].text for k in sorted(self.needed(self.outputs)) if k in self.lines]
        texts.append(f"f = ec.function([{', '.join(self.names())}], [{', '.join(f'v{k}' for k in self.outputs)}], "
                     f"mode={self.modes}, order={self.order!r})")
        return "\n".join(texts + [f"print(f({', '.join(call)}))" for call in self.calls])

    def names(self):
        return [f"v{k}" for k, leaf in enumerate(self.leaves) if not leaf.text]

    def needed(self, outputs):
        return frozenset().union(*(self.lines[k].needs if k in self.lines else {k} for k in outputs))

    def function(self, name):
        """The case as an elemc function."""
        env = dict(self.words)
        for k, leaf in enumerate(self.leaves):
            env[f"v{k}"] = (ec.constant(leaf.captured) if leaf.text
                            else ec.array(f"v{k}", leaf.rank, leaf.dtype))
        for k in sorted(self.needed(self.outputs)):
            if k in self.lines:
                exec(self.lines[k].text, env)
        return ec.function([env[n] for n in self.names()], [env[f"v{k}"] for k in self.outputs],
                           mode=self.modes, order=self.order, name=name)

    def arrays(self, call):
        return [eval(text, {"make": make}) for text in call]

    def expected(self, arrays):
        """The outputs as `Bounded` arrays."""
        return [quiet(self.output, k, mode, arrays)
                for k, mode in zip(self.outputs, self.modes, strict=True)]

    def output(self, output, mode, arrays, oracle=None):
        oracle, given = oracle or self.oracle(self.order), iter(arrays)
        env = oracle.words()
        needed = self.needed([output])
        for k, leaf in enumerate(self.leaves):
            env[f"v{k}"] = oracle.box(leaf.captured if leaf.text else next(given))
        if mode != "broadcast":
            ends = [k for k in needed if k < len(self.leaves)]
            rank = min(self.leaves[k].rank for k in ends)
            for k in ends:
                over = self.leaves[k].rank - rank
                axes = tuple(range(over) if self.order == "f" else range(rank, rank + over))
                if axes:
                    env[f"v{k}"] = oracle.fold(mode[1], env[f"v{k}"], axes)
        for k in sorted(needed - set(range(len(self.leaves)))):
            exec(self.lines[k].text, env)
        return env[f"v{output}"]


def make(dtype, shape, layout, seed, special=False, span=4):
    """The array of a seed."""
    array = sample(dtype, shape, seed, (-span, span))
    rng = np.random.default_rng(seed)
    if special and array.dtype.kind != "c":
        array = np.where(rng.random(shape) < 0.2, rng.choice(specials(dtype), shape), array)
    if layout == "stride 0" and array.ndim:
        return np.broadcast_to(array[:1], shape)
    return dict(layouts(array)).get(layout, np.asarray(array))


COMMON = ("add subtract multiply divide minimum maximum where less greater_equal equal negative "
          "absolute sqrt square exp floor floor_divide remainder bitwise_and bitwise_or "
          "left_shift logical_and tanh").split()
INTEGER = ("add subtract multiply floor_divide remainder minimum maximum where less equal bitwise_and "
           "bitwise_or bitwise_xor invert left_shift right_shift gcd lcm negative absolute").split()
NAMES = COMMON * 2 + sorted(OPS)
FOLDS = "sum max mean prod argmax min any var".split() * 2 + sorted(ACCUMULATORS)
CONSTANTS = ("2 -1 0 1 3 0.5 -1.5 2.0 100 1j np.float32(0.5) np.int8(3) np.float64(2.5) np.uint8(7) "
             "np.int64(-5) np.True_ np.complex64(1+2j)").split()
SIZES = [2, 3, 4, 5, 1, *[2, 3, 4, 5] * 3, 0]
LAYOUTS = "C C C F sliced reversed unaligned swapped read-only stride-0".split()
VERBS = "elementwise elementwise elementwise cast move move fold fold softmax".split()
REJECTED = (TypeError, ValueError, OverflowError, IndexError, ec.ElemcError)
MOST = 20_000  # elements of a value


def joins(shapes, order):
    """Whether these shapes align."""
    if order == "c":
        shapes = [shape[::-1] for shape in shapes]
    try:
        return bool(np.broadcast_shapes(*shapes)) or True
    except ValueError:
        return False


class Writer:
    """Draws the lines of one case; what NumPy rejects, or nothing is known of, is not written."""

    case_of, dtypes, verbs, folds = Case, DTYPES, VERBS, FOLDS

    def __init__(self, draw):
        self.draw = draw
        self.case = self.case_of(self.pick("ffc"), [])
        self.leaves()
        self.case.calls.append(self.call())
        oracle = self.case.oracle(self.case.order)
        self.env = oracle.words()
        arrays = iter(self.case.arrays(self.case.calls[0]))
        for k, leaf in enumerate(self.case.leaves):
            self.env[f"v{k}"] = oracle.box(leaf.captured if leaf.text else next(arrays))
        self.values = list(range(len(self.case.leaves)))

    def pick(self, options):
        return self.draw(st.sampled_from(options))

    def number(self, low, high):
        return self.draw(st.integers(low, high))

    def chance(self, n):
        return self.number(1, n) == n

    # -- leaves and calls

    def sizes(self):
        if self.chance(25):  # longer than a block
            return self.draw(st.permutations([1, 1, 2, 4100]))
        base = [self.pick(SIZES) for _ in range(4)]
        if self.chance(3):  # longer than lanes, strips and rows of a strip
            base[self.number(0, 3)] = self.pick([7, 33, 70, 130])
        return base

    def shape(self, rank, base):
        dims = base[4 - rank:] if self.case.order == "f" else base[:rank]
        return tuple(1 if self.chance(8) else n for n in dims)

    def array(self, rank, dtype, base):
        return (f"make({dtype!r}, {self.shape(rank, base)}, {self.pick(LAYOUTS)!r}, "
                f"{self.number(0, 999)}, {self.chance(5)})")

    def leaves(self):
        self.base = self.sizes()
        for k in range(self.number(1, 4)):
            leaf = Leaf(self.pick([2, 1, 3, 2, 1, 0, 4]), self.pick(self.dtypes))
            if k and self.chance(6):
                leaf.text = self.array(min(leaf.rank, 2), leaf.dtype, self.base)
                leaf.captured = eval(leaf.text)
                leaf.rank = leaf.captured.ndim
            self.case.leaves.append(leaf)

    def call(self, base=None):
        return [self.array(leaf.rank, leaf.dtype, base or self.base)
                for leaf in self.case.leaves if not leaf.text]

    # -- lines

    def line(self, text, operands, elementwise):
        """Add a line, if its value is of use; the number of the value."""
        k = self.values[-1] + 1
        try:
            quiet(exec, f"v{k} = {text}", self.env)
        except REJECTED:
            return None
        if not self.useful(self.env[f"v{k}"]):
            return None
        lines = [self.case.lines[o] for o in operands if o in self.case.lines]
        needs = frozenset({k, *operands}).union(*(line.needs for line in lines))
        self.case.lines[k] = Line(f"v{k} = {text}", needs,
                                  elementwise and all(line.elementwise for line in lines))
        self.values.append(k)
        return k

    def useful(self, value):
        lost = value.bound.size and np.isinf(value.bound).mean() > 0.5
        return not lost and value.value.size <= MOST and value.ndim <= 5

    def value(self):
        """One of the values, oftener one of the latest."""
        return self.values[-self.number(1, min(len(self.values), self.pick([1, 2, 99])))]

    def operand(self, others, used):
        shapes = [self.env[f"v{k}"].shape for k in used]
        fits = [k for k in self.values if joins([self.env[f"v{k}"].shape, *shapes], self.case.order)]
        if self.chance(5) or not fits:
            return self.pick(CONSTANTS)
        k = self.pick(fits)
        used.append(k)
        if self.env[f"v{k}"].ndim and others and self.chance(12):
            return f"align(v{k}, {self.pick('cf')!r})"
        return f"v{k}"

    def elementwise(self, name=None, operands=()):
        used = [*operands] or [self.value()]
        name = name or self.pick(INTEGER + NAMES if self.env[f"v{used[0]}"].dtype.kind in "biu" else NAMES)
        texts = [f"v{k}" for k in used]
        while len(texts) < OPS[name].nin:
            texts.append(self.operand(texts, used))
        if len(texts) > 1 and self.chance(3):
            texts.reverse()
        if name in ("power", "float_power") and self.env[f"v{used[0]}"].dtype.kind not in "fc":
            return None  # an error for negative exponents, which not every evaluation meets
        return self.line(f"apply({name!r}, {', '.join(texts)})", used, True)

    def cast(self):
        k = self.value()
        if self.chance(4):
            return self.line(f"v{k}.clip({self.pick(['-1', '0', '-0.5'])}, {self.pick(['1', '2.5', '3'])})", [k], True)
        return self.line(f"v{k}.astype({self.pick(DTYPES)!r})", [k], True)

    def move(self):
        k = self.value()
        ndim = self.env[f"v{k}"].ndim
        verb = self.pick(["slice", "new", "transpose", "swapaxes", "flip"])
        if verb == "transpose":
            return self.line(f"v{k}.transpose({tuple(self.draw(st.permutations(range(ndim))))})", [k], False)
        if verb == "swapaxes" and ndim:
            return self.line(f"v{k}.swapaxes({self.number(-ndim, ndim - 1)}, {self.number(0, ndim - 1)})", [k], False)
        if verb == "flip":
            return self.line(f"v{k}[{', '.join(self.pick(['::-1', ':']) for _ in range(ndim)) or '...'}]", [k], False)
        keys = [self.pick([":", ":", "1:", "::-1", "::2", ":-1", "-2::-2", "0", "-1"] if verb == "slice" else [":"])
                for _ in range(ndim)]
        if verb == "new" or self.chance(3):
            keys.insert(self.number(0, ndim), "None")
        return self.line(f"v{k}[{', '.join(keys) or '...'}]", [k], False)

    def fold(self, k=None, name=None, axis=None, keepdims=None):
        k, name = self.value() if k is None else k, name or self.pick(self.folds)
        ndim = self.env[f"v{k}"].ndim
        if axis is None:
            axis = self.axis(ndim)
        keepdims = self.chance(3) if keepdims is None else keepdims
        used, more = [k], ""
        if name in ("var", "std", "nanvar", "nanstd"):
            more += self.pick(["", ", ddof=1"])
        if name == "norm":
            more += f", ord={self.pick(['2', '1', 'np.inf', '-np.inf', '0', '3'])}"
        if name in ("sum", "prod", "mean", "nansum") and self.chance(5):
            more += f", dtype={self.pick(['float64', 'float32', 'int64'])!r}"
        if name in ("sum", "prod", "max", "min", "fmax") and self.chance(5):
            more += f", initial={self.pick(['2', '0', '1'])}"
        masks = [v for v in self.values if self.env[f"v{v}"].dtype.kind == "b"]
        if name in ("sum", "prod", "any", "all", "mean", "var", "norm1", "nanmean") and masks and self.chance(3):
            used.append(self.pick(masks))
            more += f", where=v{used[-1]}"
        return self.line(f"fold({name!r}, v{k}, axis={axis}, keepdims={keepdims}{more})", used, False)

    def axis(self, ndim):
        if not ndim or self.chance(4):
            return "None"
        if self.chance(3):
            return tuple(self.draw(st.sets(st.integers(0, ndim - 1), min_size=1)))
        return self.number(-ndim, ndim - 1)

    def softmax(self):
        """Two accumulations over the same axes, with elementwise work between and behind."""
        k = self.value()
        axis = self.axis(self.env[f"v{k}"].ndim)
        for _ in range(2):
            total = self.fold(k, None, axis, True)
            if total is None:
                return
            k = self.elementwise(self.pick(["subtract", "divide", "multiply", "less", "maximum"]), [k, total]) or k
            k = self.elementwise(self.pick(["exp", "square", "negative", "tanh"]), [k]) or k

    # -- the whole

    def write(self):
        case, wanted = self.case, self.number(3, 9)
        for _ in range(3 * wanted):
            if len(case.lines) < wanted:
                getattr(self, self.pick(self.verbs))()
        last = [self.values[-1], *self.values[len(case.leaves):-1]]
        case.outputs = [last[self.number(0, min(k, len(last) - 1))] for k in range(self.number(1, 3))]
        case.modes = ["broadcast"] * len(case.outputs)
        arrays = case.arrays(case.calls[0])
        for place, k in enumerate(case.outputs):
            if (k not in case.lines or case.lines[k].elementwise) and self.chance(2):
                mode = ("accumulate", self.pick([name for name in self.folds if name in ACCUMULATORS]))
                try:
                    quiet(case.output, k, mode, arrays)
                    case.modes[place] = mode
                except REJECTED:
                    pass
        if self.chance(3):  # other sizes, or only other layouts
            case.calls.append(self.call(self.sizes() if self.chance(2) else None))
        return case


@st.composite
def cases(draw):
    return Writer(draw).write()


class Enough(Exception):
    """Of the cases of a seed."""


def show(look, strategy, number, count, phases=(Phase.generate,)):
    """Let `look` see cases of a seed, `count` or more; the same ones every time."""
    config = settings(max_examples=2 * count, database=None, deadline=None, phases=phases,
                      suppress_health_check=list(HealthCheck), report_multiple_bugs=False)
    with contextlib.suppress(Enough):
        seed(number)(config(given(strategy)(look)))()


def drawn(strategy, number, count):
    """So many different cases of a seed."""
    found = {}

    def look(case):
        found.setdefault(case.code(), case)
        if len(found) >= count:
            raise Enough

    show(look, strategy, number, count)
    assert len(found) >= count
    return list(found.values())[:count]
