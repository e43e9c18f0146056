"""The settlement of one delivery as a transition table (ADR-059 §policy, §settlement)."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from craig_mq.core.capture_format import CaptureKind, QuarantineReason
from craig_mq.core.disposition import Disposition
from craig_mq.core.errors import IllegalTransition
from craig_mq.core.last_error import LastError
from craig_mq.core.machine import TABLE, Settlement, State
from craig_mq.core.outcome import (
    ACK_NOT_SENT,
    ACK_TIMED_OUT,
    ACK_WRITTEN,
    ACKED,
    NACKED,
    AckFailed,
    Confirmation,
    Returned,
    SettlementOutcome,
    Unconfirmed,
)
from craig_mq.core.policy import PolicyFacts
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
    Publish,
    Settled,
    SettlementFailed,
    Sleep,
    Slept,
)

FACTS = PolicyFacts(handler_attempts=3, park_cap=12, park_count=0, canonical=True)
ERROR = LastError("ValueError", "boom", "0" * 64)
CONFIRMATIONS: list[Confirmation] = [
    ACKED,
    NACKED,
    Returned(312, "NO_ROUTE"),
    Unconfirmed("lost"),
    Unconfirmed("gone", sent=False),
]
OUTCOMES: list[SettlementOutcome] = [ACK_WRITTEN, ACK_NOT_SENT, ACK_TIMED_OUT, AckFailed(OSError("broken"))]


def _failed(disposition: Disposition, jitter: float = 0.0) -> HandlerFailed:
    return HandlerFailed(disposition, ERROR, jitter)


def _run(*events: Event, facts: PolicyFacts = FACTS) -> tuple[list[Effect], Settlement]:
    settlement = Settlement(facts)
    return [settlement.feed(event) for event in events], settlement


def test_success_is_acked() -> None:
    """Invoke, ack, done: acked only after the handler returned."""
    effects, settlement = _run(Begin(), HandlerOk(), Settled(ACK_WRITTEN))
    assert effects == [Invoke(1), AckDelivery(), Done("acked")]
    assert (settlement.state, settlement.attempts, settlement.state.final) == (State.SETTLED, 1, True)


def test_a_transient_failure_is_invoked_again_and_then_parked() -> None:
    """Three invocations with two sleeps between them, then a park, then the ack."""
    retry = _failed(Disposition.TRANSIENT_RETRY)
    effects, settlement = _run(
        Begin(),
        retry,
        Slept(),
        retry,
        Slept(),
        retry,
        Confirmed(ACKED, CaptureKind.PARKED),
        Settled(ACK_WRITTEN),
    )
    assert effects == [
        Invoke(1),
        Sleep(pytest.approx(0.1)),
        Invoke(2),
        Sleep(pytest.approx(0.2)),
        Invoke(3),
        Publish(None, 3, Disposition.TRANSIENT_RETRY, ERROR),
        AckDelivery(),
        Done("parked"),
    ]
    assert settlement.attempts == 3


def test_a_permanent_failure_is_quarantined() -> None:
    """PERMANENT publishes to quarantine with its reason, and is acked on the confirm."""
    effects, _ = _run(
        Begin(),
        _failed(Disposition.PERMANENT),
        Confirmed(ACKED, CaptureKind.QUARANTINED),
        Settled(ACK_WRITTEN),
    )
    assert effects[1:] == [
        Publish(QuarantineReason.PERMANENT, 1, Disposition.PERMANENT, ERROR),
        AckDelivery(),
        Done("quarantined"),
    ]


def test_a_malformed_delivery_never_meets_a_handler() -> None:
    """Malformed goes straight to quarantine, with no invocation."""
    effects, settlement = _run(
        Begin("malformed"), Confirmed(ACKED, CaptureKind.QUARANTINED), Settled(ACK_WRITTEN)
    )
    assert effects == [Publish(QuarantineReason.MALFORMED, 0, None, None), AckDelivery(), Done("quarantined")]
    assert settlement.attempts == 0


def test_a_park_that_became_a_quarantine_counts_as_one() -> None:
    """What was built decides the outcome: an oversize park ends as quarantined."""
    effects, _ = _run(
        Begin(),
        _failed(Disposition.TRANSIENT_PARK),
        Confirmed(ACKED, CaptureKind.QUARANTINED),
        Settled(ACK_WRITTEN),
    )
    assert effects[-1] == Done("quarantined")


def test_a_redelivery_already_confirmed_elsewhere_is_only_acked() -> None:
    """A redelivery whose copy is confirmed is acked without handler and without a second copy."""
    assert _run(Begin("confirmed_before"), Settled(ACK_WRITTEN))[0] == [AckDelivery(), Done("acked")]


@pytest.mark.parametrize(
    ("confirmation", "failure"),
    [
        (NACKED, SettlementFailed("nacked", "the broker refused the publish")),
        (Returned(312, "NO_ROUTE"), SettlementFailed("returned", "312 NO_ROUTE")),
        (Unconfirmed("timed out"), SettlementFailed("unknown", "timed out")),
        (Unconfirmed("channel gone", sent=False), SettlementFailed("publish", "channel gone")),
    ],
)
def test_without_a_clean_confirm_there_is_no_ack(
    confirmation: Confirmation, failure: SettlementFailed
) -> None:
    """RET-02: a nack, a return and an unknown outcome are each a settlement failure, never an ack."""
    effects, settlement = _run(
        Begin(), _failed(Disposition.TRANSIENT_PARK), Confirmed(confirmation, CaptureKind.PARKED)
    )
    assert effects[-1] == failure
    assert settlement.state is State.FAILED


@pytest.mark.parametrize("outcome", OUTCOMES[1:])
def test_an_ack_that_was_not_written_is_a_settlement_failure(outcome: SettlementOutcome) -> None:
    """An ack not sent, timed out or failed ends the session, with the reason in its text."""
    effects, settlement = _run(Begin(), HandlerOk(), Settled(outcome))
    failure = effects[-1]
    assert isinstance(failure, SettlementFailed)
    assert (failure.stage, failure.detail) == ("ack", str(outcome))
    assert settlement.state is State.FAILED


@pytest.mark.parametrize(
    "events",
    [
        (),
        (Begin(),),
        (Begin(), _failed(Disposition.TRANSIENT_RETRY)),
        (Begin(), _failed(Disposition.TRANSIENT_PARK)),
    ],
)
def test_an_interruption_leaves_the_delivery_unacked(events: tuple[Event, ...]) -> None:
    """Shutdown before, during or between invocations, or before a publish began, leaves it unacked."""
    effects, settlement = _run(*events, Interrupted("shutdown"))
    assert effects[-1] == Leave("shutdown")
    assert settlement.state is State.LEFT


ALL_EVENTS: list[Event] = [
    Begin(),
    Begin("malformed"),
    Begin("confirmed_before"),
    HandlerOk(),
    *[_failed(disposition) for disposition in Disposition],
    Slept(),
    Interrupted("shutdown"),
    *[Confirmed(confirmation, kind) for confirmation in CONFIRMATIONS for kind in CaptureKind],
    *[Settled(outcome) for outcome in OUTCOMES],
]
PATHS: dict[State, tuple[Event, ...]] = {
    State.NEW: (),
    State.INVOKING: (Begin(),),
    State.SLEEPING: (Begin(), _failed(Disposition.TRANSIENT_RETRY)),
    State.PUBLISHING: (Begin("malformed"),),
    State.ACKING: (Begin(), HandlerOk()),
    State.SETTLED: (Begin(), HandlerOk(), Settled(ACK_WRITTEN)),
    State.LEFT: (Interrupted("shutdown"),),
    State.FAILED: (Begin(), HandlerOk(), Settled(ACK_NOT_SENT)),
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, ALL_EVENTS)))
def test_an_event_has_a_row_or_changes_nothing(state: State, event: Event) -> None:
    """In every state, an event of the table moves along it, and any other raises and changes nothing."""
    _, settlement = _run(*PATHS[state])
    assert settlement.state is state
    before = (settlement.state, settlement.attempts)
    rows = {target for (source, kind, _), target in TABLE.items() if (source, kind) == (state, type(event))}
    if rows:
        settlement.feed(event)
        assert settlement.state in rows
    else:
        with pytest.raises(IllegalTransition, match=state.value):
            settlement.feed(event)
        assert (settlement.state, settlement.attempts) == before


def test_a_bad_jitter_changes_nothing() -> None:
    """An event the policy refuses raises ValueError and leaves the machine where it was."""
    _, settlement = _run(Begin())
    with pytest.raises(ValueError, match="jitter"):
        settlement.feed(_failed(Disposition.TRANSIENT_RETRY, jitter=2.0))
    assert (settlement.state, settlement.attempts) == (State.INVOKING, 1)


def test_every_row_can_be_walked() -> None:
    """No row of the table is decoration: walking all events from all states takes each of them."""
    walked = set()
    for state, event in itertools.product(State, ALL_EVENTS):
        _, settlement = _run(*PATHS[state])
        if any((source, kind) == (state, type(event)) for source, kind, _ in TABLE):
            settlement.feed(event)
            walked.add((state, type(event), settlement.state))
    assert walked == {(source, kind, target) for (source, kind, _), target in TABLE.items()}


class SettlementModel(RuleBasedStateMachine):
    """Any order of any events: what was acked had evidence, and every run is bounded."""

    def __init__(self) -> None:
        super().__init__()
        self.settlement = Settlement(FACTS)
        self.evidence = False
        self.effects: list[Effect] = []

    @rule(event=st.sampled_from(ALL_EVENTS), jitter=st.floats(0, 1))
    def feed(self, event: Event, jitter: float) -> None:
        """Offer an event; a refusal must leave no trace."""
        if isinstance(event, HandlerFailed):
            event = msgspec.structs.replace(event, jitter=jitter)
        before: tuple[Any, ...] = (self.settlement.state, self.settlement.attempts)
        try:
            effect = self.settlement.feed(event)
        except IllegalTransition:
            assert (self.settlement.state, self.settlement.attempts) == before
            return
        self.effects.append(effect)
        self.evidence |= isinstance(event, HandlerOk) or event == Begin("confirmed_before")
        self.evidence |= isinstance(event, Confirmed) and event.confirmation == ACKED

    @invariant()
    def acks_need_evidence(self) -> None:
        """An ack is only ever asked for after a handler returned or a publish was cleanly confirmed."""
        assert self.evidence or not any(isinstance(effect, AckDelivery | Done) for effect in self.effects)

    @invariant()
    def everything_is_bounded(self) -> None:
        """At most handler_attempts invocations, one publish, one ack, one end."""
        kinds = [type(effect) for effect in self.effects]
        assert kinds.count(Invoke) <= FACTS.handler_attempts
        assert kinds.count(Sleep) <= FACTS.handler_attempts - 1
        assert kinds.count(Publish) <= 1
        assert kinds.count(AckDelivery) <= 1
        assert sum(kinds.count(end) for end in (Done, Leave, SettlementFailed)) == self.settlement.state.final

    @precondition(lambda self: self.settlement.state.final)
    @rule()
    def begin_again(self) -> None:
        """Start a new delivery, so that long runs see many."""
        self.__init__()  # type: ignore[misc]


TestSettlementModel = SettlementModel.TestCase
TestSettlementModel.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
