"""PERM-01 on a real RabbitMQ: what a user may not do is refused at the start, or retried (decisions, 18)."""

from __future__ import annotations

import pytest
import trio

from craig_mq import Disposition, DlqRetryConfig, SubscribeDlqError, SubscriptionOptions
from craig_mq.observe.events import SessionDown, SessionRefused, SettlementFailure, TopologyDeclined
from craig_mq.testing.proxy import open_tcp_proxy
from craig_mq.transport.opening import open_broker
from craig_mq.transport.url import parse_amqp_url

pytestmark = pytest.mark.broker

PARK = Disposition.TRANSIENT_PARK
QUEUE, PARKING = "security.dlq", "security.dlq.parking"
QUARANTINE = "security.dlq.quarantine"
LONG = DlqRetryConfig(parking_ttl=3600)


class Limits:
    """What a user of the test's own, named as its vhost, may do; and the proxy it comes through."""

    def __init__(self, rabbit, vhost, proxy):
        self.rabbit = rabbit
        self.vhost = vhost
        self.proxy = proxy

    async def to(self, **patterns):
        """Let the user do only this; what is not named stays allowed."""
        await trio.to_thread.run_sync(
            lambda: self.rabbit.set_permissions(self.vhost, user=self.vhost, **patterns)
        )


@pytest.fixture
async def limits(request, station, rabbit, vhost_url):
    """Let the station subscribe as a user whose permissions the test sets; all queues exist already."""
    async with trio.open_nursery() as nursery:
        subscription = await station.start(nursery)
        subscription.shutdown()
    station.events.clear()
    parsed = parse_amqp_url(vhost_url)
    vhost = vhost_url.rsplit("/", 1)[1]
    await trio.to_thread.run_sync(rabbit.add_user, vhost, "secret")
    url = rabbit.vhost_url(vhost, user=vhost, password="secret")
    transport = request.node.callspec.params["station"]
    async with (
        open_tcp_proxy("127.0.0.1", parsed.port) as proxy,
        open_broker(proxy.url(url), transport=transport) as broker,
    ):
        station.broker = broker
        yield Limits(rabbit, vhost, proxy)


@pytest.mark.parametrize(
    ("patterns", "named"),
    [
        ({"write": "^$"}, "craig.dlx"),
        ({"write": r"^(?!amq\.default)"}, "amq.default"),
        ({"read": "^$"}, "security.dlq.parking"),
        ({"read": r"^(?!security\.dlq$)"}, "security.dlq"),
    ],
    ids=["no write", "no write by the default exchange", "no read", "no read of the queue itself"],
)
async def test_a_refusal_at_the_first_start_is_told_at_once(station, limits, patterns, named):
    """PERM-01: no permission to publish, or to consume, is SubscribeDlqError at once, and leaves nothing."""
    await limits.to(**patterns)
    async with trio.open_nursery() as nursery:
        began = trio.current_time()
        with pytest.raises(SubscribeDlqError) as caught:
            await station.start(nursery, config=LONG)
        assert trio.current_time() - began < 5
    assert caught.value.kind.value == "amqp"
    assert "403" in str(caught.value)
    assert "ACCESS_REFUSED" in str(caught.value)
    assert f"'{named}'" in str(caught.value)
    assert [await station.look(name) for name in (QUEUE, PARKING, QUARANTINE)] == [(0, 0)] * 3
    await station.until(lambda: limits.proxy.connections == 0)


async def test_all_but_configure_is_enough(station, limits):
    """PERM-01: without configure what stands is looked at, said so, and used; a park goes through."""
    station.script = lambda _: PARK
    await limits.to(configure="^$")
    async with trio.open_nursery() as nursery:
        subscription = await station.start(nursery, config=LONG)
        await station.publish()
        await station.until(lambda: subscription.statistics().parked == 1)
        subscription.shutdown()
    assert f"queue {PARKING}" in {event.what for event in station.heard(TopologyDeclined)}
    assert await station.look(PARKING) == (1, 0)


async def test_write_refused_on_the_parking_queue_alone_stops_nothing(station, limits):
    """PERM-01: RabbitMQ asks for write on the exchange, so a park needs none on the parking queue."""
    station.script = lambda _: PARK
    await limits.to(write=r"^(?!security\.dlq\.parking)")
    async with trio.open_nursery() as nursery:
        subscription = await station.start(nursery, config=LONG)
        await station.publish()
        await station.until(lambda: subscription.statistics().parked == 1)
        subscription.shutdown()
    assert station.heard(SettlementFailure) == []


async def test_permission_withdrawn_while_running_recovers(station, limits):
    """PERM-01: write, then read, withdrawn while running: no ack, loud retries, recovery without restart."""
    station.script = lambda _: PARK
    options = SubscriptionOptions(backoff_base=0.2, backoff_cap=1)
    await limits.to()
    async with trio.open_nursery() as nursery:
        subscription = await station.start(nursery, options=options, config=LONG)
        await limits.to(write="^$")
        await station.publish()
        await station.until(lambda: len(station.heard(SettlementFailure)) >= 3)
        assert all("ACCESS_REFUSED" in failure.text for failure in station.heard(SettlementFailure))
        assert subscription.statistics().parked == 0
        assert (await station.look(PARKING))[1] == subscription.snapshot().parking.generation == 1
        await limits.to()
        await station.until(lambda: subscription.statistics().parked == 1)

        await limits.to(read="^$")
        limits.proxy.reset()
        await station.until(lambda: len(station.heard(SessionRefused)) >= 4)
        assert {event.arm for event in station.heard(SessionRefused)} == {"main", "parking"}
        assert all("ACCESS_REFUSED" in event.text for event in station.heard(SessionRefused))
        await limits.to()
        await station.until(lambda: subscription.snapshot().main.consuming)
        await station.until(lambda: subscription.snapshot().parking.consuming)
        subscription.shutdown()
    assert station.heard(SessionDown)[-1].end == "SHUTDOWN"
    assert await station.look(PARKING) == (1, 0)
