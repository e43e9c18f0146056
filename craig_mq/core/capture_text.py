"""The common capture, a readable body embedded as it is, written piece by piece.

It gives the bytes the records of ``capture_format`` encode to (a test compares them) in a third of the
time; everything else a capture can be is written from the records.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from craig_mq.core.capture_format import CaptureKind, LastErrorWire, QuarantineReason
from craig_mq.core.dead_letter import DeadLetterDelivery
from craig_mq.core.disposition import Disposition
from craig_mq.core.last_error import LastError

_REMEMBERED: Final = 256
_REMEMBERED_LENGTH: Final = 256
_encode = msgspec.json.Encoder().encode


_KIND: Final = {
    kind: b',"payload":{"craig_capture":{"v":1,"kind":"%b","capture_id":"' % kind.value.encode()
    for kind in CaptureKind
}
_AT: Final = {kind: b',"%b_at":"' % kind.value.encode() for kind in CaptureKind}
_DISPOSITION: Final = {None: b""} | {one: b',"disposition":"%b"' % one.value.encode() for one in Disposition}
_REASON: Final = {None: b""} | {one: b',"reason":"%b"' % one.value.encode() for one in QuarantineReason}


def write_capture(
    subject: DeadLetterDelivery,
    *,
    kind: CaptureKind,
    counts: tuple[int, int, int, int],
    capture_id: str,
    at: str,
    disposition: Disposition | None,
    reason: QuarantineReason | None,
    error: LastError | None,
) -> bytes:
    """Write a capture of ``subject`` with its whole body as the JSON value it is.

    ``counts`` are park_count, total_parks, redrive_count and attempts; ``capture_id`` is a UUID.
    """
    envelope, token = subject.envelope, subject.token
    return b"".join(
        (
            b'{"id":"',
            envelope.id.encode(),
            b'","source_service":',
            _quoted(envelope.source_service),
            b',"event_type":',
            _quoted(envelope.event_type),
            b',"occurred_at":"',
            envelope.occurred_at.encode(),
            b'"',
            _KIND[kind],
            capture_id.encode(),
            b'","original_queue":',
            _quoted(subject.queue),
            b',"original_routing_key":',
            _quoted(subject.routing_key),
            _counts(counts),
            subject.original_properties(),
            b"" if token is None else b',"occurrence_token":"%b"' % token.encode(),
            _AT[kind],
            at.encode(),
            b'"',
            _DISPOSITION[disposition],
            _REASON[reason],
            b"" if error is None else _last_error(error),
            b',"original_envelope":',
            subject.body,
            b"}}}",
        )
    )


def writable(text: str) -> str:
    """Spell out surrogates, which a name read leniently from the wire may hold and JSON refuses."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _quoted(text: str) -> bytes:
    # Queues, keys, services and event types repeat; a hostile, long one is not remembered.
    return _quoted_name(text) if len(text) <= _REMEMBERED_LENGTH else _encode(writable(text))


@lru_cache(_REMEMBERED)
def _quoted_name(text: str) -> bytes:
    return _encode(writable(text))


@lru_cache(_REMEMBERED)
def _counts(counts: tuple[int, int, int, int]) -> bytes:
    return (
        b',"park_count":%d,"total_parks":%d,"redrive_count":%d,"attempts":%d,"original_properties":' % counts
    )


@lru_cache(_REMEMBERED)
def _last_error(error: LastError) -> bytes:
    # In an outage the same error is written thousands of times.
    return b',"last_error":%b' % _encode(LastErrorWire(error.type, error.text, error.sha256))
