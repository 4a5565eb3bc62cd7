"""Options of the benchmarks' command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def size(text: str) -> int:
    """Read 8, 100k or 8M."""
    factor = {"k": 10**3, "M": 10**6}.get(text[-1:], 1)
    number = int(text if factor == 1 else text[:-1]) * factor
    if number < 1:
        raise argparse.ArgumentTypeError("a size is at least 1")
    return number


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="elemc beside NumPy and whichever other packages are installed, in one run.",
    )
    parser.add_argument("what", nargs="?", default="workloads",
                        choices=["workloads", "overhead", "first", "functions", "survey",
                                 "layouts", "cliffs", "programs"],
                        help="workloads (default), the cost of calls and of starting, first "
                        "calls beside others', the functions of the math library, "
                        "expressions against other packages, random ones of all dtypes and "
                        "strides against NumPy and copies, functions of tables of many shapes, "
                        "each against its own median, or programs of several lines and gradients "
                        "against NumPy and JAX")
    every = parser.add_argument_group("of every command")
    every.add_argument("--rounds", type=int, default=15, help="default: %(default)s")
    every.add_argument("--threads", type=int, default=1, help="default: %(default)s")
    every.add_argument("--json", metavar="FILE", help="write all samples")
    some = parser.add_argument_group(
        "of workloads", "And --contestants and --workloads of first, --dtype of functions, "
        "--contestants (numpy, numba, jax; default numpy), --dtype and --sizes of survey, and, "
        "without numba, of programs, the "
        "largest of --sizes of the sweep, the first of --dtype and --sizes of cliffs.")
    some.add_argument("--workloads", metavar="A,B", help="default: all, see --list")
    some.add_argument("--contestants", metavar="A,B",
                      help="default: all that are installed; without --verdict, all but "
                      "torch_compile")
    some.add_argument("--sizes", metavar="SIZES",
                      help="elements (default: 8,100k,8M, of cliffs 60k); beyond 8M, such as 32M, "
                      "only rows that memory bounds")
    some.add_argument("--dtype", metavar="A,B",
                      help="float32, float64 or both (default: float64, of functions both)")
    some.add_argument("--calls", default="natural,given",
                      help="how: natural (the result is dropped before the next call), kept (the "
                      "last four results are kept), given (out=); default: %(default)s")
    some.add_argument("--base", default="elemc", help="whose time is 1 (default: %(default)s)")
    some.add_argument("--quick", action="store_true", help="5 rounds, no 8M")
    some.add_argument("--verdict", action="store_true",
                      help="of each row only the best peer, and whether elemc is ahead of it")
    some.add_argument("--plot", metavar="FILE", help="draw the ratios")
    some.add_argument("--list", action="store_true", help="list the workloads and stop")
    cases = parser.add_argument_group("of the sweep, layouts and cliffs")
    cases.add_argument("--sweep", action="store_true",
                       help="random cases against NumPy and plain C loops, instead of workloads")
    cases.add_argument("--cases", type=int, default=200,
                       help="how many there are (default: %(default)s)")
    cases.add_argument("--seed", type=int, default=0,
                       help="what they are drawn from (default: %(default)s)")
    cases.add_argument("--only", type=int, metavar="K",
                       help="case K alone, with the C sources")
    options = parser.parse_args(argv)
    options.sizes = options.sizes or ("60k" if options.what == "cliffs" else "8,100k,8M")
    try:
        options.sizes = [size(text) for text in options.sizes.split(",")]
    except ValueError:
        parser.error(f"--sizes {options.sizes}: expected numbers as in 8,100k,8M")
    if options.dtype is None:
        options.dtype = "float64,float32" if options.what == "functions" else "float64"
    for option, values in (("calls", ("natural", "kept", "given")),
                           ("dtype", ("float32", "float64"))):
        names = getattr(options, option).split(",")
        if not set(names) <= set(values):
            parser.error(f"--{option} {','.join(names)}: expected some of {', '.join(values)}")
        setattr(options, option, names)
    if options.quick:
        options.rounds = 5
        options.sizes = [n for n in options.sizes if n < 8 * 10**6]
    return options
