"""One held message as an operator sees it: the capture's fields, never its body."""

from __future__ import annotations

import hashlib

import attrs

from craig_mq.core.delivery import Delivery
from craig_mq.core.envelope import EventEnvelope, decode_envelope
from craig_mq.core.errors import MalformedBody
from craig_mq.core.redrive import NotRedrivable, redrive
from craig_mq.core.route import CANONICAL_PREFIX, fits_wire
from craig_mq.core.timing import instant_seconds
from craig_mq.core.unwrap import Capture, InvalidWrapper, read_capture

NO_CAPTURE = "no_capture"
"""The reason shown for what lies in quarantine and is no valid capture."""


@attrs.define(frozen=True, slots=True)
class Row:
    """``key`` is the capture_id, or ``sha256:…`` of the body where there is no valid capture.

    ``position`` counts from the queue's head, ``at_s`` is seconds since the Unix epoch, ``size`` the
    message body's bytes and ``sha256`` its digest. ``fault`` says why it cannot be redriven.
    """

    key: str
    position: int
    reason: str
    size: int
    sha256: str
    redelivered: bool
    fault: str | None = None
    kind: str | None = None
    envelope_id: str | None = None
    event_type: str | None = None
    service: str | None = None
    original_queue: str | None = None
    routing_key: str | None = None
    token: str | None = None
    at: str | None = None
    at_s: float | None = None
    attempts: int = 0
    park_count: int = 0
    total_parks: int = 0
    redrive_count: int = 0
    error_type: str | None = None
    error_text: str | None = None
    error_sha256: str | None = None

    @property
    def error_line(self) -> str | None:
        """The first line of the last error."""
        return None if self.error_text is None else self.error_text.partition("\n")[0]


def read_row(delivery: Delivery, position: int) -> Row:
    """Read a delivery held at ``position`` from the head. Never raises, whatever the bytes."""
    sha256 = hashlib.sha256(delivery.body).hexdigest()
    bare = Row(
        key=f"sha256:{sha256}",
        position=position,
        reason=NO_CAPTURE,
        size=len(delivery.body),
        sha256=sha256,
        redelivered=delivery.redelivered,
    )
    try:
        envelope = decode_envelope(delivery.body)
    except MalformedBody as error:
        return attrs.evolve(bare, fault=f"no envelope: {error}")
    capture = read_capture(envelope)
    described = attrs.evolve(
        bare,
        envelope_id=envelope.id,
        event_type=envelope.event_type,
        service=envelope.source_service,
    )
    if capture is None:
        return attrs.evolve(described, fault="it is no capture")
    if isinstance(capture, InvalidWrapper):
        return attrs.evolve(described, fault=capture.detail)
    return _capture_row(described, envelope, capture)


def _capture_row(bare: Row, envelope: EventEnvelope, capture: Capture) -> Row:
    error = capture.last_error
    return attrs.evolve(
        bare,
        key=capture.capture_id,
        reason=capture.kind.value if capture.reason is None else capture.reason.value,
        fault=_fault(envelope, capture),
        kind=capture.kind.value,
        original_queue=capture.original_queue,
        routing_key=capture.original_routing_key,
        token=capture.occurrence_token,
        at=capture.at,
        at_s=instant_seconds(capture.at),
        attempts=capture.attempts,
        park_count=capture.park_count,
        total_parks=capture.total_parks,
        redrive_count=capture.redrive_count,
        error_type=None if error is None else error.type,
        error_text=None if error is None else error.text,
        error_sha256=None if error is None else error.sha256,
    )


def _fault(envelope: EventEnvelope, capture: Capture) -> str | None:
    redriven = redrive(envelope)
    if isinstance(redriven, NotRedrivable):
        return redriven.why
    if not capture.original_routing_key.startswith(CANONICAL_PREFIX):
        return f"its routing key does not begin with {CANONICAL_PREFIX}, so craig.dlx routes it nowhere"
    if not fits_wire(capture.original_routing_key):
        return "its routing key is longer than a routing key can be"
    return None
