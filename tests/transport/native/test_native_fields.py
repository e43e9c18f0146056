"""Field tables and properties: exact both ways, and tolerant of whatever a message carries."""

from __future__ import annotations

import struct
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craig_mq.core.delivery import Properties
from craig_mq.transport.native.fields import BrokenField, FieldReader, encode_short, encode_table
from craig_mq.transport.native.properties import body_size, decode_properties, encode_header

_keys = (
    st.text(max_size=40).filter(lambda key: len(key.encode(errors="replace")) <= 255).filter(str.isprintable)
)
_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"), max_size=60)
    | st.decimals(-1000, 1000, places=3)
    | st.binary(max_size=40)
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=12,
)
_tables = st.dictionaries(_keys, _values, max_size=6)
_texts = st.none() | st.text(st.characters(codec="utf-8"), max_size=60)


@given(_tables)
def test_a_table_survives_the_wire(table):
    """Every value a field type can hold comes back equal."""
    raw = encode_table(table)
    reader = FieldReader()
    assert reader.table(raw, 0, len(raw)) == (table, len(raw))
    assert not reader.odd


@given(
    st.builds(
        Properties,
        content_type=_texts,
        content_encoding=_texts,
        headers=_tables,
        delivery_mode=st.just(2),
        priority=st.none() | st.integers(0, 255),
        correlation_id=_texts,
        reply_to=_texts,
        expiration=_texts,
        message_id=_texts,
        timestamp=st.none() | st.integers(0, 2**64 - 1),
        type=_texts,
        user_id=_texts,
        app_id=_texts,
    ),
    st.integers(0, 2**64 - 1),
)
def test_properties_survive_the_wire(properties, size):
    """Every property comes back as it was sent, the timestamp as the same integer."""
    raw = encode_header(properties, size)
    assert body_size(raw) == size
    assert decode_properties(raw) == (properties, True)


@pytest.mark.parametrize(
    "timestamp", [1_772_000_000_000_000, 2**63, 2**64 - 14_256_000, 1_772_000_000_000, 0]
)
def test_no_timestamp_is_unreadable(timestamp):
    """PROP-01: microseconds, 2**63 and any other 64-bit timestamp are read as the integers they are."""
    header = encode_header(Properties(timestamp=timestamp), 0)
    properties, whole = decode_properties(header)
    assert (properties.timestamp, whole) == (timestamp, True)
    table = b"\x01tT" + struct.pack(">Q", timestamp)
    raw = struct.pack(">I", len(table)) + table
    assert FieldReader().table(raw, 0, len(raw))[0] == {"t": timestamp}


def _with_message_id(raw: bytes) -> bytes:
    return struct.pack(">HHQH", 60, 0, 0, 1 << 7 | 1 << 6) + bytes((len(raw),)) + raw + struct.pack(">Q", 7)


def test_a_property_that_is_not_utf8_leaves_the_others_readable():
    """PROP-02: a message id of FF FE is kept with escapes, what follows is read, and it shows."""
    properties, whole = decode_properties(_with_message_id(b"\xff\xfe"))
    assert (properties.message_id, properties.timestamp, whole) == ("\\xff\\xfe", 7, False)


def test_a_header_key_that_is_not_utf8_is_kept_with_escapes():
    """PROP-02: a header key of FF FE is kept with escapes, and it shows."""
    table = b"\x02\xff\xfet\x01"
    raw = struct.pack(">HHQH", 60, 0, 0, 1 << 13) + struct.pack(">I", len(table)) + table
    properties, whole = decode_properties(raw)
    assert (properties.headers, whole) == ({"\\xff\\xfe": True}, False)


def test_a_header_value_that_is_not_utf8_is_bytes():
    """PROP-02: a string value of FF FE in a header is handed out as bytes, and nothing is odd about it."""
    table = b"\x01kS\x00\x00\x00\x02\xff\xfe"
    raw = struct.pack(">HHQH", 60, 0, 0, 1 << 13) + struct.pack(">I", len(table)) + table
    assert decode_properties(raw) == (Properties(headers={"k": b"\xff\xfe"}), True)


def test_what_came_before_an_unknown_field_type_is_kept():
    """PROP-02: a field of a type nobody knows ends the reading, and keeps what came before it."""
    table = b"\x01at\x01\x01bF\x00\x00\x00\x07\x01ct\x00\x01dQ"
    raw = struct.pack(">HHQH", 60, 0, 0, 1 << 15 | 1 << 13) + b"\x01j" + struct.pack(">I", len(table)) + table
    properties, whole = decode_properties(raw)
    assert properties == Properties(content_type="j", headers={"a": True, "b": {"c": False}})
    assert not whole


def test_nesting_has_a_limit():
    """Tables nested without end are refused, not recursed into."""
    raw = b""
    for _ in range(2000):
        raw = struct.pack(">I", len(raw) + 2) + b"\x00F" + raw if raw else b"\x00\x00\x00\x00"
    with pytest.raises(BrokenField):
        FieldReader().table(raw, 0, len(raw))


@given(st.binary(max_size=200))
def test_no_header_raises(tail):
    """No bytes behind a content header's fixed part can make the decoder raise."""
    for flags in (0xFFFF, 1 << 13, 0xFFF8):
        properties, _ = decode_properties(struct.pack(">HHQH", 60, 0, 0, flags) + tail)
        assert isinstance(properties, Properties)


@pytest.mark.parametrize(
    "value", [2**63, -(2**63) - 1, object(), Decimal("NaN"), Decimal(10) ** 12, "\ud800", {"k" * 256: 1}]
)
def test_what_no_field_type_holds_is_refused(value):
    """A value that no field type holds is a ValueError before anything is sent."""
    with pytest.raises(ValueError, match=r"."):
        encode_table({"k": value})


def test_a_short_string_is_measured_in_bytes():
    """NAME-01: 255 bytes of UTF-8 fit a short string; 126 two-byte characters and more do not."""
    assert len(encode_short("é" * 127)) == 255
    with pytest.raises(ValueError, match="256"):
        encode_short("é" * 128)


@pytest.mark.parametrize(
    "bad", [{"timestamp": -1}, {"timestamp": 2**64}, {"priority": 256}, {"message_id": "m" * 256}]
)
def test_a_property_the_wire_cannot_hold_is_refused(bad):
    """A property outside its wire type's range is a ValueError before anything is sent."""
    with pytest.raises(ValueError, match=r"."):
        encode_header(Properties(**bad), 0)
