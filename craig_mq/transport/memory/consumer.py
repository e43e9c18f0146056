"""The client's half of a consumer."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import trio

from craig_mq.core.close import CloseReason, LocalClose
from craig_mq.core.delivery import Delivery
from craig_mq.transport.errors import ClosedError
from craig_mq.transport.memory.fault_actions import Operation

if TYPE_CHECKING:
    from craig_mq.transport.memory.channel import MemoryChannel


class MemoryConsumer:
    """Implements ``transport.broker.Consumer``."""

    def __init__(self, channel: MemoryChannel, tag: str, queue: str) -> None:
        """Start with nothing buffered."""
        self.queue = queue
        self._channel = channel
        self._tag = tag
        self._buffer: deque[Delivery] = deque()
        self._waiting = trio.lowlevel.ParkingLot()
        self._waking = False
        self._closed: CloseReason | None = None

    @property
    def tag(self) -> str:
        """The consumer tag."""
        return self._tag

    async def receive(self) -> Delivery:  # noqa: ASYNC910 - what is here need not be waited for, as on a socket
        """Take the next delivery. Cancelled: it stays buffered."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            delivery = self.receive_nowait()
            if delivery is not None:
                return delivery
            await self._waiting.park()
            self._waking = False

    def receive_nowait(self) -> Delivery | None:
        """Take the next buffered delivery, if there is one."""
        if self._closed is not None:
            raise ClosedError(self._closed)
        if not self._buffer:
            return None
        delivery = self._buffer.popleft()
        self._wake_one()
        return delivery

    def _wake_one(self) -> None:
        """Let one task come and take: it wakes the next."""
        if self._buffer and self._waiting and not self._waking:
            self._waking = True
            self._waiting.unpark()

    async def cancel(self) -> list[Delivery]:
        """Stop consuming; return what was buffered."""
        if self._closed is not None:
            await trio.lowlevel.checkpoint()
            raise ClosedError(self._closed)
        await self._channel.request(Operation.CANCEL, self.queue, lambda served: served.cancel(self._tag))
        self._channel.forget(self)
        self.ended(LocalClose(aborted=False))
        left = list(self._buffer)
        self._buffer.clear()
        return left

    def deliver(self, delivery: Delivery) -> None:
        """Take what the broker sent."""
        self._buffer.append(delivery)
        self._wake_one()

    def ended(self, reason: CloseReason) -> None:
        """Learn that no more will come."""
        if self._closed is None:
            self._closed = reason
            self._waiting.unpark_all()
