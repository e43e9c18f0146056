"""The broker's half of a connection: its channels, and the two directions of its byte stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from craig_mq.core.close import CloseReason, LocalClose
from craig_mq.transport.memory.served_channel import ChannelClient, ServedChannel

if TYPE_CHECKING:
    from craig_mq.transport.memory.node import Node


class ConnectionClient(Protocol):
    """What the broker may tell the client's half of a connection."""

    def ended(self, reason: CloseReason) -> None:
        """The connection is over."""


class ServedConnection:
    """One connection as the broker keeps it.

    ``read`` says whether commands are carried out as they are accepted; while it is False they wait
    in order. ``heard`` says the same of what the broker tells the client.
    """

    def __init__(self, node: Node, name: str, client: ConnectionClient) -> None:
        """Register with the node."""
        self.node = node
        self.name = name
        self.channels: dict[int, ServedChannel] = {}
        self.read = True
        self.heard = True
        self.open = True
        self._client = client
        self._commands: deque[Callable[[], None]] = deque()
        self._news: deque[Callable[[], None]] = deque()
        node.connections[self] = None

    def open_channel(self, client: ChannelClient) -> ServedChannel:
        """Open a channel under the lowest free number."""
        number = 1
        while number in self.channels:
            number += 1
        channel = self.channels[number] = ServedChannel(self, number, client)
        return channel

    def submit(self, command: Callable[[], None]) -> None:
        """Carry a command out now, or when the broker reads again."""
        if self.read and not self._commands:
            command()
        else:
            self._commands.append(command)

    def tell(self, news: Callable[[], None]) -> None:
        """Tell the client now, or when it can be reached again."""
        if self.heard and not self._news:
            news()
        else:
            self._news.append(news)

    def resume(self) -> None:
        """Read again: carry out what waited, in order."""
        self.read = True
        while self.read and self._commands:
            self._commands.popleft()()

    def reset(self) -> None:
        """The client reset the transport: what waited unread is discarded with it (rabbitmq-facts, 7)."""
        self._commands.clear()
        self.end(LocalClose(aborted=True))

    def end(self, reason: CloseReason) -> None:
        """Forget the connection: channels close, exclusive queues go, the client is told."""
        if not self.open:
            return
        self.open = False
        self._commands.clear()
        self.node.connections.pop(self, None)
        for channel in tuple(self.channels.values()):
            channel.end(reason)
        for queue in [queue for queue in self.node.queues.values() if queue.owner is self]:
            self.node.delete_queue(queue.name, None)
        self.tell(lambda: self._client.ended(reason))
