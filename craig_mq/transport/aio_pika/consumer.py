"""One consumer, as Trio sees it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import trio
from aiormq.abc import DeliveredMessage

from craig_mq.core.close import LocalClose
from craig_mq.core.delivery import Delivery
from craig_mq.transport.aio_pika.conversion import to_delivery

if TYPE_CHECKING:
    from craig_mq.transport.aio_pika.channel import AioPikaChannel


class AioPikaConsumer:
    """Satisfies ``craig_mq.transport.broker.Consumer``. Holds at most its prefetch."""

    def __init__(self, channel: AioPikaChannel, queue: str, tag: str) -> None:
        self._channel = channel
        self._tag = tag
        self._buffered: deque[Delivery] = deque()
        self._waiting = trio.lowlevel.ParkingLot()
        self.queue = queue
        self.lifetime = channel.lifetime.begin_child()
        self.lifetime.on_end(self._wake_all)

    @property
    def tag(self) -> str:
        """The consumer tag, fresh per consume."""
        return self._tag

    async def receive(self) -> Delivery:
        """Take the next delivery in order, or raise ClosedError as soon as a reason is known."""
        await trio.lowlevel.checkpoint()
        while True:
            delivery = self.receive_nowait()
            if delivery is not None:
                return delivery
            await self._waiting.park()

    def receive_nowait(self) -> Delivery | None:
        """Take the next buffered delivery, or None."""
        self.lifetime.raise_if_ended()
        return self._buffered.popleft() if self._buffered else None

    async def cancel(self) -> list[Delivery]:
        """Stop consuming, and return what was buffered but not taken."""
        if self.lifetime.reason is None:
            await self._channel.cancel_consumer(self._tag)
            self.lifetime.end(LocalClose(aborted=False))
        else:
            await trio.lowlevel.checkpoint()
        return self.take_buffered()

    def take_buffered(self) -> list[Delivery]:
        """Empty the buffer."""
        taken = list(self._buffered)
        self._buffered.clear()
        return taken

    async def on_message(self, message: DeliveredMessage) -> None:  # noqa: ASYNC910 - runs in asyncio
        """Buffer a delivery; called in the loop."""
        self._buffered.append(to_delivery(message))
        self._waiting.unpark()

    def _wake_all(self) -> None:
        self._waiting.unpark_all()
