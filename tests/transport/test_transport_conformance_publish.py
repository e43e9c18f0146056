"""What every transport owes the runtime about publishes: one true outcome each."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
import trio

from craig_mq.core.close import ChannelClose
from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import ACKED, NACKED, Returned, Unconfirmed
from craig_mq.core.topology import BindingSpec, ExchangeSpec, QueueSpec

EVERY_PROPERTY = Properties(
    content_type="application/json",
    content_encoding="utf-8",
    headers={"x": 1},
    delivery_mode=2,
    priority=9,
    correlation_id="c",
    reply_to="r",
    expiration="60000",
    message_id="every-property",
    timestamp=2**31 - 1,
    type="t",
    user_id="guest",
    app_id="a",
)


async def test_an_unroutable_publish_is_returned(channel, fresh_name, to_queue):
    """A mandatory publish that routes nowhere ends as Returned, never as a clean confirm (RET-02)."""
    assert await channel.publish(to_queue(fresh_name("absent"))) == Returned(312, "NO_ROUTE")
    assert channel.closed is None


async def test_each_of_many_publishes_gets_its_own_outcome(channel, new_queue, fresh_name, to_queue):
    """With many publishes in flight, exactly those that routed nowhere are returned (fact 5, RET-01)."""
    queue, absent = await new_queue(), fresh_name("absent")
    outcomes: dict[int, object] = {}

    async def publish(number: int) -> None:
        outcomes[number] = await channel.publish(to_queue(absent if number % 3 == 0 else queue))

    async with trio.open_nursery() as nursery:
        for number in range(120):
            nursery.start_soon(publish, number)
    expected = {number: Returned(312, "NO_ROUTE") if number % 3 == 0 else ACKED for number in range(120)}
    assert outcomes == expected


async def test_a_publish_nobody_waits_for_tells_its_own_outcome(channel, new_queue, fresh_name, to_queue):
    """An accepted ``publish_nowait`` tells once what ``publish`` would return; refused, it sends nothing."""
    queue, absent = await new_queue(), fresh_name("absent")
    told: list[object] = []
    accepted = [channel.publish_nowait(to_queue(target), told.append) for target in (queue, absent, queue)]
    assert len(set(accepted)) == 1
    if not all(accepted):
        assert await channel.publish(to_queue(queue)) == ACKED
        assert told == []
        return
    with trio.fail_after(10):
        while len(told) < len(accepted):
            await trio.sleep(0.01)
    assert sorted(map(str, told)) == sorted(map(str, [ACKED, Returned(312, "NO_ROUTE"), ACKED]))


async def test_a_publish_nobody_waits_for_hears_of_an_abort(connection, new_queue, to_queue):
    """What was accepted and not confirmed is told as unconfirmed when its connection ends."""
    channel = await connection.open_channel(confirms=True)
    queue = await new_queue()
    told: list[object] = []
    if channel.publish_nowait(to_queue(queue), told.append):
        connection.abort()
        assert len(told) == 1
        assert isinstance(told[0], Unconfirmed)
    assert channel.publish_nowait(to_queue(queue), told.append) is False or channel.closed is None


async def test_a_full_queue_nacks(channel, new_queue, to_queue, ready_count):
    """``reject-publish`` on a full queue ends as Nacked; the queue keeps what it had (NACK-01, fact 9)."""
    queue = await new_queue(max_length=1, overflow="reject-publish")
    assert await channel.publish(to_queue(queue)) == ACKED
    assert await channel.publish(to_queue(queue)) == NACKED
    assert await ready_count(queue) == 1


async def test_a_copy_refused_by_one_queue_nacks_the_publish(
    channel, new_queue, fresh_name, to_queue, ready_count
):
    """Where one queue of a fan-out refuses, the publish is nacked although another kept a copy (fact 9)."""
    full = await new_queue(max_length=1, overflow="reject-publish")
    free = await new_queue()
    exchange = fresh_name("x")
    await channel.declare_exchange(ExchangeSpec(exchange, "fanout"))
    for queue in (full, free):
        await channel.bind_queue(BindingSpec(exchange, queue, ""))
    await channel.publish(to_queue(full))
    publication = Publication(exchange, "any", b"", Properties(message_id="fan", delivery_mode=2))
    assert await channel.publish(publication) == NACKED
    assert await ready_count(free) == 1


async def test_drop_head_confirms_and_destroys_the_oldest(channel, new_queue, to_queue):
    """``drop-head`` acks the newcomer cleanly and drops the oldest message (fact 9)."""
    queue = await new_queue(max_length=2)
    for body in (b"a", b"b", b"c"):
        assert await channel.publish(to_queue(queue, body)) == ACKED
    delivery = await channel.get(queue)
    assert delivery is not None
    assert delivery.body == b"b"


async def test_an_alternate_exchange_hides_the_missing_route(channel, new_queue, fresh_name):
    """What an alternate exchange takes counts as routed: no return, a clean confirm (fact 6)."""
    catcher = await new_queue()
    alternate, exchange = fresh_name("ae"), fresh_name("x")
    await channel.declare_exchange(ExchangeSpec(alternate, "fanout"))
    await channel.declare_exchange(
        ExchangeSpec(exchange, "topic", arguments={"alternate-exchange": alternate})
    )
    await channel.bind_queue(BindingSpec(alternate, catcher, ""))
    publication = Publication(exchange, "nowhere", b"caught", Properties(message_id="ae", delivery_mode=2))
    assert await channel.publish(publication) == ACKED
    delivery = await channel.get(catcher)
    assert delivery is not None
    assert (delivery.exchange, delivery.routing_key) == (exchange, "nowhere")


async def test_a_missing_exchange_closes_the_channel(channel, new_queue, to_queue):
    """A publish to an absent exchange is unconfirmed with the 404 text, and so is any later one (CONF-07)."""
    queue = await new_queue()
    lost = Publication("no.such.exchange", "k", b"", Properties(message_id="lost", delivery_mode=2))
    with trio.fail_after(10):
        outcome = await channel.publish(lost)
    assert isinstance(outcome, Unconfirmed)
    assert "NOT_FOUND - no exchange 'no.such.exchange' in vhost" in outcome.reason
    reason = await channel.wait_closed()
    assert isinstance(reason, ChannelClose)
    assert (reason.code, reason.class_id, reason.method_id) == (404, 60, 40)
    after = await channel.publish(to_queue(queue))
    assert isinstance(after, Unconfirmed)
    assert not after.sent


async def test_a_foreign_user_id_closes_the_channel(channel, new_queue, to_queue):
    """A ``user_id`` other than the connection's user is refused with 406 (fact 10)."""
    queue = await new_queue()
    outcome = await channel.publish(to_queue(queue, user_id="somebody-else"))
    assert isinstance(outcome, Unconfirmed)
    assert "user_id property set to 'somebody-else'" in outcome.reason


