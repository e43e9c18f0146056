"""The ledger's events as metrics and log lines: audit and observe know nothing of each other."""

from __future__ import annotations

import logging

from craig_mq.audit.events import (
    AuditEvent,
    CommitResolved,
    GroupCommitted,
    GroupFailed,
    OutageBegan,
    OutageEnded,
    RowsSettled,
    ThresholdCrossed,
)
from craig_mq.observe.log import LOGGER
from craig_mq.observe.metrics import Metrics


class AuditReports:
    """What ``LedgerOptions.on_event`` calls."""

    def __init__(self, metrics: Metrics) -> None:
        """Count into ``metrics``, log to ``craig_mq``."""
        self._metrics = metrics

    def __call__(self, event: AuditEvent) -> None:
        """Report one event; text of the database goes to the log, never into a label."""
        match event:
            case RowsSettled(outcome=outcome, rows=rows):
                self._metrics.audit_rows(outcome, rows)
            case GroupCommitted(seconds=seconds):
                self._metrics.audit_commit(seconds)
            case GroupFailed(rows=rows, error_type=error_type):
                _log(logging.WARNING, "a group of audit rows failed", rows=rows, error_type=error_type)
            case CommitResolved(rows=rows, found=found):
                _log(logging.WARNING, "an unknown commit was looked up", rows=rows, found=found)
            case OutageBegan(error_type=error_type):
                _log(logging.ERROR, "the audit database is down, deliveries park", error_type=error_type)
            case OutageEnded(seconds=seconds):
                _log(logging.INFO, "the audit database is back", seconds=seconds)
            case ThresholdCrossed():
                self._metrics.alert()
                _log(
                    logging.ERROR,
                    "alert: dead letters of one kind crossed the threshold",
                    source_service=event.source_service,
                    event_type=event.event_type,
                    occurrences=event.occurrences,
                )
            case _:
                pass


def _log(level: int, message: str, **fields: object) -> None:
    LOGGER.log(level, message, extra={"fields": fields})
