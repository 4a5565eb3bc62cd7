"""Every row of the table of scalar operations, for every dtype, against NumPy."""

import numpy as np
import pytest

import elemc as ec
from elemc.array import apply
from elemc.errors import DomainError, DtypeError
from elemc.ops import OPS

from .helpers import (
    DTYPES,
    assert_same_bits,
    compile_together,
    quiet,
    sample,
    specials,
    ulps,
)

EXACT = set("add subtract multiply negative positive absolute fabs sign square sqrt floor ceil trunc "
            "rint round copysign nextafter spacing signbit heaviside maximum minimum fmax fmin equal "
            "not_equal less less_equal greater greater_equal logical_and logical_or logical_xor "
            "logical_not bitwise_and bitwise_or bitwise_xor invert left_shift right_shift isnan isinf "
            "isfinite where gcd lcm real imag conjugate relu floor_divide remainder fmod ldexp "
            "reciprocal deg2rad rad2deg".split())
# NumPy's vector code contracts these; a complex result is compared by the norm of its error
NORM_WISE = {"reciprocal", "absolute", "sign", "multiply", "square", "sqrt"}
EXACT_REAL = EXACT | {"divide"}
# others are made into the same instructions, of other widths, as one of these
USUAL_FLAGS = "float32 float64 complex128".split()
FLAGS = [pytest.param(USUAL_FLAGS, marks=pytest.mark.optimized, id="usual flags"),
         pytest.param([d for d in DTYPES if d not in USUAL_FLAGS], id="others")]


def loop_of(name, dtype):
    """The dtypes of the loop, or None where NumPy has no such loop."""
    op = OPS[name]
    try:
        return op.resolve((np.dtype(dtype),) * op.nin)
    except DtypeError:
        return None


def compiled(name, dtype):
    op = OPS[name]
    xs = [ec.array(f"x{k}", 1, dtype) for k in range(op.nin)]
    return ec.function(xs, apply(op, *xs), name=name)


def reference(name, loop, out, arrays):
    result = quiet(OPS[name].numpy, *(a.astype(t) for a, t in zip(arrays, loop, strict=True)))
    return np.asarray(result).astype(out)


@pytest.mark.parametrize("dtypes", FLAGS)
@pytest.mark.parametrize("name", OPS)
def test_values_position_and_specials(name, dtypes):
    made = {}
    for dtype in dtypes:
        if loop_of(name, dtype) is None:
            with pytest.raises(DtypeError, match=name):
                compiled(name, dtype)
            continue
        arrays = [sample(dtype, 83, k + 1, d) for k, d in enumerate(OPS[name].domain)]
        if OPS[name].raises and np.dtype(dtype).kind == "i":
            arrays[1] = np.abs(arrays[1])
        made[dtype] = compiled(name, dtype), arrays
    compile_together((f, [a[step] for a in arrays]) for f, arrays in made.values() for step in (
        slice(None), slice(0, 1), slice(3, None, 2), slice(None, None, -1)))
    for dtype, (f, arrays) in made.items():
        values_position_and_specials(name, dtype, f, arrays)


def values_position_and_specials(name, dtype, f, arrays):
    op, (loop, out) = OPS[name], loop_of(name, dtype)
    got = f(*arrays)
    check(name, loop, out, arrays, got)
    for at in (0, 1, 7, 40, 82):  # alone, in another position, with another stride
        assert_same_bits(f(*(a[at:at + 1] for a in arrays)), got[at:at + 1])
    assert_same_bits(f(*(a[3::2] for a in arrays)), got[3::2])
    assert_same_bits(f(*(a[::-1] for a in arrays))[::-1], got)
    if op.raises and np.dtype(dtype).kind == "i":
        return
    edge = np.meshgrid(*[specials(dtype)] * op.nin)
    arrays = [e.ravel() for e in edge]
    check(name, loop, out, arrays, f(*arrays), special=True)


