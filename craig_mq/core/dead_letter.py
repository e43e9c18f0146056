"""From a delivery to a dead letter: unwrap, read, name the occurrence (ADR-059 §unwrap).

Order: the capture wrapper of a parked return, else ``_dlx``, else x-death, else tokenless. An
invalid wrapper falls through and is recorded as the wrapper envelope.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from craig_mq.core.death import Death, broker_death, describe_death, occurrence_token
from craig_mq.core.delivery import Delivery
from craig_mq.core.envelope import EventEnvelope, decode_envelope
from craig_mq.core.errors import MalformedBody
from craig_mq.core.properties_json import headers_from_json, properties_to_json
from craig_mq.core.unwrap import Capture, InvalidWrapper, open_body, unwrap_capture


class DeadLetter(msgspec.Struct, frozen=True, gc=False):
    """What a handler gets.

    ``queue`` is the dead-letter queue, ``routing_key`` the original ``dlq.*`` key, ``token`` the
    occurrence token or None (no automatic dedup). ``park_count`` counts earlier parks, ``attempt``
    is the 1-based invocation in this session, ``body`` the original bytes. ``death`` says who
    dead-lettered it and why, where that is known.
    """

    envelope: EventEnvelope
    token: str | None
    queue: str
    routing_key: str
    park_count: int
    attempt: int
    redelivered: bool
    body: bytes
    death: Death | None


class Carried(msgspec.Struct, frozen=True, gc=False):
    """What a parked return carries over: counters, its capture's id, the original's properties as JSON."""

    capture_id: str | None = None
    park_count: int = 0
    total_parks: int = 0
    redrive_count: int = 0


FIRST_ARRIVAL = Carried()


class DeadLetterDelivery(msgspec.Struct, eq=False, gc=False):
    """A readable delivery with everything its settlement needs; treat as immutable.

    ``wrapper_fault`` says why a capture wrapper was refused, None where there was none or it was good.
    ``properties_json`` is the original's properties as JSON, or None to take ``source``'s.
    """

    source: Delivery
    queue: str
    routing_key: str
    envelope: EventEnvelope
    body: bytes
    token: str | None
    death: Death | None
    carried: Carried = FIRST_ARRIVAL
    properties_json: bytes | None = None
    wrapper_fault: str | None = None

    def dead_letter(self, attempt: int) -> DeadLetter:
        """Return what the handler is given for its invocation number ``attempt``."""
        return DeadLetter(
            self.envelope,
            self.token,
            self.queue,
            self.routing_key,
            self.carried.park_count,
            attempt,
            self.source.redelivered,
            self.body,
            self.death,
        )

    def original_properties(self) -> bytes:
        """Return the original message's properties as a JSON object, unchanged by any number of parks."""
        return self.properties_json or properties_to_json(self.source.properties)


class MalformedDelivery(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A delivery no handler can be given; ``detail`` says why, without quoting it."""

    source: Delivery
    queue: str
    detail: str

    @property
    def routing_key(self) -> str:
        """The routing key it came under."""
        return self.source.routing_key

    @property
    def body(self) -> bytes:
        """The body as it came."""
        return self.source.body

    def original_properties(self) -> bytes:
        """Return its properties as a JSON object, with the raw header bytes where undecodable."""
        return properties_to_json(self.source.properties, self.source.undecodable)


Subject: TypeAlias = DeadLetterDelivery | MalformedDelivery


def build_dead_letter_delivery(delivery: Delivery, *, queue: str) -> Subject:
    """Read one delivery of the dead-letter queue ``queue``. Never raises, whatever the bytes."""
    if delivery.undecodable is not None:
        return MalformedDelivery(delivery, queue, "properties or headers could not be decoded")
    try:
        envelope = decode_envelope(delivery.body)
    except MalformedBody as fault:
        return MalformedDelivery(delivery, queue, str(fault))
    capture = unwrap_capture(envelope, queue)
    if isinstance(capture, Capture):
        opened = open_body(capture)
        if not isinstance(opened, InvalidWrapper):
            return _returned(delivery, capture, *opened)
        capture = opened
    broker = broker_death(delivery.properties.headers)
    return DeadLetterDelivery(
        delivery,
        queue,
        delivery.routing_key,
        envelope,
        delivery.body,
        occurrence_token(envelope, broker),
        describe_death(envelope, broker),
        wrapper_fault=None if capture is None else capture.detail,
    )


def _returned(
    delivery: Delivery, capture: Capture, envelope: EventEnvelope, body: bytes
) -> DeadLetterDelivery:
    return DeadLetterDelivery(
        delivery,
        capture.original_queue,
        capture.original_routing_key,
        envelope,
        body,
        capture.occurrence_token,
        describe_death(envelope, broker_death(headers_from_json(capture.original_properties))),
        Carried(capture.capture_id, capture.park_count, capture.total_parks, capture.redrive_count),
        capture.original_properties,
    )
