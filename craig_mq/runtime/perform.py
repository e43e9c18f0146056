"""Carries out one effect at a time for the deliveries of one main session (architecture, the flow).

Each effect has its cancellation rule. *Invoke* runs under the worker's scope and may be cancelled at
any time: nothing was settled. *Publish* may be cancelled, which leaves its outcome unknown. *Ack* is
synchronous: between a publish's clean confirm and its ack there is no task switch at all.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import assert_never

from craig_mq.core.capture import BuiltCapture, CaptureOrder, build_capture
from craig_mq.core.capture_format import CaptureKind
from craig_mq.core.dead_letter import MalformedDelivery, build_dead_letter_delivery
from craig_mq.core.delivery import Delivery
from craig_mq.core.machine import Settlement
from craig_mq.core.outcome import ACK_WRITTEN, AckWritten, Confirmation, SettlementOutcome
from craig_mq.core.policy import PolicyFacts
from craig_mq.core.steps import (
    AckDelivery,
    Begin,
    Confirmed,
    Done,
    Interrupted,
    Invoke,
    Leave,
    Publish,
    Settled,
    SettlementFailed,
    Sleep,
    Slept,
)
from craig_mq.observe.events import (
    DeliveryFinished,
    DeliveryOutcome,
    DuplicateAbsorbed,
    InflightChanged,
    Parked,
    Quarantined,
    Undecodable,
)
from craig_mq.runtime.copies import Copy
from craig_mq.runtime.in_flight import InFlight
from craig_mq.runtime.live_session import LiveSession
from craig_mq.runtime.plan import Plan
from craig_mq.runtime.publication import DEFAULT_EXCHANGE, capture_publication

_BEGIN = Begin()
_SLEPT = Slept()
_WRITTEN = Settled(ACK_WRITTEN)


class Performer:
    """Performs the effects of one main session's deliveries; every method names its effect."""

    __slots__ = (
        "_arm",
        "_is_canonical",
        "_live",
        "_plan",
        "_reporter",
        "_rules",
        "_sources",
        "_tally",
        "open",
    )

    def __init__(self, plan: Plan, live: LiveSession) -> None:
        self._live = live
        self._plan = plan
        self._arm = live.arm
        self._sources = plan.sources
        self._is_canonical = plan.is_canonical
        self._rules = (plan.config.handler_attempts, plan.config.park_cap)
        self._reporter = plan.reporter
        self._tally = plan.tally
        self.open: dict[InFlight, None] = {}  # in order of arrival
        live.settler.flushed = self.report_in_flight

    def begin(self, delivery: Delivery) -> InFlight:
        """Read a delivery and decide its first effect."""
        plan = self._plan
        subject = build_dead_letter_delivery(delivery, queue=plan.queue)
        if isinstance(subject, MalformedDelivery):
            begin, park_count = Begin("malformed"), 0
            if delivery.undecodable is not None:
                self._reporter.emit(Undecodable(plan.queue, subject.detail))
        else:
            begin, park_count = _BEGIN, subject.carried.park_count
        if delivery.redelivered and self._arm.confirmed_before(delivery):
            begin = Begin("confirmed_before")
        facts = PolicyFacts(*self._rules, park_count, self._is_canonical(subject.routing_key))
        settlement = Settlement(facts)
        flight = InFlight(delivery, subject, settlement, settlement.feed(begin))
        if begin.origin == "confirmed_before":
            self._tally.duplicates_absorbed += 1
            self._reporter.emit(DuplicateAbsorbed(plan.queue, flight.envelope_id))
        self.open[flight] = None
        self._tally.in_flight = len(self.open)
        return flight

    def call(self, flight: InFlight, attempt: int) -> Awaitable[None]:
        """Call the handler with a readable dead letter; what it returns is to be awaited."""
        subject = flight.subject
        if isinstance(subject, MalformedDelivery):
            raise TypeError("a malformed delivery has no handler")
        if attempt == 1 and flight.delivery.redelivered and subject.token is None:
            self._tally.tokenless_reruns += 1
        return self._plan.handler(subject.dead_letter(attempt))

    def copy(self, flight: InFlight) -> Copy:
        """Build the capture of a delivery, to parking or to quarantine, as its effect orders."""
        if not isinstance(flight.effect, Publish):
            raise TypeError(f"{flight.effect} orders no copy")
        capture = self._capture(flight, flight.effect)
        names = self._plan.topology
        target = names.parking_name if capture.kind is CaptureKind.PARKED else names.quarantine_name
        publication = capture_publication(
            DEFAULT_EXCHANGE, target, capture.body, self._sources, message_id=capture.capture_id
        )
        return Copy(
            self._live.publishing,
            publication,
            partial(self._published, flight, capture, target),
            partial(self.act, flight),
        )

    def _published(
        self, flight: InFlight, capture: BuiltCapture, target: str, confirmation: Confirmation
    ) -> None:
        flight.effect = flight.settlement.feed(Confirmed(confirmation, capture.kind))
        if isinstance(flight.effect, SettlementFailed):
            failed = flight.effect
            self._live.settlement_failed(
                failed.stage,
                target,
                failed.detail,
                envelope_id=capture.envelope_id,
                capture_id=capture.capture_id,
            )
        else:
            self._arm.confirmed(flight.delivery)
            self._report_capture(capture, target)

    def _capture(self, flight: InFlight, order: Publish) -> BuiltCapture:
        sources, malformed = self._sources, isinstance(flight.subject, MalformedDelivery)
        capture_id = sources.uuid7()
        return build_capture(
            flight.subject,
            CaptureOrder(
                capture_id=capture_id,
                fresh_id=sources.uuid7() if malformed else capture_id,
                at_s=sources.now(),
                attempts=order.attempts,
                reason=order.reason,
                disposition=order.disposition,
                last_error=order.error,
            ),
            limit=self._arm.size_limit,
        )

    def _report_capture(self, capture: BuiltCapture, target: str) -> None:
        queue = self._plan.queue
        if capture.reason is None:
            if self._reporter.listening:
                self._reporter.emit(
                    Parked(queue, capture.envelope_id, capture.capture_id, capture.park_count)
                )
            return
        self._reporter.emit(
            Quarantined(
                queue,
                capture.envelope_id,
                capture.capture_id,
                capture.reason.value,
                target,
                capture.truncated,
            )
        )

    def act(self, flight: InFlight) -> None:
        """Perform an effect that needs no waiting: ack, or leave the delivery as it is."""
        match flight.effect:
            case AckDelivery():
                self._live.settler.ack(flight.delivery.delivery_tag, partial(self._settled, flight))
            case Leave() | SettlementFailed() | Done():
                pass  # It stays unacked, and open until the session accounts for it.
            case Invoke() | Sleep() | Publish():
                raise TypeError(f"{flight.effect} takes time")
            case _:
                assert_never(flight.effect)

    def _settled(self, flight: InFlight, outcome: SettlementOutcome) -> None:
        event = _WRITTEN if isinstance(outcome, AckWritten) else Settled(outcome)
        effect = flight.effect = flight.settlement.feed(event)
        if isinstance(effect, SettlementFailed):
            self._live.settlement_failed(
                effect.stage, self._plan.queue, effect.detail, envelope_id=flight.envelope_id
            )
        elif isinstance(effect, Done):
            self.open.pop(flight, None)
            if effect.outcome != "acked" and flight.tokenless:
                self._arm.forget(flight.delivery)
            self._finished(flight, effect.outcome)

    def _finished(self, flight: InFlight, outcome: DeliveryOutcome) -> None:
        tally = self._tally
        tally.in_flight = len(self.open)
        match outcome:
            case "acked":
                tally.acked += 1
            case "parked":
                tally.parked += 1
            case "quarantined":
                tally.quarantined += 1
            case "unsettled":
                tally.unsettled += 1
        if self._reporter.listening:
            self._reporter.emit(
                DeliveryFinished(
                    self._plan.queue,
                    outcome,
                    flight.delivery.redelivered,
                    flight.reran_without_token,
                    flight.envelope_id,
                )
            )

    def slept(self, flight: InFlight) -> None:
        """Take note that a retry's delay has passed."""
        flight.effect = flight.settlement.feed(_SLEPT)

    def interrupt(self, flight: InFlight, why: str) -> None:
        """Leave a delivery whose handler was cancelled, or which never got its next invocation."""
        flight.effect = flight.settlement.feed(Interrupted(why))

    def report_in_flight(self) -> None:
        """Report how many deliveries are in hand: once a flush and once a wake-up, not once a delivery."""
        if self._reporter.listening:
            self._reporter.emit(InflightChanged(self._plan.queue, len(self.open)))

    def leave(self) -> None:
        """Account for every delivery that stays unacked: the broker requeues it."""
        for flight in self.open:
            self._finished(flight, "unsettled")
        self.open.clear()
        self._tally.in_flight = 0
        self.report_in_flight()
