"""Builders for handler authors: dead letters to call a handler with, and bodies to publish."""

from __future__ import annotations

import json
import uuid

from craig_mq.core.dead_letter import DeadLetter
from craig_mq.core.death import Death
from craig_mq.core.delivery import PERSISTENT, Properties
from craig_mq.core.envelope import decode_envelope
from craig_mq.transport.memory import MemoryBroker

OCCURRED_AT = "2026-01-02T03:04:05Z"


def envelope(
    payload: object = None,
    *,
    id: str | None = None,  # noqa: A002 - the field's own name
    source_service: str = "orders",
    event_type: str = "order.placed",
    occurred_at: str = OCCURRED_AT,
    **more: object,
) -> bytes:
    """Return the body of an event; ``payload`` and ``more`` are any JSON, ``id`` a fresh UUID by default."""
    fields = {
        "id": id or str(uuid.uuid4()),
        "source_service": source_service,
        "event_type": event_type,
        "occurred_at": occurred_at,
        "payload": payload,
        **more,
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def dead_letter(
    body: bytes | None = None,
    *,
    queue: str = "orders.dlq",
    routing_key: str = "dlq.orders",
    token: str | None = None,
    park_count: int = 0,
    attempt: int = 1,
    redelivered: bool = False,
    death: Death | None = None,
) -> DeadLetter:
    """Return what a handler is given. Raises MalformedBody where ``body`` would never reach a handler."""
    body = envelope() if body is None else body
    return DeadLetter(
        decode_envelope(body), token, queue, routing_key, park_count, attempt, redelivered, body, death
    )


def died(
    queue: str = "orders", *, reason: str = "rejected", count: int = 1, at_s: int = 1_767_323_045
) -> Properties:
    """Return the properties of a message RabbitMQ dead-lettered from ``queue`` at Unix time ``at_s``."""
    entry = {
        "count": count,
        "exchange": "",
        "queue": queue,
        "reason": reason,
        "routing-keys": [queue],
        "time": at_s,
    }
    return Properties(
        message_id=str(uuid.uuid4()),
        delivery_mode=PERSISTENT,
        headers={
            "x-death": [entry],
            "x-first-death-exchange": "",
            "x-first-death-queue": queue,
            "x-first-death-reason": reason,
        },
    )


def seed(
    broker: MemoryBroker,
    queue: str,
    *bodies: bytes,
    routing_key: str = "dlq.orders",
    exchange: str = "craig.dlx",
    properties: Properties | None = None,
) -> None:
    """Dead-letter these bodies into ``queue`` as its own program would, declaring what is missing.

    Each gets x-death properties of its own unless ``properties`` are given.
    """
    broker.declare_exchange(exchange)
    if queue not in broker.queues:
        broker.declare_queue(queue, {"x-queue-type": "classic"})
    broker.bind(exchange, queue, routing_key)
    for body in bodies:
        broker.publish(exchange, routing_key, body, died() if properties is None else properties)
