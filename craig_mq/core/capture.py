"""Building a capture that can always be published (ADR-059 §capture, §size safety)."""

from __future__ import annotations

import hashlib

import msgspec

from craig_mq.core.capture_format import (
    MAX_CAPTURE_BYTES,
    MAX_U32,
    UNSET,
    CaptureKind,
    CaptureWire,
    LastErrorWire,
    OuterWire,
    PayloadWire,
    QuarantineReason,
)
from craig_mq.core.capture_text import writable, write_capture
from craig_mq.core.dead_letter import FIRST_ARRIVAL, DeadLetterDelivery, Subject
from craig_mq.core.disposition import Disposition
from craig_mq.core.embed import embed_compressed, embed_prefix, embed_whole, survives_as_value
from craig_mq.core.last_error import LastError, cut_text
from craig_mq.core.timing import format_instant

MALFORMED_EVENT_TYPE = "dlq.malformed"
MAX_MIRRORED_BYTES = 1_024

_KINDS = {kind.value: kind for kind in CaptureKind}
_NO_PAYLOAD = PayloadWire(msgspec.Raw(b"null"))
_encode = msgspec.json.Encoder().encode


class CaptureOrder(msgspec.Struct, gc=False):
    """What a capture says beside the delivery itself.

    ``capture_id`` and ``fresh_id`` are fresh UUIDv7 (the second becomes the outer id of a malformed
    capture), ``at_s`` is the wall clock in seconds since the Unix epoch, ``attempts`` the handler
    invocations of this delivery. ``reason`` None orders a park.
    """

    capture_id: str
    fresh_id: str
    at_s: float
    attempts: int = 0
    reason: QuarantineReason | None = None
    disposition: Disposition | None = None
    last_error: LastError | None = None


class BuiltCapture(msgspec.Struct, gc=False):
    """A serialised capture. ``kind`` and ``reason`` are final: too large to park became OVERSIZE."""

    kind: CaptureKind
    reason: QuarantineReason | None
    capture_id: str
    envelope_id: str
    park_count: int
    truncated: bool
    body: bytes


def build_capture(subject: Subject, order: CaptureOrder, *, limit: int = MAX_CAPTURE_BYTES) -> BuiltCapture:
    """Build the capture of ``subject`` in at most ``limit`` bytes, serialised (64 KiB or more).

    A body that fits neither plain nor compressed is cut to a prefix, and then never parked: a cut
    body cannot be retried, so the capture is QUARANTINED, reason OVERSIZE. A ``limit`` below 64 KiB
    (DIGEST_ONLY) gives the smallest capture there is, without body, which may exceed it.
    """
    if (
        isinstance(subject, DeadLetterDelivery)
        and len(subject.body) <= limit
        and survives_as_value(subject.body)
    ):
        built = _plain(subject, order)
        if len(built.body) <= limit:
            return built
    outer, wire = _outer(subject, order), _record(subject, order)
    serialised = _whole(outer, wire, subject, limit)
    if serialised is None:
        order = msgspec.structs.replace(order, reason=order.reason or QuarantineReason.OVERSIZE)
        wire = _record(subject, order)
        serialised = _cut(outer, wire, subject.body, limit)
    return BuiltCapture(
        kind=_KINDS[wire.kind],
        reason=order.reason,
        capture_id=order.capture_id,
        envelope_id=outer.id,
        park_count=wire.park_count,
        truncated=wire.truncated is True,
        body=serialised,
    )


def _plain(subject: DeadLetterDelivery, order: CaptureOrder) -> BuiltCapture:
    """Build the common capture: the body as the value it is."""
    carried, reason = subject.carried, order.reason
    kind, parks = (CaptureKind.PARKED, 1) if reason is None else (CaptureKind.QUARANTINED, 0)
    park_count, total_parks = (
        min(carried.park_count + parks, MAX_U32),
        min(carried.total_parks + parks, MAX_U32),
    )
    body = write_capture(
        subject,
        kind=kind,
        counts=(park_count, total_parks, carried.redrive_count, order.attempts),
        capture_id=order.capture_id,
        at=format_instant(order.at_s),
        disposition=order.disposition,
        reason=reason,
        error=order.last_error,
    )
    return BuiltCapture(kind, reason, order.capture_id, subject.envelope.id, park_count, False, body)