@pytest.mark.parametrize("name", OPS)
def test_within_an_expression(name):
    """The C has the parentheses it needs, whatever stands around the operation and within it."""
    dtypes = ["int8", "float64", "complex64"]
    every = [surrounded(name, dtype) for dtype in dtypes if loop_of(name, dtype)]
    assert every
    compile_together(call for calls in every for call in calls.values())
    for calls in every:
        inner = [f(*arrays) for role, (f, arrays) in calls.items() if role.startswith("inner")]
        apart, (_, other) = calls["apart"]
        wants = apart(calls["single"][0](*inner), other)
        for k, want in enumerate(wants):
            f, arrays = calls[f"together {k}"]
            assert_same_bits(f(*arrays), want)


def surrounded(name, dtype):
    """Functions and their arrays: an operation, what stands in it and around it, and all of it."""
    op = OPS[name]
    xs = [ec.array(f"x{k}", 1, dtype) for k in range(op.nin)]
    arrays = [sample(dtype, 19, k + 1, d) for k, d in enumerate(op.domain)]
    if op.raises and np.dtype(dtype).kind == "i":
        arrays[1] = np.abs(arrays[1]) % 7
    result = apply(op, *xs)
    y, w = ec.array("y", 1, result.dtype), ec.array("w", 1, result.dtype)
    other = sample(result.dtype, 19, 9)
    wraps = (lambda v: apply("multiply", v, w), lambda v: apply("equal", w, v))
    found = {f"inner {k}": (ec.function([x], apply("add", x, x)), [a])
             for k, (x, a) in enumerate(zip(xs, arrays, strict=True))}
    found["single"] = compiled(name, dtype), arrays
    found["apart"] = ec.function([y, w], [wrap(y) for wrap in wraps]), [other, other]
    for k, wrap in enumerate(wraps):
        whole = wrap(apply(op, *(apply("add", x, x) for x in xs)))
        found[f"together {k}"] = ec.function([*xs, w], whole), [*arrays, other]
    return found


def check(name, loop, out, arrays, got, special=False):
    want = reference(name, loop, out, arrays)
    assert got.dtype == want.dtype == out
    if out.kind in "biu":
        np.testing.assert_array_equal(got, want)
    elif name in (EXACT_REAL if loop[0].kind != "c" else EXACT - NORM_WISE):
        np.testing.assert_array_equal(got, want)
    elif special and loop[0].kind == "c":
        pass  # complex special values follow C's Annex G; the math library's tests pin them
    elif special:
        # kinds agree: NaN, infinity, zero; huge results may overflow on either side of the limit
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        bound = 2**22 if name in LOOSE else 8
        away = ulps(got, want)
        assert np.all((away <= bound) | (np.abs(want) < 1e-300) | ~np.isfinite(want)
                      | (out == np.float16)), (got, want)
    else:
        bound = 64 if name in LOOSE else 8
        worst = ulps(got, want)
        assert np.all((worst <= bound) | (np.abs(got - want) <= bound * np.finfo(out).eps)), worst.max()


# their NumPy form here is less exact than the C: the math library's tests have the true bounds
LOOSE = set("gelu silu logit sinc gamma lgamma digamma polygamma erfinv erfc softplus sigmoid logaddexp "
            "logaddexp2 xlogy xlog1py power float_power log1p expm1 exp2 log2 log10".split())


@pytest.mark.parametrize("source", DTYPES)
def test_casts(source):
    values = np.concatenate([specials(source), sample(source, 50, 3)])
    if np.dtype(source).kind == "f":
        values = np.concatenate([values, np.array([300.7, -1.5, 70000, 3e9, -3e9, 5e9, 1e19, -1e19],
                                                  np.float64).astype(source)])
    x = ec.array("x", 1, source)
    f = ec.function([x], [x.astype(t) for t in DTYPES])
    for got, target in zip(f(values), DTYPES, strict=True):
        want = quiet(values.astype, target)
        if target == "uint32" and values.dtype.kind in "fc":
            # beyond the range NumPy's vector code and its loop tail disagree with each other
            inside = (values.real > -(2.0**31)) & (values.real < 2.0**32)
            got, want = got[inside], want[inside]
        assert_same_bits(got, want)


