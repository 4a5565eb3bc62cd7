"""C source -> a loaded library: compiled once per content and machine, then taken from the cache.

A kernel has one entry (`ENTRY_C`) and is opened privately; the libraries whose functions kernels
declare and do not define, for mathematics and runtime.c, are opened before any of them and their
names are global.
"""

from __future__ import annotations

import errno
import os
import shlex
import sys
import sysconfig
import tempfile
import threading
import time
import warnings
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import _cffi_backend  # what cffi.FFI().dlopen calls; parsing C in Python costs 15 ms
import numpy as np

from . import cache, cache_dirs, mathlib
from .errors import CacheWarning, CompileError
from .threads import number_of_threads
from .toolchain import Toolchain, find_toolchain, run

ENTRY_C = (
    "int %s(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s, "
    "const int64_t *n, const int64_t *tune, char *const *w)"
)

# functions of runtime.c
USE_THREADS_C = "void elemc_use_threads(int count)"
KEEP_C = "void elemc_keep_at_most(int64_t bytes)"

FULL = ("No space left on device", "Disk quota exceeded")
RUNTIME = Path(__file__).with_name("runtime.c")
UNMAPPABLE = ("failed to map", "Operation not permitted", "Permission denied")
MOST_WORDS = 6000  # characters of the compiler's words in an error

_ffi = FFI = _cffi_backend.FFI()


class MissingHeaders(CompileError):
    """There is a C compiler, but not the header files that an extension module needs."""


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel, loaded.

    Attributes
    ----------
    address : int
        Of its entry, which has the type `ENTRY_C`.
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
    function: Any = field(repr=False, compare=False)
    library: Any = field(repr=False, compare=False)


@dataclass(frozen=True)
class _Job:
    """One library to be compiled."""

    toolchain: Toolchain
    name: str
    source: str
    flags: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    depends: str = ""  # what else the library depends on

    @property
    def key(self) -> str:
        options = (str(len(self.flags)), *self.flags, *self.links)
        return cache.key_of(self.toolchain.identity, self.depends, self.source, *options)

    def command(self, source: str) -> tuple[str, ...]:
        tool = self.toolchain
        return (*tool.command, *tool.flags, *self.flags, *tool.shared,
                "-o", cache.LIBRARY, source, *self.links)  # fmt: skip


class _Loaded:
    """The libraries of this process, and a lock per library being built."""

    def __init__(self) -> None:
        self.kernels: dict[tuple[str, ...], Kernel] = {}
        # identity of the toolchain -> keys, and libraries by name
        self.support: dict[str, tuple[str, dict[str, Any]]] = {}
        self.unlock()

    def unlock(self) -> None:
        """Make new locks: a fork may have left the old ones locked for ever."""
        self.guard = threading.Lock()
        self.locks: defaultdict[tuple[str, ...], threading.Lock] = defaultdict(threading.Lock)

    def lock(self, *what: str) -> threading.Lock:
        with self.guard:
            return self.locks[what]


_loaded = _Loaded()
os.register_at_fork(after_in_child=_loaded.unlock)


def load_kernel(source: str, entry: str, flags: tuple[str, ...] = (),
                wants: tuple[str, ...] = ()) -> Kernel:
    """Compile a kernel, or take it from the cache, and load it.

    Parameters
    ----------
    source : str
        A complete file of C.
    entry : str
        The name of the function of type `ENTRY_C` in it.
    flags : tuple of str
        For the compiler, besides those of every kernel.
    wants : tuple of str
        What else it needs of the compiler: see `Toolchain.extra`.

    Raises
    ------
    CompileError
        If there is no compiler, or it fails, or what it made cannot be loaded.
    """
    tool = _toolchain()
    flags = (*flags, *tool.extra(wants))
    memo = (tool.identity, entry, source, *flags)
    kernel = _loaded.kernels.get(memo)
    if kernel is None:
        with _loaded.lock(*memo):
            kernel = _loaded.kernels.get(memo)
            if kernel is None:
                kernel = _loaded.kernels[memo] = _load_kernel(tool, source, entry, flags)
    return kernel


