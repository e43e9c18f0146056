"""One connection of a publisher after another; the supervisor is the only one that reconnects (S7).

A connection on which an outcome is unknown is never used again: it is reset, and the next one
publishes one message alone before any other (decisions, 7).
"""

# flake8: noqa: ASYNC910 - internal: it waits only where there is something to wait for
from __future__ import annotations

import attrs
import trio

from craig_mq.core.close import CloseReason
from craig_mq.core.outcome import Acked, Confirmation, Unconfirmed
from craig_mq.core.topology import ExchangeSpec
from craig_mq.publishing.options import PublisherOptions
from craig_mq.runtime.blockage import Blockage
from craig_mq.runtime.declare import refusal_of
from craig_mq.runtime.publishing import Publishing
from craig_mq.transport.broker import Broker, Connection
from craig_mq.transport.errors import ClosedError, TransportError
from supervisors import ChildContext


class UnknownOutcome:
    """Remembers over connections that some publish's outcome is unknown, until a confirm comes."""

    publish_alone_first = False

    def publish_resolved(self, confirmation: Confirmation) -> None:
        """Take note of a publish's outcome."""
        if isinstance(confirmation, Unconfirmed) and confirmation.sent:
            self.publish_alone_first = True
        elif isinstance(confirmation, Acked):
            self.publish_alone_first = False

    def size_refused(self, reason: CloseReason | None) -> None:
        """Learn nothing: an event is published as it is, or not at all."""


@attrs.define(slots=True, eq=False)
class Link:
    """What a publisher publishes on: ``current`` while there is a connection, None between two."""

    broker: Broker
    exchange: str
    options: PublisherOptions
    current: Publishing | None = attrs.field(default=None, init=False)
    blocked: str | None = attrs.field(default=None, init=False)
    last_failure: str = attrs.field(default="no connection was tried yet", init=False)
    _memory: UnknownOutcome = attrs.field(factory=UnknownOutcome, init=False)
    _changed: trio.Event = attrs.field(factory=trio.Event, init=False)
    _spent: trio.Event = attrs.field(factory=trio.Event, init=False)

    async def run(self, context: ChildContext) -> None:
        """Run one connection until it is lost, spent, or a shutdown comes; what is pending resolves first.

        Cancelled: the connection is reset.
        """
        self._spent = trio.Event()
        try:
            await self._ensure_exchange()
        except TransportError as error:
            self.last_failure = str(error)
            return
        publishing = Publishing(
            self.broker,
            self.options.connection("publisher"),
            self._memory,
            confirm_timeout=self.options.confirm_timeout.total_seconds(),
            blockage=Blockage(self._note_blocked),
            on_lost=self._lost,
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._own, publishing)
            publishing.open()
            self._replace(publishing)
            context.started()
            try:
                await self._until_spent(context)
                publishing.close_gate()
                with trio.move_on_after(self.options.confirm_timeout.total_seconds()):
                    await publishing.wait_resolved()
            finally:
                self._replace(None)
                publishing.stop()

    def spend(self, publishing: Publishing, why: str) -> None:
        """Let nothing more begin on this connection."""
        if self.current is publishing:
            self.last_failure = why
            self._spent.set()

    async def other_than(self, publishing: Publishing | None) -> Publishing:
        """Return the connection in use, once it is not ``publishing``."""
        while self.current is None or self.current is publishing:
            await self._changed.wait()
        return self.current

    async def _until_spent(self, context: ChildContext) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._spend_on_shutdown, context)
            await self._spent.wait()
            nursery.cancel_scope.cancel(reason="the connection is spent")

    async def _spend_on_shutdown(self, context: ChildContext) -> None:
        await context.shutdown.wait()
        self._spent.set()

    async def _own(self, publishing: Publishing) -> None:
        await publishing.run()
        self.last_failure = publishing.opening_failed or self.last_failure
        self._spent.set()

    async def _ensure_exchange(self) -> None:
        """Declare the exchange on a connection of its own; one that differs is used if it exists."""
        if not self.exchange or self.exchange.startswith("amq."):
            return
        spec = ExchangeSpec(self.exchange)
        async with self.broker.connect(self.options.connection("publisher declaring")) as connection:
            if not await _declared(connection, spec, passive=False):
                await _declared(connection, spec, passive=True)
            await connection.aclose()

    def _lost(self, reason: CloseReason) -> None:
        self.last_failure = str(reason)
        self._spent.set()

    def _note_blocked(self, reason: str | None) -> None:
        self.blocked = reason

    def _replace(self, publishing: Publishing | None) -> None:
        self.current = publishing
        changed, self._changed = self._changed, trio.Event()
        changed.set()


async def _declared(connection: Connection, spec: ExchangeSpec, *, passive: bool) -> bool:
    """Whether the broker accepted; a refused look at what exists raises ClosedError."""
    refusal = await refusal_of(await connection.open_channel(), spec, passive=passive)
    if refusal is not None and passive:
        raise ClosedError(refusal)
    return refusal is None
