"""What a redrive has done, on disk before it goes on: a kill at any step resumes with the exact remainder."""

from __future__ import annotations

import enum
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from craig_mq.core.timing import format_instant
from craig_mq.operator.append_log import AppendLog, open_log
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
    detail: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


class Journal:
    """An open journal. ``confirmed``, ``acked`` and ``uncertain`` are keys, of all runs together.

    ``uncertain`` holds captures with a publish whose outcome nobody knows: a second copy may exist.
    """

    def __init__(self, log: AppendLog, now: Callable[[], float]) -> None:
        self._log = log
        self._now = now
        self._open: set[str] = set()
        self.confirmed: set[str] = set()
        self.acked: set[str] = set()
        self.uncertain: set[str] = set()

    def write(self, step: Step, key: str | None = None, **detail: Any) -> None:
        """Append a line and wait until it is on disk. Raises OSError, and then nothing may be acked."""
        line = Line(step, format_instant(self._now()), key, detail)
        self._log.append(msgspec.json.encode(line))
        self.apply(line)

    def apply(self, line: Line) -> None:
        """Take a line into account."""
        if line.step is Step.RUN:
            # An intent that its run never resolved is a publish whose outcome nobody knows.
            self.uncertain |= self._open
            self._open.clear()
        if line.key is None:
            return
        match line.step:
            case Step.INTENT:
                self._open.add(line.key)
                return
            case Step.CONFIRMED:
                self.confirmed.add(line.key)
            case Step.ACKED:
                self.acked.add(line.key)
            case Step.UNKNOWN:
                self.uncertain.add(line.key)
            case _:
                pass
        self._open.discard(line.key)


@contextmanager
def open_journal(path: Path, *, plan_sha256: str, now: Callable[[], float]) -> Generator[Journal]:
    """Open the journal of one plan for the length of the block, creating it if there is none.

    Raises BadJournal where it belongs to another plan, is held by another process, or was edited.
    """
    with open_log(path) as log:
        journal = Journal(log, now)
        _replay(journal, log.lines, path, plan_sha256)
        yield journal


def _replay(journal: Journal, lines: list[bytes], path: Path, plan_sha256: str) -> None:
    if not lines:
        journal.write(Step.PLAN, plan_sha256=plan_sha256)
        return
    try:
        decoded = [msgspec.json.decode(text, type=Line) for text in lines]
    except msgspec.MsgspecError as error:
        raise BadJournal(f"{path} was edited or is no journal: {error}") from error
    if decoded[0].step is not Step.PLAN or decoded[0].detail.get("plan_sha256") != plan_sha256:
        raise BadJournal(f"{path} is the journal of another plan: name another with --journal")
    for line in decoded:
        journal.apply(line)
