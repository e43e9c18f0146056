"""Incidents at the broker while a subscription runs: loss, deletion, crash, by field-failure id."""

from __future__ import annotations

import gc
import random

import pytest
import trio

from craig_mq import Disposition, DlqRetryConfig, SubscriptionOptions
from craig_mq.observe.events import (
    DepthSampled,
    SessionDown,
    SessionUp,
    SettlementFailure,
    TopologyRepaired,
)
from craig_mq.transport.memory import MemoryBroker
from craig_mq.transport.memory.fault_actions import CloseChannel, Delay, Drop, Raise
from craig_mq.transport.memory.faults import Fault, FaultPlan
from craig_mq.transport.memory.trace import ConnectionOpened, MessageAcked, MessagePublished

PARK, PERMANENT = Disposition.TRANSIENT_PARK, Disposition.PERMANENT
QUEUE, PARKING, QUARANTINE = "security.dlq", "security.dlq.parking", "security.dlq.quarantine"
MAIN = f"craig_mq {QUEUE} main"
TIMED_OUT = (
    "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 60000 ms"
)


def ends(rig, arm="main"):
    return [event.end for event in rig.heard(SessionDown) if event.arm == arm]


def park_once(letter):
    return PARK if letter.park_count == 0 else None


async def test_connection_lost_while_a_handler_runs(autojump_clock, rig):
    """ACK-02: a connection lost mid-handler cancels it, attempts no ack, and the message is redelivered."""
    async with rig.subscribed(rig.handler(lambda letter: None if letter.redelivered else rig.after(2))):
        envelope_id = rig.publish()
        await trio.sleep(1)
        rig.broker.close_connection(MAIN)
        await trio.sleep(5)
        assert ends(rig) == ["CONNECTION_LOST"]
        assert rig.calls == {envelope_id: 2}
        assert rig.heard(SettlementFailure) == []


async def test_consuming_again_within_the_backoff(autojump_clock, rig):
    """ACK-04: after a forced close one ack attempt at most was made, and the queue is consumed again soon."""
    handler = rig.handler(lambda letter: None if letter.redelivered else rig.after(2))
    async with rig.subscribed(handler):
        rig.publish()
        await trio.sleep(1)
        rig.broker.close_connection(MAIN)
        await trio.sleep(3)
        assert rig.broker.queue(QUEUE).consumers == 1
        await trio.sleep(1)
        assert sum(isinstance(r, MessageAcked) for r in rig.broker.trace) == 1


async def test_broker_restart_between_work_and_ack(autojump_clock, rig):
    """ACK-06: a restart between the handler's return and its ack redelivers; no copy is made anywhere."""
    rig.broker.inject(FaultPlan([Fault("flush", Raise(), connection=MAIN)]))
    async with rig.subscribed() as subscription:
        envelope_id = rig.publish()
        await trio.sleep(0.1)
        rig.broker.crash(returning_acks=1)
        await trio.sleep(1)
        rig.broker.restart()
        await trio.sleep(10)
        assert rig.calls == {envelope_id: 2}
        assert [letter.redelivered for letter in rig.letters] == [False, True]
        assert subscription.statistics().acked == 1
        assert rig.parked == rig.quarantined == []


async def test_acks_are_written_before_the_end(autojump_clock, rig):
    """ACK-09: shutdown as the twentieth handler returns leaves nothing that finished unacked."""
    done = 0

    async def handler(letter):
        nonlocal done
        await trio.sleep(0.001)
        done += 1
        if done == 20:
            subscription.shutdown()

    async with trio.open_nursery() as nursery:
        subscription = await nursery.start(rig.subscribe(handler, options=SubscriptionOptions(concurrency=4)))
        for _ in range(20):
            rig.publish()
        await subscription.wait_closed()
    assert subscription.statistics().acked == 20
    assert rig.ready() == 0


