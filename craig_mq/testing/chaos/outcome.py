"""What a campaign is asked for, and what it showed."""

from __future__ import annotations

import attrs

from craig_mq.core.config import QueueType
from craig_mq.runtime.statistics import DlqStatistics
from craig_mq.testing.chaos.account import Account
from craig_mq.testing.chaos.trouble import Place


@attrs.define(frozen=True, slots=True)
class Campaign:
    """How much: messages to publish, troubles to make, the seed of their order, the queues' type."""

    messages: int
    events: int
    seed: int = 0
    queue_type: QueueType = "classic"


@attrs.define(frozen=True, slots=True)
class Outcome:
    """What a campaign showed.

    ``troubles`` counts what was made, ``ends`` how sessions ended, ``repetitions`` why messages were handled
    again, ``copies`` why there are second copies in quarantine; ``unexplained`` tells of each message
    that has no reason. ``bites``: sessions that ended while a trouble lasted, or until both arms consumed
    again after it.
    """

    version: str
    place: Place
    campaign: Campaign
    account: Account
    troubles: dict[str, int]
    bites: dict[str, int]
    ends: dict[str, int]
    repetitions: dict[str, int]
    copies: dict[str, int]
    unexplained: tuple[str, ...]
    statistics: DlqStatistics
    invocations: int
    repeated_publishes: int
    settled: bool
    seconds: float
