"""C source -> a loaded library: compiled once per content and machine, then taken from the cache.

A kernel has one entry (`ENTRY_C`) and is opened privately; the libraries whose functions kernels
declare and do not define are opened before them and their names are global: runtime.c, and those
of the math library that a kernel calls.

What is imported here is what loads libraries that are there; what stores them is imported where
something is missing.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import warnings
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import _cffi_backend  # what cffi.FFI().dlopen calls; parsing C in Python costs 15 ms

from . import cache_dirs, mathlib
from .constants import Constants, constants_of
from .errors import CacheWarning, CompileError, MissingHeaders
from .templating import PACKAGE, load_templates, stamp_now
from .threads import number_of_threads
from .threads_limits import tell_threadpoolctl
from .toolchain import Toolchain, find_toolchain
from .variants import open_libmvec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from .build_jobs import Job, Kernel

ENTRY_C = (
    "int %s(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s, "
    "const int64_t *n, volatile int64_t *decided, char *const *w)"
)

# functions of runtime.c
USE_THREADS_C = "void elemc_use_threads(int count)"
USE_PACE_C = "void elemc_use_pace(double factor)"
PACE_C = "double elemc_pace(void)"
KEEP_C = "void elemc_keep_at_most(int64_t bytes)"

UNMAPPABLE = ("failed to map", "Operation not permitted", "Permission denied")

RUNTIME = "elemc_runtime"
CALLABLE, CALLABLE_NAME = "callable.c", "elemc_callable"  # the call path

STAMP = stamp_now()  # part of the key of whatever is kept for other processes

_ffi = FFI = _cffi_backend.FFI()


class _Loaded:
    """The libraries of this process, and a lock per library being built."""

    def __init__(self) -> None:
        self.kernels: dict[tuple[str, ...], Kernel] = {}
        # identity of the toolchain -> key and library by name
        self.support: defaultdict[str, dict[str, tuple[str, Any]]] = defaultdict(dict)
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
                wants: tuple[str, ...] = (), libraries: tuple[str, ...] = (),
                slow: tuple[str, ...] = ()) -> Kernel:
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
        What else it needs, see `Toolchain.extra`.
    libraries : tuple of str
        Those of the math library that it calls.
    slow : tuple of str
        And those that it calls where the machine divides slowly.

    Raises
    ------
    CompileError
        If there is no compiler, or it fails, or what it made cannot be loaded.
    """
    tool = toolchain()
    flags = kernel_flags(tool, flags, wants)
    memo = (tool.identity, entry, source, *flags)
    libraries += () if "-DDIVIDES=1" in flags else slow
    kernel = _loaded.kernels.get(memo)
    if kernel is None:
        with _loaded.lock(*memo):
            kernel = _loaded.kernels.get(memo)
            if kernel is None:
                kernel = _loaded.kernels[memo] = _load_kernel(tool, source, entry, flags, libraries)
    return kernel


def _load_kernel(tool: Toolchain, source: str, entry: str, flags: tuple[str, ...],
                 libraries: tuple[str, ...]) -> Kernel:
    from .build_jobs import Job, Kernel, obtain

    def job(needs: str) -> Job:
        return Job(tool, entry, source, flags, tool.links, needs)

    def beside(needs: str) -> None:
        begun = time.perf_counter()
        beside_them.append((obtain(job(needs))[1], time.perf_counter() - begun))

    beside_them: list[tuple[bool, float]] = []  # whether it was compiled before, and seconds
    start = time.perf_counter()
    needs = _support(tool, *libraries, meanwhile=beside)
    ready = time.perf_counter()
    library, path, cached = _load(job(needs), os.RTLD_NOW)
    try:
        function = library.load_function(_ffi.typeof(ENTRY_C % "(*)"), entry)
    except AttributeError as error:
        raise CompileError(f"{path} has no entry {entry}: {error}") from None
    address = int(_ffi.cast("intptr_t", function))
    cached, took = beside_them[0] if beside_them else (cached, 0.0)
    return Kernel(address, entry, path, source, cached, time.perf_counter() - ready + took,
                  ready - start - took, libraries, function, library)


