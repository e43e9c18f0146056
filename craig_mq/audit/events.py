"""Typed events of the ledger. They carry no body and no credential; times are in seconds.

The ledger decides nothing about them: whoever opens a store passes ``on_event`` and turns these
into metrics and log lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, Literal, TypeAlias

import attrs

from craig_mq.audit.row import Divergent, Phantom, Recorded, Tokenless

OutcomeName: TypeAlias = Literal["recorded", "phantom", "divergent", "tokenless"]

OUTCOME_NAMES: Final[Mapping[type[object], OutcomeName]] = {
    Recorded: "recorded",
    Phantom: "phantom",
    Divergent: "divergent",
    Tokenless: "tokenless",
}


@attrs.define(frozen=True, slots=True)
class AuditEvent:
    """Anything the ledger reports."""


@attrs.define(frozen=True, slots=True)
class GroupCommitted(AuditEvent):
    """A group was committed: ``rows`` deliveries answered, ``failed`` of them with an error of their own."""

    rows: int
    failed: int
    seconds: float


@attrs.define(frozen=True, slots=True)
class GroupFailed(AuditEvent):
    """A whole group failed and its transaction wrote nothing that could be found."""

    rows: int
    error_type: str
    text: str


@attrs.define(frozen=True, slots=True)
class RowsSettled(AuditEvent):
    """``rows`` deliveries of one group had this outcome (``dlq_audit_rows_total``)."""

    outcome: OutcomeName
    rows: int


@attrs.define(frozen=True, slots=True)
class CommitResolved(AuditEvent):
    """A connection died around a commit; ``found`` of ``rows`` were found by looking them up."""

    rows: int
    found: int


@attrs.define(frozen=True, slots=True)
class OutageBegan(AuditEvent):
    """The database is down: deliveries go straight to parking until a probe succeeds."""

    error_type: str
    text: str


@attrs.define(frozen=True, slots=True)
class OutageEnded(AuditEvent):
    """A probe reached the database again after ``seconds``."""

    seconds: float


@attrs.define(frozen=True, slots=True)
class ThresholdCrossed(AuditEvent):
    """At least ``threshold`` occurrences of one kind within the last hour; once per window.

    ``occurrences`` is how many were counted, which stops at ``threshold``.
    """

    source_service: str
    event_type: str
    threshold: int
    occurrences: int
    fired_at: datetime


@attrs.define(frozen=True, slots=True)
class AlertCheckFailed(AuditEvent):
    """The rows are committed, but the threshold could not be evaluated; the next group tries again."""

    text: str


AuditObserver: TypeAlias = Callable[[AuditEvent], None]


def ignore(event: AuditEvent) -> None:
    """Drop ``event``: the observer of a store nobody watches."""
    del event
