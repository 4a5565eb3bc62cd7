"""Seeing why: counts of bytes and operations, profiles, the machine, loops not vectorized.

What is counted is exact; what is measured is only looked at for its form.
"""

import re
import shutil
import sys

import numpy as np
import pytest

import elemc as ec
from elemc import cache, compiler
from elemc.arguments import sizes_of
from elemc.cli import main
from elemc.counts import counts_of, distinct_elements
from elemc.machine import Level, Machine, aligned, cache_sizes, size_text, this_machine
from elemc.profile import PhaseProfile, Profile, seconds_text
from elemc.vectorization import _loops, _read_clang, _read_gcc

pytestmark = pytest.mark.optimized

X = np.linspace(0.5, 2.5, 60).reshape(12, 5)
Y = np.linspace(-1, 1, 5)


def counts(fn, *arrays, outputs=None):
    """The counts of every phase of a call, and of all together; `outputs` are their sizes."""
    function = fn if isinstance(fn, ec.Function) else ec.compile(fn).trace(*arrays)
    closed, signature = function.example(arrays)
    sizes = sizes_of(function.name, closed, list(arrays))
    _, kernel = compiler.nests(closed, signature)
    operands = [*arrays, *(c.array.data for c in closed.graph.captured)]
    outs = [np.empty([sizes[e] for e in closed.extents.of[o]]) for o in closed.graph.outputs]
    return counts_of(kernel, closed.extents.program, sizes,
                     [distinct_elements(a) for a in (*operands, *outs)])


def one(fn, *arrays):
    phases, whole = counts(fn, *arrays)
    assert len(phases) == 1 and phases[0] == whole
    return whole


def test_counts_of_elementwise_work():
    c = one(lambda x, y: x * y + 1, X, Y)
    assert (c.elements, c.read, c.written) == (60, 8 * 60 + 8 * 5, 8 * 60)
    assert (c.flops32, c.flops64) == (0, 2 * 60)
    assert (c.bytes, c.flops) == (c.read + c.written, 120)


def test_operations_count_as_their_weight():
    weight = ec.function([x := ec.vector("x")], np.exp(x) / x).graph
    costs = {n.op.name: n.op.cost for n in weight.nodes if hasattr(n, "op")}
    assert one(lambda x: np.exp(x) / x, Y).flops == 5 * (costs["exp"] + costs["divide"])


def test_what_is_shared_is_computed_once():
    assert one(lambda x: (x * 3) + (x * 3) * 2, Y).flops == 5 * 3


def test_narrow_numbers_are_counted_apart():
    c = one(lambda x: x * x > 1, Y.astype("float32"))
    assert (c.flops32, c.flops64, c.read, c.written) == (2 * 5, 0, 4 * 5, 5)
    assert one(lambda x: x * x, Y.astype("complex64")).flops64 == 0
    assert one(lambda x: x * x, Y.astype("complex128")).flops32 == 0


@pytest.mark.parametrize(("fn", "elements"), [
    (lambda x: x[1:] - x[:-1], 60),  # every element, most of them twice
    (lambda x: x[::2] + x[1::2], 60),  # two halves
    (lambda x: x[::3] * 2, 20),
    (lambda x: x[::-1] * 2, 60),
    (lambda x: x[10:20] + x[15:25], 15),
    (lambda x: x[9] * x[59] * x[:2], 4),  # fewer than lie between them
])
def test_slices_move_what_they_touch(fn, elements):
    assert one(fn, X.ravel()).read == 8 * elements


def test_a_stencil_reads_the_box_around_it():
    c = one(lambda x: x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2], X)
    assert (c.elements, c.read, c.written) == (30, 8 * 60, 8 * 30)


def test_a_diagonal_reads_its_elements():
    assert one(lambda x: ec.diagonal(x) * 2, X[:5]).read == 8 * 5


def test_stretched_arrays_count_once():
    c = one(lambda x, y: x + y, X, np.broadcast_to(Y, X.shape))
    assert c.read == 8 * 60 + 8 * 5
    assert distinct_elements(np.broadcast_to(1.0, (3, 4))) == 1
    assert distinct_elements(X[:0]) == 0


