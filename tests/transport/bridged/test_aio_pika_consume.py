"""Consumers of the aio-pika transport: cancelled by either side, at any moment."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
import trio

from craig_mq.core.close import ConsumerCancel, LocalClose
from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import Acked
from craig_mq.core.topology import QueueSpec
from craig_mq.testing.proxy import Direction
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.errors import ClosedError

pytestmark = pytest.mark.broker

OPTIONS = ConnectionOptions(name="consume", rpc_timeout=5.0)
CLASSIC = {"x-queue-type": "classic"}


def _consumers(rabbit, vhost_url: str) -> int:
    vhost = urlsplit(vhost_url).path.removeprefix("/")
    return int(rabbit.eval(f'length(rabbit_amqqueue:consumers_all(<<"{vhost}">>))'))


async def test_a_deleted_queue_ends_its_consumer_at_once(aio_broker, fill):
    """CCAN-01: the broker's basic.cancel ends a waiting receive; the channel stays usable."""
    await fill(aio_broker, "q", 0)
    async with aio_broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q", prefetch=5)
        async with trio.open_nursery() as nursery:

            async def delete() -> None:
                other = await connection.open_channel()
                await other.delete_queue("q")

            nursery.start_soon(delete)
            with trio.fail_after(5), pytest.raises(ClosedError) as caught:
                await consumer.receive()
        assert caught.value.reason == ConsumerCancel("q")
        with pytest.raises(ClosedError):
            consumer.receive_nowait()
        assert channel.closed is None
        assert connection.closed is None
        await channel.declare_queue(QueueSpec("q", arguments=CLASSIC))


async def test_a_consume_cancelled_on_its_way_leaves_no_consumer(rabbit, vhost_url, aio_proxied, fill):
    """CCAN-03: of 20 consumes cancelled before their answer none is left, and no message is held."""
    await fill(aio_proxied.direct, "q", 40)
    async with aio_proxied.broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        aio_proxied.proxy.delay(0.2, Direction.TO_CLIENT)
        for number in range(20):
            with trio.move_on_after(0.02 * number) as bound:
                await channel.consume("q", prefetch=2)
            assert bound.cancelled_caught
        with trio.fail_after(20):
            while await trio.to_thread.run_sync(_consumers, rabbit, vhost_url):
                await trio.sleep(0.1)
        aio_proxied.proxy.heal()
        # Nothing is held: all 40 are ready again while the channel is still open.
        with trio.fail_after(5):
            while (await channel.declare_queue(QueueSpec("q"), passive=True)).ready != 40:
                await trio.sleep(0.1)


async def test_a_get_cancelled_on_its_way_returns_its_message(aio_proxied, fill):
    """A basic.get cancelled before its answer requeues the message it was given."""
    await fill(aio_proxied.direct, "q", 1)
    async with aio_proxied.broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        aio_proxied.proxy.delay(0.3, Direction.TO_CLIENT)
        with trio.move_on_after(0.1) as bound:
            await channel.get("q")
        assert bound.cancelled_caught
        aio_proxied.proxy.heal()
        with trio.fail_after(5):
            while (delivery := await channel.get("q")) is None:
                await trio.sleep(0.05)
        assert delivery.redelivered


async def test_a_cancelled_receive_loses_nothing(aio_broker, fill):
    """A receive cancelled at any moment leaves every delivery to the next one, in order."""
    await fill(aio_broker, "q", 50)
    async with aio_broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q", prefetch=50)
        bodies: list[bytes] = []
        with trio.fail_after(10):
            while len(bodies) < 50:
                with trio.move_on_after(0.0005):
                    bodies.append((await consumer.receive()).body)
        assert bodies == [b"m%d" % number for number in range(50)]


async def test_cancel_returns_what_was_buffered(aio_broker, fill):
    """Cancel hands back the deliveries nobody took; nacked then, they keep their place."""
    await fill(aio_broker, "q", 4)
    async with aio_broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q", prefetch=3)
        first = await consumer.receive()
        rest = await consumer.cancel()
        assert [delivery.body for delivery in rest] == [b"m1", b"m2"]
        with pytest.raises(ClosedError) as caught:
            await consumer.receive()
        assert caught.value.reason == LocalClose(aborted=False)
        for delivery in (first, *rest):
            channel.nack_nowait(delivery.delivery_tag, requeue=True)
        await channel.flush()
        heads = [await channel.get("q") for _ in range(4)]
        assert [head.body for head in heads if head is not None] == [b"m0", b"m1", b"m2", b"m3"]


async def test_two_consumers_of_a_channel_have_their_own_prefetch(aio_broker, fill):
    """Each consume sets the prefetch of its own consumer, also when two start together."""
    await fill(aio_broker, "one", 10)
    await fill(aio_broker, "five", 10)
    async with aio_broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        taken: dict[str, int] = {}

        async def take(queue: str, prefetch: int) -> None:
            consumer = await channel.consume(queue, prefetch=prefetch)
            await consumer.receive()
            taken[queue] = 1 + len(await consumer.cancel())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(take, "one", 1)
            nursery.start_soon(take, "five", 5)
        assert taken == {"one": 1, "five": 5}


async def test_cycles_of_consume_and_cancel_leave_nothing_behind(aio_broker, fill):
    """A consumer cancelled is forgotten: a month of park-and-release cycles holds no memory."""
    await fill(aio_broker, "q", 1)
    async with aio_broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        for _ in range(10):
            consumer = await channel.consume("q", prefetch=1)
            delivery = await consumer.receive()
            await consumer.cancel()
            channel.nack_nowait(delivery.delivery_tag, requeue=True)
        assert not channel._consumers
        assert not channel.lifetime._children
        await channel.aclose()
        assert not connection.lifetime._children


async def test_a_crash_inside_aiormq_ends_the_connection_at_once(aio_broker, fill):
    """A crash in the task that reads a channel reaches a waiting receive within a second."""

    async def crash(_frame: object) -> None:
        raise TypeError("planted")

    await fill(aio_broker, "q", 1)
    async with aio_broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        channel._amqp._on_deliver_frame = crash
        consumer = await channel.consume("q", prefetch=1)
        with trio.fail_after(1), pytest.raises(ClosedError, match="aiormq gave up the channel"):
            await consumer.receive()
        assert connection.closed is not None


async def test_properties_come_through(aio_broker, fill):
    """Every property and every kind of header value the seam names arrives as it was sent."""
    await fill(aio_broker, "q", 0)
    sent = Properties(
        content_type="application/json",
        content_encoding="utf-8",
        headers={
            "bool": True,
            "int": -7,
            "big": 2**62,
            "text": "é",
            "none": None,
            "list": [1, "a", {"x": False}],
            "table": {"y": [2]},
            "bytes": b"\xff\xfe",
        },
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="r",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        app_id="a",
    )
    async with aio_broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        assert await channel.publish(Publication("", "q", b"", sent)) == Acked()
        delivery = await channel.get("q")
        assert delivery is not None
        assert delivery.properties == sent
        assert (delivery.exchange, delivery.routing_key, delivery.redelivered) == ("", "q", False)
