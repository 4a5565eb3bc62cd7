"""What `help` says of the functions of the table of accumulators."""

from __future__ import annotations

from .accumulators import ACCUMULATORS, Composite
from .accumulators_results import result_dtype
from .dtypes import DTYPES, NAMES

SUMMARIES = {
    "sum": "The sum; 0 of nothing.",
    "prod": "The product; 1 of nothing.",
    "min": "The smallest; NaN if there is a NaN.",
    "max": "The greatest; NaN if there is a NaN.",
    "fmin": "The smallest that is no NaN.",
    "fmax": "The greatest that is no NaN.",
    "any": "Whether any is other than 0; False of nothing.",
    "all": "Whether all are other than 0; True of nothing.",
    "argmin": "Where the smallest is, the first of several; the first NaN if there is one.",
    "argmax": "Where the greatest is, the first of several; the first NaN if there is one.",
    "mean": "The arithmetic mean.",
    "var": "The variance, the mean of squared distances from the mean, divided by n - ddof.",
    "std": "The standard deviation, the square root of `var`.",
    "count_nonzero": "How many are other than 0.",
    "logsumexp": "log(sum(exp(x))), without overflow; -inf of nothing.",
    "norm": "The vector norm of order `ord`: 2, 1, 0, inf, -inf or any other number.",
    "norm1": "The sum of absolute values.",
    "norm2": "The square root of the sum of squared absolute values.",
    "norminf": "The greatest absolute value.",
    "ptp": "The greatest less the smallest.",
    "nansum": "The sum of what is no NaN.",
    "nanprod": "The product of what is no NaN.",
    "nanmax": "The greatest that is no NaN; NaN if all are.",
    "nanmin": "The smallest that is no NaN; NaN if all are.",
    "nanargmax": "Where the greatest is, NaNs apart; a DomainError if all are.",
    "nanargmin": "Where the smallest is, NaNs apart; a DomainError if all are.",
    "nanmean": "The mean of what is no NaN.",
    "nanvar": "The variance of what is no NaN.",
    "nanstd": "The standard deviation of what is no NaN.",
}

PAIRWISE = ("blocks are summed in lanes, and joined pairwise in a tree on every axis, so that "
            "rounding grows like log n; float16 is summed in float32")
TWO_PASSES = f"two passes, the mean first, then the squares of the distances from it; {PAIRWISE}"
LEFT = "from the left, in C order of the reduced axes"
METHODS = {
    "sum": PAIRWISE, "prod": "as `sum`", "mean": f"the sum by the count; {PAIRWISE}",
    "var": TWO_PASSES, "std": TWO_PASSES, "argmin": LEFT, "argmax": LEFT,
    "norm": "as `sum`; squares are not scaled", "norm1": "as `sum`",
    "norm2": "as `sum`; squares are not scaled", "nansum": "as `sum`", "nanprod": "as `prod`",
    "logsumexp": "two passes, m = max(x) first, then m + log(sum(exp(x - m))); the gradient is the "
                 "softmax, and if m is infinite, an equal share for each element that equals m",
    "nanmean": "as `mean`", "nanvar": "as `var`", "nanstd": "as `std`", "nanargmin": LEFT,
    "nanargmax": LEFT,
}

OPTIONS = {
    "axis": "int, tuple of int, or None: the axes that are folded; None: all",
    "keepdims": "bool: whether they are kept, with size 1",
    "where": "array of bool: which elements take part",
    "initial": "number: what the fold starts from",
    "dtype": "what elements are converted to before they are folded",
    "ddof": "number: taken from the count that is divided by, 0 if not given",
    "ord": "number: which norm, 2 if not given",
}

PLACES = {"argmin", "argmax", "nanargmin", "nanargmax"}
UNMASKED = {*PLACES, "ptp"}  # they have no identity, and take no initial=
STARTED = {"min", "max", "fmin", "fmax", "nanmin", "nanmax"}


def docstring(name: str) -> str:
    """What it computes, its options and dtypes, and the method."""
    lines = [SUMMARIES.get(name, f"`{name}` over some axes."), "",
             f"`{name}(x, axis=None, ...)` of a symbolic array; see `elemc.accumulate`.", ""]
    lines += [f"    {option}: {OPTIONS[option]}" for option in options(name)]
    if name in STARTED:
        lines += ["", "It has no identity: where= needs initial=."]
    lines += ["", "Dtypes of elements and result:", ""]
    lines += [f"    {row}" for row in _dtypes(name)]
    if name in METHODS:
        lines += ["", f"Method: {METHODS[name]}."]
    return "\n".join(lines)


def options(name: str) -> list[str]:
    """The keywords it takes."""
    acc = ACCUMULATORS[name]
    own = {*acc.options} if isinstance(acc, Composite) else {"initial", "dtype"}
    if name in PLACES:
        own.discard("initial")
    if name not in UNMASKED:
        own.add("where")
    return [option for option in OPTIONS if option in own | {"axis", "keepdims"}]


def _dtypes(name: str) -> list[str]:
    """Per dtype of the result: the dtypes of elements."""
    found: dict[str, list[str]] = {}
    for dtype in DTYPES:
        if name == "ptp" and dtype.kind == "b":
            continue  # bools are not subtracted
        out = result_dtype(ACCUMULATORS[name], dtype)
        found.setdefault("the same" if out == dtype else str(out), []).append(NAMES[dtype])
    return [f"{', '.join(names)} -> {out}" for out, names in found.items()]
