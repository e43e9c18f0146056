"""Reading a capture back and judging it (ADR-059 §unwrap; decisions, the formats).

``park_count`` is any u32: the cap is policy, never validity. Whatever is not exactly version 1 is an
invalid wrapper, which the caller records as the wrapper envelope: that bounds forgery.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from typing import TypeVar

import attrs
import msgspec

from craig_mq.core.capture_format import (
    UNSET,
    CaptureKind,
    CaptureWire,
    PayloadWire,
    QuarantineReason,
    Unset,
    is_capture_id,
)
from craig_mq.core.disposition import Disposition
from craig_mq.core.envelope import EventEnvelope, decode_envelope
from craig_mq.core.errors import MalformedBody
from craig_mq.core.json_text import members, repeats_a_name
from craig_mq.core.last_error import LastError
from craig_mq.core.timing import is_instant
from craig_mq.core.token import is_token

T = TypeVar("T")

_MARK = b'"craig_capture"'

_decode_payload = msgspec.json.Decoder(PayloadWire).decode
_decode_capture = msgspec.json.Decoder(CaptureWire).decode
_encode = msgspec.json.Encoder().encode


@attrs.define(frozen=True, slots=True)
class InvalidWrapper:
    """A payload that claims to be a capture and is none; ``detail`` says why, without quoting it."""

    detail: str


@attrs.define(frozen=True, slots=True)
class Capture:
    """A valid capture. ``at`` is parked_at or quarantined_at, RFC 3339, verbatim.

    One of ``envelope_json``, ``body_b64`` and ``body_zlib_b64`` holds the original; ``body_bytes``
    and ``body_sha256`` describe the whole original where it is compressed or ``truncated``.
    """

    kind: CaptureKind
    capture_id: str
    original_queue: str
    original_routing_key: str
    occurrence_token: str | None
    park_count: int
    total_parks: int
    redrive_count: int
    attempts: int
    at: str
    disposition: Disposition | None
    reason: QuarantineReason | None
    last_error: LastError | None
    original_properties: bytes
    envelope_json: bytes | None
    body_b64: str | None
    body_zlib_b64: str | None
    truncated: bool
    body_bytes: int | None
    body_sha256: str | None


def read_capture(envelope: EventEnvelope) -> Capture | InvalidWrapper | None:
    """Read the capture in an envelope's payload; None if it does not claim to be one. Never raises.

    The embedded original is not opened: that is ``open_body``.
    """
    if _MARK not in envelope.payload:
        return None
    try:
        if not _claims_capture(envelope.payload):
            return None
        raw = bytes(_decode_payload(envelope.payload).craig_capture)
        wire = _decode_capture(raw)
        # What re-encodes to itself was written by us and repeats nothing.
        ours = _encode(PayloadWire(msgspec.Raw(_encode(wire)))) == envelope.payload
        if not ours and (repeats_a_name(envelope.payload) or repeats_a_name(raw)):
            return InvalidWrapper("a name is repeated in the capture")
    except (msgspec.MsgspecError, RecursionError) as error:
        return InvalidWrapper(str(error))
    fault = _fault(wire)
    return _capture(wire) if fault is None else InvalidWrapper(fault)


def unwrap_capture(envelope: EventEnvelope, queue: str) -> Capture | InvalidWrapper | None:
    """Read a capture that comes back to the dead-letter queue ``queue``, which must be its own."""
    capture = read_capture(envelope)
    if isinstance(capture, Capture) and capture.original_queue != queue:
        return InvalidWrapper("original_queue is another queue")
    return capture


def original_bytes(capture: Capture) -> bytes | InvalidWrapper:
    """Return the embedded original body: all of it, or its prefix where ``truncated``. Never raises."""
    try:
        if capture.envelope_json is not None:
            return capture.envelope_json
        if capture.body_b64 is not None:
            body = base64.b64decode(capture.body_b64, validate=True)
        else:
            body = _inflate(
                base64.b64decode(capture.body_zlib_b64 or "", validate=True), capture.body_bytes or 0
            )
    except (binascii.Error, ValueError, zlib.error) as error:
        return InvalidWrapper(f"the embedded body cannot be read: {error}")
    whole = not capture.truncated and capture.body_sha256 is not None
    if whole and hashlib.sha256(body).hexdigest() != capture.body_sha256:
        return InvalidWrapper("the embedded body does not match its sha256")
    return body


def open_body(capture: Capture) -> tuple[EventEnvelope, bytes] | InvalidWrapper:
    """Return the original envelope and its bytes, for handing to a handler again. Never raises."""
    if capture.truncated:
        return InvalidWrapper("the embedded body is truncated")
    body = original_bytes(capture)
    if isinstance(body, InvalidWrapper):
        return body
    try:
        return decode_envelope(body), body
    except MalformedBody as error:
        return InvalidWrapper(f"the embedded body is no envelope: {error}")


def _claims_capture(payload: bytes) -> bool:
    if payload.startswith(b"{" + _MARK):
        return True
    return payload.startswith(b"{") and "craig_capture" in members(payload)


def _inflate(data: bytes, length: int) -> bytes:
    inflater = zlib.decompressobj()
    # One byte more than declared is enough to catch a bomb.
    body = inflater.decompress(data, length + 1)
    if len(body) > length or not inflater.eof or inflater.unused_data:
        raise ValueError("its length is not the declared one")
    return body


def _fault(wire: CaptureWire) -> str | None:
    """Return what is wrong with a well-typed capture, or None."""
    parked = wire.kind == CaptureKind.PARKED.value
    at, other = (wire.parked_at, wire.quarantined_at) if parked else (wire.quarantined_at, wire.parked_at)
    embeds = (wire.original_envelope, wire.original_body_b64, wire.original_body_zlib_b64)
    measured = wire.truncated is UNSET and wire.original_body_zlib_b64 is UNSET
    rules = (
        (is_capture_id(wire.capture_id), "capture_id is no UUIDv7"),
        (
            wire.occurrence_token is UNSET or is_token(wire.occurrence_token),
            "occurrence_token has another grammar",
        ),
        (at is not UNSET and is_instant(at), f"{wire.kind} without an instant with offset"),
        (other is UNSET, f"{wire.kind} with the other kind's instant"),
        (sum(embed is not UNSET for embed in embeds) == 1, "not exactly one embedded original"),
        (measured or wire.body_bytes is not UNSET, "body_bytes is missing"),
        (wire.truncated is UNSET or wire.original_body_b64 is not UNSET, "truncated without a base64 prefix"),
        (bytes(wire.original_properties)[:1] == b"{", "original_properties is no object"),
    )
    return next((fault for holds, fault in rules if not holds), None)


def _capture(wire: CaptureWire) -> Capture:
    error = _set(wire.last_error)
    disposition, reason, envelope = _set(wire.disposition), _set(wire.reason), _set(wire.original_envelope)
    return Capture(
        kind=CaptureKind(wire.kind),
        capture_id=wire.capture_id,
        original_queue=wire.original_queue,
        original_routing_key=wire.original_routing_key,
        occurrence_token=_set(wire.occurrence_token),
        park_count=wire.park_count,
        total_parks=wire.total_parks,
        redrive_count=wire.redrive_count,
        attempts=wire.attempts,
        at=_set(wire.parked_at) or _set(wire.quarantined_at) or "",
        disposition=None if disposition is None else Disposition(disposition),
        reason=None if reason is None else QuarantineReason(reason),
        last_error=None if error is None else LastError(error.type, error.text, error.sha256),
        original_properties=bytes(wire.original_properties),
        envelope_json=None if envelope is None else bytes(envelope),
        body_b64=_set(wire.original_body_b64),
        body_zlib_b64=_set(wire.original_body_zlib_b64),
        truncated=wire.truncated is not UNSET,
        body_bytes=_set(wire.body_bytes),
        body_sha256=_set(wire.body_sha256),
    )


def _set(value: T | Unset) -> T | None:
    return None if isinstance(value, Unset) else value
