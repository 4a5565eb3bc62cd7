"""The C compiler: which one, what it can do, and which flags it gets.

Looked for in this order: ELEMC_CC, CC, `cc`, `gcc`, `clang`, and the one in the PyPI package
`ziglang`.  A compiler is taken when it compiles and links for this machine, which is tried once;
the finding is kept in the cache, by the compiler's path, time and size, so that a later process
starts no compiler to ask.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .cache_dirs import key_of, note, save_note, writing
from .errors import ArgumentError, CompileError
from .variants import for_clang, isas_of, open_libmvec

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

FORMAT = "2"  # of what is noted of a compiler; part of every key

COMMON = (
    "-std=gnu11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv",
    "-fno-strict-aliasing", "-fPIC", "-fno-plt",
)  # fmt: skip

TRIAL = "extern double elemc_exp(double) SIMD;"

# Flags that change what a program means; with some linkers, in the whole process.
REFUSED = "-Ofast|-f(fast|unsafe|finite|associative)-math.*|-ffp-contract=(fast|on)"


class Toolchain(NamedTuple):
    """A C compiler that works.

    Attributes
    ----------
    command : tuple of str
        How it is called.
    family : str
        gcc, clang or zig.
    version : str
        The first line of its `--version`.
    flags : tuple of str
        To compile.
    shared : tuple of str
        To link a shared library.
    links : tuple of str
        Behind the source of a kernel.
    simd : str
        The variants of math functions that are called from vectorized loops, by the letters of
        their names (`variants.ISAS`); none without glibc's libmvec.
    identity : str
        Everything about compiler and machine that a compiled kernel depends on.
    """

    command: tuple[str, ...]
    family: str
    version: str
    flags: tuple[str, ...]
    shared: tuple[str, ...]
    links: tuple[str, ...]
    simd: str
    identity: str

    def extra(self, wants: tuple[str, ...]) -> tuple[str, ...]:
        """The flags for what some kernels need besides.

        "uncontracted": gcc makes vfmaddsub of the alternating signs of complex products,
        `-ffp-contract=off` notwithstanding (gcc 12): bits would depend on positions.
        "interleaved": vectors of 256 bits subtract and add such products in one instruction.
        "full vectors": where elements are gathered, gcc takes short ones; calls of functions want
        long ones.  "unrolled": short turns wait for the loop's own instructions; renaming registers
        takes time alone.  "unswitched": loops go one of two ways.  "folds": calls of memset empty
        registers.  "masks": gcc branches at 1 or NaN.  "branches": no loops, less time.
        """
        if self.family != "gcc":
            return ()
        x86 = platform.machine().lower() in ("x86_64", "amd64")
        flags = {"uncontracted": ("-mno-fma", "-mno-avx512f") if x86 else (),
                 "interleaved": ("-mno-fma",) if x86 and self.simd[-1:] in ("c", "d") else (),
                 "unrolled": ("-funroll-loops", "--param=max-unroll-times=4", "-fno-web",
                              "-fno-rename-registers"),
                 "unswitched": ("--param=max-unswitch-insns=1000",),
                 "full vectors": ("-fvect-cost-model=unlimited",), "masks": ("-fno-tree-pre",),
                 "folds": ("-fno-tree-loop-distribute-patterns",),
                 "branches": ("-fno-tree-loop-optimize", "-fno-tree-vrp",
                              "-fno-tree-dominator-opts", "-fno-schedule-insns2")}
        return tuple(flag for want in wants for flag in flags.get(want, ()))

    def variants(self, source: str) -> tuple[str, tuple[str, ...]]:
        """C to append to `source`, and flags, for the compiler to know functions' variants."""
        return ("", ()) if self.family == "gcc" else for_clang(source, self.simd)


class _Unusable(Exception):
    """Why a candidate is not taken."""


_found: dict[tuple[str | None, ...], Toolchain | None] = {}


def find_toolchain() -> Toolchain | None:
    """The compiler to use; None if there is none.

    Raises
    ------
    CompileError
        If ELEMC_CC names a compiler that cannot be used.
    ArgumentError
        If ELEMC_CFLAGS has flags that change the meaning of floating-point arithmetic.
    """
    names = ("ELEMC_CC", "CC", "PATH", "ELEMC_CFLAGS")
    key = tuple(os.environ.get(name) for name in names)
    if key not in _found:
        _found[key] = _find()
    return _found[key]


def fallback() -> str:
    """What to do without a compiler, from ELEMC_FALLBACK: 'numpy' or 'error'."""
    choice = os.environ.get("ELEMC_FALLBACK") or "numpy"
    if choice not in ("numpy", "error"):
        raise ArgumentError(f"ELEMC_FALLBACK is {choice!r}; it must be 'numpy' or 'error'")
    return choice


def environment(scratch: Path) -> dict[str, str]:
    """The environment of a compiler: untranslated messages, temporary files in `scratch`."""
    private = str(scratch)
    return {**os.environ, "LC_ALL": "C", "TMPDIR": private, "ZIG_LOCAL_CACHE_DIR": private,
            "ZIG_GLOBAL_CACHE_DIR": zig_cache()}


