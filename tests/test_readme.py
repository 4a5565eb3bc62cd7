"""Every block of the README runs, and the C that it shows is the C that elemc writes."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"<!-- c: (?P<shown>.+?) -->|```(?P<lang>\w*)\n(?P<body>.*?)```", re.DOTALL)


def blocks(text):
    return [m.groupdict() | {"at": m.start()} for m in BLOCK.finditer(text)]


def test_blocks_run(capsys, request):
    text = README.read_text(encoding="utf-8")
    names: dict[str, object] = {}
    shown = None
    printed = ""
    checked = 0
    for block in blocks(text):
        if block["shown"]:
            shown = block["shown"]
            continue
        if block["lang"] == "python":
            exec(compile(block["body"], str(README), "exec"), names)
            printed = capsys.readouterr().out
        elif block["lang"] == "text":
            assert printed == block["body"]
            checked += 1
        elif block["lang"] == "c" and shown:
            want = eval(shown, names)
            if request.config.getoption("--update-golden"):
                text = text.replace(f"-->\n\n```c\n{block['body']}```", f"-->\n\n```c\n{want}```", 1)
            else:
                assert block["body"] == want, "run pytest --update-golden"
            shown = None
            checked += 1
    if request.config.getoption("--update-golden"):
        README.write_text(text, encoding="utf-8")
    assert checked >= 4


@pytest.mark.parametrize("word", ["DESIGN.md", "/tmp", "TODO"])
def test_readme_speaks_of_the_project_alone(word):
    assert word not in README.read_text(encoding="utf-8")
