"""One SQLite connection behind the ledger's seam."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from uuid import UUID

from craig_mq.audit.chain import Link
from craig_mq.audit.columns import as_bytes, as_int
from craig_mq.audit.database import Columns
from craig_mq.audit.row import micros
from craig_mq.audit.schema import COLUMN_LIST, COLUMNS

_INSERT = (
    f"INSERT INTO occurrence ({COLUMN_LIST}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608 - fixed names
    " ON CONFLICT DO NOTHING"
)


_LOOK_AGAIN_S = 0.01
_CANONICAL_ID = COLUMNS.index("canonical_id")


def _bound(value: object) -> object:
    if isinstance(value, datetime):
        return micros(value)
    return str(value) if isinstance(value, UUID) else value


def _with_ids_bound(row: Columns) -> Columns:
    row_id, canonical_id = row[0], row[_CANONICAL_ID]
    canonical = None if canonical_id is None else str(canonical_id)
    return (str(row_id), *row[1:_CANONICAL_ID], canonical, *row[_CANONICAL_ID + 1 :])


def _keep_write_ahead_log(connection: sqlite3.Connection, timeout_s: float) -> None:
    """Switch the file to a write-ahead log, waiting up to ``timeout_s`` for others.

    Where several open a new file at once SQLite says that it is locked without waiting: two that both
    wait to switch would wait for each other.
    """
    until = time.monotonic() + timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
            time.sleep(_LOOK_AGAIN_S)
        else:
            return


class SqliteDatabase:
    """A connection for one thread at a time; it waits ``busy_timeout_s`` for other writers."""

    exclusive = True
    broken = False

    def __init__(self, path: str, *, busy_timeout_s: float) -> None:
        self._connection = sqlite3.connect(
            path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False
        )
        try:
            # An ack follows the commit, so the commit must be on the disk: FULL, not WAL's usual NORMAL.
            _keep_write_ahead_log(self._connection, busy_timeout_s)
            self._connection.execute("PRAGMA synchronous = FULL")
        except BaseException:  # a file that is no database is found here
            self._connection.close()
            raise

    @property
    def driver(self) -> sqlite3.Connection:
        """The driver's own connection."""
        return self._connection

    def fetch(self, sql: str, parameters: Sequence[object] = ()) -> list[Columns]:
        """Every row of a query."""
        return self._connection.execute(sql, [_bound(value) for value in parameters]).fetchall()

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> int:
        """Run one statement and return how many rows it changed."""
        return self._connection.execute(sql, [_bound(value) for value in parameters]).rowcount

    def execute_many(self, sql: str, parameters: Sequence[Sequence[object]]) -> int:
        """Run one statement for each set of parameters and return how many rows they changed in all."""
        bound = ([_bound(value) for value in row] for row in parameters)
        return self._connection.executemany(sql, bound).rowcount

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Take the write lock at once: a deferred one could fail half-way with BUSY."""
        self._connection.execute("BEGIN IMMEDIATE")
        with self._ended("COMMIT"):
            yield

    @contextmanager
    def snapshot(self) -> Generator[None]:
        """Read one state of the file, whatever writers do meanwhile."""
        self._connection.execute("BEGIN")
        with self._ended("COMMIT"):
            yield

    @contextmanager
    def savepoint(self) -> Generator[None]:
        """Undo only this block's writes on an exception."""
        self._connection.execute("SAVEPOINT part")
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK TO part")
            raise
        self._connection.execute("RELEASE part")

    @contextmanager
    def _ended(self, end: str) -> Generator[None]:
        try:
            yield
            self._connection.execute(end)
        except BaseException:
            if self._connection.in_transaction:  # a full disk has rolled back by itself
                self._connection.execute("ROLLBACK")
            raise

    def take_writer(self) -> Link | None:
        """The file has one chain: whoever holds the write lock appends to it."""
        rows = self.fetch("SELECT writer, seq, chain FROM writer WHERE NOT imported ORDER BY writer LIMIT 1")
        return Link(str(rows[0][0]), as_int(rows[0][1]), as_bytes(rows[0][2])) if rows else None

    def advance_writer(self, head: Link, *, new: bool) -> None:
        """Store the chain's new head."""
        if new:
            self.execute("INSERT INTO writer VALUES (?, ?, ?, ?)", (head.writer, head.seq, head.chain, False))
        else:
            self.execute(
                "UPDATE writer SET seq = ?, chain = ? WHERE writer = ?", (head.seq, head.chain, head.writer)
            )

    def insert_rows(self, rows: Sequence[Columns]) -> int:
        """Insert what is not taken; of each row only the ids need binding."""
        return self._connection.executemany(_INSERT, map(_with_ids_bound, rows)).rowcount

    def serialize_archiving(self) -> None:
        """Nothing to do: the write lock already keeps everyone else out."""

    def abort(self) -> None:
        """Interrupt the running statement."""
        self._connection.interrupt()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
