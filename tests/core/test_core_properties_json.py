"""Properties as JSON without loss (decisions, the formats)."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craig_mq.core.delivery import NO_PROPERTIES, Properties
from craig_mq.core.properties_json import MAX_TABLE_DEPTH, headers_from_json, properties_to_json

WIRE_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(st.characters())
    | st.binary(max_size=8)
    | st.decimals(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and left.keys() == right.keys()
            and all(_same(left[k], right[k]) for k in left)
        )
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, float) and math.isnan(left):
        return isinstance(right, float) and math.isnan(right)
    return type(left) is type(right) and left == right


@given(st.dictionaries(st.text(max_size=6), WIRE_VALUES, max_size=4))
def test_headers_come_back_with_their_types(headers: dict[str, Any]) -> None:
    """Any table of wire values read back is the same table, bytes, decimals, NaN and surrogates included."""
    assert _same(headers_from_json(properties_to_json(Properties(headers=headers))), headers)


@given(st.dictionaries(st.text(max_size=6), WIRE_VALUES, max_size=4))
def test_the_object_is_strict_json(headers: dict[str, Any]) -> None:
    """Whatever the headers, a strict parser reads the object."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    text = properties_to_json(Properties(headers=headers))
    assert isinstance(json.loads(text, parse_constant=refuse), dict)


def test_only_set_properties_are_written() -> None:
    """Absent properties and empty headers leave no trace; the rest keep their names."""
    assert properties_to_json(NO_PROPERTIES) == b"{}"
    assert properties_to_json(Properties()) == b"{}"
    assert json.loads(properties_to_json(Properties(message_id="", priority=0, timestamp=2**64 - 1))) == {
        "message_id": "",
        "priority": 0,
        "timestamp": 2**64 - 1,
    }


def test_the_marks_are_as_documented() -> None:
    """Each value JSON cannot hold has its own documented form."""
    headers = {
        "b": b"\xff\xfe",
        "ba": bytearray(b"a"),
        "d": Decimal("1.50"),
        "f": float("-inf"),
        "s": "\ud800",
        "t": {"$x": 1, "y": [2]},
        "u": {1: "one"},
        "o": object(),
        "m": MappingProxyType({"k": (1,)}),
    }
    assert json.loads(properties_to_json(Properties(headers=headers)))["headers"] == {
        "b": {"$bytes": "//4="},
        "ba": {"$bytes": "YQ=="},
        "d": {"$decimal": "1.50"},
        "f": {"$float": "-inf"},
        "s": {"$text": "7aCA"},
        "t": {"$table": [["$x", 1], ["y", [2]]]},
        "u": {"$table": [[1, "one"]]},
        "o": {"$unreadable": "object"},
        "m": {"k": [1]},
    }


def test_the_raw_header_of_an_undecodable_delivery_is_kept() -> None:
    """PROP-01: the content header that could not be read travels as bytes beside what could."""
    written = json.loads(properties_to_json(Properties(content_type="text/plain"), b"\x00\xff"))
    assert written == {"content_type": "text/plain", "$raw_header": {"$bytes": "AP8="}}
    assert json.loads(properties_to_json(NO_PROPERTIES, b"")) == {"$raw_header": {"$bytes": ""}}


@pytest.mark.parametrize(
    "wrap", [lambda inner: [inner], lambda inner: {"k": inner}, lambda inner: {1: inner}]
)
def test_absurd_nesting_is_cut_not_crashed(wrap: Any) -> None:
    """Tables nested thousands deep are cut at a fixed depth and still written."""
    value: Any = 1
    for _ in range(5_000):
        value = wrap(value)
    text = properties_to_json(Properties(headers={"deep": value})).decode()
    assert "nested too deep" in text
    assert text.count("[") + text.count("{") < 4 * MAX_TABLE_DEPTH
    while not isinstance(value, int):  # taken apart by hand: its own destructor recurses
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]


@pytest.mark.parametrize(
    "document",
    [
        b"{}",
        b"[]",
        b"not json",
        b'{"headers":[]}',
        b'{"headers":{"x":{"$bytes":"*"}}}',
        b'{"headers":{"x":{"$decimal":"x"}}}',
        b'{"headers":{"x":{"$float":"x"}}}',
        b'{"headers":{"x":{"$text":"/w=="}}}',
        b'{"headers":{"x":{"$table":[1]}}}',
        b'{"headers":{"x":{"$table":[[[],1]]}}}',
        b'{"headers":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    ],
)
def test_a_forged_object_gives_no_headers(document: bytes) -> None:
    """Whatever a capture holds under original_properties, reading its headers never raises."""
    assert headers_from_json(document) == {}


def test_an_unknown_mark_stays_as_it_is() -> None:
    """An object with an unknown mark is left alone."""
    assert headers_from_json(b'{"headers":{"x":{"$new":1},"y":{"$bytes":2}}}') == {
        "x": {"$new": 1},
        "y": {"$bytes": 2},
    }
