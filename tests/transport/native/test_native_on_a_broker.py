"""What only a real RabbitMQ, and a network broken on purpose, can show of the native transport."""

from __future__ import annotations

import struct
from functools import partial
from pathlib import Path

import pytest
import trio

from craig_mq.core.close import ChannelClose, ConnectionLoss, ConsumerCancel, LocalClose
from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import Acked, Returned, Unconfirmed
from craig_mq.core.topology import QueueSpec
from craig_mq.testing.proxy import Direction, open_tcp_proxy
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.errors import ClosedError
from craig_mq.transport.native import NativeBroker, methods
from craig_mq.transport.native.fields import encode_short
from craig_mq.transport.url import parse_amqp_url

pytestmark = pytest.mark.broker

OPTIONS = ConnectionOptions("on a broker", connect_timeout=60, rpc_timeout=60)
CLASSIC = {"x-queue-type": "classic"}


def _publication(message_id: str, queue: str = "q", body: bytes = b"body") -> Publication:
    return Publication("", queue, body, Properties(message_id=message_id))


async def _ready(url: str, queue: str) -> int:
    async with NativeBroker(parse_amqp_url(url)).connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        state = await channel.declare_queue(QueueSpec(queue), passive=True)
        await connection.aclose()
        return state.ready


async def _eventually_ready(url: str, queue: str, expected: int) -> int:
    """Wait until ``expected`` messages are ready, for 60 s at most; how many are."""
    with trio.move_on_after(60):
        while await _ready(url, queue) != expected:
            await trio.sleep(0.2)
    return await _ready(url, queue)


@pytest.fixture
async def channel(vhost_url):
    """A channel in confirm mode, on a vhost with an empty classic queue ``q``."""
    async with NativeBroker(parse_amqp_url(vhost_url)).connect(OPTIONS) as connection:
        opened = await connection.open_channel(confirms=True)
        await opened.declare_queue(QueueSpec("q", arguments=CLASSIC))
        yield opened
        await connection.aclose()


_BAD_HEADERS = {
    "microseconds": struct.pack(">HHQHQ", 60, 0, 4, 1 << 6, 1_772_000_000_000_000),
    "beyond 63 bits": struct.pack(">HHQHQ", 60, 0, 4, 1 << 6, 2**63),
    "message id": struct.pack(">HHQH", 60, 0, 4, 1 << 7) + b"\x02\xff\xfe",
    "content type": struct.pack(">HHQH", 60, 0, 4, 1 << 15) + b"\x01\xff",
    "header key": struct.pack(">HHQHI", 60, 0, 4, 1 << 13, 5) + b"\x02\xff\xfet\x01",
    "header value": struct.pack(">HHQHI", 60, 0, 4, 1 << 13, 9) + b"\x01kS\x00\x00\x00\x02\xff\xfe",
}


@pytest.mark.parametrize("case", _BAD_HEADERS)
async def test_no_property_wedges_a_queue(channel, case):
    """PROP-01, PROP-02: a message whose properties nobody can represent is delivered, and so is the next."""
    plain = await channel._link.open_channel()
    publish = methods.encode_publish(plain.number, b"\x00", encode_short("q"))
    raw = methods.encode_small_content(plain.number, publish, _BAD_HEADERS[case], b"body")
    consumer = await channel.consume("q", prefetch=1)
    channel._protocol.outbox.put(raw)
    with trio.fail_after(30):
        odd = await consumer.receive()
        assert odd.body == b"body"
        assert (odd.undecodable is not None) == (case in {"message id", "content type", "header key"})
        channel.ack_nowait(odd.delivery_tag)
        channel._protocol.outbox.put(raw)
        assert (await consumer.receive()).body == b"body"


async def test_a_returned_message_never_passes_for_another(channel):
    """RET-01: of two publishes under one id, one unroutable, the unroutable one is never Acked."""
    outcomes = {}

    async def publish(queue):
        outcomes[queue] = await channel.publish(_publication("dup-1", queue))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(publish, "no.such.queue")
        nursery.start_soon(publish, "q")
    assert isinstance(outcomes["no.such.queue"], Returned)
    assert await channel.publish(_publication("fresh")) == Acked()


