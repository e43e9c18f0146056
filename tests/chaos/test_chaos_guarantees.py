"""The table of guarantees and the harness that breaks brokers speak of the same faults."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from craig_mq.testing.chaos.catalogue import TROUBLES

ROOT = Path(__file__).resolve().parents[2]
ROWS = tomllib.loads((ROOT / "docs/explanation/guarantees.toml").read_text(encoding="utf-8"))["row"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["fault"])
def test_a_guarantee_names_its_proof(row):
    """A row says what holds, what does not, and which test proves it; unproven, it guarantees nothing."""
    assert row["guaranteed"]
    assert row["limits"]
    if not row["test"]:
        assert row["guaranteed"].startswith("Nothing:")
        return
    path, _, name = row["test"].partition("::")
    assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")


def test_the_table_and_the_harness_know_the_same_faults():
    """Every trouble of the harness belongs to exactly one row, and every trouble a row names exists."""
    in_rows = Counter(name for row in ROWS for name in row["troubles"])
    in_harness = Counter(trouble.name for trouble in TROUBLES)
    assert in_rows == in_harness
    assert set(in_rows.values()) == {1}
