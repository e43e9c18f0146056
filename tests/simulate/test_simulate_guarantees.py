"""The table of guarantees names proofs that exist."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = tomllib.loads((ROOT / "docs/explanation/guarantees.toml").read_text(encoding="utf-8"))["row"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["fault"])
def test_a_guarantee_names_its_proof(row):
    """A row says what holds, what does not, and which test proves it; unproven, it guarantees nothing."""
    assert row["guaranteed"]
    assert row["limits"]
    if not row["test"]:
        assert row["guaranteed"].startswith("Nothing")
        return
    path, _, name = row["test"].partition("::")
    assert f"def {name}" in (ROOT / path).read_text(encoding="utf-8")
