"""The head of the parking queue: what it is, and how long it still waits (decisions, 4)."""

from __future__ import annotations

import attrs
import trio

from craig_mq.core.delivery import Delivery
from craig_mq.core.envelope import decode_envelope
from craig_mq.core.errors import MalformedBody
from craig_mq.core.replay import remaining_s, skew_s
from craig_mq.core.route import fits_wire
from craig_mq.core.timing import instant_seconds
from craig_mq.core.unwrap import Capture, unwrap_capture
from craig_mq.observe.events import ClockSkew
from craig_mq.runtime.arm_memory import ArmMemory
from craig_mq.runtime.plan import Plan


@attrs.define(frozen=True, slots=True)
class ParkedHead:
    """A parked capture at the head of its queue. ``parked_at_s`` counts from the Unix epoch."""

    plan: Plan
    envelope_id: str
    capture_id: str
    routing_key: str
    parked_at_s: float
    first_seen_s: float

    def remaining_s(self) -> float:
        """How long it still waits: at most one TTL from this process's first receipt."""
        return remaining_s(
            self.parked_at_s,
            self.plan.config.parking_ttl.total_seconds(),
            wall_s=self.plan.sources.now(),
            first_seen_s=self.first_seen_s,
            monotonic_s=trio.current_time(),
        )

    def age_s(self) -> float:
        """How long it has been parked by the wall clock, never negative."""
        return max(0.0, self.plan.sources.now() - self.parked_at_s)


def read_parked(delivery: Delivery, plan: Plan, arm: ArmMemory) -> ParkedHead | str:
    """Read what the parking queue holds; a text says why it is no capture of this queue."""
    try:
        envelope = decode_envelope(delivery.body)
    except MalformedBody as fault:
        return str(fault)
    capture = unwrap_capture(envelope, plan.queue)
    if not isinstance(capture, Capture):
        return "no capture" if capture is None else capture.detail
    if plan.options.return_route == "exchange" and not fits_wire(capture.original_routing_key):
        return "its original_routing_key is longer than a routing key can be"
    now = trio.current_time()
    known = len(arm.receipts)
    first_seen = arm.receipts.first_seen(capture.capture_id, now)
    parked_at = instant_seconds(capture.at)
    ahead = skew_s(parked_at, plan.sources.now())
    if ahead is not None and len(arm.receipts) > known:
        plan.reporter.emit(ClockSkew(plan.queue, ahead))
    return ParkedHead(
        plan, envelope.id, capture.capture_id, capture.original_routing_key, parked_at, first_seen
    )
