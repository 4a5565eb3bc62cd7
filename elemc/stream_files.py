"""Files of a streamed evaluation: inputs mapped into memory, outputs moved into place when done."""

from __future__ import annotations

import glob
import mmap
import os
import platform
import secrets
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from .errors import ArgumentError

COPY = 2**20  # bytes copied at a time


def scratch(near: Path) -> Path:
    """A name for a file beside `near` that nobody else uses.

    Those that killed processes of this machine have left there are removed.
    """
    start = f".{near.name}.{platform.node()}."
    for old in near.parent.glob(f"{glob.escape(start)}*.tmp"):
        pid = old.name.removeprefix(start).partition(".")[0]
        if pid.isdigit() and not _alive(int(pid)):
            old.unlink(missing_ok=True)
    return near.parent / f"{start}{os.getpid()}.{secrets.token_hex(4)}.tmp"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True


@contextmanager
def scratch_files() -> Iterator[Callable[[Path], Path]]:
    """Hands out names of files that are removed in the end, whatever happens."""
    made: list[Path] = []

    def new(near: Path) -> Path:
        made.append(scratch(near))
        return made[-1]

    try:
        yield new
    finally:
        for path in made:
            path.unlink(missing_ok=True)


def open_input(name: str, file: str, new: Callable[[], Path]) -> np.ndarray:
    """The array in FILE.npy, in FILE.npz:MEMBER, or in FILE.npz of one member, mapped into memory.

    Parameters
    ----------
    name : str
        Of the input, for messages.
    file : str
    new : callable
        Gives the path of a scratch file, which a compressed member is unpacked to.

    Raises
    ------
    ArgumentError
        If there is no such file or member, or it holds no array of numbers.
    """
    archive, _, member = file.rpartition(":")
    try:
        path = Path(file)
        if path.suffix == ".npz":
            archive, member = file, _only_member(name, path)
        if archive.endswith(".npz"):
            path = new()
            _unpack(name, Path(archive), member, path)
        return _map(path)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, ArgumentError):
            raise
        words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ArgumentError(f"{name}: {file} cannot be read: {words}") from None


def _map(path: Path) -> np.ndarray:
    with path.open("rb") as file:
        magic = file.read(6)
    if magic != b"\x93NUMPY":
        raise ValueError("it is no .npy file")
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return np.asanyarray(array)


def _only_member(name: str, archive: Path) -> str:
    """The one member that an archive has."""
    with zipfile.ZipFile(archive) as held:
        members = [m.removesuffix(".npy") for m in held.namelist()]
    if not members:
        raise ArgumentError(f"{name}: {archive} holds no array")
    if len(members) > 1:
        raise ArgumentError(f"{name}: {archive} holds several arrays ({', '.join(members)}): name "
                            f"one, as in {name}={archive}:{members[0]}")
    return members[0]


def _unpack(name: str, archive: Path, member: str, path: Path) -> None:
    """Unpack one member of an archive into a file, piece by piece."""
    with zipfile.ZipFile(archive) as held:
        names = held.namelist()
        found = next((m for m in (f"{member}.npy", member) if m in names), None)
        if found is None:
            known = ", ".join(m.removesuffix(".npy") for m in names)
            raise ArgumentError(f"{name}: {archive} has no member {member}; it has {known}")
        with held.open(found) as source, path.open("wb") as target:
            shutil.copyfileobj(source, target, COPY)


def release(array: np.ndarray) -> None:
    """Let the system forget the pages of a mapped file that were touched so far."""
    mapped = getattr(array, "_mmap", None)
    if mapped is not None and hasattr(mapped, "madvise"):
        mapped.madvise(mmap.MADV_DONTNEED)


