"""What every transport owes the runtime about deliveries and their settlement.

The suite (this file and its siblings ``test_transport_conformance_*``) is written against the
protocols alone; every case holds on RabbitMQ 3.10.8.
"""

from __future__ import annotations

import pytest
import trio

from craig_mq.core.close import ChannelClose, ConsumerCancel, LocalClose
from craig_mq.core.outcome import ACKED
from craig_mq.core.topology import QueueSpec
from craig_mq.transport.errors import ClosedError


async def test_a_confirmed_message_is_delivered_and_acked(channel, new_queue, to_queue, take, ready_count):
    """A confirmed publish is delivered with its bytes and route, and once acked it is gone."""
    queue = await new_queue()
    assert await channel.publish(to_queue(queue, b"\x00\xff body")) == ACKED
    consumer = await channel.consume(queue, prefetch=5)
    [delivery] = await take(consumer, 1)
    assert (delivery.body, delivery.exchange, delivery.routing_key) == (b"\x00\xff body", "", queue)
    assert not delivery.redelivered
    channel.ack_nowait(delivery.delivery_tag)
    await channel.flush()
    assert await consumer.cancel() == []
    await channel.aclose()
    assert await ready_count(queue) == 0


async def test_messages_come_in_the_order_they_were_published(channel, new_queue, to_queue, take):
    """One publisher's messages reach one consumer in order, tags counting from 1."""
    queue = await new_queue()
    for number in range(20):
        await channel.publish(to_queue(queue, str(number).encode()))
    consumer = await channel.consume(queue, prefetch=20)
    deliveries = await take(consumer, 20)
    assert [int(delivery.body) for delivery in deliveries] == list(range(20))
    assert [delivery.delivery_tag for delivery in deliveries] == list(range(1, 21))


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 400_000])
async def test_bodies_of_any_size_arrive_whole(size, channel, new_queue, to_queue, take):
    """A body is the same bytes at the other end, whether empty, one frame long or several."""
    queue = await new_queue()
    body = bytes(range(256)) * (size // 256) + b"z" * (size % 256)
    await channel.publish(to_queue(queue, body))
    [delivery] = await take(await channel.consume(queue, prefetch=1), 1)
    assert delivery.body == body


async def test_prefetch_bounds_what_is_unacked(channel, new_queue, to_queue, take):
    """No more than ``prefetch`` deliveries are outstanding; each ack lets one more come."""
    queue = await new_queue()
    for number in range(5):
        await channel.publish(to_queue(queue, str(number).encode()))
    consumer = await channel.consume(queue, prefetch=2)
    first, _ = await take(consumer, 2)
    with trio.move_on_after(0.3) as waited:
        await consumer.receive()
    assert waited.cancelled_caught
    assert consumer.receive_nowait() is None
    channel.ack_nowait(first.delivery_tag)
    await channel.flush()
    [third] = await take(consumer, 1)
    assert third.body == b"2"


async def test_a_requeue_returns_to_the_head_and_is_marked(channel, new_queue, to_queue, take):
    """A nack with requeue puts a classic queue's message back where it was, marked redelivered (fact 15)."""
    queue = await new_queue()
    for body in (b"a", b"b", b"c"):
        await channel.publish(to_queue(queue, body))
    consumer = await channel.consume(queue, prefetch=1)
    [delivery] = await take(consumer, 1)
    channel.nack_nowait(delivery.delivery_tag, requeue=True)
    [again] = await take(consumer, 1)
    assert (again.body, again.redelivered) == (b"a", True)


async def test_a_nack_without_requeue_drops(channel, new_queue, to_queue, take, ready_count, eventually):
    """A nack without requeue and without a dead-letter exchange is the end of a message."""
    queue = await new_queue()
    await channel.publish(to_queue(queue))
    consumer = await channel.consume(queue, prefetch=1)
    [delivery] = await take(consumer, 1)
    channel.nack_nowait(delivery.delivery_tag, requeue=False)
    await consumer.cancel()
    await channel.aclose()
    assert await eventually(lambda: ready_count(queue), 0) == 0


async def test_multiple_settles_everything_up_to_the_tag(
    channel, new_queue, to_queue, take, ready_count, eventually
):
    """A ``multiple`` ack settles every earlier delivery; what is later comes back (fact 16)."""
    queue = await new_queue()
    for number in range(6):
        await channel.publish(to_queue(queue, str(number).encode()))
    deliveries = await take(await channel.consume(queue, prefetch=6), 6)
    channel.ack_nowait(deliveries[3].delivery_tag, multiple=True)
    await channel.flush()
    await channel.aclose()
    assert await eventually(lambda: ready_count(queue), 2) == 2


async def test_a_closed_channel_gives_back_what_it_held_in_order(
    connection, channel, new_queue, to_queue, take
):
    """Closing a channel requeues its unacked deliveries at their old places, marked redelivered."""
    queue = await new_queue()
    for body in (b"a", b"b", b"c", b"d"):
        await channel.publish(to_queue(queue, body))
    first, *_ = await take(await channel.consume(queue, prefetch=3), 3)
    channel.ack_nowait(first.delivery_tag)
    await channel.flush()
    await channel.aclose()
    other = await connection.open_channel()
    again = await take(await other.consume(queue, prefetch=9), 3)
    assert [(each.body, each.redelivered) for each in again] == [(b"b", True), (b"c", True), (b"d", True)]


async def test_an_aborted_connection_gives_back_what_it_held(
    broker, options, channel, new_queue, to_queue, take
):
    """A reset connection's unacked deliveries go to the next consumer, marked redelivered."""
    queue = await new_queue()
    await channel.publish(to_queue(queue))
    async with broker.connect(options) as doomed:
        await take(await (await doomed.open_channel()).consume(queue, prefetch=1), 1)
        doomed.abort()
        assert doomed.closed == LocalClose(aborted=True)
    [delivery] = await take(await channel.consume(queue, prefetch=1), 1)
    assert delivery.redelivered


async def test_an_unknown_delivery_tag_closes_the_channel(channel, new_queue, to_queue, take):
    """Acking a tag never given closes the channel with 406, and every later call names it (ACK-01)."""
    queue = await new_queue()
    await channel.publish(to_queue(queue))
    consumer = await channel.consume(queue, prefetch=5)
    [delivery] = await take(consumer, 1)
    channel.ack_nowait(999)
    with trio.fail_after(10):
        reason = await channel.wait_closed()
    assert reason == ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 999", 60, 80)
    with pytest.raises(ClosedError, match="unknown delivery tag 999"):
        channel.ack_nowait(delivery.delivery_tag)
    with pytest.raises(ClosedError, match="unknown delivery tag 999"):
        await consumer.receive()
    with pytest.raises(ClosedError, match="unknown delivery tag 999"):
        await channel.flush()


async def test_an_unknown_tag_takes_nothing_with_it(connection, channel, new_queue, to_queue, take):
    """After a channel died of one bad ack, everything it held comes back redelivered (ACK-01)."""
    queue = await new_queue()
    for body in (b"a", b"b", b"c"):
        await channel.publish(to_queue(queue, body))
    await take(await channel.consume(queue, prefetch=5), 3)
    channel.ack_nowait(999)
    await channel.wait_closed()
    assert connection.closed is None
    other = await connection.open_channel()
    again = await take(await other.consume(queue, prefetch=5), 3)
    assert [(each.body, each.redelivered) for each in again] == [(b"a", True), (b"b", True), (b"c", True)]


async def test_a_nack_of_an_unknown_tag_names_its_own_method(channel):
    """A nack of a tag never given closes the channel with 60/120 (fact 16)."""
    channel.nack_nowait(7, requeue=True)
    reason = await channel.wait_closed()
    assert reason == ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 7", 60, 120)


async def test_a_tag_settles_once(channel, new_queue, to_queue, take):
    """A second ack of one delivery is an unknown tag."""
    queue = await new_queue()
    await channel.publish(to_queue(queue))
    [delivery] = await take(await channel.consume(queue, prefetch=1), 1)
    channel.ack_nowait(delivery.delivery_tag)
    channel.ack_nowait(delivery.delivery_tag)
    reason = await channel.wait_closed()
    assert isinstance(reason, ChannelClose)
    assert reason.code == 406


async def test_deleting_the_queue_cancels_its_consumer(connection, channel, new_queue):
    """A consumer whose queue is deleted learns so; its channel lives on (fact 14)."""
    queue = await new_queue()
    consumer = await channel.consume(queue, prefetch=1)
    await (await connection.open_channel()).delete_queue(queue)
    with trio.fail_after(10), pytest.raises(ClosedError) as caught:
        await consumer.receive()
    assert caught.value.reason == ConsumerCancel(queue)
    assert channel.closed is None
    with pytest.raises(ClosedError):
        consumer.receive_nowait()


async def test_cancel_hands_back_what_was_buffered(channel, new_queue, to_queue, take):
    """Cancelling returns the deliveries nobody took; nacked then, they keep their places (decisions, 12)."""
    queue = await new_queue()
    for body in (b"a", b"b", b"c"):
        await channel.publish(to_queue(queue, body))
    consumer = await channel.consume(queue, prefetch=3)
    [first] = await take(consumer, 1)
    left = await consumer.cancel()
    assert [delivery.body for delivery in left] == [b"b", b"c"]
    channel.nack_nowait(left[-1].delivery_tag, requeue=True, multiple=True)
    again = await take(await channel.consume(queue, prefetch=3), 3)
    assert [delivery.body for delivery in again] == [b"a", b"b", b"c"]
    assert first.delivery_tag not in {delivery.delivery_tag for delivery in again}


async def test_each_delivery_goes_to_one_receiver(channel, new_queue, to_queue):
    """Of several tasks receiving from one consumer, each delivery reaches exactly one."""
    queue = await new_queue()
    consumer = await channel.consume(queue, prefetch=30)
    got: list[bytes] = []

    async def work() -> None:
        while True:
            got.append((await consumer.receive()).body)

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(work)
        for number in range(30):
            await channel.publish(to_queue(queue, str(number).encode()))
        with trio.move_on_after(10):
            while len(got) < 30:
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel(reason="all received")
    assert sorted(map(int, got)) == list(range(30))


async def test_a_get_takes_one_message_that_must_be_settled(
    connection, channel, new_queue, to_queue, eventually, ready_count
):
    """basic.get hands out one unacked message or nothing; unsettled, it returns with its channel's end."""
    queue = await new_queue()
    assert await channel.get(queue) is None
    await channel.publish(to_queue(queue, b"one"))
    other = await connection.open_channel()
    delivery = await other.get(queue)
    assert delivery is not None
    assert (delivery.body, delivery.redelivered) == (b"one", False)
    assert await channel.get(queue) is None
    await other.aclose()
    assert await eventually(lambda: ready_count(queue), 1) == 1
    again = await channel.get(queue)
    assert again is not None
    assert again.redelivered


async def test_a_passive_declare_counts_ready_messages_only(channel, new_queue, to_queue, take):
    """A held delivery is not in the depth a passive declare reports (fact 11)."""
    queue = await new_queue()
    for _ in range(3):
        await channel.publish(to_queue(queue))
    await take(await channel.consume(queue, prefetch=1), 1)
    state = await channel.declare_queue(QueueSpec(queue), passive=True)
    assert (state.name, state.ready, state.consumers) == (queue, 2, 1)
