"""What every transport owes the runtime about ending and being cancelled."""

from __future__ import annotations

import pytest
import trio

from craig_mq.core.close import LocalClose
from craig_mq.core.outcome import ACKED
from craig_mq.core.topology import QueueSpec
from craig_mq.transport.errors import ClosedError, TransportError

GRACEFUL = LocalClose(aborted=False)
ABORTED = LocalClose(aborted=True)


async def test_a_graceful_close_says_so(broker, options):
    """After ``aclose`` the connection and its channels name a local close; closing again is harmless."""
    async with broker.connect(options) as connection:
        channel = await connection.open_channel()
        assert (connection.closed, connection.blocked, channel.closed) == (None, None, None)
        await connection.aclose()
        await connection.aclose()
        await channel.aclose()
        assert (connection.closed, channel.closed) == (GRACEFUL, GRACEFUL)
        assert await connection.wait_closed() == GRACEFUL
        assert await channel.wait_closed() == GRACEFUL
        await connection.wait_blocked()
        await connection.wait_unblocked()


async def test_an_abort_ends_every_pending_call(broker, options, new_queue):
    """An abort makes a waiting receive raise at once, and is idempotent."""
    queue = await new_queue()
    async with broker.connect(options) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume(queue, prefetch=1)
        ends: list[object] = []

        async def receive() -> None:
            with pytest.raises(ClosedError) as caught:
                await consumer.receive()
            ends.append(caught.value.reason)

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(receive)
                await trio.testing.wait_all_tasks_blocked(0.01)
                connection.abort()
                connection.abort()
        assert ends == [ABORTED]
        assert connection.closed == ABORTED
        await connection.aclose()
        assert connection.closed == ABORTED
        with pytest.raises(ClosedError):
            await connection.open_channel()
        with pytest.raises(ClosedError):
            channel.ack_nowait(1)


async def test_leaving_the_block_aborts(broker, options):
    """A connection not closed when its block ends is aborted."""
    async with broker.connect(options) as connection:
        pass
    assert connection.closed == ABORTED


async def test_the_blocks_own_error_comes_out_as_it_is(broker, options):
    """What the block raises leaves it unwrapped."""
    with pytest.raises(KeyError, match="mine"):
        async with broker.connect(options):
            raise KeyError("mine")


async def test_a_cancelled_block_leaves_at_once(broker, options, new_queue):
    """Cancelling a task inside the block ends the block promptly, with nothing left of the connection."""
    queue = await new_queue()
    with trio.fail_after(5), trio.move_on_after(0.1) as scope:
        async with broker.connect(options) as connection:
            channel = await connection.open_channel()
            await (await channel.consume(queue, prefetch=1)).receive()
    assert scope.cancelled_caught
    assert connection.closed == ABORTED


async def test_a_closed_channel_leaves_the_connection_open(connection, channel, new_queue):
    """Closing one channel leaves its connection and its siblings in use."""
    queue = await new_queue()
    sibling = await connection.open_channel()
    await channel.aclose()
    await channel.aclose()
    assert channel.closed == GRACEFUL
    assert connection.closed is None
    assert await sibling.get(queue) is None
    with pytest.raises(ClosedError):
        await channel.get(queue)


async def test_many_channels_come_and_go(connection, new_queue):
    """Sixty channels can be opened and closed in turn on one connection."""
    queue = await new_queue()
    for _ in range(60):
        channel = await connection.open_channel()
        await channel.declare_queue(QueueSpec(queue), passive=True)
        await channel.aclose()
        assert channel.closed == GRACEFUL
    assert connection.closed is None


async def test_a_cancelled_receive_loses_nothing(channel, new_queue, to_queue, take):
    """A receive that is cancelled leaves its delivery for the next one."""
    queue = await new_queue()
    consumer = await channel.consume(queue, prefetch=1)
    with trio.move_on_after(0.05) as scope:
        await consumer.receive()
    assert scope.cancelled_caught
    await channel.publish(to_queue(queue, b"still here"))
    with trio.CancelScope() as cancelled:
        cancelled.cancel(reason="before it begins")
        await consumer.receive()
    assert cancelled.cancelled_caught
    [delivery] = await take(consumer, 1)
    assert delivery.body == b"still here"


