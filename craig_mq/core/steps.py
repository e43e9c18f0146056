"""What goes in and out of the settlement machine: events the caller reports, effects it is to carry out.

What is made for every parked delivery is not frozen, which would triple its construction; treat all
of it as immutable.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs
import msgspec

from craig_mq.core.capture_format import CaptureKind, QuarantineReason
from craig_mq.core.disposition import Disposition
from craig_mq.core.last_error import LastError
from craig_mq.core.outcome import Confirmation, SettlementOutcome

Stage: TypeAlias = Literal["publish", "returned", "nacked", "unknown", "ack", "nack"]
Outcome: TypeAlias = Literal["acked", "parked", "quarantined"]
Origin: TypeAlias = Literal["readable", "malformed", "confirmed_before"]


# -- events: what the caller reports ---------------------------------------------------------------


class Begin(msgspec.Struct, frozen=True, gc=False):
    """The delivery was taken. ``confirmed_before`` is a redelivery whose copy is already confirmed."""

    origin: Origin = "readable"


class HandlerOk(msgspec.Struct, frozen=True, gc=False):
    """The handler returned."""


class HandlerFailed(msgspec.Struct, gc=False):
    """The handler raised, or ran out of its time; ``jitter`` is a random fraction 0..1."""

    disposition: Disposition
    error: LastError
    jitter: float


class Slept(msgspec.Struct, frozen=True, gc=False):
    """The retry delay has passed."""


class Interrupted(msgspec.Struct, frozen=True, gc=False):
    """Shutdown or the session's end came first. Never reported once a publish or an ack has begun."""

    why: str


class Confirmed(msgspec.Struct, gc=False):
    """The publish ended; ``kind`` is what was built, which too large a body turns from park to quarantine."""

    confirmation: Confirmation
    kind: CaptureKind


@attrs.define(frozen=True, slots=True)
class Settled:
    """The ack ended."""

    outcome: SettlementOutcome


Event: TypeAlias = Begin | HandlerOk | HandlerFailed | Slept | Interrupted | Confirmed | Settled


# -- effects: what the caller is to do next ----------------------------------------------------------


class Invoke(msgspec.Struct, frozen=True, gc=False):
    """Call the handler for the ``attempt``-th time (1-based)."""

    attempt: int


class Sleep(msgspec.Struct, frozen=True, gc=False):
    """Wait, racing shutdown, without holding a concurrency slot."""

    seconds: float


class Publish(msgspec.Struct, gc=False):
    """Publish a copy, mandatory and confirmed; ``reason`` is None where it is not for quarantine.

    Of a dead letter: a capture to parking, or with a reason to quarantine. Of an event: its dead letter.
    """

    reason: QuarantineReason | None
    attempts: int
    disposition: Disposition | None
    error: LastError | None


class AckDelivery(msgspec.Struct, frozen=True, gc=False):
    """Ack the delivery: the evidence exists."""


class Leave(msgspec.Struct, frozen=True, gc=False):
    """Do nothing more: the delivery stays unacked and the broker requeues it."""

    why: str


class SettlementFailed(msgspec.Struct, frozen=True, gc=False):
    """End the session as SETTLEMENT_FAILED; the delivery stays unacked."""

    stage: Stage
    detail: str


class Done(msgspec.Struct, frozen=True, gc=False):
    """The delivery is settled."""

    outcome: Outcome


Effect: TypeAlias = Invoke | Sleep | Publish | AckDelivery | Leave | SettlementFailed | Done
