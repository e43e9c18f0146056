"""No ack without evidence, and what a failed settlement does to its session (ADR-059 §settlement)."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio

from craig_mq import Disposition, SubscriptionOptions
from craig_mq.core.outcome import Acked
from craig_mq.observe.events import DeliveryFinished, Parked, SessionDown, SessionUp, SettlementFailure
from craig_mq.transport.memory.fault_actions import (
    CloseChannel,
    Drop,
    Duplicate,
    Hang,
    LateSuccess,
    LoseConnection,
    Nack,
    Raise,
    Return,
)
from craig_mq.transport.memory.faults import Fault, FaultPlan
from craig_mq.transport.memory.trace import ConnectionEnded, ConnectionOpened, MessageAcked, OutcomeTold

PARK, PERMANENT = Disposition.TRANSIENT_PARK, Disposition.PERMANENT
QUEUE, PARKING, QUARANTINE = "security.dlq", "security.dlq.parking", "security.dlq.quarantine"
MAIN = f"craig_mq {QUEUE} main"
PUBLISHING = f"{MAIN} publishing"


def acks(rig, queue=QUEUE):
    return [
        record for record in rig.broker.trace if isinstance(record, MessageAcked) and record.queue == queue
    ]


def ends(rig, arm="main"):
    return [event.end for event in rig.heard(SessionDown) if event.arm == arm]


def ups(rig, arm="main"):
    return [at for at, event in rig.events if isinstance(event, SessionUp) and event.arm == arm]


FAILURES = [
    pytest.param(Fault("confirm", Nack(), name=PARKING), "nacked", 0, id="nacked"),
    pytest.param(Fault("publish", Return(), name=PARKING), "returned", 0, id="returned"),
    pytest.param(Fault("confirm", Drop(), name=PARKING), "unknown", 30, id="lost confirm"),
    pytest.param(Fault("publish", LoseConnection(), name=PARKING), "unknown", 0, id="connection lost"),
    pytest.param(
        Fault("publish", CloseChannel(404, "NOT_FOUND", 60, 40), name=PARKING), "unknown", 0, id="404"
    ),
    pytest.param(Fault("connect", LoseConnection(), connection=PUBLISHING), "publish", 0, id="no connection"),
]


@pytest.mark.parametrize(("fault", "stage", "after"), FAILURES)
async def test_no_ack_without_a_clean_confirm(autojump_clock, rig, fault, stage, after):
    """CONF-01, NACK-01, RET-02: whatever fails a park publish, the original stays and the session ends."""
    rig.broker.inject(FaultPlan([fault]))
    async with rig.subscribed(rig.handler(lambda _: PARK)):
        envelope_id = rig.publish()
        await trio.sleep(after + 0.5)
        assert acks(rig) == []
        assert ends(rig) == ["SETTLEMENT_FAILED"]
        (failure,) = rig.heard(SettlementFailure)
        assert (failure.stage, failure.target, failure.envelope_id) == (stage, PARKING, envelope_id)
        assert failure.capture_id
        await trio.sleep(2)
        assert rig.calls == {envelope_id: 2}
        assert len(acks(rig)) == 1
    assert len(rig.parked) in {1, 2}


async def test_a_nack_is_told_at_once_and_by_its_name(autojump_clock, rig):
    """NACK-03, NACK-04: a nack is reported in no time, with queue and ids, and not as a timeout."""
    rig.broker.inject(FaultPlan([Fault("confirm", Nack(), name=QUARANTINE)]))
    async with rig.subscribed(rig.handler(lambda _: PERMANENT)):
        envelope_id = rig.publish()
        await trio.sleep(0.9)
        (failure,) = rig.heard(SettlementFailure)
        assert (failure.stage, failure.target, failure.envelope_id) == ("nacked", QUARANTINE, envelope_id)
        assert "0x" not in failure.text
        assert rig.heard_at(SettlementFailure) == [0.0]


async def test_consecutive_settlement_failures_back_off(autojump_clock, rig):
    """Settlement failures in a row wait 1, 2, 4, 8, 16, 30, 30 s (ADR-059 §settlement, S27, S28)."""
    rig.broker.inject(FaultPlan([Fault("confirm", Nack(), name=PARKING, times=None)]))
    async with rig.subscribed(rig.handler(lambda _: PARK)):
        rig.publish()
        await trio.sleep(100)
        times = ups(rig)
        assert [round(b - a) for a, b in pairwise(times)] == [1, 2, 4, 8, 16, 30, 30]
        assert acks(rig) == []


async def test_settle_one_fail_one_still_doubles(autojump_clock, rig):
    """CHRN-03: acks that succeed inside a generation do not reset the backoff (S29)."""
    rig.broker.inject(FaultPlan([Fault("confirm", Nack(), name=PARKING, times=None)]))
    poison = rig.envelope()[0]

    async def fail_late():
        await trio.sleep(0.1)
        return PARK

    def script(letter):
        return fail_late() if letter.envelope.id == poison else None

    async with rig.subscribed(rig.handler(script)):
        rig.broker.publish("craig.dlx", "dlq.a", rig.envelope(poison)[1])
        for _ in range(7):
            rig.publish()
            before = len(ups(rig))
            while len(ups(rig)) == before:
                await trio.sleep(0.5)
        times = ups(rig)
        assert [round(b - a) for a, b in pairwise(times)] == [1, 2, 4, 8, 16, 30, 30]
        assert len(acks(rig)) == 7


async def test_only_another_end_resets_the_backoff(autojump_clock, rig):
    """A non-settlement end of an established session resets the settlement backoff (S28)."""
    rig.broker.inject(FaultPlan([Fault("confirm", Nack(), name=PARKING, times=3)]))
    async with rig.subscribed(rig.handler(lambda _: PARK)):
        rig.publish()
        await trio.sleep(60)
        assert ends(rig) == ["SETTLEMENT_FAILED"] * 3
        rig.broker.close_connection(MAIN)
        await trio.sleep(5)
        assert ends(rig)[3:] == ["CONNECTION_LOST"]
        rig.broker.inject(FaultPlan([Fault("confirm", Nack(), name=PARKING)]))
        rig.publish()
        await trio.sleep(5)
        times = ups(rig)
        assert [round(b - a, 1) for a, b in pairwise(times)][:3] == [1, 2, 4]
        assert round(times[-1] - times[-2], 1) < 7


async def test_the_old_session_is_gone_before_the_new_ones_first_io(autojump_clock, rig):
    """Both connections of a failed session have ended at the broker before the next one dials (S4)."""
    rig.broker.inject(FaultPlan([Fault("confirm", Drop(), name=PARKING, times=4)]))
    options = SubscriptionOptions(confirm_timeout=1)
    async with rig.subscribed(rig.handler(lambda _: PARK), options=options):
        rig.publish()
        await trio.sleep(60)
    open_now: set[int] = set()
    generations = 0
    for record in rig.broker.trace:
        if isinstance(record, ConnectionOpened) and record.name == MAIN:
            assert not open_now
            generations += 1
        if isinstance(record, ConnectionOpened) and record.name in {MAIN, PUBLISHING}:
            open_now.add(record.connection)
        elif isinstance(record, ConnectionEnded):
            open_now.discard(record.connection)
    assert generations == 5


async def test_a_hanging_ack_ends_the_session_at_its_bound(autojump_clock, rig):
    """A settlement that hangs ends the session at exactly settle_timeout as SETTLEMENT_FAILED (S40)."""
    rig.broker.inject(FaultPlan([Fault("ack", Hang(), name=QUEUE)]))
    async with rig.subscribed():
        rig.publish()
        await trio.sleep(5.5)
        assert rig.heard_at(SettlementFailure) == [5.0]
        assert rig.heard(SettlementFailure)[0].stage == "ack"
        assert ends(rig) == ["SETTLEMENT_FAILED"]
        await trio.sleep(60)
        assert max(rig.calls.values()) == 2
        assert PUBLISHING not in [r.name for r in rig.broker.trace if isinstance(r, ConnectionOpened)]


@pytest.mark.parametrize("shutdown_at", [0.5, 4.9])
async def test_shutdown_does_not_shorten_the_bound(autojump_clock, rig, shutdown_at):
    """A settlement that hangs ends the session at 5 s even when shutdown arrives meanwhile."""
    rig.broker.inject(FaultPlan([Fault("flush", Hang(), connection=MAIN)]))
    async with rig.subscribed() as subscription:
        rig.publish()
        await trio.sleep(shutdown_at)
        subscription.shutdown()
        await subscription.wait_closed()
        assert rig.heard_at(SettlementFailure) == [5.0]


async def test_shutdown_alone_never_cuts_a_settlement(autojump_clock, rig):
    """An ack that takes 4 s is written although shutdown came after one second."""
    rig.broker.inject(FaultPlan([Fault("flush", LateSuccess(4.0), connection=MAIN)]))
    async with rig.subscribed() as subscription:
        rig.publish()
        await trio.sleep(1)
        subscription.shutdown()
        await subscription.wait_closed()
        assert 4.0 <= rig.now < 5.0
    assert rig.heard(SettlementFailure) == []
    assert len(acks(rig)) == 1


async def test_cancel_lets_a_begun_settlement_finish(autojump_clock, rig):
    """A hard cancel waits for settlements already begun, and for nothing else (decisions, 5)."""
    rig.broker.inject(FaultPlan([Fault("flush", LateSuccess(3.0), connection=MAIN)]))
    with trio.move_on_after(1):
        async with trio.open_nursery() as nursery:
            await nursery.start(rig.subscribe())
            rig.publish()
    assert 3.0 <= rig.now < 6.0
    assert len(acks(rig)) == 1
    assert rig.heard(SettlementFailure) == []


async def test_a_confirmed_copy_is_not_made_twice(autojump_clock, rig):
    """A redelivery whose copy is confirmed is acked without a second copy, once (decisions, 8)."""
    rig.broker.inject(FaultPlan([Fault("ack", Raise(), name=QUEUE)]))
    async with rig.subscribed(rig.handler(lambda _: PARK)) as subscription:
        envelope_id = rig.publish()
        await trio.sleep(3)
        assert ends(rig) == ["SETTLEMENT_FAILED"]
        assert rig.calls == {envelope_id: 1}
        assert subscription.statistics().duplicates_absorbed == 1
        assert len(rig.parked) == 1
    assert len(acks(rig)) == 1


async def test_one_incident_is_reported_once(autojump_clock, rig):
    """ACK-08: twenty deliveries in flight when a channel dies are one settlement failure, not twenty."""
    close = CloseChannel(406, "PRECONDITION_FAILED - unknown delivery tag 999", 60, 80)
    rig.broker.inject(FaultPlan([Fault("ack", close, name=QUEUE)]))
    handler = rig.handler(lambda letter: None if letter.redelivered else rig.after(1))
    async with rig.subscribed(handler, options=SubscriptionOptions(prefetch=20, concurrency=20)):
        ids = [rig.publish() for _ in range(20)]
        await trio.sleep(10)
        assert len(rig.heard(SettlementFailure)) == 1
        assert ends(rig) == ["SETTLEMENT_FAILED"]
        assert set(rig.calls) == set(ids)
        assert rig.ready() == 0


async def test_channel_death_after_the_ack_call_returned(autojump_clock, rig):
    """ACK-01: a 406 for a settlement ends the session as a failure although the ack call had returned."""
    close = CloseChannel(406, "PRECONDITION_FAILED - unknown delivery tag 999", 60, 80)
    rig.broker.inject(FaultPlan([Fault("ack", close, name=QUEUE)]))
    async with rig.subscribed(options=SubscriptionOptions(prefetch=5)):
        ids = [rig.publish() for _ in range(3)]
        await trio.sleep(3)
        assert ends(rig) == ["SETTLEMENT_FAILED"]
        assert "unknown delivery tag 999" in rig.heard(SessionDown)[0].text
        assert "unknown delivery tag 999" in rig.heard(SettlementFailure)[0].text
        assert set(rig.calls) == set(ids)
        assert rig.ready() == 0


async def test_nothing_begins_after_a_settlement_failure(autojump_clock, rig):
    """After a settlement failure no further message reaches a handler and no ack begins (S43)."""
    rig.broker.inject(FaultPlan([Fault("flush", Hang(), connection=MAIN)]))
    options = SubscriptionOptions(prefetch=10, concurrency=1, backoff_base=30)
    handler = rig.handler(lambda letter: rig.after(0 if letter.envelope.id == first else 4.9))
    async with rig.subscribed(handler, options=options):
        first = rig.publish()
        for _ in range(5):
            rig.publish()
        await trio.sleep(20)
        assert sum(rig.calls.values()) <= 3
        assert all(at <= 5.0 for at, _ in rig.called_at)


async def test_a_foreign_confirm_acks_nothing(autojump_clock, rig):
    """CONF-10: a second confirm of one publish is none of the next, whose original stays unacked."""
    rig.broker.inject(
        FaultPlan(
            [
                Fault("confirm", Duplicate(), name=PARKING),
                Fault("confirm", Drop(), name=PARKING),
            ]
        )
    )
    async with rig.subscribed(rig.handler(lambda _: PARK)) as subscription:
        both = {rig.publish(), rig.publish()}
        await trio.sleep(29)
        assert len(acks(rig)) == subscription.statistics().parked == 1
        await trio.sleep(1.5)
        (failure,) = rig.heard(SettlementFailure)
        assert failure.stage == "unknown"
        (confirmed,) = rig.heard(Parked)
        assert {failure.envelope_id, confirmed.envelope_id} == both
        assert len(acks(rig)) == 1


@pytest.mark.parametrize("on", ["publish", "confirm"])
async def test_a_return_acks_nothing_though_its_twin_is_confirmed(autojump_clock, rig, on):
    """RET-01: of two copies of one envelope parked at once the returned one's original is not acked."""
    rig.broker.inject(FaultPlan([Fault(on, Return(), name=PARKING)]))
    _, body = rig.envelope()
    async with rig.subscribed(rig.handler(lambda _: PARK)) as subscription:
        rig.broker.publish("craig.dlx", "dlq.a", body)
        rig.broker.publish("craig.dlx", "dlq.a", body)
        await trio.sleep(0.9)
        assert [failure.stage for failure in rig.heard(SettlementFailure)] == ["returned"]
        confirmed = [
            record
            for record in rig.broker.trace
            if isinstance(record, OutcomeTold) and isinstance(record.outcome, Acked)
        ]
        assert len(confirmed) == 1
        assert len(acks(rig)) + subscription.statistics().unsettled == 2
        assert len(acks(rig)) <= 1
        await trio.sleep(5)
        assert len(acks(rig)) == 2
    ids = [
        record.publication.properties.message_id
        for record in rig.broker.trace
        if isinstance(record, OutcomeTold) and record.publication.routing_key == PARKING
    ]
    assert len(ids) == len(set(ids)) >= 3


