"""The embedded broker's quorum queues: delivery limits, order, defaults."""

from __future__ import annotations

import pytest

from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import ACKED, NACKED
from craig_mq.core.topology import QueueSpec
from craig_mq.testing import MemoryBroker
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.errors import ClosedError

OPTIONS = ConnectionOptions("test")
QUORUM = {"x-queue-type": "quorum"}


async def take_until_empty(broker: MemoryBroker, queue: str, bound: int) -> int:
    """Take and requeue the head until the queue is empty; count the takes."""
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        for takes in range(bound):
            delivery = await channel.get(queue)
            if delivery is None:
                return takes
            channel.nack_nowait(delivery.delivery_tag, requeue=True)
    return bound


async def test_quorum_accepts_one_over_its_limit(autojump_clock):
    """A quorum queue with reject-publish takes one message more than its limit (fact 9)."""
    broker = MemoryBroker()
    broker.declare_queue("q", {**QUORUM, "x-max-length": 2, "x-overflow": "reject-publish"})
    outcomes = [broker.publish("", "q", b"") for _ in range(4)]
    assert outcomes == [ACKED, ACKED, ACKED, NACKED]


async def test_room_of_a_moment_reopens_no_quorum_queue(autojump_clock):
    """A requeue that frees its consumer for a moment lets a full queue refuse on (fact 9; seen on 3.10.8)."""
    broker = MemoryBroker()
    broker.declare_queue("q", {**QUORUM, "x-max-length": 3, "x-overflow": "reject-publish"})
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q", prefetch=1)
        outcomes = [broker.publish("", "q", b"") for _ in range(6)]
        assert outcomes == [ACKED] * 5 + [NACKED]  # one is with the consumer, four are one over the limit
        first = await consumer.receive()
        channel.ack_nowait(first.delivery_tag)
        second = await consumer.receive()
        assert broker.queue("q").ready == 3
        channel.nack_nowait(second.delivery_tag, requeue=True)
        assert broker.queue("q").ready == 3
        assert broker.publish("", "q", b"") == NACKED
        channel.ack_nowait((await consumer.receive()).delivery_tag)
        assert broker.queue("q").ready == 2
        assert broker.publish("", "q", b"") == ACKED


@pytest.mark.parametrize(("length", "left"), [(3, 2), (5, 4), (10, 8)], ids=str)
async def test_a_quorum_queue_reopens_at_its_low_mark(length, left, autojump_clock):
    """After refusing, a quorum queue takes publishes again at four fifths of its limit, and not before."""
    broker = MemoryBroker()
    broker.declare_queue("q", {**QUORUM, "x-max-length": length, "x-overflow": "reject-publish"})
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        outcomes = [broker.publish("", "q", b"") for _ in range(length + 2)]
        assert outcomes == [ACKED] * (length + 1) + [NACKED]
        while broker.queue("q").ready > left + 1:
            await channel.get("q")
        assert broker.publish("", "q", b"") == NACKED
        await channel.get("q")
        assert broker.publish("", "q", b"") == ACKED


@pytest.mark.parametrize(
    ("version", "arguments", "takes"),
    [
        ("3.10", {}, 200),
        ("3.10", {"x-delivery-limit": -1}, 1),
        ("3.10", {"x-delivery-limit": 3}, 4),
        ("4.0", {}, 21),
        ("4.0", {"x-delivery-limit": -1}, 200),
        ("4.3", {}, 200),
    ],
)
async def test_delivery_limits_delete(version, arguments, takes, autojump_clock):
    """How many takes a quorum queue's message survives, by version and limit (fact 2); 200 stands for any."""
    broker = MemoryBroker(version)
    broker.declare_queue("q", {**QUORUM, **arguments})
    broker.publish("", "q", b"")
    assert await take_until_empty(broker, "q", 200) == takes


async def test_on_4_3_lost_sessions_still_count(autojump_clock):
    """From 4.3 a nack does not count towards the limit, a lost session does: 21 takes (fact 2)."""
    broker = MemoryBroker("4.3")
    broker.declare_queue("q", QUORUM)
    broker.publish("", "q", b"")
    takes = 0
    while broker.queue("q").ready:
        async with broker.connect(OPTIONS) as connection:
            assert await (await connection.open_channel()).get("q") is not None
            takes += 1
    assert takes == 21


@pytest.mark.parametrize(
    ("arguments", "order"), [({}, [b"b", b"a"]), ({"x-delivery-limit": 9}, [b"a", b"b"])]
)
async def test_a_quorum_requeue_goes_to_the_tail_without_a_limit(arguments, order, autojump_clock):
    """Without a delivery limit a requeue goes to the tail, with a positive one to the head (facts 2, 15)."""
    broker = MemoryBroker()
    broker.declare_queue("q", {**QUORUM, **arguments})
    for body in (b"a", b"b"):
        broker.publish("", "q", body)
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        delivery = await channel.get("q")
        channel.nack_nowait(delivery.delivery_tag, requeue=True)
    assert list(broker.queue("q").bodies) == order


async def test_priorities_reorder_quorum_queues_on_4_3(autojump_clock):
    """A copied priority reorders a 4.3 quorum queue, and nothing before (fact 10)."""
    seen = {}
    for version in ("4.0", "4.3"):
        broker = MemoryBroker(version)
        broker.declare_queue("q", QUORUM)
        for body, priority in ((b"low", 0), (b"high", 9)):
            broker.publish("", "q", body, Properties(priority=priority))
        seen[version] = list(broker.queue("q").bodies)
    assert seen == {"4.0": [b"low", b"high"], "4.3": [b"high", b"low"]}


async def test_a_vhost_default_of_quorum_decides_argument_less_declares(autojump_clock):
    """With a quorum default, no argument means quorum, and our classic queue refuses it with 406 (fact 3)."""
    broker = MemoryBroker()
    broker.set_default_queue_type("quorum")
    broker.declare_queue("ours", {"x-queue-type": "classic"})
    broker.declare_queue("theirs", {"x-delivery-limit": -1})
    broker.publish("", "theirs", b"")
    assert await take_until_empty(broker, "theirs", 5) == 1
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        with pytest.raises(ClosedError, match="inequivalent arg 'x-queue-type'"):
            await channel.declare_queue(QueueSpec("ours"))


async def test_a_new_channel_is_refused_only_over_the_limit(autojump_clock):
    """A channel new to a refusing quorum queue is taken where the queue is at its limit (fact 9)."""
    broker = MemoryBroker()
    broker.declare_queue("q", {**QUORUM, "x-max-length": 3, "x-overflow": "reject-publish"})
    publication = Publication("", "q", b"", Properties())
    async with broker.connect(OPTIONS) as connection:
        old, new, late = [await connection.open_channel(confirms=True) for _ in range(3)]
        outcomes = [await old.publish(publication) for _ in range(5)]
        assert outcomes == [ACKED] * 4 + [NACKED]
        assert await late.publish(publication) == NACKED  # there are four: one over the limit
        await old.get("q")
        assert broker.queue("q").ready == 3
        outcomes = [await channel.publish(publication) for channel in (old, late, new, new)]
        assert outcomes == [NACKED, NACKED, ACKED, NACKED]
