"""The way into the model: a node to connect to, look into, and break."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from craig_mq.core.close import ConnectionClose
from craig_mq.core.delivery import NO_HEADERS, NO_PROPERTIES, Properties, Publication
from craig_mq.core.outcome import Acked, Nacked, Returned
from craig_mq.core.topology import BindingSpec, ExchangeSpec, QueueSpec
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.memory import outages, router
from craig_mq.transport.memory.connection import MemoryConnection
from craig_mq.transport.memory.dialling import dial, keeping, kept_by_others
from craig_mq.transport.memory.faults import FaultPlan, Strike
from craig_mq.transport.memory.limits import Policy
from craig_mq.transport.memory.node import Node
from craig_mq.transport.memory.permissions import Permissions
from craig_mq.transport.memory.profiles import PROFILES
from craig_mq.transport.memory.queue import UNSYNCED_ACKS
from craig_mq.transport.memory.served_connection import ServedConnection
from craig_mq.transport.memory.trace import Noted, TraceRecord
from craig_mq.transport.memory.views import QueueView, view_of


class MemoryBroker:
    """Implements ``transport.broker.Broker``; state lives here, so any number of clients share it.

    ``profile`` is the version of RabbitMQ it behaves like; ``faults`` is carried out from the start;
    ``trace`` keeps what the broker saw; ``wall_clock`` (seconds since the epoch) stamps ``x-death``.
    """

    def __init__(
        self,
        profile: str = "3.10",
        *,
        faults: FaultPlan | None = None,
        trace: bool = False,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Start an empty node. Raises KeyError for a version without a profile."""
        self._node = Node(PROFILES[profile], faults=faults, trace=trace, wall_clock=wall_clock)
        self._vhost = self._node.vhost

    # --- as the runtime uses it -------------------------------------------------------------------

    @property
    def display_url(self) -> str:
        """The URL that opens such a broker."""
        return "memory://"

    def connect(self, options: ConnectionOptions) -> AbstractAsyncContextManager[MemoryConnection]:
        """Open one connection for the length of the block."""
        return self._connect(options)

    # --- as an onlooker sees it -------------------------------------------------------------------

    def queue(self, name: str) -> QueueView:
        """Look at a queue; looking changes nothing. Raises KeyError if there is none of that name."""
        return view_of(self._vhost.queues[name])

    @property
    def queues(self) -> tuple[str, ...]:
        """The names of all queues."""
        return tuple(self._vhost.queues)

    @property
    def connections(self) -> tuple[str, ...]:
        """The names of the connections the broker lists."""
        return tuple(connection.name for connection in self._node.connections)

    @property
    def trace(self) -> tuple[TraceRecord, ...]:
        """What the broker saw so far; empty unless a trace is kept."""
        return tuple(self._node.trace or ())

    def note(self, what: object) -> None:
        """Put an onlooker's own evidence into the trace, in order with what the broker saw."""
        self._node.note(Noted(self._node.now(), what))

    @property
    def strikes(self) -> tuple[Strike, ...]:
        """The faults that struck so far."""
        return () if self._node.faults is None else tuple(self._node.faults.strikes)

    @property
    def pinned_faults(self) -> FaultPlan:
        """A plan of exactly those strikes, to replay them without chance."""
        return FaultPlan() if self._node.faults is None else self._node.faults.pinned()

    async def keep_time(self) -> None:
        """Let things happen when they are due, until cancelled, be anybody connected or not.

        Without this each connection does it while it is open. Connections opened meanwhile must end first.
        """
        await self._node.timers.keep_for_all()

    # --- as other programs use it -----------------------------------------------------------------

    def declare_exchange(
        self, name: str, kind: str = "topic", arguments: Mapping[str, object] = NO_HEADERS
    ) -> None:
        """Declare a durable exchange."""
        self._vhost.declare_exchange(ExchangeSpec(name, kind, arguments=arguments), passive=False)

    def declare_queue(self, name: str, arguments: Mapping[str, object] = NO_HEADERS) -> None:
        """Declare a durable queue."""
        self._vhost.declare_queue(QueueSpec(name, arguments=arguments), None, passive=False)

    def bind(self, exchange: str, queue: str, routing_key: str) -> None:
        """Bind a queue to an exchange."""
        self._vhost.bind(BindingSpec(exchange, queue, routing_key), None)

    def unbind(self, exchange: str, queue: str, routing_key: str) -> None:
        """Remove a binding."""
        self._vhost.unbind(BindingSpec(exchange, queue, routing_key), None)

    def publish(
        self, exchange: str, routing_key: str, body: bytes, properties: Properties = NO_PROPERTIES
    ) -> Acked | Nacked | Returned:
        """Publish with no connection and no fault in the way, persistent; say what became of it."""
        return router.publish(self._vhost, Publication(exchange, routing_key, body, properties), 0)

    # --- as an operator uses it -------------------------------------------------------------------

    def delete_queue(self, name: str) -> int:
        """Delete a queue; its consumers get a basic.cancel. Returns the ready messages that died."""
        return self._vhost.delete_queue(name, None)

    def delete_exchange(self, name: str) -> None:
        """Delete an exchange with its bindings."""
        self._vhost.exchanges.pop(name, None)

    def purge(self, name: str) -> int:
        """Remove every ready message of a queue."""
        return self._vhost.queues[name].purge("purged")

    def set_policies(self, **policies: Policy) -> None:
        """Replace all policies, given by name."""
        self._vhost.set_policies(policies)

    def set_permissions(self, configure: str = ".*", write: str = ".*", read: str = ".*") -> None:
        """Restrict the one user there is, from now on."""
        self._node.set_permissions(Permissions(configure, write, read))

    def set_default_queue_type(self, kind: str) -> None:
        """Choose what an argument-less declare means (rabbitmq-facts, 3)."""
        self._vhost.default_queue_type = kind

    def set_consumer_timeout(self, seconds: float | None, *, tick: float = 60.0) -> None:
        """Bound how long a delivery may stay unacked; checked on a tick (rabbitmq-facts, 1)."""
        self._node.consumer_timeout = seconds
        self._node.channel_tick = tick

    def set_max_message_size(self, size: int) -> None:
        """Bound a body's bytes."""
        self._node.max_message_size = size

    def set_connection_limit(self, count: int | None) -> None:
        """Refuse connections beyond so many."""
        self._node.connection_limit = count

    def close_connection(self, name: str, text: str = "Closed via management plugin") -> None:
        """Close every connection of that name, as ``rabbitmqctl close_connection`` does."""
        for connection in self._named(name):
            connection.end(ConnectionClose(320, f"CONNECTION_FORCED - {text}"))

    def inject(self, faults: FaultPlan | None) -> None:
        """Carry out another plan from now on, or (None) none."""
        self._node.inject(faults)

    # --- what happens to it -----------------------------------------------------------------------

    def alarm(self, *, on: bool, resource: str = "memory") -> None:
        """Raise or clear a resource alarm (rabbitmq-facts, 7)."""
        self._node.set_alarm(resource, on=on)

    def crash(self, *, returning_acks: int = UNSYNCED_ACKS) -> None:
        """Die as by kill -9; up to ``returning_acks`` last acks per queue are forgotten (fact 13)."""
        outages.crash(self._node, returning_acks=returning_acks)

    def stop(self) -> None:
        """Stop gracefully: every connection is closed with 320."""
        outages.stop(self._node)

    def restart(self) -> None:
        """Run again on the same data, after a crash or a stop."""
        outages.start(self._node)

    def freeze(self, name: str) -> None:
        """Let nothing through on the connections of that name, either way; heartbeats notice in time."""
        for connection in self._named(name):
            connection.freeze()

    def thaw(self, name: str) -> None:
        """Let it through again."""
        for connection in self._named(name):
            connection.thaw()

    def kill_client(self, name: str) -> None:
        """End the client's process: its kernel sends a FIN, and what it wrote is still read (fact 7)."""
        for connection in self._named(name):
            connection.client_died()

    def _named(self, name: str) -> list[ServedConnection]:
        return [connection for connection in self._node.connections if connection.name == name]

    @asynccontextmanager
    async def _connect(self, options: ConnectionOptions) -> AsyncGenerator[MemoryConnection, None]:
        connection = await dial(self._node, options)
        timers = self._node.timers
        async with kept_by_others() if timers.kept else keeping(timers):
            try:
                yield connection
            finally:
                connection.abort()
