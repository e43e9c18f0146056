"""Errors of the ledger, by whose fault they are.

AuditError
├── StoreUrlError        the caller's: not a URL the ledger can open
├── SchemaOutdated       the operator's: the schema is older or newer than this program
├── StoreClosed          the caller's: the store was closed before the row was committed
├── StoreUnavailable     the database's: known to be down, the delivery goes straight to parking
├── CommitUnresolved     the database's: a commit's outcome could not be looked up
├── CanonicalRowMissing  a race with the pruner: a retry records the occurrence
├── UnreadableRow        the database's: a column was changed from outside into what it can't hold
├── UnstorableRow        the message's: this row can never be written
└── ExportError          the export's: a file is missing, changed, or out of order
"""

from __future__ import annotations

from typing import ClassVar

from craig_mq.core.disposition import Disposition


class AuditError(Exception):
    """Anything the ledger raises itself; ``disposition`` is what a handler should make of it."""

    disposition: ClassVar[Disposition] = Disposition.TRANSIENT_PARK


class StoreUrlError(AuditError):
    """The URL is not ``sqlite:///FILE`` or ``postgresql://…``."""


class SchemaOutdated(AuditError):
    """The database's schema version is not this program's, and this role may not migrate it."""


class StoreClosed(AuditError):
    """The store closed before this row was committed; nothing was written for it."""


class StoreUnavailable(AuditError):
    """The database is known to be down: no attempt was made (ADR-059 §dispositions, outage short-circuit)."""


class CommitUnresolved(AuditError):
    """The connection died around a commit and the row could not be looked up: it may or may not exist."""


class CanonicalRowMissing(AuditError):
    """The row that holds the token left the hot window during the phantom check (ADR-059 §dispositions)."""

    disposition = Disposition.TRANSIENT_RETRY


class UnreadableRow(AuditError):
    """A column holds a value of a kind that was never written there: the table was changed from outside."""


class UnstorableRow(AuditError):
    """The row can't be represented in the database, whatever its state: the message's own fault."""

    disposition = Disposition.PERMANENT


class ExportError(AuditError):
    """An export is incomplete, changed, or not an export."""
