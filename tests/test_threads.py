"""Threads and recycled memory: the same bits for any number of threads; bounded, given back."""

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import elemc as ec
from elemc import build, cache_dirs, threads
from elemc.errors import ArgumentError

pytestmark = pytest.mark.optimized

COUNTS = (1, 2, 3, 8)


@pytest.fixture(autouse=True)
def settings():
    """The settings before, again."""
    yield
    threads._chosen.clear()
    build.runtime_function(build.USE_THREADS_C)(threads.number_of_threads())
    build.runtime_function(build.KEEP_C)(-1)


def test_none_is_the_number_of_the_start():
    before = ec.get_num_threads()
    ec.set_num_threads(before + 1)
    assert ec.get_num_threads() == before + 1
    ec.set_num_threads(None)
    assert ec.get_num_threads() == before


def results(f, *arrays):
    """What f gives on each number of threads, in Python's call path and in C's."""
    found = []
    for count in COUNTS:
        ec.set_num_threads(count)
        found += [f._call(*arrays), f(*arrays), f(*arrays)]
    return found


def softmax(x):
    e = ec.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


CASES = {
    "elementwise": lambda x: ec.exp(x) * 2 + x,
    "transposed": lambda x: x + x.T,
    "softmax": softmax,
    "sum of all": lambda x: ec.sum(ec.sin(x)),
    "sum of columns": lambda x: x.sum(axis=0),
    "sum of rows": lambda x: x.sum(axis=1),
    "mean and variance": lambda x: x.var(),
    "argmax": lambda x: x.argmax(),
    "centred": lambda x: x - x.mean(),
    "columns of rows": lambda x: (x / x.sum(axis=1, keepdims=True)).sum(axis=0),
    "scan": lambda x: x.cumsum(axis=1),
    "median of three": lambda x: ec.maximum(ec.minimum(x, x[::-1]), x[:, ::-1]),
}


@pytest.mark.parametrize("shape", [(1003, 1003), (3, 300_001), (300_001, 3), (1, 700_003)],
                         ids=str)
@pytest.mark.parametrize("name", CASES)
def test_bits_do_not_depend_on_the_number_of_threads(name, shape):
    if name == "transposed":
        shape = (1003, 1003)
    x = np.random.default_rng(0).standard_normal(shape)
    s = ec.matrix("x")
    first, *others = results(ec.function([s], CASES[name](s)), x)
    expected = CASES[name](s).eval({s: x})
    assert np.allclose(first, expected)
    for other in others:
        assert np.array_equal(first, other)


@pytest.mark.parametrize("shape", [(2000, 16), (3000, 33), (400, 300), (17, 2500)], ids=str)
@pytest.mark.parametrize("pause", [0, 3e-4], ids=["awake", "asleep"])
def test_bits_of_little_work_that_is_shared(shape, pause):
    """Also where there are more threads than pieces, and workers that come late."""
    x = np.random.default_rng(0).standard_normal(shape)
    s = ec.matrix("x")
    for name, case in CASES.items():
        if name == "transposed":
            continue
        f = ec.function([s], case(s))
        ec.set_num_threads(1)
        want = f(x)
        for count in (2, 3, 40):
            ec.set_num_threads(count)
            for _ in range(4):
                assert np.array_equal(f(x), want), name
                time.sleep(pause)


def test_a_sum_adds_alike_whatever_else_the_kernel_folds():
    s, m = ec.vector("v"), ec.matrix("m")
    v = np.random.default_rng(0).standard_normal(300_001)
    alone = ec.function([s], s.mean())(v)
    both = ec.function([s], [s.mean(), (s - s.mean()).max()])
    assert both(v)[0] == alone
    flags = ec.array("flags", ndim=1, dtype="bool")
    both = ec.function([s, flags], [s.mean(), flags.any()])
    assert both(v, v[:1000] > 3)[0] == alone
    x = v[:-1].reshape(3000, 100)
    rows = x / x.sum(axis=1, keepdims=True)
    columns = m / m.sum(axis=1, keepdims=True)
    alone = ec.function([m], columns.sum(axis=0))(x)
    for more in (m[::-1].max(), (m + m.max()).sum()):
        assert np.array_equal(ec.function([m], [columns.sum(axis=0), more])(x)[0], alone)
    assert np.allclose(alone, rows.sum(axis=0))


