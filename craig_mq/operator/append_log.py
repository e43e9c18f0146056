"""Lines on disk, each there (fsync) when ``append`` returns; the evidence behind every ack of an operator.

Appending blocks Trio for some milliseconds on purpose: between a confirm, its line and its ack there is no
task switch. One process holds a log at a time; a torn last line, which only a kill or a full disk leaves,
is cut off.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from craig_mq.operator.errors import BadJournal


class AppendLog:
    """An open log. ``lines`` are those it held when it was opened."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = 0
        self.lines: list[bytes] = []

    def load(self) -> None:
        """Read the whole lines, and cut off what comes after the last of them."""
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            file.seek(0)
            data = file.read()
        self._size = data.rfind(b"\n") + 1
        os.ftruncate(self._descriptor, self._size)
        self.lines = data[: self._size].splitlines()

    def append(self, line: bytes) -> None:
        """Write one line and wait until it is on disk. Raises OSError, and then it is not in the log."""
        data = line + b"\n"
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(self._descriptor, data[written:], self._size + written)
            os.fsync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(data)


@contextmanager
def open_log(path: Path) -> Generator[AppendLog]:
    """Open a log for the length of the block, readable by its owner only, creating it if there is none.

    Raises BadJournal where another process holds it, and OSError.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, mode=0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BadJournal(f"{path} is in use by another process") from error
        log = AppendLog(descriptor)
        log.load()
        if not log.lines:
            sync_folder(path.parent)
        yield log
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Wait until the folder's names are on disk: a new file is found after a crash only then."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
