"""Opening one SQLite file from several threads at once."""

import sqlite3
import threading
from contextlib import closing

import pytest

from craig_mq.audit.sqlite.connection import SqliteDatabase

FILES, OPENERS = 60, 8


def open_at_once(path: str) -> list[Exception]:
    """Open and write a new file from every thread at the same moment; return what went wrong."""
    failures: list[Exception] = []
    ready = threading.Barrier(OPENERS)

    def open_and_write() -> None:
        ready.wait()
        try:
            database = SqliteDatabase(path, busy_timeout_s=10)
            with closing(database.driver), database.transaction():
                database.execute("CREATE TABLE IF NOT EXISTS seen (number)")
        except sqlite3.Error as error:
            failures.append(error)

    threads = [threading.Thread(target=open_and_write) for _ in range(OPENERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def test_a_new_file_opened_by_many_at_once_locks_nobody_out(tmp_path) -> None:
    """Whoever opens a new file while others switch it to a write-ahead log waits for them."""
    assert [open_at_once(f"{tmp_path}/{number}.db") for number in range(FILES)] == [[]] * FILES


def test_a_file_that_stays_locked_is_an_error_after_the_timeout(tmp_path) -> None:
    """A file whose owner keeps it to itself is a locked database once ``busy_timeout_s`` has passed."""
    with closing(sqlite3.connect(f"{tmp_path}/a.db", isolation_level=None)) as owner:
        owner.execute("PRAGMA locking_mode = EXCLUSIVE")
        owner.execute("CREATE TABLE kept (number)")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            SqliteDatabase(f"{tmp_path}/a.db", busy_timeout_s=0.05)
