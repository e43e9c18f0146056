"""Threshold alerts: a burst of one kind of occurrence within the sliding hour, once per window.

The state is in the database, so a restart or another replica never fires the same window again
(ADR-059 §threshold). Evaluated after the commit that added the rows: replicas that commit at the same
time would not see each other's rows before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from craig_mq.audit.columns import as_int
from craig_mq.audit.database import Database
from craig_mq.audit.events import ThresholdCrossed
from craig_mq.audit.row import AuditRow

WINDOW: Final = timedelta(hours=1)
CLOCK_TOLERANCE: Final = timedelta(minutes=1)  # a producer's clock may be ahead; a far future never fires

Kind: TypeAlias = tuple[str, str]

# LIMIT keeps the count as cheap as the threshold is low, however big the burst.
_COUNT = """SELECT count(*) FROM (
  SELECT 1 FROM occurrence
  WHERE source_service = ? AND event_type = ? AND occurred_at > ? AND occurred_at <= ? LIMIT ?) AS burst"""

_FIRE = """INSERT INTO alert (source_service, event_type, fired_at, occurrences) VALUES (?, ?, ?, ?)
ON CONFLICT (source_service, event_type)
DO UPDATE SET fired_at = excluded.fired_at, occurrences = excluded.occurrences WHERE alert.fired_at <= ?"""


def kinds_in_window(rows: Iterable[AuditRow], now: datetime) -> set[Kind]:
    """The (source_service, event_type) of ``rows`` that occurred within the hour before ``now``.

    A parked return carries its original ``occurred_at``: inside the hour it counts, older it never fires.
    """
    since, until = now - WINDOW, now + CLOCK_TOLERANCE
    return {(row.source_service, row.event_type) for row in rows if since < row.occurred_at <= until}


def evaluate(
    database: Database, kinds: Iterable[Kind], *, threshold: int, now: datetime
) -> list[ThresholdCrossed]:
    """The alerts that fire now for ``kinds``; each fires for one caller only, in one process only."""
    fired: list[ThresholdCrossed] = []
    for service, event_type in sorted(kinds):
        [(count,)] = database.fetch(
            _COUNT, (service, event_type, now - WINDOW, now + CLOCK_TOLERANCE, threshold)
        )
        occurrences = as_int(count)
        if occurrences < threshold:
            continue
        with database.transaction():
            changed = database.execute(_FIRE, (service, event_type, now, occurrences, now - WINDOW))
        if changed:
            fired.append(ThresholdCrossed(service, event_type, threshold, occurrences, now))
    return fired
