"""What a session's work stands on once it is connected: a channel, a settler, a publishing side, an end."""

from __future__ import annotations

import attrs
import trio

from craig_mq.core.close import CloseReason
from craig_mq.observe.events import SessionUp, SettlementFailure, SettlementStage
from craig_mq.runtime.arm_memory import ArmMemory
from craig_mq.runtime.blockage import Blockage
from craig_mq.runtime.ending import Ending
from craig_mq.runtime.plan import SessionPlan
from craig_mq.runtime.publishing import Publishing
from craig_mq.runtime.settler import Settler
from craig_mq.transport.broker import Channel
from craig_mq.transport.errors import ClosedError, TransportError
from supervisors import ChildContext, Shutdown


@attrs.define(slots=True, eq=False)
class LiveSession:
    """One connected generation of one arm."""

    plan: SessionPlan
    arm: ArmMemory
    channel: Channel
    settler: Settler
    publishing: Publishing
    blockage: Blockage
    ending: Ending
    context: ChildContext

    @property
    def shutdown(self) -> Shutdown:
        """This generation's graceful token."""
        return self.context.shutdown

    def report_up(self) -> None:
        """Say that the session consumes: to its arm, its supervisor, the first start and the observer."""
        self.arm.went_up()
        self.context.started()
        self.plan.gate.up(self.arm.name)
        self.plan.reporter.emit(SessionUp(self.plan.queue, self.arm.name, self.context.generation))

    def settlement_failed(
        self,
        stage: SettlementStage,
        target: str,
        text: str,
        *,
        envelope_id: str | None = None,
        capture_id: str | None = None,
    ) -> None:
        """End the session as SETTLEMENT_FAILED and begin no further settlement (S43); report it once."""
        self.settler.close_gate()
        self.publishing.close_gate()
        if self.ending.settlement_failed(text):
            self.plan.tally.settlement_failures += 1
            self.plan.reporter.emit(
                SettlementFailure(
                    self.plan.queue, self.arm.name, stage, target, text, envelope_id, capture_id
                )
            )

    def lost(self, reason: CloseReason) -> None:
        """End the session because something it stands on is gone."""
        self.ending.lost(reason, in_flight=self.settler.in_flight or self.publishing.in_flight > 0)

    def failed(self, error: TransportError) -> None:
        """End the session over an error of the transport."""
        if isinstance(error, ClosedError):
            self.lost(error.reason)
        else:
            self.ending.start_failed(str(error))

    async def wait_ending(self) -> None:
        """Return once the session is ending, which the end of its consuming channel makes it.

        What is noted of the channel later needs ``watch_channel`` in a task of its own.
        """
        with trio.CancelScope() as waiting:
            self.ending.interrupt(waiting)
            await self.watch_channel()

    async def watch_channel(self) -> None:
        """Note the end of the consuming channel, which else only a wait for a delivery hears of (CHC-01)."""
        self.lost(await self.channel.wait_closed())
