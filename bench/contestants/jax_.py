"""JAX: the same NumPy code, or its `jax.grad`, under `jax.jit`, on the CPU."""

from typing import Any

import jax
import jax.numpy as jnp

from ..workloads import Workload

VERSION = jax.__version__

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")


def set_threads(count: int) -> None:
    """Leave it to the process: XLA's pool takes its size from the cores the process may use."""


def prepare(work: Workload, operands: list[Any], outs: list[Any] | None) -> Any:
    """Natural calls only, on arrays that JAX holds already; JAX fills no given arrays."""
    if outs is not None:
        return None
    function = work.numpy(jnp)
    compiled = jax.jit(jax.grad(function, work.wrt) if work.wrt else function)
    arrays = [jnp.asarray(operand) for operand in operands]
    return lambda: jax.block_until_ready(compiled(*arrays))
