"""The four messages as an explicit producer dead-letters them, each to a queue of its own.

A lost ack ends its whole session, and what else that session held comes again. The fixture's messages
are independent, so no two share a queue.
"""

from __future__ import annotations

import json
import uuid
from typing import Final

from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.token import inbox_token
from craig_mq.core.topology import DEAD_LETTER_EXCHANGE
from craig_mq.live.handlers import EVENT_TYPE
from craig_mq.review.events import Message

_FAILED_AT: Final = "2026-01-01T00:00:00Z"
_SOURCE: Final = "review.work"


def queue_name(run: str, message: Message) -> str:
    """The dead-letter queue of one message of the run called ``run``."""
    return f"craig.review.{run}.{message}.dlq"


def binding_key(run: str, message: Message) -> str:
    """The canonical routing key of that message alone."""
    return f"dlq.{queue_name(run, message)}"


def dead_letter(run: str, message: Message) -> Publication:
    """The message with its envelope, its occurrence token and its route."""
    envelope_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{run}/{message}"))
    document = {
        "id": envelope_id,
        "source_service": "review",
        "event_type": EVENT_TYPE + message,
        "occurred_at": _FAILED_AT,
        "payload": {"intent": message},
        "_dlx": {
            "token": inbox_token(envelope_id, _SOURCE, _FAILED_AT),
            "queue": _SOURCE,
            "reason": "handler_failed",
            "failed_at": _FAILED_AT,
            "error": message,
        },
    }
    properties = Properties(content_type="application/json", delivery_mode=2, message_id=envelope_id)
    key = binding_key(run, message)
    return Publication(DEAD_LETTER_EXCHANGE, key, json.dumps(document).encode(), properties)
