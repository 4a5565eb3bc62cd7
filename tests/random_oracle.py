"""What NumPy says of an expression: a value, and how far from it other evaluations may be.

The bound is carried from node to node.  An operation is evaluated at the corners of the box of
values that its operands may have, in their own dtype; to the largest deviation comes the
operation's own error, which is none for arithmetic, comparisons, casts and square roots.
"""

import itertools

import numpy as np

from elemc.accumulators import ACCUMULATORS, Accumulator
from elemc.ops import OPS, UFUNCS

from .test_ops import EXACT, EXACT_REAL, NORM_WISE

# Over a box of arguments these are extreme at its corners, or (sin, gelu) nearly so if it is small.
AT_CORNERS = set(
    "add subtract multiply divide negative positive absolute fabs sign square sqrt cbrt exp exp2 "
    "expm1 log log2 log10 log1p sin cos arcsin arccos arctan arctan2 sinh cosh tanh arcsinh "
    "arccosh arctanh hypot deg2rad rad2deg floor ceil trunc rint round copysign signbit maximum "
    "minimum fmax fmin logaddexp logaddexp2 equal not_equal less less_equal greater greater_equal "
    "logical_and logical_or logical_xor logical_not isnan isinf isfinite where real imag conjugate "
    "reciprocal erf erfc erfinv sigmoid logit softplus relu gelu silu astype".split())
AT_ZERO = {"divide": 1, "reciprocal": 0, "logical_and": None, "logical_or": None,
           "logical_xor": None, "logical_not": 0}  # where a box around 0 has no bound
# elemc's 4 units in the last place, NumPy's 4 at the value, and NumPy's 4 at a corner
ULPS = 12
COMPLEX_ULPS = 16
PLAIN_ULPS = 64  # of 1 or more: what Python's own special functions are good for in double
EXTREMA = set("maximum minimum fmax fmin".split())
TINY = 5e-324  # "zero, but of either sign"


class Bounded(np.lib.mixins.NDArrayOperatorsMixin):
    """A NumPy value, and for each element a bound on the distance of any correct evaluation.

    Bound 0 means the same bits; infinity that nothing is known, as behind a comparison of values
    that rounding may exchange.
    """

    def __init__(self, value, bound=0.0, align=None):
        self.value = np.asarray(value)
        bound = np.broadcast_to(np.asarray(bound, np.float64), self.value.shape)
        finite = np.isfinite(self.value)
        bound = np.where(np.isnan(bound) | (~finite & (bound > 0)), np.inf, bound)
        if self.value.dtype.kind in "biu":
            bound = np.where(bound > 0, np.inf, 0.0)
        self.bound, self.align = bound, align

    dtype = property(lambda self: self.value.dtype)
    shape = property(lambda self: self.value.shape)
    ndim = property(lambda self: self.value.ndim)

    def __array_ufunc__(self, ufunc, method, *args, **kwargs):
        return Oracle("f").apply(UFUNCS[ufunc].name, *args)

    def __array_function__(self, fn, types, args, kwargs):
        return Oracle("f").apply(fn.__name__, *args)

    def moved(self, move):
        return Bounded(move(self.value), move(self.bound))

    def __getitem__(self, key):
        return self.moved(lambda a: a[key])

    def transpose(self, axes):
        return self.moved(lambda a: a.transpose(axes))

    def swapaxes(self, a, b):
        return self.moved(lambda x: x.swapaxes(a, b))

    def astype(self, dtype):
        return spread("astype", lambda x: x.astype(dtype), [self])

    def clip(self, low, high):
        return np.minimum(np.maximum(self, low), high)


