"""Putting content together on one channel: a method, its header, its body frames."""

from __future__ import annotations

import struct
from typing import Final

from craig_mq.core.delivery import Delivery
from craig_mq.transport.native.events import Delivered, Got, MessageReturned
from craig_mq.transport.native.methods import short_string
from craig_mq.transport.native.properties import HEADER_MIN, body_size, decode_properties
from craig_mq.transport.native.wire import ProtocolViolation

MAX_BODY: Final = 512 * 1024 * 1024
"""RabbitMQ's own hard limit on a message."""

_TAG_FLAG = struct.Struct(">QB")
_SHORT = struct.Struct(">H")
_NAMES_MAX = 1024


class NameCache:
    """Names seen on the wire, decoded once. Bounded: emptied when full."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        """Start empty."""
        self._names: dict[bytes, str] = {}

    def text(self, raw: bytes) -> tuple[str, bool]:
        """Return the name and whether it was UTF-8; one that was not is kept with escapes."""
        name = self._names.get(raw)
        if name is not None:
            return name, True
        try:
            name = raw.decode()
        except UnicodeDecodeError:
            return raw.decode("utf-8", "backslashreplace"), False
        if len(self._names) >= _NAMES_MAX:
            self._names.clear()
        self._names[raw] = name
        return name, True


class Envelope:
    """The arguments of basic.deliver, basic.get-ok or basic.return, waiting for their content."""

    __slots__ = (
        "code",
        "consumer_tag",
        "delivery_tag",
        "exchange",
        "readable",
        "redelivered",
        "routing_key",
        "text",
    )

    def __init__(self) -> None:
        """Fill the fields that not every method has."""
        self.consumer_tag: bytes | None = None
        self.exchange = ""
        self.routing_key = ""
        self.readable = True
        self.delivery_tag = 0
        self.redelivered = False
        self.code = 0
        self.text = ""


def decode_deliver(data: bytes, at: int, end: int, names: NameCache) -> Envelope:
    """Decode basic.deliver's arguments. Raises ProtocolViolation."""
    envelope = Envelope()
    envelope.consumer_tag, at = short_string(data, at, end)
    _tag_and_names(envelope, data, at, end, names)
    return envelope


def decode_get_ok(data: bytes, at: int, end: int, names: NameCache) -> Envelope:
    """Decode basic.get-ok's arguments. Raises ProtocolViolation."""
    envelope = Envelope()
    _tag_and_names(envelope, data, at, end, names)
    return envelope


def decode_return(data: bytes, at: int, end: int, names: NameCache) -> Envelope:
    """Decode basic.return's arguments. Raises ProtocolViolation."""
    envelope = Envelope()
    if at + 2 > end:
        raise ProtocolViolation("a return without a code")
    (envelope.code,) = _SHORT.unpack_from(data, at)
    text, at = short_string(data, at + 2, end)
    envelope.text = text.decode("utf-8", "replace")
    _names(envelope, data, at, end, names)
    return envelope


def _tag_and_names(envelope: Envelope, data: bytes, at: int, end: int, names: NameCache) -> None:
    if at + 9 > end:
        raise ProtocolViolation("a delivery without a tag")
    envelope.delivery_tag, redelivered = _TAG_FLAG.unpack_from(data, at)
    envelope.redelivered = redelivered & 1 == 1
    _names(envelope, data, at + 9, end, names)


def _names(envelope: Envelope, data: bytes, at: int, end: int, names: NameCache) -> None:
    raw, at = short_string(data, at, end)
    envelope.exchange, readable = names.text(raw)
    raw, _ = short_string(data, at, end)
    envelope.routing_key, envelope.readable = names.text(raw)
    envelope.readable = envelope.readable and readable


class ContentAssembly:
    """The content expected on one channel. Every step out of order raises ProtocolViolation."""

    __slots__ = ("_chunks", "_envelope", "_header", "_missing")

    def __init__(self) -> None:
        """Expect a method first."""
        self._envelope: Envelope | None = None
        self._header: bytes | None = None
        self._chunks: list[bytes] = []
        self._missing = 0

    @property
    def idle(self) -> bool:
        """Whether no content is under way, so that a method may come."""
        return self._envelope is None

    def begin(self, envelope: Envelope) -> None:
        """Take the method that announces content."""
        if self._envelope is not None:
            raise ProtocolViolation("a method inside another method's content")
        self._envelope = envelope

    def header(self, payload: bytes) -> Envelope | None:
        """Take the content header; return the envelope if there is no body to wait for."""
        if self._envelope is None or self._header is not None:
            raise ProtocolViolation("a content header that no method announced")
        if len(payload) < HEADER_MIN:
            raise ProtocolViolation("a content header cut short")
        size = body_size(payload)
        if size > MAX_BODY:
            raise ProtocolViolation(f"a body of {size} bytes is announced")
        self._header = payload
        self._missing = size
        return None if size else self._envelope

    def body(self, payload: bytes) -> Envelope | None:
        """Take a body frame; return the envelope once the body is whole."""
        if self._header is None or not payload:
            raise ProtocolViolation("a body frame that no content header announced")
        self._missing -= len(payload)
        if self._missing < 0:
            raise ProtocolViolation("a body longer than its header announced")
        self._chunks.append(payload)
        return None if self._missing else self._envelope

    def finish(self, channel: int) -> Delivered | Got | MessageReturned:
        """Turn the whole content into its event and expect a method again."""
        envelope, header, chunks = self._envelope, self._header, self._chunks
        if envelope is None or header is None:
            raise ProtocolViolation("content finished before it began")
        body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        self._envelope = self._header = None
        self._chunks = []
        properties, whole = decode_properties(header)
        if envelope.code:
            return MessageReturned(channel, envelope.code, envelope.text, properties.message_id)
        delivery = Delivery(
            envelope.delivery_tag,
            envelope.exchange,
            envelope.routing_key,
            envelope.redelivered,
            body,
            properties,
            None if whole and envelope.readable else header,
        )
        if envelope.consumer_tag is None:
            return Got(channel, delivery)
        return Delivered(channel, envelope.consumer_tag, delivery)