def test_double_rounds_once_to_half():
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    middle = (halves[:-1] + halves[1:]) / 2
    values = np.concatenate([middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf)])
    x = ec.vector("x")
    f = ec.function([x], x.astype("float16"))
    assert_same_bits(f(values), values.astype(np.float16))
    real = ec.compile(lambda z: z.astype("float16"))
    for dtype in (np.complex128, np.complex64):
        numbers = (values + 1j).astype(dtype)
        assert_same_bits(real(numbers), numbers.real.astype(np.float16))


@pytest.mark.parametrize("loose", [{}, {"contract": True}, {"reassociate": True}])
def test_float16_is_rounded_however_loose(loose):
    """What stays one in between, and what is beyond its largest number."""
    x = np.concatenate([np.linspace(-9, 9, 1001), [1e5, -1e6, 65519, 65520, 1e-7, 3e-8, np.inf]])
    x = x.astype(np.float32)
    half = x[:1001].astype(np.float16)
    between = ec.compile(lambda x: x.astype("float16").astype("float32"), **loose)
    assert_same_bits(between(x), x.astype(np.float16).astype(np.float32))
    f = ec.compile(lambda x: (x.astype("float16") * np.float16(.0625)), **loose)
    assert_same_bits(f(x), x.astype(np.float16) * np.float16(.0625))
    g = ec.compile(lambda x: x * x * x + x, **loose)
    assert_same_bits(g(half), half * half * half + half)


def test_halves_are_rounded_once_where_they_are_added():
    x, y = (sample("float16", (1000,), k) for k in range(2))
    out = y.copy()
    ec.compile(lambda x, y: x * y)(x, y, out=out, req="add")
    assert_same_bits(out, y + x * y)


@pytest.mark.parametrize("function, array, say", [
    (lambda x: x - x, np.ones(3, bool), r"subtract does not exist .* bool, bool; .* x \^ y"),
    (lambda x: -x, np.ones(3, bool), "negative does not exist .* ~x is the opposite"),
    (lambda x: x + 1, np.ones(3, np.longdouble), "argument x: elemc has no dtype"),
])
def test_errors_of_dtypes_say_what_to_write(function, array, say):
    with pytest.raises(DtypeError, match=say):
        ec.compile(function)(array)


def test_integer_to_a_negative_power_is_an_error():
    x, y = ec.array("x", 1, "int64"), ec.array("y", 1, "int64")
    f = ec.function([x, y], x ** y)
    with pytest.raises(DomainError, match="negative integer powers"):
        f(np.array([2, 3]), np.array([1, -1]))
    assert_same_bits(f(np.array([2, 3]), np.array([3, 2])), np.array([8, 9]))


@pytest.mark.optimized
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_powers_of_integers_wrap(dtype):
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 128, (2, 40, 67)).astype(dtype)
    a = a - 64 if dtype[0] == "i" else a
    powers = ec.compile(lambda a, b: a ** b)
    for x, y in [(a, b), (a[:, ::-1], b), (a.T, b.T), (a[:, ::2], b[:, ::-2]), (a, b % 5)]:
        assert_same_bits(powers(x, y), np.power(x, y))


def test_python_numbers_are_weak():
    x = ec.array("x", 1, "float32")
    values = np.array([1.5, -2], np.float32)
    assert_same_bits(ec.function([x], 2 * x + 1.5)(values), 2 * values + 1.5)
    with pytest.raises(DtypeError, match="300"):
        y = ec.array("y", 1, "uint8")
        ec.function([y], y + 300)


