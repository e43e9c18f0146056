"""Where a publish goes: bindings, alternate exchanges, CC and BCC, and the broker's own dead-lettering."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec

from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import ACKED, NACKED, Acked, Nacked, Returned
from craig_mq.transport.memory.dead_lettering import DeathReason, dead_letter_properties, died_in_a_cycle
from craig_mq.transport.memory.message import Message
from craig_mq.transport.memory.queue import MessageQueue
from craig_mq.transport.memory.refusals import BASIC_PUBLISH
from craig_mq.transport.memory.trace import MessagePublished

if TYPE_CHECKING:
    from craig_mq.transport.memory.vhost import Vhost

NO_ROUTE = Returned(312, "NO_ROUTE")


def publish(
    vhost: Vhost, publication: Publication, connection: int, channel: object | None = None
) -> Acked | Nacked | Returned:
    """Store a mandatory publish wherever it routes to. Raises Refused (404) without its exchange."""
    node = vhost.node
    names = route(vhost, publication.exchange, publication.routing_key, publication.properties)
    properties = publication.properties
    if "BCC" in properties.headers:
        shown = {name: value for name, value in properties.headers.items() if name != "BCC"}
        properties = msgspec.structs.replace(properties, headers=shown)
    serial = node.next_serial()
    # What a queue does with a copy at once is noted after the publish that brought it.
    noted_at = 0 if node.trace is None else len(node.trace)
    kept: list[str] = []
    for name in names:
        message = Message(publication.exchange, publication.routing_key, publication.body, properties, serial)
        if vhost.queues[name].enqueue(message, channel):
            kept.append(name)
    outcome = NO_ROUTE if not names else ACKED if len(kept) == len(names) else NACKED
    if node.trace is not None:
        told = type(outcome).__name__.lower()
        record = MessagePublished(node.now(), connection, serial, publication, tuple(kept), told)
        node.trace.insert(noted_at, record)
    return outcome


def route(vhost: Vhost, exchange: str, routing_key: str, properties: Properties) -> tuple[str, ...]:
    """Return the names of the queues a publish goes to, each once."""
    if not properties.headers or not {"CC", "BCC"} & properties.headers.keys():
        return _route_key(vhost, exchange, routing_key)
    keys = [routing_key]
    for header in ("CC", "BCC"):
        more = properties.headers.get(header)
        if isinstance(more, list):
            keys += [key for key in cast("list[object]", more) if isinstance(key, str)]
    return tuple(dict.fromkeys(name for key in keys for name in _route_key(vhost, exchange, key)))


def dead_letter(vhost: Vhost, queue: MessageQueue, message: Message, reason: DeathReason) -> None:
    """Move a message to its queue's dead-letter exchange; without one that exists it is gone (fact 19)."""
    node = vhost.node
    node.note_dropped(message, queue.name, reason)
    target = queue.limits.dead_letter_exchange
    if target is None or (target and target not in vhost.exchanges):
        return
    key = queue.limits.dead_letter_routing_key or message.routing_key
    properties = dead_letter_properties(
        message, queue.name, reason, died_at=int(node.wall_clock()), profile=node.profile
    )
    for name in route(vhost, target, key, properties):
        if not died_in_a_cycle(message, name, reason):
            copy = Message(target, key, message.body, properties, message.serial, broker_history=True)
            vhost.queues[name].enqueue(copy)


def _route_key(vhost: Vhost, exchange: str, routing_key: str) -> tuple[str, ...]:
    if not exchange:
        return (routing_key,) if routing_key in vhost.queues else ()
    here = vhost.exchange(exchange, BASIC_PUBLISH)
    found = here.route(routing_key)
    asked = {exchange}
    # An alternate exchange makes `mandatory` blind: what it routes counts as routed (rabbitmq-facts, 6).
    while not found:
        alternate = vhost.alternate_of(here)
        if alternate is None or alternate.name in asked:
            break
        asked.add(alternate.name)
        here = alternate
        found = here.route(routing_key)
    return found
