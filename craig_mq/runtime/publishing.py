"""The publishing side of one session: a connection of its own, bounded confirms, no second chances.

An alarm stops RabbitMQ from reading a connection that published, so acks never share it (decisions,
9). The connection opens at the first publish and is reset, never closed, while anything published on
it is unresolved: what is abandoned with a FIN during an alarm is executed afterwards (decisions, 7).
"""

# flake8: noqa: ASYNC910 - between evidence and settlement there must be no checkpoint (S43)
from __future__ import annotations

from collections.abc import Callable

import trio

from craig_mq.core.close import CloseReason
from craig_mq.core.delivery import Publication
from craig_mq.core.outcome import Confirmation, Unconfirmed
from craig_mq.runtime.blockage import Blockage
from craig_mq.runtime.deadlines import Bounded, Deadlines
from craig_mq.runtime.handed_off import HandedOff
from craig_mq.runtime.on_demand import OnDemand, nobody
from craig_mq.runtime.publish_memory import PublishMemory
from craig_mq.transport.broker import Broker, Channel, Connection, ConnectionOptions
from craig_mq.transport.errors import TransportError
from supervisors.flag import Flag

LARGE_BODY_BYTES = 1024 * 1024
"""From here a body travels alone on a channel of its own: a refused size costs its neighbours' confirms."""


def _to_nobody(_: CloseReason) -> None:
    """Stand in where nobody asks why the connection ended."""


