"""The audit ledger: a committed row is one of the two kinds of evidence that permit an ack."""

from __future__ import annotations

from craig_mq.audit.classification import classify
from craig_mq.audit.group import GroupLimits
from craig_mq.audit.handler import record
from craig_mq.audit.ledger import Ledger, LedgerOptions
from craig_mq.audit.opening import open_store
from craig_mq.audit.reading import AuditStats, RowFilter
from craig_mq.audit.row import (
    AuditRow,
    Divergent,
    Phantom,
    Recorded,
    RowOutcome,
    StoredRow,
    Tokenless,
)
from craig_mq.audit.store import AuditStore

__all__ = [
    "AuditRow",
    "AuditStats",
    "AuditStore",
    "Divergent",
    "GroupLimits",
    "Ledger",
    "LedgerOptions",
    "Phantom",
    "Recorded",
    "RowFilter",
    "RowOutcome",
    "StoredRow",
    "Tokenless",
    "classify",
    "open_store",
    "record",
]
