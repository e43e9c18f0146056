"""One generation of one arm: connect, declare, work, and leave nothing behind (ADR-059 §settlement).

The session *returns* its end; it neither retries nor waits: the supervisor does, once everything here
is gone from the broker, or reset (S4).
"""

# flake8: noqa: ASYNC910 - internal: it waits only where there is something to wait for
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import attrs
import trio

from craig_mq.core.close import ChannelClose
from craig_mq.core.errors import DlqConfigError
from craig_mq.core.session_end import SessionEnd
from craig_mq.observe.events import BlockedChanged, SessionDown, SessionRefused
from craig_mq.runtime.arm_memory import ArmMemory
from craig_mq.runtime.blockage import Blockage
from craig_mq.runtime.declare import ACCESS_REFUSED, RESOURCE_LOCKED, Declarer, TopologyRefused
from craig_mq.runtime.ending import Ending
from craig_mq.runtime.live_session import LiveSession
from craig_mq.runtime.on_demand import OnDemand
from craig_mq.runtime.permission import PublishRefused, check_publish_permission
from craig_mq.runtime.plan import SessionPlan, connection_options
from craig_mq.runtime.publishing import Publishing
from craig_mq.runtime.settler import Settler
from craig_mq.runtime.work_tasks import WorkTasks
from craig_mq.transport.broker import Connection
from craig_mq.transport.errors import ClosedError, ConnectError, ConnectErrorKind, TransportError
from supervisors import ChildContext, SettlementFailed


class Work(Protocol):
    """What an arm does with one live session."""

    async def run(self, tasks: WorkTasks, on_demand: OnDemand) -> None:
        """Consume and settle until nothing may be taken any more; what it starts goes to ``tasks``.

        Raises TransportError if consuming is refused. Cancelled: handlers and publishes are cancelled with
        it; what was accepted for settlement is written by the session.
        """
        ...

    async def see_to_end(self, tasks: WorkTasks) -> None:
        """Wait until ``live.ending`` is noted, then see the work in hand to its end, within a bound.

        Begins with the first delivery, or when consuming is given up for a while: until then whoever
        waits for a delivery is the one that hears of the channel's end.
        """
        ...

    def leave(self) -> None:
        """Account for what stays unsettled: everything that was begun has been written by now."""
        ...


