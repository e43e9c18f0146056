"""``field-failures``: each failure known from the field, and the tests whose docstrings name it."""

import ast
import re
import tomllib
from collections import defaultdict
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "docs" / "reference" / "field-failures.toml"
ID = re.compile(r"\b(?!UTF-)[A-Z]{2,5}-\d\d\b")


def known_failures() -> dict[str, str]:
    """Return what went wrong, by id."""
    failures: dict[str, str] = tomllib.loads(SOURCE.read_text(encoding="utf-8"))["failure"]
    return failures


def tests_by_failure() -> dict[str, list[str]]:
    """Return the tests that name each id in their docstrings, as pytest names them."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if function.name.startswith("test_"):
                for name in ID.findall(ast.get_docstring(function) or ""):
                    found[name].append(f"{path.relative_to(ROOT)}::{function.name}")
    return found


class FieldFailures(SphinxDirective):
    """``field-failures``: one row per id."""

    def run(self) -> list[nodes.Node]:
        """Render the table."""
        self.env.note_dependency(str(SOURCE))
        tests = tests_by_failure()
        lines = ["| id | what went wrong | shown here by |", "|---|---|---|"]
        for name, what in known_failures().items():
            named = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in tests[name])
            lines.append(f"| {name} | {what} | {named} |")
        container = nodes.container()
        self.state.nested_parse(StringList(lines, str(SOURCE)), self.content_offset, container)
        return container.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("field-failures", FieldFailures)
    return {"parallel_read_safe": True}