def _load_kernel(tool: Toolchain, source: str, entry: str, flags: tuple[str, ...]) -> Kernel:
    needs, _ = _support(tool)
    start = time.perf_counter()
    job = _Job(tool, entry, source, flags, depends=needs)
    library, path, cached = _load(job, os.RTLD_NOW)
    try:
        function = library.load_function(_ffi.typeof(ENTRY_C % "(*)"), entry)
    except AttributeError as error:
        raise CompileError(f"{path} has no entry {entry}: {error}") from None
    address = int(_ffi.cast("intptr_t", function))
    seconds = time.perf_counter() - start
    return Kernel(address, entry, path, source, cached, seconds, function, library)


def _support(tool: Toolchain) -> tuple[str, dict[str, Any]]:
    """Load the libraries that every kernel may call; returns their keys, and them by name."""
    held = _loaded.support.get(tool.identity)
    if held is None:
        with _loaded.lock("support", tool.identity):
            held = _loaded.support.get(tool.identity)
            if held is None:
                links = ("-lmvec", "-lm") if tool.simd else ("-lm",)
                jobs = (_Job(tool, "elemc_math", mathlib.source(),
                             (f"-DELEMC_LIBMVEC={int(tool.simd)}",), links),
                        _Job(tool, "elemc_runtime", RUNTIME.read_text(encoding="utf-8"),
                             links=("-lpthread",)))
                libraries = {job.name: _load(job, os.RTLD_NOW | os.RTLD_GLOBAL)[0] for job in jobs}
                held = _loaded.support[tool.identity] = " ".join(j.key for j in jobs), libraries
                runtime_function(USE_THREADS_C)(number_of_threads())
                runtime_function(KEEP_C)(cache_dirs.bytes_of("ELEMC_RECYCLE", -1))
    return held


def runtime_function(prototype: str) -> Any:
    """A function of runtime.c, to be called through cffi.

    Parameters
    ----------
    prototype : str
        Its C declaration, without the semicolon.

    Raises
    ------
    CompileError
        If there is no compiler, or it fails.
    """
    library = _support(_toolchain())[1]["elemc_runtime"]
    name = prototype.partition("(")[0].split()[-1].lstrip("*")
    return library.load_function(_ffi.typeof(prototype.replace(name, "(*)", 1)), name)


def compile_shared(
    source: str, name: str, flags: tuple[str, ...] = (), links: tuple[str, ...] = ()
) -> Path:
    """Compile `source` into a shared library, or take it from the cache.

    Parameters
    ----------
    source : str
        A complete file of C.
    name : str
        For people: in `elemc cache list` and in errors.
    flags, links : tuple of str
        For the compiler, besides those of every kernel; `links` stand after the source.
    """
    return _obtain(_Job(_toolchain(), name, source, tuple(flags), tuple(links)))[0]


def build_extension(source: str, name: str) -> Path:
    """Compile `source` into an extension module for this Python and this NumPy.

    Returns
    -------
    Path
        The module, for `importlib.machinery.ExtensionFileLoader(name, path)`.

    Raises
    ------
    MissingHeaders
        If this machine lacks Python.h.
    CompileError
        As `load_kernel`.
    """
    paths = sysconfig.get_paths()
    includes = list(dict.fromkeys([paths["include"], paths["platinclude"], np.get_include()]))
    if not any(os.path.exists(os.path.join(include, "Python.h")) for include in includes):
        raise MissingHeaders(
            f"no Python.h in {paths['include']}: install the headers of Python "
            f"{sys.version_info.major}.{sys.version_info.minor} (python3-dev, python3-devel)"
        )
    tool = _toolchain()
    needs, _ = _support(tool)
    depends = f"{sysconfig.get_config_var('EXT_SUFFIX')} {sys.version} numpy {np.__version__}"
    flags = tuple(f"-I{include}" for include in includes)
    # Loaded here so that what cannot be loaded is rebuilt; the import finds the same library.
    return _load(_Job(tool, name, source, flags, depends=depends + needs), os.RTLD_NOW)[1]


