"""The linkage table of the two arms, every cell (supervision: linkage)."""

from __future__ import annotations

import pytest
import trio
import trio.lowlevel

from craig_mq import Disposition, DlqRetryConfig, SubscribeDlqError, SubscriptionOptions
from craig_mq.observe.events import (
    BackoffChanged,
    DepthSampled,
    HandlersStuck,
    SessionDown,
    SubscriptionEnded,
)
from craig_mq.runtime.errors import SubscriptionCancelled, SubscriptionCrashed
from craig_mq.transport.memory.fault_actions import Hang, LateSuccess, Nack
from craig_mq.transport.memory.faults import Fault, FaultPlan
from craig_mq.transport.memory.trace import ConnectionEnded, ConnectionOpened, ConsumerEnded, MessageAcked
from supervisors import StuckError

PARK = Disposition.TRANSIENT_PARK
QUEUE, PARKING = "security.dlq", "security.dlq.parking"
CONNECTION = {arm: f"craig_mq {QUEUE} {arm}" for arm in ("main", "parking", "depth")}


def ends(rig, arm):
    return [event.end for event in rig.heard(SessionDown) if event.arm == arm]


def waits(rig, arm):
    return [event.seconds for event in rig.heard(BackoffChanged) if event.arm == arm and event.seconds]


async def test_main_settlement_failure_leaves_parking_alone(autojump_clock, rig):
    """Main settlement failure: parking keeps its generation, main restarts with its k + 1."""
    rig.broker.inject(FaultPlan([Fault("confirm", Nack(), name=PARKING, times=2)]))
    async with rig.subscribed(rig.handler(lambda _: PARK)) as subscription:
        rig.publish()
        await trio.sleep(10)
        snapshot = subscription.snapshot()
        assert (snapshot.main.generation, snapshot.parking.generation) == (3, 1)
        assert waits(rig, "main") == [1, 2]


@pytest.mark.parametrize(("arm", "other"), [("main", "parking"), ("parking", "main")])
async def test_a_lost_connection_restarts_its_arm_only(autojump_clock, rig, arm, other):
    """ROB-07: a connection lost to one arm restarts that session alone; the other keeps its generation."""
    async with rig.subscribed() as subscription:
        await trio.sleep(20)
        rig.broker.close_connection(CONNECTION[arm])
        await trio.sleep(5)
        snapshot = subscription.snapshot()
        assert getattr(snapshot, arm).generation == 2
        assert getattr(snapshot, other).generation == 1
        assert ends(rig, arm) == ["CONNECTION_LOST"]
        assert rig.broker.queue(QUEUE).consumers == 1


async def test_parking_settlement_failure_leaves_main_alone(autojump_clock, rig):
    """Parking settlement failure: main keeps its generation, parking backs off by its own count."""
    rig.broker.inject(FaultPlan([Fault("confirm", Nack(), name="craig.dlx", times=3)]))
    handler = rig.handler(lambda letter: PARK if letter.park_count == 0 else None)
    async with rig.subscribed(handler, config=DlqRetryConfig(parking_ttl=10)) as subscription:
        rig.publish()
        await trio.sleep(30)
        snapshot = subscription.snapshot()
        assert (snapshot.main.generation, snapshot.parking.generation) == (1, 4)
        assert waits(rig, "parking") == [1, 2, 4]
        assert waits(rig, "main") == []


async def test_both_sessions_in_one_tick_are_independent(autojump_clock, rig):
    """Both connections lost in one tick: each arm restarts its own session by its own backoff."""
    async with rig.subscribed() as subscription:
        await trio.sleep(20)
        rig.broker.close_connection(CONNECTION["main"])
        rig.broker.close_connection(CONNECTION["parking"])
        await trio.sleep(5)
        snapshot = subscription.snapshot()
        assert (snapshot.main.generation, snapshot.parking.generation) == (2, 2)
        assert (snapshot.main.consuming, snapshot.parking.consuming) == (True, True)


