"""Queues of the model: order, prefetch and requeueing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from operator import attrgetter

from craig_mq.core.topology import QueueSpec
from craig_mq.transport.memory.message import Message

_position = attrgetter("position")


class ServedConsumer:
    """The broker's view of one consumer: its credit and where its deliveries go."""

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


class MessageQueue:
    """One queue. ``ready`` is in delivery order; ``unacked`` counts what consumers and gets hold."""

    def __init__(self, spec: QueueSpec, owner: object | None) -> None:
        """``owner`` is the connection of an exclusive queue."""
        self.spec = spec
        self.name = spec.name
        self.owner = owner
        self.ready: deque[Message] = deque()
        self.unacked = 0
        self.consumers: dict[ServedConsumer, None] = {}
        self._idle: deque[ServedConsumer] = deque()
        self._next_position = 0

    def enqueue(self, message: Message) -> None:
        """Append a message and hand out what can be."""
        self._next_position = message.position = self._next_position + 1
        self.ready.append(message)
        if self._idle:
            self.dispatch()

    def take(self) -> Message | None:
        """Take the head for a basic.get; it counts as unacked from here on."""
        if not self.ready:
            return None
        self.unacked += 1
        return self.ready.popleft()

    def dispatch(self) -> None:
        """Hand ready messages to consumers with credit, in turn."""
        ready, idle = self.ready, self._idle
        while ready and idle:
            consumer = idle.popleft()
            consumer.unacked += 1
            self.unacked += 1
            if consumer.unacked < consumer.prefetch:
                idle.append(consumer)
            consumer.send(consumer, ready.popleft())

    def release(self, consumer: ServedConsumer | None) -> None:
        """Count one delivery of ``consumer`` (None: of a get) as settled and use the credit it frees."""
        self.unacked -= 1
        if consumer is not None:
            consumer.unacked -= 1
            if consumer.live and consumer.unacked == consumer.prefetch - 1:
                self._idle.append(consumer)

    def requeue(self, messages: Iterable[Message]) -> None:
        """Put messages back to their original positions (rabbitmq-facts, 15)."""
        for message in sorted(messages, key=_position, reverse=True):
            message.redelivered = True
            self._insert(message)

    def purge(self) -> int:
        """Remove every ready message."""
        count = len(self.ready)
        self.ready.clear()
        return count

    def add(self, consumer: ServedConsumer) -> None:
        """Let a consumer take part."""
        self.consumers[consumer] = None
        self._idle.append(consumer)
        self.dispatch()

    def remove(self, consumer: ServedConsumer) -> None:
        """Give a consumer nothing more; what it holds stays with its channel."""
        consumer.live = False
        self.consumers.pop(consumer, None)
        if consumer in self._idle:
            self._idle.remove(consumer)

    def _insert(self, message: Message) -> None:
        ready = self.ready
        if not ready or message.position < ready[0].position:
            ready.appendleft(message)
            return
        for index, other in enumerate(ready):
            if message.position < other.position:
                ready.insert(index, message)
                return
        ready.append(message)
