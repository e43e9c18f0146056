"""The SQLite backend: where the file is, and how its schema comes about."""

from __future__ import annotations

import attrs

from craig_mq.audit.columns import as_int
from craig_mq.audit.database import Database
from craig_mq.audit.errors import SchemaOutdated
from craig_mq.audit.schema import VERSION, statements
from craig_mq.audit.sqlite.connection import SqliteDatabase

_TYPES = {
    "uuid": "TEXT",
    "text": "TEXT",
    "moment": "INTEGER",
    "bigint": "INTEGER",
    "bytes": "BLOB",
    "bool": "INTEGER",
}


@attrs.define(frozen=True, slots=True)
class SqliteBackend:
    """A ledger in the file at ``path``. One group commits at a time: SQLite has one writer anyway."""

    path: str
    busy_timeout_s: float = 5.0
    writers: int = attrs.field(default=1, init=False)
    commit_timeout_s: float | None = attrs.field(default=None, init=False)

    def connect(self) -> Database:
        """Open the file; it is created when missing."""
        return SqliteDatabase(self.path, busy_timeout_s=self.busy_timeout_s)

    def migrate(self, database: Database) -> None:
        """Bring the schema up to date under the file's write lock."""
        with database.transaction():
            [(found,)] = database.fetch("PRAGMA user_version")
            if not 0 <= as_int(found) <= VERSION:
                raise SchemaOutdated(f"{self.path} has schema {found}, this program knows {VERSION}")
            for version in range(as_int(found) + 1, VERSION + 1):
                for statement in statements(version, _TYPES):
                    database.execute(statement)
            database.execute(f"PRAGMA user_version = {VERSION}")

    def probe(self, database: Database) -> None:
        """Read the hot window."""
        database.fetch("SELECT 1 FROM occurrence LIMIT 1")

    def is_outage(self, error: Exception) -> bool:
        """Never: an embedded file fails at once, so there is no wait to spare."""
        del error
        return False