@pytest.mark.parametrize("through", ["int32", "int64", "int16"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_integers_have_no_negative_zero(dtype, through):
    x = ec.array("x", 1, dtype)
    f = ec.function([x], [x.astype(through).astype(dtype), x.astype(through).astype("complex64").real,
                          x.astype(through).astype("int64").astype("float64")])
    for count in (1, 3, 40):
        for got in f(np.full(count, -0.3, dtype)):
            assert not np.signbit(got).any()


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_integer_quotients(dtype):
    """Integers are divided as floating-point numbers: right to the last one, at all magnitudes."""
    info, rng = np.iinfo(dtype), np.random.default_rng(0)
    ends = [info.min, info.min + 1, info.min + 2, info.max, info.max - 1, info.max // 2, 1, 2, 3, 5, 7, 0]
    ends += [-1, -2, -3, -7] if info.min else []
    ends += [sign * (2**k + d) for k in range(info.bits) for d in (-1, 0, 1) for sign in (-1, 1)]
    ends = np.array([e for e in ends if info.min <= e <= info.max], dtype)
    many = rng.integers(info.min, info.max, 4000, dtype, endpoint=True) >> rng.integers(
        0, info.bits, 4000).astype(dtype)
    x, y = np.meshgrid(np.concatenate([ends, many[:300]]), np.concatenate([ends, many[-300:]]))
    x, y = np.concatenate([x.ravel(), many]), np.concatenate([y.ravel(), many[::-1]])
    f = ec.compile(lambda x, y: (x // y, x % y))
    for got, want in zip(f(x, y), quiet(lambda: (x // y, x % y)), strict=True):
        assert_same_bits(got, want)
    near = quiet(lambda: x // np.where(y == 0, 1, y) * y)  # multiples, and their neighbours
    for a in (near, near + np.array(1, dtype), near - np.array(1, dtype)):
        for got, want in zip(f(a, y), quiet(lambda a=a: (a // y, a % y)), strict=True):
            assert_same_bits(got, want)
    for by in (1, 3, 7, 10, 100, *((-1, -2, -10) if info.min else ())):
        f = ec.compile(lambda x, by=by: (x // by, x % by))
        for got, want in zip(f(x), quiet(lambda by=by: (x // by, x % by)), strict=True):
            assert_same_bits(got, want)


@pytest.mark.parametrize("of", [
    lambda x: 0 - x, lambda x: 0.0 + -x, lambda x: -x + 0,
    lambda x: 0 - np.abs(x), lambda x: 0 - np.maximum(x, 0), lambda x: 0 - (0 - x),
    lambda x: -0.0 - x, lambda x: x - 0,
])
@pytest.mark.parametrize("made", [
    lambda i: i.astype("f8"), lambda i: i.astype("f4"), lambda i: np.abs(i * 0.5),
    lambda i: (i > 0) * 1.5, lambda i: i * -0.0])
def test_nothing_less_a_zero_is_positive(made, of):
    """Compilers that know numbers to be no -0.0 are not always right about what comes of them."""
    i = np.arange(-2, 40).astype("int8")
    assert_same_bits(ec.compile(lambda i: of(made(i)))(i), of(made(i)))


def test_nothing_less_nan_keeps_its_sign():
    x = np.array([np.nan, -np.nan, 0.0, -0.0, 1.5, -np.inf])
    got, want = ec.compile(lambda x: 0 - x)(x), 0 - x
    assert_same_bits(got, want)
    assert np.signbit(got).tolist() == np.signbit(want).tolist()


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "u4", "i8", "u8"])
def test_integers_over_powers_of_two(dtype):
    """They are shifted and masked, towards minus infinity as NumPy's quotients are."""
    info = np.iinfo(dtype)
    x = np.concatenate([np.arange(-40, 41).astype(dtype), np.array([info.min, info.max], dtype)])
    for by in (1, 2, 8, 64, 1 << info.bits - 2, 7, 3):
        f = over(by)
        assert ("floor_divide" in f.dump(x)) == (by in (3, 7))
        for got, want in zip(f(x), (x // by, x % by, x % by), strict=True):
            assert_same_bits(got, want)


def over(by):
    """Quotient and rests."""
    return ec.compile(lambda x: (x // by, x % by, np.divmod(x, by)[1]))