def zig_cache() -> str:
    """Where zig keeps the C library it built in seconds: its own place, or beside our entries."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    usual = os.environ.get("ZIG_GLOBAL_CACHE_DIR") or os.path.join(base, "zig")
    if os.access(usual if os.path.exists(usual) else base, os.W_OK | os.X_OK):
        return usual

    def make(root: Path) -> str:
        import errno

        place = root / "zig"
        place.mkdir(exist_ok=True)
        if not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "it cannot be written", str(place))
        return str(place)

    return writing(make)


def run(
    command: tuple[str, ...], work: Path, scratch: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a compiler in `work`; its words are in stdout and stderr, its litter in `scratch`.

    Raises
    ------
    OSError
        If it cannot be started.
    """
    import subprocess  # slow to import, and needed only where nothing is cached

    return subprocess.run(
        command, cwd=work, env=environment(scratch or work), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip


def _find() -> Toolchain | None:
    text = os.environ.get("ELEMC_CFLAGS", "")
    try:
        extra = tuple(_split(text))
    except ValueError as error:
        raise ArgumentError(f"ELEMC_CFLAGS is {text!r}: {error}") from None
    if refused := [flag for flag in extra if re.fullmatch(REFUSED, flag)]:
        raise ArgumentError(
            f"ELEMC_CFLAGS has {' '.join(refused)}, which breaks isnan, or how sums are rounded, "
            f"everywhere; use contract=True or reassociate=True on the functions that may"
        )
    if chosen := os.environ.get("ELEMC_CC"):
        try:
            return _toolchain(_command(chosen), extra)
        except _Unusable as error:
            raise CompileError(f"ELEMC_CC={chosen} cannot be used: {error}; unset it, or "
                               f"name a gcc, a clang, or 'python -m ziglang cc'") from None
    for command in _candidates():
        try:
            return _toolchain(command, extra)
        except _Unusable:
            continue
    return None


def _candidates() -> Iterator[tuple[str, ...]]:
    for text in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if text:
            try:
                yield _command(text)
            except _Unusable:
                continue
    import importlib.util

    spec = importlib.util.find_spec("ziglang")
    if spec is not None and spec.origin is not None:
        zig = _which("zig", os.path.dirname(spec.origin))
        if zig:  # what `python -m ziglang cc` runs
            yield (zig, "cc")


def _command(text: str) -> tuple[str, ...]:
    try:
        words = _split(text)
    except ValueError as error:
        raise _Unusable(str(error)) from None
    path = _which(os.path.expanduser(words[0])) if words else None
    if path is None:
        raise _Unusable("there is no such program")
    return (os.path.abspath(path), *words[1:])


def _split(text: str) -> list[str]:
    """The words of a command."""
    if not text or text.strip("/").replace("/", "").isalnum():
        return [text] if text else []
    import shlex  # slow to import

    return shlex.split(text)


def _which(program: str, path: str | None = None) -> str | None:
    """The file of a program, as of `shutil.which`, which takes longer to import than to run."""
    places = [""]
    if not os.path.dirname(program):
        places = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)
    for place in places:
        file = os.path.join(place, program)
        if os.path.isfile(file) and os.access(file, os.X_OK):
            return file
    return None


