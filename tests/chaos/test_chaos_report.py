"""The committed report of `make chaos` shows what the project says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from craig_mq.testing.chaos.catalogue import TROUBLES
from craig_mq.testing.chaos.report import as_markdown, failed, read_report, where

FOLDER = Path(__file__).resolve().parents[2] / "docs/explanation"
OUTCOMES = read_report(FOLDER)


@pytest.mark.parametrize("outcome", OUTCOMES, ids=where)
def test_the_committed_campaigns_lost_nothing(outcome):
    """A committed campaign lost nothing, and explains every repetition."""
    assert failed(outcome) == []
    assert outcome.account.lost == ()
    account = outcome.account
    assert account.recorded + account.quarantined + account.destroyed == outcome.campaign.messages
    assert sum(outcome.copies.values()) == sum(times - 1 for times in account.copies.values())


def test_the_page_is_what_the_numbers_say():
    """The committed page is rendered from the committed numbers."""
    assert (FOLDER / "chaos-report.md").read_text(encoding="utf-8") == as_markdown(OUTCOMES)


@pytest.mark.parametrize("generation", ["3.", "4."])
def test_each_broker_generation_met_enough_trouble(generation):
    """Each broker generation met 200 troubles of every kind over 100,000 messages, on one node and three."""
    ran = [outcome for outcome in OUTCOMES if outcome.version.startswith(generation)]
    assert {(outcome.campaign.queue_type, outcome.place) for outcome in ran} == {
        ("classic", "node"),
        ("quorum", "node"),
        ("quorum", "cluster"),
    }
    assert sum(outcome.campaign.messages for outcome in ran) >= 100_000
    assert sum(sum(outcome.troubles.values()) for outcome in ran) >= 200
    assert {name for outcome in ran for name in outcome.troubles} == {trouble.name for trouble in TROUBLES}
