"""One capture's way back, in the only order that loses nothing (ADR-059 §quarantine).

Line *intent* on disk; publish to craig.dlx under the original key, mandatory, confirmed; line *confirmed*
on disk; ack, bounded; line *acked*. A capture whose confirm is on disk is only acked when met again.
"""

from __future__ import annotations

import enum
from typing import Final, assert_never

import attrs
import trio

from craig_mq.core.close import CloseReason
from craig_mq.core.delivery import Delivery
from craig_mq.core.envelope import decode_envelope
from craig_mq.core.outcome import (
    ACK_NOT_SENT,
    Acked,
    AckWritten,
    Confirmation,
    Nacked,
    Returned,
    SettlementOutcome,
    Unconfirmed,
)
from craig_mq.core.redrive import Redriven, redrive
from craig_mq.core.topology import DEAD_LETTER_EXCHANGE
from craig_mq.operator.connecting import options_for
from craig_mq.operator.journal import Journal, Step
from craig_mq.operator.lease import Lease
from craig_mq.operator.plan import Plan, PlanEntry
from craig_mq.runtime.publication import capture_publication
from craig_mq.runtime.publishing import Blockage, Publishing
from craig_mq.runtime.settler import Settler
from craig_mq.runtime.sources import Sources
from craig_mq.transport.broker import Broker

CONFIRM_TIMEOUT_S: Final = 30.0
SETTLE_TIMEOUT_S: Final = 5.0
ABORT_GRACE_S: Final = 1.0


class Became(enum.Enum):
    """What became of one attempt. Only after REDRIVEN is the capture no longer in quarantine."""

    REDRIVEN = "redriven"
    RETURNED = "returned"
    NACKED = "nacked"
    UNKNOWN = "unknown"
    NOT_SENT = "not sent"
    NOT_ACKED = "confirmed but not acked"
    UNFIT = "not redrivable"


@attrs.define(frozen=True, slots=True)
class Attempt:
    """An attempt's outcome and the words for it; ``went_out`` is whether a publish was begun."""

    became: Became
    words: str = ""

    @property
    def went_out(self) -> bool:
        """Whether a publish may have reached the broker."""
        return self.became not in {Became.NOT_SENT, Became.UNFIT}


class _NothingToLearn:
    """A publish memory for a run that never has two publishes in flight: the journal remembers."""

    publish_alone_first = False

    def publish_resolved(self, confirmation: Confirmation) -> None:
        """Nothing: the journal has it."""

    def size_refused(self, reason: CloseReason | None) -> None:
        """Nothing: a capture that lay in a queue fits a message."""


class Sender:
    """Sends captures of one plan back, one at a time. ``publishing.run`` belongs to the caller's nursery."""

    def __init__(self, broker: Broker, plan: Plan, journal: Journal, sources: Sources) -> None:
        self._plan = plan
        self._journal = journal
        self._sources = sources
        self.publishing = Publishing(
            broker,
            options_for(f"redrive to {DEAD_LETTER_EXCHANGE}"),
            _NothingToLearn(),
            confirm_timeout=CONFIRM_TIMEOUT_S,
            blockage=Blockage(lambda _: None),
            on_lost=lambda _: None,
        )

    async def attempt(self, lease: Lease, delivery: Delivery, entry: PlanEntry) -> Attempt:
        """Publish and ack one delivery of the lease.

        Raises OSError where the journal can't be written: then nothing was acked. Cancelled: the publish
        may have happened; its intent is on disk, so the next run counts it as *uncertain*.
        """
        if entry.key in self._journal.confirmed:
            return await self._ack(lease, delivery, entry)
        plan = self._plan
        redriven = redrive(
            decode_envelope(delivery.body),
            keep_park_count=plan.keep_park_count,
            new_identity=plan.new_identity,
        )
        if not isinstance(redriven, Redriven):
            self._journal.write(Step.SKIPPED, entry.key, why=redriven.why)
            return Attempt(Became.UNFIT, redriven.why)
        self._journal.write(Step.INTENT, entry.key)
        confirmation = await self._publish(redriven)
        if isinstance(confirmation, Acked):
            self._journal.write(Step.CONFIRMED, entry.key)
            return await self._ack(lease, delivery, entry)
        return self._kept(entry, confirmation)

    async def _publish(self, redriven: Redriven) -> Confirmation:
        publication = capture_publication(
            DEAD_LETTER_EXCHANGE, redriven.routing_key, redriven.body, self._sources
        )
        with trio.move_on_after(2 * CONFIRM_TIMEOUT_S):
            return await self.publishing.publish(publication)
        return Unconfirmed("the broker blocked the connection for too long")

    async def _ack(self, lease: Lease, delivery: Delivery, entry: PlanEntry) -> Attempt:
        """Ack what is confirmed on disk; no task switch lies between the two."""
        outcomes: list[SettlementOutcome] = []
        settler = Settler(
            lease.channel,
            settle_timeout=SETTLE_TIMEOUT_S,
            abort_grace=ABORT_GRACE_S,
            abort=lease.connection.abort,
        )
        settler.ack(delivery.delivery_tag, outcomes.append)
        await settler.finish()
        outcome = outcomes[0] if outcomes else ACK_NOT_SENT
        if not isinstance(outcome, AckWritten):
            self._journal.write(Step.ACK_FAILED, entry.key, outcome=str(outcome))
            return Attempt(
                Became.NOT_ACKED, f"confirmed, but the ack failed ({outcome}): run it again to ack"
            )
        lease.settled(delivery)
        self._journal.write(Step.ACKED, entry.key)
        return Attempt(Became.REDRIVEN)

    def _kept(self, entry: PlanEntry, confirmation: Returned | Nacked | Unconfirmed) -> Attempt:
        """It stays in quarantine: nothing proves that a copy of it is safe elsewhere."""
        match confirmation:
            case Returned(code=code, text=text):
                self._journal.write(Step.RETURNED, entry.key, code=code, text=text)
                return Attempt(
                    Became.RETURNED,
                    f"{entry.routing_key} is unroutable at {DEAD_LETTER_EXCHANGE}: {code} {text}",
                )
            case Nacked():
                self._journal.write(Step.NACKED, entry.key)
                return Attempt(Became.NACKED, "the broker refused the publish with a nack: is a queue full?")
            case Unconfirmed(reason=reason, sent=True):
                self._journal.write(Step.UNKNOWN, entry.key, reason=reason)
                return Attempt(Became.UNKNOWN, f"outcome unknown, a copy may be there already: {reason}")
            case Unconfirmed(reason=reason):
                self._journal.write(Step.NOT_SENT, entry.key, reason=reason)
                return Attempt(Became.NOT_SENT, reason)
            case _:
                assert_never(confirmation)
