"""The repository checks its own shape (architecture, principle 12)."""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_FILE_LINES = 260
MAX_FUNCTION_LINES = 70
FORBIDDEN_NAMES = {"utils", "helpers", "manager", "base", "common", "misc"}


def _sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def _functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_files_are_small() -> None:
    """No source file has more than 260 lines that are neither blank nor comments."""
    long = {}
    for path in _sources("craig_mq", "supervisors"):
        lines = path.read_text(encoding="utf-8").splitlines()
        count = sum(1 for line in lines if line.strip() and not line.strip().startswith("#"))
        if count > MAX_FILE_LINES:
            long[str(path.relative_to(ROOT))] = count
    assert long == {}


def test_functions_are_short() -> None:
    """No function in the packages is longer than 70 lines."""
    long = {
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}": length
        for path in _sources("craig_mq", "supervisors")
        for function in _functions(path)
        if (length := function.end_lineno - function.lineno) > MAX_FUNCTION_LINES
    }
    assert long == {}


def test_no_room_without_a_name() -> None:
    """No module is called utils, helpers, manager, base, common or misc."""
    assert [
        path
        for path in _sources("craig_mq", "supervisors", "tests", "benchmarks")
        if path.stem in FORBIDDEN_NAMES
    ] == []


def test_every_test_states_what_it_specifies() -> None:
    """Every test has a docstring, and it is one sentence."""
    silent = [
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}"
        for path in _sources("tests")
        for function in _functions(path)
        if function.name.startswith("test_")
        and not (ast.get_docstring(function) or "").strip().endswith((".", ")"))
    ]
    assert silent == []


def test_constraints_pin_versions_and_hold_no_address() -> None:
    """Every line of the constraints file is a plain name==version."""
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        name, _, version = line.partition("==")
        assert name, line
        assert version, line
        assert "/" not in line, line
        assert "@" not in line, line


def test_importing_the_package_loads_no_bridge_and_no_client() -> None:
    """`import craig_mq` leaves asyncio bridges, AMQP clients, databases and web servers unimported."""
    unwanted = ["asyncio", "trio_asyncio", "aio_pika", "aiormq", "pamqp", "psycopg", "starlette", "anycorn"]
    code = (
        f"import sys, craig_mq; print(sorted({{m.split('.')[0] for m in sys.modules}} & set({unwanted!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
