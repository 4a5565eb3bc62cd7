"""Real data tables: standardise, softmax, log-likelihood and pairwise distances."""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

import elemc as ec


@ec.compile
def standardise(x):
    """Columns with mean 0 and standard deviation 1; constant columns become 0."""
    spread = x.std(axis=0)
    return (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


@ec.compile
def softmax(x):
    """Rows of probabilities."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@ec.compile
def log_likelihood(x, weights, bias, label):
    """Mean log-likelihood of labels 0 and 1 under a logistic model."""
    score = (x * weights).sum(axis=-1) + bias
    return np.mean(label * score - ec.softplus(score))


@ec.compile
def squared_distances(x, y):
    """Squared distances of all rows of `x` to all rows of `y`, without an array of rank 3."""
    return ((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=-1)


def main() -> None:
    """Run the four on scikit-learn's tables and print what came out."""
    table, label = load_breast_cancer(return_X_y=True)
    digits = load_digits().data
    z = standardise(table)
    weights = np.full(z.shape[1], -0.1)
    nearest = squared_distances(digits[:200], digits[200:]).argmin(axis=1)
    print("standardised", z.shape, "columns' deviation", z.std(axis=0).mean())
    print("softmax of digits, rows sum to", softmax(digits).sum(axis=1).mean())
    print("log-likelihood", log_likelihood(z, weights, 0.5, label))
    print("nearest neighbours of the first digits", nearest[:5] + 200)


if __name__ == "__main__":
    main()
