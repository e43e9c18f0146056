"""The embedded broker under resource alarms, and on frozen and abandoned connections."""

from __future__ import annotations

import pytest
import trio

from craig_mq.core.close import ConnectionLoss, LocalClose
from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import ACKED, Unconfirmed
from craig_mq.core.topology import QueueSpec
from craig_mq.testing import MemoryBroker
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.errors import OperationTimedOut

PUBLISHER = ConnectionOptions("publisher", rpc_timeout=5.0, heartbeat=10)
CONSUMER = ConnectionOptions("consumer", rpc_timeout=5.0, heartbeat=10)


def to_queue(body: bytes = b"body") -> Publication:
    return Publication("", "q", body, Properties(message_id="m", delivery_mode=2))


@pytest.fixture
def broker() -> MemoryBroker:
    opened = MemoryBroker()
    opened.declare_queue("q")
    return opened


async def test_only_a_publish_during_the_alarm_blocks(broker, autojump_clock):
    """connection.blocked comes with the first publish during an alarm, not with the alarm (fact 7)."""
    async with broker.connect(PUBLISHER) as connection:
        channel = await connection.open_channel(confirms=True)
        broker.alarm(on=True)
        await channel.declare_queue(QueueSpec("q"))
        assert connection.blocked is None
        with trio.move_on_after(60) as waited:
            await channel.publish(to_queue())
        assert waited.cancelled_caught
        assert connection.blocked == "low on memory"
        assert broker.queue("q").ready == 0
        with pytest.raises(OperationTimedOut):
            await channel.declare_queue(QueueSpec("q"), passive=True)


async def test_consume_only_connections_go_on_during_an_alarm(broker, autojump_clock):
    """An alarm leaves connections that publish nothing, and new ones, as they are (fact 7)."""
    broker.publish("", "q", b"before")
    broker.alarm(on=True, resource="disk")
    async with broker.connect(CONSUMER) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q", prefetch=1)
        delivery = await consumer.receive()
        channel.ack_nowait(delivery.delivery_tag)
        await channel.flush()
        assert (broker.queue("q").unacked, connection.blocked) == (0, None)


