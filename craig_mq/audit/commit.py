"""One group's commit in a worker thread: it ends, and what it says was read from the database."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from threading import Lock
from uuid import UUID

from craig_mq.audit.database import Database, Pool, Verdict
from craig_mq.audit.errors import CommitUnresolved
from craig_mq.audit.row import Entry, RowOutcome
from craig_mq.audit.writing import resolve, write_group


class GroupCommit:
    """Commits ``entries`` once, and once more if the connection died with the outcome unknown.

    ``run`` is called in a worker thread; ``abort`` from any other thread makes its current statement
    fail soon, so that a frozen database never holds the thread and the group in it.
    """

    def __init__(self, pool: Pool, entries: Sequence[Entry]) -> None:
        self._pool = pool
        self._entries = entries
        self._lock = Lock()
        self._database: Database | None = None
        self.found: int | None = None

    def run(self) -> list[Verdict]:
        """One verdict for each entry, in their order.

        Raises the driver's error when nothing was committed, and ``CommitUnresolved`` when the
        connection died and the rows could not be looked up. ``found`` is None unless they were.
        """
        database: Database | None = None
        try:
            with self._leased() as database:
                return write_group(database, self._entries)
        except Exception as error:
            if database is None or not database.broken:
                raise  # never connected, or rolled back: nothing was committed
            cause = error
        self._pool.close_idle()
        try:
            return self._resolve()
        except Exception as error:  # noqa: BLE001 - why it could not be looked up matters less than that
            raise CommitUnresolved(f"{str(cause).strip()}; then the look-up failed: {error}") from cause

    def _resolve(self) -> list[Verdict]:
        with self._leased() as database:
            found: dict[UUID, RowOutcome] = resolve(database, self._entries)
            self.found = len(found)
            rest = [entry for entry in self._entries if entry.id not in found]
            # The dead connection's transaction may still be running: inserting the same ids and tokens
            # waits for its end and then meets its rows, so a second copy is impossible.
            written = write_group(database, rest) if rest else []
        verdicts: dict[UUID, Verdict] = dict(zip((entry.id for entry in rest), written, strict=True))
        verdicts.update(found)
        return [verdicts[entry.id] for entry in self._entries]

    @contextmanager
    def _leased(self) -> Generator[Database]:
        with self._pool.lease() as database:
            with self._lock:
                self._database = database
            try:
                yield database
            finally:
                with self._lock:
                    self._database = None

    def abort(self) -> None:
        """Make the statement that runs now fail; nothing to do between statements of two connections."""
        with self._lock:
            if self._database is not None:
                self._database.abort()
