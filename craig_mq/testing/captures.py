"""Quarantined captures as the runtime builds them, for tests of what operators do with them."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

from craig_mq.core.capture import CaptureOrder, build_capture
from craig_mq.core.capture_format import QuarantineReason, uuid7
from craig_mq.core.dead_letter import build_dead_letter_delivery
from craig_mq.core.delivery import Delivery
from craig_mq.core.last_error import LastError
from craig_mq.core.topology import DEAD_LETTER_EXCHANGE
from craig_mq.testing.dead_letters import envelope


def original(
    number: int, *, token: bool = True, event_type: str = "order.placed", source_service: str = "orders"
) -> bytes:
    """Return the body of event ``number``, with an occurrence token of its own unless said otherwise."""
    more: dict[str, Any] = {"_dlx": {"token": f"occ1:inbox:{number:032x}"}} if token else {}
    return envelope(
        {"n": number},
        id=str(uuid.UUID(int=number)),
        event_type=event_type,
        source_service=source_service,
        **more,
    )


def quarantined(
    number: int,
    at_s: float,
    body: bytes | None = None,
    *,
    queue: str = "orders.dlq",
    routing_key: str = "dlq.orders",
    reason: QuarantineReason = QuarantineReason.PERMANENT,
    attempts: int = 1,
    error: tuple[str, str] = ("ValueError", "column too long"),
) -> bytes:
    """Return a capture of ``body`` (else of event ``number``), quarantined at ``at_s`` of the Unix epoch.

    ``number`` and ``at_s`` make the capture_id; ``error`` is the last error's type and text.
    """
    delivery = Delivery(
        1, DEAD_LETTER_EXCHANGE, routing_key, False, original(number) if body is None else body
    )
    order = CaptureOrder(
        capture_id=uuid7(int(at_s * 1_000), number),
        fresh_id=str(uuid.UUID(int=1 << 100 | number)),
        at_s=at_s,
        attempts=attempts,
        reason=reason,
        last_error=LastError(*error, hashlib.sha256(error[1].encode()).hexdigest()),
    )
    return build_capture(build_dead_letter_delivery(delivery, queue=queue), order).body
