"""Outages of a real RabbitMQ: lost confirms, kills, a short consumer_timeout; nothing is lost."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from craig_mq import Disposition, DlqRetryConfig, SubscriptionOptions
from craig_mq.observe.events import SessionDown, SettlementFailure
from craig_mq.testing.proxy import Direction, open_tcp_proxy
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.opening import open_broker
from craig_mq.transport.url import parse_amqp_url

pytestmark = pytest.mark.broker

PARK = Disposition.TRANSIENT_PARK
QUEUE, PARKING, QUARANTINE = "security.dlq", "security.dlq.parking", "security.dlq.quarantine"


@pytest.mark.parametrize("station", ["native"], indirect=True)
async def test_a_lost_confirm_is_an_unknown_outcome(station, rabbit, vhost_url):
    """CONF-01: a confirm that never comes leaves the original unacked; both copies carry one token."""
    station.script = lambda _: PARK
    gate = trio.Event()
    plain = station.handle

    async def wait_then_park(letter):
        if station.calls:
            await gate.wait()
        await plain(letter)

    station.handle = wait_then_park
    options = SubscriptionOptions(confirm_timeout=2, connect_timeout=3, rpc_timeout=1)
    async with (
        open_tcp_proxy("127.0.0.1", parse_amqp_url(vhost_url).port) as proxy,
        open_broker(proxy.url(vhost_url)) as broker,
        trio.open_nursery() as nursery,
    ):
        station.broker = broker
        subscription = await station.start(nursery, options=options, config=DlqRetryConfig(parking_ttl=3600))
        await station.publish()
        await station.until(lambda: subscription.statistics().parked == 1)
        envelope_id = await station.publish()
        await trio.sleep(0.5)
        proxy.swallow(Direction.TO_CLIENT)
        gate.set()
        await station.until(lambda: len(station.heard(SettlementFailure)) == 1)
        assert station.heard(SettlementFailure)[0].stage == "unknown"
        assert subscription.statistics().parked == 1
        proxy.heal()
        proxy.reset()
        await station.until(lambda: subscription.statistics().parked == 2, seconds=60)
        subscription.shutdown()
    captures = await station.captures(PARKING)
    token = "occ1:inbox:" + envelope_id.replace("-", "")
    mine = [capture.capture_id for capture in captures if capture.occurrence_token == token]
    assert len(mine) == len(set(mine)) == 2


@pytest.mark.soak
@pytest.mark.parametrize("station", ["native"], indirect=True)
async def test_parking_outlives_a_short_consumer_timeout(station, rabbit):
    """CHC-01: a TTL of 150 s against a consumer_timeout of 60 s: no channel closed, nothing lost."""
    await trio.to_thread.run_sync(rabbit.eval, "application:set_env(rabbit, consumer_timeout, 60000).")
    await trio.to_thread.run_sync(rabbit.eval, "application:set_env(rabbit, channel_tick_interval, 1000).")
    try:
        station.script = lambda letter: PARK if letter.park_count == 0 else None
        async with trio.open_nursery() as nursery:
            subscription = await station.start(nursery, config=DlqRetryConfig(parking_ttl=150))
            await station.publish()
            await station.until(lambda: subscription.statistics().acked == 1, seconds=200)
            subscription.shutdown()
    finally:
        await trio.to_thread.run_sync(rabbit.eval, "application:set_env(rabbit, consumer_timeout, 1800000).")
    first, second = (at for at, _ in station.letters)
    assert 150 <= second - first < 156
    assert {event.end for event in station.heard(SessionDown)} == {"SHUTDOWN"}


@pytest.mark.parametrize("station", ["native"], indirect=True)
@pytest.mark.parametrize(("messages", "kills"), [(200, 1), pytest.param(2_000, 5, marks=pytest.mark.soak)])
async def test_kills_lose_nothing(station, rabbit, vhost_url, messages, kills):
    """Killed (-9) and restarted under load, every message ends handled, by one token each."""
    station.script = lambda letter: PARK if letter.park_count == 0 and letter.token[-1] in "01234" else None
    options = SubscriptionOptions(prefetch=256, concurrency=256, confirm_timeout=5)
    config = DlqRetryConfig(parking_ttl=5)
    async with trio.open_nursery() as nursery:
        first = await station.start(nursery, options=options, config=config)
        first.shutdown()
        await first.wait_closed()
        published = {await station.publish() for _ in range(messages)}
        subscription = await station.start(nursery, options=options, config=config)
        for _ in range(kills):
            await trio.sleep(0.3)
            await trio.to_thread.run_sync(rabbit.kill)
            await trio.to_thread.run_sync(rabbit.start)
            await station.until(lambda: subscription.snapshot().main.consuming, seconds=60)
        await station.until(lambda: published <= settled(station), seconds=120)
        # A killed broker returns acked messages too; their second round is over one TTL after the first.
        async with open_broker(vhost_url) as fresh, fresh.connect(ConnectionOptions("account")) as account:
            station.onlooker = account
            for _ in range(2):
                await station.until(partial(nothing_is_ready, station), seconds=60)
                await trio.sleep(7)
            subscription.shutdown()
            await subscription.wait_closed()
            assert [await station.look(name) for name in (QUEUE, PARKING, QUARANTINE)] == [(0, 0)] * 3
    tokens = {(letter.envelope.id, letter.token) for _, letter in station.letters}
    assert len(tokens) == messages


async def nothing_is_ready(station):
    """Tell whether the queue and its siblings have no ready message."""
    return all([(await station.look(name))[0] == 0 for name in (QUEUE, PARKING, QUARANTINE)])


def settled(station):
    """Return the envelope ids whose handler has returned."""
    return {letter.envelope.id for _, letter in station.letters if station.script(letter) is None}


@pytest.mark.parametrize("station", ["native"], indirect=True)
async def test_both_arms_notice_a_frozen_network(station, vhost_url):
    """HALF-02: frozen without a FIN, both sessions end by heartbeat; what came meanwhile is handled."""
    async with (
        open_tcp_proxy("127.0.0.1", parse_amqp_url(vhost_url).port) as proxy,
        open_broker(proxy.url(vhost_url)) as broker,
        trio.open_nursery() as nursery,
    ):
        station.broker = broker
        options = SubscriptionOptions(heartbeat=1, connect_timeout=2, backoff_base=0.1, backoff_cap=0.2)
        subscription = await station.start(nursery, options=options)
        proxy.freeze()
        published = {await station.publish() for _ in range(3)}
        bound = 3 * (1 + 1) + 2
        await station.until(
            lambda: {event.arm for event in station.heard(SessionDown)} == {"main", "parking"}, seconds=bound
        )
        assert {event.end for event in station.heard(SessionDown)} == {"CONNECTION_LOST"}
        proxy.thaw()
        proxy.reset()
        await station.until(lambda: set(station.calls) == published)
        subscription.shutdown()