def test_calls_from_many_threads_at_once():
    s = ec.vector("x")
    f = ec.function([s], [ec.exp(s), ec.sum(s)])
    x = np.random.default_rng(1).standard_normal(300_000)
    want = f(x)
    wrong = []

    def call():
        for _ in range(20):
            got = f(x)
            if not all(np.array_equal(a, b) for a, b in zip(got, want, strict=True)):
                wrong.append(got)

    ec.set_num_threads(4)
    callers = [threading.Thread(target=call) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity")
def test_a_caller_that_changes_processors():
    """Workers leave the caller's processor to it, if there is another."""
    s = ec.vector("x")
    f = ec.function([s], [ec.exp(s), ec.sum(s)])
    x = np.random.default_rng(1).standard_normal(300_000)
    ec.set_num_threads(1)
    want = f(x)
    ec.set_num_threads(3)
    every = os.sched_getaffinity(0)
    try:
        for some in ([k] for k in sorted(every)[:2] * 2):
            os.sched_setaffinity(0, some)
            time.sleep(1e-3)  # workers fall asleep
            for a, b in zip(f(x), want, strict=True):
                assert np.array_equal(a, b)
    finally:
        os.sched_setaffinity(0, every)
    assert np.array_equal(f(x)[0], want[0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_has_threads_of_its_own():
    s = ec.vector("x")
    f = ec.function([s], ec.exp(s))
    x = np.linspace(0, 1, 500_000)
    ec.set_num_threads(4)
    want = f(x)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(f(x), want) else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert np.array_equal(f(x), want)


def test_number_of_threads(monkeypatch):
    ec.set_num_threads(3)
    assert ec.get_num_threads() == 3
    for wrong in (0, -1, 1.5, True, "2"):
        with pytest.raises(ArgumentError, match="positive integer"):
            ec.set_num_threads(wrong)
    threads._chosen.clear()
    monkeypatch.setenv("ELEMC_NUM_THREADS", "5")
    assert ec.get_num_threads() == 5
    monkeypatch.setenv("ELEMC_NUM_THREADS", "many")
    with pytest.raises(ArgumentError, match="ELEMC_NUM_THREADS"):
        ec.get_num_threads()
    monkeypatch.delenv("ELEMC_NUM_THREADS")
    for outer in ("1", "1,4", "9999", "0", "many"):  # of what started this process
        monkeypatch.setenv("OMP_NUM_THREADS", outer)
        assert ec.get_num_threads() == (1 if outer[0] == "1" else threads.cpus())
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert 1 <= ec.get_num_threads() <= os.cpu_count()


def test_threadpoolctl_bounds_the_threads():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    ec.set_num_threads(3)
    s = ec.vector("x")
    assert np.array_equal(ec.function([s], s * 41.5)(np.ones(9)), np.full(9, 41.5))
    known = [i for i in threadpoolctl.threadpool_info() if i["user_api"] == "elemc"]
    assert {(i["num_threads"], i["version"]) for i in known} == {(3, ec.__version__)}
    with threadpoolctl.threadpool_limits(1):
        assert ec.get_num_threads() == 1
        assert build.runtime_function("int elemc_threads(double nanoseconds)")(1e9) == 1
    assert ec.get_num_threads() == 3
    assert build.runtime_function("int elemc_threads(double nanoseconds)")(1e9) == 3


def test_threadpoolctl_is_heard_late():
    pytest.importorskip("threadpoolctl")
    done = subprocess.run([sys.executable, "-c", textwrap.dedent("""
        import numpy as np
        import elemc as ec

        ec.set_num_threads(3)
        ec.compile(lambda x: x * 41.25 + 1)(np.ones(9))
        import threadpoolctl

        ec.compile(lambda x: x * 41.25 + 2)(np.ones(9))
        with threadpoolctl.threadpool_limits(1):
            print(ec.get_num_threads())
        print(ec.get_num_threads())
    """)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "3"]


@pytest.mark.parametrize("files, share", [
    ({"self": "0::/a/b\n", "a/cpu.max": "150000 100000\n", "a/b/cpu.max": "max 100000\n"}, 1.5),
    ({"self": "0::/\n", "cpu.max": "max 100000\n"}, None),
    ({"self": "4:cpu:/\n", "cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"},
     0.5),
    ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
])
def test_control_groups_bound_the_threads(files, share, tmp_path, monkeypatch):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(threads, "CGROUP", tmp_path)
    monkeypatch.setattr(threads, "OWN", tmp_path / "self")
    assert threads._quotas() == ([] if share is None else [share])


# -- recycled memory ----------------------------------------------------------------------------


def doubled():
    s = ec.vector("x")
    f = ec.function([s], s + s)
    x = np.ones(1_000_000)
    for _ in range(3):
        f(x)
    return f, x


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_of_dead_outputs_is_given_to_new_ones():
    f, x = doubled()
    first = f(x)
    here = address(first)
    assert here % 64 == address(x) % 64
    del first
    held, most = ec.get_recycling()
    assert x.nbytes <= held <= most
    again = f(x)
    assert address(again) == here
    kept = f(x)
    assert address(kept) != here and np.array_equal(again, kept)


def test_recycling_is_bounded_and_switchable():
    f, x = doubled()
    ec.set_recycling(3 * x.nbytes)
    results = [f(x) for _ in range(6)]
    del results
    held, most = ec.get_recycling()
    assert most == 3 * x.nbytes and x.nbytes <= held <= most
    ec.set_recycling(0)
    assert ec.get_recycling() == (0, 0)
    assert np.array_equal(f(x), x + x) and ec.get_recycling() == (0, 0)
    with pytest.raises(ArgumentError, match="non-negative"):
        ec.set_recycling(-1)


def test_recycled_arrays_are_ordinary_ones():
    f, x = doubled()
    z = f(x)
    assert z.flags.owndata and z.flags.writeable and type(z) is np.ndarray
    z.resize(10, refcheck=False)
    assert np.array_equal(z, np.full(10, 2.0))
    z.resize(3_000_000, refcheck=False)
    assert z[:10].sum() == 20 and not z[10:].any()
    view = f(x)[5:]
    gc.collect()
    assert view[0] == 2 and np.empty(3).sum() is not None


def test_memory_under_pressure_is_given_back_and_still_right():
    f, x = doubled()
    results = [f(x) for _ in range(20)]  # more than stays hot: the rest is offered to the system
    del results
    more = [f(x) for _ in range(20)]
    assert all(np.array_equal(z, x + x) for z in more)


def test_limit_of_the_environment(monkeypatch):
    assert cache_dirs.bytes_of("ELEMC_RECYCLE", -1) == -1
    monkeypatch.setenv("ELEMC_RECYCLE", "64")
    assert cache_dirs.bytes_of("ELEMC_RECYCLE", -1) == 64 * 2**20
    monkeypatch.setenv("ELEMC_RECYCLE", "lots")
    with pytest.raises(ArgumentError, match="ELEMC_RECYCLE"):
        cache_dirs.bytes_of("ELEMC_RECYCLE", -1)


def test_threadpoolctl_leaves_no_mark(monkeypatch):
    threadpoolctl = pytest.importorskip("threadpoolctl")
    threads._chosen.clear()
    ec.function([s := ec.vector("x")], s * 42.5)(np.ones(9))
    with threadpoolctl.threadpool_limits(1):
        assert ec.get_num_threads() == 1
    monkeypatch.setenv("ELEMC_NUM_THREADS", "7")
    assert ec.get_num_threads() == 7
