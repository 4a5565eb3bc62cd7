"""Random programs: dear values that maps, folds and scans along one axis share, and several outputs.

Of floats, or of integers and what becomes of them where they meet floats.  Two inputs of one shape,
with rows of some lengths, in layouts that go one way and the other: what decides where values are
kept, in which order loops go, and where what waits for another loop waits.
A program is a function of NumPy, which is the oracle as it stands, on numbers of extended precision.
"""

from dataclasses import dataclass

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from .helpers import quiet

STEPS = (
    "{a} - np.mean({a}, axis={axis}, keepdims=True)",
    "{a} / np.sum(np.abs({a}) + 1, axis={axis}, keepdims=True)",
    "{a} * np.sum({a} * {b}, axis={axis}, keepdims=True) / 10",
    "{a} / np.sqrt(np.mean({a} * {a}, axis={axis}, keepdims=True) + 1)",
    "{a} - np.max({b}, axis={axis}, keepdims=True)",
    "{a} * np.max(np.abs({b}), axis={axis}, keepdims=True)",
    "{a} + np.sum({b}, axis={other}, keepdims=True) / 10",
    "{a} - np.mean({b})",
    "np.cumsum({a}, axis={axis}) / 10",
    "np.cumsum({a}, axis={other}) / 10",
    "np.exp({a} * 0.3)",
    "np.tanh({a})",
    "np.sin({a}) / (1 + {b} * {b})",
    "np.where({a} > {b}, {a}, {b} * 0.5)",
    "np.where(np.mean(x, axis={axis}, keepdims=True) > 0, {a}, np.cumsum({b}, axis={axis}) / 10)",
    "{a} * {b}",
    "{a} + {b}",
)
FOLDS = ("np.sum({a}, axis={axis})", "np.max({a} * {b}, axis={axis})", "np.sum({a}, axis={other})",
         "np.mean({a} * {b})")
MOST = 100  # the size of values
LAYOUTS = ("C", "F", "F", "sliced", "middle", "turned")

# What is exact of integers, and goes on without jumps where one operand is a float.
MIXED = (
    "{a} + {b}",
    "{a} * {b}",
    "{a} - np.max({b}, axis={axis}, keepdims=True)",
    "{a} + np.min({b}, axis={other}, keepdims=True)",
    "{a} + np.sum({b}, axis={axis}, keepdims=True)",
    "{a} + np.sum({a} * {b}, axis={other}, keepdims=True)",
    "np.where({a} > {b}, {a}, {b})",
    "np.maximum({a}, np.mean({b}, axis={axis}, keepdims=True))",
    "np.abs({a}) + 1",
    "np.cumsum({a}, axis={axis})",
    "np.maximum.accumulate({a}, axis={other})",
)
INTEGERS = (  # of inputs: no rounding comes before
    "x % 7 * {a}",
    "(c > 0) * {a}",
    "np.where(x > c, {a}, 0)",
    "np.argmax(x, axis={axis}, keepdims=True) + {a}",
    "np.any(c > 3, axis={axis}, keepdims=True) * {a}",
    "np.sum(x, axis={axis}, keepdims=True, dtype='int32') + {a}",
    "np.max(x, axis={axis}, keepdims=True, where=c > 0, initial=1) + {a}",
)
ROUNDED = (
    "np.exp(-np.abs({a}) / 64)",
    "np.sin({a} / 64)",
    "{a} / (np.sum(np.abs({b}), axis={axis}, keepdims=True) + 1)",
    "{a} - np.mean({b}, axis={axis}, keepdims=True)",
)
INTEGER_FOLDS = (*FOLDS, "np.std({a}, axis={axis})", "np.argmax(x, axis={other})",
                 "np.mean({a}, axis={axis}, where=c > 0)", "np.all(x > c, axis={axis})")
LARGEST = 10 ** 6  # of values of mixed programs, which are exact or rounded to a few digits of that
PAIRS = (*[(a, a) for a in ("int64", "int32", "int16", "int8", "uint8", "uint16")],
         ("int64", "float64"), ("float32", "int16"), ("int8", "float32"), ("uint8", "int16"),
         ("int32", "float32"), ("float64", "float32"), ("bool", "float32"), ("int64", "bool"))


