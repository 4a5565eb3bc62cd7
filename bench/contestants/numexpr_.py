"""numexpr: the workload's expressions, one call per output."""

import re
from typing import Any

import numexpr

from ..workloads import Workload

VERSION = numexpr.__version__


def set_threads(count: int) -> None:
    """Use `count` threads."""
    numexpr.set_num_threads(count)


def typed_constants(text: str, names: dict[str, Any], scalar: Any) -> str:
    """Name the constants of `text`: written as digits they would be float64, and so the result."""
    if scalar(0).itemsize == 8:
        return text

    def name(match: re.Match[str]) -> str:
        constant = "k" + match.group().replace(".", "_")
        names[constant] = scalar(match.group())
        return constant

    return re.sub(r"\d+\.\d+", name, text)


def prepare(work: Workload, operands: list[Any], outs: list[Any] | None) -> Any:
    """`numexpr.evaluate`, told not to look for names in the caller's frames."""
    if not work.numexpr:
        return None
    views = work.views(*operands) if work.views else operands
    names = dict(zip("abcde", views, strict=False))
    texts = [typed_constants(text, names, operands[0].dtype.type) for text in work.numexpr]
    if outs is None:
        def call() -> list[Any]:
            return [numexpr.evaluate(text, names, {}) for text in texts]
    else:
        def call() -> list[Any]:
            return [numexpr.evaluate(text, names, {}, out=out, casting="same_kind")
                    for text, out in zip(texts, outs, strict=True)]
    return call
