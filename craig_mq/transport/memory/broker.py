"""The way into the model: a node to connect to, look into, and break."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import attrs
import trio

from craig_mq.core.delivery import NO_HEADERS, NO_PROPERTIES, Properties, Publication
from craig_mq.core.outcome import Acked, Nacked, Returned
from craig_mq.core.topology import BindingSpec, ExchangeSpec, QueueSpec
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.memory.connection import MemoryConnection
from craig_mq.transport.memory.message import Message
from craig_mq.transport.memory.node import Node


@attrs.define(frozen=True, slots=True)
class QueueView:
    """A queue as an onlooker sees it: looking changes nothing, unlike a basic.get (rabbitmq-facts, 20)."""

    name: str
    ready: int
    unacked: int
    consumers: int
    messages: tuple[Message, ...]

    @property
    def bodies(self) -> tuple[bytes, ...]:
        """The bodies of the ready messages, head first."""
        return tuple(message.body for message in self.messages)


class MemoryBroker:
    """Implements ``transport.broker.Broker``; state lives here, so any number of clients share it."""

    def __init__(self) -> None:
        """Start an empty node."""
        self._node = Node()

    @property
    def display_url(self) -> str:
        """The URL that opens such a broker."""
        return "memory://"

    def connect(self, options: ConnectionOptions) -> AbstractAsyncContextManager[MemoryConnection]:
        """Open one connection for the length of the block."""
        return self._connect(options)

    def queue(self, name: str) -> QueueView:
        """Look at a queue. Raises KeyError if there is none of that name."""
        queue = self._node.queues[name]
        return QueueView(name, len(queue.ready), queue.unacked, len(queue.consumers), tuple(queue.ready))

    @property
    def queues(self) -> tuple[str, ...]:
        """The names of all queues."""
        return tuple(self._node.queues)

    @property
    def connections(self) -> tuple[str, ...]:
        """The names of the connections the broker lists."""
        return tuple(connection.name for connection in self._node.connections)

    def declare_exchange(self, name: str, kind: str = "topic") -> None:
        """Declare a durable exchange, as another program would."""
        self._node.declare_exchange(ExchangeSpec(name, kind), passive=False)

    def declare_queue(self, name: str, arguments: Mapping[str, object] = NO_HEADERS) -> None:
        """Declare a durable queue, as another program would."""
        self._node.declare_queue(QueueSpec(name, arguments=arguments), None, passive=False)

    def bind(self, exchange: str, queue: str, routing_key: str) -> None:
        """Bind a queue to an exchange, as another program would."""
        self._node.bind(BindingSpec(exchange, queue, routing_key), None)

    def delete_queue(self, name: str) -> int:
        """Delete a queue, as an operator would; its consumers get a basic.cancel."""
        return self._node.delete_queue(name, None)

    def publish(
        self, exchange: str, routing_key: str, body: bytes, properties: Properties = NO_PROPERTIES
    ) -> Acked | Nacked | Returned:
        """Publish from outside, with no connection and no fault in the way; say what became of it."""
        return self._node.publish(Publication(exchange, routing_key, body, properties))

    @asynccontextmanager
    async def _connect(self, options: ConnectionOptions) -> AsyncGenerator[MemoryConnection, None]:
        await trio.lowlevel.checkpoint()
        connection = MemoryConnection(self._node, options)
        try:
            yield connection
        finally:
            connection.abort()
