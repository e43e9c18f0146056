"""One PostgreSQL connection behind the ledger's seam."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, Final

import psycopg

from craig_mq.audit.chain import Link
from craig_mq.audit.columns import as_bytes, as_int
from craig_mq.audit.database import Columns
from craig_mq.audit.errors import UnstorableRow
from craig_mq.audit.postgres.arrays import Packed, PackedDumper, packed
from craig_mq.audit.schema import COLUMN_LIST, COLUMNS

# Keys of PostgreSQL's advisory locks: any two numbers nobody else in the database uses.
MIGRATION_LOCK: Final = 0x63726169675F6D71
ARCHIVING_LOCK: Final = MIGRATION_LOCK + 1

_KINDS: Final = (
    "uuid", "text", "text", "text", "text", "timestamptz", "timestamptz", "text", "text", "bigint",
    "bytea", "boolean", "uuid", "text", "bigint", "bytea", "bytea",
)  # fmt: skip
_TOKEN: Final = COLUMNS.index("token")

# One statement for the whole group, columns as arrays: one round trip, one plan, whatever the size.
_INSERT: Final = (
    f"INSERT INTO occurrence ({COLUMN_LIST})"  # noqa: S608 - fixed names
    f" SELECT * FROM unnest({', '.join(f'%b::{kind}[]' for kind in _KINDS)})"
    " ON CONFLICT DO NOTHING"
).encode()


@lru_cache(maxsize=256)
def _placeholders(sql: str) -> bytes:
    return sql.replace("?", "%s").encode()


class PostgresDatabase:
    """A connection in autocommit mode; transactions are always explicit."""

    exclusive = False

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._connection = connection
        connection.adapters.register_dumper(Packed, PackedDumper)

    @property
    def driver(self) -> psycopg.Connection[tuple[Any, ...]]:
        """The driver's own connection."""
        return self._connection

    def fetch(self, sql: str, parameters: Sequence[object] = ()) -> list[Columns]:
        """Every row of a query."""
        return self._connection.execute(_placeholders(sql), parameters, binary=True).fetchall()

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> int:
        """Run one statement and return how many rows it changed."""
        return self._connection.execute(_placeholders(sql), parameters).rowcount

    def execute_many(self, sql: str, parameters: Sequence[Sequence[object]]) -> int:
        """Run one statement for each set of parameters and return how many rows they changed in all."""
        with self._connection.cursor() as cursor:
            cursor.executemany(_placeholders(sql), parameters)
            return cursor.rowcount

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Read committed: each statement sees what others committed before it."""
        with self._connection.transaction():
            yield

    @contextmanager
    def snapshot(self) -> Generator[None]:
        """One state of the ledger for every query in the block."""
        with self._connection.transaction():
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield

    @contextmanager
    def savepoint(self) -> Generator[None]:
        """Undo only this block's writes on an exception."""
        with self._connection.transaction():
            yield

    def take_writer(self) -> Link | None:
        """Any chain no other transaction is appending to: as many chains as transactions at one time."""
        row = self._connection.execute(
            "SELECT writer, seq, chain FROM writer WHERE NOT imported"
            " ORDER BY writer LIMIT 1 FOR UPDATE SKIP LOCKED"
        ).fetchone()
        return Link(str(row[0]), as_int(row[1]), as_bytes(row[2])) if row else None

    def advance_writer(self, head: Link, *, new: bool) -> None:
        """Store the chain's new head."""
        if new:
            self.execute("INSERT INTO writer VALUES (?, ?, ?, false)", (head.writer, head.seq, head.chain))
        else:
            self.execute(
                "UPDATE writer SET seq = ?, chain = ? WHERE writer = ?", (head.seq, head.chain, head.writer)
            )

    def insert_rows(self, rows: Sequence[Columns]) -> int:
        """Insert in the order of tokens, so that two replicas never wait for each other in a circle."""
        ordered = sorted(rows, key=lambda row: str(row[_TOKEN] or ""))
        try:
            arrays = packed(_KINDS, list(zip(*ordered, strict=True)))
        except (UnicodeEncodeError, struct.error) as error:  # refused on this side already
            raise UnstorableRow(str(error)) from error
        return self._connection.execute(_INSERT, arrays).rowcount

    def serialize_archiving(self) -> None:
        """Wait, within the lock timeout, until no other transaction moves or purges rows."""
        self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (ARCHIVING_LOCK,))

    @property
    def broken(self) -> bool:
        """Whether the connection was closed, by whichever side."""
        return self._connection.closed

    def abort(self) -> None:
        """Shut the socket down: the waiting thread gets an error at once, even from a frozen server."""
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self._connection.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Release the connection."""
        self._connection.close()
