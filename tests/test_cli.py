"""The command line: what it prints, its exit status, and that no error shows a traceback."""

import os
import platform
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import elemc as ec
from elemc import cache, toolchain
from elemc.cli import main

MODULE = textwrap.dedent("""
    import numpy as np
    import elemc as ec

    x, g = ec.matrix("x"), ec.array("g", 1, None)
    twice = ec.function([x], x * 2, name="twice")
    generic = ec.function([g], g + 1, name="generic")
    folded = ec.function([x, ec.vector("y")], x, mode=("accumulate", "sum"), name="folded")
    pair = ec.function([x], [x + 1, x.sum(axis=1)], name="pair")
    number = 3

    @ec.compile
    def softmax(x):
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)
""")


@pytest.fixture(autouse=True)
def _beside_a_module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elemc_cli_user.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    yield
    sys.modules.pop("elemc_cli_user", None)


FILE = "elemc_cli_user.py"


def run(*words):
    return main([str(w) for w in words])


def output(capsys, *words, status=0):
    assert run(*words) == status
    got = capsys.readouterr()
    assert got.err == ""
    return got.out


def message(capsys, *words):
    assert run(*words) == 2
    got = capsys.readouterr()
    assert got.out == "" and got.err.startswith("elemc: ") and "Traceback" not in got.err
    return got.err


# -- dump ---------------------------------------------------------------------------------------


def test_dump_graph(capsys):
    text = output(capsys, "dump", f"{FILE}:softmax", "--arg", "x:float32[2]", "--stage", "graph")
    lines = text.splitlines()
    assert lines[0] == "%0 = input x : float32[2]"
    assert "%3 = subtract(%0, %2) : float32[2]" in lines
    assert "%5 = sum(%4, axes=(1,)) : float32[1]" in lines
    assert lines[-1] == "return %7"


def test_dump_nest(capsys):
    text = output(capsys, "dump", f"{FILE}:softmax", "--arg", "x:float64[2]", "--stage", "nest")
    assert "axis i1: x.shape[1]" in text
    assert re.search(r"^ +for i1", text, re.M) and "out z: float64[2]" in text


def test_dump_c_is_the_kernel_of_contiguous_arrays(capsys):
    text = output(capsys, "dump", "elemc_cli_user:twice")
    assert "elemc kernel twice" in text and "AT(double, z_p" in text
    assert text == output(capsys, "dump", f"{FILE}:twice", "--stage", "c")


def test_dump_asm(capsys):
    assert ".globl" in output(capsys, "dump", f"{FILE}:twice", "--stage", "asm")


def test_dump_of_a_generic_function(capsys):
    graph = ("--stage", "graph")
    assert "float64[1]" in output(capsys, "dump", f"{FILE}:generic", *graph)
    assert "int32[1]" in output(capsys, "dump", f"{FILE}:generic", "--arg", "g:int32[1]", *graph)


def test_dump_order_of_a_function(capsys):
    assert "order c" in output(capsys, "dump", f"{FILE}:twice", "--order", "c")


def test_dump_expression(capsys):
    text = output(capsys, "dump", "exp(x) * sum(y, axis=-1)", "--arg", "x:float32[2]",
                  "--arg", "y:float32[2]")
    assert "elemc_expf" in text and ": float32, contiguous" in text


def test_dump_for_shapes(capsys):
    words, ranks = ("dump", "x * exp(y)"), ("--arg", "x:float64[2]", "--arg", "y:float64[1]")
    shapes = ("--arg", "x:float64[300,20]", "--arg", "y:float64[20,]")
    assert "buffer0" not in output(capsys, *words, *ranks)
    text = output(capsys, *words, *shapes)
    assert "elemc_exp_each(&buffer0[b1]" in text
    x, y = ec.matrix("x"), ec.vector("y")
    f = ec.function([x, y], x * np.exp(y))
    assert text == f.dump(np.ones((300, 20)), np.ones(20))
    assert "buffer0" in output(capsys, *words, *shapes, "--vjp")  # the cotangent's follows
    assert "buffer0" in output(capsys, *words, *ranks, "--against-arg", "x:float64[300,20]",
                               "--against-arg", "y:float64[20,]")
    text = output(capsys, "dump", f"{FILE}:softmax", "--arg", "x:float64[1000,3]")
    assert "n1 = 3;" in text and "n1 = 3;" in output(
        capsys, "dump", f"{FILE}:softmax", "--arg", "x:float64[ 1000, 3 ]")


