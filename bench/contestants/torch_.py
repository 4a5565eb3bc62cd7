"""PyTorch, eager: the same code over torch's functions, which know NumPy's argument names."""

from types import SimpleNamespace
from typing import Any

import torch

from ..workloads import Workload

VERSION = torch.__version__

NAMESPACE = SimpleNamespace(
    abs=torch.abs, exp=torch.exp, log=torch.log, log1p=torch.log1p, max=torch.amax,
    mean=torch.mean, sin=torch.sin, sqrt=torch.sqrt, sum=torch.sum, where=torch.where,
)


def set_threads(count: int) -> None:
    """Use `count` threads."""
    torch.set_num_threads(count)


def prepare(work: Workload, operands: list[Any], outs: list[Any] | None) -> Any:
    """Natural calls only, on tensors that share the operands' memory."""
    if outs is not None:
        return None
    function = work.numpy(NAMESPACE)
    tensors = [torch.from_numpy(operand) for operand in operands]
    return lambda: function(*tensors)
