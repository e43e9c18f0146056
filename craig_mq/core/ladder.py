"""Ordinary queues: the two-strike ladder and the dead letter a client makes (decisions, 19)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs
import msgspec

from craig_mq.core.delivery import PERSISTENT, Delivery, Properties, Publication
from craig_mq.core.envelope import EventEnvelope, ExplicitDeadLetter, decode_envelope
from craig_mq.core.errors import MalformedBody
from craig_mq.core.json_text import members
from craig_mq.core.last_error import LastError, cut_routing_key
from craig_mq.core.timing import format_instant
from craig_mq.core.token import inbox_token
from craig_mq.core.topology import DEAD_LETTER_EXCHANGE

APP_ID = "craig_mq"
HANDLER_FAILED = "handler_failed"

_encode = msgspec.json.Encoder().encode


@attrs.define(frozen=True, slots=True)
class Requeue:
    """First strike: nack with requeue."""


@attrs.define(frozen=True, slots=True)
class DeadLetterByClient:
    """Second strike: publish the dead letter, confirmed and mandatory, then ack."""


@attrs.define(frozen=True, slots=True)
class DeadLetterByBroker:
    """Second strike: nack without requeue and leave it to the broker's DLX, which is at most once."""


Strike: TypeAlias = Requeue | DeadLetterByClient | DeadLetterByBroker


def strike(*, redelivered: bool, malformed: bool, dead_letter_by: Literal["client", "broker"]) -> Strike:
    """Decide about a failed delivery of an ordinary queue. A malformed body has no second chance.

    Disclosed: after a broker crash every message of a classic queue is ``redelivered``, so it has
    used its first strike.
    """
    if not redelivered and not malformed:
        return Requeue()
    return DeadLetterByBroker() if dead_letter_by == "broker" else DeadLetterByClient()


def client_dead_letter(
    delivery: Delivery, queue: str, error: LastError, *, message_id: str, at_s: float
) -> Publication:
    """Build the dead letter of a delivery of ``queue``, for craig.dlx.

    An envelope keeps its members and gains ``_dlx`` (token, queue, reason, failed_at, error) under
    ``dlq.<queue>.<event_type>``; anything else goes out byte for byte, tokenless, under
    ``dlq.<queue>.malformed``. Keys are cut to 255 bytes at a character boundary.
    """
    properties = Properties(
        content_type="application/json",
        delivery_mode=PERSISTENT,
        message_id=message_id,
        timestamp=max(0, int(at_s)),
        app_id=APP_ID,
    )
    envelope = _readable(delivery)
    if envelope is None:
        key = cut_routing_key(f"dlq.{queue}.malformed")
        return Publication(
            DEAD_LETTER_EXCHANGE, key, delivery.body, msgspec.structs.replace(properties, content_type=None)
        )
    failed_at = format_instant(at_s)
    dlx = ExplicitDeadLetter(
        inbox_token(envelope.id, queue, failed_at), queue, HANDLER_FAILED, failed_at, error.text
    )
    return Publication(
        DEAD_LETTER_EXCHANGE,
        cut_routing_key(f"dlq.{queue}.{envelope.event_type}"),
        _with_dlx(delivery.body, dlx),
        properties,
    )


def _readable(delivery: Delivery) -> EventEnvelope | None:
    if delivery.undecodable is not None:
        return None
    try:
        return decode_envelope(delivery.body)
    except MalformedBody:
        return None


def _with_dlx(body: bytes, dlx: ExplicitDeadLetter) -> bytes:
    # Every other member stays as it was, unknown ones included; a _dlx of an earlier death is replaced.
    values = members(body)
    values["_dlx"] = msgspec.Raw(_encode(dlx))
    return _encode(values)
