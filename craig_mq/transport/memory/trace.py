"""What the broker saw, in order: the evidence that checkers judge by.

``at`` is on Trio's clock; ``serial`` numbers a publish; ``connection`` numbers a connection of this
broker, 0 standing for the broker's own hand (an operator, a dead-lettering, a crash).
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from craig_mq.core.close import CloseReason
from craig_mq.core.delivery import Publication
from craig_mq.core.outcome import Confirmation


@attrs.define(frozen=True, slots=True)
class ConnectionOpened:
    """A connection came to be."""

    at: float
    connection: int
    name: str


@attrs.define(frozen=True, slots=True)
class ConnectionEnded:
    """The broker no longer lists the connection."""

    at: float
    connection: int
    name: str
    reason: CloseReason


@attrs.define(frozen=True, slots=True)
class ConsumerStarted:
    """A consumer takes part in a queue."""

    at: float
    connection: int
    queue: str
    tag: str


@attrs.define(frozen=True, slots=True)
class ConsumerEnded:
    """A consumer was cancelled, by either side, or went with its channel."""

    at: float
    connection: int
    queue: str
    tag: str


@attrs.define(frozen=True, slots=True)
class MessagePublished:
    """A publish was carried out; ``queues`` took a copy in. ``outcome`` is acked, nacked or returned.

    It stands before everything that became of those copies, be it at the same moment.
    """

    at: float
    connection: int
    serial: int
    publication: Publication
    queues: tuple[str, ...]
    outcome: str


@attrs.define(frozen=True, slots=True)
class OutcomeTold:
    """The publishing call returned: only ``Acked`` here is evidence, not what the broker did."""

    at: float
    connection: int
    publication: Publication
    outcome: Confirmation


@attrs.define(frozen=True, slots=True)
class MessageDelivered:
    """A message was handed to a connection."""

    at: float
    connection: int
    serial: int
    queue: str
    delivery_tag: int
    redelivered: bool


@attrs.define(frozen=True, slots=True)
class MessageAcked:
    """A delivery was acked: the queue forgot the message."""

    at: float
    connection: int
    serial: int
    queue: str


@attrs.define(frozen=True, slots=True)
class MessageRequeued:
    """A delivery went back to its queue; after a crash, so does what was acked but not yet on disk."""

    at: float
    connection: int
    serial: int
    queue: str


@attrs.define(frozen=True, slots=True)
class MessageDropped:
    """A queue gave a message up: rejected, expired, maxlen, delivery_limit, purged, deleted or lost."""

    at: float
    serial: int
    queue: str
    why: str


@attrs.define(frozen=True, slots=True)
class Noted:
    """Evidence of an onlooker, put in order with the broker's own by ``MemoryBroker.note``."""

    at: float
    what: object


TraceRecord: TypeAlias = (
    ConnectionOpened
    | ConnectionEnded
    | ConsumerStarted
    | ConsumerEnded
    | MessagePublished
    | OutcomeTold
    | MessageDelivered
    | MessageAcked
    | MessageRequeued
    | MessageDropped
    | Noted
)