def _support(tool: Toolchain, *names: str,
             meanwhile: Callable[[str], None] = lambda needs: load_templates()) -> str:
    """Load runtime.c and libraries of these names for the kernels that call them; their keys.

    If any is missing, `meanwhile` is called with the keys, while they are compiled.
    """
    tell_threadpoolctl()
    names, held = (RUNTIME, *names), _loaded.support[tool.identity]
    if any(name not in held for name in names):
        with _loaded.lock("support", tool.identity):
            if tool.simd and names != (RUNTIME,):
                open_libmvec()
            known = _known(tool)
            missing = [n for n in names if n not in held and not _known_support(tool, n, known)]
            if missing:
                jobs = [_support_job(tool, name) for name in missing]
                keys = {j.name: j.key for j in jobs}
                needs = " ".join(keys.get(name) or held[name][0] for name in names)
                _new_support(tool, jobs, lambda: meanwhile(needs))
    return " ".join(held[name][0] for name in names)


def _new_support(tool: Toolchain, jobs: Sequence[Job], meanwhile: Callable[[], None]) -> None:
    """Find libraries by the C that they are made of; beside runtime.c the call path is built."""
    from .build_jobs import extension_job, obtain_all

    also = []
    if jobs[0].name == RUNTIME:
        with contextlib.suppress(MissingHeaders):  # then there is none
            also = [extension_job(tool, jobs[0].key, own_source(CALLABLE), CALLABLE_NAME)]
    obtain_all((*jobs, *also), meanwhile)
    paths = {}
    for job in jobs:
        library, paths[job.name], _ = _load(job, os.RTLD_NOW | os.RTLD_GLOBAL)
        _hold(tool, job.name, job.key, library)
    _remember(tool, paths)


def _support_job(tool: Toolchain, name: str) -> Job:
    from .build_jobs import Job

    if name == RUNTIME:  # the others and kernels, which are opened after it, call libm, too
        return Job(tool, name, own_source("runtime.c"), links=("-lpthread", "-lm"))
    flags = (f"-DELEMC_LIBMVEC={open_libmvec() if tool.simd else 0}",)
    return Job(tool, name, mathlib.source(name), flags, tool.links)


def _known_support(tool: Toolchain, name: str, known: dict[str, tuple[str, str]]) -> bool:
    """Whether a library is there that an earlier process of this package noted."""
    noted = known.get(name)
    found = noted and stored_library(*noted, os.RTLD_NOW | os.RTLD_GLOBAL)
    if noted and found:
        _hold(tool, name, noted[0], found[0])
    return bool(found)


def _hold(tool: Toolchain, name: str, key: str, library: Any) -> None:
    _loaded.support[tool.identity][name] = key, library
    if name == RUNTIME:
        runtime_function(USE_THREADS_C)(number_of_threads())
        runtime_function(USE_PACE_C)(machine_constants(tool).pace)
        runtime_function(KEEP_C)(cache_dirs.bytes_of("ELEMC_RECYCLE", -1))


def machine_constants(tool: Toolchain) -> Constants:
    """What is measured of this machine."""
    return constants_of(tool.identity, runtime_function)


def kernel_flags(tool: Toolchain, flags: tuple[str, ...],
                 wants: tuple[str, ...]) -> tuple[str, ...]:
    """What the compiler of a kernel is told, besides what every compilation is."""
    constants, extra = machine_constants(tool), tool.extra(wants)
    fuses = "-mno-fma" not in extra
    if not fuses:  # what corrects a product is a call then
        constants = constants._replace(divides=1)
    return *flags, *extra, *constants.flags, f"-DHAS_FMA={fuses:d}"


def own_source(file: str) -> str:
    """The text of a file of this package."""
    with open(os.path.join(PACKAGE, file), encoding="utf-8") as source:
        return source.read()


