"""The common capture, a readable body embedded as it is, written from a template.

It gives the bytes the records of ``capture_format`` encode to (a test compares them) in a third of the
time; everything else a capture can be is written from the records.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from craig_mq.core.capture_format import LastErrorWire
from craig_mq.core.dead_letter import DeadLetterDelivery
from craig_mq.core.last_error import LastError

_REMEMBERED: Final = 256
_REMEMBERED_LENGTH: Final = 256
_TEMPLATE: Final = (
    b'{"id":"%b","source_service":%b,"event_type":%b,"occurred_at":"%b","payload":{"craig_capture":'
    b'{"v":1,"kind":"%b","capture_id":%b,"original_queue":%b,"original_routing_key":%b,'
    b'"park_count":%d,"total_parks":%d,"redrive_count":%d,"attempts":%d,"original_properties":%b%b,'
    b'"%b_at":"%b"%b%b%b,"original_envelope":%b}}}'
)

_encode = msgspec.json.Encoder().encode


def write_capture(
    subject: DeadLetterDelivery,
    *,
    kind: str,
    capture_id: str,
    park_count: int,
    total_parks: int,
    attempts: int,
    at: str,
    disposition: str | None,
    reason: str | None,
    error: LastError | None,
) -> bytes:
    """Write a capture of ``subject`` with its whole body as the JSON value it is."""
    envelope, token = subject.envelope, subject.token
    return _TEMPLATE % (
        envelope.id.encode(),
        _quoted(envelope.source_service),
        _quoted(envelope.event_type),
        envelope.occurred_at.encode(),
        kind.encode(),
        _encode(capture_id),
        _quoted(subject.queue),
        _quoted(subject.routing_key),
        park_count,
        total_parks,
        subject.carried.redrive_count,
        attempts,
        subject.original_properties(),
        b"" if token is None else b',"occurrence_token":"%b"' % token.encode(),
        kind.encode(),
        at.encode(),
        b"" if disposition is None else b',"disposition":"%b"' % disposition.encode(),
        b"" if reason is None else b',"reason":"%b"' % reason.encode(),
        b"" if error is None else _last_error(error),
        subject.body,
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
def _last_error(error: LastError) -> bytes:
    # In an outage the same error is written thousands of times.
    return b',"last_error":%b' % _encode(LastErrorWire(error.type, error.text, error.sha256))