async def test_an_unknown_delivery_tag_ends_the_channel_with_the_brokers_text(channel, vhost_url):
    """ACK-01: after an ack for tag 999 the channel ends with its 406, and later deliveries come back."""
    for number in range(3):
        await channel.publish(_publication(f"m{number}"))
    consumer = await channel.consume("q", prefetch=5)
    deliveries = [await consumer.receive() for _ in range(3)]
    channel.ack_nowait(999)
    channel.ack_nowait(deliveries[0].delivery_tag)
    with trio.fail_after(30):
        reason = await channel.wait_closed()
    assert isinstance(reason, ChannelClose)
    assert (reason.code, reason.class_id, reason.method_id) == (406, 60, 80)
    assert "unknown delivery tag 999" in reason.text
    assert await _eventually_ready(vhost_url, "q", 3) == 3


async def test_a_deleted_queue_is_heard_of(channel):
    """CCAN-01: deleting a consumer's queue ends the consumer at once, and not its channel."""
    consumer = await channel.consume("q", prefetch=5)
    await channel.delete_queue("q")
    with trio.fail_after(30), pytest.raises(ClosedError) as ended:
        await consumer.receive()
    assert ended.value.reason == ConsumerCancel("q")
    assert channel.closed is None


async def test_a_reset_keeps_an_abandoned_publish_from_happening(rabbit, vhost_url):
    """CONF-03: what is aborted while the broker does not read is never executed, even after the alarm."""
    broker = NativeBroker(parse_amqp_url(vhost_url))
    async with broker.connect(OPTIONS) as observer:
        declaring = await observer.open_channel()
        await declaring.declare_queue(QueueSpec("q", arguments=CLASSIC))
        async with broker.connect(OPTIONS) as connection:
            channel = await connection.open_channel(confirms=True)
            await channel.publish(_publication("before"))
            await trio.to_thread.run_sync(
                rabbit.eval, "vm_memory_monitor:set_vm_memory_high_watermark(0.000001)"
            )
            try:
                async with trio.open_nursery() as nursery:
                    outcomes = []

                    async def publish(number):
                        outcomes.append(await channel.publish(_publication(f"m{number}")))

                    nursery.start_soon(publish, 0)
                    with trio.fail_after(60):
                        await connection.wait_blocked()
                    assert "memory" in (connection.blocked or "")
                    for number in range(1, 20):
                        nursery.start_soon(publish, number)
                    await trio.sleep(0.5)
                    connection.abort()
                assert [type(outcome) for outcome in outcomes] == [Unconfirmed] * 20
            finally:
                await trio.to_thread.run_sync(
                    rabbit.eval, "vm_memory_monitor:set_vm_memory_high_watermark(0.8)"
                )
        await trio.sleep(2)
        state = await declaring.declare_queue(QueueSpec("q"), passive=True)
        assert state.ready <= 2  # "before", and at most the one that raised the alarm
        await observer.aclose()


async def test_acks_before_a_close_are_certain_on_a_quorum_queue(channel, vhost_url):
    """ACK-09: a burst of single acks followed by a close loses none of them on a quorum queue."""
    await channel.declare_queue(QueueSpec("quorum", arguments={"x-queue-type": "quorum"}))

    async def publish(number):
        assert await channel.publish(_publication(f"m{number}", "quorum")) == Acked()

    async with trio.open_nursery() as nursery:
        for number in range(300):
            nursery.start_soon(publish, number)
    async with NativeBroker(parse_amqp_url(vhost_url)).connect(OPTIONS) as connection:
        settling = await connection.open_channel()
        consumer = await settling.consume("quorum", prefetch=300)
        deliveries = [await consumer.receive() for _ in range(300)]
        for delivery in reversed(deliveries[1:]):  # the first stays open: no multiple ack is possible
            settling.ack_nowait(delivery.delivery_tag)
        await connection.aclose()
    assert await _eventually_ready(vhost_url, "quorum", 1) == 1


