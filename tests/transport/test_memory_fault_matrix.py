"""Every fault at every operation that can meet it: the model never breaks its own word."""

from __future__ import annotations

import pytest
import trio

from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.topology import BindingSpec, QueueSpec
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
    Operation,
    Raise,
    Reorder,
    Return,
)
from craig_mq.transport.broker import Broker, Channel, Connection, ConnectionOptions
from craig_mq.transport.errors import TransportError
from craig_mq.transport.memory.fault_actions import POSSIBLE

OPTIONS = ConnectionOptions("test", rpc_timeout=5.0, heartbeat=15)
ACTIONS = [
    Delay(3),
    Drop(),
    Duplicate(),
    Reorder(),
    Raise(),
    CloseChannel(541, "INTERNAL_ERROR"),
    CloseConnection(541, "INTERNAL_ERROR"),
    LoseConnection(),
    Block(3),
    Nack(),
    Return(),
    Hang(),
    LateSuccess(3),
]
PAIRS = [(operation, action) for operation in Operation for action in ACTIONS]


async def work(channel: Channel) -> None:
    """Meet every operation once or more on one channel."""
    await channel.declare_queue(QueueSpec("q"))
    await channel.bind_queue(BindingSpec("amq.topic", "q", "k"))
    for queue in ("q", "absent", "q"):
        with trio.move_on_after(40):
            await channel.publish(Publication("", queue, b"", Properties(message_id="m", delivery_mode=2)))
    consumer = await channel.consume("q", prefetch=2)
    with trio.move_on_after(40):
        first = await consumer.receive()
        channel.ack_nowait(first.delivery_tag)
        second = await consumer.receive()
        channel.nack_nowait(second.delivery_tag, requeue=True)
    await channel.flush()
    for left in await consumer.cancel():
        channel.nack_nowait(left.delivery_tag, requeue=True)
    await channel.get("q")


async def session(broker: Broker) -> Connection:
    """Run one session the way a careful client does: every error is a TransportError."""
    async with broker.connect(OPTIONS) as connection:
        try:
            channel = await connection.open_channel(confirms=True)
            await work(channel)
            await channel.aclose()
        except TransportError:
            await trio.lowlevel.checkpoint()
        await connection.aclose()
    return connection


@pytest.mark.parametrize(
    ("operation", "action"), PAIRS, ids=[f"{on.value}-{type(action).__name__}" for on, action in PAIRS]
)
async def test_every_pair_is_carried_out_or_refused(operation, action, autojump_clock):
    """A pair either is refused as impossible, or strikes once, ends in TransportErrors, frees the queue."""
    if type(action) not in POSSIBLE[operation]:
        with pytest.raises(ValueError, match="cannot meet"):
            Fault(operation, action)
        return
    broker = MemoryBroker(faults=FaultPlan([Fault(operation, action)]), trace=True)
    broker.declare_queue("q")
    broker.publish("", "q", b"seed", Properties(delivery_mode=2))
    with trio.fail_after(1000):
        try:
            await session(broker)
        except TransportError:
            assert operation is Operation.CONNECT
        connection = await session(broker)
    assert connection.closed is not None
    assert len(broker.strikes) == 1
    async with broker.connect(OPTIONS):
        await trio.sleep(100)
    assert broker.connections == ()
    assert broker.queue("q").unacked == 0
    assert broker.queue("q").consumers == 0
