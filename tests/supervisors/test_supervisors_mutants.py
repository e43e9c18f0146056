"""The mutation gate itself: every planted defect is killed by its named test alone."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


def load_gate():
    spec = importlib.util.spec_from_file_location(
        "mutation_gate", Path(__file__).with_name("mutation_gate.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


gate = load_gate()


@pytest.mark.parametrize("mutant", gate.MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_mutant_changes_the_shipped_code_once(tmp_path, mutant):
    """Each mutant's text stands in the shipped code exactly once, and its test exists."""
    gate.plant(mutant, gate.copy_project(tmp_path))
    file, name = mutant.test.split("::")
    assert f"def {name}(" in (Path(__file__).parent / file).read_text("utf-8")


@pytest.mark.soak
def test_every_mutant_is_killed():
    """The kill matrix is full: each mutant fails its named test."""
    assert gate.healthy()[0] == 0
    assert [kill.mutant.name for kill in gate.kill_all() if not kill.killed] == []
