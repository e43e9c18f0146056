"""A short campaign against a real broker: everything confirmed is accounted for."""

from __future__ import annotations

import pytest
import trio

from craig_mq.testing.chaos.campaign import Campaign, run_campaign
from craig_mq.testing.chaos.report import as_json, as_markdown, failed
from craig_mq.testing.rabbitmq import RabbitNode


@pytest.mark.broker
def test_a_short_campaign_loses_nothing():
    """Through five troubles every confirmed message ends in the ledger or in quarantine, as it should."""
    with RabbitNode() as node:
        outcome = trio.run(run_campaign, node, Campaign(200, 5))
    assert sum(outcome.troubles.values()) == 5
    assert failed(outcome) == []
    assert outcome.account.recorded + outcome.account.quarantined == 200
    assert f"RabbitMQ {outcome.version}" in as_markdown([outcome])
    assert '"lost": []' in as_json([outcome])


@pytest.mark.broker
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_a_long_campaign_loses_nothing(queue_type):
    """Through every trouble three times, kills included, nothing confirmed is lost on either queue type."""
    with RabbitNode() as node:
        outcome = trio.run(run_campaign, node, Campaign(5_000, 51, queue_type=queue_type))
    assert failed(outcome) == []
