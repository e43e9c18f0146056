"""The course of a live run: publish four dead letters, let the runtime settle them, visit, account."""

# flake8: noqa: ASYNC910 - every turn of its loops over messages and queues has checkpoints
from __future__ import annotations

import tempfile
import uuid
from functools import partial
from pathlib import Path

import attrs
import trio

from craig_mq.core.config import QUARANTINE_SUFFIX
from craig_mq.core.outcome import Acked
from craig_mq.core.topology import Topology, topology_for
from craig_mq.live.ack_loss import AckLoss
from craig_mq.live.effects import Effect, EffectLedger
from craig_mq.live.handlers import Handlers, Receive
from craig_mq.live.operator_visit import Held, Visit
from craig_mq.live.publication import binding_key, dead_letter, queue_name
from craig_mq.live.settings import Settings
from craig_mq.live.watch import Watch
from craig_mq.operator.connecting import connected
from craig_mq.operator.row import Row
from craig_mq.operator.scan import scan_queue
from craig_mq.review.events import MESSAGES, Message
from craig_mq.review.params import Params
from craig_mq.review.snapshots import Status
from craig_mq.runtime.handle import DlqSubscription
from craig_mq.runtime.sources import Sources
from craig_mq.runtime.statistics import DlqStatistics
from craig_mq.runtime.subscribe import subscribe_dlq
from craig_mq.transport.broker import Broker

PATIENCE_S = 60.0
"""How much later than modeled a phase may end before the run is given up."""


class LiveFailed(Exception):
    """The run could not be carried out; the text says why."""


@attrs.define(slots=False)
class Stage:
    """Where a run takes place: ``lossy`` is the way to ``broker`` on which ``acks`` can be lost.

    ``sources.now`` advances with Trio's clock.
    """

    broker: Broker
    lossy: Broker
    acks: AckLoss
    settings: Settings
    sources: Sources
    run: str = attrs.field(factory=lambda: uuid.uuid4().hex[:8])
    began: float = attrs.field(factory=trio.current_time)

    @property
    def queues(self) -> dict[Message, str]:
        """The dead-letter queue of each message."""
        return {message: queue_name(self.run, message) for message in MESSAGES}

    def now(self) -> float:
        """Modeled seconds since the messages were published."""
        return self.settings.modeled(trio.current_time() - self.began)


@attrs.frozen
class Ending:
    """Where one message was found, and in how many copies.

    ``reason`` is what its capture was quarantined for, ``error`` the text of its last failure.
    """

    status: Status
    copies: int
    reason: str | None
    error: str | None
    statistics: DlqStatistics
    acks_lost: int


@attrs.frozen
class LiveRun:
    """What a run came to; times in modeled seconds. ``redriven`` are in the order of their redrive."""

    params: Params
    settings: Settings
    receives: tuple[Receive, ...]
    effects: tuple[Effect, ...]
    drained_at: float
    inspected_at: float
    end_at: float
    held: tuple[Held, ...]
    verdicts: dict[Message, str]
    endings: dict[Message, Ending]
    lost_but_written: int


async def run_live(stage: Stage, params: Params) -> LiveRun:
    """Carry out the run; the queues are deleted at its end.

    Raises LiveFailed, VisitFailed, SubscribeDlqError or a TransportError. Cancelled: the queues stay.
    """
    with (
        tempfile.TemporaryDirectory(prefix="craig-mq-review-") as folder,
        EffectLedger(params.result_retention if params.dedup else None, stage.now) as ledger,
    ):
        live = _Live(stage, params, ledger, Path(folder))
        try:
            async with trio.open_nursery() as nursery:
                run = await live.through(nursery)
        except* trio.TooSlowError as late:
            raise LiveFailed(f"nothing came to rest within {PATIENCE_S:g} s of its time") from late
        return run


