"""``Publisher``: many events at a high rate, each with its own outcome; and ``publish_event`` for one."""

# flake8: noqa: ASYNC910 - leaving a block that was never entered waits for nothing
from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Self

import trio

from craig_mq.core.config import validate_exchange
from craig_mq.core.delivery import Publication
from craig_mq.core.envelope import EventEnvelope
from craig_mq.core.outcome import Confirmation, Unconfirmed
from craig_mq.core.topology import EVENTS_EXCHANGE
from craig_mq.publishing.link import Link
from craig_mq.publishing.options import PublisherOptions
from craig_mq.publishing.publication import event_publication
from craig_mq.runtime.sources import SYSTEM_SOURCES, Sources
from craig_mq.transport.broker import Broker
from supervisors import ChildSpec, EndClass, Supervisor, SupervisorSpec

DEFAULT_OPTIONS = PublisherOptions()
_MARGIN_S = 1.0


class Pending:
    """A publish under way."""

    def __init__(self) -> None:
        self._done = trio.Event()
        self._outcome: Confirmation | None = None

    @property
    def outcome(self) -> Confirmation | None:
        """What became of it, None while that is open."""
        return self._outcome

    async def wait(self) -> Confirmation:
        """Return what became of it, within the publisher's patience. Cancelled: the publish goes on."""
        await self._done.wait()
        return self._outcome or Unconfirmed("the publisher was cancelled")

    def resolve(self, outcome: Confirmation | None) -> None:
        """Note the outcome; None where the publisher was cancelled first."""
        self._outcome = outcome
        self._done.set()


