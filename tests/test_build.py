"""From C to a loaded kernel: compilers, cold and warm starts, many processes, failures."""

import importlib.machinery
import importlib.util
import os
import shutil
import signal
import struct
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import threading
import time
import types
import warnings
from pathlib import Path

import numpy as np
import pytest

from elemc import (
    build,
    build_early,
    build_jobs,
    build_listing,
    cache,
    cache_dirs,
    constants,
    mathlib,
    toolchain,
)
from elemc.errors import (
    ArgumentError,
    CacheWarning,
    CompileError,
    FallbackWarning,
    MissingHeaders,
)

PACKAGE_PLACES = os.pathsep.join(
    dict.fromkeys(str(Path(module.__file__).parent.parent) for module in (build, mathlib))
)

# Stands for the math library, which takes a second to compile; its one name is nobody else's.
OBTAIN_ALL = build_jobs.obtain_all
MATH = "double elemc_test_triple(double x) { return 3 * x; }\n"

KERNEL = """\
typedef __INT64_TYPE__ int64_t;
extern double elemc_test_triple(double) PURE;
int test_kernel(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
                const int64_t *n, volatile int64_t *decided, char *const *w) {
  const double *x = (const double *)p[0];
  double *z = (double *)p[1];
  for (int64_t i = begin; i < end; i++)
    z[i] = elemc_test_triple(x[i]) + NUMBER;
  return (int)phase + 7;
}
"""

# What a process of its own does: load the kernel, compare, say whether it was cached.
SCRIPT = f"""\
import os, sys, warnings
import numpy as np, numpy.testing
from elemc import build, build_jobs, constants, mathlib
build.constants_of = lambda *_: constants.Constants()
mathlib.source = lambda library: {MATH!r}
build_jobs.obtain_all = lambda jobs, meanwhile: None
def check(number=1):
    text = {KERNEL!r}.replace("NUMBER", str(number))
    kernel = build.load_kernel(text, "test_kernel", libraries=("elemc_exp",))
    x, z = np.arange(1001.0), np.zeros(1001)
    p = build._ffi.new("char *[2]", [build._ffi.cast("char *", a.ctypes.data) for a in (x, z)])
    null = build._ffi.NULL
    assert kernel.function(1, 0, 1001, p, null, null, null, null) == 8
    np.testing.assert_array_equal(z, 3 * x + number)
    return kernel
"""


def source(number=1):
    return KERNEL.replace("NUMBER", str(number))


def load(text):
    return build.load_kernel(text, "test_kernel", libraries=("elemc_exp",))


def evaluate(kernel):
    """What the kernel makes of 0, 1, 2, ..."""
    x, z = np.arange(1001.0), np.zeros(1001)
    ffi = build._ffi
    pointers = ffi.new("char *[2]", [ffi.cast("char *", a.ctypes.data) for a in (x, z)])
    assert kernel.function(0, 0, 1001, pointers, *[ffi.NULL] * 4) == 7
    return z


