"""Park, hold or release, return: the parking arm under every clock (ADR-059 §parking, decisions 4 and 12)."""

from __future__ import annotations

from collections import Counter

import pytest
import trio

from craig_mq import Disposition, DlqRetryConfig, SubscriptionOptions
from craig_mq.core.delivery import Properties
from craig_mq.observe.events import (
    ClockSkew,
    DuplicateAbsorbed,
    ForeignParked,
    OldestParked,
    ParkedReturned,
    Quarantined,
    SessionDown,
    SettlementFailure,
)
from craig_mq.transport.memory.fault_actions import Nack, Raise
from craig_mq.transport.memory.faults import Fault, FaultPlan
from craig_mq.transport.memory.trace import ConsumerStarted, MessageDelivered, MessagePublished

PARK = Disposition.TRANSIENT_PARK
QUEUE, PARKING, QUARANTINE = "security.dlq", "security.dlq.parking", "security.dlq.quarantine"
PARKING_CONNECTION = f"craig_mq {QUEUE} parking"


def park_once(letter):
    return PARK if letter.park_count == 0 else None


async def test_due_messages_return_under_their_original_key(autojump_clock, rig, short):
    """Parked, due after one TTL, returned to craig.dlx under the original key, handled, acked."""
    async with rig.subscribed(rig.handler(park_once), config=short):
        envelope_id = rig.publish("dlq.billing.invoice")
        await trio.sleep(12)
        assert rig.calls == {envelope_id: 2}
        first, second = rig.called_at
        assert second[0] - first[0] == pytest.approx(10.0)
    returns = [
        record.publication
        for record in rig.broker.trace
        if isinstance(record, MessagePublished)
        and record.publication.exchange == "craig.dlx"
        and record.connection
    ]
    assert [(sent.exchange, sent.routing_key) for sent in returns] == [("craig.dlx", "dlq.billing.invoice")]
    assert rig.parked == rig.quarantined == []


async def test_token_and_bytes_survive_the_hop(autojump_clock, rig, short):
    """Token, body bytes, key and death are the same before and after parking (decisions, byte fidelity)."""
    body = (
        b'  {"id":"0190F3B0-0000-7000-8000-00000000ABCD","source_service":"s","event_type":"t",'
        b'"occurred_at":"2026-01-01T00:00:00.123456789+02:00","payload":1e400, "extra": [1.10] }\n'
    )
    death = {"queue": "orders", "reason": "rejected", "count": 3, "time": 1_700_000_000, "exchange": "x"}
    async with rig.subscribed(rig.handler(park_once), config=short):
        rig.broker.publish("craig.dlx", "dlq.a", body, Properties(headers={"x-death": [death]}))
        await trio.sleep(12)
        before, after = rig.letters
    assert after.body == before.body == body
    assert after.token == before.token is not None
    assert (after.routing_key, after.death, after.envelope) == (
        before.routing_key,
        before.death,
        before.envelope,
    )
    assert after.park_count == 1


async def test_returns_carry_no_x_death_and_fresh_ids(autojump_clock, rig, short):
    """Captures and returns carry only allow-listed properties and a fresh message_id each (decisions, 14)."""
    async with rig.subscribed(rig.handler(park_once), config=short):
        rig.publish(
            properties=Properties(headers={"x-death": [], "CC": ["a"]}, expiration="60000", priority=9)
        )
        await trio.sleep(12)
    sent = [
        r.publication.properties for r in rig.broker.trace if isinstance(r, MessagePublished) and r.connection
    ]
    assert len(sent) == 2
    assert len({properties.message_id for properties in sent}) == 2
    for properties in sent:
        assert dict(properties.headers) == {}
        assert (properties.expiration, properties.priority, properties.user_id) == (None, None, None)
        assert properties.delivery_mode == 2


