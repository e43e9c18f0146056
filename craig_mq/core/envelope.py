"""The event envelope: decoded once, payload kept as raw bytes (decisions, the formats)."""

from __future__ import annotations

import re

import msgspec

from craig_mq.core.errors import EnvelopeNotSerializable, MalformedBody
from craig_mq.core.json_text import repeats_a_name, require_text
from craig_mq.core.timing import is_instant

# Hyphenated 8-4-4-4-12 in ASCII, any case, nothing around it: uuid.UUID takes braces, urn:uuid:,
# misplaced hyphens and full-width digits (field failure UUID-01).
_UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")

# Length of {"id":"","source_service":"","event_type":"","occurred_at":"","payload":}
_COMPACT_FRAME = 73
_COMPACT_DLX = len(b',"_dlx":')


class ExplicitDeadLetter(msgspec.Struct, frozen=True, gc=False):
    """The ``_dlx`` member: what an explicit dead-letter producer says about the failure."""

    token: str | None = None
    queue: str | None = None
    reason: str | None = None
    failed_at: str | None = None
    error: str | None = None


class EventEnvelope(msgspec.Struct, frozen=True, gc=False):
    """One event. All texts are verbatim; ``payload`` is the raw JSON value, byte for byte.

    ``occurred_at`` is an RFC 3339 instant with offset, kept as text because nine fractional digits
    and any offset must survive. ``dlx`` is present where an explicit producer dead-lettered it.
    """

    id: str
    source_service: str
    event_type: str
    occurred_at: str
    payload: bytes
    dlx: ExplicitDeadLetter | None = None


class _DlxWire(msgspec.Struct):
    token: str | None = None
    queue: str | None = None
    reason: str | None = None
    failed_at: str | None = None
    error: str | None = None


class _Wire(msgspec.Struct, gc=False):
    id: str
    source_service: str
    event_type: str
    occurred_at: str
    payload: msgspec.Raw
    dlx: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="_dlx", default=msgspec.UNSET)


_decode_wire = msgspec.json.Decoder(_Wire).decode
_decode_dlx = msgspec.json.Decoder(_DlxWire | None).decode
_encode = msgspec.json.Encoder().encode


def is_uuid(text: str) -> bool:
    """Whether ``text`` is a hyphenated UUID in ASCII, of any version and case."""
    return _UUID.fullmatch(text) is not None


def decode_envelope(body: bytes) -> EventEnvelope:
    """Read an envelope by the body rules. Raises MalformedBody, and nothing else, for any bytes."""
    require_text(body)
    try:
        wire = _decode_wire(body)
        payload = bytes(wire.payload)
        repeated = not _accounts_for_all(wire, payload, body) and repeats_a_name(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise MalformedBody(str(error)) from None
    if repeated:
        raise MalformedBody("a name is repeated at the top level")
    if not is_uuid(wire.id):
        raise MalformedBody("id is not a hyphenated UUID")
    if not is_instant(wire.occurred_at):
        raise MalformedBody("occurred_at is not an RFC 3339 instant with an offset")
    dlx = None if wire.dlx is msgspec.UNSET else _explicit(bytes(wire.dlx))
    return EventEnvelope(wire.id, wire.source_service, wire.event_type, wire.occurred_at, payload, dlx)


def encode_envelope(envelope: EventEnvelope) -> bytes:
    """Write an envelope compactly, payload verbatim, such that ``decode_envelope`` reads it back.

    Raises EnvelopeNotSerializable when its fields are not what the body rules allow.
    """
    dlx: _DlxWire | msgspec.UnsetType = msgspec.UNSET
    try:
        wire = _Wire(
            envelope.id,
            envelope.source_service,
            envelope.event_type,
            envelope.occurred_at,
            msgspec.Raw(envelope.payload),
        )
        if envelope.dlx is not None:
            dlx = _DlxWire(**msgspec.structs.asdict(envelope.dlx))
            wire.dlx = msgspec.Raw(_encode(dlx))
        body = _encode(wire)
        decode_envelope(body)
    except (ValueError, TypeError) as error:
        raise EnvelopeNotSerializable(str(error)) from error
    return body


def _explicit(raw: bytes) -> ExplicitDeadLetter | None:
    try:
        wire = _decode_dlx(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise MalformedBody(f"_dlx: {error}") from None
    if wire is None:
        return None
    return ExplicitDeadLetter(wire.token, wire.queue, wire.reason, wire.failed_at, wire.error)


def _accounts_for_all(wire: _Wire, payload: bytes, body: bytes) -> bool:
    # The common, compact body: no whitespace, escape, unknown or repeated member, seen by length
    # alone. An escape is always longer than what it stands for, so equality rules them all out.
    expected = _COMPACT_FRAME + _text_bytes(wire) + len(payload)
    if wire.dlx is not msgspec.UNSET:
        expected += _COMPACT_DLX + len(memoryview(wire.dlx))
    return expected == len(body)


def _text_bytes(wire: _Wire) -> int:
    text = wire.id + wire.source_service + wire.event_type + wire.occurred_at
    return len(text) if text.isascii() else len(text.encode())
