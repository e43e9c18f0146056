"""What every transport owes the runtime about declaring, binding, refusing and routing."""

from __future__ import annotations

import re

import attrs
import pytest

from craig_mq.core.close import ChannelClose
from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import ACKED, Returned
from craig_mq.core.topology import BindingSpec, ExchangeSpec, QueueSpec, QueueState
from craig_mq.transport.errors import ClosedError

CLASSIC = {"x-queue-type": "classic"}


async def refusal_of(awaitable) -> ChannelClose:
    """Return the channel close that a call failed with, the vhost's name in its text written as ``/``."""
    with pytest.raises(ClosedError) as caught:
        await awaitable
    reason = caught.value.reason
    assert isinstance(reason, ChannelClose)
    return attrs.evolve(reason, text=re.sub("in vhost '[^']*'", "in vhost '/'", reason.text))


async def test_a_declare_reports_the_queue(channel, new_queue):
    """A fresh queue has no ready message and no consumer; declaring it again is the same declare."""
    queue = await new_queue()
    assert await channel.declare_queue(QueueSpec(queue, arguments=CLASSIC)) == QueueState(queue, 0, 0)
    assert await channel.declare_queue(QueueSpec(queue), passive=True) == QueueState(queue, 0, 0)


async def test_an_argument_less_declare_equals_a_classic_one(channel, new_queue):
    """Argument-less and ``classic`` are equivalent on an existing classic queue (fact 3)."""
    queue = await new_queue()
    assert (await channel.declare_queue(QueueSpec(queue))).name == queue


async def test_looking_at_an_absent_queue_is_refused(channel, fresh_name):
    """A passive declare of an absent queue closes the channel with 404, and says so everywhere (fact 12)."""
    name = fresh_name("absent")
    reason = await refusal_of(channel.declare_queue(QueueSpec(name), passive=True))
    assert reason == ChannelClose(404, f"NOT_FOUND - no queue '{name}' in vhost '/'", 50, 10)
    assert await channel.wait_closed() == channel.closed
    assert channel.closed.text.startswith(f"NOT_FOUND - no queue '{name}' in vhost")


async def test_looking_at_an_absent_exchange_is_refused(channel):
    """A passive declare of an absent exchange closes the channel with 404."""
    reason = await refusal_of(channel.declare_exchange(ExchangeSpec("absent.x"), passive=True))
    assert (reason.code, reason.class_id, reason.method_id) == (404, 40, 10)


async def test_consuming_an_absent_queue_is_refused(channel, fresh_name):
    """Consuming from an absent queue closes the channel with 404 and 60/20."""
    reason = await refusal_of(channel.consume(fresh_name("absent"), prefetch=1))
    assert (reason.code, reason.class_id, reason.method_id) == (404, 60, 20)


async def test_getting_from_an_absent_queue_is_refused(channel, fresh_name):
    """A get from an absent queue closes the channel with 404 and 60/70."""
    reason = await refusal_of(channel.get(fresh_name("absent")))
    assert (reason.code, reason.class_id, reason.method_id) == (404, 60, 70)


async def test_other_arguments_are_refused(channel, new_queue):
    """Declaring a queue with other arguments closes the channel with 406, naming the argument."""
    queue = await new_queue()
    other = QueueSpec(queue, arguments={**CLASSIC, "x-max-length": 5})
    reason = await refusal_of(channel.declare_queue(other))
    assert reason.code == 406
    # The type's name depends on how narrow the client encodes a small integer.
    assert reason.text.startswith(
        f"PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue '{queue}' in vhost '/': "
        "received the value '5' of type '"
    )
    assert reason.text.endswith("but current is none")


async def test_another_durability_is_refused(channel, new_queue):
    """Declaring a durable queue as a transient one closes the channel with 406."""
    queue = await new_queue()
    reason = await refusal_of(channel.declare_queue(QueueSpec(queue, durable=False, arguments=CLASSIC)))
    assert reason.text == (
        f"PRECONDITION_FAILED - inequivalent arg 'durable' for queue '{queue}' in vhost '/': "
        "received 'false' but current is 'true'"
    )


async def test_another_exchange_type_is_refused(channel, fresh_name):
    """Declaring an exchange with another type closes the channel with 406."""
    name = fresh_name("x")
    await channel.declare_exchange(ExchangeSpec(name, "topic"))
    reason = await refusal_of(channel.declare_exchange(ExchangeSpec(name, "direct")))
    assert reason.text == (
        f"PRECONDITION_FAILED - inequivalent arg 'type' for exchange '{name}' in vhost '/': "
        "received 'direct' but current is 'topic'"
    )


async def test_reserved_names_are_refused(channel, fresh_name):
    """Names beginning with ``amq.`` belong to the broker: 403."""
    name = fresh_name("amq.mine")
    reason = await refusal_of(channel.declare_queue(QueueSpec(name, arguments=CLASSIC)))
    assert reason.code == 403
    assert reason.text == f"ACCESS_REFUSED - queue name '{name}' contains reserved prefix 'amq.*'"


