"""Random expressions for gradients: smooth but for kinks that random numbers miss.

The lines of a case run on elemc's arrays, on NumPy's in extended precision, of which differences
are exact to many digits, and on PyTorch's.
"""

import numpy as np
from hypothesis import strategies as st

import elemc as ec
from elemc.array import apply
from elemc.ops import OPS

from .random_graphs import CONSTANTS, Case, Writer, align, make  # noqa: F401 - printed cases

REAL = ("add subtract multiply divide " * 3 + "negative absolute sqrt square exp log log1p expm1 "
        "sin cos tanh arctan arcsinh sinh cosh arcsin arccos arctanh reciprocal positive hypot "
        "arctan2 maximum minimum fmax fmin logaddexp logaddexp2 power xlogy sigmoid softplus silu "
        "relu log2 log10 exp2 tan copysign").split()
COMPLEX = ("add subtract multiply divide " * 2 + "negative square exp sin cos tanh reciprocal "
           "conjugate real imag absolute sqrt log positive angle").split()
COMPLEX_FOLDS = "sum mean prod var norm2".split()
FOLDS = "sum mean max min prod logsumexp var std norm ptp blend horner wild moments opening".split()
SCANS = "cumsum cumprod logcumsumexp cummax blend horner wild opening".split()
MOST = 1000  # elements of a value, and their size
FLOATS = {np.float32: np.longdouble, np.float64: np.longdouble, np.int64: np.longdouble,
          np.complex128: np.clongdouble}

# The user's own: order matters, the state is nonlinear, a state of two parts.
BLEND = ec.Accumulator("blend", identity=1.0, combine=lambda a, v: a * v / (1 + a * a) + v / 2)
HORNER = ec.Accumulator("horner", identity=0.0, combine=lambda a, v: 0.7 * a + v)
WILD = ec.Accumulator("wild", identity=0.5, combine=lambda a, v: (a - v) / (1 + a * a * v * v),
                      finish=lambda a: a * a)
MOMENTS = ec.Accumulator("moments", identity=(0.0, 0.5), finish=lambda p, q: p / (1 + q * q),
                         combine=lambda p, q, v: (p + v * q, q * 0.9 + v * v * 0.1))
OPENING = ec.Accumulator("opening", None, start=lambda v: 2 * v,
                         combine=lambda a, v: a * v / (2 + v * v) + v)
OWN = {a.name: a for a in (BLEND, HORNER, WILD, MOMENTS, OPENING)}
RUNNING = {"cumsum": np.cumsum, "cumprod": np.cumprod, "logcumsumexp": ec.logcumsumexp,
           "cummax": np.maximum.accumulate}


def fold(name, x, **options):
    return ec.accumulate(OWN.get(name, name), x, **options)


def scan(name, x, axis, **options):
    return ec.scan(OWN[name], x, axis, **options) if name in OWN else RUNNING[name](x, axis=axis)


class Numbers:
    """The functions of a case in NumPy, where longdouble has them all."""

    xp = np

    def box(self, array):
        array = np.array(array)
        return array.astype(FLOATS.get(array.dtype.newbyteorder("=").type, array.dtype))

    def constant(self, value):
        return np.longdouble(value)

    def take(self, x, key, axis):
        return np.take(x, np.arange(x.shape[axis])[key], axis)

    def permute(self, x, axes):
        return np.transpose(x, axes)

    def extremum(self, name, x):
        return getattr(np, name)(x, axis=-1, keepdims=True)

    def running(self, name, x):
        if name == "logcumsumexp":
            return np.logaddexp.accumulate(x, axis=-1)
        return RUNNING[name](x, axis=-1)

    def sigmoid(self, x):
        return 1 / (1 + np.exp(-x))

    def softplus(self, x):
        return np.logaddexp(x, 0)

    def silu(self, x):
        return x * self.sigmoid(x)

    def relu(self, x):
        return np.maximum(x, 0)

    def xlogy(self, x, y):
        return np.where(x == 0, 0, x * np.log(y))

    def op(self, name):
        return getattr(self, name, None) or getattr(np, name)


