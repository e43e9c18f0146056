"""The broker's half of a connection: its channels, and the two directions of its byte stream."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from craig_mq.core.close import CloseReason, ConnectionLoss, LocalClose
from craig_mq.transport.memory.served_channel import ChannelClient, ServedChannel
from craig_mq.transport.memory.stream import Stream
from craig_mq.transport.memory.timers import Timer
from craig_mq.transport.memory.trace import ConnectionEnded, ConnectionOpened

if TYPE_CHECKING:
    from craig_mq.transport.memory.node import Node


class ConnectionClient(Protocol):
    """What the broker may tell the client's half of a connection."""

    def ended(self, reason: CloseReason) -> None:
        """The connection is over."""

    def block(self, reason: str | None) -> None:
        """The broker stopped reading (a reason), or reads again (None)."""

    def stop_writing(self, seconds: float) -> None:
        """The client's socket takes no more for so long."""


class ServedConnection:
    """One connection as the broker keeps it.

    ``inward`` carries what the client asks, ``outward`` what the broker tells it. While ``inward`` is
    stopped nothing is read: no publish, no settlement, not even a close.
    """

    def __init__(self, node: Node, name: str, client: ConnectionClient, *, heartbeat: int) -> None:
        """Register with the node."""
        self.node = node
        self.name = name
        self.number = node.next_connection()
        self.channels: dict[int, ServedChannel] = {}
        self.inward = Stream(node.timers)
        self.outward = Stream(node.timers)
        self.open = True
        self._client = client
        self._heartbeat = heartbeat
        self._blocks: dict[object, None] = {}
        self._silence: Timer | None = None
        node.connections[self] = None
        if node.trace is not None:
            node.trace.append(ConnectionOpened(node.now(), self.number, name))

    def open_channel(self, client: ChannelClient) -> ServedChannel:
        """Open a channel under the lowest free number."""
        number = 1
        while number in self.channels:
            number += 1
        channel = self.channels[number] = ServedChannel(self, number, client)
        return channel

    def tell(self, news: Callable[[], None]) -> None:
        """Tell the client, in order."""
        self.outward.push(news)

    def publish_seen(self) -> None:
        """A publish comes in: during an alarm it is what blocks the connection (rabbitmq-facts, 7)."""
        if self.node.alarms and self.open:
            self.block("alarm", f"low on {' & '.join(self.node.alarms)}")

    def block(self, cause: object, reason: str) -> None:
        """Say ``connection.blocked`` and read nothing more."""
        if not self._blocks:
            self.tell(lambda: self._client.block(reason))
        self._blocks[cause] = None
        self.inward.stop(cause)

    def unblock(self, cause: object) -> None:
        """Say ``connection.unblocked`` when no cause is left, then carry out what waited."""
        if cause in self._blocks:
            del self._blocks[cause]
            if not self._blocks:
                self.tell(lambda: self._client.block(None))
            self.inward.start(cause)

    def block_for(self, seconds: float, reason: str) -> None:
        """Block for so long."""
        cause = object()
        self.block(cause, reason)
        self.node.timers.after(seconds, lambda: self.unblock(cause))

    def stop_writing(self, seconds: float) -> None:
        """Let the client's socket take no more for so long."""
        self._client.stop_writing(seconds)

    def freeze(self) -> None:
        """Let nothing through either way; after two missed heartbeats both ends give up (fact 17)."""
        for stream in (self.inward, self.outward):
            stream.stop("frozen")
        self._expect_silence()

    def hang(self, stream: Stream) -> None:
        """Let nothing through one way: whoever listens there misses the heartbeats."""
        stream.stop("frozen")
        if stream is self.inward:
            self.stop_writing(math.inf)
        self._expect_silence()

    def thaw(self) -> None:
        """Let everything through again, what waited first."""
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None
        self.inward.start("frozen")
        self.outward.start("frozen")

    def hang_up(self, *, discard: bool) -> None:
        """The client went away: with a reset (``discard``) what waited unread is lost, with a FIN it is not.

        Either is noticed only once the broker reads again: until then the connection stays listed.
        """
        if discard:
            self.inward.clear()
        self.inward.push(lambda: self.end(LocalClose(aborted=discard)))

    def client_died(self) -> None:
        """The client's process ended and its kernel closed the socket with a FIN."""
        self._client.ended(ConnectionLoss("the process ended"))
        self.hang_up(discard=False)

    def end(self, reason: CloseReason) -> None:
        """Forget the connection: channels close, exclusive queues go, the client is told."""
        if not self.open:
            return
        self.open = False
        self.inward.clear()
        if self._silence is not None and self.outward.flowing:
            # Else the client will not hear of this end: only its own heartbeats can tell it.
            self._silence.cancel()
        self.node.connections.pop(self, None)
        channels = tuple(self.channels.values())
        for channel in channels:
            channel.drop_consumers()
        for channel in channels:
            channel.end(reason)
        self._delete_own_queues()
        self.tell(lambda: self._client.ended(reason))
        if self.node.trace is not None:
            self.node.trace.append(ConnectionEnded(self.node.now(), self.number, self.name, reason))

    def _delete_own_queues(self) -> None:
        vhost = self.node.vhost
        for queue in [queue for queue in vhost.queues.values() if queue.owner is self]:
            vhost.delete_queue(queue.name, None)

    def _expect_silence(self) -> None:
        if self._heartbeat and self._silence is None:
            self._silence = self.node.timers.after(2 * self._heartbeat, self._heartbeats_missed)

    def _heartbeats_missed(self) -> None:
        loss = ConnectionLoss("missed heartbeats")
        self._client.ended(loss)
        self.end(loss)
