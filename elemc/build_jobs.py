"""Kernels, and what is missing in the cache: compiled, and stored there."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import sys
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from . import build_early, cache
from .build_parts import parts_of
from .errors import CompileError, FallbackWarning, MissingHeaders
from .records import dataclass
from .threads import cpus
from .toolchain import Toolchain, run

CRASHES = "internal compiler error"  # of gcc: its vectorizer has bugs, which its releases mend
PLAIN = "-fno-tree-vectorize"
FULL = ("No space left on device", "Disk quota exceeded")
MOST_WORDS = 6000  # characters of the compiler's words in an error

_at_work: set[Path] = set()  # where this process compiles large kernels; they share the CPUs
os.register_at_fork(after_in_child=_at_work.clear)


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel, loaded.

    Attributes
    ----------
    address : int
        Of its entry, which has the type `build.ENTRY_C`.
    entry : str
        Name of the entry.
    path : Path
        The library on disk; it may be gone by now.
    source : str
        Its C.
    cached : bool
        Whether it was compiled before this process asked.
    seconds : float
        How long it took to compile or fetch, and to load.
    waited : float
        Seconds that it took, besides, to have the libraries that it calls.
    libraries : tuple of str
        Those of the math library, loaded before.
    function : cffi function pointer
        The entry, callable.
    library : object
        What keeps it loaded.
    """

    address: int
    entry: str
    path: Path
    source: str = field(repr=False)
    cached: bool
    seconds: float
    waited: float
    libraries: tuple[str, ...]
    function: Any = field(repr=False, compare=False)
    library: Any = field(repr=False, compare=False)


@dataclass(frozen=True)
class Job:
    """One library to be compiled."""

    toolchain: Toolchain
    name: str
    source: str
    flags: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    depends: str = ""  # what else the library depends on

    @cached_property
    def variants(self) -> tuple[str, tuple[str, ...]]:
        """What tells the compiler of functions' vector variants: C at the end, and flags."""
        return self.toolchain.variants(self.source)

    @property
    def text(self) -> str:
        """The C that is compiled."""
        return self.source + self.variants[0]

    @property
    def key(self) -> str:
        """Of its place in the cache: a hash of all that the library depends on."""
        options = (str(len(self.flags)), *self.flags, *self.links)
        return cache.key_of(self.toolchain.identity, self.depends, self.text, *options)

    def command(self, *source: str) -> tuple[str, ...]:
        """How the compiler is called to make it of this file."""
        tool = self.toolchain
        return (*tool.command, *tool.flags, *self.flags, *self.variants[1], *tool.shared,
                "-o", cache.LIBRARY, *source, *self.links)  # fmt: skip

    def object_command(self, source: str, to: str) -> tuple[str, ...]:
        """How the compiler is called to make an object file of a part of it."""
        tool = self.toolchain
        return (*tool.command, *tool.flags, *self.flags, *self.variants[1], *tool.shared,
                "-c", "-o", to, source)  # fmt: skip


def extension_job(tool: Toolchain, needs: str, source: str, name: str) -> Job:
    """What makes an extension module; `needs` are the keys of the libraries that it calls."""
    paths = sysconfig.get_paths()
    includes = list(dict.fromkeys([paths["include"], paths["platinclude"], np.get_include()]))
    if not any(os.path.exists(os.path.join(include, "Python.h")) for include in includes):
        raise MissingHeaders(
            f"no Python.h in {paths['include']}: install the headers of Python "
            f"{sys.version_info.major}.{sys.version_info.minor} (python3-dev, python3-devel)"
        )
    depends = f"{sysconfig.get_config_var('EXT_SUFFIX')} {sys.version} numpy {np.__version__}"
    # Debian's pyconfig.h includes another one from where zig does not look
    flags = ("-O2", *tool.extra(("branches",)), *(f"-I{include}" for include in includes),
             "-idirafter", os.path.dirname(paths["include"]))
    return Job(tool, name, source, flags, depends=depends + needs)


def obtain(job: Job) -> tuple[Path, bool]:
    """The library of `job`, and whether it was compiled before."""
    key = job.key
    path = cache.fetch(key)
    if path is not None:
        return path, True
    return cache.store(key, lambda work: _compile(job, work)), False


def obtain_all(jobs: Sequence[Job], meanwhile: Callable[[], None]) -> None:
    """Compile what is missing of several jobs at once; what fails says so when it is loaded."""
    with contextlib.suppress(RuntimeError):  # no more threads: loading compiles one by one
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(len(jobs), 1 + cpus())) as pool:  # each is a compiler
            for job in jobs:
                pool.submit(obtain, job)
            meanwhile()