def spread(name, fn, args):
    """`fn` of boxes around values: the value, and the largest deviation within the boxes."""
    boxes = [a if isinstance(a, Bounded) else Bounded(a) for a in args]
    raw = [a.value if isinstance(a, Bounded) else a for a in args]
    value = np.asarray(fn(*raw))
    loose = [np.broadcast_to(b.bound, value.shape) for b in boxes]
    if "c" in (value.dtype.kind, *(b.dtype.kind for b in boxes)):
        return Bounded(value, complex_bound(name, value, boxes, sum(loose)))
    bound = np.zeros(value.shape)
    size = np.abs(value.astype(np.float64))
    if any(b.any() for b in loose):
        choices = [[r] if not b.bound.any() else ends(b) for r, b in zip(raw, boxes, strict=True)]
        for corner in itertools.product(*choices) if name in AT_CORNERS else ():
            other = np.asarray(fn(*corner)).astype(np.float64)
            away = np.where(same(other, value), 0.0, np.abs(other - value.astype(np.float64)))
            bound = np.fmax(bound, np.where(np.isnan(away), np.inf, away))
            size = np.fmax(size, np.abs(other))
        unknown = sum(loose) > (0.1 if name in ("sin", "cos") else np.inf if name in AT_CORNERS else 0)
        unknown |= np.isinf(sum(loose))
        if name in AT_ZERO:
            places = range(len(boxes)) if AT_ZERO[name] is None else [AT_ZERO[name]]
            unknown |= sum(around_zero(boxes[k].value, boxes[k].bound) for k in places) > 0
        if name == "astype" and value.dtype.kind == "b":
            unknown |= around_zero(boxes[0].value, boxes[0].bound)
        if name in ("equal", "not_equal"):
            unknown |= around_zero(boxes[0].value.astype(float) - boxes[1].value, sum(loose))
        bound = np.where(unknown, np.inf, bound * (1 if name in EXACT_REAL else 2))
    if value.dtype.kind == "f" and name not in EXACT_REAL | {"astype"}:
        ulps = ULPS
        if name.startswith("logaddexp"):  # the sum may cancel
            size = np.fmax(size, np.fmax(*(np.abs(b.value) for b in boxes)))
        elif value.dtype == np.float64 and not isinstance(OPS[name].numpy, np.ufunc):
            ulps, size = PLAIN_ULPS, np.fmax(size, 1)
        unit = np.spacing(np.where(np.isfinite(size), size, 1).astype(value.dtype))
        bound = bound + np.where(np.isfinite(value), ulps * unit.astype(np.float64), 0)
    if name in EXTREMA:
        bound = np.where((value == 0) & (boxes[0].value == boxes[1].value), np.fmax(bound, TINY), bound)
    if name in ("signbit", "copysign"):  # of a NaN
        bound = np.where(np.isnan(boxes[-1].value), np.inf, bound)
    if name == "astype" and boxes[0].dtype.kind == "f" and value.dtype.kind in "iu":
        x = boxes[0].value
        if value.dtype == np.uint32:  # beyond the range NumPy's vector code and its tail disagree
            bound = np.where((x > -(2.0**31)) & (x < 2.0**32), bound, np.inf)
    return Bounded(value, bound)


def same(a, b):
    return (a == b) | (np.isnan(a) & np.isnan(b))


def around_zero(value, bound):
    return (np.abs(value) <= bound) & (bound > 0)


def ends(box):
    """The least and the greatest value of each element, rounded outwards."""
    wide = box.value.astype(np.float64)
    bound = np.where(np.isfinite(box.bound), box.bound, 0)
    for sign in (-1, 1):
        end = (wide + sign * bound).astype(box.dtype)
        if box.dtype.kind == "f":
            end = np.where(bound > 0, np.nextafter(end, box.dtype.type(sign * np.inf)), end)
        yield end.astype(box.dtype)


