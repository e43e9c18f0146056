"""Converters and validators of configuration fields: every refusal is a DlqConfigError naming the field."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeAlias, cast

import attrs

from craig_mq.core.errors import DlqConfigError

Validator: TypeAlias = Callable[[Any, "attrs.Attribute[Any]", Any], None]


def duration(value: timedelta | float) -> timedelta:
    """Take a number as seconds."""
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, bool):
        try:
            return timedelta(seconds=value)
        except (OverflowError, TypeError, ValueError):
            pass
    # What is no duration is refused by the validator, which knows the field's name.
    return cast("timedelta", value)


def optional_duration(value: timedelta | float | None) -> timedelta | None:
    """Take a number as seconds, and None as it is."""
    return None if value is None else duration(value)


def within(low_s: float, high_s: float, *, or_none: bool = False) -> Validator:
    """Ask for a duration from ``low_s`` to ``high_s`` seconds."""
    low, high = timedelta(seconds=low_s), timedelta(seconds=high_s)
    allowed = f"{duration_text(low)} to {duration_text(high)}" + (", or None" if or_none else "")

    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if value is None and or_none:
            return
        if not isinstance(value, timedelta) or not low <= value <= high:
            raise DlqConfigError(field.name, value, allowed)

    return check


def duration_text(duration: timedelta) -> str:
    """Write a duration in the largest unit that divides it."""
    seconds = duration.total_seconds()
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def whole(low: int, high: int) -> Validator:
    """Ask for an integer."""

    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise DlqConfigError(field.name, value, f"an integer from {low} to {high}")

    return check


def one_of(*choices: str) -> Validator:
    """Ask for one of these words."""

    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if value not in choices:
            raise DlqConfigError(field.name, value, "one of " + ", ".join(map(repr, choices)))

    return check
