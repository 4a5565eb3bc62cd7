"""PyTorch, eager: the same code over torch's functions, which know NumPy's argument names."""

from types import SimpleNamespace
from typing import Any

import torch

from ..gradients import Function
from ..workloads import Workload

VERSION = torch.__version__

NAMESPACE = SimpleNamespace(
    abs=torch.abs, exp=torch.exp, log=torch.log, log1p=torch.log1p, max=torch.amax,
    maximum=torch.clamp_min, mean=torch.mean, prod=torch.prod, sin=torch.sin, sqrt=torch.sqrt,
    sum=torch.sum, tanh=torch.tanh, where=torch.where,
)


def set_threads(count: int) -> None:
    """Use `count` threads."""
    torch.set_num_threads(count)


def prepare(work: Workload, operands: list[Any], outs: list[Any] | None) -> Any:
    """Natural calls only, on tensors that share the operands' memory."""
    return None if outs is not None else over(work.numpy(NAMESPACE), work, operands)


def over(function: Function, work: Workload, operands: list[Any]) -> Any:
    """A call of `function`, or of its forward and backward pass."""
    tensors = [torch.from_numpy(operand) for operand in operands]
    if not work.wrt:
        return lambda: function(*tensors)
    wanted = [tensors[i].requires_grad_() for i in work.wrt]
    return lambda: torch.autograd.grad(function(*tensors), wanted)
