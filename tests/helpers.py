"""Data, layouts and comparisons shared by the tests."""

import ctypes
import mmap
import re
import warnings
from collections import defaultdict
from dataclasses import replace

import numpy as np

import elemc as ec
from elemc import compiler

DTYPES = ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 "
          "complex64 complex128").split()


def sample(dtype, shape, seed=0, domain=(-20.0, 20.0)):
    """Random values of `dtype` within `domain`, as far as the dtype goes; of a range, whole ones."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if isinstance(domain, range):
        return rng.choice(domain, shape).astype(dtype)
    if dtype.kind in "iu":
        low = max(int(domain[0]), 0 if dtype.kind == "u" else -100)
        return rng.integers(low, max(min(int(domain[1]) + 1, 100), low + 1), shape).astype(dtype)
    values = rng.uniform(*domain, shape)
    if dtype.kind == "c":
        values = values + 1j * rng.uniform(*domain, shape)
    return values.astype(dtype)


def guarded(size, at_end):
    """Bytes in front of which, or behind which, memory must not be touched."""
    page = mmap.PAGESIZE
    length = -(-size // page) * page
    memory = mmap.mmap(-1, length + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for at in (start, start + page + length):
        assert protect(ctypes.c_void_p(at), page, 0) == 0
    return np.frombuffer(memory, np.uint8, size, page + (length - size if at_end else 0))


def specials(dtype):
    """Values at which functions are special: NaN, infinities, zeros, subnormals, extremes."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        small = [0, 1, 2, 3, 7, 31, 32, 63, 64, 100, info.max, info.max - 1]
        return np.array(small + ([-1, -2, -7, info.min, info.min + 1] if dtype.kind == "i" else []),
                        dtype)
    real = np.zeros(0, dtype).real.dtype
    info = np.finfo(real)
    values = np.array([0.0, -0.0, 1, -1, 0.5, -2.5, np.inf, -np.inf, np.nan, info.max, info.min,
                       info.tiny, -info.tiny, info.smallest_subnormal, 3, -7], real)
    if dtype.kind == "c":
        few = values[[0, 1, 2, 5, 6, 7, 8]]
        return (few[:, None] + 1j * few[None, :]).ravel().astype(dtype)
    return values


def layouts(array):
    """The same values, lying in memory in many ways: name and array."""
    array = np.array(array, order="C")
    yield "C", array
    if not array.ndim:
        return
    yield "F", np.asfortranarray(array)
    padded = np.zeros([2 * n + 1 for n in array.shape], array.dtype)
    inner = padded[tuple(slice(1, 2 * n + 1, 2) for n in array.shape)]
    inner[...] = array
    yield "sliced", inner
    flipped = np.ascontiguousarray(array[tuple(slice(None, None, -1) for _ in array.shape)])
    yield "reversed", flipped[tuple(slice(None, None, -1) for _ in array.shape)]
    raw = np.zeros(array.nbytes + 1, np.uint8)[1:]
    odd = raw[:array.nbytes].view(array.dtype).reshape(array.shape)
    odd[...] = array
    yield "unaligned", odd
    if array.dtype.itemsize > 1:
        yield "swapped", array.astype(array.dtype.newbyteorder())
    frozen = array.copy()
    frozen.flags.writeable = False
    yield "read-only", frozen


def ulps(got, want):
    """The distance in units in the last place of `want`; equal, or both NaN, is 0."""
    got, want = np.asarray(got), np.asarray(want)
    with np.errstate(all="ignore"):
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        size = np.abs(want) if want.dtype.kind == "c" else want
        finite = np.isfinite(got) & np.isfinite(want)
        distance = np.abs(got.astype(np.clongdouble if want.dtype.kind == "c" else np.longdouble)
                          - want) / np.spacing(np.abs(size)).astype(np.longdouble)
        return np.where(same, 0, np.where(finite, distance, np.inf)).astype(float)


def quiet(fn, *args):
    """`fn(*args)` without floating-point warnings."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fn(*args)


def compile_together(calls):
    """Give functions the kernels that calls will ask for, one file of C for each set of flags.

    `calls` are pairs of a function and its arrays.
    """
    units, seen = defaultdict(lambda: defaultdict(list)), set()
    for function, arrays in calls:
        try:
            if hasattr(function, "trace"):
                function = function.trace(*arrays)
            closed, signature = function.example(arrays)
            if (function, closed, signature) in seen:
                continue
            seen.add((function, closed, signature))
            spec, kernel, source = compiler.source_of(closed, signature)
        except ec.ShapeError:
            continue  # so says the call, too
        same = units[compiler.flags_of(spec, False, False)][source.text, source.bindings]
        same.append((function, (closed, signature), spec, kernel, source))
    for unit in units.values():
        text = once(r"^typedef struct .*\n", "/* */\n" + "\n".join(
            with_own_names(text, f"_{number}") for number, (text, _) in enumerate(unit)))
        every = [same[0] for same in unit.values()]
        libraries, slow = (tuple(sorted({n for *_, s in every for n in getattr(s, which)}))
                           for which in ("libraries", "slow"))
        for number, same in enumerate(unit.values()):
            for function, key, spec, kernel, source in same:
                function._by_signature[key] = compiler.load(spec, kernel, replace(
                    source, text=text, entry=f"{source.entry}_{number}", libraries=libraries,
                    slow=slow))


def with_own_names(text, end):
    """The C of a kernel, where what it defines has this end: others define the same names."""
    body = text[text.index("*/") + 2:]
    names = re.findall(r"^(?:static (?:inline |__attribute__\(\(noinline\)\) )?|int )[\w *]*?(\w+)\(", body, re.M)
    names += [n for line in re.findall(r"^enum {(.*)}", body, re.M) for n in re.findall(r"(\w+) =", line)]
    return re.sub(rf"\b({'|'.join(set(names))})\b", rf"\1{end}", body)


def once(pattern, text):
    """`text`, where each line of this pattern is kept the first time that it occurs."""
    seen = set()
    return re.sub(pattern, lambda m: "" if m[0] in seen or seen.add(m[0]) else m[0], text, flags=re.M)


def assert_same_bits(got, want):
    """The same dtype, shape and values; signed zeros are told apart, NaNs are not."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)
    if want.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(got) & ~np.isnan(got),
                                      np.signbit(want) & ~np.isnan(want))
