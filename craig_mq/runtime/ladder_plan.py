"""Everything the parts of one subscription to an ordinary queue share, and its counters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import attrs

from craig_mq.core.config import SubscriptionConfig, SubscriptionOptions
from craig_mq.core.envelope import EventEnvelope
from craig_mq.core.first_failure import FirstFailures
from craig_mq.core.identity import ConfirmedUnacked
from craig_mq.core.received_event import ReceivedEvent
from craig_mq.core.topology import Topology
from craig_mq.runtime.reporting import Reporter
from craig_mq.runtime.sources import Sources
from craig_mq.runtime.start_gate import StartGate
from craig_mq.transport.broker import Broker

EventHandler: TypeAlias = Callable[[ReceivedEvent], Awaitable[None]]
"""Returns once the event is dealt with; whatever it raises is a strike."""

OrderingKey: TypeAlias = Callable[[EventEnvelope], str]
"""Events of one key are handled one at a time."""


@attrs.define(frozen=True, slots=True)
class EventStatistics:
    """How often each thing happened since the subscription began; ``in_flight`` is a level.

    ``unsettled`` counts deliveries left to the broker's redelivery. ``strikes_spent_elsewhere`` counts
    redelivered arrivals whose first strike no handler here has used: a teardown, a crash of the broker
    or another replica has (ADR-059 §settlement, disclosures).
    """

    acked: int
    requeued: int
    dead_lettered: int
    malformed: int
    unsettled: int
    invocations: int
    duplicates_absorbed: int
    strikes_spent_elsewhere: int
    settlement_failures: int
    sessions: int
    in_flight: int


@attrs.define(slots=True)
class EventTally:
    """The mutable counters behind EventStatistics."""

    acked: int = 0
    requeued: int = 0
    dead_lettered: int = 0
    malformed: int = 0
    unsettled: int = 0
    invocations: int = 0
    duplicates_absorbed: int = 0
    strikes_spent_elsewhere: int = 0
    settlement_failures: int = 0
    sessions: int = 0
    in_flight: int = 0

    def frozen(self) -> EventStatistics:
        """Return the counters as they stand."""
        return EventStatistics(**attrs.asdict(self))


@attrs.define(frozen=True, slots=True, eq=False)
class LadderPlan:
    """One subscription to an ordinary queue: where, what, how, and whom to tell.

    ``struck`` remembers, over sessions, what was requeued after a failure here, and ``first_failures``
    when an event first failed for good.
    """

    broker: Broker
    queue: str
    handler: EventHandler
    ordering_key: OrderingKey | None
    config: SubscriptionConfig
    options: SubscriptionOptions
    topology: Topology
    sources: Sources
    reporter: Reporter
    gate: StartGate
    tally: EventTally
    struck: ConfirmedUnacked = attrs.field(factory=ConfirmedUnacked, init=False)
    first_failures: FirstFailures = attrs.field(factory=FirstFailures, init=False)
