"""Programs of several lines that people write with NumPy, and some whose gradient they want.

Each takes the module that stands for NumPy, then arrays.  Their shapes are those of about `n`
elements together, or of a square of `r` by `r`; of what begins with "+", numbers are between 0.5
and 1.5, else normal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PROGRAMS: dict[str, Program] = {}


@dataclass(frozen=True)
class Program:
    """A function of a module and arrays of these shapes; or its gradient in the arrays `wrt`."""

    name: str
    function: Callable[..., Any]
    shapes: tuple[str, ...]
    wrt: tuple[int, ...]


def program(shapes: str, wrt: tuple[int, ...] = ()) -> Callable[[Callable[..., Any]], Any]:
    """Put a function, or the gradient of it, among the programs."""
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__ + (" gradient" if wrt else "")
        every = tuple(shape.strip() for shape in shapes.split(";"))
        PROGRAMS[name] = Program(name, function, every, wrt)
        return function
    return add


# Geometry and physics


@program("n//3, 3; n//3, 3")
def cross(np, a, b):
    return (a[:, 1] * b[:, 2] - a[:, 2] * b[:, 1], a[:, 2] * b[:, 0] - a[:, 0] * b[:, 2],
            a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0])


@program("r, 3; r, 3")
def distances(np, x, y):
    return np.sqrt(np.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1))


@program("r, 3; +r")
def gravity(np, x, m):
    d = x[None, :, :] - x[:, None, :]
    inverse = (np.sum(d * d, axis=-1) + 0.01) ** -1.5
    return np.sum(m[None, :, None] * d * inverse[:, :, None], axis=1)


@program("r, 3", wrt=(0,))
def repulsion(np, x):
    d = x[:, None, :] - x[None, :, :]
    return np.sum((np.sum(d * d, axis=-1) + 0.1) ** -0.5)


@program("+n")
def lennard_jones(np, r):
    s = 1 / (r * r)
    return 4 * (s**6 - s**3)


@program("+n", wrt=(0,))
def forces(np, r):
    return np.sum(lennard_jones(np, r))


@program("+n")
def twelve_six(np, r):
    return r**-12 - 2 * r**-6


@program("n//9, 3, 3")
def determinants(np, m):
    return (m[:, 0, 0] * (m[:, 1, 1] * m[:, 2, 2] - m[:, 1, 2] * m[:, 2, 1])
            - m[:, 0, 1] * (m[:, 1, 0] * m[:, 2, 2] - m[:, 1, 2] * m[:, 2, 0])
            + m[:, 0, 2] * (m[:, 1, 0] * m[:, 2, 1] - m[:, 1, 1] * m[:, 2, 0]))


@program("n//9, 3, 3; n//9, 3")
def rotated(np, m, v):
    return np.sum(m * v[:, None, :], axis=-1)


@program("n//16, 4, 4")
def traces(np, m):
    return m[:, 0, 0] + m[:, 1, 1] + m[:, 2, 2] + m[:, 3, 3]


@program("n//3, 3; n//3, 3", wrt=(0,))
def directions(np, a, b):
    return np.sum(b * a / np.sqrt(np.sum(a * a, axis=1, keepdims=True)))


@program("+n")
def planck(np, w):
    return 1 / (w ** 5 * (np.exp(1.4 / w) - 1))


@program("+n; +n; +n")
def van_der_waals(np, p, t, v):
    return p * v / (1 - 0.1 / v) - t * t / (v * v) + np.log(v)


@program("+n; +n")
def haversine(np, a, b):
    h = np.sin((a - b) / 2) ** 2 + np.cos(a) * np.cos(b) * np.sin((a + b) / 9) ** 2
    return 2 * np.arcsin(np.sqrt(h) / 2)


# Stencils and integrators


@program("r, r")
def laplacian(np, u):
    return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]


@program("r, r; r, r")
def gray_scott(np, u, v):
    a, b = u[1:-1, 1:-1], v[1:-1, 1:-1]
    reaction = a * b * b
    return (a + 0.16 * laplacian(np, u) - reaction + 0.035 * (1 - a),
            b + 0.08 * laplacian(np, v) + reaction - 0.095 * b)


@program("r, r", wrt=(0,))
def smoothness(np, u):
    return np.sum(laplacian(np, u) ** 2)


@program("r, r")
def bilateral(np, u):
    middle, top, bottom = u[1:-1, 1:-1], 0, 0
    for i in range(3):
        for j in range(3):
            v = u[i:i - 2 or None, j:j - 2 or None]
            w = np.exp(-((v - middle) ** 2) - 0.5 * ((i - 1) ** 2 + (j - 1) ** 2))
            top, bottom = top + w * v, bottom + w
    return top / bottom


@program("r, r", wrt=(0,))
def total_variation(np, u):
    down, right = u[1:, :-1] - u[:-1, :-1], u[:-1, 1:] - u[:-1, :-1]
    return np.sum(np.sqrt(down * down + right * right + 1e-3))


@program("+n")
def logistic_map(np, x):
    for _ in range(100):
        x = 3.7 * x * (1 - x / 2)
    return x


@program("+n")
def lorenz(np, x):
    y, z = x + 1, x + 20
    for _ in range(50):
        x, y, z = (x + 0.1 * (y - x), y + 0.01 * (x * (28 - z) - y),
                   z + 0.01 * (x * y - 8 / 3 * z))
    return x + y + z


@program("+n")
def pendulum(np, x):
    v, h = x * 0, 0.05
    for _ in range(10):  # Runge and Kutta's steps of order 4
        a1 = -np.sin(x)
        v2, a2 = v + h / 2 * a1, -np.sin(x + h / 2 * v)
        v3, a3 = v + h / 2 * a2, -np.sin(x + h / 2 * v2)
        v4, a4 = v + h * a3, -np.sin(x + h * v3)
        x, v = x + h / 6 * (v + 2 * v2 + 2 * v3 + v4), v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
    return x


# Statistics


@program("n")
def moments(np, x):
    mean = np.mean(x)
    d = x - mean
    v = np.mean(d * d)
    return mean, v, np.mean(d ** 3) / v ** 1.5, np.mean(d ** 4) / v ** 2


@program("n//50, 50")
def standard_scores(np, x):
    return (x - np.mean(x, axis=0)) / np.std(x, axis=0)


@program("n//50, 50", wrt=(0,))
def cubed_scores(np, x):
    return np.sum(((x - np.mean(x, axis=0)) / np.std(x, axis=0)) ** 3)


@program("n//50, 50")
def between_extremes(np, x):
    low = np.min(x, axis=1, keepdims=True)
    return (x - low) / (np.max(x, axis=1, keepdims=True) - low)


@program("r, r")
def doubly_centred(np, d):
    return d - np.mean(d, axis=0) - np.mean(d, axis=1)[:, None] + np.mean(d)


@program("n//100, 100; n//100, 100")
def cosines(np, a, b):
    return np.sum(a * b, axis=1) / np.sqrt(np.sum(a * a, axis=1) * np.sum(b * b, axis=1))


@program("+n//100, 100; +n//100, 100")
def divergences(np, p, q):
    return np.sum(p * np.log(p / q), axis=-1)


@program("n//40, 40; 40; +40")
def gaussian_likelihood(np, x, mu, sd):
    return -0.5 * np.sum(((x - mu) / sd) ** 2 + 2 * np.log(sd) + 1.8378770664, axis=1)


@program("n//5; 5; +5; +5")
def mixture(np, x, mu, sd, w):
    each = np.log(w) - np.log(sd) - 0.5 * ((x[:, None] - mu) / sd) ** 2
    most = np.max(each, axis=1)
    return most + np.log(np.sum(np.exp(each - most[:, None]), axis=1))


@program("n//5; 5; +5", wrt=(0, 1, 2))
def mixture_likelihood(np, x, mu, sd):
    return np.sum(mixture(np, x, mu, sd, sd * 0 + 1))


@program("n//20, 20; 20", wrt=(0, 1))
def poisson_likelihood(np, x, w):
    rate = np.sum(x * w * 0.1, axis=1)
    return np.sum(np.exp(rate) - rate)


@program("n//8, 8; 8", wrt=(0, 1))
def logistic_loss(np, x, w):
    return np.mean(np.log1p(np.exp(-np.sum(x * w, axis=1))))


@program("n//8, 8; 8; n//8", wrt=(1,))
def least_squares(np, x, w, y):
    return np.sum((np.sum(x * w, axis=1) - y) ** 2)


@program("n//20, 20; 20; n//20", wrt=(1,))
def robust_regression(np, x, w, y):
    return np.sum(np.log1p((np.sum(x * w, axis=1) - y) ** 2))


@program("n//3, 3")
def falling_off(np, x):
    return x * np.exp(-np.sqrt(np.sum(x * x, axis=1, keepdims=True)))


@program("n; n")
@program("n; n", wrt=(0,))
def huber(np, x, y):
    d = np.abs(x - y)
    return np.mean(np.where(d < 1, 0.5 * d * d, d - 0.5))


@program("n")
def running_share(np, x):
    return np.cumsum(x) / np.sum(x)


@program("n", wrt=(0,))
def random_walk(np, x):
    return np.sum(np.cumsum(x) ** 2)


@program("n//32, 32")
def correlations(np, x):
    d = x - np.mean(x, axis=0)
    c = np.sum(d[:, :, None] * d[:, None, :], axis=0)
    s = np.sqrt(np.sum(d * d, axis=0))
    return c / (s[:, None] * s)


# Networks


@program("n//64, 64")
def softmax(np, x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


@program("n//10, 10")
def softmax_of_10(np, x):
    return softmax(np, x)


@program("n//20, 20")
def entropies(np, x):
    p = softmax(np, x)
    return -np.sum(p * np.log(p), axis=-1)


@program("n//64, 64")
def log_softmax(np, x):
    d = x - np.max(x, axis=-1, keepdims=True)
    return d - np.log(np.sum(np.exp(d), axis=-1, keepdims=True))


@program("n//64, 64; +n//64, 64", wrt=(0,))
def cross_entropy(np, x, t):
    return -np.mean(np.sum(t * log_softmax(np, x), axis=-1))


@program("n//128, 128; 128")
def rms_norm(np, x, gain):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6) * gain


@program("n//128, 128; 128", wrt=(0, 1))
def rms_norm_loss(np, x, gain):
    return np.sum(rms_norm(np, x, gain) ** 3)


@program("n//128, 128; 128; 128", wrt=(0, 1, 2))
def layer_norm_loss(np, x, gain, bias):
    d = x - np.mean(x, axis=-1, keepdims=True)
    scaled = d / np.sqrt(np.mean(d * d, axis=-1, keepdims=True) + 1e-5)
    return np.sum((scaled * gain + bias) ** 3)


@program("8, 16, n//1024, 8; 16; 16")
def batch_norm(np, x, gain, bias):
    d = x - np.mean(x, axis=(0, 2, 3), keepdims=True)
    scaled = d / np.sqrt(np.mean(d * d, axis=(0, 2, 3), keepdims=True) + 1e-5)
    return scaled * gain[:, None, None] + bias[:, None, None]


@program("8, 16, n//1024, 8; 16; 16", wrt=(0, 1, 2))
def batch_norm_loss(np, x, gain, bias):
    return np.sum(batch_norm(np, x, gain, bias) ** 3)


@program("n; n; n; n")
def lstm_cell(np, i, f, o, c):
    def sigmoid(z):
        return 1 / (1 + np.exp(-z))
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(o)
    return sigmoid(o) * np.tanh(c), c


@program("n; n; n; n", wrt=(0, 1, 2, 3))
def lstm_loss(np, i, f, o, c):
    return np.sum(lstm_cell(np, i, f, o, c)[0])


@program("n")
def mish(np, x):
    return x * np.tanh(np.log1p(np.exp(x)))


@program("n; n; n; +n")
def adam(np, p, g, m, v):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 0.001 * (m / 0.1) / (np.sqrt(v / 0.001) + 1e-8), m, v


@program("n//20, 20")
def predictions(np, x):
    return np.argmax(x, axis=1)


@program("n//32, 32; 32, 32; 32")
def dense_layer(np, x, w, b):
    return np.tanh(np.sum(x[:, :, None] * w, axis=1) + b)


@program("n//32, 32; 32, 32; 32", wrt=(0, 1, 2))
def dense_loss(np, x, w, b):
    return np.sum(dense_layer(np, x, w, b) ** 2)


@program("n//64; n//64, 64; n//64, 64")
def attention(np, q, k, v):
    s = np.sum(k * q[:, None], axis=0)
    e = np.exp(s - np.max(s))
    return np.sum(v * (e / np.sum(e)), axis=1)


@program("r, 16; r, 16; r, 16")
def self_attention(np, q, k, v):
    s = q @ k.T * 0.25
    e = np.exp(s - np.max(s, axis=1, keepdims=True))
    return (e / np.sum(e, axis=1, keepdims=True)) @ v


@program("r, 16; r, 16; r, 16", wrt=(0, 1, 2))
def self_attention_loss(np, q, k, v):
    return np.sum(self_attention(np, q, k, v) ** 2)


@program("r, 8; r, 8; r")
def kernel_ridge(np, x, y, w):
    return np.exp(-0.5 * np.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=2)) @ w


@program("n//33, 33; n//33, 33; n//33, 33")
def residual_norm(np, x, y, z):
    t = x * y + z
    d = t - np.mean(t, axis=1, keepdims=True)
    return d / np.sqrt(np.mean(d * d, axis=1, keepdims=True) + 1e-5)


@program("r, 32; r, 32")
def nearest(np, x, y):
    return np.min(np.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1), axis=1)


@program("r, 8; r, 8", wrt=(0, 1))
def kernel_sum(np, x, y):
    return np.sum(np.exp(-0.5 * np.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1)))


@program("r, r; r; r", wrt=(0, 1, 2))
def outer_products(np, a, x, y):
    return np.sum(np.tanh(a + x[:, None] * y[None, :]))


@program("+n//8, 8", wrt=(0,))
def products_of_8(np, x):
    return np.sum(np.prod(x, axis=1))


# Pictures, and many arrays


@program("+n//3, 3")
def grey(np, x):
    return 0.299 * x[:, 0] + 0.587 * x[:, 1] + 0.114 * x[:, 2]


@program("+n//3, 3")
def linear_light(np, x):
    return np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)


@program("+n//3, 3")
def hues(np, x):
    r, g, b = x[:, 0], x[:, 1], x[:, 2]
    v = np.max(x, axis=1)
    d = v - np.min(x, axis=1) + 1e-9
    h = np.where(v == r, (g - b) / d, np.where(v == g, 2 + (b - r) / d, 4 + (r - g) / d))
    return h / 6, d / v, v


@program("n")
def legendre(np, x):
    p, q = x * 0 + 1, x
    for k in range(2, 15):
        p, q = q, ((2 * k - 1) * x * q - (k - 1) * p) / k
    return q


@program("; ".join(["+n//40"] * 40))
def sum_of_40(np, *arrays):
    total = arrays[0]
    for each in arrays[1:]:
        total = total + each * each
    return total
