"""Sums of products: dot, matmul, einsum and their like, as broadcasting and accumulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .accumulators import accumulator
from .array import Array, as_node
from .constructors import diagonal
from .errors import ArgumentError, AxisError, ShapeError, UnsupportedError
from .graph import Accumulate, make, note_source
from .indexing import axis_of


def einsum(subscripts: str, *operands: Any) -> Any:
    """A sum of products in Einstein's notation, `einsum("ij,jk->ik", a, b)`.

    Parameters
    ----------
    subscripts : str
        A letter per axis of each operand; labels missing after `->` are summed.  Without `->`,
        labels that appear once are kept, in alphabetical order.  `...` are axes that broadcast.
    *operands : Array

    A label twice in one operand takes its diagonal.
    """
    return _einsum(subscripts, operands, False)


def _einsum(subscripts: str, operands: Sequence[Any], matched: bool) -> Any:
    """The same; `matched`: summed axes are of one size, and none is stretched."""
    arrays = _ranks(*operands)
    terms, right = _labels(subscripts, arrays)
    for term, x in zip(terms, arrays, strict=True):
        if len(term) != x.ndim:
            raise ShapeError(f"einsum {subscripts!r}: the term {term!r} has {len(term)} labels for "
                             f"an operand of rank {x.ndim}")
    pairs = [_without_diagonals(term, x) for term, x in zip(terms, arrays, strict=True)]
    labels = sorted(set("".join(terms)))
    if len(set(right)) < len(right) or not set(right) <= set(labels):
        raise ArgumentError(f"einsum {subscripts!r}: the result {right!r} repeats a label or has "
                            "one that no operand has")
    summed = [c for c in labels if c not in right]
    every = right + "".join(summed)
    product = None
    for term, x in pairs:
        order = [term.index(c) for c in every if c in term]
        spread = x.transpose(order) if order != list(range(x.ndim)) else x
        if len(term) < len(every):
            spread = spread[tuple(slice(None) if c in term else None for c in every)]
        product = spread if product is None else product * spread
    axes = tuple(range(len(right), len(every)))
    return _sum(product, axes, matched) if axes else product


def _without_diagonals(term: str, x: Any) -> tuple[str, Any]:
    """`term` with each label once, over the diagonals of `x`."""
    for label in sorted(set(term)):
        while term.count(label) > 1:
            x = diagonal(x, 0, one := term.index(label), term.index(label, one + 1))
            term = term.replace(label, "", 2) + label
    return term, x


def _labels(subscripts: str, arrays: list[Any]) -> tuple[list[str], str]:
    """The labels of each operand and of the result; `...` is spelled out."""
    if not isinstance(subscripts, str):
        raise UnsupportedError("einsum takes its subscripts as a string")
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    bare = [text.replace("...", "") for text in (*terms, right)]
    if not "".join(bare).isalpha() and "".join(bare):
        raise ArgumentError(f"einsum {subscripts!r}: labels are letters")
    if len(terms) != len(arrays):
        raise ArgumentError(f"einsum {subscripts!r} has {len(terms)} terms for {len(arrays)} "
                            "operands")
    if any(text.count("...") > 1 for text in (*terms, right)):
        raise ArgumentError(f"einsum {subscripts!r} has ... twice in one place")
    more = [x.ndim - len(letters) if "..." in term else 0
            for term, letters, x in zip(terms, bare, arrays, strict=False)]
    spare = "".join(c for c in LETTERS if c not in subscripts)[:max(0, *more, 0)]
    if arrow and spare and "..." not in right:
        raise ArgumentError(f"einsum {subscripts!r}: the result needs ... too")
    terms = [t.replace("...", spare[len(spare) - max(n, 0):])
             for t, n in zip(terms, more, strict=True)]
    if not arrow:
        letters = "".join(bare)
        right = "..." + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    return terms, right.replace("...", spare)


def _sum(x: Any, axes: tuple[int, ...], matched: bool = True) -> Any:
    """A sum in the dtype of the products: matrix products do not widen integers."""
    fold = make(Accumulate, accumulator("sum"), x.node, axes, x.dtype, None, None,
                (("dtype", "same"), ("matched", matched)))
    note_source(fold)
    return Array(fold)


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _ranks(*operands: Any) -> list[Any]:
    return [Array(as_node(o)) for o in operands]


def dot(a: Any, b: Any) -> Any:
    """NumPy's dot: the last axis of `a` with the last but one of `b`."""
    a, b = _ranks(a, b)
    if not a.ndim or not b.ndim:
        return a * b
    left, right = LETTERS[:a.ndim], LETTERS[26:26 + b.ndim]
    shared = -1 if b.ndim == 1 else -2
    right = right.replace(right[shared], left[-1])
    return _einsum(f"{left},{right}->{left[:-1]}{right.replace(left[-1], '')}", (a, b), True)