async def test_aborting_resolves_pending_publishes(broker, options, new_queue, to_queue):
    """Every publish pending at an abort resolves to Unconfirmed at once."""
    queue = await new_queue()
    outcomes: list[object] = []
    async with broker.connect(options) as connection:
        channel = await connection.open_channel(confirms=True)

        async def publish() -> None:
            outcomes.append(await channel.publish(to_queue(queue)))

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(publish)
                await trio.lowlevel.checkpoint()
                connection.abort()
    assert len(outcomes) == 5
    assert all(outcome == ACKED or isinstance(outcome, Unconfirmed) for outcome in outcomes)


async def test_every_property_survives(channel, new_queue):
    """Each of the thirteen basic properties arrives as it was published."""
    queue = await new_queue()
    assert await channel.publish(Publication("", queue, b"", EVERY_PROPERTY)) == ACKED
    delivery = await channel.get(queue)
    assert delivery is not None
    assert delivery.properties == EVERY_PROPERTY
    assert delivery.undecodable is None


@pytest.mark.parametrize(
    "value",
    [
        True,
        False,
        0,
        -1,
        127,
        -(2**31),
        2**31,
        2**62,
        -(2**63),
        1.5,
        -0.0,
        "text",
        "é\U0001f600",
        "",
        None,
        [],
        [1, "two", [3.0], {"four": None}],
        {},
        {"nested": {"deeper": [True, None]}},
        b"\xff\xfe raw",
    ],
    ids=repr,
)
async def test_header_values_survive(value, channel, new_queue, to_queue):
    """A header value arrives equal and of the same type."""
    queue = await new_queue()
    assert await channel.publish(to_queue(queue, headers={"h": value})) == ACKED
    delivery = await channel.get(queue)
    assert delivery is not None
    arrived = delivery.properties.headers["h"]
    assert arrived == value
    assert type(arrived) is type(value)
    if isinstance(value, float):
        assert math.copysign(1, arrived) == math.copysign(1, value)


async def test_a_decimal_header_survives(channel, new_queue, to_queue):
    """A decimal arrives as the same number."""
    queue = await new_queue()
    await channel.publish(to_queue(queue, headers={"d": Decimal("12.34")}))
    delivery = await channel.get(queue)
    assert delivery is not None
    assert delivery.properties.headers["d"] == Decimal("12.34")


async def test_expired_messages_are_gone(channel, new_queue, to_queue, eventually):
    """A copied ``expiration`` acts in the target queue: the message expires there (fact 10)."""
    queue = await new_queue()
    assert await channel.publish(to_queue(queue, expiration="100")) == ACKED

    async def ready() -> int:
        return (await channel.declare_queue(QueueSpec(queue), passive=True)).ready

    assert await eventually(ready, 0) == 0
    assert await channel.get(queue) is None


async def test_a_rejected_message_is_dead_lettered_with_its_history(
    channel, new_queue, to_queue, eventually, ready_count
):
    """The broker's own dead-lettering keeps bytes and route and writes x-death."""
    target = await new_queue()
    source = await new_queue(dead_letter_exchange="", dead_letter_routing_key=target)
    await channel.publish(to_queue(source, b"dead", headers={"mine": 1}))
    delivery = await channel.get(source)
    assert delivery is not None
    channel.nack_nowait(delivery.delivery_tag, requeue=False)
    assert await eventually(lambda: ready_count(target), 1) == 1
    dead = await channel.get(target)
    assert dead is not None
    assert (dead.body, dead.routing_key, dead.properties.headers["mine"]) == (b"dead", target, 1)
    [death] = dead.properties.headers["x-death"]
    assert type(death["time"]) is int
    del death["time"]
    assert death == {
        "count": 1,
        "exchange": "",
        "queue": source,
        "reason": "rejected",
        "routing-keys": [source],
    }