def _toolchain(command: tuple[str, ...], extra: tuple[str, ...]) -> Toolchain:
    key = key_of(FORMAT, machine(), *command, *_stamps(command), "", *extra)
    facts = note(key)
    if facts is None:
        facts = _probe(command, extra)
        save_note(key, facts)
    flags = [*COMMON, *facts["machine_flags"]]
    simd, gcc = str(facts["simd"]), facts["family"] == "gcc"
    if gcc:  # else it makes branches of calls within ?:, and of ?: within ?:
        flags += ["-fno-tree-sink", "-fno-thread-jumps"]
        flags += ["-fno-gcse", "-fno-gcse-after-reload", "-fira-region=one"]  # take time, give none
        flags += ["-fno-tree-slp-vectorize"]  # errs: the last sums of rows of 10 lack a turn
    declared = gcc and simd
    calls = '__attribute__((simd("notinbranch"), const))' if declared else "__attribute__((const))"
    flags += [f"-DSIMD={calls}", "-DPURE=__attribute__((const))", *extra]
    shared = ["-shared", *(["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else [])]
    shared += ["-pipe"] * gcc  # the assembler starts while the compiler is at work
    # Constants stand on the pages of the code, which are there.  From a page that nobody has
    # touched, a vector loaded under a mask that is empty (of `a % b`, those without a rest) is
    # microcode on an EPYC of Zen 5, and leaves the page untouched: 600 cycles, every time.
    if facts["family"] != "zig" and sys.platform == "linux":
        shared.append("-Wl,-z,noseparate-code")
    # The C library that kernels call is there; looking for it takes the linker a tenth of the time
    # that a kernel takes.  Users' flags may ask for more of the compiler's own libraries.
    alone = (facts["family"] == "gcc" and sys.platform == "linux"
             and all(re.match("-[DOWmw]", flag) for flag in extra))
    links = ("-nostdlib", "-lgcc") if alone else ()
    identity = "\n".join([
        FORMAT, facts["family"], facts["version"], machine(), *command[1:], *flags, *shared,
    ])  # fmt: skip
    return Toolchain(command, facts["family"], facts["version"], tuple(flags), tuple(shared), links,
                     simd, identity)


def _stamps(command: tuple[str, ...]) -> list[str]:
    """Path, time and size of every program in the command: `ccache gcc` has two."""
    stamps = []
    for word in command:
        path = _which(word) if not word.startswith("-") else None
        if path is not None:
            real = os.path.realpath(path)
            state = os.stat(real)
            stamps += [real, str(state.st_mtime_ns), str(state.st_size)]
    return stamps


@cache
def machine() -> str:
    """Processor, its features and libc: what `-march=native` and the math library look at."""
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, ValueError, OSError):
        libc = None
    if libc is None:
        import sysconfig

        libc = sysconfig.get_config_var("SOABI")
    parts = [sys.platform, platform.machine(), libc or ""]
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            first = file.read(16384).decode(errors="replace").partition("\n\n")[0]
    except OSError:
        first = ""
    wanted = ("vendor_id", "cpu family", "model", "model name", "flags", "Features", "isa",
              "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "cpu")
    lines = (line.partition(":") for line in first.splitlines())
    parts += [f"{name.strip()}={value.strip()}" for name, _, value in lines
              if name.strip() in wanted]
    if not first:
        features = np._core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]
        parts += [platform.processor(), *sorted(name for name, has in features.items() if has)]
    return "\n".join(parts)


def _probe(command: tuple[str, ...], extra: tuple[str, ...]) -> dict[str, Any]:
    """Ask a compiler what it is and let it compile and link an empty library."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory(prefix="elemc-probe-") as directory:
        scratch = Path(directory)
        try:
            said = run((*command, "--version"), scratch)
            family = _family(command, scratch)
            flags = _best(command, family, scratch)
            simd = _variants(command, family, (*flags, *extra), scratch)
        except OSError as error:
            raise _Unusable(str(error)) from None
    version = (said.stdout.splitlines() or [""])[0]
    return {"family": family, "version": version, "machine_flags": flags, "simd": simd}


def _best(command: tuple[str, ...], family: str, scratch: Path) -> tuple[str, ...]:
    """The first flags that work."""
    import ctypes

    wrong = ""
    for number, flags in enumerate(_machine_flags(family)):
        name = f"empty{number}.so"  # a name is loaded once per process
        empty = ("-shared", "-o", name, "-x", "c", os.devnull, "-lm")
        made = run((*command, *COMMON, *flags, *empty), scratch)
        wrong = made.stderr.strip()
        if made.returncode == 0:
            try:
                ctypes.CDLL(str(scratch / name))
                return flags
            except OSError as error:
                wrong = str(error)
    raise _Unusable(f"it does not make libraries that load here: {wrong}")


def _variants(command: tuple[str, ...], family: str, flags: tuple[str, ...],
              scratch: Path) -> str:
    """The variants of math functions that kernels can call: those of glibc's libmvec."""
    if platform.machine() != "x86_64" or "glibc" not in machine():
        return ""
    try:
        open_libmvec()
    except OSError:
        return ""
    told = () if family == "gcc" else (*COMMON, *for_clang(TRIAL, "b")[1])
    macros = run((*command, *flags, *told, "-dM", "-E", "-x", "c", os.devnull), scratch)
    return "" if macros.returncode else isas_of(macros.stdout)


def _family(command: tuple[str, ...], scratch: Path) -> str:
    macros = run((*command, "-dM", "-E", "-x", "c", os.devnull), scratch)
    if macros.returncode:
        raise _Unusable(macros.stderr.strip() or f"it ends with {macros.returncode}")
    if any(os.path.basename(word).removesuffix(".exe") in ("zig", "ziglang") for word in command):
        return "zig"
    for macro, family in (("__clang__", "clang"), ("__GNUC__", "gcc")):
        if f"#define {macro} " in macros.stdout:
            return family
    raise _Unusable("it is neither a gcc nor a clang")


def _machine_flags(family: str) -> Iterator[tuple[str, ...]]:
    """Flags for this processor, the best first; the last asks for nothing."""
    wide = ("-mprefer-vector-width=512",) if platform.machine() in ("x86_64", "AMD64") else ()
    # zig builds libraries of its own, unstripped and with checks, unless told not to.
    quiet = ("-fno-sanitize=undefined", "-g0") if family == "zig" else ()
    native = ("-march=native", "-mcpu=native") if wide and family != "zig" else ("-mcpu=native",)
    for flag in native:
        yield (flag, *wide, *quiet)
        yield (flag, *quiet)
    yield quiet
