"""Group commit: concurrent deliveries share a transaction, and each waits for its own commit."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

import attrs
import trio

from craig_mq.audit.classification import classify
from craig_mq.audit.database import Verdict
from craig_mq.audit.errors import StoreClosed
from craig_mq.audit.row import AuditRow, RowOutcome
from craig_mq.core.disposition import DlqError

Commit: TypeAlias = Callable[[Sequence[AuditRow]], Awaitable[Sequence[Verdict]]]


@attrs.define(frozen=True, slots=True)
class GroupLimits:
    """When a group is full: at ``rows`` rows or ``body_bytes`` of bodies, or ``delay_s`` after its first row.

    ``waiting`` bounds how many deliveries may queue for a group; beyond it ``record`` waits.
    """

    rows: int = attrs.field(default=256, validator=attrs.validators.gt(0))
    body_bytes: int = attrs.field(default=16 * 1024 * 1024, validator=attrs.validators.gt(0))
    delay_s: float = attrs.field(default=0.002, validator=attrs.validators.gt(0))
    waiting: int = attrs.field(default=1024, validator=attrs.validators.gt(0))


class _Pending:
    """A row whose ``record`` waits; ``abandoned`` once it was cancelled."""

    __slots__ = ("abandoned", "row", "task", "verdict")

    def __init__(self, row: AuditRow, task: trio.lowlevel.Task) -> None:
        self.row = row
        self.task = task
        self.verdict: Verdict | None = None
        self.abandoned = False

    def settle(self, verdict: Verdict) -> None:
        """Tell what became of it, once."""
        self.verdict = verdict
        if not self.abandoned:
            trio.lowlevel.reschedule(self.task)


def _failed(error: Exception) -> DlqError[Exception]:
    """A fresh error for each caller: one shared instance would mix the callers' tracebacks."""
    return DlqError(classify(error), source=error)


class GroupCommitter:
    """Collects rows into groups and hands each group to ``commit``, one at a time for each ``run``.

    One ``run`` gathers at a time, so that rows come together instead of being dealt out. The group
    belongs to the committer's task, never to a caller: a cancelled caller can't stop or hold a commit
    that others wait for.
    """

    def __init__(self, commit: Commit, limits: GroupLimits) -> None:
        self._commit = commit
        self._limits = limits
        self._queue: deque[_Pending] = deque()
        self._room = trio.lowlevel.ParkingLot()
        self._gathering = trio.Lock()
        self._idle: trio.lowlevel.Task | None = None
        self._closed = False

    async def record(self, row: AuditRow) -> RowOutcome:
        """Wait until ``row`` is committed and return what it became.

        Raises ``DlqError`` with the disposition of what went wrong. Cancelled before its group was
        formed: nothing is written. Cancelled later: the group goes on without the caller, the row
        may be committed, and a redelivery of the same token is absorbed as a phantom.
        """
        while len(self._queue) >= self._limits.waiting and not self._closed:
            await self._room.park()
        if self._closed:
            await trio.lowlevel.checkpoint()
            raise _failed(StoreClosed("the store is closed"))
        pending = _Pending(row, trio.lowlevel.current_task())
        self._queue.append(pending)
        self._wake()

        def leave(_: object) -> trio.lowlevel.Abort:
            pending.abandoned = True
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)
        verdict = pending.verdict
        if isinstance(verdict, Exception):
            raise _failed(verdict) from verdict
        if verdict is None:
            raise trio.TrioInternalError("a pending row was released without a verdict")
        return verdict

    def close(self) -> None:
        """Take no more rows; what already waits is still committed."""
        self._closed = True
        self._room.unpark_all()
        self._wake()

    async def run(self) -> None:
        """Commit groups until closed and empty. Cancelled: the group in hand is finished, the rest fails."""
        try:
            while True:
                async with self._gathering:
                    group = await self._gather()
                if not group:
                    return
                await self._commit_group(group)
        finally:
            self.close()
            self._refuse(self._queue)
            self._queue.clear()

    async def _gather(self) -> list[_Pending]:
        """Wait for a group; an empty one once closed and nothing waits."""
        while True:  # noqa: ASYNC913 - a round sleeps, waits or shortens the queue
            while not self._queue:
                if self._closed:
                    await trio.lowlevel.checkpoint()
                    return []
                await self._wait_row()
            if len(self._queue) < self._limits.rows:
                await trio.sleep(self._limits.delay_s)
            if group := self._form():
                return group  # noqa: ASYNC910 - a full group is taken at once; the commit is the checkpoint

    def _form(self) -> list[_Pending]:
        """Take a group out of the queue: within the limits, each token once; the rest waits for the next."""
        group: list[_Pending] = []
        tokens: set[str] = set()
        kept: list[_Pending] = []
        size = 0
        for _ in range(min(len(self._queue), self._limits.rows)):
            pending = self._queue.popleft()
            if pending.abandoned:
                continue
            row = pending.row
            if row.token in tokens or (group and size + len(row.body) > self._limits.body_bytes):
                kept.append(pending)
                continue
            group.append(pending)
            size += len(row.body)
            if row.token is not None:
                tokens.add(row.token)
        self._queue.extendleft(reversed(kept))
        self._room.unpark_all()
        return group

    async def _wait_row(self) -> None:
        def leave(_: object) -> trio.lowlevel.Abort:
            self._idle = None
            return trio.lowlevel.Abort.SUCCEEDED

        self._idle = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(leave)

    def _wake(self) -> None:
        if self._idle is not None:
            task, self._idle = self._idle, None
            trio.lowlevel.reschedule(task)

    async def _commit_group(self, group: list[_Pending]) -> None:
        try:
            verdicts = await self._commit([pending.row for pending in group])
        except Exception as error:  # noqa: BLE001 - every caller gets it, with a disposition
            verdicts = [error] * len(group)
        except BaseException:
            self._refuse(group)
            raise
        for pending, verdict in zip(group, verdicts, strict=True):
            pending.settle(verdict)
        await trio.lowlevel.cancel_shielded_checkpoint()

    @staticmethod
    def _refuse(group: Iterable[_Pending]) -> None:
        for pending in group:
            pending.settle(StoreClosed("the store closed before this row was committed"))
