"""Queues as an onlooker sees them: looking changes nothing, unlike a basic.get (rabbitmq-facts, 20)."""

from __future__ import annotations

import attrs

from craig_mq.transport.memory.message import Message
from craig_mq.transport.memory.queue import MessageQueue


@attrs.define(frozen=True, slots=True)
class QueueView:
    """A queue at one moment. ``messages`` are the ready ones, head first; treat them as read-only."""

    name: str
    ready: int
    unacked: int
    consumers: int
    messages: tuple[Message, ...]

    @property
    def bodies(self) -> tuple[bytes, ...]:
        """The bodies of the ready messages, head first."""
        return tuple(message.body for message in self.messages)


def view_of(queue: MessageQueue) -> QueueView:
    """Look at a queue."""
    queue.expire()
    return QueueView(queue.name, len(queue.ready), queue.unacked, len(queue.consumers), tuple(queue.ready))
