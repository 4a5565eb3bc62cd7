"""Command line of the benchmarks."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS", "ELEMC_NUM_THREADS",
)


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
    parser.add_argument("what", nargs="?", choices=["workloads", "overhead"], default="workloads",
                        help="workloads (default), or the cost of calls and of starting")
    parser.add_argument("--workloads", metavar="A,B", help="default: all, see --list")
    parser.add_argument("--sizes", default="8,100k,8M", help="elements (default: %(default)s)")
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float64")
    parser.add_argument("--calls", default="natural,given", help="default: %(default)s")
    parser.add_argument("--contestants", metavar="A,B",
                        help="default: all but torch_compile that are installed")
    parser.add_argument("--base", default="elemc", help="whose time is 1 (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=15, help="default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="5 rounds, no 8M")
    parser.add_argument("--json", metavar="FILE", help="write all samples")
    parser.add_argument("--plot", metavar="FILE", help="draw the ratios")
    parser.add_argument("--list", action="store_true", help="list the workloads and stop")
    options = parser.parse_args(argv)
    try:
        options.sizes = [size(text) for text in options.sizes.split(",")]
    except ValueError:
        parser.error(f"--sizes {options.sizes}: expected numbers as in 8,100k,8M")
    if not set(options.calls.split(",")) <= {"natural", "given"}:
        parser.error(f"--calls {options.calls}: expected natural, given or both")
    if options.quick:
        options.rounds = 5
        options.sizes = [n for n in options.sizes if n < 8 * 10**6]
    return options


def pin(threads: int) -> None:
    """Hold every package to `threads` threads; before any of them is imported."""
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(threads)
    if hasattr(os, "sched_setaffinity"):  # XLA heeds nothing else
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def chosen(given: str | None, all_names: Sequence[str], default: Sequence[str]) -> list[str]:
    """Split a list of names and refuse unknown ones."""
    names = given.split(",") if given else list(default)
    unknown = [name for name in names if name not in all_names]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(all_names)}")
    return names


def compare(options: argparse.Namespace) -> int:
    """Run the workloads; 1 if an answer of the base was wrong."""
    from . import contestants, measure, report
    from .workloads import WORKLOADS

    names = chosen(options.contestants, contestants.NAMES, contestants.DEFAULT)
    works = chosen(options.workloads, list(WORKLOADS), list(WORKLOADS))
    found, missing = contestants.load(names, options.threads)
    if options.base not in found:
        sys.exit(f"--base {options.base} is not here: {missing.get(options.base, 'not asked for')}")
    about = report.machine(options.threads)
    versions = {name: module.VERSION for name, module in found.items()}
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    for name, reason in missing.items():
        print(f"missing: {name} ({reason})")
    print(f"{options.dtype}; others' times / {options.base}'s time, median [95 % interval]\n")
    print(report.header(list(found), options.base))
    cells = []
    for work in works:
        for count in options.sizes:
            for kind in options.calls.split(","):
                cell = measure.run_cell(WORKLOADS[work], count, options.dtype, kind, found,
                                        options.rounds)
                cells.append(cell)
                print(report.row(cell, list(found), options.base), flush=True)
    print("", *report.geometric_means(cells, list(found), options.base), sep="\n")
    wrong = [f"{c.workload} {c.size} {c.kind}, {name}: {text}"
             for c in cells for name, text in c.wrong.items()]
    for line in wrong:
        print(f"off, not timed: {line}")
    write(report.document(cells, options.base, versions, missing, about), options.json)
    if options.plot:
        report.plot(cells, list(found), options.base, options.plot)
    return 1 if any(options.base in cell.wrong for cell in cells) else 0


def overhead(options: argparse.Namespace) -> int:
    """Print the cost of calls, compilations and starts."""
    from . import report, startup

    rows = startup.call_costs(options.rounds) + startup.process_costs(min(options.rounds, 5))
    for name, value, unit in rows:
        print(f"{name:<62}{value:10.3f} {unit}")
    write({"machine": report.machine(options.threads),
           "overhead": {f"{name}, {unit}": value for name, value, unit in rows}}, options.json)
    return 0


def write(document: dict[str, Any], path: str | None) -> None:
    """Write JSON, if a file was named."""
    if path:
        with open(path, "w") as file:
            json.dump(document, file, indent=1)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks."""
    options = arguments(argv)
    pin(options.threads)
    if options.list:
        from .workloads import ROWS

        for work in ROWS:
            print(f"{work.name:<20}{work.text}")
        return 0
    return overhead(options) if options.what == "overhead" else compare(options)


if __name__ == "__main__":
    sys.exit(main())
