"""HIPS autograd: NumPy that remembers what it does; gradients only, for it computes as NumPy."""

from importlib.metadata import version
from typing import Any

import autograd
import autograd.numpy as anp

from ..workloads import Workload

VERSION = version("autograd")


def set_threads(count: int) -> None:
    """Leave it as it is: NumPy computes elementwise work on one thread."""


def prepare(work: Workload, operands: list[Any], outs: list[Any] | None) -> Any:
    """Natural calls of `autograd.grad`, which fills no given arrays."""
    if outs is not None or not work.wrt:
        return None
    gradient = autograd.grad(work.numpy(anp), work.wrt)
    return lambda: gradient(*operands)
