"""Checks that need nothing but AMQP. What it cannot tell becomes UNKNOWN."""

from __future__ import annotations

import re
from typing import Final

import attrs

from craig_mq.core.close import ChannelClose
from craig_mq.core.topology import (
    DEAD_LETTER_EXCHANGE,
    QUORUM_DELIVERY_LIMIT,
    ExchangeSpec,
    QueueSpec,
    QueueState,
)
from craig_mq.operator.doctor.findings import Finding, Level
from craig_mq.operator.doctor.settings import judge_delivery_limit, judge_queue
from craig_mq.transport.broker import Connection
from craig_mq.transport.errors import ClosedError

# inequivalent arg 'x-message-ttl' for queue …: received none but current is the value '9' of type 'signedint'
_ARGUMENT: Final = re.compile(
    r"inequivalent arg '(?:x-)?([a-z-]+)'.*current is (?:the value )?'?([^']*?)'?(?: of type '.*')?$"
)
_NOT_FOUND, _ACCESS_REFUSED, _PRECONDITION_FAILED = 404, 403, 406


@attrs.define(frozen=True, slots=True)
class AmqpChecks:
    """Looks at one subscription's topology over one connection."""

    connection: Connection
    queue: str
    parking: str
    quarantine: str

    async def topology(self) -> list[Finding]:
        """Whether exchange and queues exist, what they are, and who consumes them."""
        found = [await self._exchange()]
        for name in (self.queue, self.parking, self.quarantine):
            state = await self._look(name)
            if isinstance(state, ChannelClose):
                found.append(_missing(name, state))
                continue
            found.append(
                Finding("topology", name, Level.OK, f"{state.ready} ready, {state.consumers} consumers")
            )
            found += await self._declared(name)
            found += self._consumers(state)
        return found

    async def _exchange(self) -> Finding:
        channel = await self.connection.open_channel()
        try:
            await channel.declare_exchange(ExchangeSpec(DEAD_LETTER_EXCHANGE), passive=True)
        except ClosedError as error:
            return _missing(DEAD_LETTER_EXCHANGE, _channel_close(error))
        await channel.aclose()
        return Finding("topology", DEAD_LETTER_EXCHANGE, Level.OK, "it exists")

    async def _look(self, name: str) -> QueueState | ChannelClose:
        channel = await self.connection.open_channel()
        try:
            state = await channel.declare_queue(QueueSpec(name), passive=True)
        except ClosedError as error:
            return _channel_close(error)
        await channel.aclose()
        return state

    async def _declare(self, name: str, **arguments: object) -> ChannelClose | None:
        """Declare an existing queue with these arguments; None if it is equal (rabbitmq-facts, 3)."""
        spelled = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        channel = await self.connection.open_channel()
        try:
            await channel.declare_queue(QueueSpec(name, arguments=spelled))
        except ClosedError as error:
            return _channel_close(error)
        await channel.aclose()
        return None

    async def _declared(self, name: str) -> list[Finding]:
        """The queue's type and arguments, which only a declare with other ones brings to light."""
        refusal = await self._declare(name, queue_type="classic")
        if refusal is None:
            return [
                Finding("queue type", name, Level.OK, "classic"),
                Finding("permission to configure", name, Level.OK, "granted"),
                Finding("arguments", name, Level.OK, "none that destroy"),
            ]
        if refusal.code == _ACCESS_REFUSED:
            return [
                _no_configure(name, refusal),
                Finding("queue type", name, Level.UNKNOWN, "not allowed to ask"),
            ]
        if "'quorum'" in refusal.text:
            return [Finding("queue type", name, Level.OK, "quorum"), await self._quorum_limit(name)]
        return [_argument(name, refusal)]

    async def _quorum_limit(self, name: str) -> Finding:
        refusal = await self._declare(name, queue_type="quorum", delivery_limit=QUORUM_DELIVERY_LIMIT)
        if refusal is None:
            return judge_delivery_limit(name, QUORUM_DELIVERY_LIMIT)
        match = _ARGUMENT.search(refusal.text)
        if match is not None and match[1] == "delivery-limit":
            return judge_delivery_limit(name, None if match[2] == "none" else match[2])
        return _argument(name, refusal)

    def _consumers(self, state: QueueState) -> list[Finding]:
        if state.name == self.quarantine and state.consumers:
            text = (
                f"{state.consumers} consumers take messages out of quarantine, which belongs to the operator"
            )
            return [
                Finding(
                    "consumers", state.name, Level.WARN, text, "stop what consumes it: a shovel, a console?"
                )
            ]
        if state.name != self.quarantine and not state.consumers:
            return [Finding("consumers", state.name, Level.WARN, "nobody consumes it", "start the service")]
        return []


def _argument(name: str, refusal: ChannelClose) -> Finding:
    match = _ARGUMENT.search(refusal.text)
    if match is not None:
        [finding, *_] = judge_queue(name, {match[1]: match[2]}, quorum=False)
        if finding.level is Level.FAIL:
            return finding
    text = f"it was declared differently: {refusal.text}"
    return Finding("arguments", name, Level.WARN, text, "compare it with the declared topology")


def _missing(name: str, close: ChannelClose) -> Finding:
    if close.code == _NOT_FOUND:
        return Finding(
            "topology", name, Level.FAIL, "it does not exist", "start the service once: it declares it"
        )
    return Finding(
        "topology", name, Level.UNKNOWN, f"not allowed to look: {close.text}", "grant configure on it"
    )


def _no_configure(name: str, close: ChannelClose) -> Finding:
    text = f"refused, so the service can only look: {close.text}"
    return Finding(
        "permission to configure", name, Level.WARN, text, "grant configure, or accept it: see deploy"
    )


def _channel_close(error: ClosedError) -> ChannelClose:
    """The broker's refusal; anything else ended the connection and is the caller's to see."""
    if isinstance(error.reason, ChannelClose):
        return error.reason
    raise error


UNTESTABLE: Final = (
    Finding("policies", "queues", Level.UNKNOWN, "AMQP does not show policies", "give --management URL"),
    Finding("version", "broker", Level.UNKNOWN, "not asked for over AMQP", "give --management URL"),
    Finding("clock skew", "broker", Level.UNKNOWN, "AMQP carries no clock", "give --management URL"),
)
ALWAYS_UNKNOWN: Final = (
    Finding(
        "consumer_timeout",
        "broker",
        Level.UNKNOWN,
        "neither AMQP nor the management API shows it",
        "rabbitmqctl environment: it must exceed parking_hold_limit + confirm_timeout (50 s)",
    ),
    Finding(
        "max_message_size",
        "broker",
        Level.UNKNOWN,
        "neither AMQP nor the management API shows it",
        "rabbitmqctl environment: 12 MiB or more, or captures above it lose their bodies to a digest",
    ),
)
