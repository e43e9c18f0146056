"""How things end: silence, closes, cancels, aborts; each within a bound and with its own reason."""

from __future__ import annotations

import pytest
import trio
from pamqp import commands

from craig_mq.core.close import (
    ChannelClose,
    ConnectionClose,
    ConnectionLoss,
    ConsumerCancel,
    LocalClose,
)
from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import Unconfirmed
from craig_mq.core.topology import QueueSpec
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.errors import ClosedError, OperationTimedOut


async def test_silence_ends_the_connection(connected, autojump_clock):
    """HALF-02: a connection on which nothing is heard for two heartbeats is lost, and its consumers know."""

    async def script(peer):
        await peer.open_channel()
        await peer.start_consumer()
        await trio.sleep_forever()

    async with connected(script, heartbeat_s=5) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q", prefetch=5)
        started = trio.current_time()
        with pytest.raises(ClosedError) as ended:
            await consumer.receive()
        assert 10 < trio.current_time() - started <= 3 * (5 + 1) + 2
    assert isinstance(ended.value.reason, ConnectionLoss)
    assert "nothing heard" in ended.value.reason.text


async def test_a_lost_connection_is_aborted_without_a_handshake(connected, autojump_clock):
    """HB-03: after silence nothing more is sent, and leaving the block takes no time."""

    async def script(peer):
        await trio.sleep_forever()

    async with connected(script, heartbeat_s=5) as connection:
        await connection.wait_closed()
        left = trio.current_time()
        await connection.aclose()
    assert trio.current_time() == left


async def test_heartbeats_flow_while_nobody_calls(connected, autojump_clock):
    """Heartbeats are sent and heard without any call on the connection."""
    heard = 0

    async def script(peer):
        nonlocal heard
        with trio.move_on_after(60):
            while True:
                assert await peer.stream.receive_some(8) == b"\x08\x00\x00\x00\x00\x00\x00\xce"
                heard += 1
                await peer.raw(b"\x08\x00\x00\x00\x00\x00\x00\xce")

    async with connected(script, heartbeat_s=4) as connection:
        await trio.sleep(60)
        assert connection.closed is None
    assert heard >= 60 / 4


async def test_a_held_up_loop_does_not_blame_the_broker(connected, autojump_clock):
    """HB-01: when this side's own loop stood still, silence counts only from then on."""

    async def script(peer):
        while True:
            await peer.stream.receive_some(64)

    async with connected(script, heartbeat_s=2) as connection:
        await trio.sleep(0.5)
        autojump_clock.jump(9)
        await trio.sleep(0.1)
        assert connection.closed is None


async def test_a_closed_channel_leaves_its_connection_alone(connected, autojump_clock):
    """CHC-01: a channel closed for a late ack ends its consumer with the broker's text, and nothing else."""
    text = "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out"

    async def script(peer):
        await peer.open_channel(1)
        await peer.start_consumer(1)
        await peer.send(commands.Channel.Close(406, text, 0, 0))
        await peer.expect(commands.Channel.CloseOk, 1)
        await peer.open_channel(2)

    async with connected(script) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q", prefetch=1)
        with pytest.raises(ClosedError, match="timed out") as ended:
            await consumer.receive()
        assert ended.value.reason == ChannelClose(406, text, 0, 0)
        assert await channel.wait_closed() == ChannelClose(406, text, 0, 0)
        await connection.open_channel()


async def test_nothing_is_sent_on_a_closed_channel(connected, autojump_clock):
    """CHC-03: after a channel's end every call on it fails here, and no frame reaches the broker."""
    extra = []

    async def script(peer):
        await peer.open_channel()
        tag = await peer.start_consumer()
        await peer.deliver(tag, 1)
        await peer.send(commands.Channel.Close(406, "PRECONDITION_FAILED", 60, 80))
        await peer.expect(commands.Channel.CloseOk)
        while True:
            extra.append(await peer.read_frame())

    async with connected(script) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q", prefetch=1)
        await channel.wait_closed()
        for call in (
            lambda: channel.ack_nowait(1),
            lambda: channel.nack_nowait(1, requeue=True),
            consumer.receive_nowait,
        ):
            with pytest.raises(ClosedError, match="406"):
                call()
        for wait in (channel.flush, consumer.cancel, consumer.receive, lambda: channel.get("q")):
            with pytest.raises(ClosedError, match="406"):
                await wait()
        await channel.aclose()
        await trio.sleep(1)
    assert extra == []


