"""Large kernels are compiled in parts: the same answers, and errors that show the whole."""

import json
import re
import sys
from time import time_ns

import numpy as np
import pytest

import elemc as ec
from elemc import build, build_jobs
from elemc.build_parts import LEAST, PHASE, parts_of
from elemc.errors import CompileError


def kernel_of(sizes, name="k"):
    """A kernel whose phases have these numbers of lines, and add 1, 2, ... to what `p` points to."""
    phases = ((k, ["    *(double *)*p += 1;"] * n) for k, n in enumerate(sizes))
    return "\n".join([
        f"/* kernel {name} */", "typedef __INT64_TYPE__ int64_t;", "",
        f"{build.ENTRY_C % name}".replace(", const int64_t *n", ",\n  const int64_t *n"), "{",
        *(line for k, body in phases for line in ("", f"  if (phase == {k}) {{", *body, "  }")),
        "  return 0;", "}", ""])


@pytest.mark.parametrize("sizes", [[3 * LEAST, 2 * LEAST], [90, 5, 60, 40, 5, 30], [LEAST] * 5])
@pytest.mark.parametrize("most", [2, 3, 9])
def test_every_phase_is_in_one_part(sizes, most):
    parts = parts_of(kernel_of(sizes), "k", most)
    assert len(parts) == min(most, len(sizes), sum(n + 2 for n in sizes) // LEAST)
    found = [[int(m[1]) for m in PHASE.finditer(part)] for part in parts]
    assert sorted(sum(found, [])) == [*range(len(sizes))]
    for number, (part, own) in enumerate(zip(parts, found, strict=True)):
        passed_on = {int(k) for k in re.findall(r"case (\d+):", part)}
        assert passed_on == (set() if number else {*range(len(sizes))} - {*own})


@pytest.mark.parametrize("sizes", [[500], [LEAST // 2] * 3, [4, LEAST]])
def test_small_kernels_are_not_cut(sizes):
    assert parts_of(kernel_of(sizes), "k", 8) == []


def test_one_compiler_has_it_all():
    assert parts_of(kernel_of([200, 200]), "k", 1) == []


@pytest.fixture
def commands(monkeypatch):
    """The commands of compilers, of which there may be three at once."""
    build.runtime_function(build.PACE_C)  # is compiled before
    ran = []
    run = build_jobs.run

    def noted(command, *args):
        ran.append(command)
        return run(command, *args)

    monkeypatch.setattr(build_jobs, "run", noted)
    monkeypatch.setattr(build_jobs, "cpus", lambda: 3)
    return ran


def test_phases_of_all_parts_are_called(commands):
    sizes, name = [120, 30, 100, 7, 90], f"kernel_{time_ns()}"
    kernel = build.load_kernel(kernel_of(sizes, name), name)
    assert [("-c" in command) for command in commands] == [True, True, True, False]
    total = np.zeros(1)
    pointer = build.FFI.new("intptr_t[]", [total.ctypes.data])
    for phase, lines in enumerate(sizes):
        before = total[0]
        assert kernel.function(phase, 0, 1, build.FFI.cast("char *const *", pointer),
                               *[build.FFI.NULL] * 4) == 0
        assert total[0] - before == lines
    assert {p.name for p in kernel.path.parent.iterdir()} == {"kernel.c", "kernel.so", "meta.json"}
    assert (kernel.path.parent / "kernel.c").read_text() == kernel.source
    assert json.loads((kernel.path.parent / "meta.json").read_text())["parts"] == 3


def loss(x, g, b):
    d = x - np.mean(x, axis=1, keepdims=True)
    return np.sum((d / np.sqrt(np.mean(d * d, axis=1, keepdims=True)) * g + b) ** 3)


@pytest.mark.optimized
def test_gradients_have_the_same_bits(commands, monkeypatch):
    rng = np.random.default_rng(0)
    arrays = rng.random((2000, 70)), rng.random(70), rng.random(70)
    build._support(build.toolchain(), "elemc_tree_sum_f64")  # beside it there were fewer compilers
    commands.clear()
    found, flags = [], build.kernel_flags
    for count in (3, 1):
        monkeypatch.setattr(build_jobs, "cpus", lambda count=count: count)
        monkeypatch.setattr(build, "kernel_flags", lambda *args, count=count: (
            *flags(*args), f"-DBY={count}", f"-DAT={time_ns()}"))  # nobody has compiled it
        f = ec.compile(ec.grad(loss, wrt=(0, 1, 2)))
        found.append(f(*arrays))
        assert ["-c" in command for command in commands] == ([True, True, False] if count > 1
                                                             else [False])
        commands.clear()
        made = f.specializations[0].source
        assert len(PHASE.findall(made.text)) == len(made.bindings.phases)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_kernels_that_are_compiled_at_once_share_the_cpus(commands, monkeypatch):
    monkeypatch.setattr(build_jobs, "_at_work", {"another", "and a third"})
    name = f"kernel_{time_ns()}"
    build.load_kernel(kernel_of([100, 100], name), name)
    assert ["-c" in command for command in commands] == [False]
    assert build_jobs._at_work == {"another", "and a third"}


def test_what_does_not_compile_is_shown_whole(commands):
    name = f"kernel_{time_ns()}"
    source = kernel_of([100, 100], name).replace("+= 1;", "+= nothing;")
    with pytest.raises(CompileError, match="'nothing' undeclared") as caught:
        build.load_kernel(source, name)
    assert ["-c" in command for command in commands] == [True, True, False]
    kept = re.search(r"source: (.*)", str(caught.value))[1]
    with open(kept) as file:
        assert file.read() == source


class Refused:
    """What there is of threads at the exit of a process: an import that fails."""

    def __getattr__(self, name):
        raise RuntimeError("can't register atexit after shutdown")


class Exhausted:
    def ThreadPoolExecutor(self, count):
        raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("threads", [Refused, Exhausted])
def test_without_threads_the_whole_is_compiled(commands, monkeypatch, threads):
    monkeypatch.setitem(sys.modules, "concurrent.futures", threads())
    name = f"kernel_{time_ns()}"
    assert build.load_kernel(kernel_of([100, 100], name), name).entry == name
    assert ["-c" in command for command in commands] == [False]
