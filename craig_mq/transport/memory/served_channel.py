"""The broker's half of a channel: what is outstanding on it, and what it may ask of the node."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple, Protocol

from craig_mq.core.close import ChannelClose, CloseReason, ConsumerCancel
from craig_mq.core.delivery import Delivery, Publication
from craig_mq.core.outcome import Acked, Nacked, Returned
from craig_mq.transport.memory.message import Message
from craig_mq.transport.memory.queue import MessageQueue, ServedConsumer
from craig_mq.transport.memory.refusals import (
    BASIC_ACK,
    BASIC_CONSUME,
    BASIC_GET,
    BASIC_NACK,
    QUEUE_PURGE,
    Method,
    access_refused,
    unknown_delivery_tag,
)

if TYPE_CHECKING:
    from craig_mq.transport.memory.served_connection import ServedConnection


class Outstanding(NamedTuple):
    """A delivery that its channel has not settled."""

    message: Message
    queue: MessageQueue
    consumer: ServedConsumer | None


class ChannelClient(Protocol):
    """What the broker may tell the client's half of a channel."""

    def ended(self, reason: CloseReason) -> None:
        """The channel is over."""


class ConsumerClient(Protocol):
    """What the broker may tell the client's half of a consumer."""

    def deliver(self, delivery: Delivery) -> None:
        """A message is yours."""

    def ended(self, reason: CloseReason) -> None:
        """The consumer is over."""


class ServedChannel:
    """One channel as the broker keeps it. Methods raise Refused where the channel must be closed."""

    def __init__(self, connection: ServedConnection, number: int, client: ChannelClient) -> None:
        """Open: nothing is outstanding."""
        self.connection = connection
        self.node = connection.node
        self.number = number
        self.open = True
        self._client = client
        self._outstanding: dict[int, Outstanding] = {}
        self._consumers: dict[str, tuple[ServedConsumer, ConsumerClient]] = {}
        self._tags = itertools.count(1)

    def consume(
        self, queue_name: str, tag: str, client: ConsumerClient, *, prefetch: int, exclusive: bool
    ) -> ServedConsumer:
        """Start a consumer; it may be handed messages before this returns."""
        queue = self.node.queue(queue_name, self.connection, BASIC_CONSUME)
        taken = any(other.exclusive for other in queue.consumers) or (exclusive and queue.consumers)
        if taken:
            text = f"queue '{queue_name}' in vhost '{self.node.vhost}' in exclusive use"
            raise access_refused(text, BASIC_CONSUME)
        consumer = ServedConsumer(
            tag,
            queue,
            prefetch=prefetch,
            exclusive=exclusive,
            send=self._send,
            cancelled=self._consumer_cancelled,
        )
        self._consumers[tag] = (consumer, client)
        queue.add(consumer)
        return consumer

    def cancel(self, tag: str) -> None:
        """End a consumer; what it holds stays outstanding. An unknown tag is no error."""
        entry = self._consumers.pop(tag, None)
        if entry is not None:
            entry[0].queue.remove(entry[0])

    def abandon(self, tag: str) -> None:
        """End a consumer nobody waits for any more, and requeue what it was given."""
        entry = self._consumers.get(tag)
        self.cancel(tag)
        if entry is not None:
            held = [known for known, out in self._outstanding.items() if out.consumer is entry[0]]
            self._return_to_queues([self._outstanding.pop(known) for known in held], requeue=True)

    def get(self, queue_name: str) -> Delivery | None:
        """Take one message without a consumer."""
        queue = self.node.queue(queue_name, self.connection, BASIC_GET)
        message = queue.take()
        return None if message is None else self._hand_out(message, queue, None)

    def purge(self, queue_name: str) -> int:
        """Remove every ready message of a queue."""
        return self.node.queue(queue_name, self.connection, QUEUE_PURGE).purge()

    def publish(self, publication: Publication) -> Acked | Nacked | Returned:
        """Route and store one mandatory publish."""
        return self.node.publish(publication)

    def ack(self, tag: int, *, multiple: bool) -> None:
        """Drop what is settled from its queue."""
        for entry in self._settle(tag, multiple=multiple, method=BASIC_ACK):
            entry.queue.release(entry.consumer)
            entry.queue.dispatch()

    def nack(self, tag: int, *, requeue: bool, multiple: bool) -> None:
        """Drop or requeue what is refused."""
        self._return_to_queues(self._settle(tag, multiple=multiple, method=BASIC_NACK), requeue=requeue)

    def end(self, reason: CloseReason) -> None:
        """Close: consumers go, everything outstanding goes back to its queue, the client is told."""
        if not self.open:
            return
        self.open = False
        self.connection.channels.pop(self.number, None)
        for consumer, _ in self._consumers.values():
            consumer.queue.remove(consumer)
        self._consumers.clear()
        outstanding = list(self._outstanding.values())
        self._outstanding.clear()
        self._return_to_queues(outstanding, requeue=True)
        if isinstance(reason, ChannelClose):
            self.connection.tell(lambda: self._client.ended(reason))

    def _send(self, consumer: ServedConsumer, message: Message) -> None:
        delivery = self._hand_out(message, consumer.queue, consumer)
        client = self._consumers[consumer.tag][1]
        if self.connection.heard:
            client.deliver(delivery)
        else:
            self.connection.tell(lambda: client.deliver(delivery))

    def _consumer_cancelled(self, consumer: ServedConsumer) -> None:
        _, client = self._consumers.pop(consumer.tag)
        reason = ConsumerCancel(consumer.queue.name)
        self.connection.tell(lambda: client.ended(reason))

    def _hand_out(self, message: Message, queue: MessageQueue, consumer: ServedConsumer | None) -> Delivery:
        tag = next(self._tags)
        self._outstanding[tag] = Outstanding(message, queue, consumer)
        return Delivery(
            tag,
            message.exchange,
            message.routing_key,
            message.redelivered,
            message.body,
            message.properties,
        )

    def _settle(self, tag: int, *, multiple: bool, method: Method) -> list[Outstanding]:
        if not multiple:
            entry = self._outstanding.pop(tag, None)
            if entry is None:
                raise unknown_delivery_tag(tag, method)
            return [entry]
        if tag and tag not in self._outstanding:
            raise unknown_delivery_tag(tag, method)
        covered = [known for known in self._outstanding if not tag or known <= tag]
        return [self._outstanding.pop(known) for known in covered]

    def _return_to_queues(self, entries: list[Outstanding], *, requeue: bool) -> None:
        returned: dict[MessageQueue, list[Message]] = {}
        for entry in entries:
            entry.queue.release(entry.consumer)
            returned.setdefault(entry.queue, []).append(entry.message)
        for queue, messages in returned.items():
            if requeue:
                queue.requeue(messages)
            queue.dispatch()