async def test_a_refusal_leaves_the_connection_and_other_channels_alone(connection, channel, new_queue):
    """A channel that the broker closed takes neither its connection nor its siblings with it."""
    queue = await new_queue()
    sibling = await connection.open_channel()
    await refusal_of(channel.consume("no.such.queue", prefetch=1))
    assert connection.closed is None
    assert sibling.closed is None
    assert await sibling.get(queue) is None


async def test_an_exclusive_consumer_stays_alone(connection, channel, new_queue):
    """A second consumer beside an exclusive one is refused with 403."""
    queue = await new_queue()
    await channel.consume(queue, prefetch=1, exclusive=True)
    other = await connection.open_channel()
    reason = await refusal_of(other.consume(queue, prefetch=1))
    assert reason.text == f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"


async def test_an_exclusive_queue_belongs_to_its_connection(broker, options, channel, fresh_name):
    """Another connection's exclusive queue answers 405; it goes with its connection."""
    name = fresh_name("own")
    async with broker.connect(options) as owner:
        spec = QueueSpec(name, durable=False, exclusive=True, arguments=CLASSIC)
        await (await owner.open_channel()).declare_queue(spec)
        reason = await refusal_of(channel.declare_queue(QueueSpec(name), passive=True))
        assert reason.code == 405
        await owner.aclose()


async def test_topic_bindings_route_and_unbinding_ends_it(channel, new_queue, fresh_name):
    """``dlq.#`` takes ``dlq`` and every key below it; once unbound, nothing routes."""
    queue, exchange = await new_queue(), fresh_name("x")
    await channel.declare_exchange(ExchangeSpec(exchange))
    await channel.bind_queue(BindingSpec(exchange, queue, "dlq.#"))
    outcomes = {}
    for key in ("dlq", "dlq.a", "dlq.a.b", "dlqx", "other.dlq"):
        publication = Publication(exchange, key, b"", Properties(message_id=key, delivery_mode=2))
        outcomes[key] = await channel.publish(publication) == ACKED
    assert outcomes == {"dlq": True, "dlq.a": True, "dlq.a.b": True, "dlqx": False, "other.dlq": False}
    await channel.unbind_queue(BindingSpec(exchange, queue, "dlq.#"))
    publication = Publication(exchange, "dlq.a", b"", Properties(message_id="late", delivery_mode=2))
    assert await channel.publish(publication) == Returned(312, "NO_ROUTE")


async def test_overlapping_bindings_deliver_one_copy(channel, new_queue, fresh_name):
    """A queue bound twice to one exchange gets one copy; two queues get one each."""
    first, second, exchange = await new_queue(), await new_queue(), fresh_name("x")
    await channel.declare_exchange(ExchangeSpec(exchange))
    for queue, key in ((first, "dlq.#"), (first, "*.a"), (second, "#")):
        await channel.bind_queue(BindingSpec(exchange, queue, key))
    publication = Publication(exchange, "dlq.a", b"", Properties(message_id="m", delivery_mode=2))
    assert await channel.publish(publication) == ACKED
    ready = [(await channel.declare_queue(QueueSpec(queue), passive=True)).ready for queue in (first, second)]
    assert ready == [1, 1]


async def test_a_direct_exchange_matches_the_whole_key(channel, new_queue, fresh_name):
    """A direct exchange routes by equality: wildcards are letters to it."""
    queue, exchange = await new_queue(), fresh_name("x")
    await channel.declare_exchange(ExchangeSpec(exchange, "direct"))
    await channel.bind_queue(BindingSpec(exchange, queue, "a.#"))
    exact = Publication(exchange, "a.#", b"", Properties(message_id="m1", delivery_mode=2))
    other = Publication(exchange, "a.b", b"", Properties(message_id="m2", delivery_mode=2))
    assert await channel.publish(exact) == ACKED
    assert await channel.publish(other) == Returned(312, "NO_ROUTE")


async def test_unbinding_what_is_not_bound_is_no_error(channel, new_queue):
    """Removing an absent binding changes nothing and closes nothing."""
    queue = await new_queue()
    await channel.unbind_queue(BindingSpec("amq.topic", queue, "never"))
    assert channel.closed is None


async def test_binding_to_an_absent_exchange_is_refused(channel, new_queue):
    """A bind needs both ends: 404 and 50/20."""
    queue = await new_queue()
    reason = await refusal_of(channel.bind_queue(BindingSpec("no.such.exchange", queue, "k")))
    assert (reason.code, reason.class_id, reason.method_id) == (404, 50, 20)


async def test_purge_and_delete_count_what_they_remove(channel, new_queue, to_queue):
    """Purging and deleting report the ready messages they removed; deleting the absent removes none."""
    queue = await new_queue()
    for _ in range(3):
        await channel.publish(to_queue(queue))
    assert await channel.purge_queue(queue) == 3
    await channel.publish(to_queue(queue))
    assert await channel.delete_queue(queue) == 1
    assert await channel.delete_queue(queue) == 0
