"""The embedded broker against a real RabbitMQ: the same random commands, the same answers.

Both sides are driven step by step over one connection each. After each step both must report the same
deliveries (tags, bodies, redelivered flags, delivery counts), the same ends and the same depth.
"""

from __future__ import annotations

import random

import attrs
import pytest
import trio

from craig_mq.core.close import ChannelClose
from craig_mq.core.delivery import Delivery, Properties, Publication
from craig_mq.core.topology import QueueSpec
from craig_mq.testing import MemoryBroker
from craig_mq.transport.broker import Channel, Connection, ConnectionOptions, Consumer
from craig_mq.transport.native import NativeBroker
from craig_mq.transport.url import parse_amqp_url

pytestmark = pytest.mark.broker

OPTIONS = ConnectionOptions("fidelity")

# A delivery limit in use is left out: after a discard RabbitMQ 3.10.8 was seen handing its consumer one
# message more than the prefetch, which the embedded broker does not do.
KINDS = {
    "classic": {"x-queue-type": "classic"},
    "quorum": {"x-queue-type": "quorum"},
    "quorum-roomy": {"x-queue-type": "quorum", "x-delivery-limit": 2**31 - 1},
    "rejecting": {"x-queue-type": "classic", "x-max-length": 3, "x-overflow": "reject-publish"},
    "dropping": {"x-queue-type": "classic", "x-max-length": 3},
    "quorum-dropping": {"x-queue-type": "quorum", "x-max-length": 3},
    "quorum-rejecting": {"x-queue-type": "quorum", "x-max-length": 3, "x-overflow": "reject-publish"},
}


def seen(delivery: Delivery | None) -> object:
    """What of a delivery must be equal on both sides."""
    if delivery is None:
        return None
    count = delivery.properties.headers.get("x-delivery-count")
    return delivery.delivery_tag, delivery.body, delivery.redelivered, count


@attrs.define(slots=True)
class Side:
    """One broker, driven over two channels; at most one consumer at a time."""

    connection: Connection
    queue: QueueSpec
    channels: list[Channel]
    consumer: Consumer | None = None

    async def depth(self) -> int:
        return (await self.channels[0].declare_queue(self.queue, passive=True)).ready

    async def settled(self, at: int) -> None:
        """Return once the broker has processed what this channel sent."""
        if self.channels[at].closed is None:
            await self.channels[at].declare_queue(self.queue, passive=True)

    async def step(self, name: str, at: int, number: int, multiple: bool) -> object:
        channel = self.channels[at]
        match name:
            case "publish":
                own = Properties(message_id=f"m{number}", delivery_mode=2)
                return await channel.publish(Publication("", self.queue.name, b"%d" % number, own))
            case "get":
                return seen(await channel.get(self.queue.name))
            case "ack":
                channel.ack_nowait(number, multiple=multiple)
            case "requeue":
                channel.nack_nowait(number, requeue=True, multiple=multiple)
            case "drop":
                channel.nack_nowait(number, requeue=False, multiple=multiple)
            case "consume":
                self.consumer = await channel.consume(self.queue.name, prefetch=number)
            case "cancel":
                consumer, self.consumer = self.consumer, None
                return [seen(delivery) for delivery in await consumer.cancel()]
            case "close":
                await channel.aclose()
                self.channels[at] = await self.connection.open_channel(confirms=True)
            case "purge":
                return await channel.purge_queue(self.queue.name)
        await self.settled(at)
        return None

    async def receive(self, count: int) -> list[object]:
        with trio.fail_after(10):
            return [seen(await self.consumer.receive()) for _ in range(count)]

    def buffered(self) -> list[object]:
        """Everything that has come; only the embedded broker delivers within the step."""
        found: list[object] = []
        while self.consumer is not None and (delivery := self.consumer.receive_nowait()) is not None:
            found.append(seen(delivery))
        return found


class Script:
    """Random commands that stay within the rules: outstanding tags are settled once."""

    def __init__(self, seed: int, *, ordered_returns: bool) -> None:
        """``ordered_returns``: whether what comes back together has one defined order."""
        self.ordered_returns = ordered_returns
        self.rng = random.Random(seed)
        self.outstanding: list[list[int]] = [[], []]
        self.consumer_at: int | None = None
        self.published = 0

    def next(self) -> tuple[str, int, int, bool]:
        rng, at = self.rng, self.rng.randrange(2)
        choices = ["publish"] * 5 + ["get"] * 3
        choices += (["ack"] * 4 + ["requeue"] * 4 + ["drop"]) if self.outstanding[at] else []
        choices += ["consume"] * 2 if self.consumer_at is None else ["cancel"]
        closable = self.ordered_returns or len(self.outstanding[at]) <= 1
        choices += ["close"] if closable and rng.random() < 0.5 else []
        choices += ["purge"] if rng.random() < 0.1 else []
        name = rng.choice(choices)
        multiple = False
        number = 0
        if name == "publish":
            self.published += 1
            number = self.published
        elif name == "consume":
            self.consumer_at, number = at, rng.randint(1, 4)
        elif name == "cancel":
            at, self.consumer_at = self.consumer_at, None
        elif name == "close":
            self.outstanding[at] = []
            self.consumer_at = None if self.consumer_at == at else self.consumer_at
        elif name in {"ack", "requeue", "drop"}:
            number, multiple = rng.choice(self.outstanding[at]), self.ordered_returns and rng.random() < 0.3
            self.outstanding[at] = [
                tag for tag in self.outstanding[at] if tag != number and not (multiple and tag < number)
            ]
        return name, at, number, multiple

    def took(self, at: int, deliveries: list[object]) -> None:
        self.outstanding[at] += [delivery[0] for delivery in deliveries if delivery is not None]


async def open_side(connection: Connection, spec: QueueSpec) -> Side:
    channels = [await connection.open_channel(confirms=True) for _ in range(2)]
    await channels[0].declare_queue(spec)
    return Side(connection, spec, channels)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 12))])
async def test_random_commands_get_the_same_answers(kind, seed, vhost_url):
    """Sixty random commands leave both brokers in the same state at each step (facts 2, 9, 15, 16)."""
    spec = QueueSpec("q", arguments=KINDS[kind])
    # A quorum queue takes back several at once consumer by consumer, in an order it does not promise.
    script = Script(seed, ordered_returns=KINDS[kind]["x-queue-type"] == "classic")
    model, real = MemoryBroker("3.10"), NativeBroker(parse_amqp_url(vhost_url))
    history: list[object] = []
    async with model.connect(OPTIONS) as model_link, real.connect(OPTIONS) as real_link:
        sides = [await open_side(link, spec) for link in (model_link, real_link)]
        ours, theirs = sides
        for _ in range(60):
            step = script.next()
            history.append(step)
            expected, got = [await side.step(*step) for side in sides]
            if step[0] == "close":
                for side in sides:
                    side.consumer = side.consumer if script.consumer_at is not None else None
            assert got == expected, f"{got=} {expected=} {history[-12:]}"
            if step[0] == "get":
                script.took(step[1], [expected])
            if script.consumer_at is not None:
                deliveries = ours.buffered()
                came = await theirs.receive(len(deliveries))
                assert came == deliveries, f"{came=} {deliveries=} {history[-12:]}"
                script.took(script.consumer_at, deliveries)
            with trio.move_on_after(5):
                while await theirs.depth() != await ours.depth():
                    await trio.sleep(0.01)
            depths = await theirs.depth(), await ours.depth()
            assert depths[0] == depths[1], f"{depths=} {history[-12:]}"
    assert not isinstance(real_link.closed, ChannelClose)
