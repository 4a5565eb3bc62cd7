"""The command line: `elemc` and `python -m elemc`."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from .errors import ArgumentError, ElemcError

if TYPE_CHECKING:
    import numpy as np

    from .function import Function

# Whatever a command needs beyond the parser of arguments is imported by that command.

SYNOPSIS = """\
  elemc dump TARGET [--stage graph|nest|c|asm|vectorization] [--arg NAME:DTYPE[RANK|SHAPE] ...]
             [--order c|f] [--mode MODE] [--vjp | --grad NAME] [--against TARGET2]
             [--against-order c|f] [--against-mode MODE] [--against-arg NAME:DTYPE[RANK] ...]
             [--against-vjp | --against-grad NAME]
  elemc run TARGET NAME=FILE.npy|NAME=FILE.npz[:MEMBER] ...
            -o|--output [NAME=]OUT.npy ... | OUT.npz
            [--order c|f] [--mode MODE] [--block MIB] [--progress|--no-progress]
  elemc demo
  elemc info [--machine]
  elemc cache list|clear|path
"""

TARGET_HELP = """\
TARGET is one of
  FILE.py:NAME, MODULE:NAME   a compiled function
  "exp(x) * sum(y, axis=-1)"  an expression in quotes, which is parsed against an
                              allow-list and never evaluated as Python; commas
                              separate several outputs
"""

FILES_HELP = """\
Inputs and outputs:
  NAME=FILE.npy          the array of an input, by its name
  NAME=FILE.npz:MEMBER   one member of an archive; FILE.npz alone, if it has just one
  -o OUT.npy             once per output, in their order
  -o NAME=OUT.npy        the same by name, in any order, for all outputs
  -o OUT.npz             all outputs, as members of their names
Outputs are named by the keys of a dict that the function returns, else z, or z0, z1, ...
They are written under temporary names and moved into place when all is done; those are
removed on Ctrl-C and SIGTERM. The size of blocks never changes a bit of the result.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        The words after `elemc`; default: those of this process.
    """
    parser = _parser()
    options, rest = parser.parse_known_args(_spaced(sys.argv[1:] if argv is None else argv))
    if rest and (not hasattr(options, "inputs") or any(w.startswith("-") for w in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:  # inputs behind options, which argparse gives up on
        options.inputs += rest
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


def _spaced(words: Sequence[str]) -> list[str]:
    """The words, with a space before expressions like -x, which argparse takes for options."""
    found: list[str] = []
    options = words and words[0] in ("dump", "run")
    for word, last in zip(words, ("", *words), strict=False):
        options = options and word != "--"
        expression = (re.match("-[^-]", word) and word != "-h" and last not in ("-o", "--output")
                      and not (words[0] == "run" and word.startswith("-o")))
        found.append(f" {word}" if options and expression else word)
    return found


class _Parser(argparse.ArgumentParser):
    """Shows help as it is written, and says what to do about an expression such as --x."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named, formatter_class=argparse.RawDescriptionHelpFormatter)

    def error(self, message: str) -> NoReturn:
        if "TARGET" in message:
            message += '; an expression that begins with a dash is written as "(--x)"'
        super().error(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="elemc", description="Compiles array expressions into C loops.",
                     epilog=f"{SYNOPSIS}\n{TARGET_HELP}\n{FILES_HELP}\n"
                            "elemc COMMAND --help explains the options of a command.")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _dump_parser(commands)
    _run_parser(commands)
    demo = _command(commands, "demo", "compile a function, check it against NumPy, show its C "
                    "and the times")
    demo.set_defaults(run=_demo)
    info = _command(commands, "info", "compiler, flags, vector math, threads, cache, versions")
    info.add_argument("--machine", action="store_true", help="measure bandwidths and the vector "
                      "peak as well, once, in less than a second")
    info.set_defaults(run=_info)
    cache = _command(commands, "cache", "the compiled kernels on disk")
    cache.add_argument("action", choices=("list", "clear", "path"),
                       help="list them, remove them, or print the directory")
    cache.set_defaults(run=_cache)
    return parser


def _command(commands: Any, name: str, text: str, epilog: str | None = None) -> Any:
    return commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.",
                               epilog=epilog)


def _target_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help="FILE.py:NAME, MODULE:NAME or expression")
    parser.add_argument("--order", choices=("c", "f"), help="which ends of two shapes align: "
                        "trailing (f, the default) or leading (c)")
    parser.add_argument("--mode", metavar="MODE",
                        help="broadcast (default) or accumulate:NAME, as in accumulate:sum")


