"""The shape of the source: imports go one way, modules and lines stay short."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "elemc"

# A module imports only modules that stand before it.  A module whose table outgrew one file is
# split into `NAME_PART.py`, which shares the place of NAME; so shares `ops_math` that of `ops`.
ORDER = """
    errors records cache cnames dtypes templating mathlib ops accumulators node graph formula indexing array
    constructors linear protocol maps composites close interp simplify layout values programs cost ranges coalesce reads factored written lower nest places accesses refold quotients ratios specialize repeating blocks halving calling bounds jamming interior early roots linked meeting together order once choices sharing folded_rows asking stages work strides
    expressions picking row_ends fetching paired turns fold_loops row_loops statements scope leaves merging folding keeping crossing schedule emit variants toolchain threads constants build banner compiler arguments runtime binding modes
    portable machine counts vectorization profile dump plans prepare fastcall function tracing evaluate rules gradient grads custom user settings parse targets stream demo cli
    __init__ __main__
""".split()

# Tables: one row per entry, however wide.
WIDE = ("ops", "accumulators")

MAX_LINES = 400
MAX_COLUMNS = 100

MODULES = sorted(PACKAGE.glob("*.py"))


def place(name: str) -> int:
    """Where `name`, or the module that it is a part of, stands in ORDER."""
    for candidate in (name, name.split("_")[0]):
        if candidate in ORDER:
            return ORDER.index(candidate)
    pytest.fail(
        f"elemc/{name}.py has no place in the order of modules: list {name!r} in ORDER in "
        f"tests/test_layering.py, after every module it imports"
    )


def imported(path: Path) -> set[str]:
    """Names of elemc's modules that `path` imports when it runs or for its annotations."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            full = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            source = ".".join(filter(None, ["elemc" if node.level else "", node.module]))
            full = [source] if source != "elemc" else [  # modules, or names of elemc/__init__.py
                f"elemc.{alias.name if (PACKAGE / f'{alias.name}.py').exists() else '__init__'}"
                for alias in node.names
            ]
        else:
            continue
        parts = [(name + ".__init__").split(".") for name in full]
        names.update(part[1] for part in parts if part[0] == "elemc")
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_imports_go_up(path: Path) -> None:
    own = place(path.stem)
    for name in imported(path):
        # `from elemc import __version__` below __init__ would be a cycle too.
        same_table = place(name) == own and name != path.stem
        assert place(name) < own or same_table, (
            f"elemc/{path.name} imports {name}, which does not stand before it in ORDER"
        )


def test_parts_of_a_table_do_not_import_each_other_in_a_circle() -> None:
    edges = {path.stem: imported(path) for path in MODULES}
    done: set[str] = set()
    while ready := {name for name in edges.keys() - done if edges[name] & edges.keys() <= done}:
        done |= ready
    assert done == set(edges), f"modules in a circle: {sorted(set(edges) - done)}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_modules_are_short(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= MAX_LINES, f"elemc/{path.name} has {len(lines)} lines; split it"
    if path.stem.split("_")[0] in WIDE:
        return
    long = [number for number, line in enumerate(lines, 1) if len(line) > MAX_COLUMNS]
    assert not long, f"elemc/{path.name}: lines {long} exceed {MAX_COLUMNS} columns"


def test_package_is_flat() -> None:
    inner = [path for path in PACKAGE.glob("*/**/*.py") if path.parent.name != "templates"]
    assert not inner, f"elemc is one level of modules; found {inner}"
