"""What every transport owes the runtime: written against the protocols, valid on RabbitMQ 3.10.8."""

from __future__ import annotations

import trio

from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import Acked
from craig_mq.core.topology import QueueSpec
from craig_mq.transport.broker import ConnectionOptions

OPTIONS = ConnectionOptions(name="conformance")


async def test_a_confirmed_message_is_delivered_and_acked(broker, fresh_name):
    """A confirmed publish is delivered with its bytes, and once acked it is gone."""
    name = fresh_name("q")
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        await channel.declare_queue(QueueSpec(name, arguments={"x-queue-type": "classic"}))
        publication = Publication("", name, b"body", Properties(message_id="m1", delivery_mode=2))
        assert await channel.publish(publication) == Acked()
        consumer = await channel.consume(name, prefetch=5)
        with trio.fail_after(5):
            delivery = await consumer.receive()
        assert delivery.body == b"body"
        assert not delivery.redelivered
        channel.ack_nowait(delivery.delivery_tag)
        await channel.flush()
        assert await consumer.cancel() == []
        assert await channel.get(name) is None
        await channel.delete_queue(name)
        await channel.aclose()
        await connection.aclose()
