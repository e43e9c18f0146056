"""Recognising a delivery that comes again, across sessions (decisions, 8)."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import cast

import attrs

from craig_mq.core.delivery import Delivery, Properties

MAX_CONFIRMED_UNACKED = 1_000

# The broker counts takes in these; everything else belongs to the occurrence, x-death included.
_COUNTERS = frozenset({"x-delivery-count", "x-acquired-count"})
_PLAIN = tuple(field.name for field in attrs.fields(Properties) if field.name != "headers")


def delivery_identity(delivery: Delivery) -> bytes:
    """Return the SHA-256 over routing key, properties, headers without the take counters, and raw body.

    Header order counts for nothing. Two occurrences that differ only in x-death are different.
    """
    properties = delivery.properties
    headers = {name: value for name, value in properties.headers.items() if name not in _COUNTERS}
    described = (
        delivery.routing_key,
        [getattr(properties, name) for name in _PLAIN],
        headers,
        delivery.undecodable,
    )
    hasher = hashlib.sha256(_canonical(described).encode("utf-8", "surrogatepass"))
    hasher.update(b"\0")
    hasher.update(delivery.body)
    return hasher.digest()


def _canonical(value: object) -> str:
    """Spell a wire value such that equal values, and only they, give equal text."""
    if isinstance(value, Mapping):
        pairs = sorted(
            (_canonical(name), _canonical(item))
            for name, item in cast("Mapping[object, object]", value).items()
        )
        return "{" + ",".join(f"{name}:{item}" for name, item in pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_canonical, cast("list[object]", value))) + "]"
    return f"{type(value).__name__}={value!r}"


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