async def test_a_cancelled_consumer_says_so(connected, autojump_clock):
    """CCAN-01: basic.cancel from the broker ends the consumer at once, naming its queue."""

    async def script(peer):
        await peer.open_channel()
        tag = await peer.start_consumer()
        await peer.send(commands.Basic.Cancel(tag, True))

    async with connected(script) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q", prefetch=1)
        with trio.fail_after(1), pytest.raises(ClosedError) as ended:
            await consumer.receive()
        assert ended.value.reason == ConsumerCancel("q")
        assert channel.closed is None


async def test_consumer_cancel_notify_is_announced(scripted, autojump_clock):
    """CCAN-01: the client announces the capabilities without which a broker cancels silently."""
    announced = {}

    async def script(peer):
        await peer.stream.receive_some(8)
        await peer.send(commands.Connection.Start(0, 9, {}, "PLAIN", "en_US"), 0)
        announced.update((await peer.expect(commands.Connection.StartOk))["client_properties"])
        await peer.send(commands.Connection.Close(403, "ACCESS_REFUSED", 0, 0), 0)

    async with scripted(script) as server:
        with pytest.raises(Exception, match="403"):
            async with server.broker().connect(ConnectionOptions("my name")):
                pass
    assert announced["connection_name"] == "my name"
    assert announced["capabilities"]["consumer_cancel_notify"]
    assert announced["capabilities"]["connection.blocked"]
    assert announced["capabilities"]["authentication_failure_close"]


async def test_a_connection_closed_by_the_broker_keeps_its_text(connected, autojump_clock):
    """ACK-04: a forced close reaches every waiting call with its code and text, and is answered."""
    answered = trio.Event()

    async def script(peer):
        await peer.open_channel()
        await peer.start_consumer()
        await peer.send(commands.Connection.Close(320, "CONNECTION_FORCED - closed by operator", 0, 0), 0)
        await peer.expect(commands.Connection.CloseOk)
        answered.set()

    async with connected(script) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q", prefetch=1)
        with pytest.raises(ClosedError, match="closed by operator"):
            await consumer.receive()
        assert connection.closed == ConnectionClose(320, "CONNECTION_FORCED - closed by operator", 0, 0)
        with trio.fail_after(1):
            await answered.wait()


async def test_a_reply_text_cut_inside_a_character_is_read(connected, autojump_clock):
    """PROP-02: a close whose text is not UTF-8 to its end is a close like any other."""

    async def script(peer):
        await peer.open_channel()
        text = b"NOT_FOUND - no queue '\xc3"
        payload = b"\x00\x14\x00\x28\x01\x94" + bytes((len(text),)) + text + b"\x00\x32\x00\x0a"
        await peer.raw(b"\x01\x00\x01" + len(payload).to_bytes(4, "big") + payload + b"\xce")

    async with connected(script) as connection:
        channel = await connection.open_channel()
        reason = await channel.wait_closed()
        assert reason == ChannelClose(404, "NOT_FOUND - no queue '\ufffd", 50, 10)


async def test_closing_is_bounded_when_the_peer_is_silent(connected, autojump_clock):
    """CLH-01: aclose returns within its bound when nobody answers, and the connection is then reset."""

    async def script(peer):
        await peer.open_channel(confirms=True)
        await trio.sleep_forever()

    async with connected(script) as connection:
        channel = await connection.open_channel(confirms=True)
        async with trio.open_nursery() as nursery:

            async def publish():
                outcome = await channel.publish(
                    Publication("", "q", bytes(12 * 1024 * 1024), Properties(message_id="big"))
                )
                assert isinstance(outcome, Unconfirmed)

            nursery.start_soon(publish)
            await trio.sleep(0.1)
            started = trio.current_time()
            await connection.aclose()
        assert trio.current_time() - started <= 10
        assert connection.closed == LocalClose(aborted=True)


