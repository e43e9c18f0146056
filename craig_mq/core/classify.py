"""What a handler's storage error means for its message (ADR-059 §taxonomy; decisions, the audit ledger).

PERMANENT only for what is provably message-specific. Systemic drift (missing tables, unknown codes,
decode and schema errors) must never quarantine a whole backlog, so it parks. Drivers are recognised
by the attributes they document, so none is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from craig_mq.core.disposition import Disposition
from craig_mq.core.errors import EnvelopeNotSerializable

SQLSTATE_CLASSES: Mapping[str, Disposition] = MappingProxyType(
    {
        "22": Disposition.PERMANENT,  # data exception
        "23": Disposition.PERMANENT,  # integrity constraint violation
        "40": Disposition.TRANSIENT_RETRY,  # transaction rollback: serialisation, deadlock
        "08": Disposition.TRANSIENT_PARK,  # connection exception
        "53": Disposition.TRANSIENT_PARK,  # insufficient resources
        "57": Disposition.TRANSIENT_PARK,  # operator intervention
        "42": Disposition.TRANSIENT_PARK,  # syntax error or access rule violation: our drift
    }
)

SQLITE_PRIMARY_CODES: Mapping[int, Disposition] = MappingProxyType(
    {
        5: Disposition.TRANSIENT_RETRY,  # SQLITE_BUSY
        6: Disposition.TRANSIENT_RETRY,  # SQLITE_LOCKED
        10: Disposition.TRANSIENT_PARK,  # SQLITE_IOERR
        13: Disposition.TRANSIENT_PARK,  # SQLITE_FULL
        19: Disposition.PERMANENT,  # SQLITE_CONSTRAINT
    }
)


def sqlstate_disposition(sqlstate: str | None) -> Disposition:
    """Classify a SQLSTATE by its class, the first two characters. Unknown or absent: TRANSIENT_PARK."""
    return SQLSTATE_CLASSES.get((sqlstate or "")[:2], Disposition.TRANSIENT_PARK)


def sqlite_disposition(error_code: int) -> Disposition:
    """Classify an SQLite result code, primary or extended. Unknown: TRANSIENT_PARK."""
    return SQLITE_PRIMARY_CODES.get(error_code & 0xFF, Disposition.TRANSIENT_PARK)


def classify(error: BaseException) -> Disposition:
    """Classify what a handler caught; the fail-safe default is TRANSIENT_PARK.

    Reads ``sqlstate`` (psycopg, asyncpg) or ``sqlite_errorcode`` (sqlite3). A unique violation on the
    token is deduplication and must not get here.
    """
    if isinstance(error, EnvelopeNotSerializable):
        return Disposition.PERMANENT
    sqlstate = getattr(error, "sqlstate", None)
    if isinstance(sqlstate, str):
        return sqlstate_disposition(sqlstate)
    sqlite_code = getattr(error, "sqlite_errorcode", None)
    return sqlite_disposition(sqlite_code) if isinstance(sqlite_code, int) else Disposition.TRANSIENT_PARK
