"""The main arm's work: consume the queue, with workers, retries and an orderly end (ADR-059)."""

# flake8: noqa: ASYNC910 - internal: it waits only where there is something to wait for
from __future__ import annotations

from typing import Generic

import trio

from craig_mq.core.outcome import AckWritten, SettlementOutcome
from craig_mq.observe.events import HandlersStuck
from craig_mq.runtime.copies import Copies
from craig_mq.runtime.deadlines import Deadlines
from craig_mq.runtime.intake import Intake
from craig_mq.runtime.invocation import Invoker
from craig_mq.runtime.live_session import LiveSession
from craig_mq.runtime.on_demand import OnDemand
from craig_mq.runtime.work_tasks import WorkTasks
from craig_mq.runtime.worker import F, Performs, Worker
from craig_mq.transport.errors import TransportError
from supervisors.flag import Flag

HANDLER_GRACE_S = 2.0
"""How long a cancelled handler may take to end before it is reported stuck (decisions, 17)."""

STUCK_INTERVAL_S = 5.0
"""How often a stuck handler is reported again (S50)."""


class QueueConsumer(Generic[F]):
    """Consumes for one live session until its end is noted."""

    __slots__ = (
        "_bounds",
        "_copies",
        "_intake",
        "_invoker",
        "_live",
        "_options",
        "_performer",
        "_tasks",
        "_workers",
        "_workers_ended",
        "_working",
    )

    def __init__(self, live: LiveSession, performer: Performs[F], intake: Intake[F]) -> None:
        self._live = live
        self._options = live.plan.options
        self._intake = intake
        self._performer = performer
        self._invoker = Invoker[F](live.plan, performer.call)
        self._bounds = Deadlines(self._invoker.handler_timeout_s, "the handler took too long")
        self._copies = Copies(live.publishing, performer.copy)
        self._workers: list[Worker[F]] = []
        self._working = 0
        self._workers_ended = Flag()
        self._tasks: WorkTasks | None = None

    async def run(self, tasks: WorkTasks, on_demand: OnDemand) -> None:
        """See ``Work``. The first worker works in here."""
        await self._consume()
        self._live.report_up()
        self._tasks = tasks
        on_demand.offer(self._bounds, self._bounds.run)
        on_demand.offer(self._copies, self._copies.run)
        on_demand.offer(self._live.blockage, self._sit_out_blockage)
        self._live.shutdown.listen(lambda _: on_demand.start(self._drain))
        self._intake.reinforce = self._reinforce
        await self._new_worker().run(self._worker_ended)

    async def see_to_end(self, tasks: WorkTasks) -> None:
        """See ``Work``. Handlers are cancelled, and reported as stuck while they ignore that."""
        try:
            await self._live.wait_ending()
        finally:
            tasks.start_soon(self._report_stuck)
        tasks.start_soon(self._live.watch_channel)
        await self._wind_down()

    def leave(self) -> None:
        """Account for what stays unsettled."""
        self._performer.leave()

    def retry_later(self, flight: F, seconds: float) -> None:
        """Let a retry sleep in a task of its own, so that its worker is free (decisions, 3)."""
        if self._tasks is not None:
            self._tasks.start_soon(self._sleep, flight, seconds)

    def receive_failed(self, error: TransportError) -> None:
        """End the session: its consumer has ended."""
        self._live.failed(error)

    async def _consume(self) -> None:
        consumer = await self._live.channel.consume(self._live.plan.queue, prefetch=self._options.prefetch)
        self._intake.attach(consumer)

    def _new_worker(self) -> Worker[F]:
        worker = Worker[F](
            self,
            self._live.ending,
            self._intake,
            self._invoker,
            self._performer,
            copies=self._copies,
            bounds=self._bounds,
        )
        self._workers.append(worker)
        if not self._working:
            self._workers_ended = Flag()
        self._working += 1
        return worker

    def _reinforce(self) -> None:
        """Start one worker more where all are busy, up to ``concurrency``; then there is no more to ask."""
        self._live.ending.wanted()
        if self._tasks is None or self._intake.somebody_waits:
            return
        if len(self._workers) < self._options.concurrency:
            self._tasks.start_soon(self._new_worker().run, self._worker_ended)
        else:
            self._intake.reinforce = None

    def _worker_ended(self) -> None:
        self._working -= 1
        if self._working == 0:
            self._workers_ended.set()

    async def _sleep(self, flight: F, seconds: float) -> None:
        """Wait for a retry, racing shutdown; on shutdown the delivery stays unacked (ADR-059 §retry)."""
        with trio.move_on_after(seconds):
            await self._live.shutdown.wait()
        if self._live.shutdown.requested or self._live.ending.noted:
            self._performer.interrupt(flight, "shutdown came before the retry")
        else:
            self._performer.slept(flight)
            self._intake.resume(flight)

    async def _drain(self) -> None:
        """Take nothing more, give handlers their time, settle what finished (decisions, 5)."""
        self._live.ending.wanted()
        self._intake.stop()
        try:
            if not self._settles_last:
                await self._stop_consuming()
            with trio.move_on_after(self._options.drain_timeout.total_seconds()):
                await self._work_ended()
            if self._settles_last:
                # What is in hand past the deadline is not settled any more, so nothing follows the reply.
                await self._stop_consuming()
        except TransportError as error:
            self._live.failed(error)
        self._live.ending.drained()

    @property
    def _settles_last(self) -> bool:
        """Quorum queues lose a burst of acks before a close unless a reply of the queue follows it."""
        return self._options.queue_type == "quorum"

    async def _stop_consuming(self) -> None:
        """Cancel the consumer, then requeue what it had buffered: the other order leaks the head."""
        self._live.ending.wanted()
        for delivery in await self._intake.pause():
            self._live.settler.requeue(delivery.delivery_tag, self._requeued)

    def _requeued(self, outcome: SettlementOutcome) -> None:
        if not isinstance(outcome, AckWritten):
            self._live.settlement_failed("nack", self._live.plan.queue, str(outcome))

    async def _sit_out_blockage(self) -> None:
        """While publishing is blocked, hold nothing that has not started (decisions, 10)."""
        try:
            while self._live.blockage.reason is not None:
                await self._stop_consuming()
                await self._live.blockage.wait_over()
                if not self._intake.stopped:
                    await self._consume()
        except TransportError as error:
            self._live.failed(error)

    async def _wind_down(self) -> None:
        """Cancel handlers, let publishes resolve within the settlement bound."""
        self._intake.stop()
        for worker in self._workers:
            worker.interrupt("the session is ending")
        patience = max(HANDLER_GRACE_S, self._options.settle_timeout.total_seconds())
        with trio.move_on_after(patience):
            await self._work_ended()

    async def _work_ended(self) -> None:
        """Return once every worker has ended and no copy waits for its confirm."""
        if self._working:
            await self._workers_ended.wait()
        await self._copies.wait_done()
        await self._live.publishing.wait_resolved()

    async def _report_stuck(self) -> None:
        """Report, once an interval, how many handlers ignore that the session is over (S50).

        Nothing else ends this: the nursery would wait for those handlers in any case. Each shield has
        its deadline.
        """
        since, wait_s = trio.current_time(), HANDLER_GRACE_S
        while self._working:
            with trio.move_on_after(wait_s, shield=True):
                await self._workers_ended.wait()
            wait_s = STUCK_INTERVAL_S
            stuck = self._working - sum(worker.publishing for worker in self._workers)
            if stuck > 0:
                seconds = trio.current_time() - since
                self._live.plan.reporter.emit(HandlersStuck(self._live.plan.queue, stuck, seconds))
