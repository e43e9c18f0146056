"""The messages of a chaos run: what each is to become, and a producer that gives up on none."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Awaitable, Callable

import attrs
import trio

from craig_mq.audit import record
from craig_mq.audit.store import AuditStore
from craig_mq.core.dead_letter import DeadLetter
from craig_mq.core.delivery import PERSISTENT, Properties, Publication
from craig_mq.core.disposition import Disposition, DlqError
from craig_mq.core.outcome import Acked
from craig_mq.testing.dead_letters import envelope
from craig_mq.transport.broker import Broker, Channel, ConnectionOptions
from craig_mq.transport.errors import TransportError

EXCHANGE = "craig.dlx"
ROUTING_KEY = "dlq.chaos"
IN_FLIGHT = 50
TRY_AGAIN_S = 0.25
_FATES = ("ok",) * 7 + ("retry", "park", "permanent")


def fate_of(number: int) -> str:
    """Return what becomes of message ``number``: ok, retry (then ok), park (then ok) or permanent."""
    return _FATES[number % len(_FATES)]


def id_of(number: int) -> str:
    """Return the envelope id of message ``number``."""
    return str(uuid.UUID(int=0xC4A05 << 108 | 4 << 76 | 8 << 60 | number))


def number_of(envelope_id: str) -> int:
    """Return the number in an envelope id."""
    return uuid.UUID(envelope_id).int & (1 << 60) - 1


def body_of(number: int) -> bytes:
    """Return the body of message ``number``, with a token of its own."""
    dlx = {
        "token": f"occ1:inbox:{uuid.UUID(int=number).hex}",
        "queue": "chaos",
        "reason": "handler",
        "failed_at": "2026-01-02T03:04:05Z",
        "error": "chaos",
    }
    return envelope({"n": number}, id=id_of(number), _dlx=dlx)


@attrs.define(slots=True)
class Producer:
    """Publishes every message until it is confirmed; ``unsure`` counts publishes it had to repeat."""

    broker: Broker
    messages: int
    confirmed: set[int] = attrs.Factory(set[int])
    unsure: Counter[int] = attrs.Factory(Counter[int])

    async def run(self, pause_s: float) -> None:  # noqa: ASYNC910 - nothing left to publish is done
        """Publish them all, ``pause_s`` between batches, over as many connections as it takes."""
        while len(self.confirmed) < self.messages:
            try:
                async with self.broker.connect(ConnectionOptions("chaos producer")) as connection:
                    await self._publish_rest(await connection.open_channel(confirms=True), pause_s)
                    await connection.aclose()
            except TransportError:
                await trio.sleep(TRY_AGAIN_S)

    async def _publish_rest(self, channel: Channel, pause_s: float) -> None:  # noqa: ASYNC910 - as above
        left = [number for number in range(self.messages) if number not in self.confirmed]
        for start in range(0, len(left), IN_FLIGHT):
            if channel.closed is not None:
                break
            async with trio.open_nursery() as nursery:
                for number in left[start : start + IN_FLIGHT]:
                    nursery.start_soon(self._publish, channel, number)
            await trio.sleep(pause_s)

    async def _publish(self, channel: Channel, number: int) -> None:
        properties = Properties(message_id=str(uuid.uuid4()), delivery_mode=PERSISTENT)
        publication = Publication(EXCHANGE, ROUTING_KEY, body_of(number), properties)
        confirmation = None
        with trio.move_on_after(20):
            confirmation = await channel.publish(publication)
        if isinstance(confirmation, Acked):
            self.confirmed.add(number)
        else:
            self.unsure[number] += 1


@attrs.define(slots=True)
class Behaving:
    """The handler: each message meets its fate, and whatever succeeds is recorded first."""

    store: AuditStore
    invocations: Counter[int] = attrs.Factory(Counter[int])

    def handler(self) -> Callable[[DeadLetter], Awaitable[None]]:
        """Return the function for ``subscribe_dlq``."""
        recording = record(self.store)

        async def handle(letter: DeadLetter) -> None:
            number = number_of(letter.envelope.id)
            self.invocations[number] += 1
            fate = fate_of(number)
            if fate == "permanent":
                raise DlqError(Disposition.PERMANENT, source=ValueError("chaos"))
            if fate == "retry" and letter.attempt == 1:
                raise DlqError(Disposition.TRANSIENT_RETRY, source=ValueError("chaos"))
            if fate == "park" and letter.park_count == 0:
                raise DlqError(Disposition.TRANSIENT_PARK, source=ValueError("chaos"))
            await recording(letter)

        return handle
