"""The C of a number of kernels, kept: equal on every run, compiled, and right.

`pytest --update-golden` rewrites the files after a change that is meant.
"""

from pathlib import Path

import numpy as np
import pytest

import elemc as ec

from .helpers import sample

GOLDEN = Path(__file__).parent / "golden"

x, y, w = ec.matrix("x"), ec.vector("y"), ec.vector("w")
m = ec.matrix("y")
x3, x4 = ec.tensor3("x"), ec.array("x", 4)
h = ec.array("x", 1, "float16")
floats = ec.array("x", 2, "float32")
z = ec.array("x", 1, "complex128")
i = ec.array("x", 1, "int32")
image = ec.array("image", 3, "uint8")
gain = ec.array("gain", 1, "float32")
horner = ec.Accumulator("horner", 0.0, lambda a, v: 2 * a + v)
last = ec.Accumulator("first", None, lambda a, v: a)


def softmax(a, axis):
    e = np.exp(a - a.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def layer_norm(a):
    mean = a.mean(axis=-1, keepdims=True)
    return (a - mean) / np.sqrt(a.var(axis=-1, keepdims=True) + 1e-5)


def poly(y, w):
    return y * w + (y - w) / (y * y + w * w + 1)


PRODUCT = ("accumulate", "sum")
# name: inputs, outputs, keywords of ec.function, NumPy, most lines
KERNELS = {
    "axpy": ([y, w], 2 * y + w, {}, lambda y, w: 2 * y + w, 40),
    "loop_2008_c": ([x, y], x * y, {"mode": PRODUCT, "order": "c"}, lambda x, y: x.sum(1) * y, 80),
    "loop_2008_f": ([x, y], x * y, {"mode": PRODUCT}, lambda x, y: x.sum(0) * y, 100),
    "broadcast_f": ([x, y], x * y + 1, {}, lambda x, y: x * y + 1, 40),
    "broadcast_c": ([x, y], x * y + 1, {"order": "c"}, lambda x, y: x * y[:, None] + 1, 40),
    "transposed": ([x], x + x.T, {}, lambda x: x + x.T, 40),
    "sum_all": ([x], x.sum(), {}, np.sum, 80),
    "sum_rows": ([x], x.sum(axis=1), {}, lambda x: x.sum(1), 80),
    "sum_columns": ([x], x.sum(axis=0), {}, lambda x: x.sum(0), 100),
    "sum_columns_of_3": ([x], x.sum(axis=0), {}, lambda x: x.sum(0), 100),
    "matrix_product": ([x, m], x @ m, {}, np.matmul, 90),
    "squared_distances": ([x, m], ((x[:, None] - m[None]) ** 2).sum(axis=2), {},
                          lambda x, m: ((x[:, None] - m[None]) ** 2).sum(axis=2), 70),
    "softmax_rows": ([x], softmax(x, -1), {}, lambda x: softmax(x, -1), 79),
    "softmax_columns": ([x], softmax(x, 0), {}, lambda x: softmax(x, 0), 130),
    "logsumexp": ([x], ec.logsumexp(x, axis=-1), {}, lambda x: np.logaddexp.reduce(x, -1), 100),
    "layer_norm": ([x], layer_norm(x), {}, layer_norm, 120),
    "normalise_all": ([y], y / y.sum(), {}, lambda y: y / y.sum(), 80),
    "variance": ([x], x.var(axis=1, ddof=1), {}, lambda x: x.var(axis=1, ddof=1), 120),
    "variance_of_floats": ([floats], floats.var(axis=1), {}, lambda x: x.var(axis=1), 120),
    "argmax": ([x], x.argmax(axis=1), {}, lambda x: x.argmax(1), 79),
    "extremes": ([x], [x.min(axis=1), x.max(axis=1)], {}, lambda x: (x.min(1), x.max(1)), 80),
    "user_fold": ([x], ec.accumulate(horner, x, axis=1), {},
                  lambda x: np.array([np.polyval(r, 2) for r in x]), 40),
    "first_element": ([x], ec.accumulate(last, x, axis=1), {}, lambda x: x[:, 0], 45),
    "running_columns": ([x], ec.cumsum(x, 0), {}, lambda x: x.cumsum(0), 40),
    "recurrence": ([x], ec.scan(horner, x, 1), {},
                   lambda x: np.array([[np.polyval(r[:k], 2) for k in range(1, r.size + 1)] for r in x]), 110),
    "choice": ([x], ec.where(x[:, :1] > 0, ec.cumsum(x, 1), 2 * x), {},
               lambda x: np.where(x[:, :1] > 0, x.cumsum(1), 2 * x), 45),
    "stack": ([y, w], np.stack([y * 2, w]), {}, lambda y, w: np.stack([y * 2, w]), 45),
    "stack_last": ([y, w], np.stack([y * 2, w], -1), {}, lambda y, w: np.stack([y * 2, w], -1), 40),
    "two_modes": ([x, y], [x + y, x * y], {"mode": ["broadcast", PRODUCT]},
                  lambda x, y: (x + y, x.sum(0) * y), 120),
    "half": ([h], h * h + 1, {}, lambda h: h * h + np.float16(1), 100),
    "complex_product": ([z], z * z, {}, lambda z: z * z, 50),
    "floor_divide": ([i], [i // 7, i % -3], {}, lambda i: (i // 7, i % -3), 60),
    "luminance": ([image, gain], ec.sum(image * gain, axis=-1), {},
                  lambda i, g: (i * g).sum(-1, dtype=np.float32), 80),
    "scaled_rows": ([floats, gain], floats * gain, {}, lambda x, g: x * g, 45),
    "differences": ([y], y[1:] - y[:-1], {}, np.diff, 40),
    "every_other": ([x], x[:, ::2].max(axis=1), {}, lambda x: x[:, ::2].max(1), 85),
    "broadcast_3": ([x3, y], x3 * y, {}, lambda x, y: x * y, 40),
    "once": ([x, y], x * np.exp(y), {}, lambda x, y: x * np.exp(y), 40),
    "folded_functions": ([y, w], (np.log1p(np.exp(y)) - y * w).sum(), {},
                         lambda y, w: (np.log1p(np.exp(y)) - y * w).sum(), 80),
    "stages": ([y, w], np.sin(np.exp(-y * y)) + w, {}, lambda y, w: np.sin(np.exp(-y * y)) + w, 40),
    "sinc_where": ([y], np.where(y > 0, np.sin(y), 0.0), {},
                   lambda y: np.where(y > 0, np.sin(y), 0.0), 40),
    "poly_streamed": ([y, w], poly(y, w), {}, poly, 39),
    "broadcast_streamed": ([x, y], x * y + 1, {}, lambda x, y: x * y + 1, 45),
    "softmax_streamed": ([x], softmax(x, -1), {}, lambda x: softmax(x, -1), 79),
    "sum_of_slices": ([x4], ec.sum(x4[..., 1:] * x4[..., :-1], axis=1), {},
                      lambda x: (x[..., 1:] * x[..., :-1]).sum(1), 60),
    "row_max_by_fours": ([x], x.max(axis=1), {}, lambda x: x.max(1), 95),
}


# What kernels with known sizes are dumped for.
SIZED = {"stack": [np.ones(1000)] * 2, "stack_last": [np.ones(1000)] * 2, "sum_columns_of_3": [np.ones((2000, 3))], "recurrence": [np.ones((64, 64))],
         "variance_of_floats": [np.ones((200, 200), np.float32)], "once": [np.ones((64, 64)), np.ones(64)],
         "squared_distances": [np.ones((90, 12)), np.ones((70, 12))],
         "matrix_product": [np.ones((90, 80)), np.ones((80, 70))],
         "scaled_rows": [np.ones((1000, 20), np.float32), np.ones(20, np.float32)],
         "poly_streamed": [np.empty(1 << 22)] * 2,  # 32 MiB, which no machine's caches are for
         "broadcast_streamed": [np.empty((1 << 12, 1 << 10)), np.empty(1 << 10)],
         "softmax_streamed": [np.empty((1 << 12, 1 << 10))],
         "sum_of_slices": [np.ones((5, 40, 50, 20))], "row_max_by_fours": [np.empty((1 << 12, 1 << 10))]}


def function(name):
    inputs, outputs, options, _, _ = KERNELS[name]
    return ec.function(inputs, outputs, name=name, **options)


@pytest.mark.parametrize("name", KERNELS)
def test_text(name, request):
    text = function(name).dump(*SIZED.get(name, []))
    path = GOLDEN / f"{name}.c"
    if request.config.getoption("--update-golden"):
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == function(name).dump(*SIZED.get(name, []))
    assert text == path.read_text(encoding="utf-8"), "pytest --update-golden, if it is meant"
    assert len(text.splitlines()) <= KERNELS[name][4]


@pytest.mark.parametrize("name", KERNELS)
def test_answer(name):
    inputs, _, _, reference, _ = KERNELS[name]
    arrays = [sample(a.dtype, (6,) * a.ndim, k + 1, (-4, 4)) for k, a in enumerate(inputs)]
    got = function(name)(*arrays)
    want = reference(*arrays)
    for g, expected in zip(*((v if isinstance(v, tuple) else (v,)) for v in (got, want)), strict=True):
        np.testing.assert_allclose(g, expected, rtol=1e-5 if g.dtype == np.float32 else 1e-12)
