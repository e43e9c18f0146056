"""What is declared on the model: exchanges, queues, bindings, policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from craig_mq.core.topology import BindingSpec, ExchangeSpec, QueueSpec, QueueState
from craig_mq.transport.memory import router
from craig_mq.transport.memory.dead_lettering import DeathReason
from craig_mq.transport.memory.equivalence import check_exchange, check_queue
from craig_mq.transport.memory.exchange import Exchange
from craig_mq.transport.memory.limits import Policy, QueueLimits, effective_limits, policy_for
from craig_mq.transport.memory.message import Message
from craig_mq.transport.memory.queue import MessageQueue
from craig_mq.transport.memory.refusals import (
    EXCHANGE_DECLARE,
    QUEUE_BIND,
    QUEUE_DECLARE,
    QUEUE_DELETE,
    QUEUE_UNBIND,
    Method,
    access_refused,
    deprecated_feature,
    not_found,
    resource_locked,
)

if TYPE_CHECKING:
    from craig_mq.transport.memory.node import Node
    from craig_mq.transport.memory.served_connection import ServedConnection

_STANDARD_EXCHANGES = (("amq.direct", "direct"), ("amq.fanout", "fanout"), ("amq.topic", "topic"))


class Vhost:
    """One virtual host. Methods raise Refused where RabbitMQ closes the channel."""

    def __init__(self, node: Node, name: str = "/") -> None:
        """Start with the standard exchanges and nothing else."""
        self.node = node
        self.name = name
        self.default_queue_type = "classic"
        self.queues: dict[str, MessageQueue] = {}
        self.policies: dict[str, Policy] = {}
        self.exchanges = {
            name: Exchange(name, kind, durable=True, arguments={}) for name, kind in _STANDARD_EXCHANGES
        }

    def queue(self, name: str, asker: object, method: Method) -> MessageQueue:
        """Find a queue for a connection: 404 if absent, 405 if another connection owns it."""
        queue = self.queues.get(name)
        if queue is None:
            raise not_found("queue", name, self.name, method)
        if queue.owner is not None and queue.owner is not asker:
            raise resource_locked(name, self.name, method)
        return queue

    def exchange(self, name: str, method: Method) -> Exchange:
        """Find an exchange: 404 if absent."""
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise not_found("exchange", name, self.name, method)
        return exchange

    def alternate_of(self, exchange: Exchange) -> Exchange | None:
        """Return the alternate exchange, by argument or else by policy, if it exists."""
        policy = policy_for(exchange.name, self.policies)
        name = exchange.arguments.get("alternate-exchange", policy.get("alternate-exchange"))
        return self.exchanges.get(name) if isinstance(name, str) else None

    def declare_exchange(self, spec: ExchangeSpec, *, passive: bool) -> None:
        """Declare, or look."""
        existing = self.exchanges.get(spec.name)
        if passive:
            self.exchange(spec.name, EXCHANGE_DECLARE)
        elif existing is not None:
            check_exchange(existing, spec, self.name)
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
            queue.expire()
            if not passive:
                check_queue(queue.spec, spec, self.name, self.default_queue_type)
        else:
            queue = self._create(spec, asker)
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
        return queue.purge("deleted")

    def bind(self, binding: BindingSpec, asker: ServedConnection | None) -> None:
        """Bind; both ends must exist."""
        self.queue(binding.queue, asker, QUEUE_BIND)
        self.exchange(binding.exchange, QUEUE_BIND).bind(binding.queue, binding.routing_key)

    def unbind(self, binding: BindingSpec, asker: ServedConnection | None) -> None:
        """Unbind; RabbitMQ takes the absence of either end or of the binding as done."""
        if binding.queue in self.queues and binding.exchange in self.exchanges:
            if asker is not None:
                self.queue(binding.queue, asker, QUEUE_UNBIND)
            self.exchanges[binding.exchange].unbind(binding.queue, binding.routing_key)

    def set_policies(self, policies: Mapping[str, Policy]) -> None:
        """Replace all policies; they act on what exists at once."""
        self.policies = dict(policies)
        for queue in self.queues.values():
            queue.limits = self._limits(queue.spec)

    def dead_letter(self, queue: MessageQueue, message: Message, reason: DeathReason) -> None:
        """Give a queue's message to its dead-letter exchange, or up."""
        router.dead_letter(self, queue, message, reason)

    def _create(self, spec: QueueSpec, asker: ServedConnection | None) -> MessageQueue:
        if spec.name.startswith("amq."):
            text = f"queue name '{spec.name}' contains reserved prefix 'amq.*'"
            raise access_refused(text, QUEUE_DECLARE)
        if self.node.profile.refuses_transient and not spec.durable and not spec.exclusive:
            raise deprecated_feature("Feature `transient_nonexcl_queues` is deprecated", QUEUE_DECLARE)
        if "x-queue-type" not in spec.arguments:
            arguments = {"x-queue-type": self.default_queue_type, **spec.arguments}
            spec = QueueSpec(spec.name, spec.durable, spec.exclusive, spec.auto_delete, arguments)
        queue = MessageQueue(spec, asker if spec.exclusive else None, self, self._limits(spec))
        self.queues[spec.name] = queue
        return queue

    def _limits(self, spec: QueueSpec) -> QueueLimits:
        return effective_limits(spec, policy_for(spec.name, self.policies), self.node.profile)
