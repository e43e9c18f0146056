"""Recognising a delivery that comes again (decisions, 8)."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craig_mq.core.delivery import Properties
from craig_mq.core.identity import ConfirmedUnacked, delivery_identity

Make = Callable[..., Any]


def test_a_redelivery_has_the_identity_of_its_first_delivery(deliver: Make) -> None:
    """Tag, redelivered flag and the broker's take counters do not count; the order of headers neither."""
    first = deliver(b"body", properties=Properties(headers={"a": 1, "b": {"c": [2]}}))
    again = deliver(
        b"body",
        delivery_tag=77,
        redelivered=True,
        properties=Properties(
            headers={"x-delivery-count": 3, "b": {"c": [2]}, "x-acquired-count": 1, "a": 1}
        ),
    )
    assert delivery_identity(first) == delivery_identity(again)
    assert len(delivery_identity(first)) == 32


@pytest.mark.parametrize(
    "change",
    [
        {"routing_key": "dlq.other"},
        {"properties": Properties(message_id="m")},
        {"properties": Properties(type="m")},
        {"properties": Properties(headers={"x-death": [{"time": 2}]})},
        {"properties": Properties(headers={"x-death": [{"time": "1"}]})},
        {"properties": Properties(headers={"x-death": [{"time": Decimal(1)}]})},
        {"properties": Properties(headers={"x-death": [{"time": True}]})},
        {"undecodable": b""},
    ],
)
def test_any_other_difference_is_another_delivery(deliver: Make, change: dict[str, Any]) -> None:
    """Routing key, properties, headers with x-death, their types, and raw header bytes all count."""
    base = {"properties": Properties(headers={"x-death": [{"time": 1}]})}
    assert delivery_identity(deliver(b"body", **base)) != delivery_identity(
        deliver(b"body", **{**base, **change})
    )
    assert delivery_identity(deliver(b"body", **base)) != delivery_identity(deliver(b"bodx", **base))


def test_absurd_nesting_still_has_an_identity(deliver: Make) -> None:
    """Headers nested beyond the interpreter's recursion are identified by their bounded form."""
    value: Any = 1
    for _ in range(5_000):
        value = [value]
    nested = deliver(b"body", properties=Properties(headers={"deep": value}))
    assert delivery_identity(nested) == delivery_identity(nested)
    assert delivery_identity(nested) != delivery_identity(deliver(b"body"))
    while isinstance(value, list):  # taken apart by hand: its own destructor recurses
        value = value[0]


@given(st.text(st.characters(), max_size=9), st.text(st.characters(), max_size=9))
def test_texts_do_not_run_into_each_other(deliver: Make, left: str, right: str) -> None:
    """Two deliveries whose texts differ never share an identity, surrogates included."""
    one = delivery_identity(deliver(b"", routing_key=left, properties=Properties(message_id=right)))
    other = delivery_identity(deliver(b"", routing_key=right, properties=Properties(message_id=left)))
    assert (one == other) == (left == right)


def test_an_entry_serves_once() -> None:
    """A remembered delivery is absorbed exactly once; an unknown one never."""
    memory = ConfirmedUnacked()
    memory.remember(b"a")
    memory.remember(b"a")
    assert len(memory) == 1
    assert memory.absorb(b"a")
    assert not memory.absorb(b"a")
    assert not memory.absorb(b"b")


def test_the_memory_keeps_the_latest_thousand() -> None:
    """The 1,001st entry drops the oldest; remembering again makes an entry the newest."""
    memory = ConfirmedUnacked()
    for number in range(1_000):
        memory.remember(b"%d" % number)
    memory.remember(b"0")
    memory.remember(b"new")
    assert len(memory) == 1_000
    assert memory.absorb(b"0")
    assert not memory.absorb(b"1")


def test_a_memory_of_nothing_is_refused() -> None:
    """A limit below 1 raises ValueError."""
    with pytest.raises(ValueError, match="at least 1"):
        ConfirmedUnacked(limit=0)
