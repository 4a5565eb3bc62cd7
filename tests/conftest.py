"""Settings of all tests: a compiler is required, and the cache is private."""

import importlib
import os
import tempfile

import pytest

os.environ.setdefault("ELEMC_FALLBACK", "error")
if "ELEMC_CACHE_DIR" not in os.environ:
    _cache = tempfile.TemporaryDirectory(prefix="elemc-tests-")
    os.environ["ELEMC_CACHE_DIR"] = _cache.name


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite the expected C")
    parser.addoption("--graphs", type=int, default=None, help="how many random graphs to try")


@pytest.fixture(autouse=True)
def as_they_stand(monkeypatch, request):
    """Where the compiler's loops are not what is tested, it takes a third of the time at -O0."""
    marker = request.node.get_closest_marker("optimized")
    if not marker or marker.args == (False,):
        monkeypatch.setenv("ELEMC_CFLAGS", "-O0")
        # and one compiler for a kernel is enough, beside those of other tests
        monkeypatch.setattr(importlib.import_module("elemc.build_jobs"), "cpus", lambda: 1)


@pytest.fixture(autouse=True)
def compiled_kernels_answer(monkeypatch, request):
    """With a compiler, nothing is ever answered by the interpreter."""
    if request.node.get_closest_marker("interpreter"):
        return
    def refuse(*args):
        raise AssertionError("the interpreter answered a call")

    # what another process found out would hide how this one does it; test_plans tests that
    plans = importlib.import_module("elemc.plans")
    monkeypatch.setattr(plans, "held", lambda place: None)
    monkeypatch.setattr(plans, "keep", lambda *args: None)
    module = importlib.import_module("elemc.function")
    monkeypatch.setattr(module, "interpret", refuse)


@pytest.fixture
def large(monkeypatch):
    """Take every output for one that outgrows the caches."""
    runtime = importlib.import_module("elemc.runtime")
    monkeypatch.setattr(runtime, "large_bytes", lambda: 0)
    monkeypatch.setattr(runtime, "outgrows_caches", lambda lines, sizes: bool(lines))
