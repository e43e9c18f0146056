"""README's example is valid against the library, and its commands exist."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import craig_mq

ROOT = Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_embedding_example_names_only_what_exists() -> None:
    """The README's Python example parses, and every name it imports from craig_mq is public."""
    (example,) = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    imported = {
        alias.name
        for node in ast.walk(ast.parse(example))
        if isinstance(node, ast.ImportFrom) and node.module == "craig_mq"
        for alias in node.names
    }
    assert imported
    assert imported <= set(craig_mq.__all__)


def test_the_two_commands_are_make_targets() -> None:
    """`make demo` and `make test` stand in the README and in the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "test"):
        assert f"$ make {target}" in README
        assert re.search(rf"^{target}:.*##", makefile, re.MULTILINE)


def test_the_service_command_takes_the_options_shown() -> None:
    """Every option of the README's `craig-mq run` line is one that the command knows."""
    command = re.search(r"craig-mq run (.*?)\n```", README, re.DOTALL)
    assert command is not None
    shown = set(re.findall(r"--[a-z-]+", command.group(1)))
    known = subprocess.run(
        [sys.executable, "-m", "craig_mq", "run", "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    ).stdout
    assert shown
    assert all(option in known for option in shown)
