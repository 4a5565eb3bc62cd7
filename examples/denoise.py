"""Total-variation denoising of a photograph: gradient descent on a compiled cost."""

import numpy as np
from sklearn.datasets import load_sample_image

import elemc as ec


@ec.compile
def cost(u, noisy, weight, eps):
    """Distance to the noisy image, and the lengths of the slopes of `u`, rounded off at 0."""
    across = u[:-1, 1:] - u[:-1, :-1]
    down = u[1:, :-1] - u[:-1, :-1]
    return 0.5 * ((u - noisy) ** 2).sum() + weight * np.sqrt(across**2 + down**2 + eps**2).sum()


cost_and_slope = ec.value_and_grad(cost)


@ec.compile
def descend(u, noisy, weight, eps):
    """The cost, and `u` after one step, in one pass: the slope itself is never stored.

    A slope changes by at most 1 + 8 weight / eps times the change of `u`, which gives the step.
    """
    value, slope = cost_and_slope(u, noisy, weight, eps)
    return value, u - slope / (1 + 8 * weight / eps)


def denoise(noisy, weight, eps, steps):
    """The image of less cost, and the cost before every step: it falls at each of them."""
    u, costs = noisy, []
    for _ in range(steps):
        value, u = descend(u, noisy, weight, eps)
        costs.append(float(value))
    return u, costs


@ec.compile
def decibels(u, clean):
    """Peak signal-to-noise ratio of an image of values from 0 to 1."""
    return -10 * np.log10(((u - clean) ** 2).mean())


def noisy_photograph(deviation):
    """A gray photograph of values from 0 to 1, clean and with noise."""
    clean = load_sample_image("flower.jpg").mean(axis=2) / 255
    return clean, clean + np.random.default_rng(0).normal(0, deviation, clean.shape)


def main() -> None:
    """Denoise and print what came out."""
    clean, noisy = noisy_photograph(0.1)
    u, costs = denoise(noisy, 0.15, 0.03, 100)
    print("photograph", clean.shape, clean.dtype)
    print("cost     from", costs[0], "to", costs[-1])
    print("noisy   ", decibels(noisy, clean), "dB")
    print("denoised", decibels(u, clean), "dB")


if __name__ == "__main__":
    main()
