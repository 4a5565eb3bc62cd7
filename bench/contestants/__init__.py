"""The contestants: one module each, all with the same three names.

* `VERSION`: a string for the report;
* `set_threads(count)`: called once, before anything is prepared;
* `prepare(work, operands, outs)`: a callable without arguments that computes the workload and
  returns its outputs (`outs` is None: a natural call, else they are to be filled), or None where
  the contestant has no such call.  What it returns is ready when the call returns.  Of a workload
  with `wrt`, the outputs are gradients, taken in the contestant's own way.

Those in `MACHINE` are no packages but C loops that come with the benchmarks, those in `OWN` are
elemc itself, called otherwise.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import numpy as np

from ..workloads import Workload

Call = Callable[[], Any]

PEERS = ("numpy", "numexpr", "numba", "jax", "torch", "autograd", "pytensor", "torch_compile")
LIMITS = ("limit", "limit_stream")  # they compute nothing
MACHINE = ("plain_c", *LIMITS)  # what the machine can do
OWN = ("elemc_contract", "elemc_one", "elemc_again")  # elemc called otherwise, or once more
NAMES = ("elemc", *OWN, *PEERS, *MACHINE)
DEFAULT = ("elemc", *PEERS[:-1])  # torch.compile takes a minute per table: on request


class Contestant(Protocol):
    """What a contestant's module holds."""

    VERSION: str

    def set_threads(self, count: int) -> None:
        """Use `count` threads from now on."""

    def prepare(
        self, work: Workload, operands: list[np.ndarray], outs: list[np.ndarray] | None
    ) -> Call | None:
        """Return a call that is ready to be timed, or None."""


def load(names: Sequence[str], threads: int) -> tuple[dict[str, Contestant], dict[str, str]]:
    """Import contestants; those whose package is not installed come back with the reason."""
    found: dict[str, Contestant] = {}
    missing: dict[str, str] = {}
    for name in names:
        try:
            module = importlib.import_module(f"{__name__}.{name}_")
        except ImportError as error:
            missing[name] = str(error)
            continue
        found[name] = cast(Contestant, module)
        found[name].set_threads(threads)
    return found, missing
