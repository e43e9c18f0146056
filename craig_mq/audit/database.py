"""The seam to a database: synchronous, one connection, run in worker threads.

SQL that both stores share is written once with ``?`` placeholders; each connection binds Python
values (UUID, aware datetime, bytes, bool) its own way and gives back plain columns, which
``columns.py`` turns into rows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from typing import Protocol, TypeAlias

import attrs

from craig_mq.audit.chain import Link
from craig_mq.audit.row import RowOutcome

Columns: TypeAlias = tuple[object, ...]
Verdict: TypeAlias = RowOutcome | Exception


class Database(Protocol):
    """One connection. Not for two threads at once, except ``abort``."""

    @property
    def exclusive(self) -> bool:
        """Whether a transaction keeps every other writer out from its start (SQLite)."""
        ...

    @property
    def driver(self) -> object:
        """The driver's own connection, for statements of somebody else in the same transaction."""
        ...

    def fetch(self, sql: str, parameters: Sequence[object] = ()) -> list[Columns]:
        """Every row of a query; bounded by the LIMIT the caller writes."""
        ...

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> int:
        """Run one statement and return how many rows it changed."""
        ...

    def execute_many(self, sql: str, parameters: Sequence[Sequence[object]]) -> int:
        """Run one statement for each set of parameters and return how many rows they changed in all."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Commit on a normal exit, roll back on an exception."""
        ...

    def savepoint(self) -> AbstractContextManager[None]:
        """Within a transaction: undo only this block's writes on an exception."""
        ...

    def take_writer(self) -> Link | None:
        """Within a transaction: the head of a hash chain that nobody else appends to until its end."""
        ...

    def advance_writer(self, head: Link, *, new: bool) -> None:
        """Within the same transaction: store the chain's new head; ``new`` for a chain's first."""
        ...

    def insert_rows(self, rows: Sequence[Columns]) -> int:
        """Insert rows as ``link_all`` makes them into the hot window, but none whose token or id is taken.

        Returns how many were inserted.
        """
        ...

    def snapshot(self) -> AbstractContextManager[None]:
        """A read-only transaction in which every query sees one state of the ledger."""
        ...

    def serialize_archiving(self) -> None:
        """Within a transaction: wait until no other transaction moves or purges rows."""
        ...

    @property
    def broken(self) -> bool:
        """Whether the connection is of no further use."""
        ...

    def abort(self) -> None:
        """Make whatever runs on this connection fail soon; safe from another thread, never blocks."""
        ...

    def close(self) -> None:
        """Release the connection; never raises."""
        ...


class Backend(Protocol):
    """One kind of database: how to connect, how to migrate, what an outage looks like."""

    @property
    def writers(self) -> int:
        """How many groups may commit at the same time."""
        ...

    @property
    def commit_timeout_s(self) -> float | None:
        """How long a commit may wait for one connection before it is aborted; None: it bounds itself."""
        ...

    def connect(self) -> Database:
        """Open a connection within the connect timeout, or raise the driver's error."""
        ...

    def migrate(self, database: Database) -> None:
        """Bring the schema up to date; safe from many processes at once. Raises ``SchemaOutdated``."""
        ...

    def probe(self, database: Database) -> None:
        """Raise unless the database can take rows again."""
        ...

    def is_outage(self, error: Exception) -> bool:
        """Whether ``error`` says that the database is down, so that the next attempt would only wait."""
        ...


@attrs.define(slots=True, eq=False)
class Pool:
    """A bounded stack of idle connections; a broken one is dropped, never handed out again.

    Connecting happens in the caller's thread: its error is the caller's to see at once, which an
    outage short-circuit needs. At most ``idle_limit`` connections stay open between uses.
    """

    _connect: Callable[[], Database]
    idle_limit: int = 4
    _idle: list[Database] = attrs.field(factory=list[Database], init=False)
    _lock: Lock = attrs.field(factory=Lock, init=False)
    _closed: bool = attrs.field(default=False, init=False)

    @contextmanager
    def lease(self) -> Generator[Database]:
        """Lend one connection for the length of the block."""
        with self._lock:
            database = self._idle.pop() if self._idle else None
        database = database or self._connect()
        try:
            yield database
        finally:
            self._give_back(database)

    def _give_back(self, database: Database) -> None:
        with self._lock:
            keep = not (self._closed or database.broken or len(self._idle) >= self.idle_limit)
            if keep:
                self._idle.append(database)
        if not keep:
            database.close()

    def close_idle(self) -> None:
        """Close what is idle: after an outage the idle connections are as dead as the one that failed."""
        with self._lock:
            idle, self._idle = self._idle, []
        for database in idle:
            database.close()

    def close(self) -> None:
        """Close what is idle now and what is given back later."""
        self._closed = True
        self.close_idle()
