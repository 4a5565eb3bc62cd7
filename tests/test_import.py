"""What `import elemc` brings, and what it leaves for the first function."""

import pickle
import subprocess
import sys
from types import ModuleType

import pytest

import elemc

LATER = ("jinja2", "elemc.build", "elemc.compiler", "elemc.emit", "elemc.fastcall", "elemc.grads",
         "elemc.schedule", "elemc.toolchain")


def test_the_compiler_is_imported_with_the_first_function():
    code = ("import sys, elemc\n"
            "x = elemc.vector('x')\n"
            "elemc.sum(x * 2 + 1)\n"
            "print(*sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(LATER) & set(done.stdout.split())


def test_every_public_name_is_there():
    elemc.compile(lambda x: x)  # imports modules, none of which may take the place of a function
    assert set(elemc.__all__) == {name for name in dir(elemc) if not name.startswith("__")}
    for name in elemc.__all__:
        found = getattr(elemc, name)
        assert not isinstance(found, ModuleType)
        assert pickle.loads(pickle.dumps(found)) is found


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="'elemc' has no attribute 'nothing'"):
        elemc.nothing  # noqa: B018
