"""Small parts of the runtime: sources, reporter, loop watch, size memory, intake."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import trio
import trio.lowlevel

from craig_mq.core.capture_format import is_capture_id
from craig_mq.core.close import ChannelClose, LocalClose
from craig_mq.core.delivery import Delivery
from craig_mq.core.outcome import ACKED, Unconfirmed
from craig_mq.observe.events import InflightChanged, LoopBlocked, SubscriptionEnded
from craig_mq.runtime.arm_memory import KEPT_WHOLE_BYTES, ArmMemory
from craig_mq.runtime.intake import Intake
from craig_mq.runtime.loop_watchdog import WatchingLoop
from craig_mq.runtime.reporting import Reporter
from craig_mq.runtime.sources import Sources, system_uuid7


def test_system_ids_are_unique_over_threads():
    """Threads that draw ids at the same time get a thousand different ones each, and no error."""

    def draw(_):
        return [system_uuid7() for _ in range(1_000)]

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            drawn = [identity for ids in threads.map(draw, range(16)) for identity in ids]
    finally:
        sys.setswitchinterval(before)
    assert len(set(drawn)) == len(drawn) == 16_000


def test_system_ids_are_fresh_uuid7s():
    """The default source gives distinct, well-formed UUIDv7s that start with the time."""
    ids = {Sources().uuid7() for _ in range(100)}
    assert len(ids) == 100
    assert all(is_capture_id(text) for text in ids)


def test_an_observer_that_raises_changes_nothing():
    """S53: an observer's Exception is counted and goes no further; it hears the next event, too."""
    heard = []

    def observer(event):
        heard.append(event)
        raise ValueError("observer")

    reporter = Reporter(observer)
    reporter.emit(SubscriptionEnded("q", None))
    reporter.emit(SubscriptionEnded("q", None))
    assert (len(heard), reporter.observer_errors) == (2, 2)


async def test_a_raising_observer_does_not_disturb_a_subscription(autojump_clock, rig):
    """S53: with an observer that always raises, dead letters are still settled."""

    def observer(event):
        raise RuntimeError("observer")

    async with rig.subscribed(observer=observer) as subscription:
        rig.publish()
        await trio.sleep(1)
        assert subscription.statistics().acked == 1


async def test_a_blocking_handler_is_reported():
    """HB-01: a pass of the loop that takes over a second is reported with its length."""
    heard = []
    with WatchingLoop(Reporter(heard.append), "q"):
        await trio.lowlevel.checkpoint()
        time.sleep(1.2)  # noqa: ASYNC251 - blocking the loop is what this is about
        await trio.lowlevel.checkpoint()
    (event,) = heard
    assert isinstance(event, LoopBlocked)
    assert 1.1 < event.seconds < 10


def delivery(body=b"x", *, redelivered=False, key="dlq.a"):
    return Delivery(1, "craig.dlx", key, redelivered, body)


@pytest.mark.parametrize("size", [1, KEPT_WHOLE_BYTES + 1])
def test_a_confirmed_delivery_serves_once(size):
    """A redelivery of a confirmed delivery is absorbed once, small or large; others are not."""
    memory = ArmMemory("main")
    memory.confirmed(delivery(b"x" * size))
    assert not memory.confirmed_before(delivery(b"x" * size))
    assert not memory.confirmed_before(delivery(b"x" * size, redelivered=True, key="dlq.b"))
    assert memory.confirmed_before(delivery(b"x" * size, redelivered=True))
    assert not memory.confirmed_before(delivery(b"x" * size, redelivered=True))


def test_the_memory_of_confirmed_deliveries_is_bounded():
    """Only the latest thousand confirmed deliveries are remembered."""
    memory = ArmMemory("main")
    for number in range(1_001):
        memory.confirmed(delivery(str(number).encode()))
    assert not memory.confirmed_before(delivery(b"0", redelivered=True))
    assert memory.confirmed_before(delivery(b"1", redelivered=True))


def test_an_unknown_outcome_asks_for_one_publish_alone():
    """Only an outcome that may have been sent asks for it, and only a clean confirm ends it."""
    memory = ArmMemory("main")
    memory.publish_resolved(Unconfirmed("no connection", sent=False))
    assert not memory.publish_alone_first
    memory.publish_resolved(Unconfirmed("timeout"))
    memory.publish_resolved(Unconfirmed("no connection", sent=False))
    assert memory.publish_alone_first
    memory.publish_resolved(ACKED)
    assert not memory.publish_alone_first


def test_only_a_size_refusal_teaches_a_limit():
    """A 406 about size lowers the limit and never raises it; other closes teach nothing."""
    memory = ArmMemory("main")
    before = memory.size_limit
    memory.size_refused(None)
    memory.size_refused(LocalClose(aborted=True))
    assert memory.size_limit == before
    text = "PRECONDITION_FAILED - message size 9 is larger than configured max size {}"
    memory.size_refused(ChannelClose(406, text.format(1_000_000), 60, 40))
    memory.size_refused(ChannelClose(406, text.format(2_000_000), 60, 40))
    assert memory.size_limit == 1_000_000


class FakeConsumer:
    """Gives what it was given; waits for ever otherwise."""

    tag = "t"

    def __init__(self, *deliveries):
        self.deliveries = list(deliveries)

    def receive_nowait(self):
        return self.deliveries.pop(0) if self.deliveries else None

    async def receive(self):
        await trio.sleep_forever()

    async def cancel(self):
        await trio.lowlevel.checkpoint()
        left, self.deliveries = self.deliveries, []
        return left


async def test_a_due_retry_wakes_one_idle_worker(autojump_clock):
    """A retry that is due cancels one idle worker's scope, and only that one's."""
    intake = Intake[str]()
    intake.attach(FakeConsumer())
    scopes = [trio.CancelScope(), trio.CancelScope()]

    async def wait(scope):
        with scope:
            await intake.take(scope)

    async with trio.open_nursery() as nursery:
        for scope in scopes:
            nursery.start_soon(wait, scope)
        await trio.sleep(1)
        intake.resume("retry")
        await trio.sleep(1)
        assert sum(scope.cancelled_caught for scope in scopes) == 1
        assert intake.due_nowait() == "retry"
        nursery.cancel_scope.cancel(reason="done")


async def test_pause_returns_what_was_buffered_and_stops_taking(autojump_clock):
    """A paused intake gives nothing; what its consumer had buffered goes back to the caller."""
    first = delivery()
    intake = Intake[str]()
    intake.attach(FakeConsumer(first))
    assert await intake.pause() == [first]
    assert intake.take_nowait() is None
    assert not intake.consuming
    assert await intake.pause() == []


async def test_a_stopped_intake_says_so_to_everybody(autojump_clock):
    """After stop nobody gets anything, whoever waits is told, and retries not taken are returned."""
    intake = Intake[str]()
    opened = []

    async def ask():
        opened.append(await intake.opened())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.sleep(1)
        intake.stop()
    assert opened == [False]
    intake.resume("late")
    intake.stop()
    assert intake.due_nowait() is None


async def test_the_level_in_flight_is_told(autojump_clock, rig):
    """The level of deliveries in hand rises when work comes and is 0 again when it is done."""
    async with rig.subscribed(rig.handler(lambda _: rig.after(1))):
        for _ in range(3):
            rig.publish()
        await trio.sleep(0.5)
        assert rig.heard(InflightChanged)[-1].count == 3
        await trio.sleep(1)
        assert rig.heard(InflightChanged)[-1].count == 0