async def test_restart_during_heavy_publishing(autojump_clock, rig):
    """CONF-06: a restart after ten confirms fails the other waits within the bound; all fifty are parked."""
    options = SubscriptionOptions(prefetch=50, concurrency=50)
    confirmed = 0

    def tenth(occurrence):
        nonlocal confirmed
        confirmed += 1
        return confirmed > 10

    rig.broker.inject(FaultPlan([Fault("confirm", Drop(), name=PARKING, where=tenth, times=None)]))
    async with rig.subscribed(rig.handler(lambda _: PARK), options=options):
        ids = {rig.publish() for _ in range(50)}
        await trio.sleep(1)
        rig.broker.inject(None)
        rig.broker.crash(returning_acks=0)
        await trio.sleep(1)
        rig.broker.restart()
        await trio.sleep(40)
        assert len(rig.heard(SettlementFailure)) == 1
        assert rig.ready() == 0
        assert {str(c.occurrence_token)[-32:] for c in rig.parked} == {i.replace("-", "") for i in ids}


async def test_a_404_fails_both_publishes_in_flight(autojump_clock, rig):
    """CONF-07: a channel closed under two publishes fails both with the broker's text; neither is acked."""
    close = CloseChannel(404, "NOT_FOUND - no exchange 'craig.dlx' in vhost '/'", 60, 40)
    rig.broker.inject(
        FaultPlan([Fault("confirm", Delay(1.0), name=PARKING), Fault("publish", close, name=QUARANTINE)])
    )
    first = rig.envelope()[0]
    handler = rig.handler(lambda letter: PARK if letter.envelope.id == first else PERMANENT)
    async with rig.subscribed(handler, options=SubscriptionOptions(backoff_base=20)):
        rig.broker.publish("craig.dlx", "dlq.a", rig.envelope(first)[1])
        await trio.sleep(0.1)
        rig.publish()
        await trio.sleep(3)
        (failure,) = rig.heard(SettlementFailure)
        assert "no exchange 'craig.dlx'" in failure.text
        assert not any(isinstance(r, MessageAcked) for r in rig.broker.trace)
        assert rig.ready() == 2


async def test_consumer_timeout_is_a_named_end(autojump_clock, rig):
    """CHC-01: a 406 for a late acknowledgement ends the session by its own name, no settlement failure."""
    rig.broker.set_consumer_timeout(60, tick=1)
    handler = rig.handler(lambda letter: None if letter.redelivered else rig.after(100))
    async with rig.subscribed(handler) as subscription:
        rig.publish()
        await trio.sleep(70)
        assert ends(rig) == ["CONSUMER_TIMED_OUT"]
        assert "timed out" in rig.heard(SessionDown)[0].text
        assert subscription.statistics().acked == 1
        assert rig.heard(SettlementFailure) == []
        assert subscription.snapshot().parking.generation == 1


async def test_teardown_writes_nothing_to_a_dead_channel(autojump_clock, rig):
    """CHC-03: after a channel death there is exactly one reconnect, and the other arm is undisturbed."""
    close = CloseChannel(406, TIMED_OUT)
    rig.broker.inject(FaultPlan([Fault("deliver", close, name=QUEUE)]))
    async with rig.subscribed() as subscription:
        await trio.sleep(20)
        rig.publish()
        await trio.sleep(10)
        mains = [r for r in rig.broker.trace if isinstance(r, ConnectionOpened) and r.name == MAIN]
        assert len(mains) == 2
        assert ends(rig) == ["CONSUMER_TIMED_OUT"]
        assert subscription.snapshot().parking.generation == 1


