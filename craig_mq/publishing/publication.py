"""What an event looks like on the wire: a persistent message with a fresh id."""

from __future__ import annotations

from craig_mq.core.config import validate_routing_key
from craig_mq.core.delivery import PERSISTENT, Properties, Publication
from craig_mq.core.envelope import EventEnvelope, encode_envelope
from craig_mq.runtime.publication import APP_ID
from craig_mq.runtime.sources import Sources


def event_publication(
    envelope: EventEnvelope, exchange: str, routing_key: str | None, sources: Sources
) -> Publication:
    """Serialise an event; without a routing key it goes under its event type.

    Raises EnvelopeNotSerializable for fields the body rules refuse, DlqConfigError for a routing key
    over 255 bytes.
    """
    key = envelope.event_type if routing_key is None else routing_key
    validate_routing_key("routing_key", key)
    return body_publication(encode_envelope(envelope), exchange, key, sources)


def body_publication(body: bytes, exchange: str, routing_key: str, sources: Sources) -> Publication:
    """Wrap a serialised event."""
    properties = Properties(
        content_type="application/json",
        delivery_mode=PERSISTENT,
        message_id=str(sources.uuid7()),
        timestamp=max(0, int(sources.now())),
        app_id=APP_ID,
    )
    return Publication(exchange, routing_key, body, properties)
