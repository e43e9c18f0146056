"""Publishing for an operator's act: one at a time, mandatory, confirmed, bounded."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import trio

from craig_mq.core.close import CloseReason
from craig_mq.core.delivery import Publication
from craig_mq.core.outcome import Confirmation, Unconfirmed
from craig_mq.operator.connecting import options_for, sole
from craig_mq.runtime.blockage import Blockage
from craig_mq.runtime.publishing import Publishing
from craig_mq.transport.broker import Broker

CONFIRM_TIMEOUT_S: Final = 30.0
BLOCKED_TIMEOUT_S: Final = 60.0


class _NothingToLearn:
    """A publish memory for an act that never has two publishes in flight, of messages that lay in queues."""

    publish_alone_first = False

    def publish_resolved(self, confirmation: Confirmation) -> None:
        """Nothing: the caller writes it down."""

    def size_refused(self, reason: CloseReason | None) -> None:
        """Nothing: a capture that lay in a queue fits a message."""


class Publisher:
    """Publishes on a connection of its own, opened at the first publish."""

    def __init__(self, broker: Broker, what: str) -> None:
        self.publishing = Publishing(
            broker,
            options_for(what),
            _NothingToLearn(),
            confirm_timeout=CONFIRM_TIMEOUT_S,
            blockage=Blockage(lambda _: None),
        )

    async def publish(self, publication: Publication) -> Confirmation:
        """Publish and say what became of it, within a minute even while the broker blocks publishing.

        Never raises TransportError. Cancelled: the message may have been published.
        """
        with trio.move_on_after(BLOCKED_TIMEOUT_S):
            return await self.publishing.publish(publication)
        return Unconfirmed("the broker blocked the connection for too long")


@asynccontextmanager
async def open_publisher(broker: Broker, what: str) -> AsyncGenerator[Publisher, None]:
    """Open a publisher for the length of the block; what the block raises passes as it was raised.

    Leaving closes its connection gracefully if every outcome is known, else resets it.
    """
    publisher = Publisher(broker, what)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(publisher.publishing.run)
            try:
                yield publisher
            finally:
                publisher.publishing.stop()
    except BaseExceptionGroup as group:
        raise sole(group) from None
