"""A message inside a queue of the model."""

from __future__ import annotations

import attrs

from craig_mq.core.delivery import Properties


@attrs.define(slots=True, eq=False)
class Message:
    """One copy of a published message in one queue.

    ``serial`` numbers the publish it stems from, ``position`` its place in the queue; ``expires_at``
    is on Trio's clock.
    """

    exchange: str
    routing_key: str
    body: bytes
    properties: Properties
    serial: int
    position: int = 0
    redelivered: bool = False
    delivery_count: int = 0
    expires_at: float | None = None
