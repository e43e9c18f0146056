"""No ack without evidence on a real RabbitMQ, and the bound of a settlement that cannot be written."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio

from craig_mq import Disposition, DlqError, DlqRetryConfig, SubscriptionOptions
from craig_mq.core.delivery import Properties, Publication
from craig_mq.observe.events import DeliveryFinished, SessionDown, SettlementFailure
from craig_mq.testing.proxy import open_tcp_proxy
from craig_mq.transport.opening import open_broker
from craig_mq.transport.url import parse_amqp_url

pytestmark = pytest.mark.broker

PARK = Disposition.TRANSIENT_PARK
QUEUE, PARKING = "security.dlq", "security.dlq.parking"
MAIN = f"craig_mq {QUEUE} main"
LONG = DlqRetryConfig(parking_ttl=3600)
MORE_THAN_SOCKETS_HOLD = 32 * 1024 * 1024


class Detour:
    """A broker that reaches the connections of one name by another way, and remembers the last of them."""

    def __init__(self, broker, name, other):
        self.broker = broker
        self.name = name
        self.other = other
        self.connection = None

    @property
    def display_url(self):
        """The URL of the usual way."""
        return self.broker.display_url

    @asynccontextmanager
    async def connect(self, options):
        """Connect, by the other way if it is the name's."""
        way = self.other if options.name == self.name else self.broker
        async with way.connect(options) as connection:
            if way is self.other:
                self.connection = connection
            yield connection


@pytest.fixture
async def by_proxy(station, vhost_url):
    """The proxy through which only the main session's consuming connection reaches the broker."""
    async with (
        open_tcp_proxy("127.0.0.1", parse_amqp_url(vhost_url).port) as proxy,
        open_broker(proxy.url(vhost_url)) as other,
    ):
        station.broker = Detour(station.broker, MAIN, other)
        yield proxy


async def publish_half(station, nursery, proxy):
    """Fill the consuming connection with a publish that stops halfway, so that no ack gets past it."""
    channel = await station.broker.connection.open_channel(confirms=True)
    proxy.freeze()
    body = bytes(MORE_THAN_SOCKETS_HOLD)
    nursery.start_soon(channel.publish, Publication("", "nowhere", body, Properties(message_id="half")))
    await trio.sleep(0.3)


@asynccontextmanager
async def ack_behind_half_a_publish(station, proxy):
    """Subscribe; have an ack accepted on a connection that writes nothing more; yield the subscription."""
    handled, finish = trio.Event(), trio.Event()

    async def handle(letter):
        handled.set()
        await finish.wait()

    station.handle = handle
    async with trio.open_nursery() as nursery:
        subscription = await station.start(nursery, config=LONG)
        await station.publish()
        await handled.wait()
        await publish_half(station, nursery, proxy)
        finish.set()
        await trio.sleep(0.2)
        yield subscription


@pytest.mark.parametrize("station", ["native"], indirect=True)
async def test_the_bound_holds_on_a_socket_that_takes_nothing(station, by_proxy):
    """An ack that cannot be written ends the session at 5 s although shutdown came; it is no ack."""
    async with ack_behind_half_a_publish(station, by_proxy) as subscription:
        began = trio.current_time() - 0.2
        subscription.shutdown()
        await station.until(lambda: station.heard(SettlementFailure) != [])
        assert 4.9 <= trio.current_time() - began < 6.5
        assert station.heard(SettlementFailure)[0].stage == "ack"
        await subscription.wait_closed()
        assert trio.current_time() - began < 9
        by_proxy.heal()
        by_proxy.reset()
    assert [event.end for event in station.heard(SessionDown)] == ["SETTLEMENT_FAILED", "SHUTDOWN"]
    await station.until(lambda: ready_again(station))


async def ready_again(station):
    """Tell whether the one message is back in its queue, for somebody else to take."""
    return await station.look(QUEUE) == (1, 0)


@pytest.mark.parametrize("station", ["native"], indirect=True)
async def test_shutdown_alone_never_cuts_a_settlement_on_a_slow_socket(station, by_proxy):
    """An ack that needs three seconds to be written is written, although shutdown came before."""
    async with ack_behind_half_a_publish(station, by_proxy) as subscription:
        subscription.shutdown()
        await trio.sleep(2.8)
        assert station.heard(SessionDown) == []
        assert subscription.statistics().acked == 0
        by_proxy.thaw()
        await subscription.wait_closed()
        assert subscription.statistics().acked == 1
    assert station.heard(SettlementFailure) == []
    assert [event.outcome for event in station.heard(DeliveryFinished)] == ["acked"]
    assert await station.look(QUEUE) == (0, 0)


@pytest.mark.parametrize("station", ["native"], indirect=True)
async def test_a_long_alarm_costs_one_copy_per_rebuild(station, rabbit, by_proxy):
    """Sessions rebuilt three times during an alarm leave at most one extra copy each (decisions, 7)."""
    gate = trio.Event()

    async def park(letter):
        await gate.wait()
        raise DlqError(PARK, source=ValueError("the reason"))

    station.handle = park
    options = SubscriptionOptions(backoff_base=0.1, backoff_cap=0.2, settle_timeout=1)
    async with trio.open_nursery() as nursery:
        subscription = await station.start(nursery, options=options, config=LONG)
        published = [await station.publish() for _ in range(10)]
        with rabbit.memory_alarm():
            gate.set()
            for rebuilt in range(1, 4):
                await station.until(lambda: subscription.snapshot().main.blocked is not None)
                by_proxy.reset()
                await station.until(lambda wanted=rebuilt + 1: generation(subscription) == wanted)
        await station.until(lambda: is_empty(station, QUEUE))
        await station.until(lambda: subscription.statistics().in_flight == 0)
        subscription.shutdown()
    captures = await station.captures(PARKING)
    tokens = {"occ1:inbox:" + envelope_id.replace("-", "") for envelope_id in published}
    assert {capture.occurrence_token for capture in captures} == tokens
    assert len(captures) <= 10 + 3


def generation(subscription):
    """Return the number of the main session."""
    return subscription.snapshot().main.generation


async def is_empty(station, queue):
    """Tell whether a queue has no ready message."""
    return (await station.look(queue))[0] == 0


async def test_a_publish_that_finds_no_connection_is_no_evidence(station, vhost_url):
    """A park whose publishing connection is refused leaves the original unacked, and goes through later."""
    station.script = lambda _: PARK
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    nobody = vhost_url.replace(f":{parse_amqp_url(vhost_url).port}/", f":{port}/")
    async with open_broker(nobody) as unreachable, trio.open_nursery() as nursery:
        station.broker = Detour(station.broker, f"{MAIN} publishing", unreachable)
        subscription = await station.start(nursery, config=LONG)
        await station.publish()
        await station.until(lambda: len(station.heard(SettlementFailure)) == 2)
        assert {failure.stage for failure in station.heard(SettlementFailure)} == {"publish"}
        assert station.heard(DeliveryFinished) != []
        assert {event.outcome for event in station.heard(DeliveryFinished)} == {"unsettled"}
        station.broker.other = station.broker.broker
        await station.until(lambda: subscription.statistics().parked == 1)
        subscription.shutdown()
    assert await station.look(QUEUE) == (0, 0)
    assert await station.look(PARKING) == (1, 0)
