"""Between pamqp's objects and the seam's. pamqp decodes first: what it lost is lost here."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import cast

from aiormq.abc import DeliveredMessage
from pamqp import commands
from pamqp.common import FieldTable

from craig_mq.core.delivery import Delivery, Properties

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_delivery(message: DeliveredMessage) -> Delivery:
    """Turn a delivered or fetched message into a Delivery."""
    method = cast("commands.Basic.Deliver | commands.Basic.GetOk", message.delivery)
    return Delivery(
        delivery_tag=method.delivery_tag or 0,
        exchange=method.exchange,
        routing_key=method.routing_key or "",
        redelivered=bool(method.redelivered),
        body=message.body,
        properties=to_properties(message.header.properties),
    )


def close_fields(
    frame: commands.Connection.Close | commands.Channel.Close,
) -> tuple[int, str, int, int]:
    """Return code, text, class id and method id of a close."""
    return frame.reply_code or 0, frame.reply_text, frame.class_id or 0, frame.method_id or 0


def to_properties(wire: commands.Basic.Properties) -> Properties:
    """Turn decoded properties into the seam's."""
    return Properties(
        content_type=wire.content_type,
        content_encoding=wire.content_encoding,
        headers=cast("Mapping[str, object]", _from_wire(wire.headers or {})),
        delivery_mode=wire.delivery_mode,
        priority=wire.priority,
        correlation_id=wire.correlation_id,
        reply_to=wire.reply_to,
        expiration=wire.expiration,
        message_id=wire.message_id,
        timestamp=None if wire.timestamp is None else _seconds(wire.timestamp),
        type=wire.message_type,
        user_id=wire.user_id,
        app_id=wire.app_id,
    )


def from_properties(properties: Properties) -> commands.Basic.Properties:
    """Turn the seam's properties into pamqp's.

    Raises OverflowError for a timestamp that no ``datetime`` can hold.
    """
    timestamp = properties.timestamp
    return commands.Basic.Properties(
        content_type=properties.content_type,
        content_encoding=properties.content_encoding,
        headers=to_table(properties.headers) if properties.headers else None,
        delivery_mode=properties.delivery_mode,
        priority=properties.priority,
        correlation_id=properties.correlation_id,
        reply_to=properties.reply_to,
        expiration=properties.expiration,
        message_id=properties.message_id,
        timestamp=None if timestamp is None else _EPOCH + timedelta(seconds=timestamp),
        message_type=properties.type,
        user_id=properties.user_id,
        app_id=properties.app_id,
    )


def to_table(headers: Mapping[str, object]) -> FieldTable:
    """Turn a mapping of wire values into what pamqp encodes."""
    return cast("FieldTable", _to_wire(headers))


def _seconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(seconds=1)


def _from_wire(value: object) -> object:
    match value:
        case datetime():
            return _seconds(value)
        case bytearray():
            return bytes(value)
        case dict():
            items = cast("dict[str, object]", value).items()
            return {name: _from_wire(inner) for name, inner in items}
        case list():
            return [_from_wire(inner) for inner in cast("list[object]", value)]
        case _:
            return value


def _to_wire(value: object) -> object:
    match value:
        case bytes():
            return bytearray(value)
        case Mapping():
            items = cast("Mapping[str, object]", value).items()
            return {name: _to_wire(inner) for name, inner in items}
        case list() | tuple():
            return [_to_wire(inner) for inner in cast("list[object]", value)]
        case _:
            return value
