"""The messages of a chaos run: what each is to become, and a producer that gives up on none."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import islice

import attrs
import trio

from craig_mq.audit import record
from craig_mq.audit.store import AuditStore
from craig_mq.core.dead_letter import DeadLetter
from craig_mq.core.delivery import PERSISTENT, Properties, Publication
from craig_mq.core.disposition import Disposition, DlqError
from craig_mq.core.outcome import Acked, Confirmation, Unconfirmed
from craig_mq.testing.chaos.trail import Trail
from craig_mq.testing.dead_letters import envelope
from craig_mq.transport.broker import Broker, Channel, ConnectionOptions
from craig_mq.transport.errors import TransportError

EXCHANGE = "craig.dlx"
ROUTING_KEY = "dlq.chaos"
IN_FLIGHT = 50
TRY_AGAIN_S = 0.25
BIG_BODY_BYTES = 100_000
_BIG_EVERY = 100
_BIG = frozenset((8, 9))
"""Of a hundred messages, a park and a permanent one have a body of exactly BIG_BODY_BYTES."""
_PAUSE_S = 0.1
_CONFIRM_S = 20.0
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
    if number % _BIG_EVERY in _BIG:
        small = envelope({"n": number, "pad": ""}, id=id_of(number), _dlx=dlx)
        return envelope({"n": number, "pad": "x" * (BIG_BODY_BYTES - len(small))}, id=id_of(number), _dlx=dlx)
    return envelope({"n": number}, id=id_of(number), _dlx=dlx)


@attrs.define(slots=True)
class Producer:
    """Publishes every message until it is confirmed; ``repeated`` counts publishes it had to make again.

    It publishes what it was ``granted`` so far. Whoever holds ``quiet`` keeps it from publishing.
    """

    broker: Broker
    messages: int
    confirmed: set[int] = attrs.Factory(set[int])
    repeated: Counter[int] = attrs.Factory(Counter[int])
    quiet: trio.Lock = attrs.Factory(trio.Lock)
    _granted: int = 0
    _more: trio.Event = attrs.Factory(trio.Event)

    def grant(self, messages: int) -> None:
        """Let it publish the messages below that number."""
        self._granted = min(messages, self.messages)
        self._more.set()
        self._more = trio.Event()

    async def run(self) -> None:  # noqa: ASYNC910 - nothing left to publish is done
        """Publish them all, over as many connections as it takes."""
        while len(self.confirmed) < self.messages:
            try:
                async with self.broker.connect(ConnectionOptions("chaos producer")) as connection:
                    await self._publish_rest(await connection.open_channel(confirms=True))
                    await connection.aclose()
            except TransportError:
                await trio.sleep(TRY_AGAIN_S)

    async def _publish_rest(self, channel: Channel) -> None:  # noqa: ASYNC910 - as above
        while channel.closed is None and len(self.confirmed) < self.messages:
            async with self.quiet:
                # The lowest ones missing lie within what was granted and not confirmed.
                batch = self._missing()
                async with trio.open_nursery() as nursery:
                    for number in batch:
                        nursery.start_soon(self._publish, channel, number)
            if batch:
                await trio.sleep(_PAUSE_S)
            else:
                await self._more.wait()

    def _missing(self) -> list[int]:
        missing = (number for number in range(self._granted) if number not in self.confirmed)
        return list(islice(missing, IN_FLIGHT))

    async def _publish(self, channel: Channel, number: int) -> None:
        properties = Properties(message_id=str(uuid.uuid4()), delivery_mode=PERSISTENT)
        publication = Publication(EXCHANGE, ROUTING_KEY, body_of(number), properties)
        confirmation: Confirmation = Unconfirmed("the producer's patience ended")
        with trio.move_on_after(_CONFIRM_S):
            confirmation = await channel.publish(publication)
        if isinstance(confirmation, Acked):
            self.confirmed.add(number)
        elif isinstance(confirmation, Unconfirmed) and confirmation.sent:
            self.repeated[number] += 1


@attrs.define(slots=True)
class Behaving:
    """The handler: each message meets its fate, and whatever succeeds is recorded first.

    While ``hold_s`` is set, every invocation hangs for so long. ``trail`` hears of each.
    """

    store: AuditStore
    trail: Trail
    hold_s: float = 0.0

    def handler(self) -> Callable[[DeadLetter], Awaitable[None]]:
        """Return the function for ``subscribe_dlq``."""
        recording = record(self.store)

        async def handle(letter: DeadLetter) -> None:
            number = number_of(letter.envelope.id)
            self.trail.invoked(number, letter)
            await trio.sleep(self.hold_s)
            fate = fate_of(number)
            if fate == "permanent":
                raise DlqError(Disposition.PERMANENT, source=ValueError("chaos"))
            if fate == "retry" and letter.attempt == 1:
                raise DlqError(Disposition.TRANSIENT_RETRY, source=ValueError("chaos"))
            if fate == "park" and letter.park_count == 0:
                raise DlqError(Disposition.TRANSIENT_PARK, source=ValueError("chaos"))
            await recording(letter)
            self.trail.dealt_with(number)

        return handle
