"""The examples on real input, each equal to NumPy."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_sample_image

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(scope="module")
def photograph():
    return runpy.run_path(str(EXAMPLES / "photograph.py")), load_sample_image("china.jpg")


@pytest.fixture(scope="module")
def tables():
    return runpy.run_path(str(EXAMPLES / "tables.py")), *load_breast_cancer(return_X_y=True)


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


@pytest.mark.parametrize("name", ["photograph", "tables"])
def test_they_print(name, capsys):
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) >= 4
