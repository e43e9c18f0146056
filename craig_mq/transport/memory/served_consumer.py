"""The broker's view of one consumer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from craig_mq.transport.memory.message import Message

if TYPE_CHECKING:
    from craig_mq.transport.memory.queue import MessageQueue


class ServedConsumer:
    """One consumer's credit and where its deliveries go."""

    __slots__ = ("cancelled", "exclusive", "live", "prefetch", "queue", "send", "tag", "unacked")

    def __init__(
        self,
        tag: str,
        queue: MessageQueue,
        *,
        prefetch: int,
        exclusive: bool,
        send: Callable[[ServedConsumer, Message], None],
        cancelled: Callable[[ServedConsumer], None],
    ) -> None:
        """``send`` hands a message over; ``cancelled`` tells that the broker itself ended the consumer."""
        self.tag = tag
        self.queue = queue
        self.prefetch = prefetch
        self.exclusive = exclusive
        self.send = send
        self.cancelled = cancelled
        self.unacked = 0
        self.live = True
