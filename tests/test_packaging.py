"""What is installed: wheel, sdist, wheel of the sdist and editable install carry the templates."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import jinja2
import numpy
import pytest

pytest.importorskip("setuptools", minversion="77")

ROOT = Path(__file__).parent.parent
TREE = ["elemc", "templates", "tests", "bench", ".ci"]
JUNK = shutil.ignore_patterns("__pycache__", "*.egg-info")

# Run with no path to the checkout: every template must be found, and parse.
USE = """
import pathlib, sys
import elemc
from elemc.templating import environment

assert pathlib.Path(elemc.__file__).is_relative_to(sys.argv[1]), elemc.__file__
names = environment().list_templates()
assert names == sys.argv[2:], names
for name in names:
    environment().get_template(name)
print(elemc.__version__)
"""


def build(hook: str, tree: Path, out: Path) -> Path:
    """Call one hook of setuptools' build backend in `tree`, as pip does."""
    out.mkdir(parents=True)
    code = f"from setuptools import build_meta; print(build_meta.{hook}({str(out)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tree, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return out / done.stdout.splitlines()[-1]


def use(path_entry: Path, expected_in: Path, cwd: Path) -> str:
    """Import elemc from `path_entry` (its .pth files count) in another directory."""
    # -S and plain entries for the dependencies: an elemc installed beside them, as an editable
    # install of this checkout is, must not be found first.
    needed = sorted({str(Path(str(module.__file__)).parents[1]) for module in (numpy, jinja2)})
    front = (f"import sys, site; sys.path.insert(0, {str(path_entry)!r}); "
             f"site.addsitedir({str(path_entry)!r}); sys.path += {needed!r}\n")
    cwd.mkdir()
    done = subprocess.run(
        [sys.executable, "-S", "-c", front + USE, str(expected_in), *templates()],
        cwd=cwd, capture_output=True, text=True, check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def templates() -> list[str]:
    """Names of all templates, as Jinja names them."""
    root = ROOT / "templates"
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*.j2"))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean copy of the source, so that building leaves nothing in the checkout."""
    copy = tmp_path_factory.mktemp("source")
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, copy)
        elif path.name in TREE:
            shutil.copytree(path, copy / path.name, ignore=JUNK)
    return copy


@pytest.fixture(scope="module")
def sdist(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("build_sdist", tree, tmp_path_factory.mktemp("sdist") / "dist")


def check_wheel(wheel: Path, where: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(where / "site")
    assert {f"elemc/templates/{name}" for name in templates()} <= names
    assert {f"elemc/{path.name}" for path in (ROOT / "elemc").glob("*.py")} <= names
    assert "elemc/py.typed" in names
    top = {name.split("/")[0] for name in names}
    assert top == {"elemc", next(name for name in top if name.endswith(".dist-info"))}
    version = use(where / "site", where / "site", where / "elsewhere")
    assert wheel.name == f"elemc-{version}-py3-none-any.whl"


def test_wheel(tree: Path, tmp_path: Path) -> None:
    check_wheel(build("build_wheel", tree, tmp_path / "dist"), tmp_path)


def test_sdist_has_tests_bench_and_templates(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"templates/{name}" for name in templates()} <= names
    assert {"tests/test_packaging.py", "bench/workloads.py", "bench/contestants/numpy_.py"} <= names
    assert {"LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "setup.cfg", ".ci/run"} <= names
    assert not [name for name in names if "__pycache__" in name]


def test_wheel_of_the_sdist(sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # since 3.11.4
        archive.extractall(tmp_path / "unpacked", **safe)
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    check_wheel(build("build_wheel", unpacked, tmp_path / "dist"), tmp_path)


def test_editable(tree: Path, tmp_path: Path) -> None:
    wheel = build("build_editable", tree, tmp_path / "dist")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    use(tmp_path / "site", tree, tmp_path / "elsewhere")
