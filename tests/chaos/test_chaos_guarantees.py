"""The table of guarantees, the harness that breaks brokers, and its report speak of the same faults."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from craig_mq.testing.chaos.catalogue import TROUBLES, troubles_of
from craig_mq.testing.chaos.report import failed, read_report, where

ROOT = Path(__file__).resolve().parents[2]
ROWS = tomllib.loads((ROOT / "docs/explanation/guarantees.toml").read_text(encoding="utf-8"))["row"]
OUTCOMES = read_report(ROOT / "docs/explanation")


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


def test_two_generations_on_one_node_and_three_were_broken():
    """The committed report tells of RabbitMQ 3.10 and 4: classic and quorum on one node, quorum on three."""
    assert {(one.version.split(".")[0], one.campaign.queue_type, one.place) for one in OUTCOMES} == {
        (generation, queue_type, place)
        for generation in ("3", "4")
        for queue_type, place in (("classic", "node"), ("quorum", "node"), ("quorum", "cluster"))
    }


@pytest.mark.parametrize(
    ("kind", "chosen"),
    [
        ("RabbitMQ 3 on one node", lambda one: one.version.startswith("3.") and one.place == "node"),
        ("RabbitMQ 4 on one node", lambda one: one.version.startswith("4.") and one.place == "node"),
        ("clusters of three nodes", lambda one: one.place == "cluster"),
    ],
)
def test_each_kind_of_broker_met_enough(kind, chosen):
    """Each generation, and the clusters, met at least 200 troubles over at least 100,000 messages."""
    campaigns = [one for one in OUTCOMES if chosen(one)]
    assert sum(sum(one.troubles.values()) for one in campaigns) >= 200, kind
    assert sum(one.campaign.messages for one in campaigns) >= 100_000, kind


@pytest.mark.parametrize("outcome", OUTCOMES, ids=where)
def test_the_committed_campaigns_lost_nothing(outcome):
    """A committed campaign met every trouble of its place, lost nothing, and explains every repetition."""
    assert failed(outcome) == []
    assert outcome.account.lost == ()
    assert set(outcome.troubles) == {trouble.name for trouble in troubles_of(outcome.place)}
    account = outcome.account
    assert account.recorded + account.quarantined + len(account.destroyed) == outcome.campaign.messages
    assert sum(outcome.copies.values()) == sum(times - 1 for times in account.copies.values())