def test_dump_mode_and_order(capsys):
    words = ("dump", "x * y", "--arg", "x:float64[2]", "--arg", "y:float64[1]", "--stage", "graph",
             "--mode", "accumulate:sum")
    assert "axes=(0,)" in output(capsys, *words)
    assert "axes=(1,)" in output(capsys, *words, "--order", "c")


def test_dump_against(capsys):
    words = ("dump", "x*y", "--arg", "x:float64[2]", "--arg", "y:float64[1]", "--order", "c")
    text = output(capsys, *words, "--against", "x*y", "--against-order", "f")
    assert text.startswith("--- x*y (order c)\n+++ x*y (order f)\n@@ ")
    assert "order c" in text and "order f" in text
    assert output(capsys, *words, "--against", "x*y") == ""
    text = output(capsys, *words, "--against-arg", "y:float32[1]", "--stage", "graph")
    assert text.startswith("--- x*y (order c)\n+++ x*y (order c) y:float32[1]\n")
    assert "+%1 = input y : float32[1]" in text
    text = output(capsys, *words, "--against-mode", "accumulate:sum", "--stage", "graph")
    assert text.startswith("--- x*y (order c)\n+++ x*y (order c, accumulate:sum)\n")


@pytest.mark.parametrize("words, say", [
    ((f"{FILE}:nothing",), "compiled functions: .*twice"),
    ((f"{FILE}:number",), "is of type int, no compiled function"),
    (("no_file.py:f",), "there is no file no_file.py"),
    (("no_module_of_that_name:f",), "ModuleNotFoundError"),
    (("broken.py:f",), r"broken.py cannot be loaded: ModuleNotFoundError.*broken.py:1\)"),
    ((f"{FILE}:twice", "--mode", "broadcast"), "--mode is for expressions"),
    ((f"{FILE}:twice", "--arg", "x:float64[1]"), "x has rank 2, not 1"),
    ((f"{FILE}:twice", "--arg", "x:complex128[2]"), "does not cast safely"),
    ((f"{FILE}:twice", "--arg", "q:float64[2]"), "no input q"),
    ((f"{FILE}:twice", "--arg", "x"), "as in x:float32"),
    ((f"{FILE}:twice", "--arg", "x:float64[3,]"), "x has rank 2, not 1"),
    (("x * y", "--arg", "x:float64[3,]"), r"what shape y has: give it, with a comma, --arg 'y:float64\[2,\]'"),
    (("x * y", "--arg", "x:float64[3,]", "--arg", "y:float64[4,]"), "do not broadcast"),
    (("x", "--arg", "x:float64[]"), r"float32\[300,20\]"),
    (("x", "--arg", "x:float64[3 4]"), r"float32\[300,20\]"),
    (("x + y", "--arg", "x:float64[3,4]", "--arg", "y:float64[20]"), r"float64\[20,\]"),
    (("x", "--arg", f"x:float64[{2**40},{2**40}]"), "no room"),
    ((f"{FILE}:folded", "--order", "c"), "cannot be changed"),
    ((f"{FILE}:softmax",), "nothing says what x is: .* --arg 'x:float64"),
    (("x * y", "--mode", "sideways"), "unknown mode 'sideways'"),
    (("x * y", "--mode", "accumulate:nothing"), "no accumulator 'nothing'"),
    (("x *",), "x *"),
    (("__import__('os').getpid()",), "__import__"),
])
def test_dump_errors(capsys, words, say):
    assert re.search(say, message(capsys, "dump", *words))


