"""The broker node of the model: what is declared on it, and how a publish is routed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from craig_mq.core.delivery import Publication
from craig_mq.core.outcome import ACKED, Acked, Nacked, Returned
from craig_mq.core.topology import BindingSpec, ExchangeSpec, QueueSpec, QueueState
from craig_mq.transport.memory.equivalence import check_exchange, check_queue
from craig_mq.transport.memory.exchange import Exchange
from craig_mq.transport.memory.message import Message
from craig_mq.transport.memory.queue import MessageQueue
from craig_mq.transport.memory.refusals import (
    BASIC_PUBLISH,
    EXCHANGE_DECLARE,
    QUEUE_BIND,
    QUEUE_DECLARE,
    QUEUE_DELETE,
    QUEUE_UNBIND,
    Method,
    access_refused,
    not_found,
    resource_locked,
)

if TYPE_CHECKING:
    from craig_mq.transport.memory.served_connection import ServedConnection

_NO_ROUTE = Returned(312, "NO_ROUTE")
_STANDARD_EXCHANGES = (("amq.direct", "direct"), ("amq.fanout", "fanout"), ("amq.topic", "topic"))


class Node:
    """Everything one virtual host holds. Methods raise Refused where RabbitMQ closes the channel."""

    def __init__(self, vhost: str = "/") -> None:
        """Start with the standard exchanges and nothing else."""
        self.vhost = vhost
        self.queues: dict[str, MessageQueue] = {}
        self.connections: dict[ServedConnection, None] = {}
        self.exchanges = {
            name: Exchange(name, kind, durable=True, arguments={}) for name, kind in _STANDARD_EXCHANGES
        }
        self._serials = itertools.count(1)

    def queue(self, name: str, asker: object, method: Method) -> MessageQueue:
        """Find a queue for a connection: 404 if absent, 405 if another connection owns it."""
        queue = self.queues.get(name)
        if queue is None:
            raise not_found("queue", name, self.vhost, method)
        if queue.owner is not None and queue.owner is not asker:
            raise resource_locked(name, self.vhost, method)
        return queue

    def exchange(self, name: str, method: Method) -> Exchange:
        """Find an exchange: 404 if absent."""
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise not_found("exchange", name, self.vhost, method)
        return exchange

    def declare_exchange(self, spec: ExchangeSpec, *, passive: bool) -> None:
        """Declare, or look."""
        existing = self.exchanges.get(spec.name)
        if passive:
            self.exchange(spec.name, EXCHANGE_DECLARE)
        elif existing is not None:
            check_exchange(existing, spec, self.vhost)
        elif spec.name.startswith("amq."):
            text = f"exchange name '{spec.name}' contains reserved prefix 'amq.*'"
            raise access_refused(text, EXCHANGE_DECLARE)
        else:
            self.exchanges[spec.name] = Exchange(
                spec.name, spec.kind, durable=spec.durable, arguments=spec.arguments
            )

    def declare_queue(self, spec: QueueSpec, asker: ServedConnection | None, *, passive: bool) -> QueueState:
        """Declare, or look; only ready messages are counted (rabbitmq-facts, 11)."""
        if passive or spec.name in self.queues:
            queue = self.queue(spec.name, asker, QUEUE_DECLARE)
            if not passive:
                check_queue(queue.spec, spec, self.vhost)
        elif spec.name.startswith("amq."):
            text = f"queue name '{spec.name}' contains reserved prefix 'amq.*'"
            raise access_refused(text, QUEUE_DECLARE)
        else:
            queue = MessageQueue(spec, asker if spec.exclusive else None)
            self.queues[spec.name] = queue
        return QueueState(queue.name, len(queue.ready), len(queue.consumers))

    def delete_queue(self, name: str, asker: ServedConnection | None) -> int:
        """Delete a queue and cancel its consumers; an absent one counts 0."""
        if name not in self.queues:
            return 0
        queue = self.queues[name] if asker is None else self.queue(name, asker, QUEUE_DELETE)
        del self.queues[name]
        for exchange in self.exchanges.values():
            exchange.forget(name)
        for consumer in tuple(queue.consumers):
            queue.remove(consumer)
            consumer.cancelled(consumer)
        return queue.purge()

    def bind(self, binding: BindingSpec, asker: ServedConnection | None) -> None:
        """Bind; both ends must exist."""
        self.queue(binding.queue, asker, QUEUE_BIND)
        self.exchange(binding.exchange, QUEUE_BIND).bind(binding.queue, binding.routing_key)

    def unbind(self, binding: BindingSpec, asker: ServedConnection) -> None:
        """Unbind; RabbitMQ 3.x and 4.x take the absence of either end or of the binding as done."""
        if binding.queue in self.queues and binding.exchange in self.exchanges:
            self.queue(binding.queue, asker, QUEUE_UNBIND)
            self.exchanges[binding.exchange].unbind(binding.queue, binding.routing_key)

    def route(self, exchange: str, routing_key: str) -> tuple[str, ...]:
        """Return the names of the queues a publish goes to; 404 if the exchange is absent."""
        if not exchange:
            return (routing_key,) if routing_key in self.queues else ()
        return self.exchange(exchange, BASIC_PUBLISH).route(routing_key)

    def publish(self, publication: Publication) -> Acked | Nacked | Returned:
        """Store a mandatory publish wherever it routes to."""
        names = self.route(publication.exchange, publication.routing_key)
        if not names:
            return _NO_ROUTE
        serial = next(self._serials)
        for name in names:
            self.queues[name].enqueue(
                Message(
                    publication.exchange,
                    publication.routing_key,
                    publication.body,
                    publication.properties,
                    serial,
                )
            )
        return ACKED
