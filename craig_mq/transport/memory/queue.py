"""Queues of the model: order, prefetch, requeueing, expiry and limits."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING
from weakref import WeakSet

import trio

from craig_mq.core.topology import QueueSpec
from craig_mq.transport.memory.limits import QueueLimits
from craig_mq.transport.memory.message import Message
from craig_mq.transport.memory.served_consumer import ServedConsumer

if TYPE_CHECKING:
    from craig_mq.transport.memory.vhost import Vhost

# How many of its last acks a queue can be made to forget by a crash (rabbitmq-facts, 13).
UNSYNCED_ACKS = 256

# A quorum queue with reject-publish takes one over its limit, then tells each channel that has published to
# it to refuse, until this part of the limit is not exceeded.
_LOW_WATER = 0.8


class MessageQueue:
    """One queue. ``ready`` is in delivery order; ``unacked`` counts what consumers and gets hold."""

    def __init__(self, spec: QueueSpec, owner: object | None, vhost: Vhost, limits: QueueLimits) -> None:
        """``owner`` is the connection of an exclusive queue."""
        self.spec = spec
        self.name = spec.name
        self.owner = owner
        self.limits = limits
        self.ready: deque[Message] = deque()
        self.unacked = 0
        self.consumers: dict[ServedConsumer, None] = {}
        self.acked: deque[Message] = deque(maxlen=UNSYNCED_ACKS)
        self.vhost = vhost
        self._idle: deque[ServedConsumer] = deque()
        self._position = 0
        self._may_expire = False
        self._senders: WeakSet[object] = WeakSet()
        self._refused: WeakSet[object] = WeakSet()

    def enqueue(self, message: Message, sender: object | None = None) -> bool:
        """Take a message in and hand out what can be; False where ``reject-publish`` refuses it.

        ``sender`` is the channel it came on, None for the broker's own hand.
        """
        limits = self.limits
        if limits.bounded or limits.quorum or message.properties.expiration is not None:
            return self._enqueue_with_limits(message, sender or self.vhost)
        self.append(message)
        if self._idle:
            self.dispatch()
        return True

    def take(self) -> Message | None:
        """Take the head for a basic.get; it counts as unacked from here on."""
        self.expire()
        if not self.ready:
            return None
        self.unacked += 1
        message = self.ready.popleft()
        if self._refused:
            self._notice_room()
        return message

    def dispatch(self) -> None:
        """Hand out what can be, and take publishes again where that made room."""
        self.hand_out()
        if self._refused:
            self._notice_room()

    def hand_out(self) -> None:
        """Hand ready messages to consumers with credit, in turn."""
        ready, idle = self.ready, self._idle
        while ready and idle:
            if self._may_expire:
                self.expire()
                if not ready:
                    return
            consumer = idle.popleft()
            consumer.unacked += 1
            self.unacked += 1
            if consumer.unacked < consumer.prefetch:
                idle.append(consumer)
            consumer.send(consumer, ready.popleft())

    def release(self, consumer: ServedConsumer | None) -> None:
        """Count one delivery of ``consumer`` (None: of a get) as settled and give back its credit."""
        self.unacked -= 1
        if consumer is not None:
            consumer.unacked -= 1
            if consumer.live and consumer.unacked == consumer.prefetch - 1:
                self._idle.append(consumer)

    def purge(self, why: str) -> int:
        """Remove every ready message."""
        count = len(self.ready)
        for message in self.ready:
            self.vhost.node.note_dropped(message, self.name, why)
        self.ready.clear()
        if self._refused:
            self._notice_room()
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

    def expire(self) -> None:
        """Dead-letter what expired at the head; what is behind an unexpired head waits its turn."""
        ready = self.ready
        while self._may_expire and ready:
            due = ready[0].expires_at
            if due is None or due > trio.current_time():
                return
            self.vhost.dead_letter(self, ready.popleft(), "expired")

    def drop_surplus(self) -> None:
        """Act on being over the limit, where a requeue can bring a queue too: drop heads, or refuse more."""
        if self.limits.overflow == "reject-publish":
            if self._over_limit():
                self._refused |= self._senders
            return
        while self.ready and self._over_limit():
            self.vhost.dead_letter(self, self.ready.popleft(), "maxlen")

    def next_position(self) -> int:
        """Count one more place."""
        self._position += 1
        return self._position

    def append(self, message: Message) -> None:
        """Put a message at the tail."""
        self._position += 1
        message.rank = (0, self._position)
        self.ready.append(message)

    def insert(self, message: Message) -> None:
        """Put a message where its rank says."""
        ready = self.ready
        if not ready or message.rank < ready[0].rank:
            ready.appendleft(message)
            return
        for index, other in enumerate(ready):
            if message.rank < other.rank:
                ready.insert(index, message)
                return
        ready.append(message)

    def _enqueue_with_limits(self, message: Message, sender: object) -> bool:
        limits = self.limits
        over = self._would_overflow(message, sender)
        if over and limits.overflow == "reject-publish":
            return False
        if over and limits.overflow == "reject-publish-dlx" and not limits.quorum:
            self.vhost.dead_letter(self, message, "maxlen")
            return False
        self._set_expiry(message)
        if limits.quorum and self.vhost.node.profile.quorum_priorities:
            message.rank = (-(message.properties.priority or 0), self.next_position())
            self.insert(message)
        else:
            self.append(message)
        self.dispatch()
        self.expire()
        self.drop_surplus()
        return True

    def _notice_room(self) -> None:
        limit = self.limits.max_length
        if limit is None or len(self.ready) <= int(limit * _LOW_WATER):
            self._refused.clear()

    def _would_overflow(self, message: Message, sender: object) -> bool:
        limits = self.limits
        if limits.quorum:
            self._welcome(sender)
            if limits.overflow == "reject-publish":
                return sender in self._refused
        too_many = limits.max_length is not None and len(self.ready) >= limits.max_length
        too_big = (
            limits.max_length_bytes is not None
            and self._bytes() + len(message.body) > limits.max_length_bytes
        )
        return too_many or too_big

    def _welcome(self, sender: object) -> None:
        """Register a channel at its first publish: it is refused only if the queue is over its limit then."""
        if sender not in self._senders:
            self._senders.add(sender)
            if self._over_limit():
                self._refused.add(sender)

    def _over_limit(self) -> bool:
        limits = self.limits
        too_many = limits.max_length is not None and len(self.ready) > limits.max_length
        return too_many or (limits.max_length_bytes is not None and self._bytes() > limits.max_length_bytes)

    def _bytes(self) -> int:
        return sum(len(message.body) for message in self.ready)

    def _set_expiry(self, message: Message) -> None:
        own = message.properties.expiration
        lifetimes = [self.limits.message_ttl, None if own is None else int(own) / 1000]
        known = [lifetime for lifetime in lifetimes if lifetime is not None]
        if known:
            self._may_expire = True
            message.expires_at = self.vhost.node.timers.after(min(known), self.expire).due