@pytest.mark.parametrize(("queue", "arm"), [(QUEUE, "main"), (PARKING, "parking")])
async def test_a_deleted_queue_comes_back(autojump_clock, rig, queue, arm):
    """CCAN-01: a deleted queue ends its session at once; it is declared and bound again, and reported."""
    async with rig.subscribed(rig.handler(park_once), config=DlqRetryConfig(parking_ttl=5)):
        await trio.sleep(20)
        rig.broker.delete_queue(queue)
        await trio.sleep(0.04)
        assert ends(rig, arm) == ["CONSUMER_CANCELLED"]
        await trio.sleep(5)
        assert [event.what for event in rig.heard(TopologyRepaired)] == [f"queue {queue}"]
        envelope_id = rig.publish()
        await trio.sleep(8)
        assert rig.calls == {envelope_id: 2}


async def test_a_deleted_exchange_comes_back(autojump_clock, rig):
    """CHC-08: craig.dlx deleted while five messages fall due: declared again, all five replay once."""
    async with rig.subscribed(rig.handler(park_once), config=DlqRetryConfig(parking_ttl=30)) as subscription:
        ids = {rig.publish() for _ in range(5)}
        await trio.sleep(20)
        rig.broker.delete_exchange("craig.dlx")
        await trio.sleep(60)
        assert ends(rig, "parking") == ["SETTLEMENT_FAILED"]
        assert "exchange craig.dlx" in [event.what for event in rig.heard(TopologyRepaired)]
        assert rig.calls == dict.fromkeys(ids, 2)
        assert subscription.snapshot().main.generation == 1


async def test_a_missing_exchange_that_nobody_may_declare(autojump_clock, rig):
    """CHC-08: without permission to repair, attempts reach the 30 s cap and the other arm goes on."""
    async with rig.subscribed(rig.handler(park_once), config=DlqRetryConfig(parking_ttl=30)) as subscription:
        ids = {rig.publish() for _ in range(5)}
        await trio.sleep(20)
        rig.broker.set_permissions(configure="nothing")
        rig.broker.delete_exchange("craig.dlx")
        await trio.sleep(200)
        assert 6 <= subscription.snapshot().parking.generation <= 12
        assert rig.ready(PARKING) == 5
        assert subscription.snapshot().main.generation == 1
        rig.broker.set_permissions()
        await trio.sleep(35)
        assert rig.calls == dict.fromkeys(ids, 2)


async def test_an_unbound_exchange_returns_the_return(autojump_clock, rig):
    """RET-04, RET-05: a return that routes nowhere is no success: the parked message stays, and heals."""
    async with rig.subscribed(rig.handler(park_once), config=DlqRetryConfig(parking_ttl=30)):
        envelope_id = rig.publish()
        await trio.sleep(20)
        rig.broker.unbind("craig.dlx", QUEUE, "dlq.#")
        await trio.sleep(10.5)
        (failure,) = rig.heard(SettlementFailure)
        assert (failure.arm, failure.stage, failure.target) == ("parking", "returned", "craig.dlx")
        await trio.sleep(5)
        assert rig.calls == {envelope_id: 2}


async def test_depth_sampling_survives_a_missing_queue(autojump_clock, rig):
    """CHC-09: a deleted quarantine queue makes its gauge disappear, harms nobody, and comes back."""
    config = DlqRetryConfig(depth_sample_interval=1)
    async with rig.subscribed(config=config) as subscription:
        rig.broker.delete_queue(QUARANTINE)
        await trio.sleep(120)
        last = [event for event in rig.heard(DepthSampled) if event.sampled == QUARANTINE][-1]
        assert last.ready is None
        snapshot = subscription.snapshot()
        assert (snapshot.main.generation, snapshot.parking.generation) == (1, 1)
        rig.broker.declare_queue(QUARANTINE)
        await trio.sleep(2)
        last = [event for event in rig.heard(DepthSampled) if event.sampled == QUARANTINE][-1]
        assert last.ready == 0
    assert sum(isinstance(r, ConnectionOpened) and "depth" in r.name for r in rig.broker.trace) == 1


