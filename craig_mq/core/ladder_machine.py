"""The settlement of one delivery of an ordinary queue as a transition table (decisions, 19).

As ``machine``: the caller carries out exactly one effect at a time and reports its event back; an
event without a row raises IllegalTransition and changes nothing.
"""

from __future__ import annotations

import enum
from typing import Literal, TypeAlias, assert_never

import attrs

from craig_mq.core.capture_format import QuarantineReason
from craig_mq.core.config import DeadLetterBy
from craig_mq.core.disposition import Disposition
from craig_mq.core.errors import IllegalTransition
from craig_mq.core.ladder import DeadLetterByBroker, DeadLetterByClient, Requeue, strike
from craig_mq.core.last_error import LastError
from craig_mq.core.machine import after_publish
from craig_mq.core.outcome import AckWritten, Confirmation
from craig_mq.core.steps import (
    AckDelivery,
    Begin,
    HandlerFailed,
    HandlerOk,
    Interrupted,
    Invoke,
    Leave,
    Publish,
    Settled,
    SettlementFailed,
    Sleep,
    Slept,
)
from craig_mq.core.timing import retry_delay

LadderOutcome: TypeAlias = Literal["acked", "requeued", "dead_lettered"]
DeadLetterOrder: TypeAlias = "Publish | RejectDelivery"


@attrs.define(frozen=True, slots=True)
class DeadLetterConfirmed:
    """The publish of the dead letter ended."""

    confirmation: Confirmation


@attrs.define(frozen=True, slots=True)
class RequeueDelivery:
    """First strike: nack with requeue."""


@attrs.define(frozen=True, slots=True)
class RejectDelivery:
    """Second strike: nack without requeue, and leave it to the broker's DLX, which is at most once."""


@attrs.define(frozen=True, slots=True)
class LadderDone:
    """The delivery is settled."""

    outcome: LadderOutcome


LadderEvent: TypeAlias = (
    Begin | HandlerOk | HandlerFailed | Slept | Interrupted | DeadLetterConfirmed | Settled
)
LadderEffect: TypeAlias = (
    Invoke
    | Sleep
    | Publish
    | AckDelivery
    | RequeueDelivery
    | RejectDelivery
    | Leave
    | SettlementFailed
    | LadderDone
)


class LadderState(enum.Enum):
    """Where a delivery stands. The last three are final."""

    NEW = "new"
    INVOKING = "invoking"
    SLEEPING = "sleeping"
    PUBLISHING = "publishing"
    SETTLING = "settling"
    SETTLED = "settled"
    LEFT = "left"
    FAILED = "failed"


# (state, event, kind of the effect that answers it) -> next state.
LADDER: dict[tuple[LadderState, type[LadderEvent], type[LadderEffect]], LadderState] = {
    (LadderState.NEW, Begin, Invoke): LadderState.INVOKING,
    (LadderState.NEW, Begin, Publish): LadderState.PUBLISHING,
    (LadderState.NEW, Begin, RejectDelivery): LadderState.SETTLING,
    (LadderState.NEW, Begin, AckDelivery): LadderState.SETTLING,
    (LadderState.INVOKING, HandlerOk, AckDelivery): LadderState.SETTLING,
    (LadderState.INVOKING, HandlerFailed, Sleep): LadderState.SLEEPING,
    (LadderState.INVOKING, HandlerFailed, RequeueDelivery): LadderState.SETTLING,
    (LadderState.INVOKING, HandlerFailed, Publish): LadderState.PUBLISHING,
    (LadderState.INVOKING, HandlerFailed, RejectDelivery): LadderState.SETTLING,
    (LadderState.INVOKING, Interrupted, Leave): LadderState.LEFT,
    (LadderState.SLEEPING, Slept, Invoke): LadderState.INVOKING,
    (LadderState.SLEEPING, Interrupted, Leave): LadderState.LEFT,
    (LadderState.PUBLISHING, DeadLetterConfirmed, AckDelivery): LadderState.SETTLING,
    (LadderState.PUBLISHING, DeadLetterConfirmed, SettlementFailed): LadderState.FAILED,
    (LadderState.SETTLING, Settled, LadderDone): LadderState.SETTLED,
    (LadderState.SETTLING, Settled, SettlementFailed): LadderState.FAILED,
}

