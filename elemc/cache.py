"""The cache of compiled libraries on disk.

One entry is a directory named by its key::

    <cache directory>/
      <key>/kernel.c, kernel.so, meta.json     one compiled library
      failed/<key>.c                           sources that did not compile
      notes/<key>                              what was found out about a compiler
      templates/, plans/                       what other modules keep (`save_record`)
      sizes                                    how large it is, for eviction
      elemc-tmp-*/                             entries being built

An entry is built in a private directory and renamed into place, so that it is there as a whole or
not at all, however many processes start at once and wherever one of them is killed; who comes
second uses the first one's.  Before an entry is used, its key and the checksum of its library are
compared with what `meta.json` says.  The time of `meta.json` is the time of the last use.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .cache_dirs import (
    FAILED,
    LIBRARY,
    META,
    NOTES,
    SCRATCH,
    SOURCE,
    cache_dir,
    checksum,
    keep_failed,
    key_of,
    note,
    roots,
    save_note,
    size_limit,
    touch,
    use_private,
    write,
    writing,
)
from .errors import CacheWarning

__all__ = [
    "LIBRARY", "SOURCE", "Entry", "cache_dir", "clear", "discard", "entries", "fetch",
    "keep_failed", "key_of", "note", "remove", "save_note", "store", "use_private",
    "writing",
]

SIZES = "sizes"  # when the directory was read, what was there, what came since
RECORDS = ("templates", "plans")  # directories of what can be found out again

KEY = re.compile(r"[0-9a-f]{40}")
STALE_SECONDS = 3600.0  # a build older than this was killed
KEPT_FAILURES = 32
KEPT_NOTES = 256
DAY = 86400.0  # seconds
MOST_SIZES = 2**15  # bytes of the file of sizes


@dataclass(frozen=True)
class Entry:
    """One compiled library on disk.

    Attributes
    ----------
    key : str
        Hash of everything that the library depends on.
    name : str
        Name of the kernel, for people.
    size : int
        Bytes on disk.
    created, used : float
        Seconds since the epoch.
    """

    key: str
    name: str
    size: int
    created: float
    used: float


def _check(entry: Path) -> str | None:
    """What is wrong with the entry in this directory; None if it may be loaded."""
    try:
        meta_path = entry / META
        meta = json.loads(meta_path.read_bytes())
        if not isinstance(meta, dict) or meta.get("key") != entry.name:
            return "it belongs to another key"
        if checksum((entry / LIBRARY).read_bytes()) != meta.get("checksum"):
            return "its checksum does not match"
        touch(str(meta_path))
    except (OSError, ValueError) as error:  # ValueError: not JSON, or not text
        return f"{type(error).__name__}: {error}"
    return None


def _judge(entry: Path) -> str | None:
    """What is wrong with an entry, as `_check`: "" if there is none.

    Other processes put entries in place, and in the place of others, between two looks at one's
    files: what is wrong counts if the directory is there and the same before and after.
    """
    standing = _standing(entry)
    while standing is not None:
        wrong, before, standing = _check(entry), standing, _standing(entry)
        if wrong is None or standing == before:
            return wrong
    return ""


def _standing(entry: Path) -> tuple[int, int] | None:
    """What tells the directory from another in its place: numbers of inodes are used again."""
    try:
        found = os.lstat(entry)
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def fetch(key: str) -> Path | None:
    """The library of `key` if a good one is stored; a damaged one is warned of and removed."""
    for root in map(Path, roots()):
        entry = root / key
        wrong = _judge(entry)
        if wrong is None:
            return entry / LIBRARY
        if wrong:
            discard(entry)
            warnings.warn(f"cache entry {entry} is damaged and will be rebuilt: {wrong}",
                          CacheWarning, stacklevel=2)
    return None


def checksum_of(library: Path) -> str | None:
    """The checksum that `cache_dirs.stored` asks for; None if the entry is gone or damaged."""
    entry = library.parent
    if _check(entry) is not None:
        return None
    try:
        return str(json.loads((entry / META).read_bytes())["checksum"])
    except (OSError, ValueError, KeyError):
        return None  # it changed in between


def discard(entry: Path) -> None:
    """Remove one entry, as a whole for everyone who looks on; quietly if that cannot be done."""
    grave = entry.parent / f"{SCRATCH}{entry.name[:8]}-{os.getpid()}-{time.monotonic_ns()}"
    try:
        os.rename(entry, grave)
    except OSError:
        return  # gone already, or the directory cannot be written
    remove(grave)


def remove(path: Path) -> None:
    """Remove a file or a directory tree, as far as that can be done."""
    try:
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
        else:
            os.chmod(path, stat.S_IRWXU)
            shutil.rmtree(path, ignore_errors=True)
    except OSError:
        pass  # what stays is cleaned by age


def store(key: str, build: Callable[[Path], Mapping[str, object]]) -> Path:
    """Build the entry of `key` and move it into place.

    Parameters
    ----------
    key : str
        As `key_of` gives it.
    build : callable
        Given a private directory, writes kernel.c and kernel.so there and returns what else
        meta.json shall say (`name` at least).

    Returns
    -------
    Path
        The library: this process's, or that of another process that was faster.
    """
    size_limit()  # raises before the work is done
    return writing(lambda root: _store_in(root, key, build))


def _store_in(root: Path, key: str, build: Callable[[Path], Mapping[str, object]]) -> Path:
    work = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=root))
    try:
        meta = dict(build(work))
        library = (work / LIBRARY).read_bytes()
        meta.update(key=key, checksum=checksum(library), created=time.time())
        (work / META).write_text(json.dumps(meta, indent=1))
        size = _size(work)
        if _publish(work, root / key):
            with contextlib.suppress(OSError):  # a full disk, after all
                _bound(root, key, size)
        return root / key / LIBRARY
    finally:
        remove(work)


def _publish(work: Path, entry: Path) -> bool:
    """Rename `work` to `entry`; False if another process's good entry is there already."""
    for _ in range(8):
        try:
            os.rename(work, entry)
            return True
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        wrong = _judge(entry)
        if wrong is None:
            return False
        if wrong:
            discard(entry)
    raise OSError(errno.EEXIST, "a damaged entry cannot be replaced", str(entry))