async def test_a_day_of_parking_in_virtual_time(autojump_clock, rig, monkeypatch):
    """A TTL of 24 h, the longest that is valid, is kept to the second while nothing is held."""
    # Nothing is looked at more often than the head is taken again: 1,440 times in this day.
    monkeypatch.setattr("craig_mq.runtime.replayer.LOOK_AGAIN_S", 60.0)
    config = DlqRetryConfig(parking_ttl=86_400, depth_sample_interval=3_600)
    async with rig.subscribed(rig.handler(park_once), config=config):
        rig.publish()
        await trio.sleep(86_390)
        assert len(rig.called_at) == 1
        await trio.sleep(11)
        assert rig.called_at[1][0] - rig.called_at[0][0] == pytest.approx(86_400, abs=0.01)
    assert {event.end for event in rig.heard(SessionDown)} == {"SHUTDOWN"}


async def test_consumer_timeout_never_meets_a_held_delivery(autojump_clock, rig):
    """CHC-01: a TTL of 2 h against a consumer_timeout of 60 s closes no channel and loses nothing."""
    rig.broker.set_consumer_timeout(60, tick=1)
    config = DlqRetryConfig(parking_ttl=7_200)
    async with rig.subscribed(rig.handler(park_once), config=config):
        envelope_id = rig.publish()
        await trio.sleep(7_205)
        assert rig.calls == {envelope_id: 2}
        assert rig.called_at[1][0] == pytest.approx(7_200, abs=0.01)
    assert {event.end for event in rig.heard(SessionDown)} == {"SHUTDOWN"}
    assert rig.heard(SettlementFailure) == []


async def test_what_is_not_due_soon_is_given_back(autojump_clock, rig):
    """A wait above the hold limit holds nothing: the parking queue shows its message ready, no consumer."""
    async with rig.subscribed(rig.handler(lambda _: PARK)):
        rig.publish()
        await trio.sleep(5)
        view = rig.broker.queue(PARKING)
        assert (view.ready, view.unacked, view.consumers) == (1, 0, 0)
        await trio.sleep(590)
        assert rig.broker.queue(PARKING).ready == 1
        await trio.sleep(6)
        assert rig.called_at[1][0] == pytest.approx(600, abs=0.01)


async def test_replicas_share_a_parking_queue_without_a_hot_loop(autojump_clock, rig):
    """Three replicas on one parking queue keep every due time and re-take no more than once a minute each."""
    config = DlqRetryConfig(parking_ttl=600)
    async with trio.open_nursery() as nursery:
        replicas = [
            await nursery.start(rig.subscribe(rig.handler(park_once), config=config)) for _ in range(3)
        ]
        parked_at = {}
        for _ in range(10):
            parked_at[rig.publish()] = rig.now
            await trio.sleep(7)
        await trio.sleep(700)
        second = {envelope_id: at for at, envelope_id in rig.called_at[10:]}
        assert Counter(rig.calls.values()) == {2: 10}
        for envelope_id, at in parked_at.items():
            assert at + 600 <= second[envelope_id] <= at + 601
        takes = sum(isinstance(r, ConsumerStarted) and r.queue == PARKING for r in rig.broker.trace)
        assert takes <= 3 * (770 / 20)
        for replica in replicas:
            replica.shutdown()


async def test_overdue_backlog_drains_at_once_and_in_order(autojump_clock, rig, short):
    """Twenty messages overdue after downtime all return in order, one confirm at a time (decisions, 6)."""
    one = SubscriptionOptions(concurrency=1)
    async with rig.subscribed(rig.handler(lambda _: PARK), config=short, options=one) as subscription:
        ids = [rig.publish() for _ in range(20)]
        await trio.sleep(2)
        subscription.shutdown()
        await subscription.wait_closed()
    assert rig.ready(PARKING) == 20
    await trio.sleep(100)
    rig.called_at.clear()
    async with rig.subscribed(options=SubscriptionOptions(concurrency=1), config=short):
        await trio.sleep(1)
    assert [envelope_id for _, envelope_id in rig.called_at] == ids


