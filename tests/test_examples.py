"""The examples on real input, each equal to NumPy."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_sample_image
from sklearn.linear_model import LogisticRegression, PoissonRegressor

import elemc as ec

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(scope="module")
def photograph():
    return runpy.run_path(str(EXAMPLES / "photograph.py")), load_sample_image("china.jpg")


@pytest.fixture(scope="module")
def tables():
    return runpy.run_path(str(EXAMPLES / "tables.py")), *load_breast_cancer(return_X_y=True)


@pytest.fixture(scope="module")
def regression():
    return runpy.run_path(str(EXAMPLES / "regression.py"))


@pytest.fixture(scope="module")
def likelihood():
    names = runpy.run_path(str(EXAMPLES / "likelihood.py"))
    x, y = names["tumours"]()
    return names, x, y, names["fit"](x, y)


@pytest.fixture(scope="module")
def denoise():
    names = runpy.run_path(str(EXAMPLES / "denoise.py"))
    return names, *names["noisy_photograph"](0.1)


def test_gamma(photograph):
    names, image = photograph
    got = names["gamma"](image, np.float32(2.2))
    want = (image / np.float32(255)) ** np.float32(2.2)
    assert got.dtype == want.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_luminance_and_contrast(photograph):
    names, image = photograph
    weights = np.array([0.2126, 0.7152, 0.0722], np.float32)
    gray = names["luminance"](image, weights)
    assert gray.dtype == np.float32
    np.testing.assert_allclose(gray, (image * weights).sum(axis=-1), rtol=1e-6)
    gains = np.linspace(0.5, 1.5, len(gray), dtype=np.float32)
    np.testing.assert_array_equal(names["expose"](gray, gains), gray * gains[:, None])
    mean = (gray.mean(axis=1, keepdims=True) + gray.mean(axis=0, keepdims=True)) / 2
    spread = gray.std(axis=1, keepdims=True) + gray.std(axis=0, keepdims=True)
    want = (gray - mean) / (spread + np.float32(1e-6))
    np.testing.assert_allclose(names["local_contrast"](gray), want, atol=2e-5)


def test_standardise_and_likelihood(tables):
    names, table, label = tables
    z = names["standardise"](table)
    np.testing.assert_allclose(z, (table - table.mean(axis=0)) / table.std(axis=0), rtol=1e-10,
                               atol=1e-12)
    weights = np.linspace(-0.2, 0.1, table.shape[1])
    score = z @ weights + 0.5
    want = np.mean(label * score - np.logaddexp(score, 0))
    np.testing.assert_allclose(names["log_likelihood"](z, weights, 0.5, label), want, rtol=1e-12)


def test_softmax_and_distances(tables):
    names = tables[0]
    digits = load_digits().data
    e = np.exp(digits - digits.max(axis=-1, keepdims=True))
    np.testing.assert_allclose(names["softmax"](digits), e / e.sum(axis=-1, keepdims=True), rtol=1e-13)
    got = names["squared_distances"](digits[:50], digits)
    want = ((digits[:50, None, :] - digits[None, :, :]) ** 2).sum(axis=-1)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "cost, load, shape, strength, model",
    [
        ("logistic", load_breast_cancer, 31, 1.0, LogisticRegression(C=1.0, tol=1e-8, max_iter=5000)),
        ("logistic", load_breast_cancer, 31, 0.01, LogisticRegression(C=0.01, tol=1e-8)),
        ("multinomial", load_digits, (65, 10), 0.01, LogisticRegression(C=0.01, tol=1e-6, solver="newton-cg")),
        ("poisson", load_diabetes, 11, 0.1, PoissonRegressor(alpha=0.1, tol=1e-8, max_iter=5000)),
    ],
)
def test_regressions_agree_with_scikit_learn(regression, cost, load, shape, strength, model):
    x, y = load(return_X_y=True)
    z = regression["standardise"](x)
    w, _ = regression["fit"](regression[cost], shape, z, y, strength)
    model.fit(z, y)
    np.testing.assert_allclose(w[1:], model.coef_.T.reshape(w[1:].shape), rtol=0, atol=1e-4)
    np.testing.assert_allclose(np.ravel(w[0]), np.ravel(model.intercept_), rtol=0, atol=1e-4)


def test_multinomial_slope_by_hand(regression):
    x, y = load_digits(return_X_y=True)
    w = np.random.default_rng(0).normal(size=(65, 10)) / 10
    score = x @ w[1:] + w[0]
    e = np.exp(score - score.max(axis=1, keepdims=True))
    off = 0.5 * (e / e.sum(axis=1, keepdims=True) - np.eye(10)[y])
    want = np.concatenate([off.sum(axis=0, keepdims=True), x.T @ off + w[1:]])
    got = ec.grad(regression["multinomial"])(w, x, y, 0.5)
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)


def test_student_density_slope_and_curvature(likelihood):
    names, x, y, _ = likelihood
    rng = np.random.default_rng(0)
    p, v = np.append(rng.normal(size=11), [0.3, 1.1]), rng.normal(size=13)
    residual = y - p[0] - x @ p[1:-2]
    want = stats.t.logpdf(residual, np.exp(p[-1]), scale=np.exp(p[-2]))
    got = names["log_density"](residual, np.exp(p[-2]), np.exp(p[-1]))
    np.testing.assert_allclose(got, want, rtol=1e-13)
    ec.check_vjp(names["loss"], p, x, y)
    slope, h = ec.grad(names["loss"]), 1e-5
    product = names["hessian_product"](p, v, x, y)
    differences = (slope(p + h * v, x, y) - slope(p - h * v, x, y)) / (2 * h)
    np.testing.assert_allclose(product, differences, rtol=1e-6, atol=1e-8)


def test_student_fit_is_an_optimum(likelihood):
    names, x, y, found = likelihood
    assert found.success and np.exp(found.x[-1]) < 3
    hessian = np.array([names["hessian_product"](found.x, v, x, y) for v in np.eye(13)])
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-10, atol=1e-12)
    assert np.linalg.eigvalsh(hessian)[0] > 0

    # SciPy's own fit of scale and freedom to what is left, and of all by differences
    freedom, _, scale = stats.t.fit(y - found.x[0] - x @ found.x[1:-2], floc=0)
    np.testing.assert_allclose([scale, freedom], np.exp(found.x[-2:]), rtol=1e-3)

    def cost(p):
        residual = y - p[0] - x @ p[1:-2]
        return -stats.t.logpdf(residual, np.exp(p[-1]), scale=np.exp(p[-2])).mean()

    start = np.concatenate([[y.mean()], np.zeros(10), [np.log(y.std()), np.log(10)]])
    other = minimize(cost, start, method="BFGS")
    assert found.fun <= other.fun + 1e-12
    np.testing.assert_allclose(found.x, other.x, rtol=0, atol=1e-3)


def test_denoising_slope_by_hand(denoise):
    names, clean, noisy = denoise
    across, down = noisy[:-1, 1:] - noisy[:-1, :-1], noisy[1:, :-1] - noisy[:-1, :-1]
    lengths = np.sqrt(across**2 + down**2 + 0.03**2)
    want = noisy - clean
    want[:-1, 1:] += 0.15 * across / lengths
    want[1:, :-1] += 0.15 * down / lengths
    want[:-1, :-1] -= 0.15 * (across + down) / lengths
    value, slope = names["cost_and_slope"](noisy, clean, 0.15, 0.03)
    np.testing.assert_allclose(slope, want, rtol=0, atol=1e-14)
    np.testing.assert_allclose(value, ((noisy - clean) ** 2).sum() / 2 + 0.15 * lengths.sum(), rtol=1e-13)
    stepped = names["descend"](noisy, clean, 0.15, 0.03)[1]
    np.testing.assert_allclose(stepped, noisy - want / 41, rtol=0, atol=1e-14)


def test_denoising_falls_and_denoises(denoise):
    names, clean, noisy = denoise
    u, costs = names["denoise"](noisy, 0.15, 0.03, 100)
    assert np.all(np.diff(costs) < 0)
    before, after = (-10 * np.log10(((image - clean) ** 2).mean()) for image in (noisy, u))
    assert after > before + 8
    np.testing.assert_allclose(names["decibels"](u, clean), after, rtol=1e-12)


@pytest.mark.parametrize("name", ["photograph", "tables", "regression", "likelihood", "denoise"])
def test_they_print(name, capsys):
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) >= 4
