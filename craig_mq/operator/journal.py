"""What a redrive has done, on disk before it goes on: a kill at any step resumes with the exact remainder.

JSON Lines, each on disk (fsync) when ``write`` returns. Writing blocks Trio for some milliseconds on
purpose: between a confirm, its line and its ack there is no task switch. One process holds a journal at
a time; a torn last line, which only a kill leaves, is cut off.
"""

from __future__ import annotations

import enum
import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from io import BufferedRandom
from pathlib import Path
from typing import Any

import msgspec

from craig_mq.core.timing import format_instant
from craig_mq.operator.errors import BadJournal


class Step(enum.StrEnum):
    """What a line says. ``CONFIRMED`` is the evidence that permits the capture's ack, now or later."""

    PLAN = "plan"
    RUN = "run"
    INTENT = "intent"
    CONFIRMED = "confirmed"
    RETURNED = "returned"
    NACKED = "nacked"
    UNKNOWN = "unknown"
    NOT_SENT = "not_sent"
    ACKED = "acked"
    ACK_FAILED = "ack_failed"
    SKIPPED = "skipped"
    END = "end"


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the journal."""

    step: Step
    at: str
    key: str | None = None
    detail: dict[str, Any] = msgspec.field(default_factory=dict)


class Journal:
    """An open journal. ``confirmed``, ``acked`` and ``uncertain`` are keys, of all runs together.

    ``uncertain`` holds captures with a publish whose outcome nobody knows: a second copy may exist.
    """

    def __init__(self, file: BufferedRandom, now: Callable[[], float]) -> None:
        self._file = file
        self._now = now
        self._open: set[str] = set()
        self.confirmed: set[str] = set()
        self.acked: set[str] = set()
        self.uncertain: set[str] = set()
        self.runs = 0

    def write(self, step: Step, key: str | None = None, **detail: Any) -> None:
        """Append a line and wait until it is on disk. Raises OSError, and then nothing may be acked."""
        line = Line(step, format_instant(self._now()), key, detail)
        self._file.write(msgspec.json.encode(line) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.apply(line)

    def apply(self, line: Line) -> None:
        """Take a line into account."""
        if line.step is Step.RUN:
            self.runs += 1
            self._close_intents()
        if line.key is None:
            return
        match line.step:
            case Step.INTENT:
                self._open.add(line.key)
            case Step.CONFIRMED:
                self.confirmed.add(line.key)
            case Step.ACKED:
                self.acked.add(line.key)
            case Step.UNKNOWN:
                self.uncertain.add(line.key)
            case _:
                pass
        if line.step is not Step.INTENT:
            self._open.discard(line.key)

    def _close_intents(self) -> None:
        """An intent that its run never resolved is a publish whose outcome nobody knows."""
        self.uncertain |= self._open
        self._open.clear()


@contextmanager
def open_journal(path: Path, *, plan_sha256: str, now: Callable[[], float]) -> Generator[Journal]:
    """Open the journal of one plan for the length of the block, creating it if there is none.

    Raises BadJournal where it belongs to another plan, is held by another process, or was edited.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, mode=0o600)
    with os.fdopen(descriptor, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BadJournal(f"{path} is in use: another process works on this plan") from error
        journal = Journal(file, now)
        _replay(journal, file, path, plan_sha256)
        yield journal


def _replay(journal: Journal, file: BufferedRandom, path: Path, plan_sha256: str) -> None:
    data = file.read()
    whole = data.rfind(b"\n") + 1
    file.truncate(whole)
    try:
        lines = [msgspec.json.decode(text, type=Line) for text in data[:whole].splitlines()]
    except msgspec.MsgspecError as error:
        raise BadJournal(f"{path} was edited or is no journal: {error}") from error
    if not lines:
        journal.write(Step.PLAN, plan_sha256=plan_sha256)
        _sync_folder(path.parent)
        return
    first = lines[0]
    if first.step is not Step.PLAN or first.detail.get("plan_sha256") != plan_sha256:
        raise BadJournal(f"{path} is the journal of another plan: name another with --journal")
    for line in lines:
        journal.apply(line)


def _sync_folder(folder: Path) -> None:
    """A new file's name is on disk only once its folder is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
