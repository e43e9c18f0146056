"""The PostgreSQL backend: connecting, migrating under a lock, telling an outage from a refusal."""

from __future__ import annotations

from typing import Final

import attrs
import psycopg

from craig_mq.audit.classification import classify
from craig_mq.audit.columns import as_int
from craig_mq.audit.database import Database
from craig_mq.audit.errors import SchemaOutdated
from craig_mq.audit.postgres.connection import MIGRATION_LOCK, PostgresDatabase
from craig_mq.audit.postgres.settings import SCHEMA, PostgresSettings
from craig_mq.audit.schema import VERSION, statements
from craig_mq.core.disposition import Disposition

_TYPES: Final = {
    "uuid": "uuid",
    "text": "text",
    "moment": "timestamptz",
    "bigint": "bigint",
    "bytes": "bytea",
    "bool": "boolean",
}


@attrs.define(frozen=True, slots=True)
class PostgresBackend:
    """A ledger in the schema ``craig_audit`` of the database at ``url``.

    ``writers`` groups commit at a time, each on its own connection.
    """

    url: str = attrs.field(repr=False)
    settings: PostgresSettings = attrs.field(factory=PostgresSettings)
    writers: int = attrs.field(default=2, validator=attrs.validators.in_(range(1, 17)))

    @property
    def commit_timeout_s(self) -> float:
        """How long a commit may wait for one connection before it is cut."""
        return self.settings.commit_timeout_s

    def connect(self) -> Database:
        """Open a connection within the connect timeout."""
        return PostgresDatabase(psycopg.connect(self.settings.conninfo(self.url), autocommit=True))

    def migrate(self, database: Database) -> None:
        """Bring the schema up to date; replicas that start together wait for the first one's migration."""
        if _version(database) == VERSION:
            return
        try:
            with database.transaction():
                database.execute("SET LOCAL lock_timeout = '60s'")
                database.execute("SET LOCAL statement_timeout = 0")
                database.execute("SELECT pg_advisory_xact_lock(?)", (MIGRATION_LOCK,))
                self._migrate_locked(database)
        except psycopg.errors.InsufficientPrivilege as error:
            raise SchemaOutdated(
                "the ledger's schema is missing or old, and this role may not change it:"
                " open the store once as the owner"
            ) from error

    def _migrate_locked(self, database: Database) -> None:
        found = _version(database)
        if found > VERSION:
            raise SchemaOutdated(f"the database has schema {found}, this program knows {VERSION}")
        if found == 0:
            database.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
            database.execute("CREATE TABLE schema_version (version bigint NOT NULL)")
            database.execute("INSERT INTO schema_version VALUES (0)")
        for version in range(found + 1, VERSION + 1):
            for statement in statements(version, _TYPES):
                database.execute(statement)
        database.execute("UPDATE schema_version SET version = ?", (VERSION,))

    def probe(self, database: Database) -> None:
        """Read what a commit needs; waits for locks only within the lock timeout."""
        database.fetch("SELECT 1 FROM occurrence LIMIT 1")
        database.fetch("SELECT 1 FROM writer LIMIT 1")

    def is_outage(self, error: Exception) -> bool:
        """Whether the server is gone, full, frozen or shutting down (classes 08, 53, 57, no SQLSTATE)."""
        if isinstance(error, psycopg.errors.LockNotAvailable):
            return False  # one row waits for another session: the server is well
        return isinstance(error, psycopg.OperationalError) and classify(error) is Disposition.TRANSIENT_PARK


def _version(database: Database) -> int:
    # Reads the catalogue's table, not to_regclass: that one may answer from a cache which a migration
    # committed while this session waited for the lock has not yet reached.
    exists = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = ? AND tablename = 'schema_version'"
    if not database.fetch(exists, (SCHEMA,)):
        return 0
    return as_int(database.fetch("SELECT version FROM schema_version")[0][0])
