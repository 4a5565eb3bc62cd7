"""What the compiler makes of a kernel, and says of it, to be read."""

from __future__ import annotations

import tempfile
from pathlib import Path

from . import build
from .build_jobs import Job, run_in
from .cache_dirs import SOURCE


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
    tool = build.toolchain()
    with tempfile.TemporaryDirectory(prefix="elemc-") as directory:
        work = Path(directory)
        job = Job(tool, what, source)
        (work / SOURCE).write_text(job.text, encoding="utf-8")
        flags = (*tool.flags, *build.kernel_flags(tool, flags, wants), *job.variants[1])
        command = (*tool.command, *flags, "-S", "-o", "kernel.s", SOURCE)
        words = run_in(job, command, work)
        return (work / "kernel.s").read_text(encoding="utf-8", errors="replace"), words