def _dump_parser(commands: Any) -> None:
    parser = _command(commands, "dump", "show what is compiled", TARGET_HELP)
    _target_options(parser)
    parser.add_argument("--stage", choices=("graph", "nest", "c", "asm", "vectorization"),
                        default="c", help="what to show: the graph of operations, the loop nest, "
                        "C (the default), assembly, or which loops the compiler vectorized")
    parser.add_argument("--arg", metavar="NAME:DTYPE[RANK|SHAPE]", action="append", default=[],
                        help="dtype and rank of an input, as in x:float32[2]; once per input "
                        "(default for expressions: float64[1]); shapes, as in x:float32[300,20] "
                        "and y:float32[20,], show the kernel for arrays of these sizes")
    gradient = parser.add_mutually_exclusive_group()
    gradient.add_argument("--vjp", action="store_const", const="vjp", dest="gradient",
                          help="show the gradients of all inputs instead")
    gradient.add_argument("--grad", metavar="NAME", dest="gradient", type=lambda n: f"grad {n}",
                          help="show the gradient of a scalar by one input instead")
    parser.add_argument("--against", metavar="TARGET2",
                        help="show the difference to the text of this target instead (default "
                        "with another --against option: TARGET)")
    for name, known in (("order", {"choices": ("c", "f")}), ("mode", {"metavar": "MODE"})):
        parser.add_argument(f"--against-{name}", **known,
                            help=f"the {name} of TARGET2 (default: that of --{name})")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--against-vjp", action="store_const", const="vjp", dest="against_gradient",
                       help="of TARGET2 the gradients of all inputs")
    other.add_argument("--against-grad", metavar="NAME", dest="against_gradient",
                       type=lambda n: f"grad {n}", help="of TARGET2 the gradient by one input")
    parser.add_argument("--against-arg", metavar="NAME:DTYPE[RANK|SHAPE]", action="append",
                        default=[], help="an input of TARGET2, where it differs from --arg")
    parser.set_defaults(run=_dump)


def _run_parser(commands: Any) -> None:
    parser = _command(commands, "run", "evaluate files, in blocks if they are large",
                      f"{TARGET_HELP}\n{FILES_HELP}")
    _target_options(parser)
    parser.add_argument("inputs", metavar="NAME=FILE.npy", nargs="*",
                        help="the file of an input; also NAME=FILE.npz:MEMBER, or NAME=FILE.npz "
                        "of one member")
    parser.add_argument("-o", "--output", metavar="OUT.npy", action="append", required=True,
                        help="one for every output, also as NAME=OUT.npy; or one OUT.npz for all")
    parser.add_argument("--block", metavar="MIB", type=float, default=64,
                        help="MiB of arrays worked on at a time, 1 or more (default: 64)")
    parser.add_argument("--progress", action=argparse.BooleanOptionalAction,
                        help="show the progress on stderr (default: if it is a terminal)")
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
    target = Target(options.target, options.order, options.mode, options.gradient)
    text = target.dump(options.stage, specs)
    other_specs = {**specs, **_specs(options.against_arg)}
    second = (options.against or options.target, options.against_order or options.order,
              options.against_mode or options.mode, options.against_gradient)
    given = (options.against, options.against_order, options.against_mode,
             options.against_gradient, *options.against_arg)
    if not any(given):
        print(text, end="")
        return 0
    other = Target(*second)
    label = " ".join([other.label, *options.against_arg])
    print(unified(text, other.dump(options.stage, other_specs), target.label, label), end="")
    return 0


def _specs(words: Sequence[str]) -> dict[str, str]:
    """`x:float32[2]` words as a mapping from names to specifications."""
    found: dict[str, str] = {}
    for word in words:
        name, colon, spec = word.partition(":")
        if not colon or not name.isidentifier() or not spec or name in found:
            raise ArgumentError(f"--arg {word}: write each input once, as a name, dtype, and rank "
                                "or shape, as in x:float32[2] and x:float32[300,20]")
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
    with _ends_as_usual():
        stream.run(make, files, options.output, options.block, shown)
    return 0


@contextmanager
def _ends_as_usual() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind the stack, as Ctrl-C does, so that scratch files are removed."""

    def stop(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    before: dict[int, Any] = {}
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP; nohup ignores it
        if number is not None and threading.current_thread() is threading.main_thread():
            if signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _demo(options: argparse.Namespace) -> int:
    from .demo import demo

    return demo()


def _info(options: argparse.Namespace) -> int:
    from .settings import config

    found = {"elemc": version(), **config()}
    width = max(map(len, found))
    for name, text in found.items():
        print(f"{name:{width}}  {text}")
    if options.machine:
        from .machine import this_machine

        print(f"\n{this_machine()}")
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
