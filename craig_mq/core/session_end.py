"""How a session ended, from why its channel or connection did (decisions, 16).

A close that fails a publish, confirm or settlement is SETTLEMENT_FAILED whatever its code: backoff
carries over those, and only another end resets it (ADR-059 §settlement).
"""

from __future__ import annotations

import enum
from typing import assert_never

from craig_mq.core.close import (
    ChannelClose,
    CloseReason,
    ConnectionClose,
    ConnectionLoss,
    ConsumerCancel,
    LocalClose,
)


class SessionEnd(enum.Enum):
    """The closed set of session ends; the value is the metric label."""

    SETTLEMENT_FAILED = "settlement_failed"
    CONNECTION_LOST = "connection_lost"
    CHANNEL_CLOSED = "channel_closed"
    CONSUMER_CANCELLED = "consumer_cancelled"
    CONSUMER_TIMED_OUT = "consumer_timed_out"
    SHUTDOWN = "shutdown"
    CANCELLED = "cancelled"


_PRECONDITION_FAILED = 406
_CHANNEL_ERROR = 504
_BASIC = 60
_PUBLISH = 40
_SETTLEMENTS = frozenset({80, 90, 120})  # basic.ack, basic.reject, basic.nack


def classify_end(reason: CloseReason, *, in_flight: bool) -> SessionEnd:
    """Name the end. ``in_flight``: a publish, its confirm or a settlement had begun and not ended.

    Naming basic.publish, ack, nack or reject makes a close a settlement failure even when the call had
    returned (406 unknown delivery tag, 404 missing exchange, 403 refused write, 504 ack after close-ok).
    """
    if in_flight or _names_settlement(reason):
        return SessionEnd.SETTLEMENT_FAILED
    match reason:
        case ConnectionLoss() | ConnectionClose():
            return SessionEnd.CONNECTION_LOST
        case ConsumerCancel():
            return SessionEnd.CONSUMER_CANCELLED
        case ChannelClose():
            return (
                SessionEnd.CONSUMER_TIMED_OUT if _is_consumer_timeout(reason) else SessionEnd.CHANNEL_CLOSED
            )
        case LocalClose(aborted):
            return SessionEnd.CANCELLED if aborted else SessionEnd.SHUTDOWN
        case _:
            assert_never(reason)


def _names_settlement(reason: CloseReason) -> bool:
    match reason:
        case ChannelClose(class_id=class_id, method_id=method_id):
            return class_id == _BASIC and (method_id == _PUBLISH or method_id in _SETTLEMENTS)
        case ConnectionClose(code=code, class_id=class_id, method_id=method_id):
            return code == _CHANNEL_ERROR and class_id == _BASIC and method_id in _SETTLEMENTS
        case _:
            return False


def _is_consumer_timeout(reason: ChannelClose) -> bool:
    # Only this text is matched, and only under 406 with no method named: a 403's text differs
    # between versions, this one does not (rabbitmq-facts, 1).
    return (
        reason.code == _PRECONDITION_FAILED
        and (reason.class_id, reason.method_id) == (0, 0)
        and "delivery acknowledgement" in reason.text
        and "timed out" in reason.text
    )
