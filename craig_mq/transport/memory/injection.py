"""How a planned fault is carried out on the streams of a connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never

import attrs

from craig_mq.core.close import ChannelClose, ConnectionClose, ConnectionLoss
from craig_mq.core.outcome import NACKED, Confirmation, Returned
from craig_mq.transport.errors import TransportError
from craig_mq.transport.memory.fault_actions import (
    Action,
    Block,
    CloseChannel,
    CloseConnection,
    Delay,
    Drop,
    Duplicate,
    Hang,
    LateSuccess,
    LoseConnection,
    Nack,
    Raise,
    Reorder,
    Return,
)
from craig_mq.transport.memory.stream import Stream

if TYPE_CHECKING:
    from craig_mq.transport.memory.served_channel import ServedChannel
    from craig_mq.transport.memory.served_connection import ServedConnection


def _impossible(_: object) -> None:
    raise AssertionError("the table of possible faults does not allow this")


@attrs.define(slots=True)
class Struck:
    """An operation that met a fault: the item on its stream, and how its caller can be answered."""

    connection: ServedConnection
    channel: ServedChannel | None
    stream: Stream
    item: Callable[[], None]
    fail: Callable[[TransportError], None] = _impossible
    answer: Callable[[Confirmation], None] = _impossible
    again: Callable[[], None] | None = None


def strike(action: Action, struck: Struck) -> None:
    """Carry one fault out instead of the operation it met."""
    match action:
        case CloseChannel() | CloseConnection() | LoseConnection():
            _end(action, struck)
        case Raise(text):
            struck.fail(TransportError(text))
        case Nack():
            struck.answer(NACKED)
        case Return(code, text):
            struck.answer(Returned(code, text))
        case Block(seconds, reason):
            struck.connection.block_for(seconds, reason)
            struck.stream.push(struck.item)
        case Drop() | Delay() | Duplicate() | Reorder() | Hang() | LateSuccess():
            _disturb(action, struck)
        case _:
            assert_never(action)


def _disturb(action: Drop | Delay | Duplicate | Reorder | Hang | LateSuccess, struck: Struck) -> None:
    stream = struck.stream
    match action:
        case Drop():
            pass
        case Delay(seconds):
            stream.stall(seconds)
            stream.push(struck.item)
        case Duplicate():
            stream.push(struck.item)
            stream.push(struck.again or struck.item)
        case Reorder():
            stream.hold(struck.item)
        case Hang():
            struck.connection.hang(stream)
            stream.push(struck.item)
        case LateSuccess(seconds):
            struck.connection.outward.stall(seconds)
            struck.connection.stop_writing(seconds)
            stream.push(struck.item)
        case _:
            assert_never(action)


def _end(action: CloseChannel | CloseConnection | LoseConnection, struck: Struck) -> None:
    match action:
        case CloseChannel(code, text, class_id, method_id):
            if struck.channel is None:
                struck.connection.end(ConnectionClose(code, text, class_id, method_id))
            else:
                struck.channel.end(ChannelClose(code, text, class_id, method_id))
        case CloseConnection(code, text):
            struck.connection.end(ConnectionClose(code, text))
        case LoseConnection(text):
            struck.connection.end(ConnectionLoss(text))
        case _:
            assert_never(action)
