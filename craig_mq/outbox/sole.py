"""One relay at a time: two would publish everything twice, and out of order."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from craig_mq.audit.database import Database
from craig_mq.service_database import sqlite_path

_RELAY_LOCK: Final = 0x63726169675F6F62


class SoleRelay:
    """The right to relay one outbox; it ends with the process or the connection that holds it."""

    def __init__(self, url: str, database: Database) -> None:
        self._path = sqlite_path(url)
        self._database = database
        self._file: int | None = None

    def take(self) -> bool:
        """Take it if nobody else has it. PostgreSQL: an advisory lock; SQLite: a lock beside the file."""
        if self._path is None:
            return self._database.fetch("SELECT pg_try_advisory_lock(?)", (_RELAY_LOCK,))[0][0] is True
        if self._file is None:
            self._file = os.open(_beside(self._path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Give it back; closing the connection gives back PostgreSQL's."""
        if self._file is not None:
            with suppress(OSError):
                os.close(self._file)
            self._file = None


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".relay")


@contextmanager
def sole_relay(url: str, database: Database) -> Generator[SoleRelay]:
    """Hold a claim for the length of the block, once ``take`` has said yes."""
    claim = SoleRelay(url, database)
    try:
        yield claim
    finally:
        claim.release()
