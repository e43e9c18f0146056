"""Cancellation: every call is atomic, and what a cancelled one leaves behind is tidied up."""

from __future__ import annotations

import pytest
import trio
from pamqp import commands

from craig_mq.core.topology import QueueSpec
from craig_mq.transport.broker import ConnectionOptions


async def test_a_cancelled_consume_leaves_no_consumer(connected, autojump_clock):
    """CCAN-03: cancelled before consume-ok, the consumer is cancelled and its message requeued."""
    seen = []

    async def script(peer):
        await peer.open_channel()
        consume = await peer.expect(commands.Basic.Consume)
        tag = str(consume["consumer_tag"])
        await trio.sleep(1)
        await peer.send(commands.Basic.QosOk())
        await peer.send(commands.Basic.ConsumeOk(tag))
        await peer.deliver(tag, 1)
        await peer.expect(commands.Basic.Cancel)
        await peer.send(commands.Basic.CancelOk(tag))
        nack = await peer.expect(commands.Basic.Nack)
        seen.append((nack["delivery_tag"], nack["requeue"]))

    async with connected(script) as connection:
        channel = await connection.open_channel()
        with trio.move_on_after(0.5) as bound:
            await channel.consume("q", prefetch=1)
        assert bound.cancelled_caught
        await trio.sleep(2)
        assert channel.closed is None
    assert seen == [(1, True)]


async def test_a_cancelled_declare_does_not_poison_the_next_answer(connected, autojump_clock):
    """CMID-01: the answer of a cancelled request is dropped, and the next request gets its own."""

    async def script(peer):
        await peer.open_channel()
        await peer.expect(commands.Queue.Declare)
        await peer.expect(commands.Queue.Declare)
        await peer.send(commands.Queue.DeclareOk("first", 1, 1))
        await peer.send(commands.Queue.DeclareOk("second", 2, 2))

    async with connected(script) as connection:
        channel = await connection.open_channel()
        with trio.move_on_after(0.5):
            await channel.declare_queue(QueueSpec("first"), passive=True)
        state = await channel.declare_queue(QueueSpec("second"), passive=True)
        assert (state.name, state.ready, state.consumers) == ("second", 2, 2)


async def test_a_cancelled_get_requeues_what_comes(connected, autojump_clock):
    """CMID-01: a message that answers a cancelled basic.get goes back at once."""
    seen = []

    async def script(peer):
        await peer.open_channel()
        await peer.expect(commands.Basic.Get)
        await trio.sleep(1)
        await peer.send(commands.Basic.GetOk(1, False, "", "q", 0))
        await peer.content(b"x")
        nack = await peer.expect(commands.Basic.Nack)
        seen.append((nack["delivery_tag"], nack["requeue"]))

    async with connected(script) as connection:
        channel = await connection.open_channel()
        with trio.move_on_after(0.5):
            await channel.get("q")
        await trio.sleep(2)
    assert seen == [(1, True)]


async def test_a_cancelled_open_keeps_its_number_until_it_is_closed(connected, autojump_clock):
    """CMID-03: an abandoned channel is closed, and its number is not reused before the broker agreed."""
    closed = trio.Event()
    numbers = []

    async def script(peer):
        await peer.expect(commands.Channel.Open)
        channel, _ = await peer.read_frame()
        numbers.append(channel)
        await peer.send(commands.Channel.OpenOk(), 1)
        await peer.send(commands.Channel.OpenOk(), channel)
        await peer.expect(commands.Channel.Close, 1)
        await peer.send(commands.Channel.CloseOk(), 1)
        closed.set()

    async with connected(script) as connection:
        with trio.move_on_after(0.5):
            await connection.open_channel()
        await connection.open_channel()
        await closed.wait()
    assert numbers == [2]


async def test_a_cancelled_receive_loses_no_delivery(connected, autojump_clock):
    """A delivery that arrives after its receiver was cancelled waits for the next one, in order."""
    go = trio.Event()

    async def script(peer):
        await peer.open_channel()
        tag = await peer.start_consumer()
        await go.wait()
        for number in range(1, 6):
            await peer.deliver(tag, number)

    async with connected(script) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q", prefetch=5)
        with trio.move_on_after(0.5):
            await consumer.receive()
        go.set()
        received = []
        for _ in range(5):
            with trio.CancelScope() as scope:
                scope.cancel(reason="cancelled before it began")
                await consumer.receive()
            received.append((await consumer.receive()).delivery_tag)
    assert received == [1, 2, 3, 4, 5]


async def test_a_cancelled_cancel_requeues_what_was_buffered(connected, autojump_clock):
    """CLH-06: when consumer.cancel is cancelled itself, what was buffered is requeued at cancel-ok."""
    seen = []

    async def script(peer):
        await peer.open_channel()
        tag = await peer.start_consumer()
        await peer.deliver(tag, 1)
        await peer.expect(commands.Basic.Cancel)
        await trio.sleep(1)
        await peer.deliver(tag, 2)
        await peer.send(commands.Basic.CancelOk(tag))
        for _ in range(2):
            nack = await peer.expect(commands.Basic.Nack)
            seen.append((nack["delivery_tag"], nack["requeue"]))

    async with connected(script) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q", prefetch=5)
        with trio.move_on_after(0.5):
            await consumer.cancel()
        await trio.sleep(2)
    assert seen == [(1, True), (2, True)]


@pytest.mark.parametrize("step", range(1, 4))
async def test_a_cancelled_connect_leaves_nothing_open(scripted, autojump_clock, step):
    """CMID-03: cancelled at any step of the handshake, connect leaves no socket behind."""

    async def script(peer):
        await peer.stream.receive_some(8)
        if step >= 2:
            await peer.send(commands.Connection.Start(0, 9, {}, "PLAIN", "en_US"), 0)
        if step >= 3:
            await peer.send(commands.Connection.Tune(2047, 131_072, 60), 0)
            await peer.expect(commands.Connection.Open)

    async with scripted(script) as server:
        with trio.move_on_after(0.5) as bound:
            async with server.broker().connect(ConnectionOptions("cancelled")):
                pytest.fail("the handshake was not finished")
        assert bound.cancelled_caught
        await trio.sleep(0.1)
        assert (server.accepted, server.open_sockets) == (1, 0)


async def test_ends_and_cancels_in_any_order_leave_no_task(connected, autojump_clock):
    """CLH-06: a channel close racing with a cancel and a drain ends every task, whichever comes first."""

    async def script(peer):
        await peer.open_channel()
        tag = await peer.start_consumer()
        await peer.deliver(tag, 1)
        await peer.expect(commands.Basic.Cancel)
        await peer.send(commands.Channel.Close(406, "PRECONDITION_FAILED", 60, 80))

    for delay in range(10):
        async with connected(script) as connection:
            channel = await connection.open_channel()
            consumer = await channel.consume("q", prefetch=1)
            await consumer.receive()
            with trio.move_on_after(0.0 if delay % 2 else 1.0):
                with pytest.raises(Exception, match="406"):
                    await consumer.cancel()
            await channel.aclose()
            assert channel.closed is not None
