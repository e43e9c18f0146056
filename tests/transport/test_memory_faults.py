"""Faults on the embedded broker: what each does to the operation it meets."""

from __future__ import annotations

import pytest
import trio

from craig_mq.core.close import ChannelClose, ConnectionClose, ConnectionLoss
from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import ACKED, NACKED, Returned, Unconfirmed
from craig_mq.core.topology import QueueSpec
from craig_mq.testing import (
    Block,
    CloseChannel,
    CloseConnection,
    Delay,
    Drop,
    Duplicate,
    Fault,
    FaultPlan,
    Hang,
    LateSuccess,
    LoseConnection,
    MemoryBroker,
    Nack,
    Raise,
    Reorder,
    Return,
)
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.errors import (
    ClosedError,
    ConnectError,
    OperationTimedOut,
    TransportError,
)

OPTIONS = ConnectionOptions("test", rpc_timeout=5.0, heartbeat=15)


def broker_with(*faults: Fault) -> MemoryBroker:
    broker = MemoryBroker(faults=FaultPlan(faults))
    broker.declare_queue("q")
    return broker


def to_queue(body: bytes = b"") -> Publication:
    return Publication("", "q", body, Properties(message_id="m", delivery_mode=2))


async def publish_under(*faults: Fault, queue: str = "q") -> tuple[object, float, MemoryBroker]:
    """Publish once under these faults; return the outcome, how long it took, and the broker."""
    broker = broker_with(*faults)
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        began = trio.current_time()
        outcome: object = None
        with trio.move_on_after(1000):
            outcome = await channel.publish(Publication("", queue, b"", Properties(message_id="m")))
        return outcome, trio.current_time() - began, broker


@pytest.mark.parametrize(
    ("fault", "outcome", "seconds", "stored"),
    [
        (Fault("publish", Delay(7)), ACKED, 7, 1),
        (Fault("publish", Drop()), None, 1000, 0),
        (Fault("publish", Duplicate()), ACKED, 0, 2),
        (Fault("publish", Raise("no route to host")), Unconfirmed("no route to host", sent=False), 0, 0),
        (Fault("publish", CloseChannel(504, "gone")), Unconfirmed("gone"), 0, 0),
        (Fault("publish", CloseConnection(320, "bye")), Unconfirmed("bye"), 0, 0),
        (Fault("publish", LoseConnection("reset")), Unconfirmed("reset"), 0, 0),
        (Fault("publish", Block(9)), ACKED, 9, 1),
        (Fault("publish", Nack()), NACKED, 0, 0),
        (Fault("publish", Return(313, "NO_CONSUMERS")), Returned(313, "NO_CONSUMERS"), 0, 0),
        (Fault("publish", Hang()), Unconfirmed("missed heartbeats"), 30, 0),
        (Fault("publish", LateSuccess(11)), ACKED, 11, 1),
        (Fault("confirm", Delay(7)), ACKED, 7, 1),
        (Fault("confirm", Drop()), None, 1000, 1),
        (Fault("confirm", Nack()), NACKED, 0, 1),
        (Fault("confirm", Return()), Returned(312, "NO_ROUTE"), 0, 1),
        (Fault("confirm", CloseChannel(504, "gone")), Unconfirmed("gone"), 0, 1),
        (Fault("confirm", LoseConnection("reset")), Unconfirmed("reset"), 0, 1),
        (Fault("confirm", Hang()), Unconfirmed("missed heartbeats"), 30, 1),
        (Fault("confirm", Reorder()), None, 1000, 1),
    ],
    ids=repr,
)
async def test_a_publish_meets_its_fault(fault, outcome, seconds, stored, autojump_clock):
    """What a publish ends as, when, and how many copies are stored, for each fault (CONF-01, CONF-02)."""
    got, took, broker = await publish_under(fault)
    assert (got, took) == (outcome, pytest.approx(seconds))
    assert broker.queue("q").ready == stored
    [strike] = broker.strikes
    assert (strike.occurrence.name, strike.action) == ("q", fault.action)


async def test_a_lost_return_takes_its_confirm_with_it(autojump_clock):
    """A return that is lost is never followed by a clean confirm: nobody knows (fact 5)."""
    outcome, _, _ = await publish_under(Fault("return", Drop()), queue="absent")
    assert outcome is None


async def test_a_refused_connect_is_unreachable(autojump_clock):
    """A connect that meets a failure raises ConnectError, a hanging one after connect_timeout (CHRN-01)."""
    broker = broker_with(Fault("connect", Raise("refused"), index=0), Fault("connect", Hang(), index=1))
    for text, seconds in (("refused", 0), ("no answer", 10)):
        began = trio.current_time()
        with pytest.raises(ConnectError, match=text):
            async with broker.connect(OPTIONS):
                pass
        assert trio.current_time() - began == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault("declare", Drop()), OperationTimedOut),
        (Fault("declare", Delay(6)), OperationTimedOut),
        (Fault("declare", Raise()), TransportError),
        (Fault("declare", CloseChannel(403, "no")), ClosedError),
        (Fault("declare", CloseConnection(320, "bye")), ClosedError),
        (Fault("declare", LoseConnection()), ClosedError),
        (Fault("declare", Delay(4)), None),
        (Fault("declare", LateSuccess(4)), None),
        (Fault("declare", Duplicate()), None),
        (Fault("declare", Block(4)), None),
    ],
    ids=repr,
)
async def test_a_request_meets_its_fault(fault, error, autojump_clock):
    """A request fails with the transport's errors only, and within rpc_timeout."""
    broker = broker_with(fault)
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        if error is None:
            assert (await channel.declare_queue(QueueSpec("q"))).name == "q"
        else:
            with pytest.raises(error):
                await channel.declare_queue(QueueSpec("q"))
        assert trio.current_time() <= 5.0