async def test_broker_killed_and_started_again(autojump_clock, rig):
    """CHC-11: killed and started 20 s later, both consumers and the depth gauges are back within the cap."""
    async with rig.subscribed(rig.handler(park_once), config=DlqRetryConfig(parking_ttl=10)) as subscription:
        rig.publish()
        await trio.sleep(3)
        rig.broker.crash()
        await trio.sleep(20)
        rig.broker.restart()
        await trio.sleep(35)
        snapshot = subscription.snapshot()
        assert (snapshot.main.consuming, snapshot.parking.consuming) == (True, True)
        assert None not in [event.ready for event in rig.heard(DepthSampled)][-3:]
        assert sum(rig.calls.values()) >= 2


async def test_ten_flaps(autojump_clock, rig):
    """ROB-01: after each of ten flaps each queue has one consumer, and nothing is handled twice at once."""
    running: set[str] = set()

    async def handler(letter):
        assert letter.envelope.id not in running
        running.add(letter.envelope.id)
        try:
            await trio.sleep(0.5)
        finally:
            running.discard(letter.envelope.id)

    async with rig.subscribed(handler):
        for _ in range(10):
            rig.publish()
            for name in set(rig.broker.connections):
                rig.broker.close_connection(name)
            await trio.sleep(40)
            assert rig.broker.queue(QUEUE).consumers == 1
            assert rig.broker.queue(PARKING).consumers == 1
        assert rig.ready() == 0


async def test_garbage_collection_loses_no_consumer(autojump_clock, rig):
    """ROB-02: after garbage collections and a broker restart the message is handled."""
    async with rig.subscribed():
        for _ in range(3):
            gc.collect()
        rig.broker.stop()
        await trio.sleep(1)
        rig.broker.restart()
        await trio.sleep(5)
        envelope_id = rig.publish()
        await trio.sleep(1)
        assert rig.calls == {envelope_id: 1}


async def test_reconnecting_keeps_nothing(autojump_clock, rig):
    """ROB-05: two hundred forced reconnects leave no session, connection or task behind."""
    rig.broker = MemoryBroker()
    options = SubscriptionOptions(backoff_base=0.1, backoff_cap=0.1)
    kinds = {"LiveSession", "Settler", "Publishing", "QueueConsumer", "Worker", "ParkingReplayer"}

    def alive():
        gc.collect()
        return sum(type(thing).__name__ in kinds for thing in gc.get_objects())

    async with rig.subscribed(options=options, observer=None):
        counts = []
        tasks = []
        for flap in range(200):
            for name in set(rig.broker.connections):
                rig.broker.close_connection(name)
            await trio.sleep(0.5)
            if flap in {50, 199}:
                counts.append(alive())
                tasks.append(trio.lowlevel.current_statistics().tasks_living)
        assert abs(counts[1] - counts[0]) <= 2
        assert abs(tasks[1] - tasks[0]) <= 2


async def test_settlement_failure_before_the_publish_is_confirmed_elsewhere(autojump_clock, rig):
    """Two consumers lost in one tick with a publish in flight: the copy is remembered and not made twice."""
    rig.broker.inject(FaultPlan([Fault("confirm", Delay(2.0), name=PARKING)]))
    async with rig.subscribed(rig.handler(lambda _: PARK)) as subscription:
        envelope_id = rig.publish()
        await trio.sleep(1)
        rig.broker.close_connection(MAIN)
        await trio.sleep(10)
        assert ends(rig) == ["SETTLEMENT_FAILED"]
        assert rig.calls == {envelope_id: 1}
        assert subscription.statistics().duplicates_absorbed == 1
        copies = [r for r in rig.broker.trace if isinstance(r, MessagePublished) and r.connection]
        assert len(copies) == 1


