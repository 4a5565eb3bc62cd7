"""PyTensor: the same code over its symbolic tensors, compiled through numba."""

from typing import Any

import pytensor
import pytensor.tensor as pt

from ..workloads import Workload

VERSION = pytensor.__version__
MODE = "NUMBA"

pytensor.config.blas__ldflags = ""  # or it looks for a BLAS, which no workload needs, and warns


def set_threads(count: int) -> None:
    """Leave it as it is: its loops are serial."""


def prepare(work: Workload, operands: list[Any], outs: list[Any] | None) -> Any:
    """Natural calls only, of a function that knows dtypes and ranks and trusts its arguments."""
    if outs is not None:
        return None
    # Constants take the dtype of floatX, and so does what is computed with them.
    with pytensor.config.change_flags(floatX=operands[0].dtype.name):
        inputs = [pt.tensor(dtype=a.dtype.name, shape=(None,) * a.ndim) for a in operands]
        results = work.numpy(pt)(*inputs)
        if work.wrt:
            results = pytensor.grad(results, [inputs[i] for i in work.wrt])
        compiled = pytensor.function(inputs, results, mode=MODE, trust_input=True)
    return lambda: compiled(*operands)