def inner(a: Any, b: Any) -> Any:
    """NumPy's inner: a sum over the last axes."""
    a, b = _ranks(a, b)
    if not a.ndim or not b.ndim:
        return a * b
    left, right = LETTERS[:a.ndim], LETTERS[26:25 + b.ndim]
    return _einsum(f"{left},{right}{left[-1]}->{left[:-1]}{right}", (a, b), True)


def outer(a: Any, b: Any) -> Any:
    """All products of elements of two vectors."""
    a, b = _ranks(a, b)
    if a.ndim != 1 or b.ndim != 1:
        raise UnsupportedError("outer takes vectors, elemc does not flatten; index with None")
    return a[:, None] * b[None, :]


def vdot(a: Any, b: Any) -> Any:
    """The dot product of two vectors, the first conjugated."""
    a, b = _ranks(a, b)
    if a.ndim != b.ndim:
        raise ShapeError(f"vdot of ranks {a.ndim} and {b.ndim}: elemc does not flatten")
    return _sum(_conjugate(a) * b, tuple(range(a.ndim)))


def _conjugate(x: Any) -> Any:
    """NumPy's conjugate makes int8 of bools; its products do not."""
    return x if x.dtype == bool else np.conjugate(x)


def vecdot(a: Any, b: Any) -> Any:
    """NumPy's vecdot: dot products along the last axes, the first operand conjugated."""
    a, b = _ranks(a, b)
    if not a.ndim or not b.ndim:
        raise ShapeError("vecdot needs operands of rank 1 or more; use * for scalars")
    product = _conjugate(a) * b
    return _sum(product, (product.ndim - 1,))


def matmul(a: Any, b: Any) -> Any:
    """NumPy's matmul: stacks of matrices, broadcast."""
    a, b = _ranks(a, b)
    if not a.ndim or not b.ndim:
        raise ShapeError("matmul needs operands of rank 1 or more; use * for scalars")
    if a.ndim == 1 or b.ndim == 1:
        return dot(a, b)
    left = a[..., None]
    right = b[..., None, :, :]
    product = left * right
    return _sum(product, (product.ndim - 2,))


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """A sum over several pairs of axes."""
    a, b = _ranks(a, b)
    if isinstance(axes, int):
        listed = [tuple(range(-axes, 0)), tuple(range(axes))]
    else:
        listed = [(x,) if isinstance(x, int) else tuple(x) for x in axes]
    if len(listed) != 2 or len(listed[0]) != len(listed[1]):
        raise AxisError(f"tensordot: axes={axes} does not pair axes of the two operands")
    pairs = [(axis_of(i, a.ndim), axis_of(j, b.ndim)) for i, j in zip(*listed, strict=True)]
    left, right = list(LETTERS[:a.ndim]), list(LETTERS[26:26 + b.ndim])
    for i, j in pairs:
        right[j] = left[i]
    summed = {left[i] for i, _ in pairs}
    kept = "".join(c for c in left + right if c not in summed)
    return _einsum(f"{''.join(left)},{''.join(right)}->{kept}", (a, b), True)
