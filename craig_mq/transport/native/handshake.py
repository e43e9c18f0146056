"""The opening handshake as a table: start, tune, open-ok, and what to answer to each."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import attrs
from pamqp import base, commands

from craig_mq.transport.native.methods import encode
from craig_mq.transport.native.wire import FRAME_MIN, ProtocolViolation

FRAME_MAX: Final = 131_072
CHANNEL_MAX: Final = 2047

_CAPABILITIES: Final = {
    "authentication_failure_close": True,
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "publisher_confirms": True,
}


@attrs.define(frozen=True, slots=True)
class Proposal:
    """What this side asks for. ``response`` is the SASL response: a secret, never shown."""

    mechanism: str
    response: str = attrs.field(repr=False)
    vhost: str
    name: str
    heartbeat: int


@attrs.define(frozen=True, slots=True)
class Tuning:
    """What both sides agreed on. ``heartbeat`` in seconds; 0 means none."""

    frame_max: int = FRAME_MAX
    channel_max: int = CHANNEL_MAX
    heartbeat: int = 0


class MechanismRefused(ProtocolViolation):
    """The broker does not offer the SASL mechanism that was asked for."""


def _lesser(ours: int, theirs: int) -> int:
    """Negotiate a limit where 0 means none."""
    return min(ours, theirs) if ours and theirs else ours or theirs


class Handshake:
    """Answers the broker step by step; any other step raises ProtocolViolation."""

    def __init__(self, proposal: Proposal) -> None:
        """Expect connection.start."""
        self._proposal = proposal
        self.tuning = Tuning()
        self._steps: list[tuple[type[base.Frame], Callable[[base.Frame], bytes]]] = [
            (commands.Connection.Start, self._on_start),
            (commands.Connection.Tune, self._on_tune),
            (commands.Connection.OpenOk, self._on_open_ok),
        ]

    @property
    def finished(self) -> bool:
        """Whether open-ok has come."""
        return not self._steps

    @property
    def awaited(self) -> str:
        """The name of the method expected next, for error texts."""
        return self._steps[0][0].name if self._steps else "nothing"

    def answer(self, method: base.Frame) -> bytes:
        """Return the frames that answer ``method``. Raises ProtocolViolation."""
        if not self._steps or type(method) is not self._steps[0][0]:
            raise ProtocolViolation(f"{method.name} where {self.awaited} belongs")
        return self._steps.pop(0)[1](method)

    def _on_start(self, method: base.Frame) -> bytes:
        offered = str(method["mechanisms"]).split()
        if self._proposal.mechanism not in offered:
            raise MechanismRefused(f"the broker does not offer SASL {self._proposal.mechanism}")
        properties: dict[str, object] = {
            "product": "craig_mq",
            "version": _version(),
            "platform": "Python/Trio",
            "connection_name": self._proposal.name,
            "capabilities": dict(_CAPABILITIES),
        }
        answer = commands.Connection.StartOk(
            client_properties=properties,  # type: ignore[arg-type]  # nested tables are field values
            mechanism=self._proposal.mechanism,
            response=self._proposal.response,
            locale="en_US",
        )
        return encode(answer, 0)

    def _on_tune(self, method: base.Frame) -> bytes:
        channel_max, frame_max, heartbeat = (
            int(str(method[name])) for name in ("channel_max", "frame_max", "heartbeat")
        )
        if 0 < frame_max < FRAME_MIN:
            raise ProtocolViolation(f"frame_max {frame_max} is below {FRAME_MIN}")
        self.tuning = Tuning(
            _lesser(FRAME_MAX, frame_max),
            _lesser(CHANNEL_MAX, channel_max),
            _lesser(self._proposal.heartbeat, heartbeat),
        )
        tune_ok = commands.Connection.TuneOk(
            self.tuning.channel_max, self.tuning.frame_max, self.tuning.heartbeat
        )
        return encode(tune_ok, 0) + encode(commands.Connection.Open(self._proposal.vhost), 0)

    def _on_open_ok(self, method: base.Frame) -> bytes:
        del method
        return b""


def _version() -> str:
    try:
        return version("craig-mq")
    except PackageNotFoundError:
        return "0"
