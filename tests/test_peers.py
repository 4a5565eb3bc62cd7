"""elemc beside other packages: the same code gives the same answers.

Needs `pip install -e '.[bench]'`; run with `pytest -m peers`.
"""

from operator import attrgetter

import numpy as np
import pytest

import elemc as ec
from bench import contestants, measure, survey
from bench.workloads import WORKLOADS
from elemc.ops import OPS
from elemc.parse import parse

pytestmark = [pytest.mark.peers, pytest.mark.optimized]


@pytest.mark.parametrize("work", WORKLOADS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("peer", contestants.DEFAULT)
def test_workloads(peer, dtype, work):
    """Every contestant of the benchmarks answers as NumPy does, natural and given."""
    found, missing = contestants.load([peer], 1)
    assert not missing
    kinds = []
    for kind in ("natural", "given"):
        cell = measure.run_cell(WORKLOADS[work], 1000, dtype, kind, found, rounds=1)
        assert not cell.wrong
        kinds += [kind] * (peer in cell.samples)
    nothing = {"numexpr": not WORKLOADS[work].numexpr, "autograd": not WORKLOADS[work].wrt}
    assert bool(kinds) is not nothing.get(peer, False)


@pytest.mark.parametrize("peer", survey.PEERS)
def test_survey(peer):
    """What others cannot compute is left out; what they can is NumPy's answer."""
    a = np.linspace(-1, 1, 12).reshape(3, 4)
    call = survey.PEERS[peer]("np.exp(a) - a.mean()", ["a"], [a])
    np.testing.assert_allclose(call(), np.exp(a) - a.mean(), 1e-14)
    assert (survey.PEERS[peer]("np.nanmax(a, axis=1)", ["a"], [a]) is None) == (peer == "numba")


STRINGS = [
    "2*a + 3*b - c", "a*b / (c + 1)", "a**3 - b**2", "(a > b) & (b < c)", "~(a <= b) | (c != 1)",
    "where(a > b, a*b, c)", "exp(-a*a/2)*sin(b) + log1p(abs(c))", "sqrt(a*a + b*b)",
    "arctan2(a, b) + arcsinh(c)", "expm1(a)*log10(b + 2)", "tanh(a - b)*cosh(c)", "-a + -b",
    "floor(3*a) + ceil(b)", "a % b", "1/(1 + exp(-a))", "sum(a*b)", "prod(a)",
]



@pytest.mark.parametrize("text", STRINGS)
def test_numexpr(text):
    """The command line's language and numexpr's agree where both have the words."""
    numexpr = pytest.importorskip("numexpr")
    rng = np.random.default_rng(0)
    data = dict(zip("abc", 0.5 + rng.random((3, 333)), strict=True))
    inputs, outputs = parse(text)
    got = ec.function(inputs, outputs)(*(data[x.name] for x in inputs))
    want = numexpr.evaluate(text, data, {})
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-13)


TORCH = {  # elemc's name: torch's
    "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "lgamma": "lgamma", "digamma": "digamma",
    "sigmoid": "sigmoid", "logit": "logit", "sinc": "sinc", "xlogy": "xlogy",
    "xlog1py": "special.xlog1py", "softplus": "nn.functional.softplus",
    "relu": "relu", "gelu": "nn.functional.gelu", "silu": "nn.functional.silu",
    "logaddexp": "logaddexp", "logaddexp2": "logaddexp2", "hypot": "hypot",
    "heaviside": "heaviside", "copysign": "copysign", "nextafter": "nextafter",
}


@pytest.mark.parametrize("name", TORCH)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_torch(name, dtype):
    """What scientists add to NumPy's operations, as PyTorch computes it."""
    torch = pytest.importorskip("torch")
    theirs = attrgetter(TORCH[name])(torch)
    op = OPS[name]
    rng = np.random.default_rng(0)
    args = [rng.uniform(low, high, 1001).astype(dtype) for low, high in op.domain]
    got = getattr(ec, name)(*args)
    want = theirs(*map(torch.from_numpy, args)).numpy()
    assert got.dtype == want.dtype
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(got, want, rtol=200 * eps, atol=20 * eps)


ROWS = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean,
    "var": np.var, "std": np.std, "any": np.any, "all": np.all, "argmax": np.argmax,
    "argmin": np.argmin, "nansum": np.nansum, "nanmax": np.nanmax,
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_jax(name, axis):
    """The same NumPy code under `ec.compile` and under `jax.jit`."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    x = np.random.default_rng(0).normal(size=(37, 53))
    if name.startswith("nan"):
        x[::5, ::7] = np.nan
    got = ec.compile(lambda x: ROWS[name](x * x - x, axis=axis))(x)
    want = np.asarray(jax.jit(lambda x: getattr(jax.numpy, name)(x * x - x, axis=axis))(x))
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-12)