def new_process(monkeypatch):
    """Forget what this process has loaded, as another process knows nothing of it."""
    monkeypatch.setattr(build, "_loaded", build._Loaded())
    monkeypatch.setattr(cache_dirs, "_process", cache_dirs._Process())
    monkeypatch.setattr(toolchain, "_found", {})


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """A cache directory and a state of this test's own."""
    for name in ("ELEMC_CC", "ELEMC_CFLAGS", "ELEMC_CACHE_SIZE", "ELEMC_FALLBACK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ELEMC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(mathlib, "source", lambda library: MATH)
    monkeypatch.setattr(build_jobs, "obtain_all", lambda jobs, meanwhile: None)  # nor the call path
    monkeypatch.setattr(build, "constants_of", lambda *_: constants.Constants())  # measuring takes a second
    new_process(monkeypatch)
    return tmp_path / "cache"


def has_headers():
    return os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h"))


def start(script, *options, **settings):
    """Start a process that runs SCRIPT and then `script`."""
    env = {**os.environ, "PYTHONPATH": PACKAGE_PLACES, **settings}
    return subprocess.Popen(
        [sys.executable, *options, "-c", SCRIPT + textwrap.dedent(script)], env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def finish(process):
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out.strip()


def wrapper(path, text):
    """A compiler that does something before it works; `$real` is the compiler."""
    real = " ".join(toolchain.find_toolchain().command)
    path.write_text(f"#!/bin/sh\nreal='{real}'\n{text}\nexec $real \"$@\"\n")
    path.chmod(0o755)
    return str(path)


# --- compilers -----------------------------------------------------------------------------------


def test_toolchain_of_this_machine():
    tool = toolchain.find_toolchain()
    assert tool is toolchain.find_toolchain()
    assert tool.family in ("gcc", "clang", "zig") and tool.version
    assert "-ffp-contract=off" in tool.flags and "-ffast-math" not in tool.flags
    assert tool.version in tool.identity and toolchain.machine() in tool.identity


def test_chosen_compiler_that_cannot_be_used_is_an_error(monkeypatch):
    for chosen in ("no-such-compiler", "true", "gcc 'unclosed", " "):
        monkeypatch.setenv("ELEMC_CC", chosen)
        with pytest.raises(CompileError, match="ELEMC_CC"):
            toolchain.find_toolchain()


def test_compiler_for_another_machine_is_passed_over(monkeypatch, tmp_path):
    other = wrapper(tmp_path / "crosscc", 'case "$*" in *-shared*) set -- --version;; esac')
    monkeypatch.setenv("CC", other)
    assert toolchain.find_toolchain().command[0] != other
    monkeypatch.setenv("ELEMC_CC", other)
    with pytest.raises(CompileError, match="does not make libraries that load here"):
        toolchain.find_toolchain()


def test_order_of_the_search(monkeypatch, tmp_path):
    first = wrapper(tmp_path / "firstcc", "")
    second = wrapper(tmp_path / "secondcc", "")
    monkeypatch.setenv("CC", second)
    assert toolchain.find_toolchain().command == (second,)
    monkeypatch.setenv("ELEMC_CC", f"{first} -DMORE=1")
    assert toolchain.find_toolchain().command == (first, "-DMORE=1")


def no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


def test_without_a_compiler(monkeypatch, tmp_path):
    no_compiler(monkeypatch, tmp_path)
    assert toolchain.find_toolchain() is None
    with pytest.raises(CompileError, match="no C compiler"):
        load(source())


def test_fallback(monkeypatch):
    assert toolchain.fallback() == "numpy"
    monkeypatch.setenv("ELEMC_FALLBACK", "error")
    assert toolchain.fallback() == "error"
    monkeypatch.setenv("ELEMC_FALLBACK", "maybe")
    with pytest.raises(ArgumentError, match="'maybe'"):
        toolchain.fallback()


def test_users_flags(monkeypatch):
    plain = load(source())
    monkeypatch.setenv("ELEMC_CFLAGS", "-DNUMBER='2 + 2'")
    tool = toolchain.find_toolchain()
    assert tool.flags[-1] == "-DNUMBER=2 + 2"
    kernel = load(KERNEL)
    np.testing.assert_array_equal(evaluate(kernel), 3 * np.arange(1001.0) + 4)
    assert load(source()).path != plain.path


@pytest.mark.parametrize("flags", ["-ffast-math", "-ffp-contract=fast", "-O2 -Ofast", "-O2 'unclosed"])
def test_flags_that_are_refused(monkeypatch, flags):
    monkeypatch.setenv("ELEMC_CFLAGS", flags)
    with pytest.raises(ArgumentError, match="ELEMC_CFLAGS"):
        toolchain.find_toolchain()


def test_new_version_of_the_compiler_is_asked_again(monkeypatch, tmp_path):
    path = tmp_path / "mycc"
    monkeypatch.setenv("ELEMC_CC", wrapper(path, "test $1 = --version && echo 1.0 && exit"))
    assert toolchain.find_toolchain().version == "1.0"
    path.write_text(path.read_text().replace("1.0", "1.0.1"))
    monkeypatch.setattr(toolchain, "_found", {})
    assert toolchain.find_toolchain().version == "1.0.1"


@pytest.mark.parametrize("compiler", ["gcc", "clang", "zig"])
def test_every_family_compiles_kernels(monkeypatch, compiler):
    if compiler == "zig":
        if importlib.util.find_spec("ziglang") is None:
            pytest.skip("the package ziglang is not installed")
        compiler = f"{sys.executable} -m ziglang cc"
    elif shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    monkeypatch.setenv("ELEMC_CC", compiler)
    kernel = load(source())
    np.testing.assert_array_equal(evaluate(kernel), 3 * np.arange(1001.0) + 1)
    assert "test_kernel" in build_listing.assembly(source())


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="of Linux, gcc")
def test_constants_stand_on_the_pages_of_the_code(monkeypatch):
    """Else those that are loaded under a mask may be on a page that nobody touches."""
    monkeypatch.setenv("ELEMC_CC", "gcc")
    image = load(source()).path.read_bytes()
    [start], size, count = struct.unpack_from("<Q", image, 32), *struct.unpack_from("<HH", image, 54)
    heads = [struct.unpack_from("<II", image, start + k * size) for k in range(count)]
    loaded = [flags for kind, flags in heads if kind == 1]
    assert len(loaded) == 2 and all(flags & 3 for flags in loaded)  # executable, or writable


# --- cold and warm -------------------------------------------------------------------------------


def test_cold_then_warm(monkeypatch, root):
    cold = load(source())
    assert not cold.cached and cold.address and cold.path.parent.parent == root
    assert load(source()) is cold
    expected = evaluate(cold)
    new_process(monkeypatch)

    def no_process(*args, **kwargs):
        raise AssertionError("a warm start runs no program")

    monkeypatch.setattr(subprocess, "run", no_process)
    warm = load(source())
    assert warm.cached and warm.path == cold.path
    np.testing.assert_array_equal(evaluate(warm), expected)
    np.testing.assert_array_equal(expected, 3 * np.arange(1001.0) + 1)
    assert {entry.name for entry in cache.entries()} == {"test_kernel", "elemc_exp", "elemc_runtime"}


@pytest.mark.skipif(not has_headers(), reason="there is no Python.h")
def test_own_libraries_are_compiled_at_once(monkeypatch, tmp_path):
    log = tmp_path / "log"
    slow = wrapper(tmp_path / "slowcc", f"""case "$*" in *kernel.c*)
        echo begin >> {log}; sleep 0.5; $real "$@"; echo end >> {log}; exit 0;; esac""")
    monkeypatch.setenv("ELEMC_CC", slow)
    monkeypatch.setattr(build_jobs, "obtain_all", OBTAIN_ALL)
    monkeypatch.setattr(build_jobs, "cpus", lambda: 2)
    build._support(build.toolchain(), "elemc_exp")
    assert log.read_text().split() == ["begin"] * 3 + ["end"] * 3
    assert {entry.name for entry in cache.entries()} == {
        "elemc_exp", "elemc_runtime", "elemc_callable"}


def test_a_kernel_is_compiled_beside_the_library_that_it_calls(monkeypatch, tmp_path):
    log = tmp_path / "log"
    slow = wrapper(tmp_path / "slowcc", f"""case "$*" in *kernel.c*)
        echo begin >> {log}; sleep 0.5; $real "$@"; echo end >> {log}; exit 0;; esac""")
    monkeypatch.setenv("ELEMC_CC", slow)
    build._support(build.toolchain())
    log.unlink()
    monkeypatch.setattr(build_jobs, "obtain_all", OBTAIN_ALL)
    kernel = load(source())
    assert log.read_text().split() == ["begin"] * 2 + ["end"] * 2
    assert not kernel.cached and kernel.seconds > 0.5 > 0.5 * kernel.waited
    np.testing.assert_array_equal(evaluate(kernel), 3 * np.arange(1001.0) + 1)


def test_a_kernel_that_fails_beside_its_library_says_so_and_leaves_the_library(monkeypatch):
    monkeypatch.setattr(build_jobs, "obtain_all", OBTAIN_ALL)
    with pytest.raises(CompileError, match="failed on test_kernel"):
        load(source("wrong"))
    assert "elemc_exp" in {entry.name for entry in cache.entries()}
    np.testing.assert_array_equal(evaluate(load(source())), 3 * np.arange(1001.0) + 1)


def test_the_math_library_waits_for_a_kernel_that_calls_it(monkeypatch):
    plain = KERNEL.replace("extern double elemc_test_triple(double) PURE;", "")
    plain = plain.replace("elemc_test_triple(x[i])", "3 * x[i]").replace("NUMBER", "1")
    kernel = build.load_kernel(plain, "test_kernel")
    np.testing.assert_array_equal(evaluate(kernel), 3 * np.arange(1001.0) + 1)
    assert {entry.name for entry in cache.entries()} == {"test_kernel", "elemc_runtime"}
    np.testing.assert_array_equal(evaluate(load(source())), 3 * np.arange(1001.0) + 1)
    assert "elemc_exp" in {entry.name for entry in cache.entries()}


@pytest.mark.parametrize("missing, answer", [
    (constants.MEASURE_PACE_C, 0), (constants.MEASURE_ASKING_C, -1), (constants.MEASURE_ROWS_C, -1),
    (constants.MEASURE_STORES_C, -1)])
def test_a_machine_without_memory_is_measured_later(monkeypatch, missing, answer):
    monkeypatch.setattr(build, "constants_of", constants.constants_of)
    real = build.runtime_function
    monkeypatch.setattr(build, "runtime_function", lambda prototype: (
        lambda *_: answer) if prototype == missing else real(prototype))
    build._support(build.toolchain())
    assert real(build.PACE_C)() == 1
    assert cache_dirs.note(constants.key_of(build.toolchain().identity)) is None


def test_a_machine_is_measured_once(monkeypatch):
    monkeypatch.setattr(build, "constants_of", constants.constants_of)
    tool = build.toolchain()
    pace = build.runtime_function(build.PACE_C)()
    found = build.machine_constants(tool)
    assert found.pace == pace and 1 / 4 <= pace <= 4
    assert {found.asks, found.sum_asks, found.map_asks} <= {0, 1, 2, 8}
    assert found.sum_rows in (1, 4) and {found.through, found.divides} <= {0, 1}
    new_process(monkeypatch)
    monkeypatch.setattr(constants, "MEASURE_PACE_C", "double nobody_measures(void)")
    assert build.runtime_function(build.PACE_C)() == pace and build.machine_constants(tool) == found
    other = constants.Constants(3.0, 0, 8, 2, 4, 1, 1)
    cache_dirs.save_note(constants.key_of(tool.identity), other._asdict())
    new_process(monkeypatch)
    assert build.runtime_function(build.PACE_C)() == 3 and build.machine_constants(tool) == other
    assert other.flags == ("-DASK=0", "-DASK_SUM=8", "-DASK_MAP=2", "-DSUM_ROWS=4", "-DTHROUGH=1",
                           "-DDIVIDES=1")


@pytest.mark.parametrize("sums, products, asks", [(0, 1, 0), (0, 8, 8), (1, 1, 1), (2, 1, 1), (1, 0, 0)])
def test_who_foresees_one_stream_foresees_several(monkeypatch, sums, products, asks):
    of = {constants.SUMS: sums, constants.PRODUCTS: products, constants.THROUGH: 2}
    measured = {constants.MEASURE_PACE_C: lambda: 0.45, constants.MEASURE_ASKING_C: of.get,
                constants.MEASURE_ROWS_C: lambda way: 4 if way == sums else 1,
                constants.MEASURE_STORES_C: lambda: 1,
                constants.MEASURE_DIVISION_C: lambda: 12.0}
    found = constants.constants_of(f"machine {sums} {products}", measured.get)
    assert found == constants.Constants(1.0, asks, sums, 2, 4, 1, 0)


def test_key_holds_machine_and_math_library(monkeypatch):
    paths = {load(source()).path}
    new_process(monkeypatch)
    monkeypatch.setattr(toolchain, "machine", lambda: "another machine of glibc")
    paths.add(load(source()).path)
    new_process(monkeypatch)
    monkeypatch.setattr(mathlib, "source", lambda library: MATH + "int more;\n")
    monkeypatch.setattr(build, "STAMP", "of a package with another math library")
    paths.add(load(source()).path)
    assert len(paths) == 3


def test_no_other_file_is_left_in_an_entry(root):
    path = load(source()).path
    assert sorted(os.listdir(path.parent)) == ["kernel.c", "kernel.so", "meta.json"]
    assert (path.parent / "kernel.c").read_text() == source()
    assert not list(root.glob("elemc-tmp-*"))


def test_eight_processes_start_cold_at_once(root):
    processes = [start("check(); check(2)", "-W", "error") for _ in range(8)]
    for process in processes:
        finish(process)
    names = sorted(entry.name for entry in cache.entries())
    assert names == ["elemc_exp", "elemc_runtime", *["test_kernel"] * 2]
    assert not list(root.glob("elemc-tmp-*"))


def test_killed_build_leaves_no_entry(root, tmp_path):
    mark = tmp_path / "started"
    slow = wrapper(tmp_path / "slowcc",
                   f'case "$*" in *kernel.c*) touch {mark}; sleep 5;; esac')
    process = start("check()", ELEMC_CC=slow)
    try:
        deadline = time.monotonic() + 30
        while not mark.exists():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
        process.kill()
        process.wait()
        assert not cache.entries() and list(root.glob("elemc-tmp-*"))
        finish(start("check()", "-W", "error"))
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # the compiler lived on
        process.communicate()


def test_a_damaged_library_never_answers(root):
    path = load(source()).path
    data = path.read_bytes()
    for damaged in (data[: len(data) // 2], bytes(len(data)), b"foreign"):
        path.unlink()  # this process has the file mapped
        path.write_bytes(damaged)
        script = """
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                print(check().cached, [w.category.__name__ for w in caught])
        """
        assert finish(start(script)) == "False ['CacheWarning']"
    assert finish(start("print(check().cached)", "-W", "error")) == "True"


def test_library_that_does_not_load_is_rebuilt(monkeypatch):
    tool = toolchain.find_toolchain()
    needs = build._support(tool, "elemc_exp")
    flags = build.kernel_flags(tool, (), ())
    key = build_jobs.Job(tool, "test_kernel", source(), flags, tool.links, needs).key

    def nonsense(work):
        (work / "kernel.so").write_bytes(b"no library, though its checksum is right")
        return {"name": "nonsense"}

    cache.store(key, nonsense)
    with pytest.warns(CacheWarning, match="cannot be loaded"):
        kernel = load(source())
    assert not kernel.cached
    np.testing.assert_array_equal(evaluate(kernel), 3 * np.arange(1001.0) + 1)


def test_directory_that_forbids_programs(monkeypatch, root):
    real = build._cffi_backend.load_library

    def load_library(path, mode):
        if path and path.startswith(str(root)):
            raise OSError(f"cannot load library: {path}: failed to map segment from shared object")
        return real(path, mode)

    fake = types.SimpleNamespace(load_library=load_library)
    monkeypatch.setattr(build, "_cffi_backend", fake)
    with pytest.warns(CacheWarning, match="failed to map") as caught:
        kernel = load(source())
        other = load(source(2))
    assert len(caught) == 1 and kernel.path.parent.parent == other.path.parent.parent != root
    np.testing.assert_array_equal(evaluate(kernel), 3 * np.arange(1001.0) + 1)
    shutil.rmtree(kernel.path.parent.parent)


def test_full_disk(monkeypatch, root, tmp_path):
    full = wrapper(tmp_path / "fullcc", f"""
        case "$PWD" in {root}*) echo 'kernel.so: No space left on device' >&2; exit 1;; esac""")
    monkeypatch.setenv("ELEMC_CC", full)
    with pytest.warns(CacheWarning, match="No space left") as caught:
        kernel = load(source())
    assert len(caught) == 1
    np.testing.assert_array_equal(evaluate(kernel), 3 * np.arange(1001.0) + 1)
    shutil.rmtree(kernel.path.parent.parent)


@pytest.fixture
def open_dir():
    """A directory that another user can reach, as pytest's are not."""
    path = Path(tempfile.mkdtemp(prefix="elemc-test-"))
    path.chmod(0o755)
    yield path
    for directory in [path, *(entry for entry in path.rglob("*") if entry.is_dir())]:
        directory.chmod(0o700)
    shutil.rmtree(path)


@pytest.mark.parametrize("warm", [False, True])
def test_read_only_cache(open_dir, warm):
    place = open_dir / "cache"
    place.mkdir()
    if warm:
        finish(start("check()", ELEMC_CACHE_DIR=str(place)))
    for path in [place, *place.rglob("*")]:
        path.chmod(0o555)
    script = """
        import subprocess
        from elemc import build_jobs  # nobody may be unable to read Python's own files
        if os.getuid() == 0:  # root may write anywhere
            os.setgid(65534)
            os.setuid(65534)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            kernels = check(), check(2), check(3)
        print(*(kernel.cached for kernel in kernels), *(w.category.__name__ for w in caught))
    """
    env = {"ELEMC_CACHE_DIR": str(place), "TMPDIR": "/tmp"}
    expected = f"{warm} False False CacheWarning"
    assert finish(start(script, **env)) == expected


# --- failures ------------------------------------------------------------------------------------


def test_failed_compile_shows_command_words_and_source():
    wrong = source().replace("z[i]", "not_declared")
    with pytest.raises(CompileError) as caught:
        load(wrong)
    text = str(caught.value)
    kept = Path(text.rpartition("source: ")[2])
    assert "test_kernel" in text and "not_declared" in text and "-O3" in text
    assert kept.read_text() == wrong
    assert str(kept) in text.partition("command: ")[2].partition("\n")[0].split()
    assert {entry.name for entry in cache.entries()} == {"elemc_exp", "elemc_runtime"}


def test_a_compiler_that_crashes_compiles_without_vectors(monkeypatch):
    def run(command, *places):
        if "-fno-tree-vectorize" in command:
            return toolchain.run(command, *places)
        words = "internal compiler error: in convert_move"
        return subprocess.CompletedProcess(command, 1, "", words)

    monkeypatch.setattr(build_jobs, "run", run)
    monkeypatch.setattr(build_early, "started", lambda command: None)
    with pytest.warns(FallbackWarning, match="(?s)test_kernel.*without vectors.*convert_move"):
        assert load(source()).function
    load(source())  # as it was, without a warning


def test_name_that_nobody_defines_is_found_when_loading():
    with pytest.raises(CompileError, match="nobody_defines"):
        load(source("nobody_defines(x[i])").replace(
            "extern", "extern double nobody_defines(double);\nextern"))


def test_missing_entry():
    with pytest.raises(CompileError, match="no entry"):
        build.load_kernel(source(), "another_kernel", libraries=("elemc_exp",))


def test_compiler_that_vanishes(monkeypatch, tmp_path):
    path = tmp_path / "mycc"
    monkeypatch.setenv("ELEMC_CC", wrapper(path, ""))
    toolchain.find_toolchain()
    path.unlink()
    with pytest.raises(CompileError, match="cannot be started"):
        load(source())


def test_assembly():
    assert "test_kernel:" in build_listing.assembly(source()).replace("_test_kernel", "test_kernel")
    with pytest.raises(CompileError, match="the assembly"):
        build_listing.assembly("int")


# --- extension modules ---------------------------------------------------------------------------

EXTENSION = """\
#include <Python.h>
#include <numpy/ndarrayobject.h>
static PyObject *seven(PyObject *self, PyObject *none) { return PyLong_FromLong(7); }
static PyMethodDef methods[] = {{"seven", seven, METH_NOARGS, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "elemc_test_ext", 0, -1, methods};
PyMODINIT_FUNC PyInit_elemc_test_ext(void) { import_array(); return PyModule_Create(&module); }
"""


@pytest.mark.skipif(not has_headers(), reason="there is no Python.h")
def test_extension_module():
    path = build.build_extension(EXTENSION, "elemc_test_ext")
    loader = importlib.machinery.ExtensionFileLoader("elemc_test_ext", str(path))
    spec = importlib.util.spec_from_file_location("elemc_test_ext", path, loader=loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    assert module.seven() == 7
    assert build.build_extension(EXTENSION, "elemc_test_ext") == path


def test_missing_headers(monkeypatch, tmp_path):
    nowhere = dict.fromkeys(("include", "platinclude"), str(tmp_path))
    monkeypatch.setattr(sysconfig, "get_paths", lambda: nowhere)
    with pytest.raises(MissingHeaders, match=r"no Python\.h"):
        build.build_extension(EXTENSION, "elemc_test_ext")


# --- threads and forks ---------------------------------------------------------------------------


def test_threads(monkeypatch, tmp_path):
    log = tmp_path / "log"
    counting = wrapper(tmp_path / "countcc",
                       f'case "$*" in *kernel.c*) echo >> {log}; sleep 0.2;; esac')
    monkeypatch.setenv("ELEMC_CC", counting)
    got = {}

    def begin(place, number):
        got[place] = load(source(number))

    threads = [threading.Thread(target=begin, args=(place, place % 2)) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(got[place] is got[place % 2] for place in range(6))
    assert len(log.read_text().splitlines()) == 4  # two kernels and two libraries, each once


def test_fork_while_another_thread_builds():
    script = """
        import threading, time
        check(0)
        thread = threading.Thread(target=check, args=(1,))
        thread.start()
        while not any(lock.locked() for lock in list(build._loaded.locks.values())):
            time.sleep(0.0005)
        child = os.fork()
        if child == 0:
            check(1)
            check(2)
            os._exit(0)
        thread.join()
        assert os.waitpid(child, 0)[1] == 0
    """
    finish(start(script))


def test_no_warning_in_ordinary_use():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(source())
        build.compile_shared("int x;\n", "x", ("-DX=1",), ("-lm",))
