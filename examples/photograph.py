"""A real photograph: gamma, luminance, and local contrast from row and column statistics."""

import numpy as np
from sklearn.datasets import load_sample_image

import elemc as ec


@ec.compile
def gamma(image, exponent):
    """Apply a power law to an image of bytes; returns values from 0 to 1."""
    return (image / np.float32(255)) ** exponent


_image = ec.array("image", 3, "uint8")
_weights = ec.array("weights", 1, "float32")

luminance = ec.function(
    [_image, _weights],
    ec.sum(_image * _weights, axis=-1),
    name="luminance",
)
"""Weighted sum of the channels: uint8 in, float32 out, no float image in between."""

_gray = ec.array("gray", 2, "float32")
_row_gain = ec.array("gain", 1, "float32")

expose = ec.function([_gray, _row_gain], _gray * _row_gain, order="c", name="expose")
"""One gain per row: order c aligns the gains with the leading axis."""


@ec.compile
def local_contrast(gray):
    """Distance of a pixel from the mean of its row and column, in their standard deviations."""
    mean = (gray.mean(axis=1, keepdims=True) + gray.mean(axis=0, keepdims=True)) / 2
    spread = gray.std(axis=1, keepdims=True) + gray.std(axis=0, keepdims=True)
    return (gray - mean) / (spread + np.float32(1e-6))


def main() -> None:
    """Process the photograph and print what came out."""
    image = load_sample_image("china.jpg")
    gray = luminance(image, np.array([0.2126, 0.7152, 0.0722], np.float32))
    gains = np.linspace(0.5, 1.5, len(gray), dtype=np.float32)
    print("photograph", image.shape, image.dtype)
    print("gamma      mean", gamma(image, np.float32(2.2)).mean())
    print("luminance  mean", gray.mean())
    print("exposed    mean", expose(gray, gains).mean())
    print("contrast   deviation", local_contrast(gray).std())


if __name__ == "__main__":
    main()
