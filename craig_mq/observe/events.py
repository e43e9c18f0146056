"""Typed events of the runtime. They carry no body and no credential; times are in seconds.

``arm`` is ``main`` or ``parking``; ``queue`` is always the subscription's dead-letter queue unless a
field says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import attrs

Arm: TypeAlias = Literal["main", "parking"]
DeliveryOutcome: TypeAlias = Literal["acked", "parked", "quarantined", "unsettled"]
EventOutcome: TypeAlias = Literal["acked", "requeued", "dead_lettered", "unsettled"]
SettlementStage: TypeAlias = Literal["publish", "returned", "nacked", "unknown", "ack", "nack"]


@attrs.define(frozen=True, slots=True)
class Event:
    """Anything the runtime reports."""

    queue: str


@attrs.define(frozen=True, slots=True)
class ArmEvent(Event):
    """Anything one arm reports."""

    arm: Arm


@attrs.define(frozen=True, slots=True)
class SessionUp(ArmEvent):
    """A session consumes: its topology stands and consume-ok has come."""

    generation: int


@attrs.define(frozen=True, slots=True)
class SessionRefused(ArmEvent):
    """The broker refused a session: it starts once somebody changes something (decisions, 18)."""

    text: str


@attrs.define(frozen=True, slots=True)
class SessionDown(ArmEvent):
    """A session ended. ``end`` is the name of a core SessionEnd; ``text`` is the broker's own."""

    generation: int
    end: str
    text: str


@attrs.define(frozen=True, slots=True)
class BackoffChanged(ArmEvent):
    """The wait before the next session; 0 once it starts."""

    seconds: float


@attrs.define(frozen=True, slots=True)
class SettlementFailure(ArmEvent):
    """A publish, confirm or settlement failed: nothing was acked, the session ends (ADR-059 §settlement).

    ``target`` is the queue or exchange published to, or the queue acked on; ids where they exist.
    """

    stage: SettlementStage
    target: str
    text: str
    envelope_id: str | None = None
    capture_id: str | None = None


@attrs.define(frozen=True, slots=True)
class HandlerFinished(Event):
    """One invocation of the handler: ``disposition`` is ``ok`` or a Disposition value.

    ``original_properties`` gives the original message's properties as JSON, to an observer that wants them
    while it is called.
    """

    disposition: str
    seconds: float
    attempt: int
    envelope_id: str
    error_type: str | None = None
    original_properties: Callable[[], bytes] | None = attrs.field(default=None, repr=False, eq=False)


@attrs.define(frozen=True, slots=True)
class DeliveryFinished(Event):
    """What became of one delivery of the main session. Emitted once the settlement was written.

    ``tokenless_rerun`` is true for a redelivered delivery without a token that reached the handler
    again: the disclosed bound of ADR-059.
    """

    outcome: DeliveryOutcome
    redelivered: bool
    tokenless_rerun: bool = False
    envelope_id: str | None = None


@attrs.define(frozen=True, slots=True)
class EventFinished(Event):
    """What became of one delivery of an ordinary queue. Emitted once the settlement was written."""

    outcome: EventOutcome
    redelivered: bool


@attrs.define(frozen=True, slots=True)
class DeadLettered(Event):
    """A dead letter of an ordinary queue: confirmed into craig.dlx, or rejected to the broker's DLX."""

    envelope_id: str | None
    by: Literal["client", "broker"]
    malformed: bool


@attrs.define(frozen=True, slots=True)
class Parked(Event):
    """A capture was confirmed into the parking queue."""

    envelope_id: str
    capture_id: str
    park_count: int


@attrs.define(frozen=True, slots=True)
class ParkedReturned(Event):
    """The replayer's republish of a due capture was confirmed."""

    envelope_id: str
    capture_id: str
    waited_s: float


@attrs.define(frozen=True, slots=True)
class Redriven(Event):
    """An operator's act sent a capture back: published, confirmed, and acked in its queue.

    ``original_properties`` is as in HandlerFinished.
    """

    envelope_id: str
    capture_id: str
    original_properties: Callable[[], bytes] | None = attrs.field(default=None, repr=False, eq=False)


@attrs.define(frozen=True, slots=True)
class Quarantined(Event):
    """A capture was confirmed into the quarantine queue: one ERROR line each (ADR-059 §quarantine)."""

    envelope_id: str
    capture_id: str
    reason: str
    target: str
    truncated: bool = False


@attrs.define(frozen=True, slots=True)
class DuplicateAbsorbed(Event):
    """A redelivery of a delivery already confirmed elsewhere was acked without a second copy."""

    envelope_id: str | None


@attrs.define(frozen=True, slots=True)
class Undecodable(Event):
    """A delivery whose properties or headers could not be read entirely (field failure PROP-01)."""

    text: str


@attrs.define(frozen=True, slots=True)
class DepthSampled(Event):
    """Ready messages of ``sampled`` (the queue itself or a sibling); None when it could not be read."""

    sampled: str
    ready: int | None


@attrs.define(frozen=True, slots=True)
class OldestParked(Event):
    """Age of the parked message at the head, in seconds; None when there is none."""

    seconds: float | None


@attrs.define(frozen=True, slots=True)
class BlockedChanged(ArmEvent):
    """``connection.blocked`` came (with the broker's reason) or went (None)."""

    reason: str | None


@attrs.define(frozen=True, slots=True)
class InflightChanged(Event):
    """Deliveries taken by the main session and not yet settled."""

    count: int


@attrs.define(frozen=True, slots=True)
class ClockSkew(Event):
    """A parked_at that lies ahead of this host's clock, clamped to one TTL from receipt."""

    ahead_s: float


@attrs.define(frozen=True, slots=True)
class LoopBlocked(Event):
    """Trio's loop did not run for this long: a handler blocks the thread (field failure HB-01)."""

    seconds: float


@attrs.define(frozen=True, slots=True)
class HandlersStuck(Event):
    """``count`` handlers went on for this long after their session had ended and cancelled them."""

    count: int
    seconds: float


@attrs.define(frozen=True, slots=True)
class ForeignParked(Event):
    """Something in the parking queue is no capture of this queue; it went to the queue itself as it is."""

    text: str


@attrs.define(frozen=True, slots=True)
class TopologyRepaired(Event):
    """Something of ours was missing and was declared again."""

    what: str


@attrs.define(frozen=True, slots=True)
class TopologyDeclined(Event):
    """The broker refused a declare; what stands was checked passively and accepted."""

    what: str
    text: str


@attrs.define(frozen=True, slots=True)
class SubscriptionEnded(Event):
    """The whole subscription ended; ``error`` names the type that ended it, None for a shutdown."""

    error: str | None


Observer: TypeAlias = Callable[[Event], None]