@pytest.mark.parametrize("checkpoints", range(6))
async def test_a_cancelled_consume_leaves_no_consumer(
    checkpoints, connection, new_queue, to_queue, eventually
):
    """However far a cancelled consume got, no consumer stays and no message is held (CCAN-03)."""
    queue = await new_queue()
    publisher = await connection.open_channel(confirms=True)
    await publisher.publish(to_queue(queue))
    channel = await connection.open_channel()
    scope = trio.CancelScope()

    async def consume() -> None:
        with scope:
            consumer = await channel.consume(queue, prefetch=1)
            if scope.cancel_called:
                # It had succeeded before the cancel reached it: then it is the caller's to end.
                with trio.CancelScope(shield=True), trio.fail_after(5):
                    for delivery in await consumer.cancel():
                        channel.nack_nowait(delivery.delivery_tag, requeue=True)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(consume)
        for _ in range(checkpoints):
            await trio.lowlevel.checkpoint()
        scope.cancel(reason="at this very checkpoint")
    if not scope.cancelled_caught and not scope.cancel_called:
        await channel.aclose()

    async def state() -> tuple[int, int]:
        seen = await publisher.declare_queue(QueueSpec(queue), passive=True)
        return seen.ready, seen.consumers

    if channel.closed is None:
        await channel.aclose()
    assert await eventually(state, (1, 0)) == (1, 0)


@pytest.mark.parametrize("checkpoints", range(4))
async def test_a_cancelled_declare_never_answers_another(checkpoints, connection, new_queue, to_queue):
    """After a cancelled declare the channel answers the next one correctly, or is closed."""
    first, second = await new_queue(), await new_queue()
    publisher = await connection.open_channel(confirms=True)
    await publisher.publish(to_queue(second))
    channel = await connection.open_channel()
    scope = trio.CancelScope()

    async def declare() -> None:
        with scope:
            await channel.declare_queue(QueueSpec(first), passive=True)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(declare)
        for _ in range(checkpoints):
            await trio.lowlevel.checkpoint()
        scope.cancel(reason="in the middle of a declare")
    try:
        state = await channel.declare_queue(QueueSpec(second), passive=True)
    except ClosedError:
        assert channel.closed is not None
    else:
        assert (state.name, state.ready) == (second, 1)


async def test_a_cancelled_open_leaves_the_connection_usable(connection, new_queue):
    """A cancelled open_channel leaves a connection on which the next one works."""
    queue = await new_queue()
    with trio.CancelScope() as scope:
        scope.cancel(reason="before open-ok")
        await connection.open_channel()
    assert scope.cancelled_caught
    channel = await connection.open_channel()
    assert await channel.get(queue) is None


async def test_a_cancelled_close_aborts(broker, options):
    """A graceful close that is cancelled becomes an abort."""
    async with broker.connect(options) as connection:
        with trio.CancelScope() as scope:
            scope.cancel(reason="no time for a handshake")
            await connection.aclose()
        assert scope.cancelled_caught
        assert connection.closed is not None


async def test_receivers_learn_of_their_own_cancel(channel, new_queue):
    """A task waiting in receive ends when another cancels the consumer."""
    queue = await new_queue()
    consumer = await channel.consume(queue, prefetch=1)
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:

            async def receive() -> None:
                with pytest.raises(ClosedError) as caught:
                    await consumer.receive()
                assert caught.value.reason == GRACEFUL

            nursery.start_soon(receive)
            await trio.testing.wait_all_tasks_blocked(0.01)
            await consumer.cancel()


@pytest.mark.parametrize("prefetch", [0, 65_536])
async def test_prefetch_has_a_range(prefetch, channel, new_queue):
    """A prefetch outside 1 .. 65535 is a ValueError before anything is sent (0 would mean no limit)."""
    queue = await new_queue()
    with pytest.raises(ValueError, match="prefetch"):
        await channel.consume(queue, prefetch=prefetch)
    assert channel.closed is None


async def test_a_name_that_no_frame_carries_is_refused(connection, new_queue, to_queue):
    """A routing key of over 255 bytes is a ValueError before anything is sent; the channel goes on."""
    queue = await new_queue()
    confirming = await connection.open_channel(confirms=True)
    with pytest.raises(ValueError, match="exceeds 255"):
        await confirming.publish(to_queue("é" * 128))
    assert await confirming.publish(to_queue(queue)) == ACKED


async def test_publishing_needs_confirm_mode(connection, new_queue, to_queue):
    """A channel opened without confirms refuses to publish: there would be no evidence."""
    queue = await new_queue()
    plain = await connection.open_channel()
    with pytest.raises((ValueError, TransportError), match="confirm"):
        await plain.publish(to_queue(queue))
