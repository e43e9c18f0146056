"""A consumer: deliveries buffered up to the prefetch, and tasks woken one after the other to take them.

One waiting task is woken for a whole burst, and wakes the next as it takes its first: tasks that finish a
delivery without waiting leave nothing for the next one, and tasks that wait are joined by others at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import outcome
import trio

from craig_mq.core.close import CloseReason, LocalClose
from craig_mq.core.delivery import Delivery
from craig_mq.transport.errors import ClosedError

_EMPTY: Final[deque[Delivery]] = deque(maxlen=0)
"""Stands in for a buffer of one's own, which takes 760 bytes, until something is delivered."""


class NativeConsumer:
    """See ``transport.broker.Consumer``; the broker's prefetch bounds the buffer.

    ``receive`` yields to other tasks only when nothing is buffered: at most ``prefetch`` deliveries
    are taken without a pause.
    """

    __slots__ = ("_buffer", "_cancel", "_tag", "_waiting", "_waking", "ended", "queue")

    def __init__(self, tag: str, queue: str, cancel: Callable[[NativeConsumer], Awaitable[None]]) -> None:
        """Start with nothing delivered; ``cancel`` performs basic.cancel on the channel."""
        self._tag = tag
        self.queue = queue
        self._cancel = cancel
        self._buffer: deque[Delivery] = _EMPTY
        self._waiting: list[trio.lowlevel.Task] = []
        self._waking = False
        self.ended: CloseReason | None = None

    @property
    def tag(self) -> str:
        """See the protocol."""
        return self._tag

    def offer(self, delivery: Delivery) -> None:
        """Take a delivery from the channel."""
        if self._buffer is _EMPTY:
            self._buffer = deque()
        self._buffer.append(delivery)
        if self._waiting and not self._waking:
            self._wake_one()

    def _wake_one(self) -> None:
        """Wake the task that has waited the shortest: what it works with is the likeliest to be at hand."""
        self._waking = True
        trio.lowlevel.reschedule(self._waiting.pop())

    def end(self, reason: CloseReason) -> None:
        """No delivery will come any more; the first reason stays."""
        if self.ended is not None:
            return
        self.ended = reason
        waiting, self._waiting = self._waiting, []
        for task in waiting:
            trio.lowlevel.reschedule(task, outcome.Error(ClosedError(reason)))

    def drain(self) -> list[Delivery]:
        """Take everything buffered."""
        buffered = list(self._buffer)
        self._buffer.clear()
        return buffered

    async def receive(self) -> Delivery:
        """See the protocol."""
        await trio.lowlevel.checkpoint_if_cancelled()
        task = trio.lowlevel.current_task()
        while True:
            delivery = self.receive_nowait()
            if delivery is not None:
                return delivery
            self._waiting.append(task)
            await trio.lowlevel.wait_task_rescheduled(_Leaving(self._waiting, task))
            self._waking = False

    def receive_nowait(self) -> Delivery | None:
        """See the protocol."""
        if self.ended is not None:
            raise ClosedError(self.ended)
        if not self._buffer:
            return None
        delivery = self._buffer.popleft()
        if self._buffer and self._waiting and not self._waking:
            self._wake_one()
        return delivery

    async def cancel(self) -> list[Delivery]:
        """See the protocol. Tasks in ``receive`` get ClosedError(LocalClose).

        Cancelled: the broker still stops the consumer; what was buffered goes back to the queue
        when its cancel-ok comes. Raises ClosedError or OperationTimedOut.
        """
        if self.ended is not None:
            raise ClosedError(self.ended)
        await self._cancel(self)
        self.end(LocalClose(aborted=False))
        return self.drain()


class _Leaving:
    """What Trio calls when a wait is cancelled; a function over two variables takes four times as much."""

    __slots__ = ("_task", "_waiting")

    def __init__(self, waiting: list[trio.lowlevel.Task], task: trio.lowlevel.Task) -> None:
        self._waiting = waiting
        self._task = task

    def __call__(self, _: object) -> trio.lowlevel.Abort:
        self._waiting.remove(self._task)
        return trio.lowlevel.Abort.SUCCEEDED
