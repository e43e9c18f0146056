"""The language of conditions."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from craig_mq.core.delivery import Delivery
from craig_mq.operator.errors import BadCondition
from craig_mq.operator.row import read_row
from craig_mq.operator.where import FIELDS, parse_condition, parse_duration, parse_where, selects


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("reason", "is no condition"),
        ("colour=red", "there is no field 'colour'; the fields are key, reason"),
        ("reason>3", "reason is a text"),
        ("size~3", "size is a number"),
        ("age>3 fortnights", "no value of age: write 90s, 15m, 2h or 7d"),
        ("size>3d", "no value of size"),
        ("park_count>2h", "no value of park_count"),
    ],
)
def test_a_condition_that_cannot_be_read_says_what_is_allowed(text: str, says: str) -> None:
    """A bad condition is refused with the field, the operators or the units that would have been right."""
    with pytest.raises(BadCondition, match=says):
        parse_condition(text)


def test_durations_have_units() -> None:
    """Ages are written in seconds, minutes, hours and days."""
    assert [parse_duration(text) for text in ("90", "90s", "1.5m", "2h", "7d")] == [
        90,
        90,
        90,
        7_200,
        604_800,
    ]


@given(st.binary(max_size=200))
def test_any_bytes_are_a_row(body: bytes) -> None:
    """Whatever lies in a quarantine queue can be listed, under the digest of its body if it is no capture."""
    row = read_row(Delivery(1, "", "q", False, body), 0)
    assert row.key == f"sha256:{row.sha256}"
    assert row.fault is not None
    assert selects(parse_where(["reason=no_capture", f"size={len(body)}"]), row, 0.0)


@given(st.sampled_from(FIELDS), st.sampled_from(["=", "!="]), st.integers(0, 5))
def test_equal_and_unequal_are_opposites(field: str, order: str, number: int) -> None:
    """For every field and row exactly one of = and != holds."""
    row = attrs.evolve(read_row(Delivery(1, "", "q", False, b"x"), 0), at_s=0.0, park_count=number)
    other = "=" if order == "!=" else "!="
    both = [parse_condition(f"{field}{sign}3").holds(row, 3.0) for sign in (order, other)]
    assert sorted(both) == [False, True]