def _compile(job: Job, work: Path) -> dict[str, object]:
    """Write source and library of `job` into `work`; returns what meta.json says of them."""
    (work / cache.SOURCE).write_text(job.text, encoding="utf-8")
    start = time.perf_counter()
    command = job.command(cache.SOURCE)
    parts = _compile_parts(job, work)
    early = None if parts else build_early.started(job.command(*build_early.SOURCE))
    if not parts and (early is None or not early.finish(job.text, job.name, work)):
        command = _run_again(job, command, work)
    return {
        "name": job.name,
        "command": list(command),
        **({"parts": parts} if parts else {}),
        "compiler": job.toolchain.version,
        "seconds": round(time.perf_counter() - start, 3),
        "elemc": str(getattr(sys.modules["elemc"], "__version__", "unknown")),
    }


def _compile_parts(job: Job, work: Path) -> int:
    """Make the library of parts, and say of how many; 0 if the whole is to be compiled.

    That is small, or shows why a part failed, or there are no more threads, as at an exit.
    """
    if not parts_of(job.text, job.name, 2):
        return 0
    _at_work.add(work)
    try:
        return _compile_each(parts_of(job.text, job.name, cpus() // len(_at_work)), job, work)
    finally:
        _at_work.discard(work)


def _compile_each(parts: Sequence[str], job: Job, work: Path) -> int:
    """Make the library of these parts, if any, and say of how many; 0 if one failed."""
    if not parts:
        return 0
    with tempfile.TemporaryDirectory(dir=work) as place:
        names = [os.path.join(place, str(k)) for k in range(len(parts))]

        def made(command: tuple[str, ...]) -> bool:
            return run(command, work, Path(place)).returncode == 0

        def compiled(name: str, source: str) -> bool:
            Path(f"{name}.c").write_text(source, encoding="utf-8")
            return made(job.object_command(f"{name}.c", f"{name}.o"))

        try:
            from concurrent.futures import ThreadPoolExecutor  # slow to import

            with ThreadPoolExecutor(len(parts)) as pool:
                done = all(pool.map(compiled, names, parts))
        except (RuntimeError, OSError):
            return 0
        return len(parts) if done and made(job.command(*(f"{n}.o" for n in names))) else 0


def _run_again(job: Job, command: tuple[str, ...], work: Path) -> tuple[str, ...]:
    """Run the compiler, and again without vectors if it crashes; the command that it took."""
    try:
        run_in(job, command, work)
    except CompileError as error:
        if CRASHES not in str(error):
            raise
        plain = *command, PLAIN
        run_in(job, plain, work)
        warnings.warn(f"the C compiler crashes on {job.name}, which is compiled without vectors "
                      f"({PLAIN}) and takes longer; another compiler may not: {error}",
                      FallbackWarning, stacklevel=2)
        return plain
    return command


def run_in(job: Job, command: tuple[str, ...], work: Path) -> str:
    """Run the compiler in `work`, where it finds kernel.c, with a scratch directory of its own.

    Returns what it says of a source that it compiled.
    """
    scratch = work / "scratch"
    scratch.mkdir()
    try:
        done = run(command, work, scratch)
    except OSError as error:
        raise CompileError(f"{command[0]} cannot be started: {error}") from None
    finally:
        cache.remove(scratch)
    if done.returncode == 0:
        return done.stderr
    words = done.stderr.strip()
    if any(say in words for say in FULL):
        raise OSError(errno.ENOSPC, words, str(work))
    if len(words) > MOST_WORDS:
        words = f"{words[:MOST_WORDS]}\n... and {len(words) - MOST_WORDS} characters more"
    kept = cache.keep_failed(job.key, job.text)
    end = f"exit status {done.returncode}" if done.returncode > 0 else f"signal {-done.returncode}"
    again = shlex.join(str(kept) if word == cache.SOURCE else word for word in command)
    raise CompileError(f"the C compiler failed on {job.name} ({end})\ncommand: {again}\n{words}\n"
                       f"source: {kept}{_own_flags()}")


def _own_flags() -> str:
    """A reminder of the flags that are not elemc's."""
    flags = os.environ.get("ELEMC_CFLAGS")
    return f"\nELEMC_CFLAGS, which may be the reason: {flags}" if flags else ""
