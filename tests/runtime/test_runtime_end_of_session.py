"""The order in which a session ends: its work, then its publishing connection, then its settler."""

from __future__ import annotations

import pytest
import trio

from craig_mq import Disposition, SubscriptionOptions
from craig_mq.observe.events import DeliveryFinished, OldestParked, SessionDown, SettlementFailure
from craig_mq.runtime.work_tasks import WorkTasks
from craig_mq.transport.memory.fault_actions import Hang
from craig_mq.transport.memory.faults import Fault, FaultPlan

PARK = Disposition.TRANSIENT_PARK
QUEUE = "security.dlq"


@pytest.mark.parametrize(("arm", "after"), [("main", 1), ("parking", 605)])
async def test_a_lost_connection_is_the_end_while_a_publish_has_not_begun(autojump_clock, rig, arm, after):
    """A session that loses its connection while its publishing side still dials ends as CONNECTION_LOST."""
    async with rig.subscribed(rig.handler(lambda _: PARK)):
        dial = f"craig_mq {QUEUE} {arm} publishing"
        rig.broker.inject(FaultPlan([Fault("connect", Hang(), times=None, name=dial)]))
        rig.publish()
        await trio.sleep(after)
        rig.broker.close_connection(f"craig_mq {QUEUE} {arm}")
        with trio.fail_after(20):
            while not rig.heard(SessionDown):
                await trio.sleep(0.5)
        assert [(event.arm, event.end) for event in rig.heard(SessionDown)] == [(arm, "CONNECTION_LOST")]
        assert rig.heard(SettlementFailure) == []


async def test_handlers_that_end_late_are_acked_as_they_end(autojump_clock, rig):
    """S40: a handler that ends long after the shutdown is acked then, however long others still take."""
    ends = [17, 18.5, 28]

    async def outlast(_letter):
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 60):
            await trio.sleep(ends.pop(0))

    options = SubscriptionOptions(prefetch=8, concurrency=4)
    async with trio.open_nursery() as nursery:
        subscription = await nursery.start(rig.subscribe(outlast, options=options))
        for _ in range(3):
            rig.publish()
        await trio.sleep(1)
        subscription.shutdown()
        await subscription.wait_closed()
    assert [event.outcome for event in rig.heard(DeliveryFinished)] == ["acked"] * 3
    assert rig.heard_at(DeliveryFinished) == [17, 18.5, 28]
    assert {event.end for event in rig.heard(SessionDown)} == {"SHUTDOWN"}
    assert rig.ready() == 0


async def test_a_wait_that_shutdown_ends_says_nothing_of_the_head(autojump_clock, rig):
    """A shutdown while the parking queue gives nothing does not count as the queue being empty."""
    async with rig.subscribed(rig.handler(lambda _: None)) as subscription:
        await trio.sleep(0.5)
        subscription.shutdown()
        await subscription.wait_closed()
    assert rig.heard(OldestParked) == []


async def test_what_is_started_after_the_end_runs_to_its_first_checkpoint(autojump_clock):
    """Work is cancelled and waited for by itself; the rest of the nursery goes on."""
    seen = []

    async def work(name):
        seen.append(f"{name} begins")
        try:
            await trio.sleep_forever()
        finally:
            seen.append(f"{name} ends")

    async def work_here(tasks):
        with (scope := tasks.enter()):
            await work("here")
        tasks.leave(scope)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work, "other")
        tasks = WorkTasks(nursery)
        tasks.start_soon(work, "early")
        nursery.start_soon(work_here, tasks)
        await trio.sleep(1)
        tasks.start_soon(work, "late")
        await tasks.end()
        assert sorted(seen[3:]) == ["early ends", "here ends", "late begins", "late ends"]
        nursery.cancel_scope.cancel()