async def test_acks_after_the_consumer_was_cancelled_are_certain_too(channel, vhost_url):
    """ACK-09: acks of deliveries still in hand after consumer.cancel survive the close on a quorum queue."""
    await channel.declare_queue(QueueSpec("quorum", arguments={"x-queue-type": "quorum"}))
    for number in range(100):
        await channel.publish(_publication(f"m{number}", "quorum"))
    async with NativeBroker(parse_amqp_url(vhost_url)).connect(OPTIONS) as connection:
        settling = await connection.open_channel()
        consumer = await settling.consume("quorum", prefetch=100)
        deliveries = [await consumer.receive() for _ in range(100)]
        assert await consumer.cancel() == []
        for delivery in reversed(deliveries[1:]):
            settling.ack_nowait(delivery.delivery_tag)
        await connection.aclose()
    assert await _eventually_ready(vhost_url, "quorum", 1) == 1


async def test_a_frozen_network_is_noticed_and_let_go_of(rabbit, vhost_url):
    """HALF-02, HB-03: on a frozen network the consumer ends by its heartbeat, without a handshake."""
    async with open_tcp_proxy("127.0.0.1", rabbit.port) as proxy:
        options = ConnectionOptions("frozen", connect_timeout=60, rpc_timeout=60, heartbeat=2)
        async with NativeBroker(parse_amqp_url(proxy.url(vhost_url))).connect(options) as connection:
            channel = await connection.open_channel()
            await channel.declare_queue(QueueSpec("q", arguments=CLASSIC))
            consumer = await channel.consume("q", prefetch=1)
            proxy.freeze()
            started = trio.current_time()
            with pytest.raises(ClosedError, match="nothing heard"):
                await consumer.receive()
            assert trio.current_time() - started < 3 * (2 + 1) + 20  # a loaded machine may be late
            assert isinstance(connection.closed, ConnectionLoss)


async def test_an_ack_into_a_frozen_network_is_no_evidence(rabbit, vhost_url):
    """HALF-01: an ack written to a frozen network returns at once, and the message still comes back."""
    async with open_tcp_proxy("127.0.0.1", rabbit.port) as proxy:
        broker = NativeBroker(parse_amqp_url(proxy.url(vhost_url)))
        async with broker.connect(OPTIONS) as connection:
            channel = await connection.open_channel(confirms=True)
            await channel.declare_queue(QueueSpec("q", arguments=CLASSIC))
            await channel.publish(_publication("m"))
            delivery = await (await channel.consume("q", prefetch=1)).receive()
            proxy.freeze()
            channel.ack_nowait(delivery.delivery_tag)
            with trio.fail_after(5):
                await channel.flush()
            proxy.reset()
        proxy.heal()
    assert await _eventually_ready(vhost_url, "q", 1) == 1


async def test_a_swallowed_confirm_leaves_the_publish_unknown(rabbit, vhost_url):
    """CONF-01: with the broker's answers swallowed the caller's bound ends the wait; the message is there."""
    async with (
        open_tcp_proxy("127.0.0.1", rabbit.port) as proxy,
        NativeBroker(parse_amqp_url(proxy.url(vhost_url))).connect(OPTIONS) as connection,
    ):
        channel = await connection.open_channel(confirms=True)
        await channel.declare_queue(QueueSpec("q", arguments=CLASSIC))
        proxy.swallow(Direction.TO_CLIENT)
        with trio.move_on_after(1) as bound:
            await channel.publish(_publication("m"))
        assert bound.cancelled_caught
    assert await _eventually_ready(vhost_url, "q", 1) == 1