def complex_bound(name, value, boxes, loose):
    """Bounds on the modulus; what is infinite or NaN follows C's Annex G, and no bound."""
    size = np.abs(value).astype(np.float64)
    unit = np.finfo(value.dtype if value.dtype.kind in "fc" else np.float64).eps
    if name == "multiply":
        (a, da), (b, db) = ((np.abs(x.value), x.bound) for x in boxes)
        bound = a * db + b * da + da * db
    elif name in "add subtract negative positive conjugate real imag absolute where astype".split():
        bound = loose + np.where(loose > 0, 2 * unit * (size + loose), 0)
    else:
        bound = np.where(loose > 0, np.inf, 0)
    if name not in EXACT - NORM_WISE | {"astype"}:
        bound = bound + COMPLEX_ULPS * unit * size
    for box in boxes:
        bound = np.where(np.isfinite(box.value), bound, np.inf)
    return np.where(np.isfinite(value), bound, np.inf)


class Oracle:
    """What the lines of a case call, for `Bounded` arrays."""

    def __init__(self, order):
        self.order = order

    def words(self):
        """What the lines of a case call."""
        return {"apply": self.apply, "fold": self.fold, "align": self.align, "np": np}

    def box(self, array):
        order = np.ascontiguousarray(array).reshape(array.shape)
        return Bounded(order.astype(array.dtype.newbyteorder("=")))

    def apply(self, name, *args):
        op = OPS[name]
        ndim = max(getattr(a, "ndim", 0) for a in args)
        args = [self.lifted(a, ndim) if isinstance(a, Bounded) else a for a in args]
        if name == "round" and args[0].dtype == bool:
            raise TypeError("NumPy rounds bools to float16; elemc has no such loop")
        if name == "where" and -1 in [a for a in args[1:] if type(a) is int]:
            raise TypeError("np.where wraps numbers that do not fit; elemc refuses them")
        if not isinstance(op.like, np.ufunc):
            return spread(name, op.numpy, args)
        kinds = [a.dtype if isinstance(a, (Bounded, np.generic)) else type(a) for a in args]
        loop, out = op.resolve(kinds)
        wide = np.float64 if out.kind == "f" else out

        def fn(*values):  # NumPy has no such function: computed in double, exact enough for float
            return op.numpy(*(np.asarray(v).astype(t).astype(wide)
                              for v, t in zip(values, loop, strict=True))).astype(out)
        return spread(name, fn, args)

    def lifted(self, x, ndim):
        lacking = (1,) * (ndim - x.ndim if x.ndim else 0)
        shape = lacking + x.shape if (x.align or self.order) == "f" else x.shape + lacking
        return x.moved(lambda a: a.reshape(shape))

    def align(self, x, order):
        return Bounded(x.value, x.bound, order)

    def fold(self, name, x, axis=None, keepdims=False, where=None, initial=None, **options):
        axes = [a % x.ndim for a in (range(x.ndim) if axis is None else np.atleast_1d(axis))]
        kept = [a for a in range(x.ndim) if a not in axes]
        count = int(np.prod([x.shape[a] for a in axes]))

        def rows(a):
            shape = [x.shape[k] for k in kept]
            return a.transpose(*kept, *axes).reshape(*shape, count)

        if where is not None:
            where = self.lifted(where, x.ndim).moved(lambda a: rows(np.broadcast_to(a, x.shape)))
        result = fold_rows(name, x.moved(rows), where, initial, options)
        result = result.moved(lambda a: a[..., 0])
        if not keepdims:
            return result
        shape = [1 if a in axes else n for a, n in enumerate(x.shape)]
        return result.moved(lambda a: a.reshape(shape))


class RowFold:
    """What a composite accumulator of elemc calls `fold`, along the last axis."""

    def __init__(self, where):
        self.where = where

    def __call__(self, x, name, initial=None, **options):
        return fold_rows(name, x, self.where, initial, options)

    def count(self, x):
        if self.where is None:
            return Bounded(np.int64(x.shape[-1]))
        return fold_rows("sum", self.where.astype(np.int64), None, None, {})

    def place(self, index, missing):
        if missing.value.any():
            raise ValueError("All-NaN slice encountered")
        return index

    def constant(self, x):
        return x

    def below(self, x, top):
        zero = Bounded(np.zeros((), x.dtype))
        return Oracle("f").apply("where", x == top, zero, x - top)

    def root(self, x):
        return Oracle("f").apply("sqrt", x)

    def masked(self, mask):
        return RowFold(mask if self.where is None else self.where & mask)