def test_dump_gradients(capsys):
    args = ("--arg", "x:float64[2]", "--arg", "y:float64[1]")
    text = output(capsys, "dump", "x*y", *args, "--vjp")
    assert "gx = sum_to(gz * y[None, :], x)\n *   gx: broadcast, order f" in text
    assert "gy: (accumulate, sum), order f" in text
    assert "gx" in output(capsys, "dump", f"{FILE}:twice", "--vjp")
    text = output(capsys, "dump", "sum(x*x)", "--grad", "x")
    assert "= t0 + t0" in text or "x_v + x_v" in text
    text = output(capsys, "dump", "sum(x*x)", "--against-grad", "x", "--stage", "graph")
    assert text.startswith("--- sum(x*x)\n+++ sum(x*x) (grad x)\n")
    assert "rank 1; it must be a scalar" in message(capsys, "dump", "x*2", "--grad", "x")
    assert "the inputs are x" in message(capsys, "dump", "sum(x)", "--grad", "y")


# -- run ----------------------------------------------------------------------------------------


def test_run(capsys):
    x = np.random.default_rng(0).random((70, 50))
    np.save("x.npy", x)
    assert output(capsys, "run", f"{FILE}:twice", "x=x.npy", "-o", "out.npy") == ""
    np.testing.assert_array_equal(np.load("out.npy"), x * 2)
    assert output(capsys, "run", f"{FILE}:softmax", "x=x.npy", "-o", "out.npy", "--block", 1) == ""
    np.testing.assert_allclose(np.load("out.npy").sum(axis=1), 1)
    output(capsys, "run", f"{FILE}:pair", "x=x.npy", "-o", "a.npy", "-o", "b.npy")
    np.testing.assert_array_equal(np.load("a.npy"), x + 1)
    np.testing.assert_allclose(np.load("b.npy"), x.sum(axis=1))
    output(capsys, "run", f"{FILE}:pair", "x=x.npy", "-o", "out.npz")
    assert np.load("out.npz")["z1"].shape == (70,)


def test_run_expression_takes_dtypes_and_ranks_from_the_files(capsys):
    x, y = np.arange(12, dtype="float32").reshape(3, 4), np.arange(3, dtype="int16")
    np.save("x.npy", x)
    np.save("y.npy", y)
    output(capsys, "run", "x * y", "x=x.npy", "y=y.npy", "-o", "z.npy", "--order", "c")
    z = np.load("z.npy")
    assert z.dtype == np.float32
    np.testing.assert_array_equal(z, x * y[:, None])


@pytest.mark.parametrize("words, say", [
    (("x=x.npy", "-o", "out.txt"), "a .npy or a .npz"),
    (("x.npy", "-o", "out.npy"), "as in x=FILE.npy"),
    (("x=x.npy", "x=x.npy", "-o", "out.npy"), "once"),
    (("x=none.npy", "-o", "out.npy"), "No such file"),
    (("-o", "out.npy"), "input x is missing"),
    (("x=x.npy", "-o", "out.npy", "--block", "0"), "at least 1"),
])
def test_run_errors(capsys, words, say):
    np.save("x.npy", np.ones((3, 4)))
    assert re.search(say, message(capsys, "run", f"{FILE}:twice", *words))
    assert not os.path.exists("out.npy")


def test_run_names_the_members_by_the_keys(capsys):
    with open("two.py", "w") as file:
        file.write("import elemc as ec\n@ec.compile\ndef two(x):\n"
                   "    return {'m': x.mean(axis=0), 's': x.std(axis=0)}\n")
    x = np.arange(12.0).reshape(3, 4)
    np.save("x.npy", x)
    for more in ((), ("--order", "c")):
        output(capsys, "run", "two.py:two", "x=x.npy", "-o", "o.npz", *more)
        with np.load("o.npz") as found:
            assert sorted(found) == ["m", "s"]
    output(capsys, "run", "two.py:two", "x=x.npy", "-o", "s=s.npy", "-o", "m=m.npy")
    np.testing.assert_allclose(np.load("s.npy"), x.std(axis=0))
    np.testing.assert_allclose(np.load("m.npy"), x.mean(axis=0))
    assert "no output q; there are m, s" in message(capsys, "run", "two.py:two", "x=x.npy", "-o",
                                                    "q=q.npy")


