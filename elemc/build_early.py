"""A compiler that starts before its source is there, while this process loads what writes C.

To start takes a compiler a fourth of the time that a small kernel takes, and loading Jinja as
long.  gcc reads what it is told to include when all else is done, so it waits there for a pipe.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from .cache_dirs import LIBRARY, SCRATCH
from .toolchain import environment

SOURCE = ("-include", "/dev/stdin", "-xc", os.devnull)  # in place of a file

Command = tuple[str, ...]


class Early:
    """One compiler, at work in a directory of its own."""

    def __init__(self, command: Command, work: Path) -> None:
        self.work = work
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=work, env=environment(work), stdin=pipe,
                                        stdout=pipe, stderr=pipe, encoding="utf-8",
                                        errors="replace")

    def finish(self, source: str, entry: str, to: Path) -> bool:
        """Whether it made a library with `entry` of `source`, which then is in the directory `to`.

        A program in front of the compiler may have read the pipe, and left nothing for it.
        """
        self.process.communicate(source)
        made = self.work / LIBRARY
        if self.process.returncode or entry.encode() not in made.read_bytes():
            return False
        shutil.move(made, to / LIBRARY)
        return True

    def stop(self) -> None:
        """End it, if it has not ended."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.communicate()


_started: dict[tuple[int, Command], Early] = {}  # by thread


def started(command: Command) -> Early | None:
    """The compiler that this thread started so, for who takes it first."""
    return _started.pop((threading.get_ident(), command), None)


@contextlib.contextmanager
def early(command: Command) -> Iterator[None]:
    """Start a compiler, which ends at the end of this if nobody hands it a source.

    It works outside of the cache, in which there may be nothing to be written.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # there is no place, or no compiler, as others will say
            work = stack.enter_context(
                tempfile.TemporaryDirectory(prefix=SCRATCH, ignore_cleanup_errors=True))
            compiler = _started[threading.get_ident(), command] = Early(command, Path(work))
            stack.callback(compiler.stop)
            stack.callback(started, command)
        yield


def _leave() -> None:
    """In a child process: sources end where the parent ends them."""
    for compiler in _started.values():
        if compiler.process.stdin:
            compiler.process.stdin.close()
    _started.clear()


os.register_at_fork(after_in_child=_leave)