@attrs.define(slots=True, eq=False)
class Session:
    """The body of an arm's one child; ``work_on`` makes what this arm does with a live session.

    ``publishes_to`` names the exchanges that the first start must be allowed to publish to.
    """

    plan: SessionPlan
    arm: ArmMemory
    work_on: Callable[[LiveSession], Work]
    publishes_to: tuple[str, ...]

    async def run(self, context: ChildContext) -> SettlementFailed | None:
        """Run one generation.

        Returns SettlementFailed, or None for every other foreseen end. Cancelled: settlements already
        begun are written first, within settle_timeout + abort_grace; all else is dropped by reset.
        """
        ending = Ending()
        self.arm.generation = context.generation
        self.plan.tally.sessions += 1
        try:
            async with self.plan.broker.connect(connection_options(self.plan, self.arm.name)) as connection:
                context.set_abort(connection.abort)
                await self._on(connection, context, ending)
        except ConnectError as error:
            self._start_failed(ending, error, refused=error.kind is ConnectErrorKind.REFUSED)
        finally:
            end, text = ending.verdict()
            self.arm.went_down(end)
            self.plan.reporter.emit(
                SessionDown(self.plan.queue, self.arm.name, context.generation, end.name, text)
            )
        return SettlementFailed(text) if end is SessionEnd.SETTLEMENT_FAILED else None

    async def _on(self, connection: Connection, context: ChildContext, ending: Ending) -> None:
        try:
            # Held by nobody: it keeps the channel it declared on.
            await Declarer(connection, self.plan.topology, self.plan.reporter.emit).declare(
                repairing=self.arm.has_consumed
            )
            if self.publishes_to and not self.arm.has_consumed:
                await self._check_permission()
            live = await self._live(connection, context, ending)
        except (TopologyRefused, PublishRefused, DlqConfigError) as error:
            self._start_failed(ending, error, refused=True)
            return
        except TransportError as error:
            self._start_failed(ending, error, refused=False)
            return
        work = self.work_on(live)
        try:
            await self._run(work, live)
        finally:
            options = self.plan.options
            bound = (options.settle_timeout + options.abort_grace).total_seconds()
            with trio.move_on_after(bound, shield=True):
                await self._finish(live, connection)
            work.leave()

    async def _check_permission(self) -> None:
        options = connection_options(self.plan, f"{self.arm.name} permission")
        await check_publish_permission(self.plan.broker, options, self.publishes_to)

    async def _live(self, connection: Connection, context: ChildContext, ending: Ending) -> LiveSession:
        options = self.plan.options
        channel = await connection.open_channel()
        blockage = Blockage(self._blocked)
        settler = Settler(
            channel,
            settle_timeout=options.settle_timeout.total_seconds(),
            abort_grace=options.abort_grace.total_seconds(),
            abort=connection.abort,
        )

        publishing = Publishing(
            self.plan.broker,
            connection_options(self.plan, f"{self.arm.name} publishing"),
            self.arm,
            confirm_timeout=options.confirm_timeout.total_seconds(),
            blockage=blockage,
        )
        live = LiveSession(
            self.plan,
            self.arm,
            channel,
            settler,
            publishing,
            blockage,
            ending,
            context,
        )
        publishing.on_lost = live.lost
        return live

    async def _run(self, work: Work, live: LiveSession) -> None:
        async with trio.open_nursery() as nursery:
            tasks = WorkTasks(nursery)
            with OnDemand(nursery) as on_demand, OnDemand(tasks) as work_on_demand:
                on_demand.offer(live.settler, live.settler.run)
                on_demand.offer(live.publishing, live.publishing.run, once=True)
                on_demand.offer(live.ending, partial(self._see_to_end, work, live, tasks, nursery), once=True)
                try:
                    scope = tasks.enter()
                    try:
                        with scope:
                            await work.run(tasks, work_on_demand)
                    except TransportError as error:
                        live.failed(error)
                        self._tell_gate(error, refused=_is_refusal(error))
                    finally:
                        tasks.leave(scope)
                    live.ending.wanted()
                    await trio.sleep_forever()
                finally:
                    live.publishing.abandon()

    async def _see_to_end(
        self, work: Work, live: LiveSession, tasks: WorkTasks, nursery: trio.Nursery
    ) -> None:
        """End the session once it is over: its work first, then its publishing connection, then its settler.

        In this order whoever waits for a confirm is cancelled and tells nobody, and an ack that the last
        handler leads to is flushed within its bound.
        """
        await work.see_to_end(tasks)
        await tasks.end()
        live.publishing.abandon()
        live.publishing.stop()
        await live.publishing.wait_ended()
        nursery.cancel_scope.cancel(reason="the session is over")

    async def _finish(self, live: LiveSession, connection: Connection) -> None:
        """Write what was begun, then close; after an unknown settlement only a reset is safe (S42)."""
        await live.settler.finish()
        if live.settler.unknown:
            connection.abort()
        else:
            await connection.aclose()

    def _blocked(self, reason: str | None) -> None:
        self.arm.blocked = reason
        self.plan.reporter.emit(BlockedChanged(self.plan.queue, self.arm.name, reason))

    def _start_failed(self, ending: Ending, error: Exception, *, refused: bool) -> None:
        ending.start_failed(str(error))
        self._tell_gate(error, refused=refused)

    def _tell_gate(self, error: Exception, *, refused: bool) -> None:
        if refused:
            self.plan.gate.refused(error)
            self.plan.reporter.emit(SessionRefused(self.plan.queue, self.arm.name, str(error)))
        else:
            self.plan.gate.failed(error)


def _is_refusal(error: TransportError) -> bool:
    """Whether consuming was refused: no permission, or somebody's exclusive queue."""
    reason = error.reason if isinstance(error, ClosedError) else None
    return isinstance(reason, ChannelClose) and reason.code in (ACCESS_REFUSED, RESOURCE_LOCKED)