class Outputs:
    """The arrays that are written, under temporary names until `publish`.

    Parameters
    ----------
    files : sequence of str
        One .npy per output, in their order or as NAME=FILE.npy, or one .npz for all of them.
    names : sequence of str
        Of the outputs.
    new : callable
        `new(path)` gives the path of a scratch file beside `path`.

    Raises
    ------
    ArgumentError
        If the files do not fit the outputs.
    """

    def __init__(self, files: Sequence[str], names: Sequence[str],
                 new: Callable[[Path], Path]) -> None:
        self.files, self.names, self.new = [Path(f) for f in _in_order(files, names)], names, new
        archives = [f for f in self.files if f.suffix == ".npz"]
        for file in self.files:
            if file.suffix not in (".npy", ".npz"):
                raise ArgumentError(f"-o {file}: an output is a .npy or a .npz file")
            if not file.absolute().parent.is_dir():
                raise ArgumentError(f"-o {file}: there is no directory {file.parent}")
        if len({f.absolute() for f in self.files}) < len(self.files):
            raise ArgumentError("two outputs go into one file: give one -o for each")
        if len(self.files) != len(names) if not archives else len(self.files) != 1:
            raise ArgumentError(f"the outputs are {', '.join(names)} ({len(names)}): give one "
                                "-o FILE.npy for each, or one -o FILE.npz for all")
        self.archive = archives[0] if archives else None
        self.parts: list[Path] = []

    def create(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """The array of the next output, mapped into memory."""
        near = self.archive or self.files[len(self.parts)]
        path = self.new(near)
        self.parts.append(path)
        try:
            return np.lib.format.open_memmap(path, "w+", dtype, shape)
        except OSError as error:
            raise ArgumentError(f"{near} cannot be written: {error.strerror or error}") from None

    def publish(self) -> None:
        """Move everything into place."""
        try:
            if self.archive is not None:
                packed = self.new(self.archive)
                with zipfile.ZipFile(packed, "w", allowZip64=True) as held:
                    for name, part in zip(self.names, self.parts, strict=True):
                        held.write(part, f"{name}.npy")
                self.parts = [packed]
            for part, file in zip(self.parts, self.files, strict=True):
                os.replace(part, file)
        except OSError as error:
            raise ArgumentError(f"{self.files[0]} cannot be written: "
                                f"{error.strerror or error}") from None


def _in_order(files: Sequence[str], names: Sequence[str]) -> list[str]:
    """The files in the order of the outputs; some may be NAME=FILE.npy, if all are."""
    named: dict[str, str] = {}
    for word in files:
        name, sign, file = word.partition("=")
        if not sign or (name not in names and os.sep in name):
            continue  # ./a=b.npy is a file
        if name not in names:
            raise ArgumentError(f"-o {word}: there is no output {name}; there are "
                                f"{', '.join(names)}. A file of this name is written ./{word}")
        if Path(file).suffix != ".npy":
            raise ArgumentError(f"-o {word}: NAME=FILE is for .npy files; one .npz holds all "
                                "outputs by their names")
        if name in named:
            raise ArgumentError(f"-o {word}: output {name} goes to {named[name]} already")
        named[name] = file
    if not named:
        return list(files)
    if len(named) < len(files):
        raise ArgumentError("some -o have names and some have none: write NAME=FILE.npy for all")
    missing = [name for name in names if name not in named]
    if missing:
        raise ArgumentError(f"output {missing[0]} has no file: -o {missing[0]}=FILE.npy")
    return [named[name] for name in names]


@contextmanager
def progress(total: int, shown: bool,
             stream: TextIO | None = None) -> Iterator[Callable[[int], Any]]:
    """A function that is told of work done: a bar by tqdm, or a line for every 10 %."""
    if not shown:
        yield lambda done: None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield _Lines(total, stream or sys.stderr)
        return
    with tqdm(total=total, unit="B", unit_scale=True, unit_divisor=1024, file=stream) as bar:
        yield bar.update


class _Lines:
    """Progress, for want of tqdm."""

    def __init__(self, total: int, stream: TextIO) -> None:
        self.total, self.stream = max(1, total), stream
        self.done = self.shown = 0

    def __call__(self, done: int) -> None:
        self.done += done
        tenth = min(10, 10 * self.done // self.total)
        if tenth > self.shown:
            self.shown = tenth
            print(f"{10 * tenth} %", file=self.stream, flush=True)
