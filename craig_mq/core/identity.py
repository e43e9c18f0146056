"""Recognising a delivery that comes again, across sessions (decisions, 8)."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from operator import attrgetter

from craig_mq.core.delivery import Delivery, Properties
from craig_mq.core.properties_json import properties_to_json

MAX_CONFIRMED_UNACKED = 1_000

# The broker counts takes in these; everything else belongs to the occurrence, x-death included.
_COUNTERS = frozenset({"x-delivery-count", "x-acquired-count"})
_plain_of = attrgetter(*(name for name in Properties.__struct_fields__ if name != "headers"))


def delivery_identity(delivery: Delivery) -> bytes:
    """Return the SHA-256 over routing key, properties, headers without the take counters, and raw body.

    The order of headers counts for nothing. Two occurrences that differ only in x-death are different.
    """
    properties = delivery.properties
    try:
        # repr tells every wire type apart, and brokers keep the order inside a table.
        headers = sorted([repr(item) for item in properties.headers.items() if item[0] not in _COUNTERS])
    except RecursionError:
        # Absurdly nested: its JSON form is cut at a depth, which only makes two such look alike.
        headers = [repr(properties_to_json(properties))]
    described = repr((delivery.routing_key, _plain_of(properties), headers, delivery.undecodable))
    hasher = hashlib.sha256(described.encode("utf-8", "surrogatepass"))
    hasher.update(delivery.body)
    return hasher.digest()


class ConfirmedUnacked:
    """Deliveries whose copy was confirmed; an arm keeps it over its sessions. Bounded, oldest forgotten.

    An entry stays after its ack, because a crashed broker returns acked messages, and serves once.
    """

    __slots__ = ("_limit", "_seen")

    def __init__(self, limit: int = MAX_CONFIRMED_UNACKED) -> None:
        """Remember at most ``limit`` deliveries (1 or more)."""
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        self._limit = limit
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def remember(self, identity: bytes) -> None:
        """Note that a copy of this delivery was confirmed; call it before its ack."""
        self._seen[identity] = None
        self._seen.move_to_end(identity)
        if len(self._seen) > self._limit:
            self._seen.popitem(last=False)

    def absorb(self, identity: bytes) -> bool:
        """Whether a ``redelivered`` delivery of this identity may be acked without a second copy, once."""
        if identity not in self._seen:
            return False
        del self._seen[identity]
        return True
