"""The command line: `elemc` and `python -m elemc`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .errors import ArgumentError, ElemcError

if TYPE_CHECKING:
    import numpy as np

    from .function import Function

# Whatever a command needs beyond the parser of arguments is imported by that command.

TARGET_HELP = """TARGET is FILE.py:NAME or MODULE:NAME of a compiled function, or an expression in
quotes, which is parsed against an allow-list and never evaluated as Python:
"exp(x) * sum(y, axis=-1)"."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        The words after `elemc`; default: those of this process.
    """
    options = _parser().parse_args(argv)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except ElemcError as error:
        print(f"elemc: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("elemc: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `elemc dump ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="elemc", description="Compiles array expressions into C loops.", epilog=TARGET_HELP)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _dump_parser(commands)
    _run_parser(commands)
    demo = commands.add_parser(
        "demo", help="compile a function, check it against NumPy, show its C and the times")
    demo.set_defaults(run=_demo)
    info = commands.add_parser("info", help="compiler, flags, SIMD, threads, cache, versions")
    info.set_defaults(run=_info)
    cache = commands.add_parser("cache", help="the compiled kernels on disk")
    cache.add_argument("action", choices=("list", "clear", "path"))
    cache.set_defaults(run=_cache)
    return parser


def _target_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help="FILE.py:NAME, MODULE:NAME or expression")
    parser.add_argument("--order", choices=("c", "f"), help="which ends of two shapes align: "
                        "trailing (f, the default) or leading (c)")
    parser.add_argument("--mode", metavar="MODE",
                        help="broadcast (default) or accumulate:NAME, as in accumulate:sum")


def _dump_parser(commands: Any) -> None:
    parser = commands.add_parser("dump", help="show what is compiled", epilog=TARGET_HELP)
    _target_options(parser)
    parser.add_argument("--stage", choices=("graph", "nest", "c", "asm"), default="c")
    parser.add_argument("--arg", metavar="NAME:DTYPE[RANK]", action="append", default=[],
                        help="dtype and rank of an input, as in x:float32[2]")
    parser.add_argument("--against", metavar="TARGET2", help="show the difference to another")
    parser.add_argument("--against-order", choices=("c", "f"), help="default: that of --order")
    parser.set_defaults(run=_dump)


def _run_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "run", epilog=TARGET_HELP, help="evaluate files, in blocks if they are large")
    _target_options(parser)
    parser.add_argument("inputs", metavar="NAME=FILE.npy", nargs="*",
                        help="also NAME=FILE.npz:MEMBER")
    parser.add_argument("-o", "--output", metavar="OUT.npy", action="append", required=True,
                        help="one for every output, or one .npz for all")
    parser.add_argument("--block", metavar="MIB", type=float, default=64,
                        help="MiB of arrays worked on at a time (default: 64)")
    parser.add_argument("--progress", action=argparse.BooleanOptionalAction,
                        help="default: if stderr is a terminal")
    parser.set_defaults(run=_run)


class _Version(argparse.Action):
    """`--version`, which looks for the version only when asked."""

    def __call__(self, parser: argparse.ArgumentParser, *rest: Any) -> None:
        print(f"elemc {version()}")
        parser.exit()


def version() -> str:
    """The version of the package as installed, or of the source tree."""
    import importlib.metadata

    try:
        return importlib.metadata.version("elemc")
    except importlib.metadata.PackageNotFoundError:
        return str(getattr(sys.modules["elemc"], "__version__", "unknown"))


# -- commands -----------------------------------------------------------------------------------


def _dump(options: argparse.Namespace) -> int:
    from .dump import unified
    from .targets import Target

    specs = _specs(options.arg)
    target = Target(options.target, options.order, options.mode)
    text = target.dump(options.stage, specs)
    if options.against is None:
        print(text, end="")
        return 0
    other = Target(options.against, options.against_order or options.order, options.mode)
    print(unified(text, other.dump(options.stage, specs), target.label, other.label), end="")
    return 0


def _specs(words: Sequence[str]) -> dict[str, str]:
    """`x:float32[2]` words as a mapping from names to specifications."""
    found: dict[str, str] = {}
    for word in words:
        name, colon, spec = word.partition(":")
        if not colon or not name.isidentifier() or not spec or name in found:
            raise ArgumentError(f"--arg {word}: write each input once, as in x:float32[2]")
        found[name] = spec
    return found


def _run(options: argparse.Namespace) -> int:
    from . import stream
    from .targets import Target

    files: dict[str, str] = {}
    for word in options.inputs:
        name, sign, file = word.partition("=")
        if not sign or not name.isidentifier() or not file or name in files:
            raise ArgumentError(f"{word}: write each input once, as in x=FILE.npy")
        files[name] = file
    target = Target(options.target, options.order, options.mode)

    def make(arrays: Mapping[str, np.ndarray]) -> Function:
        return target.function_of(arrays)

    shown = sys.stderr.isatty() if options.progress is None else options.progress
    stream.run(make, files, options.output, options.block, shown)
    return 0


def _demo(options: argparse.Namespace) -> int:
    from .demo import demo

    return demo()


def _info(options: argparse.Namespace) -> int:
    from .settings import config

    found = {"elemc": version(), **config()}
    width = max(map(len, found))
    for name, text in found.items():
        print(f"{name:{width}}  {text}")
    return 0


def _cache(options: argparse.Namespace) -> int:
    import time

    from . import cache

    if options.action == "path":
        print(cache.cache_dir())
    elif options.action == "clear":
        count, size = cache.clear()
        print(f"{count} entries removed, {size / 2**20:.1f} MiB")
    else:
        for entry in cache.entries():
            used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used))
            print(f"{entry.key[:12]}  {used}  {entry.size / 2**10:8.1f} KiB  {entry.name}")
    return 0