async def test_a_publish_goes_through_when_the_alarm_clears(broker, autojump_clock):
    """The blocked publish is stored and confirmed once the alarm is gone, and unblocked is told (CONF-04)."""
    async with broker.connect(PUBLISHER) as connection:
        channel = await connection.open_channel(confirms=True)
        broker.alarm(on=True)
        outcomes: list[object] = []

        async def publish() -> None:
            outcomes.append(await channel.publish(to_queue()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(publish)
            await connection.wait_blocked()
            await trio.sleep(100)
            assert outcomes == []
            broker.alarm(on=False)
            await connection.wait_unblocked()
        assert outcomes == [ACKED]
        assert broker.queue("q").ready == 1


async def test_acks_behind_a_blocked_publish_are_not_processed(broker, autojump_clock):
    """On a blocked connection an ack is accepted but not processed before the alarm ends (CONF-04)."""
    broker.publish("", "q", b"held")
    broker.declare_queue("p")
    async with broker.connect(PUBLISHER) as connection:
        channel = await connection.open_channel(confirms=True)
        delivery = await channel.get("q")
        broker.alarm(on=True)
        with trio.move_on_after(1):
            await channel.publish(Publication("", "p", b"", Properties(message_id="m")))
        channel.ack_nowait(delivery.delivery_tag)
        await channel.flush()
        assert broker.queue("q").unacked == 1
        broker.alarm(on=False)
        assert broker.queue("q").unacked == 0


async def test_a_reset_loses_what_waits_but_is_noticed_only_later(broker, autojump_clock):
    """Publishes abandoned with a reset are never executed; the connection stays listed (fact 7)."""
    async with broker.connect(PUBLISHER) as connection:
        channel = await connection.open_channel(confirms=True)
        broker.alarm(on=True)
        with trio.move_on_after(1):
            await channel.publish(to_queue())
        connection.abort()
        assert connection.closed == LocalClose(aborted=True)
    assert broker.connections == ("publisher",)
    broker.alarm(on=False)
    assert broker.connections == ()
    assert broker.queue("q").ready == 0


async def test_a_fin_lets_what_waits_be_executed(broker, autojump_clock):
    """Publishes abandoned with a FIN are executed when the alarm is gone, with no confirm (fact 7)."""
    async with broker.connect(PUBLISHER) as connection:
        channel = await connection.open_channel(confirms=True)
        broker.alarm(on=True)
        with trio.move_on_after(1):
            await channel.publish(to_queue())
        broker.kill_client("publisher")
        assert isinstance(connection.closed, ConnectionLoss)
    assert broker.queue("q").ready == 0
    broker.alarm(on=False)
    assert broker.queue("q").ready == 1
    assert broker.connections == ()


async def test_a_close_gets_no_answer_while_blocked(broker, autojump_clock):
    """A graceful close of a blocked connection gives up after rpc_timeout and resets (CLH-03)."""
    async with broker.connect(PUBLISHER) as connection:
        channel = await connection.open_channel(confirms=True)
        broker.alarm(on=True)
        with trio.move_on_after(1):
            await channel.publish(to_queue())
        began = trio.current_time()
        await connection.aclose()
        assert trio.current_time() - began == pytest.approx(5.0)
        assert connection.closed == LocalClose(aborted=True)


async def test_two_alarms_block_until_both_are_clear(broker, autojump_clock):
    """The connection is unblocked when the last of several alarms clears."""
    async with broker.connect(PUBLISHER) as connection:
        channel = await connection.open_channel(confirms=True)
        broker.alarm(on=True, resource="memory")
        broker.alarm(on=True, resource="disk")
        with trio.move_on_after(1):
            await channel.publish(to_queue())
        assert connection.blocked == "low on memory & disk"
        broker.alarm(on=False, resource="memory")
        assert connection.blocked is not None
        broker.alarm(on=False, resource="disk")
        assert connection.blocked is None


async def test_an_ack_on_a_frozen_connection_looks_sent(broker, autojump_clock):
    """An ack fits the socket's buffer although the peer is frozen: the message comes back later (HALF-01)."""
    broker.publish("", "q", b"held")
    async with broker.connect(CONSUMER) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q", prefetch=1)
        delivery = await consumer.receive()
        broker.freeze("consumer")
        channel.ack_nowait(delivery.delivery_tag)
        await channel.flush()
        assert broker.queue("q").unacked == 1
        began = trio.current_time()
        reason = await connection.wait_closed()
        assert reason == ConnectionLoss("missed heartbeats")
        assert trio.current_time() - began == pytest.approx(20.0)
    [message] = broker.queue("q").messages
    assert message.redelivered


async def test_a_frozen_connection_keeps_its_deliveries_after_an_abort(broker, autojump_clock):
    """The broker holds on to a dead client's deliveries until its heartbeats run out (HALF-04)."""
    broker.publish("", "q", b"held")
    async with broker.connect(CONSUMER) as connection:
        await (await connection.open_channel()).consume("q", prefetch=1)
        broker.freeze("consumer")
        connection.abort()
    assert (broker.queue("q").ready, broker.queue("q").unacked) == (0, 1)
    async with broker.connect(PUBLISHER) as second:
        consumer = await (await second.open_channel()).consume("q", prefetch=1)
        began = trio.current_time()
        delivery = await consumer.receive()
        assert trio.current_time() - began == pytest.approx(20.0)
        assert delivery.redelivered


async def test_a_thawed_connection_goes_on_where_it_stopped(broker, autojump_clock):
    """What waited on a frozen connection takes effect in order once it thaws."""
    async with broker.connect(PUBLISHER) as connection:
        channel = await connection.open_channel(confirms=True)
        broker.freeze("publisher")
        outcomes: list[object] = []

        async def publish(body: bytes) -> None:
            outcomes.append(await channel.publish(to_queue(body)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(publish, b"a")
            await trio.sleep(5)
            nursery.start_soon(publish, b"b")
            await trio.sleep(5)
            broker.thaw("publisher")
        assert outcomes == [ACKED, ACKED]
        assert broker.queue("q").bodies == (b"a", b"b")
        await trio.sleep(100)
        assert connection.closed is None


async def test_an_abort_resolves_what_was_never_confirmed(broker, autojump_clock):
    """Publishes still waiting on a frozen connection end as Unconfirmed when it is aborted."""
    async with broker.connect(PUBLISHER) as connection:
        channel = await connection.open_channel(confirms=True)
        broker.freeze("publisher")
        async with trio.open_nursery() as nursery:

            async def publish() -> None:
                assert isinstance(await channel.publish(to_queue()), Unconfirmed)

            nursery.start_soon(publish)
            await trio.sleep(1)
            connection.abort()