@pytest.mark.parametrize("step_s", [3 * 3600, -3 * 3600])
async def test_clock_steps_while_parked(autojump_clock, rig, step_s):
    """CLK-01: a clock step forward returns at once, one back waits at most one TTL from first receipt."""
    async with rig.subscribed(rig.handler(park_once)):
        rig.publish()
        await trio.sleep(10)
        rig.wall_step_s = step_s
        await trio.sleep(640)
        waited = rig.called_at[1][0] - rig.called_at[0][0]
        assert waited == pytest.approx(10 if step_s > 0 else 600, abs=5.1)


async def _park_some(rig, wall_step_s):
    rig.wall_step_s = wall_step_s
    one = SubscriptionOptions(concurrency=1)
    async with rig.subscribed(rig.handler(lambda _: PARK), options=one) as subscription:
        ids = [rig.publish() for _ in range(21)]
        await trio.sleep(1)
        subscription.shutdown()
    rig.wall_step_s = 0.0
    rig.called_at.clear()
    rig.events.clear()
    return ids


async def test_parked_at_in_the_future_waits_one_ttl(autojump_clock, rig):
    """CLK-01: parked_at 3 h ahead is clamped to one TTL from receipt, with a warning, order preserved."""
    ids = await _park_some(rig, 3 * 3600)
    async with rig.subscribed(options=SubscriptionOptions(concurrency=1)):
        began = rig.now
        await trio.sleep(700)
        assert rig.called_at[0][0] - began == pytest.approx(600, abs=1)
        assert rig.heard(ClockSkew)[0].ahead_s == pytest.approx(3 * 3600, abs=2)
        assert [envelope_id for _, envelope_id in rig.called_at[:1]] == ids[:1]
        await trio.sleep(21 * 600)
        assert [envelope_id for _, envelope_id in rig.called_at] == ids


async def test_parked_long_ago_returns_at_once(autojump_clock, rig):
    """CLK-01: parked_at ten years ago is due at once, and so is everything behind it."""
    ids = await _park_some(rig, -10 * 365 * 86_400)
    async with rig.subscribed(options=SubscriptionOptions(concurrency=1)):
        await trio.sleep(1)
        assert [envelope_id for _, envelope_id in rig.called_at] == ids


async def test_shutdown_while_waiting_leaves_the_message(autojump_clock, rig):
    """Shutdown while the replayer holds the head ends at once and leaves it in the queue (linkage)."""
    config = DlqRetryConfig(parking_ttl=15)
    async with rig.subscribed(rig.handler(lambda _: PARK), config=config) as subscription:
        rig.publish()
        await trio.sleep(5)
        assert rig.broker.queue(PARKING).unacked == 1
        subscription.shutdown()
        await subscription.wait_closed()
        assert rig.now == pytest.approx(5.0)
    assert (rig.ready(PARKING), rig.ready()) == (1, 0)


async def test_broker_killed_while_the_head_is_held(autojump_clock, rig):
    """A broker killed mid-sleep redelivers the parked message and its due time is recomputed (ADR-059)."""
    config = DlqRetryConfig(parking_ttl=15)
    async with rig.subscribed(rig.handler(park_once), config=config):
        envelope_id = rig.publish()
        await trio.sleep(5)
        rig.broker.crash(returning_acks=0)
        await trio.sleep(2)
        rig.broker.restart()
        await trio.sleep(13)
        assert rig.calls == {envelope_id: 2}
        assert rig.called_at[1][0] == pytest.approx(15, abs=1.5)


async def test_a_failed_return_is_a_settlement_failure(autojump_clock, rig, short):
    """NACK on the return leg: no ack on parking, the parking session backs off, main keeps its generation."""
    rig.broker.inject(FaultPlan([Fault("confirm", Nack(), name="craig.dlx", times=2)]))
    async with rig.subscribed(rig.handler(park_once), config=short) as subscription:
        envelope_id = rig.publish()
        await trio.sleep(20)
        assert [event.arm for event in rig.heard(SettlementFailure)] == ["parking", "parking"]
        assert subscription.snapshot().main.generation == 1
        assert subscription.snapshot().parking.generation == 3
        assert rig.called_at[-1][0] == pytest.approx(13, abs=0.1)
        assert rig.calls[envelope_id] >= 2