@pytest.mark.parametrize(("axis", "left"), [(0, 5), (1, 12), (None, 1)])
def test_a_sum_adds_every_element(axis, left):
    (c, *merged), _ = counts(lambda x: x.sum(axis=axis), X)
    assert len(merged) == (axis is None)  # the results of chunks
    assert (c.elements, c.read, c.written, c.flops) == (60, 8 * 60, 8 * left, 60)


def test_a_fold_without_identity_counts_as_others():
    first = ec.Accumulator("first", identity=None, combine=lambda a, v: a + v)
    assert one(lambda x: ec.accumulate(first, x, axis=1), X).flops == 60


def test_phases_and_the_buffers_between_them():
    (a, merged, b), whole = counts(lambda x: x / x.sum(), X)
    assert (a.read, a.written, a.flops) == (8 * 60, 8, 60)
    assert (merged.read, merged.written, merged.flops) == (8, 8, 0)
    assert (b.read, b.written, b.flops) == (8 * 60 + 8, 8 * 60, 4 * 60)
    assert (whole.read, whole.written, whole.flops) == (8 * 60 + 16, 8 * 60 + 16, 5 * 60)


def test_passes_over_a_row_count_its_bytes_once():
    c = one(lambda x: x - x.max(axis=1, keepdims=True) - x.sum(axis=1, keepdims=True), X)
    assert (c.read, c.written, c.flops) == (8 * 60, 8 * 60, 60 + 60 + 2 * 60)


def test_nothing_is_counted_of_nothing():
    c = one(lambda x: x * 2, X[:0])
    assert (c.elements, c.bytes, c.flops) == (0, 0, 0)


# -- profiles -------------------------------------------------------------------------------------


