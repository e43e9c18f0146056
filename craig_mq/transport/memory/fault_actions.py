"""What a fault does to the operation it meets. All are plain data: they print as Python that rebuilds them.

Seconds are on Trio's clock. Which action an operation can meet at all is the table ``POSSIBLE``: an
``ack`` has no answer that could be a nack, a delivery cannot be refused by anybody.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import attrs


class Operation(enum.StrEnum):
    """Where a fault can strike: what the client asks, and what the broker sends."""

    CONNECT = "connect"
    OPEN_CHANNEL = "open_channel"
    DECLARE = "declare"
    BIND = "bind"
    CONSUME = "consume"
    DELIVER = "deliver"
    PUBLISH = "publish"
    CONFIRM = "confirm"
    RETURN = "return"
    ACK = "ack"
    NACK = "nack"
    FLUSH = "flush"
    CANCEL = "cancel"
    GET = "get"
    CLOSE = "close"

    __hash__ = str.__hash__  # every operation of a simulated run is counted by it: Enum's own is slower


def _finite(_: object, field: attrs.Attribute[float], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"{field.name} must be a finite number from 0, not {value!r}")


@attrs.define(frozen=True, slots=True)
class Delay:
    """It takes effect later; what follows it on the same connection waits behind it."""

    seconds: float = attrs.field(validator=_finite)


@attrs.define(frozen=True, slots=True)
class Drop:
    """It never arrives, and nobody says so: the caller waits for what will not come."""


@attrs.define(frozen=True, slots=True)
class Duplicate:
    """It arrives twice. A duplicated delivery is a second copy in the queue: AMQP never sends one twice."""


@attrs.define(frozen=True, slots=True)
class Reorder:
    """It changes places with the next one in the same direction of the same connection."""


@attrs.define(frozen=True, slots=True)
class Raise:
    """The call fails on this side before anything is sent; a publish becomes ``Unconfirmed``."""

    text: str = "fault: the transport failed"


@attrs.define(frozen=True, slots=True)
class CloseChannel:
    """The broker closes the channel instead."""

    code: int
    text: str
    class_id: int = 0
    method_id: int = 0


@attrs.define(frozen=True, slots=True)
class CloseConnection:
    """The broker closes the connection instead."""

    code: int
    text: str


@attrs.define(frozen=True, slots=True)
class LoseConnection:
    """The connection breaks instead, without a word from the broker."""

    text: str = "connection reset by peer"


@attrs.define(frozen=True, slots=True)
class Block:
    """``connection.blocked`` comes first and nothing more is read for so long."""

    seconds: float = attrs.field(validator=_finite)
    reason: str = "low on memory"


@attrs.define(frozen=True, slots=True)
class Nack:
    """The broker refuses the publish: at ``publish`` without storing it, at ``confirm`` having stored it."""


@attrs.define(frozen=True, slots=True)
class Return:
    """The broker returns the publish as unroutable, before its ack."""

    code: int = 312
    text: str = "NO_ROUTE"


@attrs.define(frozen=True, slots=True)
class Hang:
    """This direction of the connection stops here, with both ends alive, until heartbeats are missed."""


@attrs.define(frozen=True, slots=True)
class LateSuccess:
    """It takes effect at once, but the caller learns of it only so much later."""

    seconds: float = attrs.field(validator=_finite)


Action: TypeAlias = (
    Delay
    | Drop
    | Duplicate
    | Reorder
    | Raise
    | CloseChannel
    | CloseConnection
    | LoseConnection
    | Block
    | Nack
    | Return
    | Hang
    | LateSuccess
)

_ASKED: Final = frozenset(
    {
        Delay,
        Drop,
        Duplicate,
        Reorder,
        Raise,
        CloseChannel,
        CloseConnection,
        LoseConnection,
        Block,
        Hang,
        LateSuccess,
    }
)
_SENT: Final = frozenset(
    {Delay, Drop, Duplicate, Reorder, CloseChannel, CloseConnection, LoseConnection, Block, Hang}
)

POSSIBLE: Final[Mapping[Operation, frozenset[type[Action]]]] = MappingProxyType(
    {
        Operation.CONNECT: frozenset({Delay, Raise, LoseConnection, Hang}),
        Operation.OPEN_CHANNEL: _ASKED - {Duplicate, CloseChannel},
        Operation.DECLARE: _ASKED,
        Operation.BIND: _ASKED,
        Operation.CONSUME: _ASKED,
        Operation.DELIVER: _SENT,
        Operation.PUBLISH: _ASKED | {Nack, Return},
        Operation.CONFIRM: _SENT | {Nack, Return},
        Operation.RETURN: _SENT,
        Operation.ACK: _ASKED,
        Operation.NACK: _ASKED,
        Operation.FLUSH: frozenset(
            {Delay, Raise, CloseChannel, CloseConnection, LoseConnection, Block, Hang, LateSuccess}
        ),
        Operation.CANCEL: _ASKED,
        Operation.GET: _ASKED,
        Operation.CLOSE: _ASKED - {Duplicate, Raise},
    }
)
