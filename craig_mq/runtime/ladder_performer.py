"""Carries out the effects of an ordinary queue's deliveries: ack, requeue, dead-letter (decisions, 19)."""

# flake8: noqa: ASYNC910 - between evidence and settlement there must be no checkpoint (S43)
from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import assert_never

from craig_mq.core.delivery import Delivery
from craig_mq.core.envelope import EventEnvelope, decode_envelope
from craig_mq.core.errors import MalformedBody
from craig_mq.core.identity import delivery_identity
from craig_mq.core.ladder import client_dead_letter
from craig_mq.core.ladder_machine import (
    DeadLetterConfirmed,
    Ladder,
    LadderDone,
    LadderEffect,
    LadderEvent,
    LadderRules,
    RejectDelivery,
    RequeueDelivery,
)
from craig_mq.core.last_error import LastError
from craig_mq.core.outcome import ACK_WRITTEN, AckWritten, Confirmation, SettlementOutcome
from craig_mq.core.properties_json import properties_to_json
from craig_mq.core.received_event import ReceivedEvent
from craig_mq.core.steps import (
    AckDelivery,
    Begin,
    Interrupted,
    Invoke,
    Leave,
    Origin,
    Publish,
    Settled,
    SettlementFailed,
    Sleep,
    Slept,
)
from craig_mq.core.topology import DEAD_LETTER_EXCHANGE
from craig_mq.observe.events import (
    DeadLettered,
    DuplicateAbsorbed,
    EventFinished,
    EventOutcome,
    InflightChanged,
    Undecodable,
)
from craig_mq.runtime.copies import Copy
from craig_mq.runtime.ladder_plan import LadderPlan
from craig_mq.runtime.live_session import LiveSession

_WRITTEN = Settled(ACK_WRITTEN)
_SLEPT = Slept()
_NO_ERROR = LastError("", "", "")


def read_event(delivery: Delivery) -> EventEnvelope | str:
    """Read a delivery's envelope, or say why there is none. Never raises, whatever the bytes."""
    if delivery.undecodable is not None:
        return "properties or headers could not be decoded"
    try:
        return decode_envelope(delivery.body)
    except MalformedBody as fault:
        return str(fault)


class EventInFlight:
    """One event between its arrival and its settlement."""

    __slots__ = ("delivery", "effect", "envelope", "ladder")

    def __init__(self, delivery: Delivery, envelope: EventEnvelope | None, ladder: Ladder) -> None:
        self.delivery = delivery
        self.envelope = envelope
        self.ladder = ladder
        self.effect: LadderEffect = Leave("not begun")

    def feed(self, event: LadderEvent) -> None:
        """Take one event; the effect that is due next follows from it."""
        self.effect = self.ladder.feed(event)

    @property
    def attempts(self) -> int:
        """Invocations so far."""
        return self.ladder.attempts

    @property
    def envelope_id(self) -> str | None:
        """The envelope's id, None where there is no envelope."""
        return None if self.envelope is None else self.envelope.id

    def original_properties(self) -> bytes:
        """The message's properties as JSON."""
        return properties_to_json(self.delivery.properties, self.delivery.undecodable)


