"""The names a publish may carry, for the transports whose codec does not look."""

from __future__ import annotations

from craig_mq.core.config import MAX_NAME_BYTES
from craig_mq.core.delivery import Publication

_MAX_BYTES_A_CHARACTER = 4


def require_names(publication: Publication) -> None:
    """Refuse an exchange or a routing key that no frame can carry. Raises ValueError."""
    for name in (publication.exchange, publication.routing_key):
        if len(name) * _MAX_BYTES_A_CHARACTER > MAX_NAME_BYTES and len(name.encode()) > MAX_NAME_BYTES:
            raise ValueError(f"a name of {len(name.encode())} bytes exceeds {MAX_NAME_BYTES}")
