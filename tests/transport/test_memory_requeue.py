"""The embedded broker's order under requeues, cancels and competing consumers."""

from __future__ import annotations

import trio

from craig_mq.core.delivery import Properties
from craig_mq.core.topology import QueueSpec
from craig_mq.testing import MemoryBroker
from craig_mq.transport.broker import ConnectionOptions

OPTIONS = ConnectionOptions("test")


def broker_with(*bodies: bytes) -> MemoryBroker:
    broker = MemoryBroker()
    broker.declare_queue("q")
    for body in bodies:
        broker.publish("", "q", body, Properties(delivery_mode=2))
    return broker


async def test_a_nack_before_the_cancel_leaks_the_head(autojump_clock):
    """Nacked while it still consumes, the dying consumer is handed the head again (decisions, 12)."""
    broker = broker_with(b"a", b"b")
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q", prefetch=1)
        head = await consumer.receive()
        channel.nack_nowait(head.delivery_tag, requeue=True)
        [leaked] = await consumer.cancel()
        assert leaked.body == b"a"
        assert broker.queue("q").unacked == 1


async def test_a_nack_after_the_cancel_leaks_nothing(autojump_clock):
    """Cancelled first, then nacked, the head waits for the next consumer (decisions, 12)."""
    broker = broker_with(b"a", b"b")
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q", prefetch=1)
        head = await consumer.receive()
        assert await consumer.cancel() == []
        channel.nack_nowait(head.delivery_tag, requeue=True)
        assert (broker.queue("q").bodies, broker.queue("q").unacked) == ((b"a", b"b"), 0)


async def test_interleaved_requeues_restore_the_order(autojump_clock):
    """Two consumers that held every other message give them back into one order (fact 15)."""
    bodies = [bytes([number]) for number in range(10)]
    broker = broker_with(*bodies)
    async with broker.connect(OPTIONS) as connection:
        channels = [await connection.open_channel() for _ in range(2)]
        for _ in range(4):
            for channel in channels:
                await channel.get("q")
        await channels[1].aclose()
        await channels[0].aclose()
    assert list(broker.queue("q").bodies) == bodies


async def test_competing_consumers_take_turns(autojump_clock):
    """Consumers with credit are served in turn, and one without credit is passed over."""
    broker = broker_with()
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        small = await channel.consume("q", prefetch=1)
        large = await channel.consume("q", prefetch=10)
        for number in range(6):
            broker.publish("", "q", bytes([number]))
        assert [delivery.body[0] for delivery in await small.cancel()] == [0]
        assert [delivery.body[0] for delivery in await large.cancel()] == [1, 2, 3, 4, 5]


async def test_a_dropped_consumers_credit_is_gone(autojump_clock):
    """Acks of a cancelled consumer's deliveries give it no new message."""
    broker = broker_with(b"a", b"b")
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q", prefetch=1)
        held = await consumer.receive()
        await consumer.cancel()
        channel.ack_nowait(held.delivery_tag)
        assert (broker.queue("q").ready, broker.queue("q").unacked) == (1, 0)


async def test_looking_changes_nothing(autojump_clock):
    """Inspecting a queue flips no redelivered flag and moves nothing, unlike get and nack (fact 20)."""
    broker = broker_with(b"a", b"b")
    first = broker.queue("q")
    assert (first.ready, first.unacked, first.consumers, first.bodies) == (2, 0, 0, (b"a", b"b"))
    assert broker.queue("q") == first
    assert not any(message.redelivered for message in first.messages)


async def test_an_auto_delete_queue_goes_with_its_last_consumer(autojump_clock):
    """An auto-delete queue lives until its last consumer leaves."""
    broker = broker_with()
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        await channel.declare_queue(QueueSpec("fleeting", auto_delete=True))
        first = await channel.consume("fleeting", prefetch=1)
        second = await channel.consume("fleeting", prefetch=1)
        await first.cancel()
        assert "fleeting" in broker.queues
        await second.cancel()
        assert "fleeting" not in broker.queues


async def test_acks_after_the_queue_is_gone_are_no_error(autojump_clock):
    """What is held when its queue is deleted can be acked or nacked without harm."""
    broker = broker_with(b"a", b"b", b"c")
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        held = [await channel.get("q") for _ in range(2)]
        assert broker.delete_queue("q") == 1
        channel.ack_nowait(held[0].delivery_tag)
        channel.nack_nowait(held[1].delivery_tag, requeue=True)
        await trio.sleep(1)
        assert channel.closed is None