# --- the whole directory -------------------------------------------------------------------------


def _size(directory: Path) -> int:
    with os.scandir(directory) as files:
        return sum(file.stat(follow_symlinks=False).st_size for file in files)


def _scan(root: Path) -> Iterator[tuple[Path, int, float]]:
    """Path, bytes and time of the last use of every entry."""
    try:
        names = [name for name in os.listdir(root) if KEY.fullmatch(name)]
    except OSError:
        return
    for name in names:
        path = root / name
        try:
            size = _size(path)
        except OSError:
            continue  # evicted by another process, or no entry at all
        try:
            used = (path / META).stat().st_mtime
        except OSError:
            used = 0.0  # a damaged entry goes first
        yield path, size, used


def entries() -> list[Entry]:
    """Every entry of the cache directory, the last used first."""
    found = []
    for path, size, used in _scan(cache_dir()):
        meta: Any = None
        try:
            meta = json.loads((path / META).read_bytes())
        except (OSError, ValueError):
            pass
        if not isinstance(meta, dict):
            meta = {"name": "(damaged)"}
        created = meta.get("created")
        found.append(Entry(path.name, str(meta.get("name", "")), size,
                           float(created) if isinstance(created, int | float) else used, used))
    return sorted(found, key=lambda entry: (-entry.used, entry.key))


def _bound(root: Path, keep: str, added: int) -> None:
    """Evict the entries used least recently while there is more than ELEMC_CACHE_SIZE.

    All processes add what they store to one file.  The directory itself is read when that sum
    reaches the limit, and once a day: a cold compile does not pay for a cache of many thousand
    entries.
    """
    limit = size_limit()
    known = _recorded(root)
    if known is not None and known + added <= limit:
        with open(root / SIZES, "ab", buffering=0) as file:  # one write, which none cuts in two
            file.write(b"\n%d" % added)
        return
    _clean(root)
    found = sorted(_scan(root), key=lambda item: item[2])
    total = sum(size for _, size, _ in found)
    if total > limit:
        for path, size, _ in found:
            if total <= 0.9 * limit:  # some way below, so that not every store evicts
                break
            if path.name != keep:
                discard(path)
                total -= size
    write(root, SIZES, b"%d\n%d" % (time.time(), total))


def _recorded(root: Path) -> int | None:
    """The bytes in the directory, as its processes count them; None if it is to be read again."""
    try:
        data = (root / SIZES).read_bytes()
        when, *sizes = map(int, data.split())
    except (OSError, ValueError):
        return None
    fresh = len(data) < MOST_SIZES and 0 <= time.time() - when < DAY
    return sum(sizes) if fresh else None


def _clean(root: Path) -> None:
    """Remove what killed builds left, and all but the newest notes and sources that failed."""
    old = time.time() - STALE_SECONDS
    for path in root.glob(f"{SCRATCH}*"):
        try:
            if path.lstat().st_mtime < old:
                remove(path)
        except OSError:
            continue  # gone already
    for path in [*_failures(root)[KEPT_FAILURES:], *_notes(root)[KEPT_NOTES:]]:
        remove(path)


def _failures(root: Path) -> list[Path]:
    """Sources that did not compile, the newest first."""
    return _newest((root / FAILED).glob("*.c"))


def _notes(root: Path) -> list[Path]:
    """Notes, the newest first."""
    return _newest((root / NOTES).glob("*"))


def _newest(paths: Iterable[Path]) -> list[Path]:
    """Those of the files that elemc put there, the newest first."""
    dated = []
    for path in paths:
        try:
            dated.append((path.stat().st_mtime, path))
        except OSError:
            continue  # gone already
    return [path for _, path in sorted(dated, reverse=True) if KEY.fullmatch(path.stem)]


def clear() -> tuple[int, int]:
    """Remove everything that elemc put into the cache directory.

    Returns
    -------
    count, bytes : int
        Of the entries removed.
    """
    root = cache_dir()
    found = list(_scan(root))
    for path in [*(path for path, _, _ in found), *root.glob(f"{SCRATCH}*")]:
        discard(path)
    others = [root / place for place in (SIZES, *RECORDS)]
    for path in [*_failures(root), *_notes(root), *others]:
        remove(path)
    gone = [size for path, size, _ in found if not path.exists()]
    return len(gone), sum(gone)