async def test_the_sampler_dies_alone(autojump_clock, rig):
    """The sampler's end: both arms keep, it comes back after its backoff, its gauges are gone meanwhile."""
    async with rig.subscribed(config=DlqRetryConfig(depth_sample_interval=5)) as subscription:
        await trio.sleep(12)
        rig.broker.close_connection(CONNECTION["depth"])
        await trio.sleep(0.01)
        assert [event.ready for event in rig.heard(DepthSampled)][-3:] == [None, None, None]
        await trio.sleep(10)
        assert [event.ready for event in rig.heard(DepthSampled)][-3:] == [0, 0, 0]
        snapshot = subscription.snapshot()
        assert (snapshot.main.generation, snapshot.parking.generation) == (1, 1)


@pytest.mark.parametrize("arm", ["main", "parking"])
async def test_an_unforeseen_error_takes_the_subscription_down_visibly(autojump_clock, rig, arm, monkeypatch):
    """An arm's unexpected error ends the other arm; wait_closed and snapshot show its cause."""
    bug = ZeroDivisionError("a bug")

    def explode(*_, **__):
        raise bug

    target = "craig_mq.runtime.perform.build_dead_letter_delivery"
    if arm == "parking":
        target = "craig_mq.runtime.replayer.read_parked"
    subscription = None
    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - the nursery is what raises
        async with trio.open_nursery() as nursery:
            subscription = await nursery.start(rig.subscribe(rig.handler(lambda _: PARK)))
            monkeypatch.setattr(target, explode)
            rig.publish()
            await trio.sleep(60)
    (crash,) = caught.value.exceptions
    assert isinstance(crash, SubscriptionCrashed)
    assert crash.exceptions == (bug,)
    assert subscription is not None
    with pytest.raises(SubscriptionCrashed):
        await subscription.wait_closed()
    assert subscription.snapshot().error == "SubscriptionCrashed"
    assert rig.heard(SubscriptionEnded)[0].error == "SubscriptionCrashed"
    assert set(ends(rig, "main") + ends(rig, "parking")) == {"CANCELLED"}
    assert rig.broker.connections == ()


async def test_both_arms_causes_are_kept(autojump_clock, rig, monkeypatch):
    """Two arms that end by errors of their own raise both causes."""

    def explode_main(*_, **__):
        raise ZeroDivisionError

    def explode_parking(*_, **__):
        raise KeyError

    monkeypatch.setattr("craig_mq.runtime.perform.build_dead_letter_delivery", explode_main)
    monkeypatch.setattr("craig_mq.runtime.replayer.read_parked", explode_parking)
    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - the nursery is what raises
        async with trio.open_nursery() as nursery:
            await nursery.start(rig.subscribe())
            rig.broker.publish("", PARKING, b"x")
            rig.publish()
            await trio.sleep(1)
    found = {type(leaf) for leaf in caught.value.exceptions[0].exceptions}
    assert found == {ZeroDivisionError, KeyError}


async def test_graceful_shutdown_drains_main_then_parking(autojump_clock, rig):
    """A shutdown lets main finish its handler and ack before the parking arm stops; it returns normally."""
    async with trio.open_nursery() as nursery:
        subscription = await nursery.start(rig.subscribe(rig.handler(lambda _: rig.after(3))))
        rig.publish()
        await trio.sleep(1)
        started = len(rig.broker.trace)
        subscription.shutdown()
        await trio.sleep(1)
        assert rig.broker.queue(PARKING).consumers == 1
        await subscription.wait_closed()
    assert rig.now == pytest.approx(3.0)
    assert subscription.statistics().acked == 1
    ended = [r.name for r in rig.broker.trace[started:] if isinstance(r, ConnectionEnded)]
    assert ended == [CONNECTION["main"], CONNECTION["parking"], CONNECTION["depth"]]
    assert rig.heard(SubscriptionEnded)[0].error is None
    assert ends(rig, "main") == ends(rig, "parking") == ["SHUTDOWN"]


async def test_drain_deadline_leaves_the_rest_unacked(autojump_clock, rig):
    """What is not finished within drain_timeout is cancelled and comes back; what finished was acked."""
    handler = rig.handler(lambda letter: rig.after(5 if letter.envelope.id == quick else 60))
    quick = ""
    async with trio.open_nursery() as nursery:
        subscription = await nursery.start(rig.subscribe(handler, options=SubscriptionOptions(concurrency=2)))
        quick = rig.publish()
        await trio.lowlevel.checkpoint()
        rig.publish()
        rig.publish()
        await trio.sleep(0.5)
        subscription.shutdown()
        await subscription.wait_closed()
    assert rig.now == pytest.approx(10.5, abs=0.1)
    assert (subscription.statistics().acked, subscription.statistics().unsettled) == (1, 1)
    assert rig.ready() == 2