def _place(tool: Toolchain) -> str:
    """Where keys and checksums of this package's own libraries are noted, by their names."""
    key = cache_dirs.key_of("libraries", STAMP or "", tool.identity)
    return os.path.join(cache_dirs.NOTES, key)


def _known(tool: Toolchain) -> dict[str, tuple[str, str]]:
    held = cache_dirs.record(_place(tool)) if STAMP else None
    return held if isinstance(held, dict) else {}


def _remember(tool: Toolchain, paths: dict[str, Path]) -> None:
    """Note libraries just loaded, unless this package changed meanwhile."""
    from . import cache

    new = {name: (path.parent.name, cache.checksum_of(path)) for name, path in paths.items()}
    if STAMP and stamp_now() == STAMP and all(sum_of for _, sum_of in new.values()):
        cache_dirs.save_record(_place(tool), {**_known(tool), **new})


def stored_kernel(key: str, checksum: str, entry: str,
                  libraries: tuple[str, ...]) -> tuple[int, Any] | None:
    """The address of a kernel that is in the cache, and what keeps it loaded; or None."""
    _support(toolchain(), *libraries)
    found = stored_library(key, checksum)
    if found is None:
        return None
    function = found[0].load_function(_ffi.typeof(ENTRY_C % "(*)"), entry)
    return int(_ffi.cast("intptr_t", function)), found[0]


def stored_library(key: str, checksum: str, mode: int = os.RTLD_NOW) -> tuple[Any, str] | None:
    """The library of `key` and its path, loaded; None if it is not there as it was, or fails."""
    path = cache_dirs.stored(key, checksum)
    try:
        return None if path is None else (_cffi_backend.load_library(path, mode), path)
    except OSError:
        return None  # `_load` finds out why


def runtime_function(prototype: str) -> Any:
    """The function of runtime.c with this prototype, to be called through cffi.

    Raises
    ------
    CompileError
        If there is no compiler, or it fails.
    """
    _support(toolchain())
    # the one that kernels and the call path found: with other flags later on there are two
    library: Any = _cffi_backend.load_library(None, os.RTLD_NOW)
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
    from .build_jobs import Job, obtain

    return obtain(Job(toolchain(), name, source, tuple(flags), tuple(links)))[0]


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
    from .build_jobs import extension_job

    tool = toolchain()
    needs = _support(tool)
    # Loaded here so that what cannot be loaded is rebuilt; the import finds the same library.
    return _load(extension_job(tool, needs, source, name), os.RTLD_NOW)[1]


def own_extension(file: str, name: str) -> str:
    """The path of the extension module that a file of this package is the C of.

    Raises
    ------
    MissingHeaders, CompileError
        As `build_extension`.
    """
    tool = toolchain()
    _support(tool)
    known = _known(tool).get(name)
    found = known and stored_library(*known)
    if found:
        return found[1]
    path = build_extension(own_source(file), name)
    _remember(tool, {name: path})
    return str(path)


def toolchain() -> Toolchain:
    """The compiler to use; a `CompileError` if there is none."""
    tool = find_toolchain()
    if tool is None:
        raise CompileError(
            "there is no C compiler: ELEMC_CC, CC, cc, gcc, clang and the package ziglang were "
            "looked for (`python -m pip install ziglang` brings one)"
        )
    return tool


def _load(job: Job, mode: int) -> tuple[Any, Path, bool]:
    """Library, its path, and whether it was compiled before.

    A library may fail to load though its checksum is right: another process evicted it a moment
    ago, or its place forbids programs.
    """
    import shlex

    from . import cache
    from .build_jobs import obtain

    wrong = "it is evicted again and again; ELEMC_CACHE_SIZE is too small"
    for _ in range(8):
        path, cached = obtain(job)
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
    kept = cache.keep_failed(job.key, job.text)
    raise CompileError(f"{job.name} was compiled but cannot be loaded: {wrong}\n"
                       f"command: {shlex.join(job.command(str(kept)))}\nsource: {kept}")
