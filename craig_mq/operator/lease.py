"""Reading a queue without losing or reordering anything (rabbitmq-facts, 12, 15, 16 and 20).

AMQP has no peek. A lease consumes exclusively with manual acks, holds what it was given, and hands
everything back by one explicit nack behind the cancel, never by dropping the connection. On a classic
queue each message returns to its place; only its ``redelivered`` flag stays set.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio

from craig_mq.core.close import ChannelClose
from craig_mq.core.delivery import Delivery
from craig_mq.core.outcome import ACK_NOT_SENT, AckWritten, SettlementOutcome
from craig_mq.core.topology import QueueSpec
from craig_mq.operator.connecting import connected
from craig_mq.operator.errors import DeliveriesCounted, QueueInUse, QueueMissing
from craig_mq.runtime.settler import Settler
from craig_mq.transport.broker import Broker, Channel, Connection, Consumer
from craig_mq.transport.errors import ClosedError, TransportError

MAX_SCAN: Final = 20_000
MAX_PREFETCH: Final = 65_535
WINDOW_S: Final = 540.0
"""A lease ends before ten minutes, far from the broker's own limit of thirty (rabbitmq-facts, 1)."""

PATIENCE_S: Final = 10.0
GIVE_BACK_S: Final = 20.0
ASK_AGAIN_S: Final = 0.5
SETTLE_TIMEOUT_S: Final = 5.0
ABORT_GRACE_S: Final = 1.0

_NOT_FOUND: Final = 404
_ACCESS_REFUSED: Final = 403
_PRECONDITION_FAILED: Final = 406


@attrs.define(slots=True, eq=False)
class Lease:
    """A queue held by this process. ``depth`` is how many messages were ready just before.

    ``limit`` messages at most are received, within ``deadline`` (Trio's clock).
    """

    queue: str
    depth: int
    limit: int
    deadline: float
    connection: Connection
    channel: Channel
    _consumer: Consumer
    received: int = 0
    _held: set[int] = attrs.field(factory=set[int])

    @property
    def complete(self) -> bool:
        """Whether everything that was ready at the start has been received."""
        return self.received >= self.depth

    async def receive(self) -> Delivery | None:
        """Take the next message from the head; None at the end of the prefix, the limit or the time.

        Raises ClosedError when the broker ended the lease. Cancelled: nothing is lost.
        """
        # A buffered delivery comes without a pause: signals and heartbeats need one.
        await trio.lowlevel.checkpoint()
        if self.received >= min(self.depth, self.limit) or trio.current_time() >= self.deadline:
            return None
        # The queue may have shrunk between the look and the lease: then nothing more comes.
        until = min(self.deadline, trio.current_time() + PATIENCE_S)
        with trio.CancelScope(deadline=until):
            delivery = await self._consumer.receive()
            self.received += 1
            self._held.add(delivery.delivery_tag)
            return delivery
        return None

    async def ack(self, delivery: Delivery) -> SettlementOutcome:
        """Ack what there is evidence for: accepted before any task switch, then flushed within 5 seconds.

        Not raced against cancellation. Anything but AckWritten leaves it unknown whether the broker saw it.
        """
        outcomes: list[SettlementOutcome] = []
        settler = Settler(
            self.channel,
            settle_timeout=SETTLE_TIMEOUT_S,
            abort_grace=ABORT_GRACE_S,
            abort=self.connection.abort,
        )
        settler.ack(delivery.delivery_tag, outcomes.append)
        await settler.finish()
        outcome = outcomes[0] if outcomes else ACK_NOT_SENT
        if isinstance(outcome, AckWritten):
            self._held.discard(delivery.delivery_tag)
        return outcome

    async def give_back(self) -> None:
        """Cancel, then requeue everything held, then close; bounded, and not raced against cancellation.

        On a channel that has ended the broker has requeued everything by itself.
        """
        with trio.CancelScope(shield=True, deadline=trio.current_time() + GIVE_BACK_S):  # noqa: ASYNC912 - timed
            try:
                for delivery in await self._consumer.cancel():
                    self._held.add(delivery.delivery_tag)
                if self._held:
                    self.channel.nack_nowait(max(self._held), requeue=True, multiple=True)
                # Its close-ok comes after the nack was processed.
                await self.channel.aclose()
                await self.connection.aclose()
            except TransportError:
                await trio.lowlevel.checkpoint()


