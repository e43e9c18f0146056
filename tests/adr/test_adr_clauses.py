"""docs/reference/adr-059.toml is true: its files exist, its tests exist, its mutants die."""

import collections
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
CLAUSES = tomllib.loads((ROOT / "docs" / "reference" / "adr-059.toml").read_text(encoding="utf-8"))["clause"]
MUTANTS = [clause for clause in CLAUSES if "mutant" in clause]
MAX_CLAUSES_PER_TEST = 4
MIN_MUTANTS = 25


def _pytest(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(cwd), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=240
    )


def test_each_clause_stands_once_and_is_kept_by_a_file_that_exists() -> None:
    """Clause ids are unique, and every clause names an existing file and at least one test."""
    ids = [clause["id"] for clause in CLAUSES]
    assert len(ids) == len(set(ids))
    assert [clause["id"] for clause in CLAUSES if not (ROOT / clause["file"]).is_file()] == []
    assert [clause["id"] for clause in CLAUSES if not clause["tests"]] == []


def test_every_named_test_is_collected() -> None:
    """Every test named by a clause exists, parametrised or not, and is collected by pytest."""
    files = sorted({test.partition("::")[0] for clause in CLAUSES for test in clause["tests"]})
    listing = _pytest(ROOT, "--collect-only", "-q", *files)
    assert listing.returncode == 0, listing.stdout + listing.stderr
    collected = {re.sub(r"\[.*\]$", "", line) for line in listing.stdout.splitlines() if "::" in line}
    named = {test for clause in CLAUSES for test in clause["tests"]}
    assert sorted(named - collected) == []


def test_no_test_serves_more_than_four_clauses() -> None:
    """A test that proves everything proves nothing: none serves more than four clauses."""
    served = collections.Counter(test for clause in CLAUSES for test in clause["tests"])
    assert {test: count for test, count in served.items() if count > MAX_CLAUSES_PER_TEST} == {}


def test_at_least_twenty_five_clauses_name_a_mutant() -> None:
    """For at least twenty-five clauses a planted defect shows that their test can fail."""
    assert len(MUTANTS) >= MIN_MUTANTS


@pytest.fixture(scope="module")
def copy_of_the_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The parts that a test run needs, where a mutant can be planted without touching the original."""
    copy = tmp_path_factory.mktemp("mutants")
    for name in ("craig_mq", "supervisors", "tests"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    return copy


@pytest.mark.parametrize("clause", MUTANTS, ids=[clause["id"] for clause in MUTANTS])
def test_the_clauses_own_test_kills_its_mutant(clause: dict, copy_of_the_repository: Path) -> None:
    """A defect planted against a clause makes the clause's named test fail."""
    mutant = clause["mutant"]
    planted = copy_of_the_repository / mutant.get("file", clause["file"])
    original = planted.read_text(encoding="utf-8")
    assert original.count(mutant["find"]) == 1, f"{planted.name} must hold the mutated text exactly once"
    planted.write_text(original.replace(mutant["find"], mutant["replace"]), encoding="utf-8")
    try:
        run = _pytest(copy_of_the_repository, "-q", "-x", mutant["killed_by"])
    finally:
        planted.write_text(original, encoding="utf-8")
    assert mutant["killed_by"] in clause["tests"]
    assert run.returncode == 1, run.stdout + run.stderr
    assert re.search(r"\d+ (failed|error)", run.stdout), run.stdout
