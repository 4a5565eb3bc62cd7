"""Command line of the benchmarks."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from statistics import geometric_mean
from typing import Any, TypeVar

from .options import arguments

Item = TypeVar("Item")

THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS", "ELEMC_NUM_THREADS",
)


def pin(threads: int) -> None:
    """Hold every package to `threads` threads; before any of them is imported."""
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(threads)
    # Idle OpenMP threads would spin for milliseconds, on cores that the next contestant needs.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
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
    from . import contestants, measure, report, verdict
    from .workloads import WORKLOADS

    default = contestants.NAMES if options.verdict else (
        *contestants.DEFAULT, *contestants.MACHINE)
    names = chosen(options.contestants, contestants.NAMES, default)
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
    print(f"others' times / {options.base}'s time, median [95 % interval]\n")
    print(f"{verdict.LEGEND}\n{verdict.HEADER}" if options.verdict else
          report.header(list(found), options.base))
    cells, verdicts = [], []
    for work, size, dtype, kind in itertools.product(works, options.sizes, options.dtype,
                                                     options.calls):
        count = WORKLOADS[work].elements(size)
        if count is None:
            continue
        cell = measure.run_cell(WORKLOADS[work], count, dtype, kind, found, options.rounds)
        cells.append(cell)
        judged = verdict.verdict(cell, options.threads)
        verdicts += [judged] if judged else []
        print(judged if options.verdict else report.row(cell, list(found), options.base),
              flush=True)
    print("", *(verdict.summary(verdicts) if options.verdict else
                report.geometric_means(cells, list(found), options.base)), sep="\n")
    wrong = [f"{c.workload} {c.size} {c.dtype} {c.kind}, {name}: {text}"
             for c in cells for name, text in c.wrong.items()]
    for line in wrong:
        print(f"off, not timed: {line}")
    write(report.document(cells, options.base, versions, missing, about)
          | {"verdicts": [v.document() for v in verdicts]}, options.json)
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


def first(options: argparse.Namespace) -> int:
    """Print what imports and first calls of fresh processes take."""
    from . import contestants, first_calls, report
    from .workloads import WORKLOADS

    names = chosen(options.contestants, first_calls.COMPILING, first_calls.COMPILING)
    works = chosen(options.workloads, list(WORKLOADS), first_calls.WORKS)
    found, missing = contestants.load(names, options.threads)
    for name, reason in missing.items():
        print(f"missing: {name} ({reason})")
    about = report.machine(options.threads)
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    print("milliseconds: of the import after NumPy's, of the first call where nothing is cached "
          "(cold), and in the process after it (warm)")
    print(f"\n{'workload':<20}{'':<15}{'import':>9}{'cold':>9}{'warm':>9}")
    rows = []
    for row in first_calls.times(list(found), works, options.threads, min(options.rounds, 5)):
        print(f"{row.workload:<20}{row.contestant:<15}{row.imported:9.1f}{row.cold:9.1f}"
              f"{row.warm:9.1f}", flush=True)
        rows.append(vars(row))
    write({"machine": about, "first calls, ms": rows}, options.json)
    return 0


def functions(options: argparse.Namespace) -> int:
    """Print what an element of each function of the math library takes, here and in libmvec."""
    from . import report
    from .functions import times

    print(f"{'':<10}{'dtype':<10}{'elemc':>8}{'plain C':>10}   ratio [95 % interval]")
    rows = []
    for name, dtype, ours, theirs, ratio in times(options.dtype, options.rounds):
        print(f"{name:<10}{dtype:<10}{ours:8.3f}{theirs:10.3f} ns{ratio.median:6.2f} "
              f"[{ratio.low:.2f}, {ratio.high:.2f}]", flush=True)
        rows.append({"function": name, "dtype": dtype, "elemc": ours, "plain_c": theirs})
    write({"machine": report.machine(options.threads), "functions": rows}, options.json)
    return 0


def survey(options: argparse.Namespace) -> int:
    """Print common expressions by how many times as long the best peer takes, the worst first."""
    from . import report
    from .survey import PEERS, times

    peers = chosen(options.contestants, list(PEERS), ["numpy"])
    document: dict[str, Any] = {"machine": report.machine(options.threads)}
    for dtype in options.dtype:
        for size in options.sizes:
            rows = sorted(times(size, dtype, options.rounds, peers),
                          key=lambda row: row.ratio.median)
            mean = geometric_mean(row.ratio.median for row in rows)
            slower = sum(row.ratio.median < 1 for row in rows)
            print(f"{dtype}, {size:,} elements: the best of {', '.join(peers)} takes {mean:.2f} "
                  f"times as long in the geometric mean; {slower} of {len(rows)} below 1")
            for row in rows:
                ratio = row.ratio
                print(f"{ratio.median:8.2f} [{ratio.low:.2f}, {ratio.high:.2f}]  {row.text}  "
                      f"({row.ours * 1e3:.3g} ms, {row.peer} {row.theirs * 1e3:.3g} ms)")
            document[f"{dtype} {size}"] = {row.text: row.ratio.median for row in rows}
    write(document, options.json)
    return 0


def programs(options: argparse.Namespace) -> int:
    """Print programs by how many times as long the best peer takes, the worst first."""
    from . import report
    from .programs import PEERS, summary, times

    peers = chosen(options.contestants, list(PEERS), list(PEERS))
    document: dict[str, Any] = {"machine": report.machine(options.threads)}
    wrong = False
    for dtype in options.dtype:
        for size in options.sizes:
            rows = list(times(size, dtype, options.rounds, peers))
            print(f"{dtype}, {size:,} elements", *summary(rows, peers), "", sep="\n")
            document[f"{dtype} {size}"] = {row.name: row.samples for row in rows}
            wrong |= any(row.wrong for row in rows)
    write(document, options.json)
    return int(wrong)


def sweep(options: argparse.Namespace) -> int:
    """Run random cases; 1 if an answer of elemc's was wrong."""
    from . import report
    from .sweep import run
    from .sweep.cases import case

    about = report.machine(options.threads)
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    numbers = list(range(options.cases))
    if options.only is not None:
        numbers = [options.only]
        print(run.shown(case(options.seed, options.only, max(options.sizes))))
    found = list(counted(run.outcomes(options.seed, numbers, max(options.sizes), options.rounds),
                         len(numbers)))
    print("", *run.failures(found), *run.summary(found), sep="\n")
    write({"machine": about, "seed": options.seed, "cases": [o.document() for o in found]},
          options.json)
    return 1 if any({"natural", "given"} & o.wrong.keys() for o in found) else 0


