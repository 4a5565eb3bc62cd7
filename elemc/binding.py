"""Binding the arrays of one call to a kernel, in Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from . import runtime
from .arguments import known, overlap, places_of, same
from .bounds import bounds_of_rows
from .compiler import Closed
from .quotients import folds
from .sharing import crossing
from .specialize import Signature, line_extents

FEW = 1024  # bytes of the largest input from which on rows have kernels; as in callable.c


def signature_of(closed: Closed, sizes: Sequence[int], ins: Sequence[np.ndarray],
                 outs: Sequence[np.ndarray | None], reqs: Sequence[str],
                 mask: np.ndarray | None = None) -> Signature:
    """What the kernel may depend on of a call on these arrays, with extents `sizes`."""
    signature = Signature(
        frozenset(e for e, n in enumerate(sizes) if n == 1), tuple(map(runtime.given, ins)),
        tuple(None if o is None or r == "null" else runtime.given(o)
              for o, r in zip(outs, reqs, strict=True)),
        tuple(reqs), None if mask is None else runtime.given(mask),
        () if mask is None else tuple(n == 1 for n in mask.shape))
    spec = closed.specialized(signature)
    # whether its lines are long enough is known once their lengths are
    large = sum(known(o).itemsize * math.prod(sizes[e] for e in closed.extents.of[o])
                for o in closed.graph.outputs) >= runtime.large_bytes()
    most = max((a.nbytes for a in ins), default=0)
    if most >= FEW:
        far = most >= runtime.large_bytes() and folds(spec)
        third = not far and folds(spec) and sum(a.nbytes for a in ins) > runtime.second_bytes()
        rows = bounds_of_rows(replace(spec, far=far, third=third, large=large), sizes)
        signature = replace(signature, far=far, third=third,
                            bounds=frozenset((e, *b) for e, b in rows.items()))
        spec = closed.specialized(signature)
    return replace(signature, large=large and runtime.outgrows_caches(line_extents(spec), sizes),
                   crossed=runtime.crosses(crossing(spec), ins, sizes))


def run(function: Any, closed: Closed, arrays: Sequence[np.ndarray], sizes: Sequence[int],
        shapes: Sequence[tuple[int, ...]], outs: Sequence[np.ndarray | None], reqs: Sequence[str],
        mask: np.ndarray | None) -> list[np.ndarray | None]:
    """Call the kernel that `function` has for these arrays; gives the outputs."""
    ins = [*arrays, *(c.array.data for c in closed.graph.captured)]
    signature = signature_of(closed, sizes, ins, outs, reqs, mask)
    compiled = function.specialize(closed, signature)
    if mask is not None:
        ins.append(mask)
    operands: list[np.ndarray] = list(ins)
    results: list[np.ndarray | None] = []
    copies: list[tuple[np.ndarray, np.ndarray]] = []
    for k, (o, r) in enumerate(zip(outs, reqs, strict=True)):
        if r == "null":
            results.append(None)
            continue
        here = len(operands)
        perm = compiled.spec.operands[here].layout.perm
        if o is None:
            o = runtime.allocate(shapes[k], known(closed.graph.outputs[k]), perm, mask is not None)
            operands.append(o)
        elif any(overlap(o, a) and not (same(o, a) and (here, j) in compiled.in_place)
                 for j, a in enumerate(ins)):
            # some element would be written before it is read for the last time
            copy = o.copy(order="K")
            copies.append((o, copy))
            operands.append(copy)
        else:
            operands.append(o)
        results.append(o)
    if copies:
        compiled = function.specialize(closed, replace(signature, outputs=tuple(
            None if o is None or r == "null" else runtime.given(operands[j]) for j, (o, r) in
            zip(places_of(reqs, len(ins)), zip(outs, reqs, strict=True), strict=True))))
    if status := runtime.launch(compiled, operands, sizes, closed.extents.program):
        runtime.fail(status, function)
    for o, copy in copies:
        o[...] = copy
    if not copies and "null" not in reqs:
        function._register(closed, compiled, signature, arrays, sizes, outs, mask)
    return results
