"""What RabbitMQ checks of a publish before it routes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from craig_mq.core.delivery import Publication
from craig_mq.transport.memory.refusals import BASIC_PUBLISH, frame_too_large, precondition_failed

if TYPE_CHECKING:
    from craig_mq.transport.memory.node import Node

FRAME_MAX = 131_072
_SMALL = 1_000


def check_publication(node: Node, publication: Publication) -> None:
    """Raise Refused for a body too large, a foreign user_id, a bad expiration or an oversize header."""
    if node.guard is not None:
        node.guard.check("write", "exchange", publication.exchange, BASIC_PUBLISH)
    size = len(publication.body)
    if size > node.max_message_size:
        text = f"message size {size} is larger than configured max size {node.max_message_size}"
        raise precondition_failed(text, BASIC_PUBLISH)
    properties = publication.properties
    if properties.headers:
        encoded = encoded_size(properties.headers)
        if encoded > FRAME_MAX:
            raise frame_too_large(encoded, FRAME_MAX)
    if properties.user_id is not None and properties.user_id != node.user:
        text = f"user_id property set to '{properties.user_id}' but authenticated user was '{node.user}'"
        raise precondition_failed(text, BASIC_PUBLISH)
    if properties.expiration is not None and not properties.expiration.isdecimal():
        text = f"invalid expiration '{properties.expiration}': no_integer"
        raise precondition_failed(text, BASIC_PUBLISH)


def encoded_size(value: object) -> int:
    """Estimate how many bytes a header value takes on the wire."""
    match value:
        case str():
            return 5 + len(value.encode())
        case bytes():
            return 5 + len(value)
        case dict():
            return 5 + sum(2 + len(str(key)) + encoded_size(inner) for key, inner in value.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case list():
            return 5 + sum(encoded_size(inner) for inner in value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case _:
            return 9
