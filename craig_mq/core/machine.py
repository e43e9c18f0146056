"""The settlement of one delivery as a transition table (ADR-059 §policy, §settlement).

The caller carries out exactly one effect at a time and reports its event back. Every row of ``TABLE``
is one arrow of the picture in the docs, which is drawn from it. An event without a row raises
IllegalTransition and changes nothing.
"""

from __future__ import annotations

import enum
from typing import assert_never, get_args

import msgspec

from craig_mq.core.capture_format import CaptureKind, QuarantineReason
from craig_mq.core.disposition import Disposition
from craig_mq.core.errors import IllegalTransition
from craig_mq.core.last_error import LastError
from craig_mq.core.outcome import Acked, AckWritten, Confirmation, Nacked, Returned, Unconfirmed
from craig_mq.core.policy import Decision, Park, PolicyFacts, Quarantine, Retry, decide
from craig_mq.core.steps import (
    AckDelivery,
    Begin,
    Confirmed,
    Done,
    Effect,
    Event,
    HandlerFailed,
    HandlerOk,
    Interrupted,
    Invoke,
    Leave,
    Origin,
    Outcome,
    Publish,
    Settled,
    SettlementFailed,
    Sleep,
    Slept,
    Stage,
)


class State(enum.Enum):
    """Where a delivery stands. The last three are final."""

    NEW = "new"
    INVOKING = "invoking"
    SLEEPING = "sleeping"
    PUBLISHING = "publishing"
    ACKING = "acking"
    SETTLED = "settled"
    LEFT = "left"
    FAILED = "failed"

    # Members are equal only to themselves; Enum's own hash is a Python call on every transition.
    __hash__ = object.__hash__

    @property
    def final(self) -> bool:
        """Whether no event is accepted any more."""
        return self in (State.SETTLED, State.LEFT, State.FAILED)


# (state, event, case) -> next state. The case is what the event says, or what the policy made of it.
TABLE: dict[tuple[State, type[Event], str], State] = {
    (State.NEW, Begin, "readable"): State.INVOKING,
    (State.NEW, Begin, "malformed"): State.PUBLISHING,
    (State.NEW, Begin, "confirmed_before"): State.ACKING,
    (State.NEW, Interrupted, "interrupted"): State.LEFT,
    (State.INVOKING, HandlerOk, "ok"): State.ACKING,
    (State.INVOKING, HandlerFailed, "retry"): State.SLEEPING,
    (State.INVOKING, HandlerFailed, "park"): State.PUBLISHING,
    (State.INVOKING, HandlerFailed, "quarantine"): State.PUBLISHING,
    (State.INVOKING, Interrupted, "interrupted"): State.LEFT,
    (State.SLEEPING, Slept, "slept"): State.INVOKING,
    (State.SLEEPING, Interrupted, "interrupted"): State.LEFT,
    (State.PUBLISHING, Confirmed, "acked"): State.ACKING,
    (State.PUBLISHING, Confirmed, "nacked"): State.FAILED,
    (State.PUBLISHING, Confirmed, "returned"): State.FAILED,
    (State.PUBLISHING, Confirmed, "unknown"): State.FAILED,
    (State.PUBLISHING, Confirmed, "publish"): State.FAILED,
    (State.PUBLISHING, Interrupted, "interrupted"): State.LEFT,
    (State.ACKING, Settled, "written"): State.SETTLED,
    (State.ACKING, Settled, "ack"): State.FAILED,
}

# The same by state and event, for one look-up an event.
_NEXT: dict[tuple[State, type[Event]], dict[str, State]] = {}
for (_state, _event, _case), _to in TABLE.items():
    _NEXT.setdefault((_state, _event), {})[_case] = _to

_FIRST = Invoke(1)
_ACK = AckDelivery()
_OUTCOMES: dict[CaptureKind, Outcome] = {CaptureKind.PARKED: "parked", CaptureKind.QUARANTINED: "quarantined"}
_DONE: dict[Outcome, Done] = {outcome: Done(outcome) for outcome in get_args(Outcome)}


class Settlement(msgspec.Struct, eq=False, gc=False):
    """One delivery on its way from NEW to SETTLED, LEFT or FAILED.

    ``facts`` hold for the whole delivery; ``state`` and ``attempts`` (handler invocations so far) may
    be read at any time.
    """

    facts: PolicyFacts
    state: State = State.NEW
    attempts: int = 0
    _outcome: Outcome = "acked"

    def feed(self, event: Event) -> Effect:
        """Take one event and return the next effect. Raises IllegalTransition and changes nothing."""
        kind = type(event)
        cases = _NEXT.get((self.state, kind))
        if cases is None:
            raise IllegalTransition(f"{kind.__name__} in state {self.state.value}")
        case, effect = self._answer(event)
        self.state = cases[case]
        if isinstance(effect, Invoke):
            self.attempts = effect.attempt
        return effect

    def _answer(self, event: Event) -> tuple[str, Effect]:  # noqa: PLR0911 -- one return an event
        match event:
            case Begin():
                return event.origin, _first_effect(event.origin)
            case HandlerOk():
                return "ok", _ACK
            case HandlerFailed():
                attempts, disposition = self.attempts, event.disposition
                decision = decide(self.facts, disposition, invocation=attempts, jitter=event.jitter)
                return _after_failure(decision, attempts, disposition, event.error)
            case Confirmed():
                self._outcome = _OUTCOMES[event.kind]
                return after_publish(event.confirmation)
            case Settled():
                if isinstance(event.outcome, AckWritten):
                    return "written", _DONE[self._outcome]
                return "ack", SettlementFailed("ack", str(event.outcome))
            case Slept():
                return "slept", Invoke(self.attempts + 1)
            case Interrupted():
                return "interrupted", Leave(event.why)
            case _:
                assert_never(event)


def _first_effect(origin: Origin) -> Effect:
    match origin:
        case "readable":
            return _FIRST
        case "malformed":
            return Publish(QuarantineReason.MALFORMED, 0, None, None)
        case "confirmed_before":
            return _ACK
        case _:
            assert_never(origin)


def _after_failure(
    decision: Decision, attempts: int, disposition: Disposition, error: LastError
) -> tuple[str, Effect]:
    match decision:
        case Retry(delay_s):
            return "retry", Sleep(delay_s)
        case Park():
            return "park", Publish(None, attempts, disposition, error)
        case Quarantine(reason):
            return "quarantine", Publish(reason, attempts, disposition, error)
        case _:
            assert_never(decision)


def after_publish(confirmation: Confirmation) -> tuple[str, AckDelivery | SettlementFailed]:
    """Return the case and the effect of a publish's outcome, on either leg: only a clean confirm acks."""
    match confirmation:
        case Acked():
            return "acked", _ACK
        case Nacked():
            return "nacked", SettlementFailed("nacked", "the broker refused the publish")
        case Returned(code, text):
            return "returned", SettlementFailed("returned", f"{code} {text}")
        case Unconfirmed(reason, sent):
            stage: Stage = "unknown" if sent else "publish"
            return stage, SettlementFailed(stage, reason)
        case _:
            assert_never(confirmation)
