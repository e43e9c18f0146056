"""One empty, unroutable message tells: may we write, is mandatory honest, is publishing blocked."""

from __future__ import annotations

import re
import uuid
from typing import Final

import trio

from craig_mq.core.delivery import PERSISTENT, Properties, Publication
from craig_mq.core.outcome import Acked, Nacked, Returned
from craig_mq.core.topology import DEAD_LETTER_EXCHANGE
from craig_mq.operator.doctor.findings import Finding, Level
from craig_mq.transport.broker import Connection

PROBE_TIMEOUT_S: Final = 5.0
BLOCKED_PATIENCE_S: Final = 0.5


async def probe(connection: Connection) -> list[Finding]:
    """Publish one empty, mandatory message that no binding should match, and see what comes back."""
    channel = await connection.open_channel(confirms=True)
    fresh = uuid.uuid4().hex
    publication = Publication(
        DEAD_LETTER_EXCHANGE,
        f"craig_mq.doctor.{fresh}",
        b"",
        Properties(message_id=fresh, delivery_mode=PERSISTENT),
    )
    with trio.move_on_after(PROBE_TIMEOUT_S):
        confirmation = await channel.publish(publication)
        return [*_judge(confirmation, channel.closed), await _alarm(connection)]
    return [await _alarm(connection)]


def _judge(confirmation: object, closed: object) -> list[Finding]:
    name = DEAD_LETTER_EXCHANGE
    match confirmation:
        case Returned():
            return [
                Finding("permission to write", name, Level.OK, "granted"),
                Finding("unroutable messages", name, Level.OK, "they are returned"),
            ]
        case Acked():
            text = "an unroutable message was acked: an alternate exchange or a catch-all binding takes it"
            todo = "remove the alternate exchange (a policy?) or the binding of #"
            return [Finding("unroutable messages", name, Level.FAIL, text, todo)]
        case Nacked():
            return [
                Finding(
                    "unroutable messages", name, Level.WARN, "the probe was refused", "look at the broker"
                )
            ]
        case _:
            text = f"the probe's channel was closed: {closed}"
            return [
                Finding("permission to write", name, Level.FAIL, text, f"grant write on ^{re.escape(name)}$")
            ]


async def _alarm(connection: Connection) -> Finding:
    with trio.move_on_after(BLOCKED_PATIENCE_S):
        await connection.wait_blocked()
    if connection.blocked is None:
        return Finding("resource alarm", "broker", Level.OK, "publishing is not blocked")
    text = f"publishing is blocked: {connection.blocked}"
    return Finding("resource alarm", "broker", Level.FAIL, text, "free memory or disk at the broker")
