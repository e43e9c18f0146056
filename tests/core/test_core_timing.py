"""Delays and instants (ADR-059 §retry; field failure CLK-03)."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craig_mq.core.timing import format_instant, instant_seconds, is_instant, retry_delay

GOOD = {
    "2026-01-01T00:00:00-07:28": 1_767_225_600 + 7 * 3_600 + 28 * 60,
    "2026-01-01T00:00:00Z": 1_767_225_600,
    "2026-01-01t00:00:00z": 1_767_225_600,
    "2026-01-01T00:00:00+00:00": 1_767_225_600,
    "2026-01-01T00:00:00.123456789Z": 1_767_225_600.123456789,
    "9999-12-31T23:59:59Z": 253_402_300_799,
    "0001-01-01T00:00:00+14:00": -62_135_596_800 - 14 * 3_600,
    "2024-02-29T23:59:59.9-00:00": 1_709_251_199.9,
}
BAD = [
    "2026-01-01T00:00:00",  # naive
    "2026-W01-1",
    "2026-01-01",
    "2026-01-01T23:59:60Z",
    "2026-02-30T00:00:00Z",
    "2026-13-01T00:00:00Z",
    "0000-01-01T00:00:00Z",
    "2026-01-01T24:00:00Z",
    "2026-01-01T00:60:00Z",
    "2026-01-01T00:00:00+24:00",
    "2026-01-01T00:00:00+00:60",
    "2026-01-01T00:00:00.Z",
    "2026-01-01T00:00:00.1234567890Z",
    "2026-01-01 00:00:00Z",
    "2026-01-01T00:00:00Z\n",
    "\uff12026-01-01T00:00:00Z",
    "1767225600",
    "",
]


@pytest.mark.parametrize(("text", "seconds"), GOOD.items())
def test_an_instant_with_offset_is_read(text: str, seconds: float) -> None:
    """CLK-03: RFC 3339 with any offset, nine digits, year 1 and year 9999 are instants and never overflow."""
    assert is_instant(text)
    assert instant_seconds(text) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize("text", BAD)
def test_anything_else_is_no_instant(text: str) -> None:
    """CLK-03: naive times, week dates, second 60 and other spellings are refused, never guessed."""
    assert not is_instant(text)
    with pytest.raises(ValueError, match="not an RFC 3339 instant"):
        instant_seconds(text)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_the_local_time_zone_changes_no_verdict(zone: str) -> None:
    """CLK-03: under any TZ the same instants are read as the same seconds."""
    code = (
        "from craig_mq.core.timing import instant_seconds, format_instant, is_instant;"
        "print(instant_seconds('2026-03-08T02:30:00-05:00'), format_instant(1772953800));"
        "print(is_instant('2026-03-08T02:30:00'))"
    )
    environment = {**os.environ, "TZ": zone}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.split() == ["1772955000.0", "2026-03-08T07:10:00.000000Z", "False"]


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=st.just(UTC)))  # noqa: DTZ001
def test_writing_and_reading_agree(moment: datetime) -> None:
    """An instant written is an instant read, to the microsecond a float can hold."""
    seconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(seconds=1)
    text = format_instant(seconds)
    assert is_instant(text)
    assert instant_seconds(text) == pytest.approx(seconds, abs=1e-4)


def test_the_retry_delay_grows_by_a_tenth_and_jitters_by_one() -> None:
    """The delay after invocation n is 100 ms times n plus 0 to 100 ms."""
    assert [retry_delay(n, 0.0) for n in (1, 2, 10)] == pytest.approx([0.1, 0.2, 1.0])
    assert retry_delay(1, 1.0) == pytest.approx(0.2)
    assert retry_delay(3, 0.5) == pytest.approx(0.35)


@pytest.mark.parametrize(
    ("invocation", "jitter"), [(0, 0.0), (11, 0.0), (-1, 0.5), (1, 1.01), (1, -0.01), (1, float("nan"))]
)
def test_the_retry_delay_is_checked(invocation: int, jitter: float) -> None:
    """An invocation or jitter out of its range raises ValueError."""
    with pytest.raises(ValueError, match="must be in"):
        retry_delay(invocation, jitter)