class _Live:
    def __init__(self, stage: Stage, params: Params, ledger: EffectLedger, folder: Path) -> None:
        self._stage = stage
        self._params = params
        self._ledger = ledger
        self._handlers = Handlers(params, ledger, stage.now, stage.acks)
        self._watch = Watch(stage.queues, self._handlers, stage.acks)
        self._visit = Visit(stage.broker, params, stage.queues, stage.sources, stage.settings.modeled, folder)

    async def through(self, nursery: trio.Nursery) -> LiveRun:
        stage, params = self._stage, self._params
        subscriptions = {message: await self._subscribe(nursery, message) for message in MESSAGES}
        self._watch.expect(*MESSAGES)
        await self._publish()
        await self._rest()
        drained_at = stage.now()
        await trio.sleep(params.operator_wait * stage.settings.second_s)
        inspected_at = stage.now()
        held = await self._visit.inspect()
        await self._operate(held)
        await self._rest()
        end_at = stage.now()
        for subscription in subscriptions.values():
            subscription.shutdown("the review is over")
            await subscription.wait_closed()
        drained = {one.message: one.row for one in held if self._visit.expired(one)}
        endings: dict[Message, Ending] = {
            message: await self._ending(message, subscriptions[message].statistics(), drained.get(message))
            for message in MESSAGES
        }
        await self._delete_queues()
        return LiveRun(
            params,
            stage.settings,
            tuple(self._handlers.receives),
            self._ledger.effects,
            drained_at,
            inspected_at,
            end_at,
            tuple(held),
            self._visit.verdicts,
            endings,
            self._watch.lost_but_written,
        )

    async def _subscribe(self, nursery: trio.Nursery, message: Message) -> DlqSubscription:
        stage = self._stage
        subscription: DlqSubscription = await nursery.start(
            partial(
                subscribe_dlq,
                stage.lossy if message == "uncertain" else stage.broker,
                queue=stage.queues[message],
                handler=self._handlers,
                config=stage.settings.config,
                options=stage.settings.options,
                binding_keys=(binding_key(stage.run, message),),
                observer=self._watch,
                sources=stage.sources,
            )
        )
        return subscription

    async def _publish(self) -> None:
        """Dead-letter all four at modeled second 0."""
        async with connected(self._stage.broker, "review publisher") as connection:
            channel = await connection.open_channel(confirms=True)
            self._stage.began = trio.current_time()
            for message in MESSAGES:
                confirmation = await channel.publish(dead_letter(self._stage.run, message))
                if not isinstance(confirmation, Acked):
                    raise LiveFailed(f"the broker did not take {message}: {confirmation}")
            await connection.aclose()

    async def _rest(self) -> None:
        """Wait until the cycle is over; a whole one takes its interval, less than ``max_receives`` times."""
        park_s = self._stage.settings.config.parking_ttl.total_seconds()
        with trio.fail_after(park_s * self._params.max_receives + PATIENCE_S):
            await self._watch.wait_at_rest()

    async def _operate(self, held: list[Held]) -> None:
        """Expire, repair, redrive."""
        for one in held:
            if self._visit.expired(one):
                await self._visit.drain(one)
        chosen = [one for one in held if self._visit.chosen(one)]
        if self._params.repair and chosen:
            self._handlers.repaired = True
        for one in chosen:
            self._handlers.courses[one.message].redriven()
            self._watch.expect(one.message)
            await self._visit.redrive(one, self._ledger.recorded)

    async def _ending(self, message: Message, statistics: DlqStatistics, drained: Row | None) -> Ending:
        """Look for the message where it can be, by other means than the runtime's own counters."""
        found: list[tuple[Status, Row]] = []
        if drained is not None:
            found.append(("expired", drained))
        for spec in self._topology(message).queues:
            scan = await scan_queue(self._stage.broker, spec.name, now_s=self._stage.sources.now())
            found.extend((_status_in(spec.name), row) for row in scan.rows)
        lost = self._handlers.courses[message].acks_lost
        if not found:
            return Ending("acked", 0, None, None, statistics, lost)
        status, row = found[0]
        return Ending(status, len(found), row.reason, row.error_text, statistics, lost)

    def _topology(self, message: Message) -> Topology:
        return topology_for(self._stage.queues[message], (binding_key(self._stage.run, message),))

    async def _delete_queues(self) -> None:
        async with connected(self._stage.broker, "review clean-up") as connection:
            channel = await connection.open_channel()
            for message in MESSAGES:
                for spec in self._topology(message).queues:
                    await channel.delete_queue(spec.name)
            await connection.aclose()


def _status_in(queue: str) -> Status:
    return "quarantined" if queue.endswith(QUARANTINE_SUFFIX) else "waiting"
