"""The ladder on a real RabbitMQ, in one run per way of dead-lettering, and under loss of the broker."""

from __future__ import annotations

import uuid
from collections import Counter
from functools import partial
from typing import Any

import pytest
import trio

from craig_mq import (
    Acked,
    EventEnvelope,
    Publisher,
    SubscribeError,
    SubscriptionConfig,
    SubscriptionOptions,
    open_broker,
    subscribe,
)
from craig_mq.core.dead_letter import DeadLetterDelivery, build_dead_letter_delivery
from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.topology import BindingSpec, ExchangeSpec, QueueSpec
from craig_mq.transport.broker import ConnectionOptions

pytestmark = pytest.mark.broker

QUICK = SubscriptionOptions(backoff_base=0.1, backoff_cap=0.2)


def event(kind: str) -> EventEnvelope:
    return EventEnvelope(str(uuid.uuid4()), "shop", kind, "2026-11-30T10:00:00Z", b"{}")


async def dead_queue(broker: Any, *, bind: bool = True) -> None:
    """Declare a dead-letter queue, so that there is something to look at."""
    async with broker.connect(ConnectionOptions("test")) as connection:
        channel = await connection.open_channel()
        await channel.declare_exchange(ExchangeSpec("craig.dlx"))
        await channel.declare_queue(QueueSpec("dead", arguments={"x-queue-type": "classic"}))
        if bind:
            await channel.bind_queue(BindingSpec("craig.dlx", "dead", "dlq.#"))
        await connection.aclose()


async def take(broker: Any, queue: str, count: int) -> list[Any]:
    """Wait until ``count`` messages lie in a queue, and take them."""
    taken: list[Any] = []
    with trio.fail_after(15):
        async with broker.connect(ConnectionOptions("test")) as connection:
            channel = await connection.open_channel()
            while len(taken) < count:
                delivery = await channel.get(queue)
                if delivery is None:
                    await trio.sleep(0.02)
                else:
                    taken.append(delivery)
            assert await channel.get(queue) is None
    return taken


class Handling:
    """Fails by event type: ``.once`` the first time, ``.twice`` always."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    async def __call__(self, received: Any) -> None:
        kind = received.envelope.event_type
        self.calls[kind] += 1
        if kind.endswith(".twice") or (kind.endswith(".once") and not received.redelivered):
            raise ValueError("boom")


@pytest.mark.parametrize("by", ["client", "broker"])
async def test_the_cells_on_a_quorum_queue(vhost_url, by):
    """On a quorum queue too: ok acks, one failure requeues, two dead-letter once, malformed at once."""
    handling = Handling()
    options = SubscriptionOptions(queue_type="quorum")
    async with open_broker(vhost_url) as broker, trio.open_nursery() as nursery:
        await dead_queue(broker)
        subscription = await nursery.start(
            partial(
                subscribe,
                broker,
                queue="orders",
                handler=handling,
                binding_keys=["order.#"],
                config=SubscriptionConfig(dead_letter_by=by),
                options=options,
            )
        )
        async with Publisher(broker) as publisher:
            for kind in ("order.ok", "order.once", "order.twice"):
                assert await publisher.publish(event(kind)) == Acked()
        async with broker.connect(ConnectionOptions("test")) as connection:
            channel = await connection.open_channel(confirms=True)
            bad = Publication("craig.events", "order.bad", b"\xff", Properties(message_id="bad"))
            assert await channel.publish(bad) == Acked()
        dead = {delivery.body == b"\xff": delivery for delivery in await take(broker, "dead", 2)}
        subscription.shutdown()
        await subscription.wait_closed()
        assert await take(broker, "orders", 0) == []
    assert handling.calls == {"order.ok": 1, "order.once": 2, "order.twice": 2}
    letter = build_dead_letter_delivery(dead[False], queue="dead")
    assert isinstance(letter, DeadLetterDelivery)
    assert letter.token is not None
    assert letter.token.split(":")[1] == {"client": "inbox", "broker": "broker"}[by]
    keys = {malformed: delivery.routing_key for malformed, delivery in dead.items()}
    expected = {False: "dlq.orders.order.twice", True: "dlq.orders.malformed"}
    assert keys == (expected if by == "client" else dict.fromkeys((False, True), "dlq.orders"))


async def test_a_queue_without_our_dlx_is_refused(vhost_url):
    """With "broker", RabbitMQ's own 406 names the argument, and the subscription does not start."""
    async with open_broker(vhost_url) as broker:
        async with broker.connect(ConnectionOptions("test")) as connection:
            channel = await connection.open_channel()
            await channel.declare_queue(QueueSpec("orders", arguments={"x-queue-type": "classic"}))
        with pytest.raises(SubscribeError, match="x-dead-letter"):
            await subscribe(
                broker,
                queue="orders",
                handler=Handling(),
                config=SubscriptionConfig(dead_letter_by="broker"),
            )
