"""AMQP field tables, read with tolerance and written exactly.

A reader that raises on one odd value wedges a queue for ever, because the broker delivers the same
message again (field failures PROP-01, PROP-02). So a value that cannot be represented is kept as
bytes, and only a table whose *structure* is broken stops the reading, keeping what came before.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, cast

MAX_DEPTH: Final = 64
"""Nesting beyond this is refused rather than recursed into."""

_U32 = struct.Struct(">I")
_DECIMAL = struct.Struct(">Bi")
_FIXED: Final[dict[int, struct.Struct]] = {
    ord("b"): struct.Struct(">b"),
    ord("B"): struct.Struct(">B"),
    ord("s"): struct.Struct(">h"),
    ord("u"): struct.Struct(">H"),
    ord("I"): struct.Struct(">i"),
    ord("i"): struct.Struct(">I"),
    ord("l"): struct.Struct(">q"),
    ord("L"): struct.Struct(">q"),
    ord("f"): struct.Struct(">f"),
    ord("d"): struct.Struct(">d"),
    ord("T"): struct.Struct(">Q"),
}
_STRING, _BYTES, _TABLE, _ARRAY = ord("S"), ord("x"), ord("F"), ord("A")
_BOOL, _VOID, _NUL, _DECIMAL_TAG = ord("t"), ord("V"), 0, ord("D")


class BrokenField(Exception):
    """The structure of a table or array cannot be followed any further.

    ``partial`` is what was read before the break.
    """

    def __init__(self, text: str, partial: dict[str, object] | list[object] | None = None) -> None:
        """Keep the partial value beside the text."""
        super().__init__(text)
        self.partial = partial


class FieldReader:
    """Reads tables; ``odd`` becomes True when something had to be kept in a lesser form."""

    __slots__ = ("odd",)

    def __init__(self) -> None:
        """Nothing odd seen yet."""
        self.odd = False

    def table(self, data: bytes, at: int, end: int, depth: int = 0) -> tuple[dict[str, object], int]:
        """Read the table at ``at``; return it and the offset behind it. Raises BrokenField."""
        start, stop = _extent(data, at, end, depth)
        table: dict[str, object] = {}
        at = start
        while at < stop:
            key_end = at + 1 + data[at]
            if key_end >= stop:
                raise BrokenField("a table key runs past its table", table)
            key = self._text(data[at + 1 : key_end])
            try:
                value, at = self._value(data, key_end, stop, depth)
            except BrokenField as broken:
                if broken.partial is not None:
                    table[key] = broken.partial
                raise BrokenField(str(broken), table) from None
            table[key] = value
        return table, stop

    def _array(self, data: bytes, at: int, end: int, depth: int) -> tuple[list[object], int]:
        start, stop = _extent(data, at, end, depth)
        items: list[object] = []
        at = start
        while at < stop:
            try:
                value, at = self._value(data, at, stop, depth)
            except BrokenField as broken:
                raise BrokenField(str(broken), items) from None
            items.append(value)
        return items, stop

    def _text(self, raw: bytes) -> str:
        """Decode a key; one that is not UTF-8 is kept with escapes, and is odd."""
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.odd = True
            return raw.decode("utf-8", "backslashreplace")

    def _value(self, data: bytes, at: int, end: int, depth: int) -> tuple[object, int]:
        kind = data[at]
        at += 1
        if kind == _STRING:
            start, stop = _extent(data, at, end, 0)
            raw = data[start:stop]
            try:
                return raw.decode(), stop
            except UnicodeDecodeError:
                return raw, stop
        fixed = _FIXED.get(kind)
        if fixed is not None:
            if at + fixed.size > end:
                raise BrokenField("a field value runs past its table")
            return fixed.unpack_from(data, at)[0], at + fixed.size
        if kind == _TABLE:
            return self.table(data, at, end, depth + 1)
        if kind == _ARRAY:
            return self._array(data, at, end, depth + 1)
        return _rare(kind, data, at, end)


def _rare(kind: int, data: bytes, at: int, end: int) -> tuple[object, int]:
    if kind in {_VOID, _NUL}:
        return None, at
    if kind == _BOOL:
        if at >= end:
            raise BrokenField("a field value runs past its table")
        return data[at] != 0, at + 1
    if kind == _BYTES:
        start, stop = _extent(data, at, end, 0)
        return data[start:stop], stop
    if kind == _DECIMAL_TAG:
        if at + _DECIMAL.size > end:
            raise BrokenField("a field value runs past its table")
        scale, mantissa = _DECIMAL.unpack_from(data, at)
        return Decimal(mantissa).scaleb(-scale), at + _DECIMAL.size
    raise BrokenField(f"unknown field type 0x{kind:02x}")


def _extent(data: bytes, at: int, end: int, depth: int) -> tuple[int, int]:
    """Return start and stop of the length-prefixed stretch at ``at``."""
    if depth > MAX_DEPTH:
        raise BrokenField(f"fields nested deeper than {MAX_DEPTH}")
    if at + 4 > end:
        raise BrokenField("a length runs past its table")
    start = at + 4
    stop = start + int(_U32.unpack_from(data, at)[0])
    if stop > end:
        raise BrokenField("a length runs past its table")
    return start, stop


def encode_table(table: Mapping[str, object]) -> bytes:
    """Encode a field table. Raises ValueError for what the wire cannot hold."""
    parts: list[bytes] = []
    for key, value in table.items():
        parts.append(encode_short(key))
        parts.append(_encode_value(value))
    return _prefixed(b"".join(parts))


def encode_short(text: str) -> bytes:
    """Encode a short string (at most 255 bytes of UTF-8). Raises ValueError."""
    raw = text.encode()
    if len(raw) > 255:  # noqa: PLR2004 - the wire's own limit
        raise ValueError(f"a short string of {len(raw)} bytes exceeds 255")
    return bytes((len(raw),)) + raw


def _prefixed(raw: bytes) -> bytes:
    return _U32.pack(len(raw)) + raw


def _encode_value(value: object) -> bytes:
    if value is None:
        return b"V"
    if isinstance(value, str):
        return b"S" + _prefixed(value.encode())
    if isinstance(value, (bool, int, float, Decimal)):
        return _encode_number(value)
    if isinstance(value, (bytes, bytearray)):
        return b"x" + _prefixed(bytes(value))
    if isinstance(value, Mapping):
        return b"F" + encode_table(cast("Mapping[str, object]", value))
    if isinstance(value, Sequence):
        items = cast("Sequence[object]", value)
        return b"A" + _prefixed(b"".join(map(_encode_value, items)))
    raise ValueError(f"no field type holds a {type(value).__name__}")


def _encode_number(value: bool | float | Decimal) -> bytes:
    if isinstance(value, bool):
        return b"t\x01" if value else b"t\x00"
    if isinstance(value, float):
        return b"d" + _FIXED[ord("d")].pack(value)
    try:
        if isinstance(value, Decimal):
            exponent = value.as_tuple().exponent
            if not isinstance(exponent, int):
                raise ValueError("no field type holds this Decimal")  # noqa: TRY004 - right type, wrong value
            scale = max(0, -exponent)
            return b"D" + _DECIMAL.pack(scale, int(value.scaleb(scale)))
        if -(2**31) <= value < 2**31:
            return b"I" + _FIXED[ord("I")].pack(value)
        return b"l" + _FIXED[ord("l")].pack(value)
    except struct.error as error:
        raise ValueError(f"no field type holds the number: {error}") from None