class Publisher:
    """Publishes events on a connection of its own, for the length of its block.

    ::

        async with Publisher(broker) as publisher:
            outcome = await publisher.publish(envelope)

    Entering dials nothing and waits for nothing: a broker that is away shows as ``Unconfirmed`` with
    ``sent`` False once ``patience`` has passed. The exchange is declared (topic, durable) where it is
    missing. A lost connection is replaced by the publisher's supervisor, with backoff; what was under
    way on it resolves to ``Unconfirmed`` and is never repeated here: whether to publish again is the
    caller's to decide, and the envelope's id lets an inbox tell the copies apart.

    Raises DlqConfigError for an exchange's name that cannot be.
    Leaving the block waits for what is under way, also when it is left by an exception. Cancelled: the
    connection is reset, and outcomes of publishes under way are unknown.
    """

    def __init__(
        self,
        broker: Broker,
        *,
        exchange: str = EVENTS_EXCHANGE,
        options: PublisherOptions = DEFAULT_OPTIONS,
        sources: Sources = SYSTEM_SOURCES,
    ) -> None:
        validate_exchange(exchange)
        self._exchange = exchange
        self._options = options
        self._sources = sources
        self._link = Link(broker, exchange, options)
        self._slots = trio.CapacityLimiter(options.max_in_flight)
        self._tasks: trio.Nursery | None = None
        self._block: AbstractAsyncContextManager[None] | None = None

    @property
    def blocked(self) -> str | None:
        """The broker's reason while it blocks publishing, else None."""
        return self._link.blocked

    @property
    def in_flight(self) -> int:
        """How many publishes are under way."""
        return self._slots.borrowed_tokens

    async def __aenter__(self) -> Self:
        self._block = self._running()
        await self._block.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> bool | None:
        block, self._block = self._block, None
        if block is None:
            return None
        return await block.__aexit__(kind, error, where)  # noqa: ASYNC102 - bounded by the supervisor's own limits

    async def publish(self, envelope: EventEnvelope, *, routing_key: str | None = None) -> Confirmation:
        """Publish one event and return what became of it; by default under its ``event_type``.

        Only ``Acked`` means stored and routed. Raises EnvelopeNotSerializable or DlqConfigError for an
        event that cannot be published, before anything is sent, and RuntimeError outside the publisher's
        block, where nothing could ever be sent. Cancelled: the outcome is unknown.
        """
        return await self.publish_raw(event_publication(envelope, self._exchange, routing_key, self._sources))

    async def publish_raw(self, publication: Publication) -> Confirmation:
        """As ``publish``, for a message built elsewhere; its message_id must be fresh."""
        self._entered()
        async with self._slots:
            return await self._bounded(publication)

    async def submit(self, envelope: EventEnvelope, *, routing_key: str | None = None) -> Pending:
        """Begin to publish one event and return at once, or as soon as a slot is free (back-pressure).

        No order is promised between publishes that are under way together. Raises as ``publish`` does,
        also where the block is left while it waits.
        Cancelled: nothing was begun.
        """
        publication = event_publication(envelope, self._exchange, routing_key, self._sources)
        self._entered()
        pending = Pending()
        await self._slots.acquire_on_behalf_of(pending)
        try:
            self._entered().start_soon(self._resolve, pending, publication)
        except RuntimeError:  # the block was left meanwhile: the next one in the line must hear it, too
            self._slots.release_on_behalf_of(pending)
            raise
        return pending

    def _entered(self) -> trio.Nursery:
        if self._tasks is None:
            raise RuntimeError("the publisher's block was not entered, or is left")
        return self._tasks

    async def _resolve(self, pending: Pending, publication: Publication) -> None:
        outcome: Confirmation | None = None
        try:
            outcome = await self._bounded(publication)
        finally:
            pending.resolve(outcome)
            self._slots.release_on_behalf_of(pending)

    async def _bounded(self, publication: Publication) -> Confirmation:
        patience = self._options.patience.total_seconds()
        publishing = None
        under_way = False
        with trio.move_on_after(patience):
            while True:
                publishing = await self._link.other_than(publishing)
                under_way = True
                confirmation = await publishing.publish(publication)
                under_way = False
                if not isinstance(confirmation, Unconfirmed):
                    return confirmation
                self._link.spend(publishing, confirmation.reason)
                if confirmation.sent:
                    return confirmation
                # No byte of it left this process, so the next connection may take it.
        why = self._link.blocked or self._link.last_failure
        late = Unconfirmed(f"not confirmed within {patience:g} s: {why}", sent=under_way)
        if under_way and publishing is not None:
            self._link.spend(publishing, late.reason)
        return late

    @asynccontextmanager
    async def _running(self) -> AsyncGenerator[None]:
        options = self._options
        closing_s = (options.confirm_timeout + options.rpc_timeout).total_seconds() + _MARGIN_S
        connection = ChildSpec(
            "connection",
            self._link.run,
            backoff=options.backoff(),
            start_failure="retry",
            drain_timeout_s=closing_s,
            stop_timeout_s=closing_s,
            # Zero crashes are forgiven; connections that end are not counted, nor limited.
            max_restarts=0,
        )
        spec = SupervisorSpec(
            name="publisher",
            children=(connection,),
            max_restarts=None,
            counted=frozenset({EndClass.FAILED}),
        )
        tree = Supervisor(spec)
        failure: Exception | None = None
        async with trio.open_nursery() as outer:
            await outer.start(tree.run)
            try:
                async with trio.open_nursery() as self._tasks:
                    try:
                        yield
                    except Exception as error:  # noqa: BLE001 - raised below as it was, in no group
                        failure = error
            finally:
                self._tasks = None
            tree.shutdown("the publisher's block was left")
        if failure is not None:
            raise failure


async def publish_event(
    broker: Broker,
    envelope: EventEnvelope,
    *,
    exchange: str = EVENTS_EXCHANGE,
    routing_key: str | None = None,
    options: PublisherOptions = DEFAULT_OPTIONS,
    sources: Sources = SYSTEM_SOURCES,
) -> Confirmation:
    """Publish one event: persistent, mandatory, confirmed, within ``options.patience``.

    Returns ``Acked``, ``Nacked``, ``Returned`` or ``Unconfirmed``; only the first means stored and
    routed. It connects for this one event: whoever publishes often uses a ``Publisher``. Raises
    EnvelopeNotSerializable or DlqConfigError before anything is sent. Cancelled: the outcome is unknown.
    """
    publication = event_publication(envelope, exchange, routing_key, sources)
    async with Publisher(broker, exchange=exchange, options=options, sources=sources) as publisher:
        return await publisher.publish_raw(publication)
