"""Student's t regression by Newton's method: cost, gradient and Hessian products are compiled."""

import numpy as np
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer

import elemc as ec


@ec.compile
def log_density(residual, scale, freedom):
    """Student's t, as scipy.stats.t.logpdf."""
    half = (freedom + 1) / 2
    area = ec.lgamma(half) - ec.lgamma(freedom / 2) - np.log(np.pi * freedom) / 2 - np.log(scale)
    return area - half * np.log1p((residual / scale) ** 2 / freedom)


@ec.compile
def loss(p, x, y):
    """Mean negative log-likelihood; p: intercept, weights, log of scale, log of freedom."""
    residual = y - p[0] - x @ p[1:-2]
    return -log_density(residual, np.exp(p[-2]), np.exp(p[-1])).mean()


@ec.compile
def hessian_product(p, v, x, y):
    """The Hessian of the loss times `v`, without the Hessian: a gradient along `v`, again."""
    return ec.grad((ec.grad(loss)(p, x, y) * v).sum(), p)


def fit(x, y):
    """SciPy's result of least loss, from a normal distribution that knows nothing of `x`."""
    start = np.concatenate([[y.mean()], np.zeros(x.shape[1]), [np.log(y.std()), np.log(10.0)]])
    return minimize(ec.value_and_grad(loss), start, (x, y), jac=True, method="trust-ncg",
                    hessp=hessian_product, options={"gtol": 1e-7})


def tumours():
    """Ten features of the nuclei of tumours, standardised, and the worst radius in each."""
    table = load_breast_cancer().data
    x = table[:, :10]
    return (x - x.mean(axis=0)) / x.std(axis=0), table[:, 20]


def main() -> None:
    """Fit the table and print what came out."""
    x, y = tumours()
    found = fit(x, y)
    print(found.message, "Steps:", found.nit, "Hessian products:", found.nhev)
    print("loss   ", found.fun)
    print("scale  ", np.exp(found.x[-2]), " freedom", np.exp(found.x[-1]))
    print("weights", found.x[1:-2].round(2))


if __name__ == "__main__":
    main()
