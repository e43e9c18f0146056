"""A broker that blocks publishing: wait, hold nothing new, resume (decisions, 7 and 10; CONF-03, CONF-04)."""

from __future__ import annotations

import pytest
import trio

from craig_mq import Disposition, SubscriptionOptions
from craig_mq.observe.events import BlockedChanged, SessionDown, SettlementFailure
from craig_mq.transport.memory.fault_actions import Drop
from craig_mq.transport.memory.faults import Fault, FaultPlan
from craig_mq.transport.memory.trace import ConnectionOpened, MessagePublished

PARK = Disposition.TRANSIENT_PARK
QUEUE, PARKING = "security.dlq", "security.dlq.parking"


async def test_an_alarm_stops_the_confirm_timer(autojump_clock, rig):
    """CONF-03: while blocked a publish waits without its timer, once it clears the message parks once."""
    async with rig.subscribed(rig.handler(lambda _: PARK)) as subscription:
        await trio.sleep(1)
        rig.broker.alarm(on=True)
        rig.publish()
        await trio.sleep(300)
        assert subscription.snapshot().main.blocked
        assert len(rig.heard(BlockedChanged)) == 1
        rig.broker.alarm(on=False)
        await trio.sleep(1)
        assert subscription.snapshot().main.blocked is None
        assert subscription.snapshot().main.generation == 1
        assert len(rig.parked) == 1
    assert rig.heard(SettlementFailure) == []


async def test_while_blocked_nothing_that_has_not_started_is_held(autojump_clock, rig):
    """On connection.blocked the consumer is cancelled and what has not started is requeued, then resumed."""
    options = SubscriptionOptions(prefetch=10, concurrency=2)

    async def park_slowly():
        await trio.sleep(1)
        return PARK

    async with rig.subscribed(rig.handler(lambda _: park_slowly()), options=options) as subscription:
        rig.broker.alarm(on=True)
        for _ in range(10):
            rig.publish()
        await trio.sleep(5)
        view = rig.broker.queue(QUEUE)
        assert view.consumers == 0
        assert (view.ready, view.unacked) == (8, 2)
        rig.broker.alarm(on=False)
        await trio.sleep(10)
        assert rig.broker.queue(QUEUE).consumers == 1
        assert subscription.statistics().parked == 10
        assert len(rig.parked) == 10


async def test_acks_go_on_while_publishing_is_blocked(autojump_clock, rig):
    """CONF-04: deliveries that need no publish are acked and processed while publishing is blocked."""
    options = SubscriptionOptions(prefetch=5)
    parked = rig.envelope()[0]

    async def finish_later():
        await trio.sleep(2)

    def script(letter):
        return PARK if letter.envelope.id == parked else finish_later()

    async with rig.subscribed(rig.handler(script), options=options) as subscription:
        rig.broker.alarm(on=True)
        rig.broker.publish("craig.dlx", "dlq.a", rig.envelope(parked)[1])
        rig.publish()
        rig.publish()
        await trio.sleep(5)
        assert subscription.statistics().acked == 2
        assert rig.broker.queue(QUEUE).unacked == 1
        rig.broker.alarm(on=False)
        await trio.sleep(1)
        assert len(rig.parked) == 1


async def test_shutdown_while_blocked_resets_the_publishing_connection(autojump_clock, rig):
    """A publish that shutdown cuts during an alarm fails no settlement, is reset, and never executed (7)."""
    async with trio.open_nursery() as nursery:
        subscription = await nursery.start(rig.subscribe(rig.handler(lambda _: PARK)))
        rig.broker.alarm(on=True)
        rig.publish()
        await trio.sleep(1)
        subscription.shutdown()
        await subscription.wait_closed()
    assert rig.now <= 20
    assert {event.end for event in rig.heard(SessionDown)} == {"SHUTDOWN"}
    assert rig.heard(SettlementFailure) == []
    rig.broker.alarm(on=False)
    await trio.sleep(1)
    assert not any(isinstance(r, MessagePublished) and r.connection for r in rig.broker.trace)
    assert (rig.ready(), rig.ready(PARKING)) == (1, 0)


@pytest.mark.parametrize("deliveries", [1, 20])
async def test_an_unknown_outcome_costs_one_copy_per_rebuild(autojump_clock, rig, deliveries):
    """After an unknown outcome the next generation publishes one message alone first (decisions, 7)."""
    rig.broker.inject(FaultPlan([Fault("confirm", Drop(), name=PARKING, times=None)]))
    options = SubscriptionOptions(prefetch=32, concurrency=20, confirm_timeout=2)
    async with rig.subscribed(rig.handler(lambda _: PARK), options=options):
        for _ in range(deliveries):
            rig.publish()
        await trio.sleep(2.5)
        first = rig.ready(PARKING)
        assert first == deliveries
        await trio.sleep(60)
        rebuilds = sum(event.arm == "main" for event in rig.heard(SessionDown)) - 1
        assert rebuilds >= 3
        assert rig.ready(PARKING) - first <= rebuilds + 1
        rig.broker.inject(None)
        await trio.sleep(40)
        assert rig.ready() == 0


async def test_alarm_does_not_make_a_tight_loop(autojump_clock, rig):
    """CONF-03: an alarm nobody announces makes few connections: confirms time out, backoff grows."""
    rig.broker.inject(FaultPlan([Fault("confirm", Drop(), name=PARKING, times=None)]))
    async with rig.subscribed(rig.handler(lambda _: PARK), options=SubscriptionOptions(confirm_timeout=1)):
        rig.publish()
        await trio.sleep(1)
        before = sum(isinstance(r, ConnectionOpened) for r in rig.broker.trace)
        await trio.sleep(60)
        assert sum(isinstance(r, ConnectionOpened) for r in rig.broker.trace) - before < 12
