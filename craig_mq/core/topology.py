"""What must exist at the broker for one subscription, as data (ADR-059 §parking, §quarantine)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import attrs

from craig_mq.core.config import PARKING_SUFFIX, QUARANTINE_SUFFIX, DeadLetterBy, QueueType
from craig_mq.core.last_error import cut_routing_key

DEAD_LETTER_EXCHANGE = "craig.dlx"
EVENTS_EXCHANGE = "craig.events"
QUORUM_DELIVERY_LIMIT = 2**31 - 1

_NO_ARGUMENTS: Mapping[str, object] = MappingProxyType({})


@attrs.define(frozen=True, slots=True)
class ExchangeSpec:
    """A durable exchange; ``kind`` is ``topic``, ``direct`` or ``fanout``."""

    name: str
    kind: str = "topic"
    durable: bool = True
    arguments: Mapping[str, object] = _NO_ARGUMENTS


@attrs.define(frozen=True, slots=True)
class QueueSpec:
    """A queue as we would declare it; ``arguments`` always name ``x-queue-type`` (decisions, 13)."""

    name: str
    durable: bool = True
    exclusive: bool = False
    auto_delete: bool = False
    arguments: Mapping[str, object] = _NO_ARGUMENTS


@attrs.define(frozen=True, slots=True)
class BindingSpec:
    """A binding from an exchange to a queue."""

    exchange: str
    queue: str
    routing_key: str


@attrs.define(frozen=True, slots=True)
class QueueState:
    """What a declare, active or passive, reported. ``ready`` excludes deliveries held unacked."""

    name: str
    ready: int
    consumers: int


@attrs.define(frozen=True, slots=True)
class Topology:
    """Everything one subscription needs: declared at its start, and again when found missing.

    The siblings' names are empty for an ordinary queue. ``exact`` allows nothing else in its place:
    where the broker dead-letters, a queue without our DLX would drop what is rejected.
    """

    exchanges: tuple[ExchangeSpec, ...]
    queues: tuple[QueueSpec, ...]
    bindings: tuple[BindingSpec, ...]
    queue_name: str
    parking_name: str = ""
    quarantine_name: str = ""
    exact: bool = False

    @property
    def parts(self) -> list[ExchangeSpec | QueueSpec]:
        """Exchanges, then queues: in the order in which they are declared."""
        return [*self.exchanges, *self.queues]


def topology_for(queue: str, binding_keys: Sequence[str], queue_type: QueueType = "classic") -> Topology:
    """Return the topology of the dead-letter queue ``queue``: itself, its two siblings, craig.dlx.

    The siblings have no TTL and no DLX. A quorum queue gets a large positive delivery limit: the
    broker's default deletes a message after 21 takes, and none sends requeues to the tail.
    """
    arguments = _arguments(queue_type)
    parking, quarantine = queue + PARKING_SUFFIX, queue + QUARANTINE_SUFFIX
    return Topology(
        exchanges=(ExchangeSpec(DEAD_LETTER_EXCHANGE),),
        queues=tuple(QueueSpec(name, arguments=arguments) for name in (queue, parking, quarantine)),
        bindings=tuple(BindingSpec(DEAD_LETTER_EXCHANGE, queue, key) for key in binding_keys),
        queue_name=queue,
        parking_name=parking,
        quarantine_name=quarantine,
    )


def event_topology(
    queue: str,
    binding_keys: Sequence[str],
    exchange: str = EVENTS_EXCHANGE,
    queue_type: QueueType = "classic",
    dead_letter_by: DeadLetterBy = "client",
) -> Topology:
    """Return the topology of an ordinary queue: itself, the exchange of its events, craig.dlx.

    Where the broker dead-letters, it does so under ``dlq.<queue>``: it cannot know the event's type.
    The broker's own exchanges (the default one, ``amq.*``) are not declared, and the default one binds
    every queue by itself.
    """
    arguments = _arguments(queue_type)
    if dead_letter_by == "broker":
        arguments["x-dead-letter-exchange"] = DEAD_LETTER_EXCHANGE
        arguments["x-dead-letter-routing-key"] = cut_routing_key(f"dlq.{queue}")
    exchanges = [ExchangeSpec(DEAD_LETTER_EXCHANGE)]
    if exchange and not exchange.startswith("amq."):
        exchanges.insert(0, ExchangeSpec(exchange))
    return Topology(
        exchanges=tuple(exchanges),
        queues=(QueueSpec(queue, arguments=arguments),),
        bindings=tuple(BindingSpec(exchange, queue, key) for key in binding_keys) if exchange else (),
        queue_name=queue,
        exact=dead_letter_by == "broker",
    )


def _arguments(queue_type: QueueType) -> dict[str, object]:
    arguments: dict[str, object] = {"x-queue-type": queue_type}
    if queue_type == "quorum":
        arguments["x-delivery-limit"] = QUORUM_DELIVERY_LIMIT
    return arguments