def test_expressions_that_begin_with_a_minus(capsys):
    np.save("x.npy", np.arange(4.0))
    output(capsys, "run", "-x", "x=x.npy", "-o", "o.npy")
    np.testing.assert_array_equal(np.load("o.npy"), -np.arange(4.0))
    text = output(capsys, "dump", "-x", "--against", "-h*x")
    assert text.startswith("--- -x\n+++ -h*x\n")
    assert output(capsys, "dump", "--stage", "graph", "--", "--x") == output(
        capsys, "dump", "(--x)", "--stage", "graph")
    with pytest.raises(SystemExit):
        run("dump", "--x")
    assert 'is written as "(--x)"' in capsys.readouterr().err


@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 143), (signal.SIGHUP, 129),
                                            (signal.SIGINT, 130)])
def test_run_removes_what_it_wrote_when_it_is_stopped(number, status):
    np.lib.format.open_memmap("x.npy", "w+", "float64", (2**26,))  # half a gigabyte of holes
    before = sorted(os.listdir("."))
    running = subprocess.Popen(
        [sys.executable, "-m", "elemc", "run", "sin(exp(x)) ** cos(x)", "x=x.npy", "-o", "o.npy",
         "--block", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))  # else `nohup pytest &` ignores it
    end = time.monotonic() + 60
    while not [n for n in os.listdir(".") if n.endswith(".tmp")] and time.monotonic() < end:
        time.sleep(0.01)
    running.send_signal(number)
    _, err = running.communicate(timeout=60)
    assert running.returncode == status and "Traceback" not in err
    assert sorted(n for n in os.listdir(".") if n != "__pycache__") == before


def test_run_takes_options_between_the_inputs(capsys):
    np.save("x.npy", np.ones((3, 4)))
    np.save("y.npy", np.arange(3.0))
    output(capsys, "run", "x*y", "--mode", "accumulate:sum", "--order", "c", "x=x.npy", "y=y.npy",
           "-o", "z.npy")
    np.testing.assert_array_equal(np.load("z.npy"), 4 * np.arange(3.0))
    with pytest.raises(SystemExit):
        run("run", "x*y", "--modes", "x=x.npy", "-o", "z.npy")
    assert "unrecognized arguments: --modes" in capsys.readouterr().err


def test_run_removes_what_killed_runs_have_left():
    np.save("x.npy", np.ones(3))
    killed = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                            capture_output=True, text=True, check=True)
    start = f".o.npy.{platform.node()}."
    for name in (f"{killed.stdout.strip()}.0.tmp", f"{os.getpid()}.1.tmp"):
        Path(start + name).touch()
    run("run", "x + 1", "x=x.npy", "-o", "o.npy")
    assert [n for n in os.listdir(".") if n.startswith(start)] == [f"{start}{os.getpid()}.1.tmp"]


def test_handlers_of_signals_are_restored(capsys):
    np.save("x.npy", np.ones(3))
    before = signal.getsignal(signal.SIGTERM)
    output(capsys, "run", "x + 1", "x=x.npy", "-o", "o.npy")
    assert signal.getsignal(signal.SIGTERM) == before


