"""One capture's way back, in the only order that loses nothing (ADR-059 §quarantine).

Line *intent* on disk; publish to craig.dlx under the original key, mandatory, confirmed; line *confirmed*
on disk; ack, bounded; line *acked*. A capture whose confirm is on disk is only acked when met again.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TypeAlias, assert_never

import attrs
import trio

from craig_mq.core.delivery import Delivery
from craig_mq.core.envelope import decode_envelope
from craig_mq.core.outcome import Acked, AckWritten, Nacked, Returned, Unconfirmed
from craig_mq.core.redrive import NotRedrivable, Redriven, redrive
from craig_mq.core.topology import DEAD_LETTER_EXCHANGE
from craig_mq.operator.journal import Journal, Step
from craig_mq.operator.lease import Lease
from craig_mq.operator.plan import Plan, PlanEntry
from craig_mq.operator.publisher import Publisher
from craig_mq.operator.trail import Trail
from craig_mq.runtime.publication import capture_publication
from craig_mq.runtime.sources import Sources

Prepare: TypeAlias = Callable[[Delivery, Plan], bytes | NotRedrivable]
"""Makes the body that goes back, or says why nothing can."""


class Became(enum.Enum):
    """What became of one attempt. Only after REDRIVEN is the capture no longer in its queue."""

    REDRIVEN = "redriven"
    RETURNED = "returned"
    NACKED = "nacked"
    UNKNOWN = "unknown"
    NOT_SENT = "not sent"
    NOT_ACKED = "confirmed but not acked"
    UNFIT = "not redrivable"


@attrs.define(frozen=True, slots=True)
class Attempt:
    """An attempt's outcome and the words for it."""

    became: Became
    words: str = ""

    @property
    def went_out(self) -> bool:
        """Whether a publish may have reached the broker."""
        return self.became not in {Became.NOT_SENT, Became.UNFIT}


def next_round(delivery: Delivery, plan: Plan) -> bytes | NotRedrivable:
    """The body of a quarantined capture's next round, as the plan has it."""
    redriven = redrive(
        decode_envelope(delivery.body), keep_park_count=plan.keep_park_count, new_identity=plan.new_identity
    )
    return redriven.body if isinstance(redriven, Redriven) else redriven


def as_it_is(delivery: Delivery, plan: Plan) -> bytes:
    """The body unchanged, as the replayer sends a parked capture back when it is due."""
    del plan
    return delivery.body


@attrs.define(frozen=True, slots=True)
class Sender:
    """Sends captures of one plan back, one at a time."""

    plan: Plan
    journal: Journal
    publisher: Publisher
    sources: Sources
    trail: Trail
    prepare: Prepare = next_round

    async def attempt(self, lease: Lease, delivery: Delivery, entry: PlanEntry) -> Attempt:
        """Publish and ack one delivery of the lease.

        Raises OSError where the journal can't be written: then nothing was acked. Cancelled: the publish
        may have happened; its intent is on disk, so the next run counts it as *uncertain*.
        """
        if entry.key in self.journal.confirmed:
            return await self._ack(lease, delivery, entry)
        body = self.prepare(delivery, self.plan)
        if isinstance(body, NotRedrivable):
            self.journal.write(Step.SKIPPED, entry.key, why=body.why)
            await trio.lowlevel.checkpoint()
            return Attempt(Became.UNFIT, body.why)
        self.journal.write(Step.INTENT, entry.key)
        publication = capture_publication(DEAD_LETTER_EXCHANGE, entry.routing_key or "", body, self.sources)
        confirmation = await self.publisher.publish(publication)
        if isinstance(confirmation, Acked):
            self.journal.write(Step.CONFIRMED, entry.key)
            return await self._ack(lease, delivery, entry)
        return self._kept(entry, confirmation)

    async def _ack(self, lease: Lease, delivery: Delivery, entry: PlanEntry) -> Attempt:
        """Ack what is confirmed on disk, and in the ledger where there is one; nothing else lies between."""
        await self.trail.confirmed(entry.key)
        outcome = await lease.ack(delivery)
        if not isinstance(outcome, AckWritten):
            self.journal.write(Step.ACK_FAILED, entry.key, outcome=str(outcome))
            return Attempt(
                Became.NOT_ACKED, f"confirmed, but the ack failed ({outcome}): run it again to ack"
            )
        self.journal.write(Step.ACKED, entry.key)
        return Attempt(Became.REDRIVEN)

    def _kept(self, entry: PlanEntry, confirmation: Returned | Nacked | Unconfirmed) -> Attempt:
        """It stays where it is: nothing proves that a copy of it is safe elsewhere."""
        match confirmation:
            case Returned(code=code, text=text):
                self.journal.write(Step.RETURNED, entry.key, code=code, text=text)
                return Attempt(
                    Became.RETURNED,
                    f"{entry.routing_key} is unroutable at {DEAD_LETTER_EXCHANGE}: {code} {text}",
                )
            case Nacked():
                self.journal.write(Step.NACKED, entry.key)
                return Attempt(Became.NACKED, "the broker refused the publish with a nack: is a queue full?")
            case Unconfirmed(reason=reason, sent=True):
                self.journal.write(Step.UNKNOWN, entry.key, reason=reason)
                return Attempt(Became.UNKNOWN, f"outcome unknown, a copy may be there already: {reason}")
            case Unconfirmed(reason=reason):
                self.journal.write(Step.NOT_SENT, entry.key, reason=reason)
                return Attempt(Became.NOT_SENT, reason)
            case _:
                assert_never(confirmation)
