"""The parking arm's work: hold the head until it is due, then send it back (ADR-059 §parking).

Prefetch is one and the queue is in order of due times, so blocking at the head *is* the delay. What is
not due soon is given back and nothing is held meanwhile, so no broker's consumer_timeout can matter
(decisions, 12).
"""

# flake8: noqa: ASYNC910 - between evidence and settlement there must be no checkpoint (S43)
from __future__ import annotations

from functools import partial
from typing import assert_never

import trio

from craig_mq.core.delivery import Delivery
from craig_mq.core.machine import after_publish
from craig_mq.core.outcome import AckWritten, Confirmation, SettlementOutcome
from craig_mq.core.replay import Hold, Release, Replay, next_step
from craig_mq.core.steps import SettlementFailed
from craig_mq.core.topology import DEAD_LETTER_EXCHANGE
from craig_mq.observe.events import DuplicateAbsorbed, ForeignParked, OldestParked, ParkedReturned
from craig_mq.runtime.deadlines import Deadlines
from craig_mq.runtime.live_session import LiveSession
from craig_mq.runtime.on_demand import OnDemand
from craig_mq.runtime.parked_head import ParkedHead, read_parked
from craig_mq.runtime.plan import Plan
from craig_mq.runtime.publication import DEFAULT_EXCHANGE, capture_publication
from craig_mq.runtime.work_tasks import WorkTasks
from craig_mq.transport.broker import Consumer
from craig_mq.transport.errors import TransportError

LOOK_AGAIN_S = 5.0
"""How soon a step of the wall clock is noticed while waiting for a due time (field failure CLK-01)."""

QUIET_S = 1.0
"""How long the queue must give nothing before its head counts as absent."""