async def test_a_message_in_hand_is_given_to_nobody_else_during_drain(autojump_clock, rig):
    """CMID-05: while a draining replica works on a message, no other replica gets it; it acks."""
    slow = rig.handler(lambda _: rig.after(5))
    other: list[str] = []

    async def other_handler(letter):
        other.append(letter.envelope.id)

    async with trio.open_nursery() as nursery:
        first = await nursery.start(rig.subscribe(slow))
        held = rig.publish()
        await trio.sleep(1)
        second = await nursery.start(rig.subscribe(other_handler))
        first.shutdown()
        await trio.sleep(0.1)
        fresh = rig.publish()
        await first.wait_closed()
        await trio.sleep(1)
        second.shutdown()
    assert rig.calls == {held: 1}
    assert other == [fresh]


async def test_shutdown_in_backoff_ends_that_arm_at_once(autojump_clock, rig):
    """CLH-04: shutdown while main waits in backoff ends it at once and dials nothing more."""
    rig.broker.inject(FaultPlan([Fault("confirm", Nack(), name=PARKING, times=None)]))
    async with rig.subscribed(rig.handler(lambda _: PARK)) as subscription:
        rig.publish()
        await trio.sleep(20)
        dials = sum(isinstance(r, ConnectionOpened) for r in rig.broker.trace)
        subscription.shutdown()
        await subscription.wait_closed()
        assert rig.now == pytest.approx(20, abs=0.01)
        assert dials == sum(isinstance(r, ConnectionOpened) for r in rig.broker.trace)


async def test_shutdown_while_a_session_starts(autojump_clock, rig):
    """A start that hangs is cancelled by shutdown; nothing is dialled again and it returns normally."""
    async with rig.subscribed() as subscription:
        await trio.sleep(20)
        rig.broker.inject(FaultPlan([Fault("connect", Hang(), connection=CONNECTION["main"])]))
        rig.broker.close_connection(CONNECTION["main"])
        await trio.sleep(3)
        assert subscription.snapshot().main.consuming is False
        subscription.shutdown()
        await subscription.wait_closed()
        assert rig.now == pytest.approx(23, abs=0.1)


async def test_a_settlement_failure_during_drain_is_reported_only(autojump_clock, rig):
    """A settlement failure met while draining is reported and the drain goes on; it returns normally."""
    async with trio.open_nursery() as nursery:
        subscription = await nursery.start(rig.subscribe(rig.handler(lambda _: rig.after(2))))
        rig.publish()
        await trio.sleep(1)
        rig.broker.inject(FaultPlan([Fault("ack", Hang(), name=QUEUE)]))
        subscription.shutdown()
        await subscription.wait_closed()
    assert rig.now == pytest.approx(7.0, abs=0.1)
    assert ends(rig, "main") == ["SETTLEMENT_FAILED"]
    assert ends(rig, "parking") == ["SHUTDOWN"]


async def test_another_error_during_drain_is_raised_after_the_stop(autojump_clock, rig, monkeypatch):
    """Another error during the drain is raised once everything has stopped."""
    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - the nursery is what raises
        async with trio.open_nursery() as nursery:
            subscription = await nursery.start(rig.subscribe(rig.handler(lambda _: rig.after(2))))
            rig.publish()
            await trio.sleep(1)
            monkeypatch.setattr(
                "craig_mq.runtime.settler.Settler.ack", lambda *_: (_ for _ in ()).throw(KeyError("bug"))
            )
            subscription.shutdown()
    (crash,) = caught.value.exceptions
    assert isinstance(crash, SubscriptionCrashed)
    assert [type(error) for error in crash.exceptions] == [KeyError]
    assert ends(rig, "parking") == ["SHUTDOWN"]


