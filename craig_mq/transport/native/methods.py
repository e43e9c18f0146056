"""Methods: the hot ones by hand, the peer's free text with tolerance, all others by pamqp's tables.

pamqp is strict where a wedge would follow (names and reply texts that are not UTF-8: RabbitMQ cuts
a reply text at 255 bytes, even inside a character) and slow where microseconds count.
"""

from __future__ import annotations

import struct
from typing import Final

from pamqp import base, commands
from pamqp import decode as decoding
from pamqp import encode as encoding

from craig_mq.transport.native.wire import BODY, FRAME_END_BYTE, FRAME_HEAD, HEADER, METHOD, ProtocolViolation

DELIVER: Final = 0x003C003C
GET_OK: Final = 0x003C0047
RETURN: Final = 0x003C0032
ACK: Final = 0x003C0050
NACK: Final = 0x003C0078
CANCEL: Final = 0x003C001E
CHANNEL_CLOSE: Final = 0x00140028
CHANNEL_CLOSE_OK: Final = 0x00140029
CONNECTION_CLOSE: Final = 0x000A0032
CONNECTION_CLOSE_OK: Final = 0x000A0033
CONNECTION_BLOCKED: Final = 0x000A003C
CONNECTION_UNBLOCKED: Final = 0x000A003D

_PUBLISH: Final = 0x003C0028
_MANDATORY: Final = b"\x01"
_MULTIPLE_BIT, _REQUEUE_BIT = 1, 2

_SETTLE = struct.Struct(">BHIIQBB")
_SETTLE_SIZE: Final = 13
_TAG_BITS = struct.Struct(">QB")
_INDEX = struct.Struct(">I")
_SHORT = struct.Struct(">H")

CONTENT_OVERHEAD: Final = 8
"""What a frame costs beside its payload; a payload may be frame_max minus this."""


_ANSWERS: Final[dict[int, type[base.Frame]]] = {
    answer.index: answer
    for answer in (
        commands.Connection.Start,
        commands.Connection.Tune,
        commands.Connection.OpenOk,
        commands.Channel.OpenOk,
        commands.Confirm.SelectOk,
        commands.Exchange.DeclareOk,
        commands.Queue.DeclareOk,
        commands.Queue.DeleteOk,
        commands.Queue.PurgeOk,
        commands.Queue.BindOk,
        commands.Queue.UnbindOk,
        commands.Basic.QosOk,
        commands.Basic.ConsumeOk,
        commands.Basic.CancelOk,
        commands.Basic.GetEmpty,
    )
}
"""Every other method a broker may send to this client is decoded by hand."""


_arguments_of: Final[dict[type[base.Frame], tuple[tuple[str, str], ...]]] = {}


def _arguments(kind: type[base.Frame]) -> tuple[tuple[str, str], ...]:
    """Return the names and wire types of a method's arguments, asking pamqp once for each method.

    It makes a new name for each look-up, and CPython's cache of attributes keeps thousands of them.
    """
    known = _arguments_of.get(kind)
    if known is None:
        known = tuple((name, kind.amqp_type(name)) for name in kind.attributes())
        _arguments_of[kind] = known
    return known


def encode(method: base.Frame, channel: int) -> bytes:
    """Encode a method frame. Raises ValueError for what the wire cannot hold."""
    try:
        method.validate()
        payload = _INDEX.pack(method.index) + _encode_arguments(method)
    except (TypeError, struct.error) as error:
        raise ValueError(f"{method.name}: {error}") from None
    return FRAME_HEAD.pack(METHOD, channel, len(payload)) + payload + FRAME_END_BYTE


def _encode_arguments(method: base.Frame) -> bytes:
    """Encode them in order; neighbouring bits share an octet, and no method has more than eight."""
    parts: list[bytes] = []
    bits = width = 0
    for name, wire_type in _arguments(type(method)):
        value = method[name]
        if wire_type == "bit":
            bits |= bool(value) << width
            width += 1
            continue
        if width:
            parts.append(bytes((bits,)))
            bits = width = 0
        parts.append(encoding.by_type(value, wire_type))
    if width:
        parts.append(bytes((bits,)))
    return b"".join(parts)


