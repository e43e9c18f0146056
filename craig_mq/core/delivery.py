"""What crosses the seam to a broker: deliveries in, publications out."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

NO_HEADERS: Mapping[str, object] = MappingProxyType({})

PERSISTENT = 2


class Properties(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """AMQP 0-9-1 basic properties, decoded; an absent property is ``None``.

    ``timestamp`` is whole seconds since the Unix epoch exactly as on the wire (0 .. 2**64-1); it
    is not a ``datetime`` because the wire holds values that no ``datetime`` can. ``headers`` holds
    wire values as Python ones: bool, int, float, Decimal, str, bytes (where not UTF-8), int seconds
    for ``T`` fields, list, dict, None.
    """

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Mapping[str, object] = NO_HEADERS
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None


NO_PROPERTIES = Properties()


class Delivery(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One message handed to this process by the broker, not yet settled.

    ``delivery_tag`` is only meaningful on the channel that delivered it. ``undecodable`` is None
    when everything on the wire could be read; otherwise it holds the raw content-header payload
    bytes, and ``properties`` holds what could be read of them.
    """

    delivery_tag: int
    exchange: str
    routing_key: str
    redelivered: bool
    body: bytes
    properties: Properties = NO_PROPERTIES
    undecodable: bytes | None = None


class Publication(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One message to publish: always mandatory, always persistent, always confirmed.

    ``properties.message_id`` must be fresh for every publish: a returned message carries no
    delivery tag, and the id is the only thing it can be matched by (decisions, 15).
    """

    exchange: str
    routing_key: str
    body: bytes
    properties: Properties
