"""Putting content together on one channel: a method, its header, its body frames."""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from craig_mq.core.delivery import Delivery
from craig_mq.transport.native.events import Delivered, Got, MessageReturned
from craig_mq.transport.native.methods import short_string
from craig_mq.transport.native.properties import HEADER_MIN, body_size, decode_properties
from craig_mq.transport.native.wire import ProtocolViolation

Content = Delivered | Got | MessageReturned

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


class Envelope(msgspec.Struct, eq=False, gc=False):
    """A method that announces content, as the message it will become.

    ``consumer_tag`` is None for basic.get-ok. ``code`` and ``text`` are basic.return's; ``readable``
    says whether the names were UTF-8.
    """

    message: Delivery
    consumer_tag: bytes | None = None
    readable: bool = True
    code: int = 0
    text: str = ""


def decode_deliver(data: bytes, at: int, end: int, names: NameCache) -> Envelope:
    """Decode basic.deliver's arguments. Raises ProtocolViolation."""
    consumer_tag, at = short_string(data, at, end)
    message, readable = _message(data, at, end, names)
    return Envelope(message, consumer_tag, readable)


def decode_get_ok(data: bytes, at: int, end: int, names: NameCache) -> Envelope:
    """Decode basic.get-ok's arguments. Raises ProtocolViolation."""
    message, readable = _message(data, at, end, names)
    return Envelope(message, None, readable)


def decode_return(data: bytes, at: int, end: int, names: NameCache) -> Envelope:
    """Decode basic.return's arguments. Raises ProtocolViolation."""
    if at + 2 > end:
        raise ProtocolViolation("a return without a code")
    (code,) = _SHORT.unpack_from(data, at)
    text, at = short_string(data, at + 2, end)
    exchange, routing_key, readable = _names(data, at, end, names)
    message = Delivery(0, exchange, routing_key, False, b"")
    return Envelope(message, None, readable, code, text.decode("utf-8", "replace"))


def _message(data: bytes, at: int, end: int, names: NameCache) -> tuple[Delivery, bool]:
    if at + 9 > end:
        raise ProtocolViolation("a delivery without a tag")
    delivery_tag, redelivered = _TAG_FLAG.unpack_from(data, at)
    exchange, routing_key, readable = _names(data, at + 9, end, names)
    return Delivery(delivery_tag, exchange, routing_key, redelivered & 1 == 1, b""), readable


def _names(data: bytes, at: int, end: int, names: NameCache) -> tuple[str, str, bool]:
    raw, at = short_string(data, at, end)
    exchange, exchange_readable = names.text(raw)
    raw, _ = short_string(data, at, end)
    routing_key, readable = names.text(raw)
    return exchange, routing_key, readable and exchange_readable


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

    def reset(self) -> None:
        """Expect a method again."""
        self._envelope = self._header = None
        self._chunks = []

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

    def finish(self, channel: int) -> Content:
        """Turn the whole content into its event and expect a method again."""
        envelope, header, chunks = self._envelope, self._header, self._chunks
        if envelope is None or header is None:
            raise ProtocolViolation("content finished before it began")
        self.reset()
        return complete(channel, envelope, header, chunks[0] if len(chunks) == 1 else b"".join(chunks))


def complete(channel: int, envelope: Envelope, header: bytes, body: bytes) -> Content:
    """Turn a method, its content header and its body into the event they make."""
    announced = envelope.message
    properties, whole = decode_properties(header)
    message = msgspec.structs.replace(
        announced,
        body=body,
        properties=properties,
        undecodable=None if whole and envelope.readable else header,
    )
    if envelope.consumer_tag is not None:
        return Delivered(channel, envelope.consumer_tag, message)
    if envelope.code:
        return MessageReturned(channel, envelope.code, envelope.text, message.properties.message_id)
    return Got(channel, message)
