"""*What would happen?*: the review's experiment with a message's own numbers.

The experiment counts in modeled seconds up to 300, a message waits for days: one scale brings the message's
age and the ledger's hot window into range, and keeps which of the two is longer.
"""

from __future__ import annotations

import math
from typing import Final

from craig_mq.operator.row import Row
from craig_mq.operator.verdict import Knowledge
from craig_mq.review import Params, to_query
from craig_mq.review.params import BY_NAME, WholeNumber

_LONGEST_S: Final = 240
_RETENTION_S: Final = 300
"""Quarantine has no TTL: the experiment's own must outlast every wait."""


def experiment_query(row: Row, knowledge: Knowledge) -> str:
    """The share query of the experiment for this message.

    Attempts become receives, its age the operator's wait, the hot window the results' retention. A message
    whose effect is recorded is the model's *uncertain* one, any other its *poison* one.
    """
    age_s = 0.0 if row.at_s is None else max(0.0, knowledge.now_s - row.at_s)
    wait, retention = scaled(age_s, knowledge.hot_window_s)
    recorded = row.token is not None and row.token in (knowledge.recorded or {})
    receives = BY_NAME["max_receives"].domain
    assert isinstance(receives, WholeNumber)  # noqa: S101 - for the type checker: the table says so
    return to_query(
        Params(
            max_receives=min(max(row.attempts, receives.low), receives.high),
            retry_interval=1,
            operator_wait=wait,
            action="uncertain" if recorded else "poison",
            dedup=row.token is not None,
            identity="new" if knowledge.new_identity else "stable",
            result_retention=retention,
            quarantine_retention=_RETENTION_S,
        )
    )


def scaled(age_s: float, window_s: float) -> tuple[int, int]:
    """Age and window in modeled seconds, at most 240, in their own order."""
    scale = max(1.0, max(age_s, window_s) / _LONGEST_S)
    age, window = round(age_s / scale), round(window_s / scale)
    if age_s > window_s and age <= window:
        return window + 1, window
    if age_s < window_s and age >= window:
        return age, age + 1
    return age, window


def scale_words(age_s: float, window_s: float) -> str:
    """What one modeled second stands for."""
    seconds = max(age_s, window_s) / _LONGEST_S
    if seconds <= 1:
        return "one modeled second is one second"
    return f"one modeled second stands for {math.ceil(seconds):,} s"