async def test_abort_ends_everything_now(connected, autojump_clock):
    """CLH-01: abort, callable from any task, resolves every pending call without waiting for anybody."""

    async def script(peer):
        await peer.open_channel(confirms=True)
        await peer.start_consumer()
        await trio.sleep_forever()

    ended = []

    async def expect_closed(call):
        with pytest.raises(ClosedError, match="LocalClose"):
            await call()
        ended.append(call)

    async def publish(channel):
        outcome = await channel.publish(Publication("", "q", b"", Properties(message_id="m")))
        ended.append(outcome)

    async with connected(script) as connection:
        channel = await connection.open_channel(confirms=True)
        consumer = await channel.consume("q", prefetch=1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(expect_closed, consumer.receive)
            nursery.start_soon(expect_closed, consumer.cancel)
            nursery.start_soon(expect_closed, lambda: channel.declare_queue(QueueSpec("q")))
            nursery.start_soon(expect_closed, connection.open_channel)
            nursery.start_soon(publish, channel)
            await trio.testing.wait_all_tasks_blocked()
            before = trio.current_time()
            connection.abort()
            connection.abort()
        assert trio.current_time() == before
        assert len(ended) == 5
        assert connection.closed == LocalClose(aborted=True)


async def test_confirms_that_arrive_while_closing_block_nothing(connected, autojump_clock):
    """CLH-03: twenty confirms that nobody waits for any more do not hold up the close."""

    async def script(peer):
        await peer.open_channel(confirms=True)
        for _ in range(20):
            await peer.expect(commands.Basic.Publish)
        await peer.expect(commands.Connection.Close)
        for tag in range(1, 21):
            await peer.send(commands.Basic.Ack(tag))
        await peer.send(commands.Connection.CloseOk(), 0)

    async with connected(script) as connection:
        channel = await connection.open_channel(confirms=True)
        async with trio.open_nursery() as nursery:
            for number in range(20):
                publication = Publication("", "q", b"", Properties(message_id=f"m{number}"))
                nursery.start_soon(channel.publish, publication)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel(reason="the session is cancelled")
        with trio.fail_after(1):
            await connection.aclose()
        assert connection.closed == LocalClose(aborted=False)


async def test_cancelling_a_consumer_on_a_dead_connection_fails_at_once(connected, autojump_clock):
    """CLH-04: no basic.cancel is attempted, and nothing is waited for, once the connection is gone."""

    async def script(peer):
        await peer.open_channel()
        await peer.start_consumer()
        await peer.stream.aclose()

    async with connected(script) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q", prefetch=1)
        await connection.wait_closed()
        before = trio.current_time()
        with pytest.raises(ClosedError):
            await consumer.cancel()
        assert trio.current_time() == before


async def test_an_unanswered_call_times_out(connected, autojump_clock):
    """A request that gets no answer within rpc_timeout raises, naming its bound."""

    async def script(peer):
        await peer.open_channel()
        while True:
            await peer.raw(b"\x08\x00\x00\x00\x00\x00\x00\xce")
            await trio.sleep(1)

    async with connected(script) as connection:
        channel = await connection.open_channel()
        with pytest.raises(OperationTimedOut, match="10 s"):
            await channel.declare_queue(QueueSpec("q"))


async def test_blocked_and_unblocked_are_seen(connected, autojump_clock):
    """CONF-03: connection.blocked shows with its reason until connection.unblocked comes."""
    go = trio.Event()

    async def script(peer):
        await peer.send(commands.Connection.Blocked("low on memory"), 0)
        await go.wait()
        await peer.send(commands.Connection.Unblocked(), 0)

    async with connected(script) as connection:
        await connection.wait_blocked()
        assert connection.blocked == "low on memory"
        go.set()
        await connection.wait_unblocked()
        assert connection.blocked is None


async def test_an_error_in_the_block_is_raised_as_it_is(scripted, autojump_clock):
    """What the block raises leaves it unwrapped, and the connection is reset."""

    async def script(peer):
        await peer.shake_hands()

    async with scripted(script) as server:
        with pytest.raises(LookupError, match="mine"):
            async with server.broker().connect(ConnectionOptions("mine")) as connection:
                raise LookupError("mine")
        assert connection.closed == LocalClose(aborted=True)
