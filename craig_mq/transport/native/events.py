"""What the protocol core reports: a closed set of plain records."""

from __future__ import annotations

from typing import TypeAlias

import attrs
import msgspec
from pamqp import base

from craig_mq.core.close import ChannelClose, ConnectionClose
from craig_mq.core.delivery import Delivery


class Delivered(msgspec.Struct, eq=False, gc=False):
    """basic.deliver with its content. ``consumer_tag`` stays bytes: it is only looked up."""

    channel: int
    consumer_tag: bytes
    delivery: Delivery


class Confirmed(msgspec.Struct, eq=False, gc=False):
    """basic.ack (``positive``) or basic.nack from the broker: a publisher confirm."""

    channel: int
    delivery_tag: int
    multiple: bool
    positive: bool


class MessageReturned(msgspec.Struct, eq=False, gc=False):
    """basic.return with its content; ``message_id`` is all it can be matched by."""

    channel: int
    code: int
    text: str
    message_id: str | None


class Got(msgspec.Struct, eq=False, gc=False):
    """basic.get-ok with its content."""

    channel: int
    delivery: Delivery


@attrs.define(slots=True, eq=False)
class Replied:
    """Any other method on a channel: the answer to the oldest request there."""

    channel: int
    method: base.Frame


@attrs.define(slots=True, eq=False)
class ConsumerCancelled:
    """basic.cancel from the broker."""

    channel: int
    consumer_tag: bytes


@attrs.define(slots=True, eq=False)
class ChannelEnded:
    """The broker closed a channel; the close-ok is already on its way and the number free."""

    channel: int
    reason: ChannelClose


@attrs.define(slots=True, eq=False)
class ConnectionEnded:
    """The broker closed the connection (the close-ok is on its way), or answered our close."""

    reason: ConnectionClose | None


@attrs.define(slots=True, eq=False)
class Blocked:
    """connection.blocked (``reason``) or connection.unblocked (None)."""

    reason: str | None


@attrs.define(slots=True, eq=False)
class Opened:
    """connection.open-ok: the handshake is over. ``heartbeat`` in seconds, 0 means none."""

    heartbeat: int


Event: TypeAlias = (
    Delivered
    | Confirmed
    | MessageReturned
    | Got
    | Replied
    | ConsumerCancelled
    | ChannelEnded
    | ConnectionEnded
    | Blocked
    | Opened
)
