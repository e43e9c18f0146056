"""What goes out: captures to the siblings, returns to the dead-letter queue (decisions, 11, 14, 15).

Properties come from an allow-list; nothing of the original's is copied, because expiration, user_id,
CC, BCC, priority and x-death act on the copy (field failure PROP-07). Everything of the original
travels inside the capture.
"""

from __future__ import annotations

from craig_mq.core.capture import BuiltCapture
from craig_mq.core.capture_format import CaptureKind
from craig_mq.core.config import ReturnRoute
from craig_mq.core.delivery import PERSISTENT, Properties, Publication
from craig_mq.core.topology import DEAD_LETTER_EXCHANGE, Topology

APP_ID = "craig_mq"
CAPTURE_TYPE = "craig_capture"
_DEFAULT_EXCHANGE = ""
_CONTENT_TYPE = "application/json"


def capture_publication(
    built: BuiltCapture, topology: Topology, *, message_id: str, at_s: float
) -> Publication:
    """Publish a capture to its sibling queue by the default exchange, which no alternate can blind.

    ``message_id`` is fresh for every publish, ``at_s`` seconds since the Unix epoch.
    """
    parked = built.kind is CaptureKind.PARKED
    target = topology.parking_name if parked else topology.quarantine_name
    return Publication(_DEFAULT_EXCHANGE, target, built.body, _properties(message_id, at_s))


def return_publication(
    body: bytes,
    original_routing_key: str,
    queue: str,
    return_route: ReturnRoute,
    *,
    message_id: str,
    at_s: float,
) -> Publication:
    """Return a capture, wrapper and all, to the dead-letter queue ``queue``.

    Under its original key through craig.dlx, or past the exchange where several queues bind the same keys.
    """
    properties = _properties(message_id, at_s)
    if return_route == "queue":
        return Publication(_DEFAULT_EXCHANGE, queue, body, properties)
    return Publication(DEAD_LETTER_EXCHANGE, original_routing_key, body, properties)


def _properties(message_id: str, at_s: float) -> Properties:
    return Properties(
        content_type=_CONTENT_TYPE,
        delivery_mode=PERSISTENT,
        message_id=message_id,
        timestamp=max(0, int(at_s)),
        type=CAPTURE_TYPE,
        app_id=APP_ID,
    )
