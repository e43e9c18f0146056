"""The relay: publishes each row at least once, and marks it only after a clean confirm.

A row is published again where its outcome is unknown: the confirm did not come, or the process died
between confirm and mark. Within an ordering key a row goes only after the one before it is confirmed.
"""

# flake8: noqa: ASYNC114,ASYNC910 - started with nursery.start; it waits only where there is something to wait for
from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

import attrs
import trio

from craig_mq.audit.database import Database
from craig_mq.core.outcome import Acked, Confirmation, Nacked, Returned, Unconfirmed
from craig_mq.core.topology import EVENTS_EXCHANGE
from craig_mq.outbox.batch import Batch
from craig_mq.outbox.options import RelayOptions
from craig_mq.outbox.sole import SoleRelay, sole_relay
from craig_mq.outbox.table import OutboxRow, OutboxTable, RowSetAside
from craig_mq.publishing.options import PublisherOptions
from craig_mq.publishing.publication import body_publication
from craig_mq.publishing.publisher import Publisher
from craig_mq.runtime.sources import SYSTEM_SOURCES, Sources
from craig_mq.service_database import connector
from craig_mq.transport.broker import Broker
from supervisors import (
    Backoff,
    ChildContext,
    ChildSpec,
    Failed,
    Supervisor,
    SupervisorSpec,
    sleep_or_shutdown,
)

LOGGER = logging.getLogger("craig_mq.outbox")
DEFAULT_OPTIONS = RelayOptions()
DEFAULT_PUBLISHER = PublisherOptions()
_FIRST_WAIT_S = 1.0
_MICROS = 1_000_000


@attrs.define(slots=True)
class RelayStatistics:
    """How often each thing happened: rows confirmed and marked, refused, unknown, or set aside unreadable."""

    published: int = 0
    nacked: int = 0
    returned: int = 0
    unknown: int = 0
    set_aside: int = 0


class RelayHandle:
    """What ``nursery.start(run_relay, …)`` returns."""

    def __init__(self, tree: Supervisor, statistics: RelayStatistics, relay: Relay) -> None:
        self._tree = tree
        self._statistics = statistics
        self._relay = relay

    def wake(self) -> None:
        """Say that a row was committed, so that it need not wait for the next poll."""
        self._relay.wake()

    def shutdown(self) -> None:
        """Ask for a graceful end: publishes under way are confirmed and marked first."""
        self._tree.shutdown("the relay was asked to stop")

    def statistics(self) -> RelayStatistics:
        """Return the counters so far."""
        return attrs.evolve(self._statistics)