async def deliver_under(*faults: Fault, messages: int = 3) -> tuple[list[bytes], MemoryBroker]:
    """Consume under these faults for 20 s, acking; return the bodies in the order they came."""
    broker = broker_with(*faults)
    for number in range(messages):
        broker.publish("", "q", b"%d" % number)
    bodies: list[bytes] = []
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        consumer = await channel.consume("q", prefetch=1)
        with trio.move_on_after(20):
            while True:
                delivery = await consumer.receive()
                bodies.append(delivery.body)
                channel.ack_nowait(delivery.delivery_tag)
                await channel.flush()
        return bodies, broker


async def test_a_dropped_delivery_is_held_until_its_channel_ends(autojump_clock):
    """A delivery lost on its way stays unacked; its consumer starves at prefetch 1 and it comes back."""
    bodies, broker = await deliver_under(Fault("deliver", Drop(), index=1))
    assert bodies == [b"0"]
    assert broker.queue("q").bodies == (b"1", b"2")


async def test_a_duplicated_delivery_is_a_second_copy(autojump_clock):
    """A duplicated delivery reaches the consumer as another message with the same bytes."""
    bodies, broker = await deliver_under(Fault("deliver", Duplicate(), index=0))
    assert bodies == [b"0", b"1", b"2", b"0"]
    assert broker.queue("q").ready == 0


async def test_a_dropped_ack_leaves_the_delivery_unacked(autojump_clock):
    """An ack lost on its way leaves its message held: the consumer at prefetch 1 gets nothing more."""
    bodies, broker = await deliver_under(Fault("ack", Drop(), name="q", index=1))
    assert bodies == [b"0", b"1"]
    assert [message.redelivered for message in broker.queue("q").messages] == [True, False]


async def test_a_duplicated_ack_is_an_unknown_tag(autojump_clock):
    """The second of two equal acks closes the channel, as RabbitMQ does (fact 16)."""
    broker = broker_with(Fault("ack", Duplicate()))
    broker.publish("", "q", b"")
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        channel.ack_nowait((await channel.get("q")).delivery_tag)
        assert channel.closed == ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 1", 60, 80)
    assert broker.queue("q").ready == 0


@pytest.mark.parametrize(
    ("action", "flushed_after", "acked"),
    [(Delay(3), 0, True), (LateSuccess(3), 3, True), (Hang(), 30, False)],
    ids=repr,
)
async def test_a_slow_ack_shows_at_its_flush(action, flushed_after, acked, autojump_clock):
    """An ack accepted is not an ack written: flush waits for the socket, and fails where it ends first."""
    broker = broker_with(Fault("ack", action))
    broker.publish("", "q", b"")
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        channel.ack_nowait((await channel.get("q")).delivery_tag)
        try:
            await channel.flush()
        except ClosedError:
            assert isinstance(connection.closed, ConnectionLoss)
        assert trio.current_time() == pytest.approx(flushed_after)
        await trio.sleep(5)
    assert broker.queue("q").ready == (0 if acked else 1)


@pytest.mark.parametrize(
    ("action", "seconds", "error"),
    [
        (Delay(2), 2, None),
        (LateSuccess(2), 2, None),
        (Hang(), 30, ClosedError),
        (Raise("broken pipe"), 0, TransportError),
        (CloseChannel(406, "no"), 0, ClosedError),
        (CloseConnection(320, "bye"), 0, ClosedError),
        (LoseConnection(), 0, ClosedError),
        (Block(2), 0, None),
    ],
    ids=repr,
)
async def test_a_flush_meets_its_fault(action, seconds, error, autojump_clock):
    """A flush is late, hangs, or fails as its fault says."""
    broker = broker_with(Fault("flush", action))
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        with trio.move_on_after(1000):
            if error is None:
                await channel.flush()
            else:
                with pytest.raises(error):
                    await channel.flush()
        assert trio.current_time() == pytest.approx(seconds)


async def test_an_ack_can_fail_where_it_is_made(autojump_clock):
    """A failing ack raises at the call, and nothing is sent."""
    broker = broker_with(Fault("ack", Raise("broken pipe")))
    broker.publish("", "q", b"")
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        delivery = await channel.get("q")
        with pytest.raises(TransportError, match="broken pipe"):
            channel.ack_nowait(delivery.delivery_tag)
        assert broker.queue("q").unacked == 1
        assert connection.closed is None


async def test_reordered_acks_change_places(autojump_clock):
    """A reordered command takes effect after the next one of its connection."""
    broker = MemoryBroker(faults=FaultPlan([Fault("publish", Reorder(), index=0)]))
    broker.declare_queue("q")
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(channel.publish, to_queue(b"first"))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(channel.publish, to_queue(b"second"))
    assert broker.queue("q").bodies == (b"second", b"first")


async def test_closing_a_connection_by_fault_names_its_code(autojump_clock):
    """A planned connection close reaches every channel with its code and text."""
    broker = broker_with(Fault("get", CloseConnection(541, "INTERNAL_ERROR")))
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        with pytest.raises(ClosedError):
            await channel.get("q")
        assert channel.closed == connection.closed == ConnectionClose(541, "INTERNAL_ERROR")