async def test_a_half_written_publish_does_not_hold_up_the_close(rabbit, vhost_url):
    """CLH-01: with 12 MiB stuck in a frozen network, closing ends within its bound by a reset."""
    async with open_tcp_proxy("127.0.0.1", rabbit.port) as proxy:
        options = ConnectionOptions("stuck", connect_timeout=60, rpc_timeout=3)
        async with NativeBroker(parse_amqp_url(proxy.url(vhost_url))).connect(options) as connection:
            channel = await connection.open_channel(confirms=True)
            await channel.declare_queue(QueueSpec("q", arguments=CLASSIC))
            proxy.freeze()
            async with trio.open_nursery() as nursery:
                big = _publication("big", body=bytes(12 * 1024 * 1024))
                nursery.start_soon(partial(channel.publish, big))
                await trio.sleep(0.5)
                started = trio.current_time()
                await connection.aclose()
                assert trio.current_time() - started < 7
            assert connection.closed == LocalClose(aborted=True)
        proxy.heal()
    assert await _ready(vhost_url, "q") == 0


def _open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_flapping_leaves_no_descriptor_behind(rabbit, vhost_url):
    """CMID-03, CHRN-03: forty connects, cut or cancelled at any moment, leave sockets and tasks as before."""
    async with open_tcp_proxy("127.0.0.1", rabbit.port) as proxy:
        broker = NativeBroker(parse_amqp_url(proxy.url(vhost_url)))
        before = _open_descriptors()
        tasks = trio.lowlevel.current_statistics().tasks_living
        for number in range(40):
            with trio.move_on_after(0.005 * (number % 10)):
                async with broker.connect(OPTIONS) as connection:
                    await connection.open_channel()
                    await trio.sleep_forever()
        proxy.reset()
        with trio.fail_after(30):
            while proxy.connections or trio.lowlevel.current_statistics().tasks_living > tasks:
                await trio.sleep(0.05)
        assert _open_descriptors() <= before


async def test_a_message_held_behind_a_frozen_path_comes_back_by_heartbeat(rabbit, vhost_url):
    """HALF-04: what a dead path held unacked is delivered again, once the broker gave that path up."""
    options = ConnectionOptions("dead path", connect_timeout=60, rpc_timeout=60, heartbeat=2)
    async with open_tcp_proxy("127.0.0.1", rabbit.port) as proxy:
        async with NativeBroker(parse_amqp_url(proxy.url(vhost_url))).connect(options) as frozen:
            channel = await frozen.open_channel(confirms=True)
            await channel.declare_queue(QueueSpec("q", arguments=CLASSIC))
            await channel.publish(_publication("held"))
            held = await (await channel.consume("q", prefetch=1)).receive()
            assert not held.redelivered
            proxy.freeze()
            await frozen.wait_closed()
        async with NativeBroker(parse_amqp_url(vhost_url)).connect(OPTIONS) as direct:
            consumer = await (await direct.open_channel()).consume("q", prefetch=1)
            with trio.fail_after(60):
                again = await consumer.receive()
            assert (again.body, again.redelivered) == (held.body, True)
            await direct.aclose()


async def test_a_message_over_the_brokers_limit_fails_its_channel_and_nothing_else(rabbit, vhost_url):
    """CHC-07: over max_message_size the channel ends with a 406, its publish unknown, and no more."""
    async with NativeBroker(parse_amqp_url(vhost_url)).connect(OPTIONS) as connection:
        limit = "application:set_env(rabbit, max_message_size, {})"
        await trio.to_thread.run_sync(rabbit.eval, limit.format(1_000_000))
        try:
            channel = await connection.open_channel(confirms=True)
            await channel.declare_queue(QueueSpec("q", arguments=CLASSIC))
            outcome = await channel.publish(_publication("big", body=bytes(1_000_001)))
        finally:
            await trio.to_thread.run_sync(rabbit.eval, limit.format(134_217_728))
        assert isinstance(outcome, Unconfirmed)
        assert isinstance(channel.closed, ChannelClose)
        assert (channel.closed.code, channel.closed.class_id, channel.closed.method_id) == (406, 60, 40)
        assert connection.closed is None
        await connection.aclose()