async def run_relay(
    broker: Broker,
    url: str,
    *,
    exchange: str = EVENTS_EXCHANGE,
    options: RelayOptions = DEFAULT_OPTIONS,
    publisher: PublisherOptions = DEFAULT_PUBLISHER,
    sources: Sources = SYSTEM_SOURCES,
    on_set_aside: Callable[[RowSetAside], None] = lambda _: None,
    task_status: trio.TaskStatus[RelayHandle] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Publish the outbox in the database at ``url`` to ``exchange`` until shut down.

    Losing the database or the broker is retried with backoff, for ever; a row that the broker refuses
    or cannot route is logged and tried again. A row that no reading makes an event of is set aside: logged,
    noted in ``craig_outbox_set_aside``, told to ``on_set_aside`` (what that raises is logged); the rest of
    its key waits behind it, and everything else goes on. A second relay of one outbox waits until the first
    is gone. Raises DlqConfigError for a URL that is neither sqlite:///FILE nor postgresql://…. Cancelled:
    publishes under way have an unknown outcome, and go out again.
    """
    statistics = RelayStatistics()
    relay = Relay(broker, url, exchange, options, publisher, sources, statistics, on_set_aside)
    connector(url)
    cap_s = options.backoff_cap.total_seconds()
    closing_s = publisher.patience.total_seconds()
    child = ChildSpec(
        "relay",
        relay.run,
        backoff=Backoff(base_s=min(_FIRST_WAIT_S, cap_s), cap_s=cap_s, min_delay_s=min(0.05, cap_s)),
        start_failure="retry",
        drain_timeout_s=closing_s,
        stop_timeout_s=closing_s,
    )
    tree = Supervisor(SupervisorSpec(name="outbox", children=(child,), max_restarts=None))
    async with trio.open_nursery() as nursery:
        await nursery.start(tree.run)
        task_status.started(RelayHandle(tree, statistics, relay))


@attrs.define(slots=True, eq=False)
class Relay:
    """The body of the relay's one child."""

    _broker: Broker
    _url: str
    _exchange: str
    _options: RelayOptions
    _publisher: PublisherOptions
    _sources: Sources
    _statistics: RelayStatistics
    _on_set_aside: Callable[[RowSetAside], None]
    _woken: trio.Event = attrs.field(factory=trio.Event, init=False)

    def wake(self) -> None:
        """Let the next look at the table come at once."""
        self._woken.set()

    async def run(self, context: ChildContext) -> Failed | None:
        """Relay until shut down. Returns Failed where the database fails: the supervisor starts anew."""
        try:
            database = await trio.to_thread.run_sync(connector(self._url))
            try:
                with sole_relay(self._url, database) as claim:
                    await self._claimed(context, database, claim)
            finally:
                database.close()
        except Exception as error:  # noqa: BLE001 - drivers raise what they like; all of it means: again
            LOGGER.warning("the outbox relay starts anew: %s: %s", type(error).__name__, error)
            return Failed(error)
        return None

    async def _claimed(self, context: ChildContext, database: Database, claim: SoleRelay) -> None:
        table = OutboxTable(database)
        await trio.to_thread.run_sync(table.create)
        context.started()
        while not await trio.to_thread.run_sync(claim.take):
            if not await sleep_or_shutdown(self._options.poll_interval.total_seconds(), context.shutdown):
                return
        async with Publisher(self._broker, exchange=self._exchange, options=self._publisher) as publisher:
            await self._relay(context, table, publisher)

    async def _relay(self, context: ChildContext, table: OutboxTable, publisher: Publisher) -> None:
        wait_s = _FIRST_WAIT_S
        while not context.shutdown.requested:
            self._woken = trio.Event()
            rows, unreadable = await trio.to_thread.run_sync(table.waiting, self._options.batch)
            if unreadable:
                await self._set_aside(table, unreadable)
            if rows and await Batch(partial(self._publish, publisher), partial(self._mark, table)).publish(
                rows
            ):
                wait_s = _FIRST_WAIT_S
            elif rows:
                await sleep_or_shutdown(wait_s, context.shutdown)
                wait_s = min(wait_s * 2, self._options.backoff_cap.total_seconds())
            elif not unreadable:
                await self._idle(context)

    async def _idle(self, context: ChildContext) -> None:
        """Wait for the next poll, a wake-up or a shutdown."""
        with trio.move_on_after(self._options.poll_interval.total_seconds()):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_after, context.shutdown.wait, nursery.cancel_scope)
                await self._woken.wait()
                nursery.cancel_scope.cancel(reason="a row was announced")

    async def _publish(self, publisher: Publisher, row: OutboxRow) -> bool:
        """Publish one row; whether it was confirmed."""
        publication = body_publication(row.body, self._exchange, row.routing_key, self._sources)
        confirmation = await publisher.publish_raw(publication)
        self._count(row, confirmation)
        return isinstance(confirmation, Acked)

    async def _set_aside(self, table: OutboxTable, rows: list[RowSetAside]) -> None:
        """Note rows that can't be read, and tell of them once that is committed."""
        await trio.to_thread.run_sync(table.set_aside, rows, int(self._sources.now() * _MICROS))
        for row in rows:
            self._statistics.set_aside += 1
            LOGGER.error("outbox row %d is set aside, its ordering key waits: %s", row.seq, row.reason)
        for row in rows:
            try:
                self._on_set_aside(row)
            except Exception:
                LOGGER.exception("on_set_aside failed for outbox row %d; the relay goes on", row.seq)

    async def _mark(self, table: OutboxTable, seqs: list[int]) -> None:
        """Mark confirmed rows, and count them once that is committed."""
        at = int(self._sources.now() * _MICROS)
        await trio.to_thread.run_sync(table.mark, seqs, at)
        self._statistics.published += len(seqs)

    def _count(self, row: OutboxRow, confirmation: Confirmation) -> None:
        match confirmation:
            case Acked():
                return
            case Nacked():
                self._statistics.nacked += 1
            case Returned():
                self._statistics.returned += 1
            case Unconfirmed():
                self._statistics.unknown += 1
        LOGGER.error("outbox row %d under %s stays: %s", row.seq, row.routing_key, confirmation)


async def prune_outbox(url: str, older_than_s: float, *, sources: Sources = SYSTEM_SOURCES) -> int:
    """Delete rows that were published more than ``older_than_s`` seconds ago; return how many."""
    before = int((sources.now() - older_than_s) * _MICROS)

    def prune() -> int:
        database = connector(url)()
        try:
            return OutboxTable(database).prune(before)
        finally:
            database.close()

    return await trio.to_thread.run_sync(prune)


async def _cancel_after(wait: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
    await wait()
    scope.cancel(reason="shutdown")
