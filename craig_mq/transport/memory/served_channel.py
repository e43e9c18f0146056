"""The broker's half of a channel: its consumers and what it was asked to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from craig_mq.core.close import ChannelClose, CloseReason, ConsumerCancel
from craig_mq.core.delivery import Delivery, Publication
from craig_mq.core.outcome import Acked, Nacked, Returned
from craig_mq.transport.memory import router
from craig_mq.transport.memory.fault_actions import Duplicate, Operation
from craig_mq.transport.memory.injection import Struck, strike
from craig_mq.transport.memory.message import Message
from craig_mq.transport.memory.outstanding import Ledger
from craig_mq.transport.memory.publish_checks import check_publication
from craig_mq.transport.memory.queue import MessageQueue
from craig_mq.transport.memory.refusals import (
    BASIC_CONSUME,
    BASIC_GET,
    Refused,
    access_refused,
    consumer_tag_reused,
)
from craig_mq.transport.memory.served_consumer import ServedConsumer
from craig_mq.transport.memory.served_topology import ServedTopology
from craig_mq.transport.memory.trace import ConsumerEnded, ConsumerStarted

if TYPE_CHECKING:
    from craig_mq.transport.memory.served_connection import ServedConnection


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
        self.vhost = connection.node.vhost
        self.number = number
        self.open = True
        self.ledger = Ledger(self)
        self.topology = ServedTopology(connection)
        self._client = client
        self._consumers: dict[str, tuple[ServedConsumer, ConsumerClient]] = {}

    def consume(
        self, queue_name: str, tag: str, client: ConsumerClient, *, prefetch: int, exclusive: bool
    ) -> None:
        """Start a consumer; it may be handed messages before this returns."""
        if self.node.guard is not None:
            self.node.guard.check("read", "queue", queue_name, BASIC_CONSUME)
        queue = self.vhost.queue(queue_name, self.connection, BASIC_CONSUME)
        if tag in self._consumers:
            raise consumer_tag_reused(tag)
        if any(other.exclusive for other in queue.consumers) or (exclusive and queue.consumers):
            text = f"queue '{queue_name}' in vhost '{self.vhost.name}' in exclusive use"
            raise access_refused(text, BASIC_CONSUME)
        consumer = ServedConsumer(
            tag,
            queue,
            prefetch=prefetch,
            exclusive=exclusive,
            send=self._send,
            cancelled=self.cancelled_by_broker,
        )
        self._consumers[tag] = (consumer, client)
        if self.node.trace is not None:
            self.node.trace.append(ConsumerStarted(self.node.now(), self.connection.number, queue.name, tag))
        queue.add(consumer)

    def cancel(self, tag: str) -> None:
        """End a consumer; what it holds stays outstanding. An unknown tag is no error."""
        entry = self._consumers.pop(tag, None)
        if entry is not None:
            self._remove(entry[0])

    def abandon(self, tag: str) -> None:
        """End a consumer nobody waits for any more, and requeue what it was given."""
        entry = self._consumers.get(tag)
        if entry is not None:
            self.cancel(tag)
            self.ledger.requeue_all_of(entry[0])

    def cancelled_by_broker(self, consumer: ServedConsumer) -> None:
        """Say ``basic.cancel``: the queue is gone, or took too long on 4.3."""
        _, client = self._consumers.pop(consumer.tag)
        self._remove(consumer)
        reason = ConsumerCancel(consumer.queue.name)
        self.connection.tell(lambda: client.ended(reason))

    def get(self, queue_name: str) -> Delivery | None:
        """Take one message without a consumer."""
        if self.node.guard is not None:
            self.node.guard.check("read", "queue", queue_name, BASIC_GET)
        queue = self.vhost.queue(queue_name, self.connection, BASIC_GET)
        message = queue.take()
        return None if message is None else self.ledger.hand_out(message, queue, None)

    def publish(self, publication: Publication) -> Acked | Nacked | Returned:
        """Route and store one mandatory publish."""
        check_publication(self.node, publication)
        return router.publish(self.vhost, publication, self.connection.number, self)

    def refuse(self, refusal: Refused) -> None:
        """Answer as RabbitMQ does: by closing the channel, or the connection where it is that serious."""
        if isinstance(refusal.reason, ChannelClose):
            self.end(refusal.reason)
        else:
            self.connection.end(refusal.reason)

    def drop_consumers(self) -> None:
        """Take part in no queue any more."""
        for consumer, _ in self._consumers.values():
            self._remove(consumer)
        self._consumers.clear()

    def end(self, reason: CloseReason) -> None:
        """Close: consumers go, everything outstanding goes back to its queue, the client is told."""
        if not self.open:
            return
        self.open = False
        self.connection.channels.pop(self.number, None)
        self.drop_consumers()
        self.ledger.requeue_everything(reason)
        if isinstance(reason, ChannelClose):
            self.connection.tell(lambda: self._client.ended(reason))

    def _send(self, consumer: ServedConsumer, message: Message) -> None:
        queue = consumer.queue
        delivery = self.ledger.hand_out(message, queue, consumer)
        client = self._consumers[consumer.tag][1]
        connection = self.connection
        if self.node.faults is None and connection.outward.free:
            client.deliver(delivery)
        else:
            self._send_through_faults(client, delivery, message, queue)

    def _send_through_faults(
        self, client: ConsumerClient, delivery: Delivery, message: Message, queue: MessageQueue
    ) -> None:
        connection = self.connection
        faults = self.node.faults
        action = (
            None if faults is None else faults.meet(Operation.DELIVER, connection.name, queue.name, delivery)
        )
        if action is None or isinstance(action, Duplicate):
            connection.tell(lambda: client.deliver(delivery))
            if action is not None:
                queue.enqueue(message.copy())
            return
        item = lambda: client.deliver(delivery)  # noqa: E731
        strike(action, Struck(connection, self, connection.outward, item))

    def _remove(self, consumer: ServedConsumer) -> None:
        queue = consumer.queue
        queue.remove(consumer)
        if self.node.trace is not None:
            self.node.trace.append(
                ConsumerEnded(self.node.now(), self.connection.number, queue.name, consumer.tag)
            )
        if queue.spec.auto_delete and not queue.consumers:
            self.vhost.delete_queue(queue.name, None)
