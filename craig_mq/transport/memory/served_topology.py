"""Declaring, binding and deleting on behalf of a user: permissions first, then the virtual host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from craig_mq.core.topology import BindingSpec, ExchangeSpec, QueueSpec, QueueState
from craig_mq.transport.memory.permissions import Access, Resource
from craig_mq.transport.memory.refusals import (
    EXCHANGE_DECLARE,
    QUEUE_BIND,
    QUEUE_DECLARE,
    QUEUE_DELETE,
    QUEUE_PURGE,
    QUEUE_UNBIND,
    Method,
)

if TYPE_CHECKING:
    from craig_mq.transport.memory.served_connection import ServedConnection


class ServedTopology:
    """What one channel may ask of the topology. Methods raise Refused where the channel must be closed."""

    def __init__(self, connection: ServedConnection) -> None:
        """Act for the user of this connection."""
        self._connection = connection
        self._node = connection.node
        self._vhost = connection.node.vhost

    def declare_exchange(self, spec: ExchangeSpec, *, passive: bool) -> None:
        """Declare, or look."""
        if not passive or self._node.profile.passive_needs_configure:
            self._check("configure", "exchange", spec.name, EXCHANGE_DECLARE)
        self._vhost.declare_exchange(spec, passive=passive)

    def declare_queue(self, spec: QueueSpec, *, passive: bool) -> QueueState:
        """Declare, which needs ``configure`` even where the queue exists, or look (rabbitmq-facts, 11)."""
        if not passive or self._node.profile.passive_needs_configure:
            self._check("configure", "queue", spec.name, QUEUE_DECLARE)
        target = spec.arguments.get("x-dead-letter-exchange")
        if not passive and isinstance(target, str):
            self._check("read", "queue", spec.name, QUEUE_DECLARE)
            self._check("write", "exchange", target, QUEUE_DECLARE)
        return self._vhost.declare_queue(spec, self._connection, passive=passive)

    def delete_queue(self, name: str) -> int:
        """Delete a queue."""
        self._check("configure", "queue", name, QUEUE_DELETE)
        return self._vhost.delete_queue(name, self._connection)

    def purge_queue(self, name: str) -> int:
        """Remove every ready message of a queue."""
        self._check("read", "queue", name, QUEUE_PURGE)
        return self._vhost.queue(name, self._connection, QUEUE_PURGE).purge("purged")

    def bind(self, binding: BindingSpec) -> None:
        """Bind a queue to an exchange."""
        self._check_binding(binding, QUEUE_BIND)
        self._vhost.bind(binding, self._connection)

    def unbind(self, binding: BindingSpec) -> None:
        """Remove a binding."""
        self._check_binding(binding, QUEUE_UNBIND)
        self._vhost.unbind(binding, self._connection)

    def _check_binding(self, binding: BindingSpec, method: Method) -> None:
        self._check("write", "queue", binding.queue, method)
        self._check("read", "exchange", binding.exchange, method)

    def _check(self, access: Access, resource: Resource, name: str, method: Method) -> None:
        if self._node.guard is not None:
            self._node.guard.check(access, resource, name, method)