def _whole(outer: OuterWire, wire: CaptureWire, subject: Subject, limit: int) -> bytes | None:
    """Render with the whole body, plain, else compressed; None if neither fits."""
    body = subject.body
    if len(body) <= limit:
        embed_whole(wire, body, is_envelope=isinstance(subject, DeadLetterDelivery))
        serialised = _render(outer, wire)
        if len(serialised) <= limit:
            return serialised
    if limit < len(wire.capture_id):  # DIGEST_ONLY: do not compress what cannot fit
        return None
    embed_compressed(wire, body)
    serialised = _render(outer, wire)
    return serialised if len(serialised) <= limit else None


def _cut(outer: OuterWire, wire: CaptureWire, body: bytes, limit: int) -> bytes:
    """Render with the longest prefix of the body that fits, the frame shrunk first if it must be."""
    embed_prefix(wire, body, 0)
    frame = len(_render(outer, wire))
    if frame > limit:
        _shrink(outer, wire)
        frame = len(_render(outer, wire))
    embed_prefix(wire, body, max(0, limit - frame) // 4 * 3)
    return _render(outer, wire)


def _shrink(outer: OuterWire, wire: CaptureWire) -> None:
    """Bound what is not the body: a hostile header or event type must not make a capture unpublishable."""
    outer.source_service = cut_text(outer.source_service.encode(), MAX_MIRRORED_BYTES)
    outer.event_type = cut_text(outer.event_type.encode(), MAX_MIRRORED_BYTES)
    properties = bytes(wire.original_properties)
    digest = {"$omitted": {"bytes": len(properties), "sha256": hashlib.sha256(properties).hexdigest()}}
    wire.original_properties = msgspec.Raw(_encode(digest))


def _record(subject: Subject, order: CaptureOrder) -> CaptureWire:
    carried, token = FIRST_ARRIVAL, None
    if isinstance(subject, DeadLetterDelivery):
        carried, token = subject.carried, subject.token
    parks = 1 if order.reason is None else 0
    at = format_instant(order.at_s)
    error = order.last_error
    return CaptureWire(
        v=1,
        kind="parked" if parks else "quarantined",
        capture_id=order.capture_id,
        original_queue=writable(subject.queue),
        original_routing_key=writable(subject.routing_key),
        # Saturating: a return at the top of u32 stays a valid capture.
        park_count=min(carried.park_count + parks, MAX_U32),
        total_parks=min(carried.total_parks + parks, MAX_U32),
        redrive_count=carried.redrive_count,
        attempts=order.attempts,
        original_properties=msgspec.Raw(subject.original_properties()),
        occurrence_token=token or UNSET,
        parked_at=at if parks else UNSET,
        quarantined_at=UNSET if parks else at,
        disposition=UNSET if order.disposition is None else order.disposition.value,
        reason=UNSET if order.reason is None else order.reason.value,
        last_error=UNSET if error is None else LastErrorWire(error.type, error.text, error.sha256),
    )


def _outer(subject: Subject, order: CaptureOrder) -> OuterWire:
    if isinstance(subject, DeadLetterDelivery):
        envelope = subject.envelope
        return OuterWire(
            envelope.id, envelope.source_service, envelope.event_type, envelope.occurred_at, _NO_PAYLOAD
        )
    queue = writable(subject.queue)
    return OuterWire(order.fresh_id, queue, MALFORMED_EVENT_TYPE, format_instant(order.at_s), _NO_PAYLOAD)


def _render(outer: OuterWire, wire: CaptureWire) -> bytes:
    outer.payload = PayloadWire(msgspec.Raw(_encode(wire)))
    return _encode(outer)
