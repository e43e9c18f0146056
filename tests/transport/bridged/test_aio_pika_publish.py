"""What the aio-pika transport makes of every answer, and of none, to a publish."""

from __future__ import annotations

from contextlib import AsyncExitStack
from uuid import uuid4

import pytest
import trio
from pamqp import commands
from pamqp.header import ContentHeader

from craig_mq.core.close import ChannelClose
from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import Acked, Confirmation, Nacked, Returned, Unconfirmed
from craig_mq.core.topology import QueueSpec
from craig_mq.testing.proxy import Direction
from craig_mq.transport.broker import ConnectionOptions

pytestmark = pytest.mark.broker

OPTIONS = ConnectionOptions(name="publish", rpc_timeout=2.0)
CLASSIC = {"x-queue-type": "classic"}


def _publication(queue: str, *, message_id: str | None = None, body: bytes = b"b", exchange: str = ""):
    properties = Properties(message_id=message_id or uuid4().hex, delivery_mode=2)
    return Publication(exchange, queue, body, properties)


async def test_a_swallowed_confirm_leaves_the_wait_to_the_callers_bound(aio_proxied, ready):
    """CONF-01: a publish whose confirm is lost ends at the caller's bound, though it was stored."""
    async with aio_proxied.broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        await channel.declare_queue(QueueSpec("q", arguments=CLASSIC))
        aio_proxied.proxy.swallow(Direction.TO_CLIENT)
        with trio.move_on_after(0.5) as bound:
            await channel.publish(_publication("q"))
        assert bound.cancelled_caught
        connection.abort()
    assert await ready(aio_proxied.direct, "q") == 1


async def test_an_abandoned_publish_may_still_arrive_and_the_channel_goes_on(aio_proxied, ready):
    """CONF-02: a publish given up in a freeze is delivered after the thaw, and the next one works."""
    async with aio_proxied.broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        await channel.declare_queue(QueueSpec("q", arguments=CLASSIC))
        aio_proxied.proxy.freeze()
        with trio.move_on_after(0.3) as bound:
            await channel.publish(_publication("q"))
        assert bound.cancelled_caught
        aio_proxied.proxy.thaw()
        with trio.fail_after(5):
            assert await channel.publish(_publication("q")) == Acked()
    assert await ready(aio_proxied.direct, "q") == 2


async def test_a_missing_exchange_fails_every_publish_of_the_channel_with_its_text(aio_broker):
    """CONF-07: both publishes in flight fail at once with the 404, the innocent one included."""
    answers: dict[str, Confirmation] = {}
    async with aio_broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        await channel.declare_queue(QueueSpec("q", arguments=CLASSIC))

        async def publish(name: str, publication: Publication) -> None:
            answers[name] = await channel.publish(publication)

        with trio.fail_after(2):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(publish, "bad", _publication("dlq.x", exchange="gone"))
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(publish, "good", _publication("q"))
            closed = await channel.wait_closed()
        assert isinstance(closed, ChannelClose)
        assert (closed.code, closed.class_id, closed.method_id) == (404, 60, 40)
        bad = answers["bad"]
        assert isinstance(bad, Unconfirmed)
        assert "no exchange 'gone'" in bad.reason
        assert isinstance(answers["good"], Unconfirmed | Acked)
        late = await channel.publish(_publication("q"))
        assert isinstance(late, Unconfirmed)
        assert not late.sent
        assert connection.closed is None


