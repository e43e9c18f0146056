"""Closed unions for what became of a publish and of a settlement (ADR-059 §settlement).

Outcomes are never booleans: each caller matches all members and ends in ``assert_never``.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs
import msgspec


class Acked(msgspec.Struct, frozen=True, gc=False):
    """The broker confirmed the publish and returned nothing: the only evidence that permits an ack."""


class Nacked(msgspec.Struct, frozen=True, gc=False):
    """The broker refused the publish (for instance a full queue with ``reject-publish``)."""


class Returned(msgspec.Struct, frozen=True, gc=False):
    """The publish was mandatory and routed nowhere; a positive confirm that follows does not count."""

    code: int
    text: str


class Unconfirmed(msgspec.Struct, frozen=True, gc=False):
    """Nobody knows: the wait was bounded, or the channel ended first.

    ``sent`` is False only where no byte of the publish can have reached the broker.
    """

    reason: str
    sent: bool = True


Confirmation: TypeAlias = Acked | Nacked | Returned | Unconfirmed

ACKED = Acked()
NACKED = Nacked()


class AckWritten(msgspec.Struct, frozen=True, gc=False):
    """The settlement frame was handed to the operating system within its bound: the only success."""


class AckNotSent(msgspec.Struct, frozen=True, gc=False):
    """Nothing was sent: the gate was closed or the channel already gone (lapin's ``Ok(false)``)."""


class AckTimedOut(msgspec.Struct, frozen=True, gc=False):
    """The bound passed first; whether the broker saw it is unknown, even if the call succeeds later."""


@attrs.define(frozen=True, slots=True)
class AckFailed:
    """The transport failed while writing."""

    error: Exception


SettlementOutcome: TypeAlias = AckWritten | AckNotSent | AckTimedOut | AckFailed

ACK_WRITTEN = AckWritten()
ACK_NOT_SENT = AckNotSent()
ACK_TIMED_OUT = AckTimedOut()