def decode(index: int, arguments: bytes) -> base.Frame:
    """Decode an answer. Raises ProtocolViolation."""
    kind = _ANSWERS.get(index)
    if kind is None:
        raise ProtocolViolation(f"method {index >> 16}/{index & 0xFFFF}, which no request asks for")
    method = kind()
    try:
        at = 0
        for name, wire_type in _arguments(kind):  # none of them is a bit
            consumed, value = decoding.by_type(arguments[at:], wire_type)
            setattr(method, name, value)
            at += consumed
    except (ValueError, TypeError, IndexError, OverflowError, RecursionError, struct.error) as error:
        raise ProtocolViolation(f"{method.name} cannot be decoded ({type(error).__name__})") from None
    return method


def short_string(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    """Return the short string at ``at`` and the offset behind it. Raises ProtocolViolation."""
    if at >= end:
        raise ProtocolViolation("a method ends before its arguments do")
    stop = at + 1 + data[at]
    if stop > end:
        raise ProtocolViolation("a short string runs past its method")
    return data[at + 1 : stop], stop


def decode_close(arguments: bytes) -> tuple[int, str, int, int]:
    """Decode channel.close or connection.close: code, text, class, method. Raises ProtocolViolation."""
    if len(arguments) < _SHORT.size:
        raise ProtocolViolation("a close without a code")
    (code,) = _SHORT.unpack_from(arguments)
    text, at = short_string(arguments, 2, len(arguments))
    if at + 4 > len(arguments):
        raise ProtocolViolation("a close without the offending method")
    (class_id,) = _SHORT.unpack_from(arguments, at)
    (method_id,) = _SHORT.unpack_from(arguments, at + 2)
    return code, text.decode("utf-8", "replace"), class_id, method_id


def decode_settlement(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Decode the tag and the bits of basic.ack or basic.nack. Raises ProtocolViolation."""
    if end - at != _TAG_BITS.size:
        raise ProtocolViolation("a confirm of the wrong length")
    return _TAG_BITS.unpack_from(data, at)


def encode_ack(channel: int, delivery_tag: int, *, multiple: bool) -> bytes:
    """Encode basic.ack."""
    return _SETTLE.pack(METHOD, channel, _SETTLE_SIZE, ACK, delivery_tag, multiple, 0xCE)


def encode_nack(channel: int, delivery_tag: int, *, multiple: bool, requeue: bool) -> bytes:
    """Encode basic.nack."""
    bits = (_MULTIPLE_BIT if multiple else 0) | (_REQUEUE_BIT if requeue else 0)
    return _SETTLE.pack(METHOD, channel, _SETTLE_SIZE, NACK, delivery_tag, bits, 0xCE)


def encode_publish(channel: int, exchange: bytes, routing_key: bytes) -> bytes:
    """Encode a mandatory basic.publish; both names are encoded short strings."""
    arguments = b"".join((_INDEX.pack(_PUBLISH), b"\x00\x00", exchange, routing_key, _MANDATORY))
    return FRAME_HEAD.pack(METHOD, channel, len(arguments)) + arguments + FRAME_END_BYTE


def encode_small_content(channel: int, publish: bytes, header: bytes, body: bytes) -> bytes:
    """Encode a publish whose body fits one frame, as one piece."""
    parts = [publish, FRAME_HEAD.pack(HEADER, channel, len(header)), header, FRAME_END_BYTE]
    if body:
        parts += (FRAME_HEAD.pack(BODY, channel, len(body)), body, FRAME_END_BYTE)
    return b"".join(parts)


def encode_large_content(
    channel: int, publish: bytes, header: bytes, body: bytes, payload_max: int
) -> list[bytes | memoryview]:
    """Encode a publish over as many body frames as it takes, without copying the body."""
    chunks: list[bytes | memoryview] = [encode_small_content(channel, publish, header, b"")]
    view = memoryview(body)
    for start in range(0, len(body), payload_max):
        piece = view[start : start + payload_max]
        chunks += (FRAME_HEAD.pack(BODY, channel, len(piece)), piece, FRAME_END_BYTE)
    return chunks