_ACCEPTED = frozenset((state, event) for state, event, _ in LADDER)


@attrs.define(frozen=True, slots=True)
class LadderRules:
    """What holds for the whole delivery: ``redelivered`` means that its first strike is used."""

    handler_attempts: int
    dead_letter_by: DeadLetterBy
    redelivered: bool


class Ladder:
    """One delivery on its way from NEW to SETTLED, LEFT or FAILED.

    ``state`` and ``attempts`` (handler invocations so far) may be read at any time.
    """

    __slots__ = ("_outcome", "_rules", "attempts", "state")

    def __init__(self, rules: LadderRules) -> None:
        """Start in NEW."""
        self._rules = rules
        self._outcome: LadderOutcome = "acked"
        self.attempts = 0
        self.state = LadderState.NEW

    def feed(self, event: LadderEvent) -> LadderEffect:
        """Take one event and return the next effect. Raises IllegalTransition and changes nothing."""
        if (self.state, type(event)) not in _ACCEPTED:
            raise IllegalTransition(f"{type(event).__name__} in state {self.state.value}")
        effect = self._answer(event)
        self.state = LADDER[self.state, type(event), type(effect)]
        if isinstance(effect, Invoke):
            self.attempts = effect.attempt
        elif isinstance(effect, Publish | RejectDelivery):
            self._outcome = "dead_lettered"
        elif isinstance(effect, RequeueDelivery):
            self._outcome = "requeued"
        return effect

    def _answer(self, event: LadderEvent) -> LadderEffect:
        match event:
            case Begin(origin):
                return self._first(origin)
            case HandlerOk():
                effect: LadderEffect = AckDelivery()
            case HandlerFailed(disposition, error, jitter):
                effect = self._after_failure(disposition, error, jitter)
            case Slept():
                effect = Invoke(self.attempts + 1)
            case Interrupted(why):
                effect = Leave(why)
            case DeadLetterConfirmed(confirmation):
                effect = after_publish(confirmation)[1]
            case Settled(outcome):
                effect = self._after_settling(written=isinstance(outcome, AckWritten), text=str(outcome))
            case _:
                assert_never(event)
        return effect

    def _first(self, origin: str) -> LadderEffect:
        if origin == "confirmed_before":
            self._outcome = "dead_lettered"
            return AckDelivery()
        return Invoke(1) if origin == "readable" else self._dead_letter(None, None, malformed=True)

    def _after_failure(self, disposition: Disposition, error: LastError, jitter: float) -> LadderEffect:
        retried = disposition is Disposition.TRANSIENT_RETRY
        if retried and self.attempts < self._rules.handler_attempts:
            return Sleep(retry_delay(self.attempts, jitter))
        return self._dead_letter(disposition, error, malformed=False)

    def _dead_letter(
        self, disposition: Disposition | None, error: LastError | None, *, malformed: bool
    ) -> LadderEffect:
        rules = self._rules
        verdict = strike(
            redelivered=rules.redelivered, malformed=malformed, dead_letter_by=rules.dead_letter_by
        )
        match verdict:
            case Requeue():
                return RequeueDelivery()
            case DeadLetterByBroker():
                return RejectDelivery()
            case DeadLetterByClient():
                reason = QuarantineReason.MALFORMED if malformed else None
                return Publish(reason, self.attempts, disposition, error)
            case _:
                assert_never(verdict)

    def _after_settling(self, *, written: bool, text: str) -> LadderEffect:
        if written:
            return LadderDone(self._outcome)
        return SettlementFailed("ack" if self._outcome == "acked" else "nack", text)
