"""Generalised linear models as scikit-learn fits them: a cost, its compiled gradient, L-BFGS."""

import numpy as np
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

import elemc as ec


@ec.compile
def standardise(x):
    """Columns with mean 0 and standard deviation 1; constant columns become 0."""
    spread = x.std(axis=0)
    return (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


@ec.compile
def logistic(w, x, y, c):
    """Cost of `LogisticRegression(C=c)` for labels 0 and 1; the intercept w[0] is not penalised."""
    score = x @ w[1:] + w[0]
    return c * (np.logaddexp(0, score) - y * score).sum() + (w[1:] ** 2).sum() / 2


@ec.compile
def multinomial(w, x, y, c):
    """The same for labels 0, 1, 2, ...: a column of weights for each, below its intercept."""
    score = x @ w[1:] + w[0]
    chosen = np.where(y[:, None] == ec.arange(w.shape[1]), score, 0).sum(axis=1)
    return c * (ec.logsumexp(score, axis=1) - chosen).sum() + (w[1:] ** 2).sum() / 2


@ec.compile
def poisson(w, x, y, alpha):
    """Cost of `PoissonRegressor(alpha)` without the terms that know nothing of `w`."""
    score = x @ w[1:] + w[0]
    return (np.exp(score) - y * score).mean() + alpha * (w[1:] ** 2).sum() / 2


def fit(cost, shape, *data):
    """The weights of least cost, by L-BFGS from 0, and how many steps it took."""
    both = ec.value_and_grad(cost)

    def flat(w):
        value, slope = both(w.reshape(shape), *data)
        return value, slope.ravel()

    tight = {"ftol": 1e-15, "gtol": 1e-7, "maxiter": 5000, "maxfun": 10000}
    found = minimize(flat, np.zeros(np.prod(shape)), jac=True, method="L-BFGS-B", options=tight)
    return found.x.reshape(shape), found.nit


def main() -> None:
    """Fit the three to scikit-learn's tables and print what came out."""
    x, y = load_breast_cancer(return_X_y=True)
    z = standardise(x)
    print("standardised", z.shape, "columns' deviation", z.std(axis=0).mean())
    w, steps = fit(logistic, 31, z, y, 1.0)
    print("logistic     steps", steps, "right", ((z @ w[1:] + w[0] > 0) == y).mean())
    x, y = load_digits(return_X_y=True)
    z = standardise(x)
    w, steps = fit(multinomial, (65, 10), z, y, 0.01)
    print("multinomial  steps", steps, "right", ((z @ w[1:] + w[0]).argmax(axis=1) == y).mean())
    x, y = load_diabetes(return_X_y=True)
    z = standardise(x)
    w, steps = fit(poisson, 11, z, y, 0.1)
    print("poisson      steps", steps, "deviation", (y - np.exp(z @ w[1:] + w[0])).std(),
          "of", y.std())


if __name__ == "__main__":
    main()
