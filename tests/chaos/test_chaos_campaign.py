"""Campaigns against a real broker: everything confirmed is accounted for."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from craig_mq.testing.chaos.campaign import run_campaign
from craig_mq.testing.chaos.outcome import Campaign
from craig_mq.testing.chaos.report import as_markdown, failed, read_report, write_report
from craig_mq.testing.chaos.setting import Setting

SYSTEM = Path("/")


def campaign_in(setting, messages, events):
    """Run one campaign on nodes of its own and return what it showed."""
    with setting.nodes() as nodes:
        return trio.run(run_campaign, nodes, Campaign(messages, events, queue_type=setting.queue_type))


@pytest.mark.broker
def test_a_short_campaign_loses_nothing(tmp_path):
    """Through three troubles every confirmed message ends in the ledger or in quarantine, as reported."""
    outcome = campaign_in(Setting(SYSTEM, "classic"), 120, 3)
    assert failed(outcome) == []
    assert sum(outcome.troubles.values()) == 3
    account = outcome.account
    assert account.recorded + account.quarantined + account.destroyed == 120
    write_report(tmp_path, [outcome])
    assert read_report(tmp_path) == [outcome]
    assert f"RabbitMQ {outcome.version}, classic queues, one node" in as_markdown([outcome])


@pytest.mark.broker
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("queue_type", "place"), [("classic", "node"), ("quorum", "node"), ("quorum", "cluster")]
)
def test_a_long_campaign_loses_nothing(queue_type, place):
    """Through every trouble twice, kills included, nothing confirmed is lost on either queue type."""
    outcome = campaign_in(Setting(SYSTEM, queue_type, place), 5_000, 52)
    assert failed(outcome) == []
