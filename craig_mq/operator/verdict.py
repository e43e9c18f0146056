"""What a redrive of one row would do, in words; decided from data alone."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs

from craig_mq.core.capture_format import QuarantineReason
from craig_mq.operator.row import Row

_NO_ROWS: Final[Mapping[str, bool]] = MappingProxyType({})


class Verdict(enum.StrEnum):
    """The words shown everywhere."""

    ABSORBED = "absorbed"
    RUNS_AGAIN = "runs again"
    MAY_DUPLICATE = "may duplicate"
    WILL_RETURN = "will return"
    NOT_REDRIVABLE = "not redrivable"
    COPY = "copy"


@attrs.define(frozen=True, slots=True)
class Judged:
    """A row's verdict and the reason for it."""

    verdict: Verdict
    why: str


@attrs.define(frozen=True, slots=True)
class Knowledge:
    """What a verdict is judged by.

    ``now_s`` is seconds since the Unix epoch; ``hot_window_s`` how long the ledger keeps a token
    before it archives the row. ``recorded`` says of each token the ledger holds whether its row is
    still hot; None where no ledger was asked. ``redriven`` are capture ids redriven before.
    """

    queue: str
    now_s: float
    hot_window_s: float
    recorded: Mapping[str, bool] | None = None
    redriven: frozenset[str] = frozenset()
    keep_park_count: bool = False
    new_identity: bool = False


def judge(row: Row, knowledge: Knowledge, *, first: bool) -> Judged:  # noqa: PLR0911 - one a verdict
    """Say what would happen. ``first``: none before it in the plan has its key or token."""
    if row.fault is not None:
        return Judged(Verdict.NOT_REDRIVABLE, row.fault)
    if row.original_queue != knowledge.queue:
        return Judged(Verdict.NOT_REDRIVABLE, f"it was captured from another queue: {row.original_queue}")
    if not first:
        return Judged(
            Verdict.COPY, "an earlier message of this plan is the same capture or carries the same token"
        )
    if row.key in knowledge.redriven:
        return Judged(Verdict.COPY, "this capture was redriven before: the audit ledger knows it")
    if knowledge.keep_park_count and row.reason == QuarantineReason.PARK_CAP_EXHAUSTED.value:
        return Judged(Verdict.WILL_RETURN, "its park count is kept, so the next park is over the cap again")
    if row.token is None or knowledge.new_identity:
        return Judged(Verdict.MAY_DUPLICATE, "it has no token of an earlier run: nothing absorbs a repeat")
    return _by_token(row, row.token, knowledge)


def _by_token(row: Row, token: str, knowledge: Knowledge) -> Judged:
    recorded = knowledge.recorded or _NO_ROWS
    if token in recorded:
        if recorded[token]:
            return Judged(Verdict.ABSORBED, "its row is in the hot window: a repeat is absorbed")
        return Judged(Verdict.MAY_DUPLICATE, "its row is archived: the message was kept, its token is free")
    if knowledge.recorded is not None:
        return Judged(Verdict.RUNS_AGAIN, "the ledger has no row of its token yet")
    age_s = None if row.at_s is None else knowledge.now_s - row.at_s
    if age_s is None or age_s > knowledge.hot_window_s:
        return Judged(Verdict.MAY_DUPLICATE, "it is older than the hot window: a row it had is archived")
    return Judged(
        Verdict.RUNS_AGAIN, "its token is younger than the hot window: a recorded repeat is absorbed"
    )