class Torch(Numbers):
    """The functions of a case in PyTorch."""

    def __init__(self, torch):
        self.xp = torch

    def box(self, array):
        if not isinstance(array, np.ndarray):
            return array
        wide = {"f": np.float64, "i": np.float64, "c": np.complex128, "b": np.bool_}[array.dtype.kind]
        return self.xp.from_numpy(np.array(array, dtype=wide))

    def leaf(self, array):
        """An input, whose gradient is asked for if it has one."""
        return self.box(array).requires_grad_(array.dtype.kind in "fc")

    def constant(self, value):
        return self.xp.tensor(value, dtype=self.xp.float64)

    def take(self, x, key, axis):
        return self.xp.index_select(x, axis, self.xp.from_numpy(np.arange(x.shape[axis])[key].copy()))

    def permute(self, x, axes):
        return x.permute(tuple(map(int, axes)))

    def extremum(self, name, x):
        return getattr(self.xp, f"a{name}")(x, -1, keepdim=True)

    def running(self, name, x):
        if name == "cummax":
            return self.xp.cummax(x, -1).values
        return getattr(self.xp, name)(x, -1)

    def softplus(self, x):
        return self.xp.logaddexp(x, self.xp.zeros_like(x))

    def where(self, condition, x, y):
        if x.is_complex() != y.is_complex():
            x, y = x + 0j, y + 0j
        return self.xp.where(condition, x, y)

    def op(self, name):
        own = {"power": "pow", "conjugate": "conj"}.get(name, name)
        return getattr(self, name) if name in ("softplus", "silu", "where") else getattr(self.xp, own)

    def sigmoid(self, x):
        return self.xp.sigmoid(x)


class Oracle:
    """What the lines of a case call, for arrays of one kind."""

    def __init__(self, order, numbers=None):
        self.order, self.numbers = order, numbers or Numbers()

    def words(self):
        return {"apply": self.apply, "fold": self.fold, "align": self.align, "scan": self.scan,
                "np": np}

    def box(self, array):
        return Plain(self.numbers.box(array), self)

    def apply(self, name, *args):
        args = [a if isinstance(a, Plain) else Plain(self.numbers.constant(a), self) for a in args]
        ndim = max(a.ndim for a in args)
        return Plain(self.numbers.op(name)(*(self.lifted(a, ndim) for a in args)), self)

    def lifted(self, x, ndim):
        lacking = (1,) * (ndim - x.ndim if x.ndim else 0)
        x_shape = tuple(x.value.shape)
        shape = lacking + x_shape if (x.align or self.order) == "f" else x_shape + lacking
        return x.value.reshape(shape)

    def align(self, x, order):
        return Plain(x.value, self, order)

    def fold(self, name, x, axis=None, keepdims=False, where=None, initial=None, **options):
        xp, n = self.numbers.xp, self.numbers
        axes = [a % x.ndim for a in (range(x.ndim) if axis is None else np.atleast_1d(axis))]
        kept = [a for a in range(x.ndim) if a not in axes]

        count = int(np.prod([x.shape[a] for a in axes]))

        def rows(a):
            return n.permute(a, (*kept, *axes)).reshape([*(x.shape[k] for k in kept), count])

        mask = None
        if where is not None:
            mask = rows(xp.broadcast_to(self.lifted(where, x.ndim), x.shape))
        value = self.fold_rows(name, rows(x.value), mask, initial, **options)
        if keepdims:
            value = value.reshape([1 if a in axes else s for a, s in enumerate(x.shape)])
        return Plain(value, self)

    def fold_rows(self, name, x, mask, initial, ddof=0, ord=2):  # noqa: A002
        """Fold the last axis."""
        xp, n = self.numbers.xp, self.numbers
        if name in OWN:
            return self.states(OWN[name], x, mask)[-1][..., 0]
        if name in ("max", "min"):
            return n.extremum(name, x)[..., 0]
        if name == "ptp":
            return (n.extremum("max", x) - n.extremum("min", x))[..., 0]
        if name == "logsumexp":
            if not x.shape[-1]:
                return x.sum(-1) - np.inf
            most = n.extremum("max", x)
            return (most + xp.log(xp.exp(x - most).sum(-1, keepdims=True)))[..., 0]
        if name in ("sum", "prod"):
            if mask is not None:
                x = xp.where(mask, x, x * 0 + (name == "prod"))
            value = getattr(x, name)(-1)
            return value if initial is None else value + initial if name == "sum" else value * initial
        if name in ("norm", "norm2"):
            return self.root((xp.abs(x) ** 2).sum(-1)) if ord == 2 else (
                xp.abs(x).sum(-1) if ord == 1 else (xp.abs(x) ** ord).sum(-1) ** (1 / ord))
        count = x.shape[-1] if mask is None else mask.sum(-1, keepdims=True)
        total = x if mask is None else xp.where(mask, x, x * 0)
        mean = total.sum(-1, keepdims=True) / count
        if name == "mean":
            return mean[..., 0]
        square = (xp.abs(x - mean) ** 2).sum(-1) / max(count - ddof, 0)
        return square if name == "var" else self.root(square)

    def root(self, x):
        xp = self.numbers.xp
        return xp.where(x > 0, xp.sqrt(xp.where(x > 0, x, x * 0 + 1)), x * 0)

    def states(self, acc, x, mask=None, reverse=False, exclusive=False):
        """What an accumulator gives after every element of the last axis, and at last."""
        several, state = isinstance(acc.identity, tuple), None
        zero = x.sum(-1, keepdims=True) * 0
        if acc.identity is not None:
            state = tuple(zero + i for i in (acc.identity if several else [acc.identity]))
        found, finish = [], acc.finish or (lambda a: a)
        places = range(x.shape[-1])
        for k in reversed(places) if reverse else places:
            element = x[..., k:k + 1]
            after = acc.start(element) if state is None else acc.combine(*state, element)
            after = after if several else (after,)
            if mask is not None:
                after = tuple(self.numbers.xp.where(mask[..., k:k + 1], a, s)
                              for a, s in zip(after, state, strict=True))
            found.append(finish(*(state if exclusive else after)))
            state = after
        return [*(found[::-1] if reverse else found), finish(*state)]

    def scan(self, name, x, axis, **options):
        last = [a for a in range(x.ndim) if a != axis % x.ndim] + [axis % x.ndim]
        moved = self.numbers.permute(x.value, last)
        if name in OWN:
            states = self.states(OWN[name], moved, **options)[:-1]
            value = self.numbers.xp.concatenate(states, -1) if states else moved * 1.0
        else:
            value = self.numbers.running(name, moved)
        return Plain(self.numbers.permute(value, tuple(np.argsort(last))), self)


