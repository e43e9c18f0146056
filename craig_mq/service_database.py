"""The service's own database, as inbox and outbox use it: their tables live beside the service's.

SQL is written once with ``?`` placeholders, as in the ledger. PostgreSQL's driver is imported only
when a URL asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from craig_mq.audit.database import Database
from craig_mq.audit.errors import StoreUrlError
from craig_mq.audit.sqlite.connection import SqliteDatabase
from craig_mq.core.errors import DlqConfigError

_SQLITE: Final = "sqlite:///"
_POSTGRES: Final = ("postgresql://", "postgres://")
_TYPES: Final[Mapping[str, Mapping[str, str]]] = {
    "sqlite": {"serial": "INTEGER PRIMARY KEY AUTOINCREMENT", "bytes": "BLOB"},
    "postgres": {"serial": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "bytes": "bytea"},
}
_SCHEMA_LOCK: Final = 0x63726169675F7376
CONNECT_TIMEOUT_S: Final = 3
BUSY_TIMEOUT_S: Final = 5.0


def sqlite_path(url: str) -> Path | None:
    """Return the file a URL names, None for a server."""
    return Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None


def connector(url: str) -> Callable[[], Database]:
    """Return what opens a connection to ``sqlite:///FILE`` or ``postgresql://…``.

    Raises DlqConfigError at once for any other URL; the text holds no part of it.
    """
    path = sqlite_path(url)
    if path is not None and path.name not in {"", ":memory:"}:
        return lambda: SqliteDatabase(str(path), busy_timeout_s=BUSY_TIMEOUT_S)
    if not url.startswith(_POSTGRES):
        raise DlqConfigError("url", "…", "sqlite:///FILE or postgresql://…")
    from craig_mq.audit.postgres.settings import checked_url

    try:
        checked_url(url)
    except StoreUrlError as error:
        raise DlqConfigError("url", "…", str(error)) from error

    def connect() -> Database:
        import psycopg

        from craig_mq.audit.postgres.connection import PostgresDatabase

        connection = psycopg.connect(
            url, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S, client_encoding="utf8"
        )
        return PostgresDatabase(connection)

    return connect


def create_tables(database: Database, statements: Sequence[str]) -> None:
    """Create what is missing; ``{serial}`` and ``{bytes}`` are spelled as the database does.

    Safe from many processes at once: SQLite locks the file, PostgreSQL takes an advisory lock.
    """
    types = _TYPES["sqlite" if database.exclusive else "postgres"]
    with database.transaction():
        if not database.exclusive:
            database.fetch("SELECT pg_advisory_xact_lock(?)::text", (_SCHEMA_LOCK,))
        for statement in statements:
            database.execute(statement.format_map(types))
