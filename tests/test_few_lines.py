"""Folds of a few elements, of lines that are written, too: vectors go along the lines."""

import numpy as np
import pytest

import elemc as ec

FUNCTIONS = {
    "centred": lambda a, b: (lambda t: t - np.mean(t, axis=1, keepdims=True))(b * 1.03 + a),
    "maxima": lambda a, b: a - np.max(a, axis=1, keepdims=True),
    "two": lambda a, b: (a - np.mean(a, axis=1, keepdims=True)) * np.sum(a * b, axis=1, keepdims=True),
    "quotients": lambda a, b: a / np.sum(a * a + b, axis=1, keepdims=True)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_lines_of_a_few_rows(name):
    """Rows that are whole pages would meet in the cache, if they are six and more."""
    f, columns = ec.compile(FUNCTIONS[name]), ec.compile(FUNCTIONS[name])
    for rows, length, whole in ((3, 1000, False), (5, 1024, False), (6, 1024, True), (6, 1000, False),
                                (8, 2048, True), (8, 1016, False), (9, 1000, True)):
        a = np.random.default_rng(rows).standard_normal((4, rows, length))
        b = np.random.default_rng(length).standard_normal(rows)[:, None]
        got = f(a, b)
        np.testing.assert_allclose(got, FUNCTIONS[name](a, b), rtol=1e-9, atol=1e-10)
        np.testing.assert_array_equal(columns(a[:, :, ::-1], b)[:, :, ::-1], got)
        text = f.dump(a, b)
        assert ("STRIP" in text) == whole
        assert whole or "INDEPENDENT for (int64_t i1 = 0; i1 < n1; i1++) {\n      /* " in text
        assert whole or text.count("AT(double, z_p") == 1  # where nothing waits
