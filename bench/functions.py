"""The functions of the math library against libmvec's, by which plain C loops are vectorized."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from timeit import Timer

import numpy as np

from . import native
from .measure import Ratio, fault, paired

NAMES = "exp expm1 log log1p sinh cosh tanh power sin cos arctan".split()
C_NAMES = {"power": "pow", "arctan": "atan"}
C_TYPES = {"float64": "double", "float32": "float"}
ELEMENTS = 1 << 14  # they stay in the second cache
CALLS = 20
LOOP = """#include <math.h>
void {name}_{type}(long n, void **p)
{{
  const {type} *x = p[0], *y = p[1];
  {type} *restrict out = p[2];
  for (long i = 0; i < n; i++) out[i] = {c}{end}(x[i]{more});
}}
"""


def times(dtypes: Sequence[str], rounds: int) -> Iterator[tuple[str, str, float, float, Ratio]]:
    """Function, dtype, median ns per element of elemc and of plain C, and the latter by the former.

    Raises
    ------
    RuntimeError
        If there is no compiler, or an answer of plain C's is not elemc's.
    """
    import elemc

    source = "".join(LOOP.format(name=name, type=kind, c=C_NAMES.get(name, name), end=end,
                                 more=", y[i]" if name == "power" else "")
                     for name in NAMES for kind, end in (("double", ""), ("float", "f")))
    library = native.library(source)
    rng = np.random.default_rng(0)
    for name in NAMES:
        fn = getattr(np, name)
        compiled = elemc.compile((lambda x, y, fn=fn: fn(x, y)) if fn.nin == 2 else
                                 (lambda x, fn=fn: fn(x)))
        for dtype in dtypes:
            kind = C_TYPES[dtype]
            x, y = rng.uniform(0.1, 3, (2, ELEMENTS)).astype(dtype)
            outs = [np.empty_like(x) for _ in range(2)]
            loop, place = getattr(library, f"{name}_{kind}"), native.pointers([x, y, outs[1]])
            args = (x, y)[:fn.nin]
            calls = (lambda f=compiled, args=args, out=outs[0]: f(*args, out=out),
                     lambda loop=loop, place=place: loop(ELEMENTS, place))
            samples = [[Timer(call).timeit(CALLS) / CALLS / ELEMENTS * 1e9 for call in calls]
                       for _ in range(rounds + 1)][1:]
            if problem := fault(outs[1], (outs[0],)):
                raise RuntimeError(f"{name} of {dtype} in C: {problem}")
            ours, theirs = np.array(samples).T
            ratio = paired(theirs, ours)
            yield name, dtype, float(np.median(ours)), float(np.median(theirs)), ratio
