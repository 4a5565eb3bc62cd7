"""Planes of interleaved elements: channels of pixels, coordinates of points."""

import numpy as np
import pytest

import elemc as ec

from .helpers import compile_together, sample

VALUES = {
    "norm": lambda p: np.sqrt(p[..., 0] * p[..., 0] + p[..., 1] * 2.0),
    "choice": lambda p: np.where(p[..., -1] > 0, p[..., 0], p[..., 1]),
    "centered": lambda p: p[..., 1] - np.mean(p[..., 1], dtype=float),
    "total": lambda p: np.sum(p[..., 0]) + np.max(p[..., 1]),
    "rows": lambda p: np.sum(p[..., 1] * p[..., 0], axis=-1),
    "all": lambda p: p[..., ::-1] * p[..., :1],
    "place": lambda p: np.argmax(p[..., 1]),
}


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "complex64"])
@pytest.mark.parametrize("name", VALUES)
def test_values(name, dtype):
    """One function is called with any number of planes, each of which may have its kernel."""
    of = VALUES[name]
    if dtype == "complex64":
        of = {"choice": lambda p: p[..., 0] * p[..., 1]}.get(name, of)
    f, tables = ec.compile(of), []
    for planes in (2, 3, 5, 16):
        table = sample(dtype, (19, 37, planes), planes, (0, 9))
        tables += [table, np.asfortranarray(table), table[::-1, ::2], table[:, :, ::-1],
                   np.moveaxis(np.ascontiguousarray(np.moveaxis(table, 0, -1)), -1, 0)]
    compile_together((f, [table]) for table in tables)
    for table in tables:
        rtol = 2e-2 if dtype == "float16" else 1e-5
        np.testing.assert_allclose(f(table), of(table), rtol=rtol, atol=rtol)
        if name not in ("total", "rows", "centered"):
            copies = f(np.ascontiguousarray(table))
            np.testing.assert_array_equal(f(table), copies)


@pytest.mark.parametrize("planes, told", [(2, True), (3, True), (4, True), (5, False), (8, True),
                                          (100, False)])
def test_strides_that_are_told(planes, told):
    """gcc makes vectors of what lies these distances apart, if it knows that it does."""
    f = ec.compile(lambda p: p[:, 0] * 2.5)
    text = f.dump(np.ones((500, planes), np.float32))
    assert (f"_s0 = {4 * planes}" in text) == told
    inner = ec.compile(lambda p: p[:, 0, 1] * 2.5).dump(np.ones((500, 2, 4), np.float32))
    assert "_s0 = 32" in inner
    many = ec.compile(lambda p: p[0, 0] * 2.5)
    assert many(np.ones((3, 3))) == 2.5


def test_kernels_are_shared():
    """As long as no compiler minds how many planes there are, one kernel is enough."""
    f = ec.compile(lambda p: p[:, 0] * 2.5)
    for planes in (50, 60, 70):
        x = np.arange(200.0 * planes).reshape(200, planes)
        np.testing.assert_array_equal(f(x), x[:, 0] * 2.5)
    assert len(f.specializations) == 1


@pytest.mark.parametrize("step, told", [(4, True), (16, False)])
def test_as_far_apart_as_vectors(step, told):
    """Of planes that are closer vectors take what they need; of others, elements are taken."""
    x = np.random.default_rng(0).standard_normal((600, step)).astype("f4")
    f = ec.compile(lambda x: x[:, 0] * x[:, 1])
    assert (f"x_s0 = {4 * step}" in f.dump(x)) is told
    np.testing.assert_array_equal(f(x), x[:, 0] * x[:, 1])
