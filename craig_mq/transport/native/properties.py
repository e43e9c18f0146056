"""The content header: body size, property flags and properties, both ways."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, Final

from craig_mq.core.delivery import PERSISTENT, Properties
from craig_mq.transport.native.fields import BrokenField, FieldReader, encode_short, encode_table

BASIC_CLASS: Final = 60

_HEAD = struct.Struct(">HHQH")
_U64 = struct.Struct(">Q")
_FLAGS = struct.Struct(">H")
HEADER_MIN: Final = _HEAD.size
"""Class, weight, body size and one word of flags: shorter headers are a protocol violation."""

# Flag bits in wire order (AMQP 0-9-1, 4.2.6.1); the three lowest bits mean nothing a client can use.
_CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS, _DELIVERY_MODE = 1 << 15, 1 << 14, 1 << 13, 1 << 12
_PRIORITY, _CORRELATION_ID, _REPLY_TO, _EXPIRATION = 1 << 11, 1 << 10, 1 << 9, 1 << 8
_MESSAGE_ID, _TIMESTAMP, _TYPE, _USER_ID = 1 << 7, 1 << 6, 1 << 5, 1 << 4
_APP_ID = 1 << 3

_SHORT, _OCTET, _LONG, _TABLE = "short", "octet", "long", "table"
_LAYOUT: Final[tuple[tuple[int, str, str], ...]] = (
    (_CONTENT_TYPE, "content_type", _SHORT),
    (_CONTENT_ENCODING, "content_encoding", _SHORT),
    (_HEADERS, "headers", _TABLE),
    (_DELIVERY_MODE, "delivery_mode", _OCTET),
    (_PRIORITY, "priority", _OCTET),
    (_CORRELATION_ID, "correlation_id", _SHORT),
    (_REPLY_TO, "reply_to", _SHORT),
    (_EXPIRATION, "expiration", _SHORT),
    (_MESSAGE_ID, "message_id", _SHORT),
    (_TIMESTAMP, "timestamp", _LONG),
    (_TYPE, "type", _SHORT),
    (_USER_ID, "user_id", _SHORT),
    (_APP_ID, "app_id", _SHORT),
)

_plans: dict[int, tuple[tuple[str, str], ...]] = {}
"""The properties present for each word of flags seen; at most 2**13 of them exist."""

_KNOWN = sum(flag for flag, _, _ in _LAYOUT)
_UNKNOWN = 0xFFFF & ~_KNOWN


def body_size(header: bytes) -> int:
    """Return the body size a content header announces; the header has at least ``HEADER_MIN`` bytes."""
    return int(_HEAD.unpack_from(header)[2])


def _plan(flags: int) -> tuple[tuple[str, str], ...]:
    plan = _plans.get(flags)
    if plan is None:
        plan = tuple((name, form) for flag, name, form in _LAYOUT if flags & flag)
        _plans[flags] = plan
    return plan


def decode_properties(header: bytes) -> tuple[Properties, bool]:
    """Decode a content header's properties; the flag says whether all of it could be read.

    Never raises: what cannot be represented is kept in a lesser form (text with escapes), and
    where the structure breaks, the properties before the break are returned.
    """
    flags: int = _HEAD.unpack_from(header)[3]
    found: dict[str, Any] = {}
    whole = not flags & _UNKNOWN
    at = HEADER_MIN
    end = len(header)
    for name, form in _plan(flags & _KNOWN):
        if form is _SHORT:
            start = at + 1
            at = start + header[at] if at < end else end + 1
            if at > end:
                return Properties(**found), False
            raw = header[start:at]
            try:
                found[name] = raw.decode()
            except UnicodeDecodeError:
                found[name] = raw.decode("utf-8", "backslashreplace")
                whole = False
        elif form is _OCTET and at < end:
            found[name] = header[at]
            at += 1
        elif form is _LONG and at + 8 <= end:
            found[name] = _U64.unpack_from(header, at)[0]
            at += 8
        elif form is _TABLE:
            reader = FieldReader()
            try:
                found[name], at = reader.table(header, at, end)
            except BrokenField as broken:
                if isinstance(broken.partial, dict):
                    found[name] = broken.partial
                return Properties(**found), False
            whole = whole and not reader.odd
        else:
            return Properties(**found), False
    return Properties(**found), whole


def encode_header(properties: Properties, size: int) -> bytes:
    """Encode the content-header payload of a persistent message with a body of ``size`` bytes.

    ``delivery_mode`` is always sent as 2. Raises ValueError for what the wire cannot hold.
    """
    if _only_varies(properties):
        flags, before, behind = _around_id(properties.content_type, properties.type, properties.app_id)
        message_id = encode_short(properties.message_id or "")
        timestamp = _encode_timestamp(properties.timestamp or 0)
        return b"".join((_HEAD.pack(BASIC_CLASS, 0, size, flags), before, message_id, timestamp, behind))
    flags = _DELIVERY_MODE
    parts: list[bytes] = []
    if properties.content_type is not None:
        flags |= _CONTENT_TYPE
        parts.append(encode_short(properties.content_type))
    if properties.content_encoding is not None:
        flags |= _CONTENT_ENCODING
        parts.append(encode_short(properties.content_encoding))
    if properties.headers:
        flags |= _HEADERS
        parts.append(encode_table(properties.headers))
    parts.append(_PERSISTENT_OCTET)
    flags |= _encode_rare(properties, parts)
    if properties.message_id is not None:
        flags |= _MESSAGE_ID
        parts.append(encode_short(properties.message_id))
    if properties.timestamp is not None:
        flags |= _TIMESTAMP
        parts.append(_encode_timestamp(properties.timestamp))
    if properties.type is not None:
        flags |= _TYPE
        parts.append(encode_short(properties.type))
    if properties.user_id is not None:
        flags |= _USER_ID
        parts.append(encode_short(properties.user_id))
    if properties.app_id is not None:
        flags |= _APP_ID
        parts.append(encode_short(properties.app_id))
    return _HEAD.pack(BASIC_CLASS, 0, size, flags) + b"".join(parts)


def _only_varies(properties: Properties) -> bool:
    """Whether only id and time tell it from its neighbours, as with every capture."""
    return (
        properties.message_id is not None
        and properties.timestamp is not None
        and not properties.headers
        and properties.content_encoding is None
        and properties.priority is None
        and properties.correlation_id is None
        and properties.reply_to is None
        and properties.expiration is None
        and properties.user_id is None
    )


@lru_cache(64)
def _around_id(content_type: str | None, kind: str | None, app_id: str | None) -> tuple[int, bytes, bytes]:
    """Return the flags, and what comes before and behind message id and timestamp."""
    flags, before, behind = _DELIVERY_MODE | _MESSAGE_ID | _TIMESTAMP, b"", b""
    if content_type is not None:
        flags, before = flags | _CONTENT_TYPE, encode_short(content_type)
    if kind is not None:
        flags, behind = flags | _TYPE, encode_short(kind)
    if app_id is not None:
        flags, behind = flags | _APP_ID, behind + encode_short(app_id)
    return flags, before + _PERSISTENT_OCTET, behind


_PERSISTENT_OCTET: Final = bytes((PERSISTENT,))


def _encode_timestamp(seconds: int) -> bytes:
    try:
        return _U64.pack(seconds)
    except struct.error:
        raise ValueError("a timestamp lies outside 0 .. 2**64-1") from None


def _encode_rare(properties: Properties, parts: list[bytes]) -> int:
    """Encode the properties between delivery_mode and message_id, which captures never carry."""
    flags = 0
    if properties.priority is not None:
        flags |= _PRIORITY
        parts.append(bytes((properties.priority,)))
    for flag, text in (
        (_CORRELATION_ID, properties.correlation_id),
        (_REPLY_TO, properties.reply_to),
        (_EXPIRATION, properties.expiration),
    ):
        if text is not None:
            flags |= flag
            parts.append(encode_short(text))
    return flags
