"""The compiler of a process's first kernel, which starts before there is C."""

import os
import subprocess
import sys
import textwrap
import time

import pytest

from elemc.toolchain import find_toolchain

pytestmark = pytest.mark.skipif(
    getattr(find_toolchain(), "family", "") != "gcc", reason="only gcc is started early")

# What a process of its own does: a kernel that nobody compiled before, and how that went.
SCRIPT = """\
import os, numpy as np, elemc
from elemc import build_early, build_jobs, compiler, plans
compiler.cpus = lambda: 2
went = []
finish = build_early.Early.finish
def noted(*args):
    went.append(finish(*args))
    return went[-1]
build_early.Early.finish = noted
number = float(os.environ["NUMBER"])
x = np.arange(1001.0)
f = elemc.compile(lambda x: x * 3 + number)
"""


def process(script, **settings):
    """What a new process prints that runs SCRIPT, then `script`."""
    env = {**os.environ, "NUMBER": str(time.time_ns() % 2**40), **settings}
    done = subprocess.run([sys.executable, "-c", SCRIPT + textwrap.dedent(script)], env=env,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(autouse=True)
def runtime():
    """Who builds it loads what writes C, too."""
    assert process("") == []


CALL = """
np.testing.assert_array_equal(f(x), x * 3 + number)
np.testing.assert_array_equal(elemc.compile(lambda x: x * 5 + number)(x), x * 5 + number)
print(went, build_early._started)
"""


def test_the_first_kernel_and_no_other():
    assert process(CALL) == ["[True]", "{}"]


def test_a_kernel_that_is_there():
    number = str(time.time_ns() % 2**40)
    assert process(CALL, NUMBER=number) == ["[True]", "{}"]
    lost = """
        plans.held = lambda place: None
    """
    assert process(textwrap.dedent(lost) + CALL, NUMBER=number) == ["[]", "{}"]


def test_a_compiler_that_is_handed_nothing(tmp_path):
    """As one may be behind a program that reads the pipe itself, and keeps what it read."""
    front = tmp_path / "front"
    front.write_text(f'#!/bin/sh\ncat > /dev/null\nexec {find_toolchain().command[0]} "$@"\n')
    front.chmod(0o700)
    assert process(CALL, ELEMC_CC=str(front)) == ["[False]", "{}"]


def test_c_that_fails_is_told_as_ever():
    assert process("""
        build_jobs.Job.text = property(lambda job: job.source + "int wrong(")
        try:
            f(x)
        except elemc.CompileError as error:
            assert "kernel.c:" in str(error) and "/dev/stdin" not in str(error), error
            print(went, build_early._started)
    """) == ["[False]", "{}"]


def test_nothing_is_left_of_one_that_is_not_needed(tmp_path):
    """It ends, and so does its directory."""
    assert process("""
        from pathlib import Path
        from elemc import cache_dirs
        begun = []
        def fail(kernel, entry, banner):
            begun.extend(build_early._started.values())
            raise RuntimeError("no C")
        compiler.emit = fail
        try:
            f(x)
        except RuntimeError:
            print(begun[0].process.poll() is not None, begun[0].work.exists(), went)
    """) == ["True", "False", "[]"]


def test_a_child_does_not_hold_the_pipe():
    """A child that lives on would keep the compiler waiting for the end of its source."""
    assert process("""
        import time
        written = compiler.written
        def fork(*args):
            child = os.fork()
            if not child:
                time.sleep(60)
                os._exit(0)
            children.append(child)
            return written(*args)
        children = []
        compiler.written = fork
        start = time.perf_counter()
        np.testing.assert_array_equal(f(x), x * 3 + number)
        print(went, time.perf_counter() - start < 30)
        os.kill(children[0], 9)
    """) == ["[True]", "True"]
