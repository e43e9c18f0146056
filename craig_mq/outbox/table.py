"""The outbox table, and the one statement that callers run inside their own transactions."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

import attrs
import trio

from craig_mq.audit.columns import as_bytes, as_int
from craig_mq.audit.database import Database
from craig_mq.core.config import validate_routing_key
from craig_mq.core.envelope import EventEnvelope, encode_envelope
from craig_mq.service_database import connector, create_tables

_TABLES: Final = (
    (
        "CREATE TABLE IF NOT EXISTS craig_outbox (seq {serial}, ordering_key text,"
        " routing_key text NOT NULL, body {bytes} NOT NULL, published_at bigint)"
    ),
    "CREATE INDEX IF NOT EXISTS craig_outbox_waiting ON craig_outbox (seq) WHERE published_at IS NULL",
)


@attrs.define(frozen=True, slots=True)
class OutboxRow:
    """An event that waits to be published; rows of one ``ordering_key`` go in the order of ``seq``."""

    seq: int
    ordering_key: str | None
    routing_key: str
    body: bytes


async def create_outbox(url: str) -> None:
    """Create the table in the database at ``url`` where it is missing; a relay does so as well.

    Raises DlqConfigError for a URL that is neither sqlite:///FILE nor postgresql://…, and the driver's
    own errors. Cancelled: the table may or may not stand.
    """
    connect = connector(url)

    def create() -> None:
        database = connect()
        try:
            create_tables(database, _TABLES)
        finally:
            database.close()

    await trio.to_thread.run_sync(create)


def enqueue(
    connection: Any,
    envelope: EventEnvelope,
    *,
    routing_key: str | None = None,
    ordering_key: str | None = None,
) -> None:
    """Write one event in the caller's transaction: it is published if, and only if, that commits.

    ``connection`` is a ``sqlite3.Connection`` or a ``psycopg.Connection``. Without a routing key the
    event goes under its event type. Events of one ``ordering_key`` are published in the order they were
    written; whoever writes a key from several transactions at once has no order to keep. Raises
    EnvelopeNotSerializable or DlqConfigError for an event that cannot be published, before writing.
    """
    key = envelope.event_type if routing_key is None else routing_key
    validate_routing_key("routing_key", key)
    mark = "?" if isinstance(connection, sqlite3.Connection) else "%s"
    connection.execute(
        f"INSERT INTO craig_outbox (ordering_key, routing_key, body) VALUES ({mark}, {mark}, {mark})",  # noqa: S608 - a placeholder
        (ordering_key, key, encode_envelope(envelope)),
    )


class OutboxTable:
    """The relay's view of the table, over one connection. Every method blocks: call it in a thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self) -> None:
        """Create what is missing."""
        create_tables(self._database, _TABLES)

    def waiting(self, limit: int) -> list[OutboxRow]:
        """Return the first rows that are not marked, in order."""
        rows = self._database.fetch(
            "SELECT seq, ordering_key, routing_key, body FROM craig_outbox"
            " WHERE published_at IS NULL ORDER BY seq LIMIT ?",
            (limit,),
        )
        return [
            OutboxRow(as_int(seq), None if key is None else str(key), str(route), as_bytes(body))
            for seq, key, route, body in rows
        ]

    def mark(self, rows: list[int], at_micros: int) -> None:
        """Mark rows as published, in one transaction that is committed on return."""
        with self._database.transaction():
            self._database.execute_many(
                "UPDATE craig_outbox SET published_at = ? WHERE seq = ?", [(at_micros, seq) for seq in rows]
            )

    def prune(self, before_micros: int) -> int:
        """Delete rows that were published before an instant; return how many."""
        with self._database.transaction():
            return self._database.execute("DELETE FROM craig_outbox WHERE published_at < ?", (before_micros,))
