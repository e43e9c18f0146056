"""Why a consumer, channel or connection ended, as plain data from the transport."""

from __future__ import annotations

from typing import TypeAlias

import attrs


@attrs.define(frozen=True, slots=True)
class ChannelClose:
    """The peer closed the channel. ``class_id``/``method_id`` name the offending method, 0/0 if none."""

    code: int
    text: str
    class_id: int = 0
    method_id: int = 0


@attrs.define(frozen=True, slots=True)
class ConnectionClose:
    """The peer closed the connection with a code (``connection.close``)."""

    code: int
    text: str
    class_id: int = 0
    method_id: int = 0


@attrs.define(frozen=True, slots=True)
class ConnectionLoss:
    """The transport went away without a close: reset, end of file, heartbeat missed, protocol error."""

    text: str


@attrs.define(frozen=True, slots=True)
class ConsumerCancel:
    """The broker cancelled the consumer: queue deleted, leader moved, or timed out on 4.3+."""

    queue: str


@attrs.define(frozen=True, slots=True)
class LocalClose:
    """This side closed (``aclose``) or aborted (``abort``)."""

    aborted: bool


CloseReason: TypeAlias = ChannelClose | ConnectionClose | ConnectionLoss | ConsumerCancel | LocalClose