class LadderPerformer:
    """Performs for one session; ``release`` hears of each delivery that no longer holds its key."""

    def __init__(self, plan: LadderPlan, live: LiveSession, release: Callable[[Delivery], None]) -> None:
        self._plan = plan
        self._live = live
        self._release = release
        self._open: set[EventInFlight] = set()
        live.settler.flushed = self.report_in_flight

    def begin(self, delivery: Delivery) -> EventInFlight:
        """Read a delivery and decide its first effect."""
        plan, tally = self._plan, self._plan.tally
        read = read_event(delivery)
        envelope = read if isinstance(read, EventEnvelope) else None
        origin: Origin = "readable"
        if envelope is None:
            origin = "malformed"
            tally.malformed += 1
            if delivery.undecodable is not None:
                plan.reporter.emit(Undecodable(plan.queue, str(read)))
        if delivery.redelivered:
            if self._live.arm.confirmed_before(delivery):
                origin = "confirmed_before"
                tally.duplicates_absorbed += 1
                plan.reporter.emit(DuplicateAbsorbed(plan.queue, envelope.id if envelope else None))
            elif not plan.struck.absorb(delivery_identity(delivery)):
                tally.strikes_spent_elsewhere += 1
        rules = LadderRules(plan.config.handler_attempts, plan.config.dead_letter_by, delivery.redelivered)
        flight = EventInFlight(delivery, envelope, Ladder(rules))
        flight.feed(Begin(origin))
        self._open.add(flight)
        tally.in_flight = len(self._open)
        return flight

    def call(self, flight: EventInFlight, attempt: int) -> Awaitable[None]:
        """Call the handler with a readable event; what it returns is to be awaited."""
        envelope, delivery = flight.envelope, flight.delivery
        if envelope is None:
            raise TypeError("a malformed delivery has no handler")
        if self._plan.ordering_key is not None:
            self._plan.ordering_key(envelope)  # where it raises, that is this event's failure
        return self._plan.handler(
            ReceivedEvent(
                envelope, self._plan.queue, delivery.routing_key, attempt, delivery.redelivered, delivery.body
            )
        )

    def copy(self, flight: EventInFlight) -> Copy:
        """Make the dead letter of an event, as its effect orders."""
        order = flight.effect
        if not isinstance(order, Publish):
            raise TypeError(f"{order} orders no copy")
        plan, delivery, error = self._plan, flight.delivery, order.error or _NO_ERROR
        publication = client_dead_letter(
            delivery,
            plan.queue,
            error,
            message_id=str(plan.sources.uuid7()),
            at_s=plan.first_failures.moment(delivery.body, error, plan.sources.now()),
        )

        def told(confirmation: Confirmation) -> None:
            flight.feed(DeadLetterConfirmed(confirmation))
            if isinstance(flight.effect, SettlementFailed):
                self._failed(flight, flight.effect, f"{DEAD_LETTER_EXCHANGE} {publication.routing_key}")
            else:
                self._live.arm.confirmed(flight.delivery)

        return Copy(self._live.publishing, publication, told, partial(self.act, flight))

    def act(self, flight: EventInFlight) -> None:
        """Perform an effect that needs no waiting; the delivery's key is free from here on."""
        settler, tag = self._live.settler, flight.delivery.delivery_tag
        self._release(flight.delivery)

        def settled(outcome: SettlementOutcome) -> None:
            self._settled(flight, outcome)

        match flight.effect:
            case AckDelivery():
                settler.ack(tag, settled)
            case RequeueDelivery():
                self._plan.struck.remember(delivery_identity(flight.delivery))
                settler.requeue(tag, settled)
            case RejectDelivery():
                settler.reject(tag, settled)
            case Leave() | SettlementFailed() | LadderDone():
                pass  # It stays unacked, and open until the session accounts for it.
            case Invoke() | Sleep() | Publish():
                raise TypeError(f"{flight.effect} takes time")
            case _:
                assert_never(flight.effect)

    def slept(self, flight: EventInFlight) -> None:
        """Take note that a retry's delay has passed."""
        flight.feed(_SLEPT)

    def interrupt(self, flight: EventInFlight, why: str) -> None:
        """Leave an event whose handler was cancelled, or which never got its next invocation."""
        flight.feed(Interrupted(why))

    def report_in_flight(self) -> None:
        """Report how many deliveries are in hand."""
        if self._plan.reporter.listening:
            self._plan.reporter.emit(InflightChanged(self._plan.queue, len(self._open)))

    def leave(self) -> None:
        """Account for every delivery that stays unacked: the broker requeues it."""
        for flight in self._open:
            self._plan.tally.unsettled += 1
            self._finished(flight, "unsettled")
        self._open.clear()
        self._plan.tally.in_flight = 0
        self.report_in_flight()

    def _settled(self, flight: EventInFlight, outcome: SettlementOutcome) -> None:
        flight.feed(_WRITTEN if isinstance(outcome, AckWritten) else Settled(outcome))
        effect, tally = flight.effect, self._plan.tally
        if isinstance(effect, SettlementFailed):
            self._failed(flight, effect, self._plan.queue)
            return
        if not isinstance(effect, LadderDone):
            return
        self._open.discard(flight)
        tally.in_flight = len(self._open)
        match effect.outcome:
            case "acked":
                tally.acked += 1
            case "requeued":
                tally.requeued += 1
            case "dead_lettered":
                tally.dead_lettered += 1
                if flight.delivery.properties.message_id is None:
                    self._live.arm.forget(flight.delivery)  # another message may be alike in every byte
                by = self._plan.config.dead_letter_by
                malformed = flight.envelope is None
                self._plan.reporter.emit(DeadLettered(self._plan.queue, flight.envelope_id, by, malformed))
        self._finished(flight, effect.outcome)

    def _failed(self, flight: EventInFlight, failed: SettlementFailed, target: str) -> None:
        self._live.settlement_failed(failed.stage, target, failed.detail, envelope_id=flight.envelope_id)

    def _finished(self, flight: EventInFlight, outcome: EventOutcome) -> None:
        if self._plan.reporter.listening:
            self._plan.reporter.emit(EventFinished(self._plan.queue, outcome, flight.delivery.redelivered))