class Publishing:
    """Publishes for one session, on one connection opened at the first publish.

    ``confirm_timeout`` (seconds) bounds each wait for a confirm; its timer stands still while the
    broker says the connection is blocked. ``on_lost`` hears why the connection or its channel ended
    by itself.
    """

    def __init__(
        self,
        broker: Broker,
        options: ConnectionOptions,
        memory: PublishMemory,
        *,
        confirm_timeout: float,
        blockage: Blockage,
        on_lost: Callable[[CloseReason], None] = _to_nobody,
    ) -> None:
        self._broker = broker
        self._options = options
        self._memory = memory
        self._late = Unconfirmed(f"no confirm within {confirm_timeout:g} s")
        self._bounds = Deadlines(confirm_timeout, self._late.reason)
        self._blockage = blockage
        self.on_lost = on_lost
        self._wanted = Flag()
        self._opened = Flag()
        self._stop = Flag()
        self._until_stop = trio.CancelScope()
        self._running = False
        self._ended = Flag()
        self._graceful = False
        self._connection: Connection | None = None
        self._channel: Channel | None = None
        self._large: Channel | None = None
        self._opening_failed = "the session is ending"
        self._was_open = False
        self._turns: dict[str, trio.Lock] = {}
        self._unresolved = False
        self._gate_open = True
        self._quiet = Flag()
        self.wanted: Callable[[], None] = nobody

    @property
    def in_flight(self) -> int:
        """How many publishes wait for their confirm."""
        return len(self._bounds)

    @property
    def opening_failed(self) -> str | None:
        """Why no connection came to be, None where one did."""
        return None if self._was_open else self._opening_failed

    def open(self) -> None:
        """Let ``run`` connect now, before the first publish."""
        self._wanted.set()
        self.wanted()

    async def wait_resolved(self) -> None:
        """Return once no publish waits for its confirm."""
        while self._bounds:
            if self._quiet.is_set():  # Else somebody waits for it already, and must be woken, too.
                self._quiet = Flag()
            await self._quiet.wait()

    async def run(self) -> None:
        """Own the connection, from the first publish until ``stop``.

        Cancelled: the connection is reset.
        """
        await self._wanted.wait()
        if self._stop.is_set():
            return
        self._running = True
        try:
            async with self._broker.connect(self._options) as connection:
                self._channel = await connection.open_channel(confirms=True)
                self._connection = connection
                self._was_open = True
                self._opened.set()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._watch_blocked, connection)
                    with OnDemand(nursery) as on_demand:
                        on_demand.offer(self._bounds, self._bounds.run)
                        await self._watch_closed(self._channel)
                        await self._stop.wait()
                    nursery.cancel_scope.cancel(reason="the session is ending")
                if self._graceful:
                    await connection.aclose()
        except TransportError as error:
            self._opening_failed = f"no publishing connection: {error}"
        finally:
            self._connection = self._channel = None
            self._running = False
            self._opened.set()
            self._ended.set()

    def close_gate(self) -> None:
        """Let no further publish begin; those under way keep their bound and true outcome."""
        self._gate_open = False

    def stop(self) -> None:
        """End ``run``: gracefully if every publish is resolved and nothing is blocked, else by reset."""
        connection = self._connection
        self._graceful = not (self._unresolved or self._bounds) and (
            connection is not None and connection.blocked is None
        )
        self._gate_open = False
        self._stop.set()
        self._until_stop.cancel(reason="the session is ending")
        self._wanted.set()

    async def wait_ended(self) -> None:
        """Return once ``run`` holds no connection any more."""
        if self._running:
            await self._ended.wait()

    async def publish(self, publication: Publication) -> Confirmation:
        """Publish and say what became of it, within the bound; never raises TransportError.

        There is no task switch between the confirm and the return. Cancelled: the outcome is
        unknown, and the arm remembers that.
        """
        with trio.CancelScope() as scope:
            return await self._in_turn(scope, publication)
        return self._late

    @property
    def ready(self) -> bool:
        """Whether a publish of an ordinary size need not wait for anything at this moment."""
        connection = self._connection
        return (
            connection is not None
            and connection.blocked is None
            and self._gate_open
            and not self._memory.publish_alone_first
        )

    def publish_nowait(
        self, publication: Publication, told: Callable[[Confirmation], None], now: float
    ) -> bool:
        """Publish without waiting, where that is possible now; False where it is not: nothing happened.

        ``now`` is the time by Trio's clock. ``told`` hears the outcome once, within the bound, unless
        ``abandon`` comes first.
        """
        channel = self._channel
        if channel is None or not self.ready or len(publication.body) >= LARGE_BODY_BYTES:
            return False
        handed_off = HandedOff(self.resolve, channel, told)
        self._bounds.begin(handed_off, now)
        accepted = False
        try:
            accepted = channel.publish_nowait(publication, handed_off.confirmed)
        finally:
            if not accepted:
                self._end_bound(handed_off)
        return accepted

    def abandon(self) -> None:
        """Leave every publish that no task waits for with an unknown outcome, untold."""
        for bounded in list(self._bounds):
            if isinstance(bounded, HandedOff):
                bounded.abandon()

    async def publish_within(
        self, scope: trio.CancelScope, publication: Publication, told: Callable[[Confirmation], None]
    ) -> None:
        """Publish as ``publish`` does, inside a scope of the caller's that serves many publishes.

        ``told`` hears the outcome with no task switch behind the confirm. Where no confirm comes in
        time ``scope`` is cancelled, and ``told`` hears that. Cancelled from outside: it hears nothing.
        """
        confirmation: Confirmation = self._late
        try:
            confirmation = await self._in_turn(scope, publication)
        finally:
            if confirmation is not self._late or scope.cancel_called:
                told(confirmation)

    async def _in_turn(self, scope: trio.CancelScope, publication: Publication) -> Confirmation:
        if self._memory.publish_alone_first:
            async with self._turn("alone"):
                if self._memory.publish_alone_first:
                    return await self._publish(scope, publication)
            # Whoever waited finds the way cleared by the first one's confirm.
        return await self._publish(scope, publication)

    async def _publish(self, scope: trio.CancelScope, publication: Publication) -> Confirmation:
        if self._channel is None:
            self.open()
            await self._opened.wait()
        if len(publication.body) < LARGE_BODY_BYTES:
            return await self._confirmed(scope, self._channel, publication)
        async with self._turn("large"):
            return await self._confirmed(scope, await self._large_channel(), publication)

    def _turn(self, kind: str) -> trio.Lock:
        """Return the lock of those that must go one by one; most sessions never need it."""
        return self._turns.setdefault(kind, trio.Lock())

    async def _large_channel(self) -> Channel | None:
        connection = self._connection
        if connection is None:
            return None
        if self._large is None or self._large.closed is not None:
            try:
                with trio.fail_after(self._options.rpc_timeout):
                    self._large = await connection.open_channel(confirms=True)
            except (TransportError, trio.TooSlowError) as error:
                self._opening_failed = f"no channel for a large body: {error}"
                return None
        return self._large

    async def _confirmed(
        self, scope: trio.CancelScope, channel: Channel | None, publication: Publication
    ) -> Confirmation:
        connection = self._connection
        while connection is not None and connection.closed is None and connection.blocked is not None:
            await connection.wait_unblocked()
        if channel is None or not self._gate_open:
            return Unconfirmed(self._opening_failed, sent=False)
        confirmation: Confirmation = self._late
        bounds = self._bounds
        bounds.begin(scope, trio.current_time())
        try:
            confirmation = await channel.publish(publication)
        finally:
            self.resolve(scope, channel, confirmation)
        return confirmation

    def resolve(self, bounded: Bounded, channel: Channel, confirmation: Confirmation) -> None:
        """End a publish's bound and learn from its outcome."""
        self._end_bound(bounded)
        if isinstance(confirmation, Unconfirmed):
            if confirmation.sent:
                self._unresolved = True
                self._gate_open = False
            self._memory.size_refused(channel.closed)
        self._memory.publish_resolved(confirmation)

    def _end_bound(self, bounded: Bounded) -> None:
        self._bounds.end(bounded)
        if not self._bounds:
            self._quiet.set()

    async def _watch_closed(self, channel: Channel) -> None:
        """Tell of the channel's end, unless ``stop`` comes first."""
        with self._until_stop:
            self.on_lost(await channel.wait_closed())

    async def _watch_blocked(self, connection: Connection) -> None:
        while True:
            await connection.wait_blocked()
            if connection.closed is not None:
                return
            self._bounds.stand_still()
            self._blockage.change(connection.blocked)
            await connection.wait_unblocked()
            self._bounds.go_on()
            self._blockage.change(None)
