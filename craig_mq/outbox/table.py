"""The outbox table, and the one statement that callers run inside their own transactions."""

from __future__ import annotations

import sqlite3
from typing import Any, Final, TypeGuard

import attrs
import trio

from craig_mq.audit.columns import as_int
from craig_mq.audit.database import Columns, Database
from craig_mq.audit.sqlite.connection import SqliteDatabase
from craig_mq.core.config import validate_routing_key
from craig_mq.core.envelope import EventEnvelope, encode_envelope
from craig_mq.core.errors import DlqConfigError
from craig_mq.service_database import connector, create_tables

_TABLES: Final = (
    (
        "CREATE TABLE IF NOT EXISTS craig_outbox (seq {serial}, ordering_key text,"
        " routing_key text NOT NULL, body {bytes} NOT NULL, published_at bigint)"
    ),
    "CREATE INDEX IF NOT EXISTS craig_outbox_waiting ON craig_outbox (seq) WHERE published_at IS NULL",
    (
        "CREATE TABLE IF NOT EXISTS craig_outbox_set_aside (seq bigint PRIMARY KEY, ordering_key text,"
        " reason text NOT NULL, set_aside_at bigint NOT NULL)"
    ),
)
# What was set aside stays where it is, and what follows it in its key waits, until somebody deletes the row,
# or repairs it and deletes its line in craig_outbox_set_aside.
_WAITING: Final = """SELECT seq, ordering_key, routing_key, body FROM craig_outbox AS waiting
WHERE published_at IS NULL AND NOT EXISTS (
  SELECT 1 FROM craig_outbox_set_aside AS aside JOIN craig_outbox AS held ON held.seq = aside.seq
  WHERE held.published_at IS NULL AND (aside.seq = waiting.seq
    OR (aside.ordering_key = waiting.ordering_key AND aside.seq < waiting.seq)))
ORDER BY seq LIMIT ?"""


@attrs.define(frozen=True, slots=True)
class OutboxRow:
    """An event that waits to be published; rows of one ``ordering_key`` go in the order of ``seq``."""

    seq: int
    ordering_key: str | None
    routing_key: str
    body: bytes


@attrs.define(frozen=True, slots=True)
class RowSetAside:
    """A row that cannot be published as it is, and why; the rest of its ``ordering_key`` waits behind it.

    ``ordering_key`` is None where there is none, or where it is what cannot be read.
    """

    seq: int
    ordering_key: str | None
    reason: str


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
        if isinstance(database, SqliteDatabase):  # a text column there holds any bytes
            database.driver.text_factory = _text

    def create(self) -> None:
        """Create what is missing."""
        create_tables(self._database, _TABLES)

    def waiting(self, limit: int) -> tuple[list[OutboxRow], list[RowSetAside]]:
        """Return the first rows that are not marked, in order, and those among them that can't be read."""
        rows: list[OutboxRow] = []
        unreadable: list[RowSetAside] = []
        for columns in self._database.fetch(_WAITING, (limit,)):
            row = _read(columns)
            if isinstance(row, RowSetAside):
                unreadable.append(row)
            elif row.ordering_key is None or row.ordering_key not in {one.ordering_key for one in unreadable}:
                rows.append(row)
        return rows, unreadable

    def set_aside(self, rows: list[RowSetAside], at_micros: int) -> None:
        """Leave rows out from now on, in one transaction that is committed on return."""
        with self._database.transaction():
            self._database.execute_many(
                "INSERT INTO craig_outbox_set_aside VALUES (?, ?, ?, ?)",
                [(one.seq, one.ordering_key, one.reason, at_micros) for one in rows],
            )

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


def _read(columns: Columns) -> OutboxRow | RowSetAside:
    """The row, or why it is none: SQL of somebody else may have put anything into a column of SQLite's."""
    seq, key, route, body = columns
    if not (key is None or _is_text(key)):
        return RowSetAside(as_int(seq), None, "its ordering_key is no UTF-8 text")
    if not isinstance(body, bytes):
        return RowSetAside(as_int(seq), key, "its body is no bytes")
    if not _is_text(route):
        return RowSetAside(as_int(seq), key, "its routing_key is no UTF-8 text")
    try:
        validate_routing_key("routing_key", route)
    except DlqConfigError:
        return RowSetAside(as_int(seq), key, "its routing_key is longer than 255 bytes")
    return OutboxRow(as_int(seq), key, route, body)


def _text(raw: bytes) -> str:
    """Text of SQLite's; what is not UTF-8 becomes lone surrogates."""
    return raw.decode("utf-8", "surrogateescape")


def _is_text(value: object) -> TypeGuard[str]:
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