@ec.compile
def centered(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


def test_a_profile_has_a_line_per_phase():
    found = centered.profile(X, repeats=3)
    assert isinstance(found, Profile)
    assert found.name == "centered(x: float64[2]) -> (float64[2])"
    assert [p.counts for p in found.phases] == counts(centered.trace(X), X)[0]
    assert found.repeats == 3 and found.threads >= 1 and found.call > 0
    assert set(found.stages) == {"trace", "close", "schedule", "emit", "compile", "libraries", "load"}
    assert found.stages["trace"] > 0
    for phase in found.phases:
        assert 0 < phase.best <= phase.median
        assert phase.bound in ("memory", "compute") and phase.level.name == "L1"
        assert phase.of_bandwidth > 0 and phase.of_peak > 0
    title, head, *rows = str(found).splitlines()
    assert title.startswith(found.name) and head.split()[:2] == ["phase", "loops"]
    assert [row.split()[0] for row in rows[:2]] == ["0", "1"]


def test_a_profile_leaves_the_inputs_and_the_answers_alone():
    before = X.copy()
    want = centered(X)
    centered.profile(X, repeats=1)
    assert np.array_equal(X, before) and np.array_equal(centered(X), want)


def test_profiles_of_every_kind_of_function():
    x, y = ec.matrix("x"), ec.vector("y")
    f = ec.function([x, y], [x + y, x * y], mode=["broadcast", ("accumulate", "sum")])
    found = f.profile(X, Y, repeats=1)
    assert found.stages["trace"] is None and "trace" not in str(found)
    assert ec.vjp(lambda x, k: x * k).profile(X, 3, X, repeats=1).phases
    assert ec.value_and_grad(lambda x: (x * x).sum()).profile(X, repeats=1).phases
    named = ec.compile(lambda x, k: {"a": x * k, "b": x + np.ones(5)})
    assert named.profile(X, k=2, repeats=1).phases[0].counts.written == 2 * X.nbytes
    assert ec.compile(lambda x: x + 1).profile(2.0, repeats=1).phases
    assert ec.compile(lambda x: x + 1).profile(X[::-1, ::2], repeats=1).phases


def test_a_profile_raises_what_the_call_raises():
    f = ec.compile(lambda x, y: x ** y)
    with pytest.raises(ec.DomainError, match="negative integer powers"):
        f.profile(np.array([2]), np.array([-1]))
    with pytest.raises(ec.ShapeError):
        ec.compile(lambda x, y: x + y).profile(X, np.ones(4))
    for wrong in (0, 1.5, True):
        with pytest.raises(ec.ArgumentError, match="repeats"):
            centered.profile(X, repeats=wrong)


MACHINE = Machine((Level("L1", 2000, 100.0, 50.0, 75.0), Level("memory", 9000, 10.0, 5.0, 7.0)),
                  4.0, 6.0, 2000.0, 1000.0)


def test_what_bounds_a_phase():
    [c], _ = counts(lambda x: x * 2, X.ravel())  # 480 bytes read, 480 written, 60 products
    near, far = (PhaseProfile(c, 40.0, 50.0, MACHINE.level(n), MACHINE) for n in (960, 1501))
    assert (near.level.name, far.level.name) == ("L1", "memory")
    assert (near.memory_seconds, far.memory_seconds) == (960 / 50, 960 / 6)
    assert near.compute_seconds == 60 / 1000
    assert (near.bandwidth, near.rate) == (24, 1.5)
    assert (near.of_bandwidth, near.of_peak) == (19.2 / 40, 0.06 / 40)
    assert near.bound == "memory"
    slow = Machine(MACHINE.levels, 4.0, 6.0, 2.0, 1.0)
    assert PhaseProfile(c, 40.0, 50.0, slow.level(960), slow).bound == "compute"


def test_plot(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    path = tmp_path / "roofline.svg"
    centered.profile(X, repeats=1).plot(path)
    assert path.read_text(encoding="utf-8").count("<svg") == 1


def test_plot_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ec.ArgumentError, match=re.escape("pip install 'elemc[plot]'")):
        centered.profile(X, repeats=1).plot()


# -- the machine ----------------------------------------------------------------------------------


def test_the_machine_is_measured_once(monkeypatch, tmp_path):
    monkeypatch.setenv("ELEMC_CACHE_DIR", str(tmp_path))
    measure = this_machine.__wrapped__
    found = measure()
    sizes = cache_sizes()
    assert [level.size for level in found.levels[:-1]] == list(sizes) == sorted(sizes)
    assert [level.name for level in found.levels][-1] == "memory"
    rates = [v for level in found.levels for v in (level.read, level.copy, level.triad)]
    rates += [found.streaming_store, found.streaming_copy, found.peak_float32, found.peak_float64]
    assert all(1e6 < v < 1e15 for v in rates)
    monkeypatch.setattr("elemc.machine._measure", None)
    assert measure() == found
    cache.clear()
    with pytest.raises(TypeError):
        measure()


def test_the_level_that_holds_so_many_bytes():
    assert [MACHINE.level(n).name for n in (0, 1500, 1501, 1e9)] == ["L1", "L1", "memory", "memory"]
    near, far = MACHINE.levels
    shares = (0, 1 / 3, 1 / 2, 1)
    assert [MACHINE.bandwidth(near, share) for share in shares] == [100, 75, 50, 50]
    assert [MACHINE.bandwidth(far, share) for share in shares] == [10, 7, 6, 6]


def test_the_command_line_prints_the_machine(capsys):
    assert main(["info", "--machine"]) == 0
    text = capsys.readouterr().out
    assert "compiler" in text and "streaming stores" in text and "Gflop/s" in text


def test_words():
    assert [size_text(n) for n in (0, 1023, 1024, 3 << 19, 5 << 30)] == [
        "0 B", "1023 B", "1.0 KiB", "1.5 MiB", "5.0 GiB"]
    assert [seconds_text(t) for t in (2.0, 0.0125, 3e-6, 2e-8)] == ["2 s", "12.5 ms", "3 us", "20 ns"]
    assert aligned([["a", "1"], ["bb", "22"]]) == ["a    1", "bb  22"]


# -- loops that are not vectorized ----------------------------------------------------------------


def test_every_loop_has_a_line():
    text = centered.dump(X, stage="vectorization")
    title, *lines = text.splitlines()
    source = centered.dump(X).splitlines()
    loops = [k for k, line in enumerate(source, 1) if re.match(r" *(for|while) \(", line)]
    assert title.startswith("kernel_centered: ")
    shown = [m for line in lines if (m := re.match(r" *(\d+)  (.+?)  +((for|while) .*)", line))]
    assert [int(m[1]) for m in shown] == loops
    assert [m[3] for m in shown] == [source[k - 1].strip() for k in loops]
    assert "vectorized, " in text and "outer loop" in text


@pytest.mark.parametrize("compiler_name", ["gcc", "clang"])
def test_a_loop_that_cannot_be_vectorized_has_a_reason(compiler_name, monkeypatch):
    if shutil.which(compiler_name) is None:
        pytest.skip(f"no {compiler_name}")
    monkeypatch.setenv("ELEMC_CC", compiler_name)
    title, loop, why = ec.compile(lambda x: np.cumsum(x)).dump(
        Y, stage="vectorization").splitlines()
    assert "0 of 1 innermost loops vectorized" in title
    assert loop.split()[1] == "scalar" and why.strip()
    title, _, loop = ec.compile(lambda x: x * 2).dump(Y, stage="vectorization").splitlines()
    assert "1 of 1 innermost loops vectorized" in title and "vectorized, " in loop


C = """\
for (int64_t i = 0; i < n; i++) {
  for (int k = 0; k < 4; k++)
    a[k] = 0;
  for (; b;) {
    c = d;
  }
}
while (e)
  f();
"""


def test_loops_are_found_by_their_indentation():
    assert [(loop.line, loop.last, loop.inner) for loop in _loops(C)] == [
        (1, 6, False), (2, 3, True), (4, 5, True), (8, 9, True)]


def test_remarks_of_gcc():
    loops = _loops(C)
    _read_gcc([(1, "couldn't vectorize loop"), (5, "not vectorized: complicated access pattern."),
               (2, "loop vectorized using 32 byte vectors"),
               (2, "loop vectorized using 64 byte vectors"), (4, "couldn't vectorize loop"),
               (5, "not vectorized: no vectype for stmt: c_1 = *d_2;"),
               (8, "Loop 3 distributed: split to 0 loops and 1 library calls.")], loops)
    assert [loop.verdict for loop in loops] == [
        "outer loop", "vectorized, 64 bytes", "scalar", "library call"]
    assert (loops[2].why, loops[2].at) == ("no vectype for stmt", 5)


def test_remarks_of_clang():
    loops = _loops(C)
    _read_clang([(2, "completely unrolled loop with 4 iterations"),
                 (5, "loop not vectorized: call instruction cannot be vectorized"),
                 (4, "loop not vectorized: instruction cannot be vectorized"),
                 (4, "loop not vectorized"), (8, "loop not vectorized")], loops)
    assert [loop.verdict for loop in loops] == ["outer loop", "unrolled", "scalar", "scalar"]
    assert (loops[2].why, loops[2].at) == ("call instruction cannot be vectorized", 5)
    assert loops[3].why == "the compiler does not say"


def test_the_command_line_shows_them(capsys):
    assert main(["dump", "exp(x) * 2", "--stage", "vectorization"]) == 0
    assert "of 1 innermost loops vectorized" in capsys.readouterr().out


def test_assembly_is_that_of_the_kernels_own_flags():
    x, y, z = map(ec.vector, "xyz")
    plain, contracted = (
        ec.function([x, y, z], x * y + z, contract=c).dump(stage="asm") for c in (False, True))
    if "mulpd" not in plain:
        pytest.skip("not x86")
    assert "vfmadd" not in plain
    assert "vfmadd" in contracted or "-mfma" not in contracted


def test_loops_that_part_count_as_one():
    """What all slices reach is most of a row: it is counted as the whole."""
    def loss(u):
        return np.sum((u[:, 1:] - u[:, :-1]) ** 2)

    profile = ec.grad(ec.compile(loss)).profile(np.ones((50, 300)))
    [phase] = profile.phases
    assert (phase.counts.elements, phase.counts.written) == (50 * 300, 8 * 50 * 300)
    assert 0 < phase.counts.flops < 20 * 50 * 300


def test_loops_over_turns_are_a_part_of_the_vectorized_one_around():
    lines = ec.compile(lambda a, b: a @ b).dump(
        np.ones((40, 200)), np.ones((200, 50)), stage="vectorization").splitlines()
    assert re.search(r": (\d+) of \1 innermost loops vectorized", lines[0])
    assert sum("vectorized," in line and "INDEPENDENT" in line for line in lines) == 3
    assert all("unrolled" in line for line in lines if "UNROLL" in line)
