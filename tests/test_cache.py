"""Entries on disk: whole or absent, checked before use, bounded, and survivable when damaged."""

import json
import os
import shutil
import time
import warnings
from pathlib import Path

import pytest

from elemc import cache, cache_dirs
from elemc.errors import ArgumentError, CacheWarning

KEY = cache.key_of("one")
OTHER = cache.key_of("two")


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """A cache directory of this test's own."""
    monkeypatch.setenv("ELEMC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("ELEMC_CACHE_SIZE", raising=False)
    monkeypatch.setattr(cache_dirs, "_process", cache_dirs._Process())
    return tmp_path / "cache"


def put(key=KEY, library=b"library", name="k"):
    def build(work):
        (work / cache.SOURCE).write_text("int k;\n")
        (work / cache.LIBRARY).write_bytes(library)
        return {"name": name}

    return cache.store(key, build)


def leftovers(root):
    return [path.name for path in root.iterdir() if path.name.startswith("elemc-tmp-")]


def test_what_is_stored_is_found(root):
    assert cache.fetch(KEY) is None
    path = put()
    assert path == root / KEY / "kernel.so" and path.read_bytes() == b"library"
    assert cache.fetch(KEY) == path
    assert cache.fetch(OTHER) is None
    assert not leftovers(root)
    assert json.loads((root / KEY / "meta.json").read_text())["key"] == KEY
    assert root.stat().st_mode & 0o077 == 0


def test_key_depends_on_every_part_and_where_it_ends():
    keys = {cache.key_of(*parts) for parts in [("ab", "c"), ("a", "bc"), ("abc",), ("ab", "c", "")]}
    assert len(keys) == 4


def replace(path, data):
    path.unlink()  # never write into a file that a process may have mapped
    path.write_bytes(data)


def as_file(entry):
    shutil.rmtree(entry)
    entry.write_text("foreign")


def as_empty(entry):
    shutil.rmtree(entry)
    entry.mkdir()


def as_dangling_link(entry):
    shutil.rmtree(entry)
    entry.symlink_to(entry.parent / "nowhere")


def as_other_key(entry):
    put(OTHER, b"another library")
    shutil.rmtree(entry)
    shutil.copytree(entry.parent / OTHER, entry)


DAMAGE = {
    "truncated": lambda entry: replace(entry / "kernel.so", b"lib"),
    "zeroed": lambda entry: replace(entry / "kernel.so", bytes(7)),
    "no library": lambda entry: (entry / "kernel.so").unlink(),
    "no meta": lambda entry: (entry / "meta.json").unlink(),
    "empty meta": lambda entry: replace(entry / "meta.json", b""),
    "binary meta": lambda entry: replace(entry / "meta.json", b"\xff\x00"),
    "meta is a list": lambda entry: replace(entry / "meta.json", b"[1]"),
    "a file": as_file,
    "empty": as_empty,
    "a dangling link": as_dangling_link,
    "another key's": as_other_key,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_entry_is_warned_of_and_rebuilt(root, damage):
    put()
    damage(root / KEY)
    with pytest.warns(CacheWarning, match="damaged"):
        assert cache.fetch(KEY) is None
    path = put()
    assert cache.fetch(KEY) == path and path.read_bytes() == b"library"
    assert not leftovers(root)


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_entry_in_the_way_of_a_new_one_is_replaced(root, damage):
    def build(work):
        (work / cache.SOURCE).write_text("int k;\n")
        (work / cache.LIBRARY).write_bytes(b"library")
        put(library=b"the faster process's")
        damage(root / KEY)
        return {"name": "k"}

    path = cache.store(KEY, build)
    assert cache.fetch(KEY) == path and path.read_bytes() == b"library"


@pytest.mark.parametrize("damage", [lambda entry: None, DAMAGE["no meta"], DAMAGE["no library"]])
def test_an_entry_put_in_place_while_one_looks_is_not_damaged(root, damage, monkeypatch):
    def beside_another_process(entry):
        found = look(entry)
        monkeypatch.setattr(cache, "_check", look)
        cache.discard(entry)
        put(library=b"another process's")
        return found

    put()
    damage(root / KEY)
    look = cache._check
    monkeypatch.setattr(cache, "_check", beside_another_process)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = cache.fetch(KEY)
    assert path.read_bytes() == b"another process's" and not leftovers(root)


def test_an_entry_put_there_after_a_look_is_not_damaged(root, monkeypatch):
    def before_another_process(entry):
        found = look(entry)
        if not entry.exists():
            put()
        return found

    look = cache._check
    monkeypatch.setattr(cache, "_check", before_another_process)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.fetch(KEY) in (None, root / KEY / "kernel.so")
    put()
    assert cache.fetch(KEY) == root / KEY / "kernel.so"


def test_the_slower_process_uses_the_winners(root):
    def build(work):
        (work / cache.SOURCE).write_text("int k;\n")
        (work / cache.LIBRARY).write_bytes(b"slow")
        put(library=b"fast")
        return {"name": "k"}

    assert cache.store(KEY, build).read_bytes() == b"fast"
    assert not leftovers(root)


def test_failed_build_leaves_nothing(root):
    def build(work):
        (work / cache.LIBRARY).write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.store(KEY, build)
    assert list(root.iterdir()) == []


def test_unwritable_directory_is_survived_with_one_warning(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ELEMC_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.warns(CacheWarning, match="cannot be used") as caught:
        path = put()
        other = put(OTHER)
        cache.save_note(KEY, {"a": 1})
    assert len(caught) == 1
    assert cache.fetch(KEY) == path and cache.fetch(OTHER) == other
    assert cache.note(KEY) == {"a": 1}
    assert path.parent.parent.stat().st_mode & 0o077 == 0
    shutil.rmtree(path.parent.parent)


def set_used(root, key, seconds_ago):
    when = time.time() - seconds_ago
    os.utime(root / key / "meta.json", (when, when))


def test_least_recently_used_entries_are_evicted(root, monkeypatch):
    monkeypatch.setenv("ELEMC_CACHE_SIZE", "1")
    keys = [cache.key_of(str(number)) for number in range(6)]
    for number, key in enumerate(keys):
        put(key, bytes(180_000))
        if number < 5:
            set_used(root, key, 1000 - number)
    assert len(cache.entries()) == 5  # the sixth went over 1 MiB, and the oldest left
    assert cache.fetch(keys[0]) is None and cache.fetch(keys[5]) is not None
    assert sum(entry.size for entry in cache.entries()) <= 2**20
    cache.fetch(keys[1])  # used now: the next to go is another
    for number in (6, 7):
        put(cache.key_of(str(number)), bytes(180_000))
    assert cache.fetch(keys[1]) is not None and cache.fetch(keys[2]) is None


def test_entry_just_stored_is_never_evicted(root, monkeypatch):
    monkeypatch.setenv("ELEMC_CACHE_SIZE", "0")
    put(OTHER)
    path = put()
    assert [entry.key for entry in cache.entries()] == [KEY] and path.exists()


@pytest.mark.parametrize("text", ["many", "-1", "nan", "inf"])
def test_size_that_is_no_size(monkeypatch, text):
    monkeypatch.setenv("ELEMC_CACHE_SIZE", text)
    with pytest.raises(ArgumentError, match="ELEMC_CACHE_SIZE"):
        put()


def test_fetch_notes_the_use(root):
    put()
    set_used(root, KEY, 5000)
    cache.fetch(KEY)
    assert time.time() - (root / KEY / "meta.json").stat().st_mtime < 100


def test_what_killed_builds_left_is_cleaned_by_age(root):
    put(OTHER)
    for name, age in (("elemc-tmp-old", 7200), ("elemc-tmp-new", 60)):
        (root / name).mkdir()
        (root / name / "kernel.c").write_text("")
        os.utime(root / name, (time.time() - age,) * 2)
    put(cache.key_of("three"))
    assert len(leftovers(root)) == 2  # the directory is read once a day
    (root / "sizes").write_text(f"{int(time.time() - 100_000)}\n0")
    put()
    assert leftovers(root) == ["elemc-tmp-new"]


def test_failed_sources_are_kept_and_bounded(root):
    for number in range(cache.KEPT_FAILURES + 5):
        path = cache.keep_failed(cache.key_of(str(number)), "int")
        os.utime(path, (number, number))
    assert path.read_text() == "int" and path.parent == root / "failed"
    put()
    kept = list((root / "failed").iterdir())
    assert len(kept) == cache.KEPT_FAILURES and path in kept


def test_entries_and_clear(root):
    put(name="first")
    put(OTHER, name="second")
    set_used(root, KEY, 100)
    cache.keep_failed(KEY, "int")
    cache.save_note(KEY, {"a": 1})
    (root / "mine.txt").write_text("not elemc's")
    (root / ("f" * 40)).write_text("not elemc's either")
    listed = cache.entries()
    assert [entry.name for entry in listed] == ["second", "first"]
    assert all(abs(entry.created - time.time()) < 100 for entry in listed)
    count, size = cache.clear()
    assert count == 2 and size == sum(entry.size for entry in listed)
    assert cache.entries() == [] and cache.fetch(KEY) is None and cache.note(KEY) is None
    assert sorted(path.name for path in root.rglob("*") if path.is_file()) == ["f" * 40, "mine.txt"]


def test_damaged_entries_are_listed_and_cleared(root):
    put()
    replace(root / KEY / "meta.json", b"")
    assert [entry.name for entry in cache.entries()] == ["(damaged)"]
    assert cache.clear()[0] == 1


def test_empty_and_missing_directories_list_and_clear(root):
    assert cache.entries() == [] and cache.clear() == (0, 0)


def test_notes(root):
    assert cache.note(KEY) is None
    cache.save_note(KEY, {"flags": ["a", "b"], "simd": True})
    assert cache.note(KEY) == {"flags": ["a", "b"], "simd": True}
    path = root / "notes" / KEY
    whole = path.read_bytes()
    for damaged in (whole[:-9], whole.replace(b"flags", b"other"), b"[]", b""):
        path.write_bytes(damaged)
        assert cache.note(KEY) is None


def test_standard_places(monkeypatch):
    monkeypatch.delenv("ELEMC_CACHE_DIR")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache.cache_dir() == Path("/caches/elemc")
    for ignored in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert cache.cache_dir() == Path("/home/me/.cache/elemc")
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache.cache_dir() == Path("/home/me/Library/Caches/elemc")


def test_good_entries_raise_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        put()
        cache.fetch(KEY)
        cache.fetch(OTHER)
