"""Where the cache is, what else is kept there, and what to do when it cannot be written.

Who can write into the cache directory can run code as its user; it is created readable and
writable by the user alone.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from .errors import ArgumentError, CacheWarning

FAILED, NOTES, SCRATCH = "failed", "notes", "elemc-tmp-"
DEFAULT_MIB = 512

T = TypeVar("T")


class _Process:
    """What this process remembers: its private directory, and the bytes in each cache directory."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.private: Path | None = None
        self.only_private = False  # the cache is not even read
        self.bytes: dict[Path, int] = {}

    def private_dir(self, reason: object) -> Path:
        """A directory of this process alone, for when no other can be written."""
        if self.private is None:
            self.private = Path(tempfile.mkdtemp(prefix="elemc-"))
            atexit.register(self._remove, self.private)
            warnings.warn(
                f"the cache directory {cache_dir()} cannot be used ({reason}); kernels of this "
                f"process go to {self.private} and are lost when it ends. ELEMC_CACHE_DIR names "
                f"another directory",
                CacheWarning,
                stacklevel=3,
            )
        return self.private

    def _remove(self, private: Path) -> None:
        if os.getpid() == self.pid:  # not in a child that inherited this handler
            shutil.rmtree(private, ignore_errors=True)


_process = _Process()


def _after_fork() -> None:
    """A child makes its own private directory: the parent's goes when the parent ends."""
    global _process
    _process = _Process()


os.register_at_fork(after_in_child=_after_fork)


def cache_dir() -> Path:
    """The cache directory: ELEMC_CACHE_DIR, or the system's standard place for caches."""
    chosen = os.environ.get("ELEMC_CACHE_DIR")
    if chosen:
        return Path(os.path.expanduser(chosen)).absolute()
    # Without any home "~" stays: below the root it cannot be written, and writing() deals with it.
    home = Path("/") / os.path.expanduser("~")
    if sys.platform == "darwin":
        return home / "Library/Caches/elemc"
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The standard says that a relative XDG_CACHE_HOME is to be ignored.
    return (Path(base) if os.path.isabs(base) else home / ".cache") / "elemc"


def size_limit() -> int:
    """Bytes that the cache may hold, from ELEMC_CACHE_SIZE (MiB)."""
    return bytes_of("ELEMC_CACHE_SIZE", DEFAULT_MIB)


def bytes_of(variable: str, default: int) -> int:
    """The bytes that an environment variable says in MiB, or -1 if `default` is negative.

    Raises
    ------
    ArgumentError
        If it is not a number, or negative.
    """
    text = os.environ.get(variable)
    if not text:
        return max(-1, default * 2**20)
    try:
        limit = float(text) * 2**20
        if limit >= 0:
            return int(limit)
    except (ValueError, OverflowError):
        pass
    raise ArgumentError(f"{variable} is {text!r}; it must be a number of MiB, such as 512")


def key_of(*parts: str) -> str:
    """The key of what depends on `parts`, in this order."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(b"%d:" % len(data))  # so that ("ab", "c") and ("a", "bc") differ
        digest.update(data)
    return digest.hexdigest()[:40]


def roots() -> list[Path]:
    """Where to look for what is stored: the cache directory, then this process's own."""
    own = [] if _process.private is None else [_process.private]
    return own if _process.only_private else [cache_dir(), *own]


def process_bytes() -> dict[Path, int]:
    """Bytes in each directory, as far as this process knows."""
    return _process.bytes


def use_private(reason: object) -> None:
    """From now on, build in a private directory: the cache's libraries cannot be loaded."""
    _process.private_dir(reason)
    _process.only_private = True


def writing(write: Callable[[Path], T]) -> T:
    """`write(directory)` in the cache directory, or in a private one if that cannot be done."""
    if _process.private is not None:
        return write(_process.private)
    root = cache_dir()
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        return write(root)
    except OSError as error:
        reason = error
    return write(_process.private_dir(reason))


def keep_failed(key: str, source: str) -> Path:
    """Keep a source that did not compile, for the user to look at; returns where it is."""
    return _write(Path(FAILED) / f"{key}.c", source)


def note(key: str) -> dict[str, Any] | None:
    """What `save_note` stored under `key`; None if that is missing or damaged."""
    for root in roots():
        try:
            held = json.loads((root / NOTES / f"{key}.json").read_bytes())
            if held["checksum"] == key_of(key, json.dumps(held["note"])):
                return dict(held["note"])
        except (OSError, ValueError, TypeError, KeyError):
            continue  # found out again, at the price of two runs of the compiler
    return None


def save_note(key: str, value: Mapping[str, object]) -> None:
    """Remember `value`, which JSON can hold, under `key`."""
    text = json.dumps(value)
    held = json.dumps({"checksum": key_of(key, text), "note": json.loads(text)})
    _write(Path(NOTES) / f"{key}.json", held)


def _write(place: Path, text: str) -> Path:
    """Write one small file below the cache directory, whole or not at all."""

    def write(root: Path) -> Path:
        path = root / place
        path.parent.mkdir(mode=0o700, exist_ok=True)
        handle, scratch = tempfile.mkstemp(prefix=SCRATCH, dir=root)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(scratch, path)
        finally:
            Path(scratch).unlink(missing_ok=True)
        return path

    return writing(write)
