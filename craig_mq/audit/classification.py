"""``classify``: what an error of a database, a socket or the ledger means for a delivery.

Permanent only where the message itself is provably at fault; an outage or a systemic drift parks, so
that neither ever quarantines a backlog (ADR-059 §dispositions). The tables are in
``core.classify``; this adds what only the shell knows: the ledger's own errors, and groups.
"""

from __future__ import annotations

from typing import Final, cast

from craig_mq.audit.errors import AuditError
from craig_mq.core import classify as core
from craig_mq.core.disposition import Disposition, DlqError

# Beside the core's table: a value too large for any row, or of the wrong type for its column.
_SQLITE_MESSAGE_SPECIFIC: Final = frozenset({18, 20})  # SQLITE_TOOBIG, SQLITE_MISMATCH


def classify(error: BaseException) -> Disposition:
    """The disposition ``error`` stands for: of psycopg, sqlite3, the OS, TLS, or a group of them.

    A group is PERMANENT only if every leaf is, TRANSIENT_RETRY only if every leaf is, else
    TRANSIENT_PARK; whatever this function does not know is TRANSIENT_PARK. Any driver's exception
    with a ``sqlstate`` attribute is read by the table.

    Use it in a handler: ``raise DlqError(classify(error), source=error) from error``.
    """
    if isinstance(error, BaseExceptionGroup):
        leaves = {classify(leaf) for leaf in cast("BaseExceptionGroup[BaseException]", error).exceptions}
        return leaves.pop() if len(leaves) == 1 else Disposition.TRANSIENT_PARK
    if isinstance(error, (DlqError, AuditError)):
        return error.disposition
    if getattr(error, "sqlite_errorcode", None) in _SQLITE_MESSAGE_SPECIFIC:
        return Disposition.PERMANENT
    return core.classify(error)