class Plain:
    """An array of NumPy or PyTorch, with the verbs that a case uses."""

    def __init__(self, value, oracle, align=None):
        self.value, self.oracle, self.align = value, oracle, align

    shape = property(lambda self: tuple(self.value.shape))
    ndim = property(lambda self: self.value.ndim)
    dtype = property(lambda self: self.value.dtype)

    def moved(self, value):
        return Plain(value, self.oracle)

    def transpose(self, axes):
        return self.moved(self.oracle.numbers.permute(self.value, axes))

    def swapaxes(self, a, b):
        return self.moved(self.value.swapaxes(a, b))

    def __getitem__(self, key):
        value, axis = self.value, 0
        for part in key if isinstance(key, tuple) else (key,):
            if part is None:
                value = value.reshape((*value.shape[:axis], 1, *value.shape[axis:]))
            elif isinstance(part, int):
                value = self.oracle.numbers.take(value, slice(part, part + 1 or None), axis)
                value = value.reshape((*value.shape[:axis], *value.shape[axis + 1:]))
                continue
            elif part is not Ellipsis:
                value = self.oracle.numbers.take(value, part, axis)
            axis += 1
        return self.moved(value)


class GradientCase(Case):
    """A case whose inputs may be perturbed."""

    oracle = Oracle
    words = {"apply": apply, "fold": fold, "align": align, "scan": scan, "np": np}

    def cost(self, arrays, weights, oracle=None):
        """The sum of the outputs, weighted."""
        oracle = oracle or Oracle(self.order)
        total = 0
        for k, mode, w in zip(self.outputs, self.modes, weights, strict=True):
            out = self.output(k, mode, arrays, oracle).value
            if w is not None:
                product = (w if oracle.numbers.xp is np else oracle.numbers.box(w)) * out
                total = total + product.real.sum()
        return total


