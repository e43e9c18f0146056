"""The embedded broker crashing, stopping and coming back."""

from __future__ import annotations

import pytest
import trio

from craig_mq.core.close import ConnectionClose, ConnectionLoss
from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import ACKED, Unconfirmed
from craig_mq.core.topology import ExchangeSpec, QueueSpec
from craig_mq.testing import MemoryBroker
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.errors import ClosedError, ConnectError, ConnectErrorKind

OPTIONS = ConnectionOptions("test")
PERSISTENT = Properties(message_id="m", delivery_mode=2)


@pytest.fixture
def broker() -> MemoryBroker:
    opened = MemoryBroker()
    opened.declare_queue("q")
    return opened


async def test_after_a_crash_acked_messages_return_and_all_say_redelivered(broker, autojump_clock):
    """Acks not yet on disk are forgotten by a crash, and every message then says redelivered (fact 13)."""
    for body in (b"acked", b"held", b"never taken"):
        broker.publish("", "q", body, PERSISTENT)
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        acked = await channel.get("q")
        await channel.get("q")
        channel.ack_nowait(acked.delivery_tag)
        broker.crash()
        assert isinstance(connection.closed, ConnectionLoss)
        with pytest.raises(ClosedError):
            await channel.get("q")
    assert broker.queue("q").bodies == (b"acked", b"held", b"never taken")
    assert all(message.redelivered for message in broker.queue("q").messages)


async def test_how_many_acks_a_crash_forgets_can_be_chosen(broker, autojump_clock):
    """Only the last so many acks of each queue come back, in their old order."""
    for body in (b"a", b"b", b"c"):
        broker.publish("", "q", body, PERSISTENT)
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        for _ in range(3):
            channel.ack_nowait((await channel.get("q")).delivery_tag)
        broker.crash(returning_acks=2)
    assert broker.queue("q").bodies == (b"b", b"c")
    broker.crash(returning_acks=0)
    assert broker.queue("q").bodies == (b"b", b"c")


async def test_a_crash_loses_what_is_not_durable(broker, autojump_clock):
    """Transient messages, queues and exchanges go with a crash; confirmed persistent ones stay (fact 4)."""
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        await channel.declare_queue(QueueSpec("transient", durable=False))
        await channel.declare_exchange(ExchangeSpec("transient.x", durable=False))
        assert await channel.publish(Publication("", "q", b"kept", PERSISTENT)) == ACKED
        broker.publish("", "q", b"lost", Properties(delivery_mode=1))
        broker.crash()
    broker.restart()
    assert broker.queue("q").bodies == (b"kept",)
    assert broker.queues == ("q",)
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        with pytest.raises(ClosedError, match="no exchange"):
            await channel.declare_exchange(ExchangeSpec("transient.x"), passive=True)


async def test_a_node_that_is_down_is_unreachable(broker, autojump_clock):
    """Connecting to a crashed or stopped node fails as unreachable until it is restarted."""
    for down in (broker.crash, broker.stop):
        down()
        with pytest.raises(ConnectError) as caught:
            async with broker.connect(OPTIONS):
                pass
        assert caught.value.kind is ConnectErrorKind.UNREACHABLE
        broker.restart()
        async with broker.connect(OPTIONS) as connection:
            assert connection.closed is None


async def test_a_stop_closes_with_320_and_forgets_no_ack(broker, autojump_clock):
    """A graceful stop closes every connection with CONNECTION_FORCED; acked stays acked (ACK-06)."""
    for body in (b"acked", b"held", b"never taken"):
        broker.publish("", "q", body, PERSISTENT)
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        channel.ack_nowait((await channel.get("q")).delivery_tag)
        await channel.get("q")
        broker.stop()
        text = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
        assert connection.closed == ConnectionClose(320, text)
    found = [(message.body, message.redelivered) for message in broker.queue("q").messages]
    assert found == [(b"held", True), (b"never taken", False)]


async def test_a_crash_ends_blocked_and_frozen_connections_too(broker, autojump_clock):
    """A connection nothing is read from dies with its node: its publish stays unknown (CONF-06)."""
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        broker.alarm(on=True)
        broker.crash()
        assert isinstance(await channel.publish(Publication("", "q", b"", PERSISTENT)), Unconfirmed)
    broker.restart()
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        assert await channel.publish(Publication("", "q", b"", PERSISTENT)) == ACKED
    assert broker.queue("q").ready == 1


async def test_an_operator_closes_a_connection(broker, autojump_clock):
    """A forced close names its code and its text, and what was held comes back (ACK-04)."""
    broker.publish("", "q", b"held", PERSISTENT)
    async with broker.connect(OPTIONS) as connection:
        await (await connection.open_channel()).get("q")
        broker.close_connection("test", "go away")
        assert connection.closed == ConnectionClose(320, "CONNECTION_FORCED - go away")
    assert broker.queue("q").ready == 1


async def test_a_close_behind_a_frozen_stream_is_noticed_by_heartbeats(autojump_clock):
    """A connection closed by the broker while frozen ends at the client once its heartbeats are missed."""
    broker = MemoryBroker()
    async with broker.connect(ConnectionOptions("c", heartbeat=3)) as connection:
        broker.freeze("c")
        await trio.sleep(1)
        broker.close_connection("c")
        assert connection.closed is None
        assert await connection.wait_closed() == ConnectionLoss("missed heartbeats")
        assert trio.current_time() == 6
