"""Fixtures of the publishing tests: events to publish, and a queue that takes them."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from craig_mq import EventEnvelope
from craig_mq.transport.memory import MemoryBroker


@pytest.fixture
def event() -> Callable[..., EventEnvelope]:
    """Return a builder of events; each has an id of its own unless one is given."""

    def build(envelope_id: str | None = None, payload: bytes = b'{"n":1}') -> EventEnvelope:
        return EventEnvelope(
            envelope_id or str(uuid.uuid4()), "billing", "invoice.sent", "2026-11-30T10:00:00Z", payload
        )

    return build


@pytest.fixture
def broker() -> MemoryBroker:
    """An embedded broker with one queue that takes every event."""
    broker = MemoryBroker(trace=True)
    broker.declare_exchange("craig.events", "topic")
    broker.declare_queue("invoices")
    broker.bind("craig.events", "invoices", "invoice.#")
    return broker
