"""The embedded broker's trace: evidence in the order in which it came to be."""

from __future__ import annotations

import trio

from craig_mq.core.close import LocalClose
from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import ACKED, Unconfirmed
from craig_mq.testing import Drop, Fault, FaultPlan, MemoryBroker, trace
from craig_mq.transport.broker import ConnectionOptions

OPTIONS = ConnectionOptions("test")


async def test_a_settled_message_leaves_its_whole_story(autojump_clock):
    """Connection, publish, consumer, delivery, ack and end appear in order, with times and serials."""
    broker = MemoryBroker(trace=True)
    broker.declare_queue("q")
    publication = Publication("", "q", b"x", Properties(message_id="m"))
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        await channel.publish(publication)
        consumer = await channel.consume("q", prefetch=1)
        channel.ack_nowait((await consumer.receive()).delivery_tag)
        await connection.aclose()
    assert list(broker.trace) == [
        trace.ConnectionOpened(0.0, 1, "test"),
        trace.MessagePublished(0.0, 1, 1, publication, ("q",), "acked"),
        trace.OutcomeTold(0.0, 1, publication, ACKED),
        trace.ConsumerStarted(0.0, 1, "q", consumer.tag),
        trace.MessageDelivered(0.0, 1, 1, "q", 1, redelivered=False),
        trace.MessageAcked(0.0, 1, 1, "q"),
        trace.ConsumerEnded(0.0, 1, "q", consumer.tag),
        trace.ConnectionEnded(0.0, 1, "test", LocalClose(aborted=False)),
    ]


async def test_what_was_told_is_kept_apart_from_what_was_done(autojump_clock):
    """A stored copy whose confirm was lost was acked by the broker and told as unconfirmed."""
    broker = MemoryBroker(trace=True, faults=FaultPlan([Fault("confirm", Drop())]))
    broker.declare_queue("q")
    publication = Publication("", "q", b"", Properties(message_id="m"))
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(channel.publish, publication)
            await trio.sleep(5)
            connection.abort()
    [done] = [record for record in broker.trace if isinstance(record, trace.MessagePublished)]
    [told] = [record for record in broker.trace if isinstance(record, trace.OutcomeTold)]
    assert (done.at, done.outcome) == (0.0, "acked")
    assert (told.at, told.outcome) == (5.0, Unconfirmed("aborted by this side"))


async def test_sessions_can_be_told_apart(autojump_clock):
    """Each connection has a number of its own, and its end is recorded when the broker noticed it."""
    broker = MemoryBroker(trace=True)
    broker.declare_queue("q")
    broker.publish("", "q", b"")
    async with broker.connect(OPTIONS) as connection:
        await (await connection.open_channel()).get("q")
        broker.freeze("test")
        connection.abort()
    async with broker.connect(OPTIONS):
        await trio.sleep(100)
    ends = {
        record.connection: record.at for record in broker.trace if isinstance(record, trace.ConnectionEnded)
    }
    assert ends == {1: 30.0, 2: 100.0}
    [requeued] = [record for record in broker.trace if isinstance(record, trace.MessageRequeued)]
    assert (requeued.at, requeued.connection, requeued.queue) == (30.0, 1, "q")


async def test_lost_messages_say_why(autojump_clock):
    """A message that a queue gives up is recorded with its reason."""
    broker = MemoryBroker(trace=True)
    broker.declare_queue("q", {"x-max-length": 1})
    async with broker.connect(OPTIONS):
        for _ in range(2):
            broker.publish("", "q", b"")
        broker.purge("q")
        broker.publish("", "q", b"")
        broker.delete_queue("q")
    why = [record.why for record in broker.trace if isinstance(record, trace.MessageDropped)]
    assert why == ["maxlen", "purged", "deleted"]


async def test_no_trace_is_kept_unless_asked_for(autojump_clock):
    """Without ``trace=True`` nothing is remembered."""
    broker = MemoryBroker()
    broker.declare_queue("q")
    broker.publish("", "q", b"")
    assert broker.trace == ()
