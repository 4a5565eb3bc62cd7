"""Random networks: layers of products of matrices, normalizations, attention, and what is between.

A batch of tables `h`, whose rows meet weights and each other; several of the values on the way are
results, too, so that their gradients meet.  As of `random_programs`, NumPy is the oracle.
"""

from hypothesis import assume
from hypothesis import strategies as st

from .random_programs import LAYOUTS, MOST, Program

WIDTHS = [1, 2, 3, 4, 8]


class Writer:
    """The lines of a network, and its weights."""

    def __init__(self, draw):
        self.draw = draw
        batch = self.pick([(), (), (2,), (3,), (2, 3), (1,), (33,)])
        self.rows, self.width = self.pick([5, 7, 9, 16, 17, 33, 64]), self.pick(WIDTHS)
        self.shapes = {"h": (*batch, self.rows, self.width)}
        self.lines, self.last = [], "h"

    def pick(self, options):
        return self.draw(st.sampled_from(options))

    def weight(self, *shape):
        name = f"w{len(self.shapes)}"
        self.shapes[name] = shape
        return name

    def line(self, text):
        name = f"v{len(self.lines)}"
        self.lines.append(f"    {name} = {text}")
        return name

    def folded(self, how, value, axis=-1):
        return self.line(f"np.{how}({value}, axis={axis}, keepdims=True)")

    def product(self, value, width):
        """The last value times a matrix; itself, where that may be, once in a while."""
        if width == self.width and self.pick([False, False, True]):
            return value
        return self.line(f"{value} @ {self.weight(self.width, width)}")

    # -- layers ------------------------------------------------------------------------------

    def softmax(self, value, axis=-1):
        e = self.line(f"np.exp({value} - {self.folded('max', value, axis)})")
        return self.line(f"{e} / {self.folded('sum', e, axis)}")

    def attention(self):
        width, inner = self.pick(WIDTHS), self.pick(WIDTHS)
        k, q, v = (self.product(self.last, w) for w in (inner, inner, width))
        s = self.line(f"{q} @ np.swapaxes({k}, -1, -2) * {inner ** -.5}")
        if masked := self.pick(["", "np.where({mask} > -0.5, {s}, -30.0)", "np.tanh({s} + {mask})"]):
            s = self.line(masked.format(s=s, mask=self.weight(self.rows, self.rows)))
        p = self.softmax(s) if self.pick([False, True]) else self.line(f"np.exp({s} * 0.1)")
        self.last, self.width = self.line(f"{p} @ {v}"), width

    def perceptron(self):
        inner = self.pick([1, 2, 8, 16, 33])
        u = self.line(f"{self.product(self.last, inner)} + {self.weight(inner)}")
        g = self.line(self.pick(["np.tanh({0})", "{0} / (1 + np.exp(-{0}))", "np.maximum({0}, 0)"])
                      .format(u))
        width, self.width = self.width, inner
        self.last, self.width = self.product(g, width), width

    def normalized(self):
        centred = self.line(f"{self.last} - {self.folded('mean', self.last)}")
        size = self.line(f"np.sqrt({self.folded('mean', f'{centred} * {centred}')} + 0.1)")
        gain, bias = self.weight(self.width), self.weight(self.width)
        self.last = self.line(f"{centred} / {size} * {gain} + {bias}")

    def of_columns(self):
        if self.pick([False, True]):
            self.last = self.softmax(self.last, -2)
        else:
            centred = self.line(f"{self.last} - {self.folded('mean', self.last, -2)}")
            self.last = self.line(f"{centred} / ({self.folded('std', self.last, -2)} + 0.1)")

    def gated(self):
        gate = self.line(f"{self.last} * {self.weight(self.width)}")
        self.last = self.line(f"{self.last} / (1 + np.exp(-{gate}))")

    def summed(self):
        self.last = self.line(f"np.cumsum({self.last}, axis={self.pick([-1, -2])}) * 0.1")

    def residual(self, before):
        self.last = self.line(f"{self.last} + {before}")


@st.composite
def networks(draw):
    """A `Program` of one to three layers, of which some values are results."""
    to = Writer(draw)
    for _ in range(to.pick([1, 2, 2, 3])):
        before, width = to.last, to.width
        to.pick([to.attention, to.attention, to.perceptron, to.normalized, to.of_columns, to.gated,
                 to.summed])()
        if to.width == width and to.pick([False, True]):
            to.residual(before)
    made = [line.split()[0] for line in to.lines[:-1]]
    results = draw(st.permutations([to.last, *draw(st.permutations(made))[:to.pick([0, 1, 2])]]))
    text = "\n".join([f"def program({', '.join(to.shapes)}):", *to.lines,
                      f"    return {', '.join(results)},"])
    dtype = to.pick(["float64", "float64", "float32"])
    layouts = tuple(to.pick(["C", *LAYOUTS, "stretched"]) for _ in to.shapes)
    network = Program(text, to.shapes, (dtype,) * len(layouts), layouts, ())
    assume(network.tame(MOST))
    return network
