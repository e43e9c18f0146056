"""The embedded broker's bounds on messages: lengths, lifetimes, sizes."""

from __future__ import annotations

import pytest
import trio

from craig_mq.core.close import ChannelClose, ConnectionClose
from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import ACKED, NACKED, Unconfirmed
from craig_mq.testing import MemoryBroker, Policy
from craig_mq.transport.broker import ConnectionOptions

OPTIONS = ConnectionOptions("test")
QUORUM = {"x-queue-type": "quorum"}


def publication(queue: str = "q", body: bytes = b"", exchange: str = "", **properties: object) -> Publication:
    return Publication(exchange, queue, body, Properties(message_id="m", delivery_mode=2, **properties))


async def test_a_body_over_the_limit_closes_the_channel_and_loses_confirms(autojump_clock):
    """An oversize body is a 406 of the channel; publishes before it are stored without a confirm (fact 8)."""
    broker = MemoryBroker()
    broker.declare_queue("q")
    broker.set_max_message_size(100)
    outcomes: list[object] = []
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)

        async def publish(size: int) -> None:
            outcomes.append(await channel.publish(publication(body=b"x" * size)))

        async with trio.open_nursery() as nursery:
            for size in (1, 2, 3, 4, 5):
                nursery.start_soon(publish, size)
            await trio.lowlevel.checkpoint()
            nursery.start_soon(publish, 101)
        reason = channel.closed
        assert reason == ChannelClose(
            406, "PRECONDITION_FAILED - message size 101 is larger than configured max size 100", 60, 40
        )
        assert connection.closed is None
    assert all(isinstance(outcome, Unconfirmed) or outcome == ACKED for outcome in outcomes)
    assert sum(isinstance(outcome, Unconfirmed) for outcome in outcomes) >= 1
    assert broker.queue("q").ready == 5


@pytest.mark.parametrize(("version", "mib"), [("3.10", 128), ("3.13", 128), ("4.0", 16), ("4.3", 16)])
async def test_the_size_limit_depends_on_the_version(version, mib, autojump_clock):
    """max_message_size is 128 MiB on 3.x and 16 MiB from 4.0 (fact 8)."""
    broker = MemoryBroker(version)
    broker.declare_queue("q")
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        assert await channel.publish(publication(body=bytes(mib * 1024 * 1024))) == ACKED
        over = await channel.publish(publication(body=bytes(mib * 1024 * 1024 + 1)))
        assert isinstance(over, Unconfirmed)


async def test_headers_over_a_frame_close_the_connection(autojump_clock):
    """Headers that do not fit one frame are a connection error 501 (facts 8 and 17)."""
    broker = MemoryBroker()
    broker.declare_queue("q")
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        assert await channel.publish(publication(headers={"h": "x" * 130_000})) == ACKED
        await channel.publish(publication(headers={"h": ["x" * 70_000, {"n": "y" * 70_000}]}))
        assert isinstance(connection.closed, ConnectionClose)
        assert connection.closed.code == 501


async def test_classic_limits_count_ready_messages_only(autojump_clock):
    """A held delivery makes room in a bounded queue (fact 9)."""
    broker = MemoryBroker()
    broker.declare_queue("q", {"x-max-length": 1, "x-overflow": "reject-publish"})
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        assert await channel.publish(publication()) == ACKED
        assert await channel.publish(publication()) == NACKED
        await channel.get("q")
        assert await channel.publish(publication()) == ACKED


@pytest.mark.parametrize(("kind", "last", "ready"), [("classic", NACKED, 1), ("quorum", ACKED, 1)])
async def test_reject_publish_dlx_depends_on_the_queue_type(kind, last, ready, autojump_clock):
    """``reject-publish-dlx`` nacks and dead-letters on classic, acks and destroys on quorum (fact 9)."""
    broker = MemoryBroker()
    arguments = {
        "x-queue-type": kind,
        "x-max-length": 1,
        "x-overflow": "reject-publish-dlx",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    }
    broker.declare_queue("dead")
    broker.declare_queue("q", arguments)
    outcomes = [broker.publish("", "q", body) for body in (b"a", b"b")]
    assert outcomes == [ACKED, last]
    assert broker.queue("q").ready == ready
    assert broker.queue("dead").ready == 1


async def test_a_policy_bounds_an_existing_queue(autojump_clock):
    """A policy acts on queues that exist; the lower of two limits applies (NACK-01)."""
    broker = MemoryBroker()
    broker.declare_queue("q.parking", {"x-max-length": 10, "x-overflow": "reject-publish"})
    broker.declare_queue("other")
    broker.set_policies(small=Policy("parking$", {"max-length": 1}))
    outcomes = [broker.publish("", "q.parking", b"") for _ in range(2)]
    assert outcomes == [ACKED, NACKED]
    broker.set_policies()
    assert broker.publish("", "q.parking", b"") == ACKED


async def test_an_alternate_exchange_can_come_by_policy(autojump_clock):
    """An alternate exchange set by policy blinds mandatory too; the default exchange has none (fact 6)."""
    broker = MemoryBroker()
    for name in ("craig.dlx", "ae"):
        broker.declare_exchange(name, "fanout" if name == "ae" else "topic")
    broker.declare_queue("caught")
    broker.bind("ae", "caught", "")
    assert broker.publish("craig.dlx", "dlq.a", b"") != ACKED
    broker.set_policies(ae=Policy(".*", {"alternate-exchange": "ae"}))
    assert broker.publish("craig.dlx", "dlq.a", b"") == ACKED
    assert broker.queue("caught").ready == 1
    assert broker.publish("", "absent", b"") != ACKED


async def test_expiration_acts_where_the_message_is(autojump_clock):
    """A message expires at its own time or its queue's, and is then dead-lettered (fact 10)."""
    broker = MemoryBroker(wall_clock=lambda: 1234.9)
    broker.declare_queue("dead")
    dlx = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    broker.declare_queue("q", {"x-message-ttl": 60_000, **dlx})
    async with broker.connect(OPTIONS):
        broker.publish("", "q", b"own", Properties(expiration="10000"))
        broker.publish("", "q", b"queue's")
        await trio.sleep(10.5)
        assert broker.queue("q").bodies == (b"queue's",)
        await trio.sleep(50)
        assert broker.queue("q").ready == 0
    own, _ = broker.queue("dead").messages
    assert own.properties.expiration is None
    [death] = own.properties.headers["x-death"]
    assert (death["reason"], death["original-expiration"], death["time"]) == ("expired", "10000", 1234)


async def test_a_malformed_expiration_closes_the_channel(autojump_clock):
    """An ``expiration`` that is no number of milliseconds is refused with 406 (fact 10)."""
    broker = MemoryBroker()
    broker.declare_queue("q")
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        await channel.publish(publication(expiration="abc"))
        text = "PRECONDITION_FAILED - invalid expiration 'abc': no_integer"
        assert channel.closed == ChannelClose(406, text, 60, 40)
