"""The coalescing writer: what is accepted in one scheduling pass leaves as few pieces.

Waiting for the end of the pass costs a lone frame a pass of the scheduler and gains it nothing. So a
frame whose sender has nothing else under way leaves at once, as in Nagle's rule, unless a write is
under way already. So does a batch that is large enough, and whatever a burst of arrivals led to, at the
burst's end: the broker works on it while this process goes on to the next deliveries.
"""

from __future__ import annotations

from typing import Final

import attrs
import outcome
import trio

from craig_mq.core.close import CloseReason
from craig_mq.transport.errors import ClosedError
from craig_mq.transport.native.stream import ByteStream
from craig_mq.transport.native.wire import HEARTBEAT_FRAME, Outbox

HIGH_WATER: Final = 1024 * 1024
"""More accepted and unwritten bytes than this hold publishers back."""


class PendingWriters:
    """Writers that have accepted something since anybody looked; of all connections of one broker."""

    def __init__(self) -> None:
        """Nothing is pending."""
        self._pending: dict[CoalescingWriter, None] = {}

    def add(self, writer: CoalescingWriter) -> None:
        """Take note that ``writer`` has something to send."""
        self._pending[writer] = None

    def remove(self, writer: CoalescingWriter) -> None:
        """Forget a writer that has sent what it had, or ended."""
        self._pending.pop(writer, None)

    def send(self) -> None:
        """Have everything pending sent from here, as far as the sockets take it."""
        while self._pending:
            self._pending.popitem()[0].send_at_once()


@attrs.define(slots=True, eq=False)
class _Flush:
    target: int
    channel: int
    task: trio.lowlevel.Task


class CoalescingWriter:
    """The only sender on a stream, and the only one who knows what has been written."""

    def __init__(self, stream: ByteStream, outbox: Outbox, pending: PendingWriters | None = None) -> None:
        """Write what ``outbox`` accepts from now on; ``pending`` hears when there is something."""
        self._pending = pending or PendingWriters()
        self._stream = stream
        self._outbox = outbox
        self._written = outbox.accepted
        self._flushes: list[_Flush] = []
        self._room = trio.lowlevel.ParkingLot()
        self._idle: trio.lowlevel.Task | None = None
        self._finishing = False
        self._sending = False
        self._last_sent = trio.current_time()
        outbox.on_work = self._on_work

    async def run(self) -> None:
        """Write until ``finish`` was called and nothing is left. Raises trio's resource errors."""
        outbox = self._outbox
        try:
            while True:
                if outbox:
                    await self._send_all()
                elif self._finishing:
                    break
                else:
                    await self._wait_work()
        finally:
            self._sending = True  # Nothing leaves past its end, or behind half a frame.
            self._pending.remove(self)
        await trio.lowlevel.checkpoint()

    async def _send_all(self) -> None:  # noqa: ASYNC910 - ``run`` parks when it has nothing
        """Send everything accepted so far; what is accepted meanwhile waits behind it."""
        data = self._outbox.take()
        target = self._outbox.accepted
        self._sending = True
        await self._stream.send_all(data)
        self._sending = False
        self._last_sent = trio.current_time()
        self._on_written(target)

    async def _wait_work(self) -> None:
        def leave(_: object) -> trio.lowlevel.Abort:
            self._idle = None
            return trio.lowlevel.Abort.SUCCEEDED

        self._idle = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(leave)

    def _on_work(self, prompt: bool) -> None:
        if prompt:
            self.send_at_once()
        if self._outbox:
            self._pending.add(self)
            self._wake()

    def send_at_once(self) -> None:
        """Send what is accepted from here; what the socket does not take stays for the writer."""
        if self._sending or not self._outbox:
            return
        data = self._outbox.take()
        sent = self._stream.send_nowait(data)
        if sent < len(data):
            self._outbox.take_back(data[sent:])
            self._sending = True  # The writer's turn: it waits until the socket takes more.
            self._wake()
        else:
            self._last_sent = trio.current_time()
            self._on_written(self._outbox.accepted)

    def _wake(self) -> None:
        if self._idle is not None:
            task, self._idle = self._idle, None
            trio.lowlevel.reschedule(task)

    def _on_written(self, target: int) -> None:
        self._written = target
        if self._flushes:
            waiting = self._flushes
            self._flushes = [flush for flush in waiting if flush.target > target]
            for flush in waiting:
                if flush.target <= target:
                    trio.lowlevel.reschedule(flush.task)
        if not self.congested:
            self._room.unpark_all()

    def finish(self) -> None:
        """Write what is accepted, then let ``run`` return; publishers held back go on and see the end."""
        self._finishing = True
        self._room.unpark_all()
        self._wake()

    @property
    def congested(self) -> bool:
        """Whether more bytes wait for the socket than should."""
        return self._outbox.accepted - self._written > HIGH_WATER

    @property
    def all_written(self) -> bool:
        """Whether everything accepted so far was handed to the operating system."""
        return not self._outbox and self._written == self._outbox.accepted

    async def wait_room(self) -> None:
        """Return once not congested, or finishing."""
        while self.congested and not self._finishing:
            await self._room.park()
        await trio.lowlevel.checkpoint_if_cancelled()

    async def wait_written(self, target: int, channel: int) -> None:
        """Return once ``target`` accepted bytes were handed to the operating system.

        Raises ClosedError once ``fail`` was called for the channel. Cancelled: they may be written later.
        """
        if self._written >= target:
            await trio.lowlevel.checkpoint_if_cancelled()
            return
        flush = _Flush(target, channel, trio.lowlevel.current_task())
        self._flushes.append(flush)

        def leave(_: object) -> trio.lowlevel.Abort:
            self._flushes.remove(flush)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

    def fail(self, channel: int, reason: CloseReason) -> None:
        """Fail every flush of a channel that has ended."""
        waiting = self._flushes
        self._flushes = [flush for flush in waiting if flush.channel != channel]
        for flush in waiting:
            if flush.channel == channel:
                trio.lowlevel.reschedule(flush.task, outcome.Error(ClosedError(reason)))

    def beat(self, quiet: float) -> None:
        """Accept a heartbeat if nothing was sent for ``quiet`` seconds and nothing waits to be."""
        if trio.current_time() - self._last_sent >= quiet and not self._outbox:
            self._outbox.put(HEARTBEAT_FRAME)
