"""The hot case of reading: a basic.deliver whose header and one body frame lie ready behind it."""

from __future__ import annotations

import struct
from typing import Final

from craig_mq.core.delivery import Delivery
from craig_mq.transport.native.events import Delivered
from craig_mq.transport.native.methods import DELIVER
from craig_mq.transport.native.properties import HEADER_MIN, decode_properties
from craig_mq.transport.native.wire import BODY, FRAME_END, FRAME_HEAD, FRAME_OVERHEAD, HEADER

DELIVER_INDEX: Final = DELIVER.to_bytes(4, "big")

_HEAD_SIZE: Final = FRAME_HEAD.size
_TAG_FLAG = struct.Struct(">QB")
_CONTENT_HEAD = struct.Struct(">BHIHHQ")
_CONTENT_MIN: Final = 2 * FRAME_OVERHEAD + HEADER_MIN + 1
_ROUTES_MAX: Final = 1024


class DeliveryReader:
    """Reads whole deliveries, and remembers the few exchanges and routing keys they come by."""

    __slots__ = ("_routes",)

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._routes: dict[bytes, tuple[str, str]] = {}

    def read(
        self, data: bytes, at: int, stop: int, channel: int, payload_max: int
    ) -> tuple[Delivered, int] | None:
        """Return the delivery whose method frame lies at ``at`` to ``stop``, and the offset behind it.

        None is no verdict: the frame-by-frame way takes over, and finds what is wrong, if anything is.
        """
        available = len(data)
        header_at = stop + 1 + _HEAD_SIZE
        consumer_at = at + _HEAD_SIZE + 5
        tag_at = consumer_at + data[consumer_at - 1]
        names_at = tag_at + _TAG_FLAG.size
        if names_at >= stop or available - stop <= _CONTENT_MIN:
            return None
        route = self._routes.get(data[names_at:stop]) or self._learn(data[names_at:stop])
        kind, number, size, _, _, announced = _CONTENT_HEAD.unpack_from(data, stop + 1)
        header_stop = header_at + size
        body_at = header_stop + FRAME_OVERHEAD
        if route is None or kind != HEADER or number != channel or size < HEADER_MIN or body_at > available:
            return None
        kind, number, size = FRAME_HEAD.unpack_from(data, header_stop + 1)
        end = body_at + size
        if kind != BODY or number != channel or size != announced or not 0 < size <= payload_max:
            return None
        if end >= available or data[header_stop] != FRAME_END or data[end] != FRAME_END:
            return None
        header = data[header_at:header_stop]
        properties, whole = decode_properties(header)
        tag, bits = _TAG_FLAG.unpack_from(data, tag_at)
        body, undecodable = data[body_at:end], None if whole else header
        delivery = Delivery(tag, *route, bits & 1 == 1, body, properties, undecodable)
        return Delivered(channel, data[consumer_at:tag_at], delivery), end + 1

    def _learn(self, names: bytes) -> tuple[str, str] | None:
        """Read exchange and routing key; None unless they are two short strings of UTF-8 and no more."""
        middle = 1 + names[0]
        if middle >= len(names) or middle + 1 + names[middle] != len(names):
            return None
        try:
            route = names[1:middle].decode(), names[middle + 1 :].decode()
        except UnicodeDecodeError:
            return None
        if len(self._routes) >= _ROUTES_MAX:
            self._routes.clear()
        self._routes[names] = route
        return route
