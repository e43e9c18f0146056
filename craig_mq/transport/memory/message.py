"""A message inside a queue of the model."""

from __future__ import annotations

import attrs

from craig_mq.core.delivery import Properties


@attrs.define(slots=True, eq=False)
class Message:
    """One copy of a published message in one queue.

    ``serial`` numbers the publish it stems from, ``rank`` orders it in its queue (priority
    first, then position); ``expires_at``
    is on Trio's clock. ``delivery_count`` counts what counts towards a delivery limit, ``acquired_count``
    every take. ``broker_history`` is true where the broker itself wrote the ``x-death`` header.
    """

    exchange: str
    routing_key: str
    body: bytes
    properties: Properties
    serial: int
    rank: tuple[int, int] = (0, 0)
    redelivered: bool = False
    delivery_count: int = 0
    acquired_count: int = 0
    broker_history: bool = False
    expires_at: float | None = None

    def copy(self) -> Message:
        """Return a copy as a duplicate publish would have left it."""
        return Message(self.exchange, self.routing_key, self.body, self.properties, self.serial)
