"""What a capture looks like on the wire: an allow-list of properties, a fresh id (decisions, 14 and 15)."""

from __future__ import annotations

from craig_mq.core.delivery import PERSISTENT, Properties, Publication
from craig_mq.runtime.sources import Sources

DEFAULT_EXCHANGE = ""
APP_ID = "craig_mq"
CAPTURE_TYPE = "craig_mq.capture"


def capture_publication(
    exchange: str, routing_key: str, body: bytes, sources: Sources, *, message_id: str | None = None
) -> Publication:
    """Wrap a serialised capture for publishing; nothing of the original's properties is copied.

    ``message_id`` must be fresh for this publish; without one an identifier is drawn.
    """
    return Publication(
        exchange,
        routing_key,
        body,
        Properties(
            content_type="application/json",
            delivery_mode=PERSISTENT,
            message_id=message_id or sources.uuid7(),
            timestamp=int(sources.now()),
            type=CAPTURE_TYPE,
            app_id=APP_ID,
        ),
    )
