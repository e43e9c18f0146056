"""Builders every core test shares: one good envelope, one delivery, one capture order."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

from craig_mq.core.capture import CaptureOrder
from craig_mq.core.dead_letter import DeadLetterDelivery, build_dead_letter_delivery
from craig_mq.core.delivery import NO_PROPERTIES, Delivery

ENVELOPE_ID = "0192f0c1-2345-7abc-8def-0123456789ab"
CAPTURE_ID = "0192f0c1-0000-7000-8000-000000000001"
FRESH_ID = "0192f0c1-0000-7000-8000-000000000002"

# A slow machine is no failure of a pure function.
settings.register_profile("core", deadline=None)
settings.load_profile("core")


@pytest.fixture(scope="session")
def envelope_json() -> Callable[..., bytes]:
    """A function writing a good envelope compactly, members overridden, added, or dropped by None."""

    def write(**members: Any) -> bytes:
        good = {
            "id": ENVELOPE_ID,
            "source_service": "billing",
            "event_type": "invoice.created",
            "occurred_at": "2026-01-01T00:00:00.123456789+01:00",
            "payload": {"amount": 1},
        }
        merged = {name: value for name, value in {**good, **members}.items() if value is not ...}
        return json.dumps(merged, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")

    return write


@pytest.fixture(scope="session")
def deliver() -> Callable[..., Delivery]:
    """A function making a delivery of a body; keywords override its fields."""

    def make(body: bytes, **fields: Any) -> Delivery:
        good: dict[str, Any] = {
            "delivery_tag": 1,
            "exchange": "craig.dlx",
            "routing_key": "dlq.billing.invoice",
            "redelivered": False,
            "properties": NO_PROPERTIES,
        }
        return Delivery(body=body, **{**good, **fields})

    return make


@pytest.fixture(scope="session")
def order() -> Callable[..., CaptureOrder]:
    """A function making a capture order; keywords override its fields."""

    def make(**fields: Any) -> CaptureOrder:
        good = {"capture_id": CAPTURE_ID, "fresh_id": FRESH_ID, "at_s": 1_772_000_000.5, "attempts": 3}
        return CaptureOrder(**{**good, **fields})

    return make


@pytest.fixture(scope="session")
def dead(
    deliver: Callable[..., Delivery], envelope_json: Callable[..., bytes]
) -> Callable[..., DeadLetterDelivery]:
    """A function making a readable dead letter of ``billing.dlq``; keywords go to the delivery."""

    def make(body: bytes | None = None, **fields: Any) -> DeadLetterDelivery:
        subject = build_dead_letter_delivery(
            deliver(envelope_json() if body is None else body, **fields), queue="billing.dlq"
        )
        assert isinstance(subject, DeadLetterDelivery)
        return subject

    return make