async def test_two_publishes_with_one_id_are_never_confused(aio_broker):
    """RET-01: of two concurrent publishes with one message id, the unroutable one is Returned."""
    answers: dict[str, Confirmation] = {}
    async with aio_broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        await channel.declare_queue(QueueSpec("q", arguments=CLASSIC))

        async def publish(queue: str) -> None:
            answers[queue] = await channel.publish(_publication(queue, message_id="dup-1"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(publish, "no.such.queue")
            nursery.start_soon(publish, "q")
        assert answers == {"no.such.queue": Returned(312, "NO_ROUTE"), "q": Acked()}


async def test_returns_among_many_publishes_find_their_own(aio_broker):
    """RET-01: of 200 concurrent publishes exactly the unroutable ones are Returned, the rest Acked."""
    answers: dict[int, Confirmation] = {}
    async with aio_broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        await channel.declare_queue(QueueSpec("q", arguments=CLASSIC))

        async def publish(number: int) -> None:
            answers[number] = await channel.publish(_publication("nowhere" if number % 3 else "q"))

        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(publish, number)
        for number in range(200):
            assert answers[number] == (Returned(312, "NO_ROUTE") if number % 3 else Acked())


@pytest.mark.parametrize("raises", [True, False])
async def test_an_unroutable_publish_is_returned_however_aiormq_says_it(aio_broker, raises):
    """RET-02: unroutable is Returned both where aiormq raises and where it returns the message."""
    async with aio_broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        channel._amqp.on_return_raises = raises
        assert await channel.publish(_publication("gone")) == Returned(312, "NO_ROUTE")


async def test_a_result_of_an_unknown_type_is_no_evidence(aio_broker, monkeypatch):
    """RET-02: an answer that is not a basic.ack is never Acked, whatever it is."""

    async def strange(*_args: object, **_named: object) -> object:
        return True

    async with aio_broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        monkeypatch.setattr(channel._amqp, "basic_publish", strange)
        answer = await channel.publish(_publication("q"))
        assert answer == Unconfirmed("unexpected answer to a publish: bool")


async def test_a_return_that_matches_nothing_puts_all_in_doubt(aio_broker):
    """A returned message of an unknown id fails every publish in flight on its channel (decisions, 15)."""
    answers: list[Confirmation] = []
    async with aio_broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        await channel.declare_queue(QueueSpec("q", arguments=CLASSIC))

        async def publish() -> None:
            answers.append(await channel.publish(_publication("q", body=bytes(500_000))))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(publish)
            nursery.start_soon(publish)
            while len(channel._publisher._in_flight) < 2:
                await trio.lowlevel.checkpoint()
            stranger = ContentHeader(properties=commands.Basic.Properties(message_id="stranger"))
            channel.on_return_frame(commands.Basic.Return(312, "NO_ROUTE", "", "gone"))
            channel.on_return_frame(stranger)
        assert answers == [Unconfirmed("a returned message matched no publish in flight")] * 2
        assert await channel.publish(_publication("q")) == Acked()


async def test_a_full_queue_nacks_within_a_second(aio_broker):
    """NACK-01, NACK-03: a publish refused by a full queue is Nacked at once, not timed out."""
    async with aio_broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        full = CLASSIC | {"x-max-length": 1, "x-overflow": "reject-publish"}
        await channel.declare_queue(QueueSpec("full", arguments=full))
        assert await channel.publish(_publication("full")) == Acked()
        with trio.fail_after(1):
            assert await channel.publish(_publication("full")) == Nacked()


async def test_a_lost_connection_leaves_publishes_unconfirmed(aio_proxied):
    """A reset resolves every publish in flight to Unconfirmed, and none hangs."""
    answers: list[Confirmation] = []
    async with aio_proxied.broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        await channel.declare_queue(QueueSpec("q", arguments=CLASSIC))
        aio_proxied.proxy.swallow(Direction.TO_CLIENT)

        async def publish() -> None:
            answers.append(await channel.publish(_publication("q")))

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(publish)
                await trio.sleep(0.3)
                aio_proxied.proxy.reset()
        assert len(answers) == 3
        assert all(isinstance(answer, Unconfirmed) and answer.sent for answer in answers)


async def test_what_cannot_be_encoded_is_not_sent(aio_broker):
    """A property that the codec refuses is Unconfirmed with nothing sent, and the next publish works."""
    async with aio_broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        await channel.declare_queue(QueueSpec("q", arguments=CLASSIC))
        too_late = Properties(message_id="m", timestamp=2**64 - 1)
        too_big = Properties(message_id="m", headers={"h": 2.5e300})
        for unsendable in (Publication("", "q", b"", too_late), Publication("", "q", b"", too_big)):
            answer = await channel.publish(unsendable)
            assert isinstance(answer, Unconfirmed)
            assert not answer.sent
        assert await channel.publish(_publication("q")) == Acked()


async def test_a_body_of_several_frames_comes_back_whole(aio_broker):
    """A body of one megabyte passes through in frames and comes back byte for byte."""
    body = bytes(range(256)) * 4096
    async with AsyncExitStack() as stack:
        connection = await stack.enter_async_context(aio_broker.connect(OPTIONS))
        channel = await connection.open_channel(confirms=True)
        await channel.declare_queue(QueueSpec("q", arguments=CLASSIC))
        assert await channel.publish(_publication("q", body=body)) == Acked()
        delivery = await channel.get("q")
        assert delivery is not None
        assert delivery.body == body