@asynccontextmanager
async def lease_queue(
    broker: Broker,
    queue: str,
    *,
    limit: int = MAX_SCAN,
    seconds: float = WINDOW_S,
    accept_delivery_count: bool = False,
    patience_s: float = 0.0,
) -> AsyncGenerator[Lease, None]:
    """Lease ``queue`` for the length of the block, at most ``limit`` messages for ``seconds``.

    While somebody else consumes, it asks again for ``patience_s``: a service lets go of its parking
    queue whenever the head is not due soon, and takes it up again after the lease. Raises QueueMissing,
    QueueInUse, DeliveriesCounted, or TransportError. Cancelled, or left by an exception: everything held
    is handed back first.
    """
    if not 1 <= limit <= MAX_PREFETCH:
        raise ValueError(f"limit must be in 1..{MAX_PREFETCH}, not {limit}")
    async with connected(broker, queue) as connection:
        await ready_count(connection, queue)  # the question for its type would create a missing one
        if not accept_delivery_count and await queue_type(connection, queue) == "quorum":
            raise DeliveriesCounted(
                f"{queue} is a quorum queue: each look counts towards its delivery limit, after which the"
                " broker deletes or dead-letters the message; say --accept-delivery-count to look anyway"
            )
        depth, channel, consumer = await _consume(connection, queue, limit, patience_s)
        deadline = trio.current_time() + seconds
        lease = Lease(queue, depth, limit, deadline, connection, channel, consumer)
        try:
            yield lease
        finally:
            await lease.give_back()  # noqa: ASYNC102 - shields itself, with a deadline


async def _consume(
    connection: Connection, queue: str, limit: int, patience_s: float
) -> tuple[int, Channel, Consumer]:
    """Count what is ready and consume it exclusively, once nobody else does.

    Who lets go cancels first and requeues then, so after a refusal the count is only taken a moment
    after the queue was found free.
    """
    until = trio.current_time() + patience_s
    refused = False
    while True:
        depth = await ready_count(connection, queue)
        channel = await connection.open_channel()
        try:
            consumer = await channel.consume(queue, prefetch=max(1, min(depth, limit)), exclusive=True)
        except ClosedError as error:
            if not isinstance(error.reason, ChannelClose) or error.reason.code != _ACCESS_REFUSED:
                raise
            if trio.current_time() >= until:
                raise QueueInUse(
                    f"{queue} is in use: another operator, console or consumer holds it ({error.reason.text})"
                ) from error
            refused = True
        else:
            if not refused:
                return depth, channel, consumer
            refused = False
            await channel.aclose()
        await trio.sleep(ASK_AGAIN_S)


async def ready_count(connection: Connection, queue: str) -> int:
    """How many messages are ready, by a passive declare on a channel of its own. Raises QueueMissing."""
    channel = await connection.open_channel()
    try:
        state = await channel.declare_queue(QueueSpec(queue), passive=True)
    except ClosedError as error:
        if isinstance(error.reason, ChannelClose) and error.reason.code == _NOT_FOUND:
            raise QueueMissing(f"there is no queue {queue} in this virtual host") from error
        raise
    await channel.aclose()
    return state.ready


async def queue_type(connection: Connection, queue: str) -> str | None:
    """``classic``, ``quorum`` or ``stream`` of a queue that exists; None where AMQP does not tell.

    Asks for it as a plain classic queue: an equal declare changes nothing, and a refusal names what
    stands there (rabbitmq-facts, 3).
    """
    channel = await connection.open_channel()
    try:
        await channel.declare_queue(QueueSpec(queue, arguments={"x-queue-type": "classic"}))
    except ClosedError as error:
        reason = error.reason
        if isinstance(reason, ChannelClose) and reason.code == _PRECONDITION_FAILED:
            return next((kind for kind in ("quorum", "stream") if f"'{kind}'" in reason.text), "classic")
        if isinstance(reason, ChannelClose) and reason.code == _ACCESS_REFUSED:
            return None
        raise
    await channel.aclose()
    return "classic"
