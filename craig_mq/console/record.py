"""What this console did, on disk before and after each act; what can't be written is not done."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any, Final, Literal

import attrs
import msgspec

from craig_mq.console.settings import ConsoleSettings
from craig_mq.operator.append_log import AppendLog, open_log
from craig_mq.operator.errors import BadFolder, BadJournal
from craig_mq.operator.trail import Act
from craig_mq.runtime.sources import system_uuid7

RECORD: Final = "actions.jsonl"


class RecordLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One end of one act, with the ledger's names. An act without an *ended* line was killed."""

    act: str
    phase: Literal["begun", "ended"]
    at: str
    who: str
    action: str
    queue: str
    reason: str
    plan_sha256: str | None = None
    outcome: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


class Record:
    """The open record, oldest line first."""

    def __init__(self, log: AppendLog, settings: ConsoleSettings) -> None:
        self._log = log
        self._now = settings.now
        try:
            self.lines = [msgspec.json.decode(line, type=RecordLine) for line in log.lines]
        except msgspec.MsgspecError as error:
            raise BadJournal(f"{settings.folder / RECORD} was edited: {error}") from error

    @contextlib.contextmanager
    def written(self, act: Act) -> Generator[dict[str, Any]]:
        """Write that ``act`` begins, run the block, write the outcome that the block filled in.

        Raises OSError, before the block where the beginning can't be written.
        """
        act_id = system_uuid7()
        outcome: dict[str, Any] = {}
        self._write(act, act_id, "begun", {})
        try:
            yield outcome
        finally:
            self._write(act, act_id, "ended", outcome or {"interrupted": True})

    def _write(
        self, act: Act, act_id: str, phase: Literal["begun", "ended"], outcome: dict[str, Any]
    ) -> None:
        at = datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="milliseconds")
        line = RecordLine(act=act_id, phase=phase, at=at, outcome=outcome, **attrs.asdict(act))
        self._log.append(msgspec.json.encode(line))
        self.lines.append(line)


@contextlib.contextmanager
def open_record(settings: ConsoleSettings) -> Generator[Record]:
    """Open the folder's record for the length of the block; the folder is made for its owner alone.

    Raises BadFolder where it can't be used, and BadJournal where another console holds it or the record was
    edited.
    """
    folder = settings.folder
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            log = stack.enter_context(open_log(folder / RECORD))
        except BadJournal as error:
            raise BadJournal(f"{error}: another console; choose another --folder") from error
        except OSError as error:
            raise BadFolder(f"the folder {folder} can't be used: {error.strerror}") from error
        yield Record(log, settings)
