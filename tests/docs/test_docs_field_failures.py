"""Every failure known from the field has a test that names it, and no test names one that is unknown."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest


@pytest.fixture
def field_failures(monkeypatch):
    """The extension that renders the table."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "docs" / "_ext"))
    module = importlib.import_module("field_failures")
    yield module
    sys.modules.pop("field_failures", None)


def test_every_field_failure_has_a_test_by_its_id(field_failures):
    """Each of the 79 ids stands in the docstring of a test at least."""
    known, tested = field_failures.known_failures(), field_failures.tests_by_failure()
    assert len(known) == 79
    assert [name for name in known if not tested[name]] == []


def test_no_test_names_a_failure_nobody_knows(field_failures):
    """An id in a test's docstring is one of the table's."""
    unknown = field_failures.tests_by_failure().keys() - field_failures.known_failures().keys()
    assert unknown == set()
