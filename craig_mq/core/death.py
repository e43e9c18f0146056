"""Who dead-lettered a message, from ``_dlx`` or from the broker's x-death.

x-death reaches us as anything at all: a publisher can send it, brokers before 4.0 merge it, later
ones replace it (rabbitmq-facts, 18; field failure PROP-05). Only a well-formed first entry counts,
and only for the token and for what a handler is shown, never for a disposition or a park count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from craig_mq.core.envelope import EventEnvelope
from craig_mq.core.timing import format_instant
from craig_mq.core.token import broker_token, is_token

_MAX_WIRE_INTEGER = 2**63 - 1
_LAST_CALENDAR_SECOND = 253_402_300_799


class Death(msgspec.Struct, frozen=True, gc=False):
    """Where, why, when and how often a message was dead-lettered; each None where nobody said."""

    queue: str | None
    reason: str | None
    failed_at: str | None
    error: str | None
    count: int | None


class BrokerDeath(msgspec.Struct, frozen=True, gc=False):
    """The first entry of a well-formed x-death; ``time_s`` is whole seconds since the Unix epoch."""

    queue: str
    reason: str
    count: int
    time_s: int


def broker_death(headers: Mapping[str, object]) -> BrokerDeath | None:
    """Read x-death[0], or None unless it is a table with a queue, reason, count and time of their types."""
    history = headers.get("x-death")
    if not isinstance(history, list) or not history:
        return None
    entry = cast("list[object]", history)[0]
    if not isinstance(entry, dict):
        return None
    fields = cast("dict[object, object]", entry)
    queue, reason = fields.get("queue"), fields.get("reason")
    count, time_s = _whole(fields.get("count")), _whole(fields.get("time"))
    if not isinstance(queue, str) or not isinstance(reason, str) or count is None or time_s is None:
        return None
    return BrokerDeath(queue, reason, count, time_s)


def describe_death(envelope: EventEnvelope, broker: BrokerDeath | None) -> Death | None:
    """Describe the death for the handler: the producer's own words first, then the broker's."""
    if envelope.dlx is not None:
        dlx = envelope.dlx
        return Death(dlx.queue, dlx.reason, dlx.failed_at, dlx.error, None)
    if broker is None:
        return None
    failed_at = format_instant(broker.time_s) if broker.time_s <= _LAST_CALENDAR_SECOND else None
    return Death(broker.queue, broker.reason, failed_at, None, broker.count)


def occurrence_token(envelope: EventEnvelope, broker: BrokerDeath | None) -> str | None:
    """Return the token of a delivery that is no parked return: ``_dlx``'s, else derived, else None."""
    if envelope.dlx is not None and envelope.dlx.token is not None and is_token(envelope.dlx.token):
        return envelope.dlx.token
    if broker is None:
        return None
    return broker_token(envelope.id, broker.queue, broker.reason, broker.count, broker.time_s)


def _whole(value: object) -> int | None:
    # bool is an int in Python and not on the wire.
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_WIRE_INTEGER:
        return value
    return None