async def test_a_refused_size_teaches_the_arm(autojump_clock, rig):
    """CHC-07: a 406 for size lowers the arm's limit: one copy follows, and no loop."""
    rig.broker.set_max_message_size(200_000)
    noise = random.Random(1).randbytes(150_000).hex()
    async with rig.subscribed(rig.handler(lambda _: PARK)) as subscription:
        _, body = rig.envelope(payload={"noise": noise[:199_600]})
        assert len(body) < 200_000
        rig.broker.publish("craig.dlx", "dlq.a", body)
        await trio.sleep(30)
        assert subscription.snapshot().main.size_limit == 200_000
        assert ends(rig) == ["SETTLEMENT_FAILED"]
        assert len(rig.parked) + len(rig.quarantined) == 1
        assert rig.ready() == 0


async def test_up_is_not_connected(autojump_clock, rig):
    """ROB-03: the consumer-up signal is down from the end of one session until the next consumes."""
    async with rig.subscribed() as subscription:
        await trio.sleep(20)
        rig.broker.stop()
        await trio.sleep(1)
        assert subscription.snapshot().main.consuming is False
        rig.broker.restart()
        await trio.sleep(5)
        assert subscription.snapshot().main.consuming is True
        assert [event.generation for event in rig.heard(SessionUp) if event.arm == "main"][-1] >= 2


async def test_a_redriven_capture_that_fails_again_is_quarantined_again(autojump_clock, rig):
    """RET-07: a quarantined capture sent back under its original key is quarantined again."""
    async with rig.subscribed(rig.handler(lambda _: PERMANENT)):
        envelope_id = rig.publish("dlq.svc.a")
        await trio.sleep(1)
        (body,) = rig.broker.queue(QUARANTINE).bodies
        (first,) = rig.quarantined
        rig.broker.publish("craig.dlx", first.original_routing_key, body)
        await trio.sleep(1)
        assert rig.calls == {envelope_id: 2}
        assert [capture.original_routing_key for capture in rig.quarantined] == ["dlq.svc.a"] * 2
        assert {capture.occurrence_token for capture in rig.quarantined} == {first.occurrence_token}


async def test_cancelled_while_consuming_leaves_no_consumer(autojump_clock, rig):
    """CCAN-03: a start cancelled between basic.consume and its answer leaves no consumer at the broker."""
    for _ in range(20):
        rig.broker.inject(FaultPlan([Fault("consume", Delay(1.0), times=None)]))
        with trio.move_on_after(0.5):
            async with trio.open_nursery() as nursery:
                await nursery.start(rig.subscribe())
    rig.broker.inject(None)
    async with rig.subscribed():
        await trio.sleep(3)
        assert len(rig.broker.connections) == 3
        assert rig.broker.queue(QUEUE).consumers == rig.broker.queue(PARKING).consumers == 1


async def test_a_half_open_parking_connection(autojump_clock, rig):
    """HALF-04: while the broker holds a dead connection's delivery the new session waits quietly."""
    config = DlqRetryConfig(parking_ttl=15)
    async with rig.subscribed(rig.handler(park_once), config=config) as subscription:
        envelope_id = rig.publish()
        await trio.sleep(5)
        assert rig.broker.queue(PARKING).unacked == 1
        rig.broker.freeze(f"craig_mq {QUEUE} parking")
        await trio.sleep(120)
        assert subscription.snapshot().parking.consuming
        assert subscription.snapshot().parking.generation == 2
        assert rig.calls == {envelope_id: 2}
        assert subscription.snapshot().main.generation == 1


async def test_a_late_confirm_after_the_bound_is_still_unknown(autojump_clock, rig):
    """CONF-02: a confirm that comes after its bound is no evidence: two copies, two captures."""
    rig.broker.inject(FaultPlan([Fault("confirm", Delay(40.0), name=QUARANTINE)]))
    async with rig.subscribed(rig.handler(lambda _: PERMANENT)):
        rig.publish()
        await trio.sleep(30.5)
        assert [failure.stage for failure in rig.heard(SettlementFailure)] == ["unknown"]
        await trio.sleep(30)
        copies = rig.quarantined
        assert len(copies) == 2
        assert len({copy.capture_id for copy in copies}) == 2
        assert len({copy.occurrence_token for copy in copies}) == 1
