"""Fills a queue of the private broker, pipelined and confirmed, outside every measured interval."""

from __future__ import annotations

import json
import uuid

import trio

from craig_mq.core.delivery import PERSISTENT, Properties, Publication
from craig_mq.core.outcome import ACKED
from craig_mq.transport.broker import Channel, ConnectionOptions
from craig_mq.transport.opening import open_broker

IN_FLIGHT = 512
IN_FLIGHT_BYTES = 16 * 1024 * 1024


class NotEntered(Exception):
    """The broker did not confirm a message of the fill."""


def envelope(body_bytes: int) -> bytes:
    """One valid event envelope of exactly ``body_bytes`` bytes (at least 256), tokenless."""
    document = {
        "id": str(uuid.uuid4()),
        "source_service": "bench",
        "event_type": "bench.event",
        "occurred_at": "2026-01-01T00:00:00Z",
        "payload": {"text": ""},
    }
    padding = body_bytes - len(json.dumps(document, separators=(",", ":")))
    document["payload"] = {"text": "x" * padding}
    return json.dumps(document, separators=(",", ":")).encode()


def fill(url: str, exchange: str, routing_key: str, count: int, body_bytes: int) -> None:
    """Publish ``count`` envelopes and return once the broker has confirmed each one."""
    trio.run(_fill, url, exchange, routing_key, count, body_bytes)


async def _fill(url: str, exchange: str, routing_key: str, count: int, body_bytes: int) -> None:
    _, tail = envelope(body_bytes)[:7], envelope(body_bytes)[43:]
    numbers = iter(range(count))

    async def publish_some(channel: Channel) -> None:
        for number in numbers:
            identity = str(uuid.uuid4())
            properties = Properties(
                content_type="application/json", delivery_mode=PERSISTENT, message_id=identity
            )
            body = b'{"id":"' + identity.encode() + tail
            outcome = await channel.publish(Publication(exchange, routing_key, body, properties))
            if outcome != ACKED:
                raise NotEntered(f"message {number}: {outcome}")

    async with open_broker(url) as broker, broker.connect(ConnectionOptions("bench fill")) as connection:
        channel = await connection.open_channel(confirms=True)
        async with trio.open_nursery() as nursery:
            for _ in range(max(1, min(IN_FLIGHT, IN_FLIGHT_BYTES // body_bytes))):
                nursery.start_soon(publish_some, channel)
        await connection.aclose()
