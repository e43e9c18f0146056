"""The ledger on any backend: group commit, short-circuit, alerts; the only module here that waits."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import TypeVar
from uuid import UUID

import attrs
import outcome
import trio

from craig_mq.audit import archive, reading
from craig_mq.audit.alert_watch import AlertWatch
from craig_mq.audit.archive import Progress
from craig_mq.audit.commit import GroupCommit
from craig_mq.audit.database import Backend, Database, Pool, Verdict
from craig_mq.audit.errors import CommitUnresolved
from craig_mq.audit.events import (
    OUTCOME_NAMES,
    AuditEvent,
    AuditObserver,
    CommitResolved,
    GroupCommitted,
    GroupFailed,
    RowsSettled,
    ThresholdCrossed,
    ignore,
)
from craig_mq.audit.group import GroupCommitter, GroupLimits
from craig_mq.audit.identifiers import ENTROPY_BYTES, row_ids
from craig_mq.audit.outage import OutageGate
from craig_mq.audit.row import AuditRow, Entry, RowOutcome, StoredRow
from craig_mq.audit.store import OnProgress
from craig_mq.core.disposition import Disposition, DlqError

T = TypeVar("T")

CLOSE_TIMEOUT_S = 5.0
READERS = 2  # connections for looking, archiving and probing, beside those that commit
ANY_ROW = reading.RowFilter()


def utc_now() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


def unwatched(progress: Progress) -> None:
    """Drop ``progress``."""
    del progress


@attrs.define(frozen=True, slots=True, kw_only=True)
class LedgerOptions:
    """What a store does beside writing: ``alert_threshold`` None means no alerts.

    ``on_alert`` is called once for each alert that fires, after the commit; ``on_event`` for every
    event. Both are called in Trio's thread and must not block or raise.
    """

    limits: GroupLimits = attrs.field(factory=GroupLimits)
    alert_threshold: int | None = attrs.field(default=None)
    on_event: AuditObserver = ignore
    on_alert: Callable[[ThresholdCrossed], None] = ignore
    clock: Callable[[], datetime] = utc_now

    def __attrs_post_init__(self) -> None:
        if self.alert_threshold is not None and self.alert_threshold < 1:
            raise ValueError(f"alert_threshold must be at least 1, not {self.alert_threshold}")


class Ledger:
    """An ``AuditStore`` over a backend. Opened and closed by ``open_store``."""

    def __init__(self, backend: Backend, options: LedgerOptions) -> None:
        self._backend = backend
        self._options = options
        self._pool = Pool(backend.connect, idle_limit=backend.writers + READERS)
        self._committer = GroupCommitter(self._commit, options.limits)
        self._gate = OutageGate(options.on_event)
        # Apart, so that no number of readers ever holds up a commit.
        self._commit_threads = trio.CapacityLimiter(backend.writers)
        self._read_threads = trio.CapacityLimiter(READERS)
        self._watch = None
        if options.alert_threshold is not None:
            self._watch = AlertWatch(
                options.alert_threshold,
                clock=options.clock,
                announce=self._announce,
                run=self._run_for_commit,
            )

    @property
    def down(self) -> bool:
        """Whether the database is known to be down, so that deliveries go straight to parking."""
        return self._gate.down

    async def record(self, row: AuditRow) -> RowOutcome:
        """Commit ``row`` with the group it falls into; see ``AuditStore.record``."""
        if self._gate.down:
            raise DlqError(Disposition.TRANSIENT_PARK, source=self._gate.refusal())
        return await self._committer.record(row)

    async def find(
        self,
        where: reading.RowFilter = ANY_ROW,
        *,
        limit: int = 100,
        before: UUID | None = None,
        archived: bool = False,
        bodies: bool = False,
    ) -> Sequence[StoredRow]:
        """Up to ``limit`` rows, newest first; see ``AuditStore.find``."""
        return await self.run(
            partial(reading.find, where=where, limit=limit, before=before, archived=archived, bodies=bodies)
        )

    async def get(self, row_id: UUID) -> StoredRow | None:
        """The row with this id and its body, hot or archived."""
        return await self.run(partial(reading.get, row_id=row_id))

    async def stats(self) -> reading.AuditStats:
        """The ledger in numbers, read in one snapshot."""
        return await self.run(reading.stats)

    async def prune(self, older_than: datetime, *, on_progress: OnProgress = unwatched) -> int:
        """Move rows recorded before ``older_than`` to the archive; see ``AuditStore.prune``."""
        total = await self.run(partial(archive.count_prunable, older_than=older_than))
        return await self._in_batches(partial(archive.prune_batch, older_than=older_than), total, on_progress)

    async def purge(self, archived_before: datetime, *, on_progress: OnProgress = unwatched) -> int:
        """Delete rows archived before ``archived_before``; see ``AuditStore.purge``."""
        total = await self.run(partial(archive.count_purgeable, archived_before=archived_before))
        return await self._in_batches(
            partial(archive.purge_batch, archived_before=archived_before), total, on_progress
        )

    async def _in_batches(self, batch: Callable[..., int], total: int, on_progress: OnProgress) -> int:
        done = 0
        while moved := await self.run(partial(batch, now=self._options.clock())):
            done += moved
            on_progress(Progress(done, max(total, done)))
        return done

    async def run(self, work: Callable[[Database], T]) -> T:
        """Run ``work`` with a connection in a worker thread; a cancelled caller still waits for its end."""
        return await trio.to_thread.run_sync(self._leased, work, limiter=self._read_threads)

    async def _run_for_commit(self, work: Callable[[Database], T]) -> T:
        return await trio.to_thread.run_sync(self._leased, work, limiter=self._commit_threads)

    def _leased(self, work: Callable[[Database], T]) -> T:
        with self._pool.lease() as database:
            return work(database)

    async def migrate(self) -> None:
        """Bring the schema up to date; the store's first connection."""
        await self.run(self._backend.migrate)

    async def serve(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Commit groups until ``close``; owned by ``open_store``."""
        task_status.started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._gate.run, partial(self.run, self._backend.probe))
            async with trio.open_nursery() as committers:
                for _ in range(self._backend.writers):
                    committers.start_soon(self._committer.run)
            nursery.cancel_scope.cancel(reason="the store is closed and its last group is committed")

    async def aclose(self) -> None:
        """Close every connection; a close that hangs is left behind after ``CLOSE_TIMEOUT_S``."""
        with trio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
            await trio.to_thread.run_sync(self._pool.close, abandon_on_cancel=True)

    def close(self) -> None:
        """Take no more rows; ``serve`` ends once what waits is committed."""
        self._committer.close()

    async def _commit(self, rows: Sequence[AuditRow]) -> Sequence[Verdict]:
        self._gate.check()
        began, now = perf_counter(), self._options.clock()
        ids = row_ids(now, os.urandom(ENTROPY_BYTES * len(rows)))
        entries = [Entry(row_id, now, row) for row_id, row in zip(ids, rows, strict=True)]
        attempt = GroupCommit(self._pool, entries)
        try:
            verdicts = await self._bounded(attempt)
        except Exception as error:
            self._report_failure(entries, error)
            raise
        if attempt.found is not None:
            self._options.on_event(CommitResolved(len(entries), attempt.found))
        self._report(verdicts, perf_counter() - began)
        if self._watch is not None:
            await self._watch.committed(entries, verdicts)
        return verdicts

    async def _bounded(self, attempt: GroupCommit) -> list[Verdict]:
        """Run ``attempt``; abort what it waits for after each commit timeout, so that its thread comes back.

        Shielded, since a thread can't be cancelled; the aborts are the shield's deadline.
        """
        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.shield = True
            if self._backend.commit_timeout_s is not None:
                nursery.start_soon(_abort_late, attempt, self._backend.commit_timeout_s)
            result = await trio.to_thread.run_sync(outcome.capture, attempt.run, limiter=self._commit_threads)
            nursery.cancel_scope.cancel(reason="the commit has ended")
        return result.unwrap()

    def _report_failure(self, entries: Sequence[Entry], error: Exception) -> None:
        self._options.on_event(GroupFailed(len(entries), type(error).__name__, str(error).strip()))
        if isinstance(error, CommitUnresolved) or self._backend.is_outage(error):
            self._pool.close_idle()
            self._gate.report(error)

    def _report(self, verdicts: Sequence[Verdict], seconds: float) -> None:
        kinds = Counter(map(type, verdicts))
        settled = [RowsSettled(name, kinds[kind]) for kind, name in OUTCOME_NAMES.items() if kind in kinds]
        failed = len(verdicts) - sum(event.rows for event in settled)
        self._options.on_event(GroupCommitted(len(verdicts), failed, seconds))
        for event in settled:
            self._options.on_event(event)

    def _announce(self, event: AuditEvent) -> None:
        self._options.on_event(event)
        if isinstance(event, ThresholdCrossed):
            self._options.on_alert(event)


async def _abort_late(attempt: GroupCommit, limit: float) -> None:
    while True:
        await trio.sleep(limit)
        attempt.abort()
