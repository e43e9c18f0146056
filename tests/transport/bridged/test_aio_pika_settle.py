"""Settlements through the aio-pika transport: what a returned ack means, and what it does not."""

from __future__ import annotations

import pytest
import trio

from craig_mq.core.close import ChannelClose
from craig_mq.core.delivery import Properties, Publication
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.errors import ClosedError

pytestmark = pytest.mark.broker

OPTIONS = ConnectionOptions(name="settle", rpc_timeout=2.0)
CLASSIC = {"x-queue-type": "classic"}


async def test_an_ack_on_a_channel_the_broker_is_closing_changes_nothing(aio_broker, fill):
    """ACK-01: after a bad ack the channel ends with the 406 and its text, and every message returns."""
    await fill(aio_broker, "q", 3)
    async with aio_broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q", prefetch=5)
        first = await consumer.receive()
        channel.ack_nowait(999)
        channel.ack_nowait(first.delivery_tag)  # same tick: written, and worthless
        with trio.fail_after(2):
            closed = await channel.wait_closed()
        assert isinstance(closed, ChannelClose)
        assert (closed.code, closed.class_id, closed.method_id) == (406, 60, 80)
        assert "unknown delivery tag 999" in closed.text
        with pytest.raises(ClosedError, match="unknown delivery tag 999"):
            channel.ack_nowait(first.delivery_tag)
        with pytest.raises(ClosedError, match="unknown delivery tag 999"):
            await consumer.receive()
        again = await (await connection.open_channel()).get("q")
        assert again is not None
        assert again.redelivered
        assert again.body == b"m0"


async def test_an_ack_to_a_frozen_peer_is_written_but_not_processed(aio_proxied, fill, ready):
    """HALF-01: an ack into a frozen connection returns at once; cut off, the message comes back."""
    await fill(aio_proxied.direct, "q", 1)
    async with aio_proxied.broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        delivery = await (await channel.consume("q", prefetch=1)).receive()
        aio_proxied.proxy.freeze()
        with trio.fail_after(0.5):
            channel.ack_nowait(delivery.delivery_tag)
            await channel.flush()
        connection.abort()
        aio_proxied.proxy.reset()
    with trio.move_on_after(10):
        while await ready(aio_proxied.direct, "q") != 1:
            await trio.sleep(0.1)
    assert await ready(aio_proxied.direct, "q") == 1


async def test_acks_and_nacks_reach_the_broker(aio_broker, fill):
    """An ack removes, a multiple ack removes all before it, a nack with requeue returns in place."""
    await fill(aio_broker, "q", 5)
    async with aio_broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q", prefetch=5)
        taken = [await consumer.receive() for _ in range(5)]
        channel.nack_nowait(taken[4].delivery_tag, requeue=False)
        channel.ack_nowait(taken[2].delivery_tag, multiple=True)
        await channel.flush()
        assert await consumer.cancel() == []
        channel.nack_nowait(taken[3].delivery_tag, requeue=True)
        await channel.flush()
        rest = await channel.get("q")
        assert rest is not None
        assert (rest.body, rest.redelivered) == (b"m3", True)
        assert await channel.get("q") is None


async def test_a_flush_behind_a_full_socket_ends_at_the_callers_bound(aio_proxied, fill):
    """TRIO-07: a flush that cannot progress is left at the bound, and abort fails it at once."""
    await fill(aio_proxied.direct, "q", 1)
    async with aio_proxied.broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        delivery = await (await channel.consume("q", prefetch=1)).receive()
        aio_proxied.proxy.freeze()
        body = bytes(12 * 1024 * 1024)
        async with trio.open_nursery() as nursery:
            publication = Publication("", "q", body, Properties(message_id="big"))
            nursery.start_soon(channel.publish, publication)
            await trio.sleep(0.3)
            channel.ack_nowait(delivery.delivery_tag)
            started = trio.current_time()
            with trio.move_on_after(0.5) as bound:
                await channel.flush()
            assert bound.cancelled_caught
            assert trio.current_time() - started < 1.0
            connection.abort()
            with pytest.raises(ClosedError):
                await channel.flush()
            nursery.cancel_scope.cancel(reason="test over")