@pytest.mark.parametrize("drain_first", [False, True])
async def test_parent_cancel_stops_in_reverse_and_writes_what_was_begun(autojump_clock, rig, drain_first):
    """A parent's cancel, also over a drain, ends main before parking; a begun ack is written."""
    rig.broker.inject(FaultPlan([Fault("flush", LateSuccess(3.0), connection=CONNECTION["main"])]))
    slow = ""
    handler = rig.handler(lambda letter: rig.after(60) if letter.envelope.id == slow else None)
    subscription = None
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            subscription = await nursery.start(rig.subscribe(handler))
            slow, body = rig.envelope()
            rig.broker.publish("craig.dlx", "dlq.a", body)
            rig.publish()
            await trio.sleep(1)
            if drain_first:
                subscription.shutdown()
                await trio.sleep(1)
            scope.cancel(reason="test")
    assert 3.0 <= rig.now <= 8.0
    assert sum(isinstance(r, MessageAcked) for r in rig.broker.trace) == 1
    assert rig.ready() == 1
    ended = [r.queue for r in rig.broker.trace if isinstance(r, ConsumerEnded)]
    assert ended == [QUEUE, PARKING]
    assert subscription is not None
    with pytest.raises(SubscriptionCancelled):
        await subscription.wait_closed()
    assert ends(rig, "parking") == ["CANCELLED"]


async def test_no_new_connection_after_shutdown(autojump_clock, rig):
    """CLH-06: a channel closed in the same tick as shutdown opens no new connection; all tasks end."""
    for _ in range(20):
        async with trio.open_nursery() as nursery:
            subscription = await nursery.start(rig.subscribe())
            await trio.sleep(0.1)
            before = sum(isinstance(r, ConnectionOpened) for r in rig.broker.trace)
            rig.broker.close_connection(CONNECTION["main"])
            subscription.shutdown()
        assert sum(isinstance(r, ConnectionOpened) for r in rig.broker.trace) == before


async def ignore_cancellation(_):
    """A handler that goes on for 20 s whatever happens."""
    with trio.CancelScope(shield=True, deadline=trio.current_time() + 20):
        await trio.sleep_forever()


async def test_stuck_handler_is_reported_and_awaited(autojump_clock, rig):
    """A handler that ignores its cancellation is reported once an interval; the next session waits (S50)."""
    async with rig.subscribed(ignore_cancellation) as subscription:
        rig.publish()
        await trio.sleep(1)
        rig.broker.close_connection(CONNECTION["main"])
        await trio.sleep(15)
        assert rig.heard_at(HandlersStuck) == [3.0, 8.0, 13.0]
        assert [(event.count, event.seconds) for event in rig.heard(HandlersStuck)] == [
            (1, 2),
            (1, 7),
            (1, 12),
        ]
        assert subscription.snapshot().main.generation == 1
        await trio.sleep(10)
        assert rig.heard_at(HandlersStuck)[3:] == [18.0]
        assert subscription.snapshot().main.generation == 2


async def test_a_handler_stuck_in_a_shutdown(autojump_clock, rig):
    """A handler that outlives the drain is reported once an interval; the end waits for it (S50)."""
    options = SubscriptionOptions(drain_timeout=1)
    async with trio.open_nursery() as nursery:
        subscription = await nursery.start(rig.subscribe(ignore_cancellation, options=options))
        rig.publish()
        await trio.sleep(1)
        subscription.shutdown()
    assert rig.heard_at(HandlersStuck) == [4.0, 9.0, 14.0, 19.0]
    assert rig.now == pytest.approx(20.0, abs=0.01)


async def test_a_handler_stuck_in_a_cancel(autojump_clock, rig):
    """A handler that ignores the parent's cancel is reported once an interval, then raised as STUCK (S50)."""
    with pytest.raises(BaseExceptionGroup) as caught, trio.move_on_after(1):  # noqa: PT012 - the nursery raises
        async with trio.open_nursery() as nursery:
            await nursery.start(rig.subscribe(ignore_cancellation))
            rig.publish()
    assert rig.heard_at(HandlersStuck) == [3.0, 8.0, 13.0, 18.0]
    assert rig.now == pytest.approx(20.0, abs=0.01)
    assert caught.value.subgroup(StuckError) is not None


async def test_refusal_leaves_nothing_running(autojump_clock, rig):
    """First start refused: SubscribeDlqError at once, every connection closed, no consumer left."""
    rig.broker.set_permissions(read="nothing")
    async with trio.open_nursery() as nursery:
        with pytest.raises(SubscribeDlqError) as caught:
            await nursery.start(rig.subscribe())
    assert caught.value.kind.value == "amqp"
    assert rig.now < 1
    assert rig.broker.connections == ()