class ParkingReplayer:
    """Replays for one live session until its end is noted."""

    __slots__ = ("_absent", "_consumer", "_hold_limit_s", "_live", "_plan", "_queue", "_quiet", "_waiting")

    def __init__(self, plan: Plan, live: LiveSession) -> None:
        self._live = live
        self._plan = plan
        self._queue = plan.topology.parking_name
        self._hold_limit_s = plan.options.parking_hold_limit.total_seconds()
        self._waiting = trio.CancelScope()
        self._consumer: Consumer | None = None
        self._quiet = Deadlines(QUIET_S, "the queue is quiet", patience=QUIET_S)
        self._absent = False

    async def run(self, tasks: WorkTasks, on_demand: OnDemand) -> None:  # noqa: ARG002 - the protocol's
        """See ``Work``: the delivery in hand stays unacked."""
        self._consumer = await self._live.channel.consume(self._queue, prefetch=1)
        self._live.report_up()
        on_demand.offer(self._quiet, self._quiet.run)
        self._live.shutdown.listen(lambda _: on_demand.start(self._stop))
        await self._replay()

    async def see_to_end(self, tasks: WorkTasks) -> None:
        """See ``Work``. A publish under way gets the settlement bound."""
        await self._live.wait_ending()
        tasks.start_soon(self._live.watch_channel)
        with trio.move_on_after(self._plan.options.settle_timeout.total_seconds()):
            await self._live.publishing.wait_resolved()
            await self._settle_last()

    async def _settle_last(self) -> None:
        """Let a reply of the queue follow the last ack, which a close could lose on quorum (decisions, 5)."""
        quorum = self._plan.options.queue_type == "quorum"
        if quorum and self._consumer is not None and self._live.channel.closed is None:
            try:
                await self._consumer.cancel()
            except TransportError as error:
                self._live.failed(error)

    def leave(self) -> None:
        """Nothing to account for: a parked delivery that stays unacked is at the head again."""

    @property
    def _stopping(self) -> bool:
        return self._live.shutdown.requested or self._live.ending.noted

    async def _stop(self) -> None:
        """Wake whatever waits; a publish under way gets the drain's time, and its ack."""
        self._live.ending.wanted()
        self._waiting.cancel(reason="the subscription shuts down")
        with trio.move_on_after(self._plan.options.drain_timeout.total_seconds()):
            await self._live.publishing.wait_resolved()
        self._live.ending.drained()

    async def _replay(self) -> None:
        try:
            while not self._stopping:
                delivery = await self._take()
                if delivery is not None:
                    self._live.ending.wanted()
                    await self._deal_with(delivery)
        except TransportError as error:
            self._live.failed(error)

    async def _take(self) -> Delivery | None:
        """Wait for the head; None on shutdown, or where the queue has been quiet for a while."""
        if self._consumer is None:
            self._consumer = await self._live.channel.consume(self._queue, prefetch=1)
        delivery = self._consumer.receive_nowait()
        if delivery is not None or self._stopping:
            return delivery
        with trio.CancelScope() as self._waiting:
            if not self._absent:
                self._quiet.begin(self._waiting, trio.current_time())
            try:
                return await self._consumer.receive()
            finally:
                self._quiet.end(self._waiting)
        # A publish in flight is the head on its way, and a wait that was ended early shows nothing.
        if not (self._live.publishing.in_flight or self._stopping):
            self._absent = True
            self._plan.reporter.emit(OldestParked(self._plan.queue, None))
        return None

    async def _deal_with(self, delivery: Delivery) -> None:
        if self._live.arm.confirmed_before(delivery):
            self._plan.tally.duplicates_absorbed += 1
            self._plan.reporter.emit(DuplicateAbsorbed(self._plan.queue, None))
            self._live.settler.ack(delivery.delivery_tag, self._acked)
            return
        head = read_parked(delivery, self._plan, self._live.arm)
        if isinstance(head, str):
            self._plan.reporter.emit(ForeignParked(self._plan.queue, head))
            await self._publish(delivery, DEFAULT_EXCHANGE, self._plan.queue, None)
        elif await self._wait_until_due(delivery, head):
            queue_route = self._plan.options.return_route == "queue"
            exchange = DEFAULT_EXCHANGE if queue_route else DEAD_LETTER_EXCHANGE
            routing_key = self._plan.queue if queue_route else head.routing_key
            await self._publish(delivery, exchange, routing_key, head)

    async def _wait_until_due(self, delivery: Delivery, head: ParkedHead) -> bool:
        """True once due and still held; False where it was given back, or stays unacked at shutdown."""
        self._absent = False
        if self._plan.reporter.listening:
            self._plan.reporter.emit(OldestParked(self._plan.queue, head.age_s()))
        held_since = trio.current_time()
        while not self._stopping:
            held_s = trio.current_time() - held_since
            step = next_step(head.remaining_s(), max(0.0, self._hold_limit_s - held_s))
            match step:
                case Replay():
                    return True
                case Hold(seconds):
                    await self._sleep(min(seconds, LOOK_AGAIN_S))
                case Release(seconds):
                    await self._release(delivery)
                    await self._sleep_released(head, seconds)
                    return False
                case _:
                    assert_never(step)
        return False

    async def _release(self, delivery: Delivery) -> None:
        """Cancel, then requeue: the other order hands the head to the dying consumer (decisions, 12)."""
        consumer, self._consumer = self._consumer, None
        buffered = [] if consumer is None else await consumer.cancel()
        for held in (delivery, *buffered):
            self._live.settler.requeue(held.delivery_tag, self._released)

    async def _sleep_released(self, head: ParkedHead, seconds: float) -> None:
        until = trio.current_time() + seconds
        while not self._stopping and head.remaining_s() > 0 and trio.current_time() < until:
            await self._sleep(min(until - trio.current_time(), LOOK_AGAIN_S))

    async def _sleep(self, seconds: float) -> None:
        with trio.CancelScope(deadline=trio.current_time() + seconds) as self._waiting:
            await trio.sleep_forever()

    async def _publish(
        self, delivery: Delivery, exchange: str, routing_key: str, head: ParkedHead | None
    ) -> None:
        """Republish the capture as it is; where nothing must be waited for, no task waits for the confirm."""
        publication = capture_publication(exchange, routing_key, delivery.body, self._plan.sources)
        told = partial(self._published, delivery, exchange or routing_key, head)
        if not self._live.publishing.publish_nowait(publication, told, trio.current_time()):
            told(await self._live.publishing.publish(publication))

    def _published(
        self, delivery: Delivery, target: str, head: ParkedHead | None, confirmation: Confirmation
    ) -> None:
        """Ack only on a clean confirm, with no task switch between."""
        _, effect = after_publish(confirmation)
        if isinstance(effect, SettlementFailed):
            self._live.settlement_failed(
                effect.stage,
                target,
                effect.detail,
                envelope_id=None if head is None else head.envelope_id,
                capture_id=None if head is None else head.capture_id,
            )
            return
        self._live.arm.confirmed(delivery)
        self._live.settler.ack(delivery.delivery_tag, self._acked)
        if head is not None:
            self._live.arm.receipts.forget(head.capture_id)
            self._plan.tally.returned += 1
            if self._plan.reporter.listening:
                self._plan.reporter.emit(
                    ParkedReturned(self._plan.queue, head.envelope_id, head.capture_id, head.age_s())
                )

    def _acked(self, outcome: SettlementOutcome) -> None:
        if not isinstance(outcome, AckWritten):
            self._live.settlement_failed("ack", self._queue, str(outcome))

    def _released(self, outcome: SettlementOutcome) -> None:
        if not isinstance(outcome, AckWritten):
            self._live.settlement_failed("nack", self._queue, str(outcome))