@dataclass
class Program:
    text: str
    shapes: dict  # name of an input -> its shape
    dtypes: tuple  # of the inputs
    inputs: tuple  # layouts
    outs: tuple  # of the arrays for the results; none for new ones

    def code(self):
        return (f"import numpy as np\n\n{self.text}\n# {self.shapes}, {self.dtypes}, layouts "
                f"{self.inputs}{f' -> {self.outs}' * bool(self.outs)}")

    def function(self):
        """The program, for arrays of NumPy and of elemc."""
        env = {"np": np}
        exec(self.text, env)
        return env["program"]

    def tame(self, most):
        """Whether NumPy takes the program, and all values are of a size at which differences are of use."""
        env = dict(zip(self.shapes, self.arrays(), strict=True), np=np)
        lines = self.text.splitlines()[1:-1]
        try:
            quiet(exec, "\n".join(map(str.strip, lines)), env)
        except TypeError:  # booleans have no difference
            return False
        return all(np.abs(env[f"v{k}"]).max() < most for k in range(len(lines)))

    def arrays(self):
        rng = np.random.default_rng(len(self.text))
        mixed = len(set(self.dtypes)) > 1 or self.dtypes[0][0] != "f"
        return [lay(numbers(rng, shape, np.dtype(dtype), mixed), layout) for shape, dtype, layout
                in zip(self.shapes.values(), self.dtypes, self.inputs, strict=True)]


def numbers(rng, shape, dtype, mixed):
    if dtype.kind == "f":
        return (rng.normal(size=shape) * (3 if mixed else 1)).astype(dtype)
    return rng.integers(-9 if dtype.kind == "i" else 0, 2 if dtype.kind == "b" else 10,
                        shape).astype(dtype)


def lay(array, layout):
    """`array` as it lies in another order of axes, every second one in memory, or as one column."""
    if layout == "sliced" and array.ndim:
        return np.repeat(array, 2, axis=-1)[..., ::2]
    if layout == "stretched" and array.size:
        return np.broadcast_to(array[..., :1], array.shape)
    axes = [*range(array.ndim)]
    axes = {"F": axes[::-1], "middle": [*axes[1:2], *axes[:1], *axes[2:]],
            "turned": axes[-1:] + axes[:-1]}.get(layout, axes)
    return array.transpose(axes).copy().transpose(np.argsort(axes))


@st.composite
def programs(draw, mixed=False):
    def pick(options):
        return draw(st.sampled_from(options))

    ndim = pick([2, 2, 2, 3])
    axis = pick(range(ndim))
    places = {"axis": axis, "other": pick([k for k in range(ndim) if k != axis])}
    values, lines = ["x", "c"], []
    steps = STEPS
    for k in range(pick([3, 4, 5, 6])):
        if mixed:
            steps = MIXED + INTEGERS if k < 3 else MIXED + ROUNDED
        a = values[-pick([1, 1, 1, 2, 3, 4][:2 + len(values)])]
        lines.append(f"    v{k} = {pick(steps).format(a=a, b=pick(values), **places)}")
        values.append(f"v{k}")
    results = [values[-1], *draw(st.permutations(values[2:-1]))[:pick([0, 1, 2])]]
    if pick([False, True] if mixed else [False, False, True]):
        folds = INTEGER_FOLDS if mixed else FOLDS
        results.append(pick(folds).format(a=pick(values), b=pick(values), **places))
    text = "\n".join(["def program(x, c):", *lines, f"    return {', '.join(results)},"])
    short = [range(1, 9), range(9, 41)]
    sizes = [pick(pick(short if ndim == 3 and k != axis else [*short, range(41, 200)]))
             for k in range(ndim)]
    outs = tuple(pick(LAYOUTS) for _ in results) if pick([False, False, True]) else ()
    dtypes = pick(PAIRS if mixed else [(a, a) for a in ["float64"] * 4 + ["float32"]])
    program = Program(text, dict.fromkeys("xc", tuple(sizes)), dtypes,
                      (pick(LAYOUTS), pick(LAYOUTS)), outs)
    assume(program.tame(LARGEST if mixed else MOST))
    return program