OWN = {name: getattr(np, name) for name in
       "mean var std ptp nansum nanprod nanmax nanmin nanmean nanvar nanstd".split()}
NEUTRAL = {"sum": 0, "prod": 1, "any": False, "all": True}


def fold_rows(name, x, where, initial, options):
    """Fold the last axis, which is kept with size 1."""
    acc = ACCUMULATORS[name]
    if 0 in x.shape[:-1] and x.shape[-1]:
        x = Bounded(np.zeros((*x.shape[:-1], 1), x.dtype))
        where = None
    if not isinstance(acc, Accumulator):
        result = acc.expand(x, RowFold(where), **options)
        # NumPy's are computed in float16 throughout
        if name in OWN and where is None and x.shape[-1] and not initial and x.dtype != np.float16:
            value = OWN[name](x.value, axis=-1, keepdims=True, **options)
            result = Bounded(value, 2 * result.bound)
        return result
    dtype = np.dtype(options.get("dtype") or acc.value_dtype(x.dtype))
    x = x.astype(dtype)
    if where is not None:
        x = Oracle("f").apply("where", where, x, Bounded(np.zeros((), dtype) + dtype.type(NEUTRAL[name])))
    if initial is not None:
        first = np.broadcast_to(np.asarray(initial).astype(dtype), (*x.shape[:-1], 1))
        x = Bounded(np.concatenate([first, x.value], -1),
                    np.concatenate([np.zeros(first.shape), x.bound], -1))
    v, b = x.value, x.bound
    if name.startswith("arg"):
        value = getattr(np, name)(v, axis=-1, keepdims=True)
    else:
        value = acc.reduce(v, axis=-1, keepdims=True, dtype=None if name in ("any", "all") else dtype)
    if name in ("sum", "prod") and dtype.kind in "fc":
        return Bounded(value, rounding(name, dtype, value, v, b))
    if name in ("any", "all"):
        b = np.where(around_zero(v, b), np.inf, 0)
    bound = b.max(-1, keepdims=True, initial=0)
    if name in ("max", "min", "fmax", "fmin"):
        bound = np.where(np.isinf(bound) | (value != 0), bound, np.fmax(bound, TINY))
        if dtype.kind == "c":
            bound = np.where(bound > 0, np.inf, 0)
    elif name not in ("any", "all") or dtype.kind == "c":
        bound = np.where(bound > 0, np.inf, 0)
    return Bounded(value, bound)


def rounding(name, dtype, value, v, b):
    """The bound of a sum or product in any order of evaluation."""
    info, count = np.finfo(dtype), max(v.shape[-1] - 1, 0)
    finite = np.isfinite(v)
    size = np.where(finite, np.abs(v), 0 if name == "sum" else 1).astype(np.longdouble)
    if name == "sum":
        total = (size + b).sum(-1, keepdims=True)
        bound = b.sum(-1, keepdims=True) + 1.01 * count * info.eps * total
        bound = np.where((value == 0) & (v.shape[-1] > 0), np.fmax(bound, TINY), bound)
    else:
        total = (size + b).prod(-1, keepdims=True)
        bound = total - size.prod(-1, keepdims=True) + 2.02 * count * info.eps * total
        least = np.where(size > 0, np.fmin(size, 1), 1).prod(-1, keepdims=True)
        bound = np.where(least < info.tiny, np.inf, bound)  # products may vanish on the way
        total = np.fmax(size + b, 1).prod(-1, keepdims=True)
    if dtype.kind == "c":
        total, bound = np.where(finite.all(-1, keepdims=True), total, np.inf), 4 * bound
    return np.where(total * (1 + 100 * info.eps) < info.max, bound, np.inf).astype(np.float64)