def assembly(source: str, flags: tuple[str, ...] = (), wants: tuple[str, ...] = ()) -> str:
    """The assembly that the compiler makes of a kernel; arguments as for `load_kernel`."""
    return _assembled("the assembly", source, flags, wants)[0]


def remarks(source: str, asking: tuple[str, ...], flags: tuple[str, ...] = (),
            wants: tuple[str, ...] = ()) -> str:
    """What the compiler says of a kernel when the flags `asking` make it talk."""
    return _assembled("the remarks", source, (*flags, *asking), wants)[1]


def _assembled(what: str, source: str, flags: tuple[str, ...],
               wants: tuple[str, ...]) -> tuple[str, str]:
    """A kernel's assembly, and the words of the compiler."""
    tool = _toolchain()
    with tempfile.TemporaryDirectory(prefix="elemc-") as directory:
        work = Path(directory)
        (work / cache.SOURCE).write_text(source, encoding="utf-8")
        job = _Job(tool, what, source)
        flags = (*tool.flags, *flags, *tool.extra(wants))
        words = _run(job, (*tool.command, *flags, "-S", "-o", "kernel.s", cache.SOURCE), work)
        return (work / "kernel.s").read_text(encoding="utf-8", errors="replace"), words


def _toolchain() -> Toolchain:
    tool = find_toolchain()
    if tool is None:
        raise CompileError(
            "there is no C compiler: ELEMC_CC, CC, cc, gcc, clang and the package ziglang were "
            "looked for (`python -m pip install ziglang` brings one)"
        )
    return tool


def _load(job: _Job, mode: int) -> tuple[Any, Path, bool]:
    """Library, its path, and whether it was compiled before.

    A library may fail to load though its checksum is right: another process evicted it a moment
    ago, or its place forbids programs.
    """
    wrong = "it is evicted again and again; ELEMC_CACHE_SIZE is too small"
    for _ in range(8):
        path, cached = _obtain(job)
        try:
            return _cffi_backend.load_library(str(path), mode), path, cached
        except OSError as error:
            if not path.exists():
                continue
            wrong = str(error)
        cache.discard(path.parent)
        if path.exists() or any(say in wrong for say in UNMAPPABLE):
            cache.use_private(wrong)
        elif cached:
            warnings.warn(f"cache entry {path.parent} cannot be loaded and is rebuilt: {wrong}",
                          CacheWarning, stacklevel=4)
        else:
            break
    kept = cache.keep_failed(job.key, job.source)
    raise CompileError(f"{job.name} was compiled but cannot be loaded: {wrong}\n"
                       f"command: {shlex.join(job.command(str(kept)))}\nsource: {kept}")


def _obtain(job: _Job) -> tuple[Path, bool]:
    """The library of `job`, and whether it was compiled before."""
    key = job.key
    path = cache.fetch(key)
    if path is not None:
        return path, True
    return cache.store(key, lambda work: _compile(job, work)), False


def _compile(job: _Job, work: Path) -> dict[str, object]:
    """Write source and library of `job` into `work`; returns what meta.json says of them."""
    import importlib.metadata  # slow to import, and needed here only

    (work / cache.SOURCE).write_text(job.source, encoding="utf-8")
    start = time.perf_counter()
    _run(job, job.command(cache.SOURCE), work)
    try:
        release = importlib.metadata.version("elemc")
    except importlib.metadata.PackageNotFoundError:
        release = "not installed"
    return {
        "name": job.name,
        "command": list(job.command(cache.SOURCE)),
        "compiler": job.toolchain.version,
        "seconds": round(time.perf_counter() - start, 3),
        "elemc": release,
    }


def _run(job: _Job, command: tuple[str, ...], work: Path) -> str:
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
    kept = cache.keep_failed(job.key, job.source)
    end = f"exit status {done.returncode}" if done.returncode > 0 else f"signal {-done.returncode}"
    again = shlex.join(str(kept) if word == cache.SOURCE else word for word in command)
    raise CompileError(f"the C compiler failed on {job.name} ({end})\ncommand: {again}\n{words}\n"
                       f"source: {kept}")
