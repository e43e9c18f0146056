"""The embedded broker's consumer_timeout."""

from __future__ import annotations

import pytest
import trio

from craig_mq.core.close import ChannelClose, ConsumerCancel
from craig_mq.testing import MemoryBroker
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.errors import ClosedError

OPTIONS = ConnectionOptions("test")
QUORUM = {"x-queue-type": "quorum"}


async def test_a_held_delivery_times_out_with_its_channel(autojump_clock):
    """Held beyond consumer_timeout, a delivery ends its channel with a 406; others live (fact 1)."""
    broker = MemoryBroker()
    broker.declare_queue("q")
    broker.publish("", "q", b"head")
    broker.publish("", "q", b"prefetched")
    broker.set_consumer_timeout(60.0)
    async with broker.connect(OPTIONS) as connection:
        channel, sibling = await connection.open_channel(), await connection.open_channel()
        consumer = await channel.consume("q", prefetch=2)
        await consumer.receive()
        reason = await channel.wait_closed()
        assert reason == ChannelClose(
            406,
            "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: "
            "60000 ms. This timeout value can be configured, see consumers doc guide to learn more",
            0,
            0,
        )
        assert 60.0 <= trio.current_time() <= 120.0
        assert (connection.closed, sibling.closed) == (None, None)
    assert [message.redelivered for message in broker.queue("q").messages] == [True, True]


async def test_hold_and_release_cycles_never_time_out(autojump_clock):
    """Deliveries released and taken again within the timeout, and idle channels, are safe (fact 1)."""
    broker = MemoryBroker()
    broker.declare_queue("q")
    broker.publish("", "q", b"head")
    broker.set_consumer_timeout(60.0, tick=1.0)
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        for _ in range(10):
            delivery = await channel.get("q")
            await trio.sleep(50)
            channel.nack_nowait(delivery.delivery_tag, requeue=True)
        await trio.sleep(1000)
        assert channel.closed is None


@pytest.mark.parametrize(("kind", "ends"), [("classic", False), ("quorum", True)])
async def test_on_4_3_only_quorum_consumers_time_out(kind, ends, autojump_clock):
    """From 4.3 the timeout is a basic.cancel, for quorum queues alone; the channel lives (fact 1)."""
    broker = MemoryBroker("4.3")
    broker.declare_queue("q", {"x-queue-type": kind})
    broker.publish("", "q", b"head")
    broker.set_consumer_timeout(60.0, tick=1.0)
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q", prefetch=1)
        await consumer.receive()
        with trio.move_on_after(600):
            with pytest.raises(ClosedError) as caught:
                await consumer.receive()
            assert caught.value.reason == ConsumerCancel("q")
        assert channel.closed is None
        assert (broker.queue("q").ready, broker.queue("q").consumers) == ((1, 0) if ends else (0, 1))
