"""A comparison as plain data and as rows of text: the same on the terminal, in JSON and in the docs."""

from __future__ import annotations

from typing import Any, Final

import attrs

from craig_mq.live.comparison import Comparison, Side
from craig_mq.live.differences import named_differences, unexplained

HEADINGS: Final = ("Message", "", "Receives", "Reason", "Effects", "Hits", "Key", "Ends")


def rows(compared: Comparison) -> list[tuple[str, ...]]:
    """Two rows a message, modeled and actual, under ``HEADINGS``."""
    actual = compared.actual
    return [
        row
        for name, side in compared.modeled.items()
        for row in ((name, "modeled", *_cells(side)), ("", "actual", *_cells(actual[name])))
    ]


def times(compared: Comparison) -> str:
    """The three marks of both in one sentence."""
    modeled, actual = compared.modeled_times, compared.actual_times
    return (
        f"Drained at {modeled.drained_at:g} s modeled, {actual.drained_at:.4g} s actual; inspected at "
        f"{modeled.inspected_at:g} s, {actual.inspected_at:.4g} s; ended at {modeled.end_at:g} s, "
        f"{actual.end_at:.4g} s."
    )


def verdict(compared: Comparison) -> str:
    """Whether it came out as modeled, in one sentence."""
    effects = sum(side.effects for side in compared.actual.values())
    if compared.agrees:
        return f"Effects ({effects}) and end states are exactly the modeled ones."
    modeled = sum(side.effects for side in compared.modeled.values())
    return f"Effects or end states differ: {effects} effects, {modeled} modeled."


def document(compared: Comparison) -> dict[str, Any]:
    """Everything as plain data."""
    return {
        "schema": "craig_mq.review.live/1",
        "parameters": compared.live.params.as_dict(),
        "second_s": compared.live.settings.second_s,
        "agrees": compared.agrees,
        "messages": {
            name: {"modeled": attrs.asdict(side), "actual": attrs.asdict(compared.actual[name])}
            for name, side in compared.modeled.items()
        },
        "times": {
            "modeled": attrs.asdict(compared.modeled_times),
            "actual": attrs.asdict(compared.actual_times),
        },
        "receives": [attrs.asdict(receive) for receive in compared.live.receives],
        "effects": [attrs.asdict(effect) for effect in compared.live.effects],
        "verdicts": compared.live.verdicts,
        "differences": [attrs.asdict(difference) for difference in named_differences(compared)],
        "unexplained": list(unexplained(compared)),
    }


def _cells(side: Side) -> tuple[str, ...]:
    receives = f"{side.receives[0]} + {side.receives[1]}"
    return (receives, side.reason or "-", str(side.effects), str(side.dedup_hits), side.key, side.status)
