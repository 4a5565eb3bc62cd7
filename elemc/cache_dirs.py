"""Where the cache is, what else is kept there, and what to do when it cannot be written.

Who can write into the cache directory can run code as its user; it is created readable and
writable by the user alone.

A process that finds everything there reads it with this module alone, which therefore imports
little: not pathlib, tempfile or json, which take longer than all that is read.
"""

from __future__ import annotations

import atexit
import marshal
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import ArgumentError, CacheWarning

if TYPE_CHECKING:
    from hashlib import blake2b
    from pathlib import Path
else:
    try:  # what hashlib imports, but without OpenSSL
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b

FAILED, NOTES, SCRATCH = "failed", "notes", "elemc-tmp-"
SOURCE, LIBRARY, META = "kernel.c", "kernel.so", "meta.json"
DEFAULT_MIB = 512
TOUCH_SECONDS = 60.0  # how exact the time of the last use is
DIGEST = 20  # bytes of a checksum

T = TypeVar("T")


class _Process:
    """What this process remembers: its private directory."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.private: str | None = None
        self.only_private = False  # the cache is not even read

    def private_dir(self, reason: object) -> str:
        """A directory of this process alone, for when no other can be written."""
        if self.private is None:
            import tempfile

            self.private = tempfile.mkdtemp(prefix="elemc-")
            atexit.register(self._remove, self.private)
            warnings.warn(
                f"the cache directory {cache_dir()} cannot be used ({reason}); kernels of this "
                f"process go to {self.private} and are lost when it ends. ELEMC_CACHE_DIR names "
                f"another directory",
                CacheWarning,
                stacklevel=3,
            )
        return self.private

    def _remove(self, private: str) -> None:
        if os.getpid() == self.pid:  # not in a child that inherited this handler
            import shutil

            shutil.rmtree(private, ignore_errors=True)


_process = _Process()


def _after_fork() -> None:
    """A child makes its own private directory: the parent's goes when the parent ends."""
    global _process
    _process = _Process()


os.register_at_fork(after_in_child=_after_fork)


def cache_dir() -> Path:
    """The cache directory: ELEMC_CACHE_DIR, or the system's standard place for caches."""
    from pathlib import Path

    return Path(_cache_dir())


def _cache_dir() -> str:
    chosen = os.environ.get("ELEMC_CACHE_DIR")
    if chosen:
        return os.path.join(os.getcwd(), os.path.expanduser(chosen))
    # Without any home "~" stays: below the root it cannot be written, and writing() deals with it.
    home = os.path.join("/", os.path.expanduser("~"))
    if sys.platform == "darwin":
        return os.path.join(home, "Library/Caches/elemc")
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The standard says that a relative XDG_CACHE_HOME is to be ignored.
    return os.path.join(base if os.path.isabs(base) else os.path.join(home, ".cache"), "elemc")


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
    digest = blake2b(digest_size=DIGEST)
    for part in parts:
        data = part.encode()
        digest.update(b"%d:" % len(data))  # so that ("ab", "c") and ("a", "bc") differ
        digest.update(data)
    return digest.hexdigest()


def checksum(data: bytes) -> str:
    """What tells `data` from all that may become of it on a disk."""
    return blake2b(data, digest_size=DIGEST).hexdigest()


def roots() -> list[str]:
    """Where to look for what is stored: the cache directory, then this process's own."""
    own = [] if _process.private is None else [_process.private]
    return own if _process.only_private else [_cache_dir(), *own]


def stored(key: str, sum_of_library: str) -> str | None:
    """The library of `key` if it is there and has this checksum: what `cache.fetch` looks up."""
    for root in roots():
        entry = os.path.join(root, key)
        library = os.path.join(entry, LIBRARY)
        try:
            if checksum(_read(library)) == sum_of_library:
                touch(os.path.join(entry, META))
                return library
        except OSError:
            continue
    return None


def touch(meta: str) -> None:
    """Note the use of an entry."""
    if time.time() - os.stat(meta).st_mtime > TOUCH_SECONDS:
        try:
            os.utime(meta)
        except OSError:
            pass  # a read-only cache keeps no times of use


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def use_private(reason: object) -> None:
    """From now on, build in a private directory: the cache's libraries cannot be loaded."""
    _process.private_dir(reason)
    _process.only_private = True


def writing(write: Callable[[Path], T]) -> T:
    """`write(directory)` in the cache directory, or in a private one if that cannot be done."""
    from pathlib import Path

    if _process.private is not None:
        return write(Path(_process.private))
    try:
        return write(_made())
    except OSError as error:
        reason = error
    return write(Path(_process.private_dir(reason)))


def _made() -> Path:
    """The cache directory, which this makes."""
    root = cache_dir()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    return root


def keep_failed(key: str, source: str) -> Path:
    """Keep a source that did not compile, for the user to look at; returns where it is."""
    place = os.path.join(FAILED, f"{key}.c")
    return writing(lambda root: write(root, place, source.encode()))


def note(key: str) -> dict[str, Any] | None:
    """What `save_note` stored under `key`; None if that is missing or damaged."""
    held = record(os.path.join(NOTES, key))
    return held if isinstance(held, dict) else None


def save_note(key: str, value: Mapping[str, object]) -> None:
    """Remember `value`, which `marshal` can hold, under `key`."""
    place = os.path.join(NOTES, key)
    data = _sealed(place, value)
    writing(lambda root: write(root, place, data))


def record(place: str) -> Any:
    """What was stored in this file below the cache directory; None if it is missing or damaged."""
    for root in roots():
        try:
            data = _read(os.path.join(root, place))
        except OSError:
            continue
        if data[:DIGEST] == _seal(place, data[DIGEST:]):
            try:
                return marshal.loads(data[DIGEST:])
            except (ValueError, EOFError, TypeError):  # of another Python
                continue
    return None


def save_record(place: str, value: object) -> None:
    """Store `value`, which can be found out again: if it cannot be written, that is no matter."""
    try:
        write(_made(), place, _sealed(place, value))
    except OSError:
        pass


def _sealed(place: str, value: Any) -> bytes:
    data = marshal.dumps(value)
    return _seal(place, data) + data


def _seal(place: str, data: bytes) -> bytes:
    """The checksum of a record: that of another place is none."""
    return blake2b(data, digest_size=DIGEST, key=blake2b(place.encode()).digest()).digest()


def write(root: Path, place: str, data: bytes) -> Path:
    """Write one small file below `root`, whole or not at all."""
    import tempfile

    path = root / place
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(prefix=SCRATCH, dir=root)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(scratch, path)
    finally:
        if os.path.lexists(scratch):
            os.unlink(scratch)
    return path