async def test_a_failed_release_is_a_settlement_failure(autojump_clock, rig):
    """A release whose nack cannot be written ends the session as SETTLEMENT_FAILED (decisions, 12)."""
    rig.broker.inject(FaultPlan([Fault("nack", Raise(), name=PARKING)]))
    async with rig.subscribed(rig.handler(lambda _: PARK)):
        rig.publish()
        await trio.sleep(3)
        (failure,) = rig.heard(SettlementFailure)
        assert (failure.arm, failure.stage) == ("parking", "nack")
        assert rig.ready(PARKING) == 1


async def test_a_confirmed_return_is_not_sent_twice(autojump_clock, rig, short):
    """A confirmed return whose ack failed is acked later, without a second return."""
    rig.broker.inject(FaultPlan([Fault("ack", Raise(), name=PARKING)]))
    async with rig.subscribed(rig.handler(park_once), config=short):
        envelope_id = rig.publish()
        await trio.sleep(30)
        assert rig.calls == {envelope_id: 2}
        assert len(rig.heard(DuplicateAbsorbed)) == 1
        assert len(rig.heard(ParkedReturned)) == 1


@pytest.mark.parametrize("body", [b"not json", b'{"payload":1}'])
async def test_a_foreign_message_in_parking_goes_to_the_queue_itself(autojump_clock, rig, body):
    """What is no capture of this queue is moved as it is, so that it ends where an operator looks."""
    async with rig.subscribed():
        rig.broker.publish("", PARKING, body)
        await trio.sleep(1)
        assert len(rig.heard(ForeignParked)) == 1
        assert rig.ready(PARKING) == 0
        assert len(rig.quarantined) == 1


async def test_a_capture_whose_key_no_frame_carries_is_quarantined(autojump_clock, rig, short):
    """A capture that claims a routing key of over 255 bytes ends in quarantine and takes no session down."""
    long_key = b'"original_routing_key":"dlq.' + b"x" * 300 + b'"'
    async with rig.subscribed(rig.handler(lambda _: PARK), config=short) as subscription:
        rig.publish()
        await trio.sleep(1)
        parked = [event.publication for event in rig.broker.trace if isinstance(event, MessagePublished)][-1]
        forged = parked.body.replace(b'"original_routing_key":"dlq.svc.a"', long_key)
        assert long_key in forged
        rig.broker.publish("", PARKING, forged)
        rig.broker.publish("", QUEUE, forged)
        await trio.sleep(600)
        assert rig.ready(PARKING) == rig.ready(QUEUE) == 0
        reasons = [event.reason for event in rig.heard(Quarantined)]
        assert sorted(reasons) == ["noncanonical_route", "noncanonical_route", "park_cap_exhausted"]
        snapshot = subscription.snapshot()
        assert (snapshot.main.generation, snapshot.parking.generation) == (1, 1)


async def test_outage_of_almost_two_hours_is_ridden_out(autojump_clock, rig):
    """With the default configuration an outage of 1 h 55 ends with everything handled."""
    async with rig.subscribed(rig.handler(lambda _: PARK if rig.now < 115 * 60 else None)) as subscription:
        for _ in range(5):
            rig.publish()
        await trio.sleep(135 * 60)
        assert subscription.statistics().acked == 5
        assert rig.quarantined == []


