"""Sums of bytes and masks along rows, whose lanes are narrower than the result."""

import numpy as np
import pytest

import elemc as ec

from .helpers import compile_together

VALUES = {
    "sum": lambda x, m, axis: x.sum(axis=axis),
    "mean": lambda x, m, axis: x.mean(axis=axis),
    "some": lambda x, m, axis: np.sum(x, axis=axis, where=m),
    "count": lambda x, m, axis: np.sum((x > 1) & m, axis=axis),
    "both": lambda x, m, axis: (x.sum(axis=axis), np.max(x, axis=axis), (m * x).sum(axis=axis)),
}
SHAPES = ((65,), (4097,), (140_003,), (7, 20), (60, 300), (3, 70_000), (20, 30, 40),
          (900, 3))


def arrays(dtype, shape):
    """The largest numbers, the least, and some of all; also elements apart and other orders."""
    rng = np.random.default_rng(len(shape))
    info = np.iinfo(dtype) if dtype != "bool" else None
    low, high = (info.min, info.max) if info else (False, True)
    mask = rng.random(shape) > 0.3
    for x in (np.full(shape, high, dtype), np.full(shape, low, dtype),
              rng.choice(np.array([low, high, 1], dtype), shape)):
        yield x, mask
    yield x[..., ::2], mask[..., ::2]
    yield x[..., ::-1], mask
    if len(shape) > 1:
        yield np.asfortranarray(x), mask
        yield x[..., 0], mask[..., 0]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8"])
@pytest.mark.parametrize("name", VALUES)
def test_values(name, dtype):
    """No lane overflows, whatever it adds and however long rows are."""
    def of(axis):
        return lambda x, m: VALUES[name](x, m, axis)

    functions = {axis: ec.compile(of(axis)) for axis in (None, 0, -1)}
    calls = [(axis, args) for shape in SHAPES for args in arrays(dtype, shape)
             for axis in functions if axis != 0 or len(shape) > 1]
    compile_together((functions[axis], args) for axis, args in calls)
    for axis, args in calls:
        got, want = functions[axis](*args), of(axis)(*args)
        for g, w in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, want)), strict=True):
            assert np.asarray(g).dtype == np.asarray(w).dtype
            np.testing.assert_allclose(g, w, rtol=1e-14, err_msg=f"{args[0].shape} {axis}")


def test_where_lanes_are_narrow():
    """Of bytes that are added to 8-byte numbers, and of those only."""
    def lanes(dtype, of):
        return "int16_t sum0_lane[LANES_64]" in ec.compile(of).dump(np.ones((300, 3000), dtype))

    assert lanes("uint8", lambda x: x.sum())
    assert lanes("bool", lambda x: x.mean(axis=1))
    assert lanes("int8", lambda x: (x > 3).sum(axis=1))
    assert not lanes("int16", lambda x: x.sum())
    assert not lanes("float32", lambda x: (x > 0).sum())
    assert not lanes("uint8", lambda x: x.sum(dtype="uint8"))
    assert not lanes("uint8", lambda x: (x * 2.5).sum())
