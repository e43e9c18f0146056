"""Sending a quarantined capture back for another round (ADR-059 §quarantine; field failure RET-07)."""

from __future__ import annotations

from typing import TypeAlias

import attrs
import msgspec

from craig_mq.core.capture_format import MAX_U32, CaptureWire, OuterWire, PayloadWire
from craig_mq.core.envelope import EventEnvelope
from craig_mq.core.token import inbox_token
from craig_mq.core.unwrap import InvalidWrapper, open_body, read_capture

_decode_payload = msgspec.json.Decoder(PayloadWire).decode
_decode_capture = msgspec.json.Decoder(CaptureWire).decode
_encode = msgspec.json.Encoder().encode


@attrs.define(frozen=True, slots=True)
class Redriven:
    """What to publish to craig.dlx under ``routing_key``, confirmed, before the original is acked.

    The wrapper travels along, so token, counters and original properties survive: ``park_count``
    starts again at 0 unless it is to be kept, ``redrive_count`` is one higher.
    """

    body: bytes
    routing_key: str
    queue: str
    capture_id: str
    redrive_count: int


@attrs.define(frozen=True, slots=True)
class NotRedrivable:
    """Why a message must stay in quarantine: no capture, or a body no handler can be given."""

    why: str


Redrive: TypeAlias = Redriven | NotRedrivable


def redrive(envelope: EventEnvelope, *, keep_park_count: bool = False, new_identity: bool = False) -> Redrive:
    """Turn the envelope of a quarantined capture into its next round. Never raises.

    ``keep_park_count`` leaves the cycle count as it is. ``new_identity`` mints a token of its own for
    this round, so that the ledger records the occurrence afresh; the same capture always gets the same.
    """
    capture = read_capture(envelope)
    if capture is None:
        return NotRedrivable("it is no capture")
    if isinstance(capture, InvalidWrapper):
        return NotRedrivable(capture.detail)
    opened = open_body(capture)
    if isinstance(opened, InvalidWrapper):
        return NotRedrivable(opened.detail)
    wire = _decode_capture(_decode_payload(envelope.payload).craig_capture)
    if not keep_park_count:
        wire.park_count = 0
    wire.redrive_count = min(capture.redrive_count + 1, MAX_U32)
    if new_identity:
        wire.occurrence_token = inbox_token(envelope.id, capture.capture_id, f"redrive {wire.redrive_count}")
    outer = OuterWire(
        envelope.id,
        envelope.source_service,
        envelope.event_type,
        envelope.occurred_at,
        PayloadWire(msgspec.Raw(_encode(wire))),
    )
    return Redriven(
        _encode(outer),
        capture.original_routing_key,
        capture.original_queue,
        capture.capture_id,
        wire.redrive_count,
    )
