"""Delays and instants, with time as an argument (ADR-059 §retry; field failure CLK-03)."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from functools import lru_cache

RETRY_STEP_S = 0.1
RETRY_JITTER_S = 0.1

# RFC 3339 with an offset and at most nine fractional digits. fromisoformat alone is too lenient:
# it reads week dates and naive times, and cuts nanoseconds.
_RFC3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])"
    r"(?:\.([0-9]{1,9}))?(?:[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
_MICROS = 1_000_000
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 -- naive arithmetic cannot overflow on an offset


def retry_delay(invocation: int, jitter: float, *, max_invocations: int = 10) -> float:
    """Return the seconds to wait after invocation ``invocation`` (1-based) failed (ADR-059 §retry).

    100 ms times ``invocation``, plus ``jitter`` (0..1) times 100 ms. Checked arithmetic: numbers
    outside 1..max_invocations and 0..1 raise ValueError, they never wrap or wait for ever.
    """
    if not 1 <= invocation <= max_invocations:
        raise ValueError(f"invocation must be in 1..{max_invocations}, not {invocation}")
    if not 0.0 <= jitter <= 1.0:
        raise ValueError(f"jitter must be in 0..1, not {jitter}")
    return RETRY_STEP_S * invocation + RETRY_JITTER_S * jitter


def is_instant(text: str) -> bool:
    """Whether ``text`` is an RFC 3339 instant with an offset that a calendar has (no second 60)."""
    match = _RFC3339.fullmatch(text)
    return match is not None and _is_date(match[1])


def instant_seconds(text: str) -> float:
    """Return an RFC 3339 instant as seconds since the Unix epoch.

    Raises ValueError for anything ``is_instant`` refuses. Years 1 and 9999 with any offset are fine:
    the result is a float, so nothing overflows.
    """
    match = _RFC3339.fullmatch(text)
    if match is None or not _is_date(match[1]):
        raise ValueError(f"not an RFC 3339 instant with an offset: {text[:64]!r}")
    date, hour, minute, second, fraction, sign, offset_hour, offset_minute = match.groups()
    days = (datetime.fromisoformat(date) - _EPOCH).days
    seconds = days * 86_400 + int(hour) * 3_600 + int(minute) * 60 + int(second)
    if sign is not None:
        offset = int(offset_hour) * 3_600 + int(offset_minute) * 60
        seconds += offset if sign == "-" else -offset
    return seconds + (float("0." + fraction) if fraction else 0.0)


def format_instant(seconds: float) -> str:
    """Write seconds since the Unix epoch (years 1..9999) as RFC 3339 in UTC with microseconds."""
    whole = math.floor(seconds)
    micros = round((seconds - whole) * 1e6)
    if micros == _MICROS:
        whole, micros = whole + 1, 0
    return f"{_to_the_second(whole)}.{micros:06d}Z"


@lru_cache(maxsize=16)
def _to_the_second(seconds: int) -> str:
    # Thousands of captures a second share one of these.
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:-6]


@lru_cache(maxsize=64)
def _is_date(text: str) -> bool:
    # The messages of an hour share one or two of these.
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