def layouts(options: argparse.Namespace) -> int:
    """Run random expressions of all dtypes and layouts."""
    from . import layouts

    return at_random(options, layouts)


def cliffs(options: argparse.Namespace) -> int:
    """Run functions of tables of many shapes."""
    from . import cliffs

    return at_random(options, cliffs, options.sizes[0], options.dtype[0])


def at_random(options: argparse.Namespace, kind: Any, *about: Any) -> int:
    """Run the cases that a module draws and judges; 1 if an answer of elemc's was wrong."""
    from . import report

    machine = report.machine(options.threads)
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    numbers = range(options.cases)
    if options.only is not None:
        numbers = range(options.only, options.only + 1)
        one = kind.case(options.seed, options.only, *about)
        print(one, one.dump(), sep="\n\n")
    found = []
    for number in counted(numbers, len(numbers)):
        found.append(kind.case(options.seed, number, *about))
        kind.run(found[-1], options.rounds)
    print("", *kind.summary(found), sep="\n")
    write({"machine": machine, "seed": options.seed, "cases": [one.document() for one in found]},
          options.json)
    return 1 if any(one.wrong for one in found) else 0


def counted(items: Iterable[Item], number: int) -> Iterator[Item]:
    """Pass the items on, and tell a terminal how many there were."""
    for i, item in enumerate(items, 1):
        yield item
        if sys.stderr.isatty():
            print(f"\r{i} of {number}", end="", file=sys.stderr, flush=True)


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
    if options.sweep:
        return sweep(options)
    what = {"overhead": overhead, "first": first, "functions": functions, "survey": survey,
            "layouts": layouts, "cliffs": cliffs, "programs": programs}
    return what.get(options.what, compare)(options)


if __name__ == "__main__":
    sys.exit(main())