async def test_outage_beyond_the_cap_is_quarantined(autojump_clock, rig):
    """With the default configuration an outage of 2 h 15 quarantines what its whole length has parked."""
    async with rig.subscribed(rig.handler(lambda _: PARK if rig.now < 135 * 60 else None)):
        ids = {rig.publish() for _ in range(5)}
        await trio.sleep(150 * 60)
        assert {capture.park_count for capture in rig.quarantined} == {12}
        assert len(rig.quarantined) == len(ids)
        assert all(calls == 13 for calls in rig.calls.values())


async def test_a_cap_decrease_handles_first(autojump_clock, rig):
    """A parked message above a lowered cap is valid: handler first, then park_cap_exhausted."""
    config = DlqRetryConfig(parking_ttl=10, park_cap=5)
    async with rig.subscribed(rig.handler(lambda _: PARK), config=config) as subscription:
        envelope_id = rig.publish()
        await trio.sleep(35)
        subscription.shutdown()
    assert rig.parked[0].park_count == 4
    calls = rig.calls[envelope_id]
    async with rig.subscribed(rig.handler(lambda _: PARK), config=DlqRetryConfig(parking_ttl=10, park_cap=2)):
        await trio.sleep(15)
        assert rig.calls[envelope_id] == calls + 1
    assert rig.quarantined[0].reason is not None
    assert rig.quarantined[0].reason.value == "park_cap_exhausted"


async def test_the_largest_park_count_is_a_valid_wrapper(autojump_clock, rig, short):
    """park_count 2**32 - 1 reaches the handler and is quarantined after it, never a forgery."""
    async with rig.subscribed(rig.handler(lambda _: PARK), config=short) as subscription:
        rig.publish()
        await trio.sleep(1)
        subscription.shutdown()
    (body,) = rig.broker.queue(PARKING).bodies
    rig.broker.purge(PARKING)
    rig.broker.publish("", PARKING, body.replace(b'"park_count":1,', b'"park_count":4294967295,'))
    async with rig.subscribed(rig.handler(lambda _: PARK), config=short):
        await trio.sleep(15)
        assert rig.letters[-1].park_count == 2**32 - 1
    (capture,) = rig.quarantined
    assert capture.reason is not None
    assert (capture.reason.value, capture.park_count) == ("park_cap_exhausted", 2**32 - 1)


async def test_the_age_of_the_head_is_told(autojump_clock, rig):
    """The head's age is reported while there is one, and None once the queue is quiet."""
    async with rig.subscribed(rig.handler(park_once), config=DlqRetryConfig(parking_ttl=30)):
        rig.publish()
        await trio.sleep(40)
        ages = [event.seconds for event in rig.heard(OldestParked)]
        assert ages[-1] is None
        assert any(age is not None and age == pytest.approx(30, abs=0.1) for age in ages)


async def test_prefetch_is_one(autojump_clock, rig):
    """The replayer never has two parked messages in hand (ADR-059 §parking)."""
    async with rig.subscribed(rig.handler(lambda _: PARK), config=DlqRetryConfig(parking_ttl=15)):
        for _ in range(5):
            rig.publish()
        await trio.sleep(3)
        assert (rig.broker.queue(PARKING).unacked, rig.ready(PARKING)) == (1, 4)
    delivered = [r for r in rig.broker.trace if isinstance(r, MessageDelivered) and r.queue == PARKING]
    assert len(delivered) == 1


async def test_quorum_queues_park_and_return(autojump_clock, rig):
    """With queue_type="quorum" messages park, return and are handled; shutdown leaves nothing unacked."""
    options = SubscriptionOptions(queue_type="quorum")
    config = DlqRetryConfig(parking_ttl=30)
    async with rig.subscribed(rig.handler(park_once), options=options, config=config) as subscription:
        ids = {rig.publish() for _ in range(5)}
        await trio.sleep(40)
        assert rig.calls == dict.fromkeys(ids, 2)
        assert subscription.statistics().acked == 5
    assert (rig.ready(), rig.ready(PARKING)) == (0, 0)
    ended = [type(record).__name__ for record in rig.broker.trace][-8:]
    assert "ConsumerEnded" in ended