def test_run_shows_progress_when_asked(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    np.save("x.npy", np.ones((300, 4)))
    assert run("run", f"{FILE}:twice", "x=x.npy", "-o", "out.npy", "--progress") == 0
    assert capsys.readouterr().err == "100 %\n"


# -- help ---------------------------------------------------------------------------------------


def help_of(capsys, *words):
    with pytest.raises(SystemExit) as stop:
        run(*words, "--help")
    assert stop.value.code == 0
    return capsys.readouterr().out


def test_help_lists_every_option(capsys, monkeypatch):
    every = help_of(capsys)
    for command in ("dump", "run", "demo", "info", "cache"):
        text = help_of(capsys, command)
        options = set(re.findall(r"--[a-z][a-z-]*", text)) - {"--help"}
        assert all(option in every for option in options), (command, options)
        assert f"elemc {command}" in every
    for word in ("FILE.npz:MEMBER", "NAME=OUT.npy", "MODULE:NAME"):
        assert word in every and word in help_of(capsys, "run")
    assert "--against-order" in every and "--against-order" in help_of(capsys, "dump")
    monkeypatch.setenv("COLUMNS", "40")
    assert "--block" in help_of(capsys, "run") and "TARGET2" in help_of(capsys, "dump")


# -- the rest -------------------------------------------------------------------------------------


def test_info(capsys):
    text = output(capsys, "info")
    for word in "elemc compiler flags threads cache python numpy".split():
        assert re.search(f"^{word} ", text, re.M)


@pytest.mark.skipif(toolchain.find_toolchain() is None, reason="needs a C compiler")
def test_info_tells_how_a_dump_compiles(capsys, tmp_path):
    [flags] = re.findall(r"^flags +(.*)$", output(capsys, "info"), re.M)
    source = tmp_path / "kernel.c"
    source.write_text(output(capsys, "dump", "x / sum(exp(x), axis=1)[:, None] + 2",
                             "--arg", "x:float64[1000,1001]"))
    tool = toolchain.find_toolchain()
    subprocess.run([*tool.command, *shlex.split(flags), "-Werror", "-c", str(source), "-o",
                    str(tmp_path / "kernel.o")], check=True, capture_output=True)
    assert (tmp_path / "kernel.o").exists()


def test_demo(capsys):
    text = output(capsys, "demo")
    assert "agrees with NumPy" in text and "elemc kernel softmax" in text and "NumPy  " in text


def test_cache(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "cache_dir", lambda: tmp_path / "kernels")
    assert output(capsys, "cache", "path") == f"{tmp_path / 'kernels'}\n"
    assert output(capsys, "cache", "list") == ""
    assert output(capsys, "cache", "clear") == "0 entries removed, 0.0 MiB\n"


def elemc(*words, **env):
    return subprocess.run([sys.executable, "-m", "elemc", *words], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **env})


def test_as_a_process(tmp_path):
    place = str(tmp_path / "own cache")
    assert elemc("--version").stdout.startswith("elemc 0.")
    np.save("x.npy", np.ones((3, 4)))
    done = elemc("run", f"{FILE}:twice", "x=x.npy", "-o", "out.npy", ELEMC_CACHE_DIR=place)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "kernel_block_twice" in elemc("cache", "list", ELEMC_CACHE_DIR=place).stdout
    assert elemc("cache", "path", ELEMC_CACHE_DIR=place).stdout.strip().startswith(place)
    assert re.match(r"[1-9]\d* entries removed", elemc("cache", "clear",
                                                      ELEMC_CACHE_DIR=place).stdout)
    assert elemc("cache", "list", ELEMC_CACHE_DIR=place).stdout == ""
    wrong = elemc("dump", "no_file.py:f")
    assert wrong.returncode == 2
    assert wrong.stderr == "elemc: there is no file no_file.py\n"


def test_a_closed_pipe_is_no_error():
    done = subprocess.run(
        f"{sys.executable} -m elemc dump {FILE}:twice --stage asm | head -1", shell=True,
        capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.stderr == ""


def test_outputs_without_room_can_be_dumped(capsys):
    shapes = [f"--arg={name}:float64[8000000,1]" for name in "xy"]
    run("dump", "x + y.T", *shapes)
    assert "int kernel_" in capsys.readouterr().out