@pytest.mark.parametrize("body", ["an envelope", "", "x" * 10_000], ids=["tokenless", "empty", "large"])
async def test_a_twin_is_no_evidence(autojump_clock, rig, body):
    """RET-01: of two messages alike in every byte, without a token, each is acked for its own copy only."""
    raw = rig.envelope()[1] if body == "an envelope" else body.encode()
    async with rig.subscribed(rig.handler(lambda _: PERMANENT)):
        rig.broker.publish("craig.dlx", "dlq.a", raw)
        await trio.sleep(0.5)
        assert (len(acks(rig)), len(rig.quarantined)) == (1, 1)
        rig.broker.inject(FaultPlan([Fault("publish", Return(), name=QUARANTINE)]))
        rig.broker.publish("craig.dlx", "dlq.a", raw)
        await trio.sleep(0.5)
        assert ends(rig) == ["SETTLEMENT_FAILED"]
        await trio.sleep(5)
        assert (len(acks(rig)), len(rig.quarantined)) == (2, 2)


async def test_tokenless_reexecution_is_counted(autojump_clock, rig):
    """A redelivered tokenless delivery that reaches the handler again is counted (ADR-059, bounds)."""
    rig.broker.inject(FaultPlan([Fault("ack", Raise(), name=QUEUE)]))
    async with rig.subscribed() as subscription:
        rig.publish(token=False)
        rig.publish(token=True)
        await trio.sleep(5)
        assert subscription.statistics().tokenless_reruns == 1
    finished = rig.heard(DeliveryFinished)
    assert [event.tokenless_rerun for event in finished if event.outcome == "acked"].count(True) == 1