class GradientWriter(Writer):
    """Writes lines that have gradients."""

    case_of = GradientCase
    dtypes = ["float64"] * 12 + ["float32", "int64", "complex128", "complex128"]
    verbs = "elementwise elementwise elementwise move fold fold softmax scan where".split()
    folds = FOLDS

    def array(self, rank, dtype, base):
        layout = self.pick("C C C F sliced reversed unaligned swapped".split())
        return f"make({dtype!r}, {self.shape(rank, base)}, {layout!r}, {self.number(0, 999)}, span=2)"

    def sizes(self):
        base = [self.pick([2, 3, 4, 5, 1, 2, 3, 4, 2, 3, 0]) for _ in range(4)]
        if self.chance(4):  # longer than lanes, strips and rows of a strip
            base[self.number(0, 3)] = self.pick([7, 33, 70])
        return base

    def useful(self, value):
        number = np.abs(value.value)
        return (value.value.size <= MOST and value.ndim <= 5 and np.isfinite(number).all()
                and number.max(initial=0) < MOST)

    def is_complex(self, k):
        return self.env[f"v{k}"].dtype.kind == "c"

    def elementwise(self, name=None, operands=()):
        used = [*operands] or [self.value()]
        if any(map(self.is_complex, used)):
            name = name if name in COMPLEX else self.pick(COMPLEX)
        name = name or self.pick(REAL)
        texts = [f"v{k}" for k in used][:OPS[name].nin]
        while len(texts) < OPS[name].nin:
            texts.append(self.operand(texts, used))
        if name not in COMPLEX and any(map(self.is_complex, used)):
            return None
        if len(texts) > 1 and self.chance(3):
            texts.reverse()
        return self.line(f"apply({name!r}, {', '.join(texts)})", used, True)

    def operand(self, others, used):
        text = super().operand(others, used)
        if text in CONSTANTS:
            return self.pick(["2.0", "-1.5", "0.5", "3", "1", "np.float64(0.7)"])
        return text

    def where(self):
        reals = [k for k in self.values if not self.is_complex(k)]
        if not reals:
            return
        used = [self.pick(reals)]
        low, high = f"v{used[0]}", self.operand([], used)
        if any(map(self.is_complex, used)):
            return
        sides = [self.operand([], used), self.operand([], used)]
        kind = self.pick(["less", "greater_equal"])
        self.line(f"apply('where', apply({kind!r}, {low}, {high}), {sides[0]}, {sides[1]})", used, True)

    def fold(self, k=None, name=None, axis=None, keepdims=None):
        k = self.value() if k is None else k
        name = name or self.pick(COMPLEX_FOLDS if self.is_complex(k) else self.folds)
        ndim, used, more = self.env[f"v{k}"].ndim, [k], ""
        if axis is None:
            axis = self.axis(ndim)
        keepdims = self.chance(3) if keepdims is None else keepdims
        if name in ("var", "std"):
            more += self.pick(["", ", ddof=1"])
        if name == "norm":
            more += f", ord={self.pick(['2', '1', '3'])}"
        if name in ("sum", "prod") and self.chance(4):
            more += ", initial=1.5"
        masks = [v for v in self.values if not self.is_complex(v)]
        if name in ("sum", "prod", "mean", *sorted(OWN)) and masks and self.chance(4):
            used.append(self.pick(masks))
            more += f", where=apply('less', v{used[-1]}, 0.5)"
        return self.line(f"fold({name!r}, v{k}, axis={axis}, keepdims={keepdims}{more})", used, False)

    def scan(self):
        k = self.value()
        ndim = self.env[f"v{k}"].ndim
        if not ndim:
            return
        name, more = self.pick(["cumsum", "cumprod"] if self.is_complex(k) else SCANS), ""
        if name in OWN:
            more = f", reverse={self.chance(3)}"
            more += f", exclusive={self.chance(3) and OWN[name].identity is not None}"
        self.line(f"scan({name!r}, v{k}, {self.number(-ndim, ndim - 1)}{more})", [k], False)

    def softmax(self):
        k = self.value()
        axis = self.axis(self.env[f"v{k}"].ndim)
        total = self.fold(k, self.pick("max sum logsumexp mean".split()) if not self.is_complex(k)
                          else "mean", axis, True)
        if total is not None:
            k = self.elementwise(self.pick(["subtract", "divide", "multiply"]), [k, total]) or k
            self.elementwise(self.pick(["exp", "square", "tanh"]), [k])


@st.composite
def cases(draw):
    return GradientWriter(draw).write()


def slope(fn, step):
    """The derivative of `fn` at 0 by differences of fourth order, and how much to trust it."""
    with np.errstate(all="ignore"):
        values = {k: fn(np.longdouble(k * step)) for k in (-2, -1, 0, 1, 2)}
    value = (8 * (values[1] - values[-1]) - values[2] + values[-2]) / (12 * step)
    sides = [(-3 * values[0] + 4 * values[s] - values[2 * s]) / (2 * s * step) for s in (1, -1)]
    return value, max(abs(side - value) for side in sides)
