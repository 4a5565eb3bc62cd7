"""PyTorch through `torch.compile`, which needs a C++ compiler."""

from typing import Any

import torch

from ..workloads import Workload
from .torch_ import NAMESPACE, VERSION, over, set_threads

__all__ = ["VERSION", "prepare", "set_threads"]


def prepare(work: Workload, operands: list[Any], outs: list[Any] | None) -> Any:
    """Natural calls only, compiled for exactly these shapes."""
    if outs is not None:
        return None
    compiled = torch.compile(work.numpy(NAMESPACE), dynamic=False)
    return over(compiled, work, operands)
