"""Group commit: concurrent deliveries share a transaction, and each waits for its own commit."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeAlias

import attrs
import trio

from craig_mq.audit.classification import classify
from craig_mq.audit.database import Verdict
from craig_mq.audit.errors import StoreClosed
from craig_mq.audit.row import Entry, RowOutcome
from craig_mq.core.disposition import DlqError

Commit: TypeAlias = Callable[[Sequence[Entry]], Awaitable[Sequence[Verdict]]]


@attrs.define(frozen=True, slots=True)
class GroupLimits:
    """When a group is full: at ``rows`` rows or ``body_bytes`` of bodies, or ``delay_s`` after its first row.

    ``waiting`` bounds how many deliveries may queue for a group; beyond it ``record`` waits.
    """

    rows: int = attrs.field(default=256, validator=attrs.validators.gt(0))
    body_bytes: int = attrs.field(default=16 * 1024 * 1024, validator=attrs.validators.gt(0))
    delay_s: float = attrs.field(default=0.002, validator=attrs.validators.gt(0))
    waiting: int = attrs.field(default=1024, validator=attrs.validators.gt(0))


@attrs.define(slots=True, eq=False)
class _Pending:
    entry: Entry
    done: trio.Event = attrs.field(factory=trio.Event)
    verdict: Verdict | None = None
    abandoned: bool = False

    def settle(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.done.set()


def _failed(error: Exception) -> DlqError[Exception]:
    """A fresh error for each caller: one shared instance would mix the callers' tracebacks."""
    return DlqError(classify(error), source=error)


class GroupCommitter:
    """Collects rows into groups and hands each group to ``commit``, one at a time for each ``run``.

    The group belongs to the committer's task, never to a caller: a cancelled caller can't stop or
    hold a commit that others wait for.
    """

    def __init__(self, commit: Commit, limits: GroupLimits) -> None:
        self._commit = commit
        self._limits = limits
        self._send, self._receive = trio.open_memory_channel[_Pending](limits.waiting)

    async def record(self, entry: Entry) -> RowOutcome:
        """Wait until ``entry`` is committed and return what it became.

        Raises ``DlqError`` with the disposition of what went wrong. Cancelled before its group was
        formed: nothing is written. Cancelled later: the group goes on without the caller, the row
        may be committed, and a redelivery of the same token is absorbed as a phantom.
        """
        pending = _Pending(entry)
        try:
            await self._send.send(pending)
            await pending.done.wait()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise _failed(StoreClosed("the store is closed")) from None
        finally:
            pending.abandoned = True
        verdict = pending.verdict
        if isinstance(verdict, Exception):
            raise _failed(verdict) from verdict
        if verdict is None:
            raise trio.TrioInternalError("a pending row was released without a verdict")
        return verdict

    def close(self) -> None:
        """Take no more rows; what already waits is still committed."""
        self._send.close()

    async def run(self) -> None:
        """Commit groups until closed and empty. Cancelled: the group in hand is finished, the rest fails."""
        held: deque[_Pending] = deque()
        await trio.lowlevel.checkpoint()
        try:
            async for first in self._receive:
                held.append(first)
                while held:
                    self._take_waiting(held)
                    if len(held) < self._limits.rows:
                        await trio.sleep(self._limits.delay_s)
                        self._take_waiting(held)
                    if group := self._form(held):
                        await self._commit_group(group)
        finally:
            self._refuse(held)

    def _take_waiting(self, held: deque[_Pending]) -> None:
        while len(held) < self._limits.rows:
            try:
                held.append(self._receive.receive_nowait())
            except (trio.WouldBlock, trio.EndOfChannel):
                return

    def _form(self, held: deque[_Pending]) -> list[_Pending]:
        """Move a group out of ``held``: within the limits, each token once; the rest waits for the next."""
        group: list[_Pending] = []
        tokens: set[str] = set()
        size = 0
        for _ in range(len(held)):
            pending = held.popleft()
            token = pending.entry.row.token
            if pending.abandoned:
                continue
            if token in tokens or (group and size + len(pending.entry.row.body) > self._limits.body_bytes):
                held.append(pending)
                continue
            group.append(pending)
            size += len(pending.entry.row.body)
            if token is not None:
                tokens.add(token)
        return group

    async def _commit_group(self, group: list[_Pending]) -> None:
        try:
            verdicts = await self._commit([pending.entry for pending in group])
        except Exception as error:  # noqa: BLE001 - every caller gets it, with a disposition
            verdicts = [error] * len(group)
        except BaseException:
            self._refuse(group)
            raise
        for pending, verdict in zip(group, verdicts, strict=True):
            pending.settle(verdict)
        await trio.lowlevel.cancel_shielded_checkpoint()

    def _refuse(self, group: Iterable[_Pending]) -> None:
        self._send.close()
        for pending in group:
            pending.settle(StoreClosed("the store closed before this row was committed"))
        with suppress(trio.WouldBlock, trio.EndOfChannel, trio.ClosedResourceError):
            while True:
                self._receive.receive_nowait().settle(
                    StoreClosed("the store closed before this row was taken")
                )
