"""A consumer: deliveries handed straight to waiting tasks, or buffered up to the prefetch."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable

import outcome
import trio

from craig_mq.core.close import CloseReason, LocalClose
from craig_mq.core.delivery import Delivery
from craig_mq.transport.errors import ClosedError


class NativeConsumer:
    """See ``transport.broker.Consumer``; the broker's prefetch bounds the buffer.

    ``receive`` yields to other tasks only when nothing is buffered: at most ``prefetch`` deliveries
    are taken without a pause.
    """

    def __init__(self, tag: str, queue: str, cancel: Callable[[NativeConsumer], Awaitable[None]]) -> None:
        """Start with nothing delivered; ``cancel`` performs basic.cancel on the channel."""
        self._tag = tag
        self.queue = queue
        self._cancel = cancel
        self._buffer: deque[Delivery] = deque()
        self._waiting: OrderedDict[trio.lowlevel.Task, None] = OrderedDict()
        self.ended: CloseReason | None = None

    @property
    def tag(self) -> str:
        """See the protocol."""
        return self._tag

    def offer(self, delivery: Delivery) -> None:
        """Take a delivery from the channel."""
        if self._waiting:
            task, _ = self._waiting.popitem(last=False)
            trio.lowlevel.reschedule(task, outcome.Value(delivery))
        else:
            self._buffer.append(delivery)

    def end(self, reason: CloseReason) -> None:
        """No delivery will come any more; the first reason stays."""
        if self.ended is not None:
            return
        self.ended = reason
        waiting, self._waiting = self._waiting, OrderedDict()
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
        delivery = self.receive_nowait()
        if delivery is not None:
            return delivery
        task = trio.lowlevel.current_task()
        self._waiting[task] = None

        def leave(_: object) -> trio.lowlevel.Abort:
            del self._waiting[task]
            return trio.lowlevel.Abort.SUCCEEDED

        received: Delivery = await trio.lowlevel.wait_task_rescheduled(leave)
        return received

    def receive_nowait(self) -> Delivery | None:
        """See the protocol."""
        if self.ended is not None:
            raise ClosedError(self.ended)
        return self._buffer.popleft() if self._buffer else None

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
