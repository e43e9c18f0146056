"""What one channel has been handed and has not settled."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from craig_mq.core.close import CloseReason, ConnectionLoss, LocalClose
from craig_mq.core.delivery import Delivery, Properties
from craig_mq.transport.memory.message import Message
from craig_mq.transport.memory.queue import MessageQueue
from craig_mq.transport.memory.refusals import (
    BASIC_ACK,
    BASIC_NACK,
    Method,
    delivery_timed_out,
    unknown_delivery_tag,
)
from craig_mq.transport.memory.requeueing import WayBack, requeue
from craig_mq.transport.memory.served_consumer import ServedConsumer
from craig_mq.transport.memory.timers import Timer
from craig_mq.transport.memory.trace import MessageAcked, MessageDelivered, MessageRequeued

if TYPE_CHECKING:
    from craig_mq.transport.memory.served_channel import ServedChannel


class Outstanding(NamedTuple):
    """A delivery that its channel has not settled; ``since`` is on Trio's clock."""

    message: Message
    queue: MessageQueue
    consumer: ServedConsumer | None
    since: float


class Ledger:
    """Outstanding deliveries by tag, oldest first."""

    def __init__(self, channel: ServedChannel) -> None:
        """Start empty, with tags from 1."""
        self._channel = channel
        self._node = channel.node
        self._opened = channel.node.now()
        self._entries: dict[int, Outstanding] = {}
        self._tags = itertools.count(1)
        self._timer: Timer | None = None

    def hand_out(self, message: Message, queue: MessageQueue, consumer: ServedConsumer | None) -> Delivery:
        """Give a message the next tag; it is outstanding from here on."""
        tag = next(self._tags)
        node = self._node
        self._entries[tag] = Outstanding(message, queue, consumer, node.now())
        if self._timer is None and node.consumer_timeout is not None:
            self._watch(node.consumer_timeout, node.now() + node.consumer_timeout)
        properties = message.properties
        if queue.limits.quorum:
            properties = _with_counts(
                message,
                by_get=consumer is None,
                names_acquired=not node.profile.counts_every_return,
            )
        if node.trace is not None:
            number = self._channel.connection.number
            node.trace.append(
                MessageDelivered(node.now(), number, message.serial, queue.name, tag, message.redelivered)
            )
        return Delivery(
            tag, message.exchange, message.routing_key, message.redelivered, message.body, properties
        )

    def queue_of(self, tag: int) -> str:
        """Name the queue of an outstanding delivery; empty where the tag is unknown."""
        entry = self._entries.get(tag)
        return "" if entry is None else entry.queue.name

    def ack(self, tag: int, *, multiple: bool) -> None:
        """Let the queues forget what is settled."""
        if not multiple:
            entry = self._entries.pop(tag, None)
            if entry is None:
                raise unknown_delivery_tag(tag, BASIC_ACK)
            self._forget(entry)
            return
        for entry in self._settle(tag, multiple=True, method=BASIC_ACK):
            self._forget(entry)

    def nack(self, tag: int, *, back: bool, multiple: bool) -> None:
        """Requeue what is refused, or let its queue dead-letter it."""
        entries = self._settle(tag, multiple=multiple, method=BASIC_NACK)
        if back:
            self._requeue(entries, WayBack.REFUSED)
            return
        for entry in entries:
            entry.queue.release(entry.consumer)
            self._channel.vhost.dead_letter(entry.queue, entry.message, "rejected")
            entry.queue.dispatch()

    def requeue_all_of(self, consumer: ServedConsumer) -> None:
        """Requeue what one consumer holds."""
        tags = [tag for tag, entry in self._entries.items() if entry.consumer is consumer]
        held = [self._entries.pop(tag) for tag in tags]
        self._requeue(held, WayBack.ENDED)

    def requeue_everything(self, reason: CloseReason) -> None:
        """Requeue all of it, as the channel ends. A lost session counts towards limits on every version."""
        lost = isinstance(reason, ConnectionLoss) or (isinstance(reason, LocalClose) and reason.aborted)
        entries = list(self._entries.values())
        self._entries.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._requeue(entries, WayBack.LOST if lost else WayBack.ENDED)

    def _forget(self, entry: Outstanding) -> None:
        message, queue, consumer, _ = entry
        node = self._node
        if node.trace is not None:
            number = self._channel.connection.number
            node.trace.append(MessageAcked(node.now(), number, message.serial, queue.name))
        queue.acked.append(message)
        queue.release(consumer)
        if queue.ready:
            queue.dispatch()

    def _settle(self, tag: int, *, multiple: bool, method: Method) -> list[Outstanding]:
        # `multiple` with tag 0 means everything; any other tag must itself be outstanding (fact 16).
        everything = multiple and tag == 0
        if not everything and tag not in self._entries:
            raise unknown_delivery_tag(tag, method)
        if not multiple:
            return [self._entries.pop(tag)]
        covered = [known for known in self._entries if everything or known <= tag]
        return [self._entries.pop(known) for known in covered]

    def _requeue(self, entries: list[Outstanding], way: WayBack) -> None:
        returned: dict[MessageQueue, list[Message]] = {}
        node = self._node
        for message, queue, consumer, _ in entries:
            queue.release(consumer)
            returned.setdefault(queue, []).append(message)
            if node.trace is not None:
                number = self._channel.connection.number
                node.trace.append(MessageRequeued(node.now(), number, message.serial, queue.name))
        for queue, messages in returned.items():
            requeue(queue, messages, way, every_return=node.profile.counts_every_return)

    def _watch(self, timeout: float, due: float) -> None:
        """Check at the first tick of the channel not before ``due`` (rabbitmq-facts, 1)."""
        tick = self._node.channel_tick
        at = self._opened + math.ceil((due - self._opened) / tick) * tick
        self._timer = self._node.timers.after(at - self._node.now(), lambda: self._check_timeouts(timeout))

    def _check_timeouts(self, timeout: float) -> None:
        self._timer = None
        cancels = self._node.profile.timeout_cancels
        watched = [
            entry
            for entry in self._entries.values()
            if not cancels or (entry.consumer is not None and entry.queue.limits.quorum)
        ]
        if not watched:
            return
        overdue = [entry for entry in watched if entry.since + timeout <= self._node.now()]
        if not overdue:
            self._watch(timeout, watched[0].since + timeout)
        elif cancels:
            self._cancel_consumers(overdue)
        else:
            self._channel.end(delivery_timed_out(self._channel.number, timeout))

    def _cancel_consumers(self, overdue: list[Outstanding]) -> None:
        for consumer in dict.fromkeys(entry.consumer for entry in overdue if entry.consumer is not None):
            if consumer.live:
                self._channel.cancelled_by_broker(consumer)
            self.requeue_all_of(consumer)


def _with_counts(message: Message, *, by_get: bool, names_acquired: bool) -> Properties:
    """Show a quorum queue's counters as its headers do: to a consumer from the second take on."""
    message.acquired_count += 1
    if message.acquired_count == 1 and not by_get:
        return message.properties
    headers = {**message.properties.headers, "x-delivery-count": message.delivery_count}
    if names_acquired:
        headers["x-acquired-count"] = message.acquired_count - 1
    return msgspec.structs.replace(message.properties, headers=headers)
