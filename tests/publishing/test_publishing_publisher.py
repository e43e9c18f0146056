"""Publishing events on the embedded broker: outcomes, bounds, back-pressure, connections."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from craig_mq import (
    Acked,
    DlqConfigError,
    EventEnvelope,
    Nacked,
    Publisher,
    Returned,
    Unconfirmed,
    publish_event,
)
from craig_mq.core.envelope import decode_envelope
from craig_mq.core.errors import EnvelopeNotSerializable
from craig_mq.publishing.options import PublisherOptions
from craig_mq.publishing.publisher import Pending
from craig_mq.testing import Delay, Drop, Fault, FaultPlan, MemoryBroker, Nack, trace

Event = Callable[..., EventEnvelope]


async def test_an_event_is_stored_as_it_is(
    broker: MemoryBroker, event: Event, autojump_clock: trio.testing.MockClock
) -> None:
    """A confirmed event lies in its queue: its envelope unchanged, persistent, under its event type."""
    envelope = event(payload=b'{"amount": 1.50}')
    assert await publish_event(broker, envelope) == Acked()
    [body] = broker.queue("invoices").bodies
    assert decode_envelope(body) == envelope
    assert b'{"amount": 1.50}' in body
    published = [record for record in broker.trace if isinstance(record, trace.MessagePublished)]
    assert [record.publication.properties.delivery_mode for record in published] == [2]


async def test_a_missing_exchange_is_declared(event: Event, autojump_clock: trio.testing.MockClock) -> None:
    """Publishing to a broker without craig.events declares it; with no queue bound the event is Returned."""
    broker = MemoryBroker()
    assert await publish_event(broker, event()) == Returned(312, "NO_ROUTE")


async def test_an_exchange_of_another_kind_is_used_as_it_is(
    event: Event, autojump_clock: trio.testing.MockClock
) -> None:
    """An exchange that exists with other arguments is published to; the broker's own need no declare."""
    broker = MemoryBroker()
    broker.declare_exchange("orders", "fanout")
    broker.declare_queue("all")
    broker.bind("orders", "all", "")
    assert await publish_event(broker, event(), exchange="orders") == Acked()
    assert await publish_event(broker, event(), exchange="", routing_key="all") == Acked()
    assert broker.queue("all").ready == 2


async def test_a_nack_is_an_outcome(
    broker: MemoryBroker, event: Event, autojump_clock: trio.testing.MockClock
) -> None:
    """A broker that refuses a publish gives Nacked, and the connection goes on."""
    broker.inject(FaultPlan((Fault("confirm", Nack()),)))
    async with Publisher(broker) as publisher:
        assert await publisher.publish(event()) == Nacked()
        assert await publisher.publish(event()) == Acked()


async def test_an_absent_broker_is_an_outcome(
    broker: MemoryBroker, event: Event, autojump_clock: trio.testing.MockClock
) -> None:
    """Without a broker a publish ends after ``patience`` as Unconfirmed, and says that nothing was sent."""
    broker.stop()
    began = trio.current_time()
    outcome = await publish_event(broker, event(), options=PublisherOptions(patience=7))
    assert isinstance(outcome, Unconfirmed)
    assert not outcome.sent
    assert "refused" in outcome.reason
    assert trio.current_time() - began == pytest.approx(7)


async def test_a_swallowed_confirm_is_unknown_and_bounded(
    broker: MemoryBroker, event: Event, autojump_clock: trio.testing.MockClock
) -> None:
    """A confirm that does not come makes the outcome unknown after confirm_timeout, never Acked."""
    broker.inject(FaultPlan((Fault("confirm", Drop()),)))
    options = PublisherOptions(confirm_timeout=3)
    async with Publisher(broker, options=options) as publisher:
        began = trio.current_time()
        outcome = await publisher.publish(event())
        assert outcome == Unconfirmed("no confirm within 3 s")
        assert trio.current_time() - began == pytest.approx(3)
        assert await publisher.publish(event()) == Acked()
    assert broker.queue("invoices").ready == 2


async def test_after_an_unknown_outcome_one_goes_alone(
    broker: MemoryBroker, event: Event, autojump_clock: trio.testing.MockClock
) -> None:
    """On the connection after an unknown outcome one publish waits for its confirm before any other."""
    broker.inject(FaultPlan((Fault("confirm", Drop()), Fault("confirm", Delay(2.0), index=1))))
    async with Publisher(broker, options=PublisherOptions(confirm_timeout=3)) as publisher:
        assert isinstance(await publisher.publish(event()), Unconfirmed)
        pending = [await publisher.submit(event()) for _ in range(5)]
        await trio.sleep(2.5)
        sent = sum(isinstance(record, trace.MessagePublished) for record in broker.trace)
        assert sent == 2
        assert [await one.wait() for one in pending] == [Acked()] * 5


async def test_a_lost_connection_is_replaced(
    broker: MemoryBroker, event: Event, autojump_clock: trio.testing.MockClock
) -> None:
    """What was under way on a lost connection is Unconfirmed and not repeated; the next event is stored."""
    broker.inject(FaultPlan((Fault("confirm", Delay(5.0)),)))
    async with Publisher(broker) as publisher:
        pending = await publisher.submit(event())
        await trio.sleep(1)
        [name] = [name for name in broker.connections if name == "craig_mq publisher"]
        broker.close_connection(name)
        outcome = await pending.wait()
        assert isinstance(outcome, Unconfirmed)
        assert outcome.sent
        assert await publisher.publish(event()) == Acked()
    assert broker.connections == ()


async def test_what_never_left_waits_for_the_next_connection(
    broker: MemoryBroker, event: Event, autojump_clock: trio.testing.MockClock
) -> None:
    """An event published while the broker restarts is stored once it is back, within patience, once."""
    async with Publisher(broker) as publisher:
        assert await publisher.publish(event()) == Acked()
        broker.stop()
        pending = [await publisher.submit(event()) for _ in range(20)]
        await trio.sleep(10)
        assert publisher.in_flight == 20
        broker.restart()
        assert {await one.wait() for one in pending} == {Acked()}
    assert len(set(broker.queue("invoices").bodies)) == broker.queue("invoices").ready == 21


async def test_back_pressure(
    broker: MemoryBroker, event: Event, autojump_clock: trio.testing.MockClock
) -> None:
    """No more than max_in_flight publishes are under way; the next submit waits for a slot."""
    broker.inject(FaultPlan((Fault("confirm", Delay(5.0), times=None),)))
    async with Publisher(broker, options=PublisherOptions(max_in_flight=4)) as publisher:
        for _ in range(4):
            await publisher.submit(event())
        began = trio.current_time()
        assert publisher.in_flight == 4
        await publisher.submit(event())
        assert trio.current_time() - began == pytest.approx(5, abs=0.5)


async def test_an_alarm_is_waited_out_within_patience(
    broker: MemoryBroker, event: Event, autojump_clock: trio.testing.MockClock
) -> None:
    """While the broker blocks publishing, publishes wait, for patience at most; then they are stored."""
    options = PublisherOptions(confirm_timeout=3, patience=20)
    async with Publisher(broker, options=options) as publisher:
        assert await publisher.publish(event()) == Acked()
        broker.alarm(on=True)
        first = await publisher.submit(event())
        await trio.sleep(1)
        assert publisher.blocked is not None
        second = await publisher.submit(event())
        await trio.sleep(10)
        broker.alarm(on=False)
        assert await first.wait() == Acked()
        assert await second.wait() == Acked()
        broker.alarm(on=True)
        began = trio.current_time()
        outcome = await publisher.publish(event())
        assert isinstance(outcome, Unconfirmed)
        assert trio.current_time() - began <= 20


async def test_leaving_waits_for_what_is_under_way(
    broker: MemoryBroker, event: Event, autojump_clock: trio.testing.MockClock
) -> None:
    """Leaving the block resolves every submitted publish first and closes the connection."""
    broker.inject(FaultPlan((Fault("confirm", Delay(5.0)),)))
    async with Publisher(broker) as publisher:
        pending = await publisher.submit(event())
    assert pending.outcome == Acked()
    assert broker.connections == ()
    for publish in (publisher.submit, publisher.publish):
        with pytest.raises(RuntimeError, match="block"):
            await publish(event())


async def test_cancelling_resets_and_resolves(
    broker: MemoryBroker, event: Event, autojump_clock: trio.testing.MockClock
) -> None:
    """A cancelled block leaves no connection, and says of what was under way that nobody knows."""
    broker.inject(FaultPlan((Fault("confirm", Drop()),)))
    with trio.move_on_after(1):
        async with Publisher(broker) as publisher:
            pending = await publisher.submit(event())
            await trio.sleep_forever()
    assert broker.connections == ()
    assert isinstance(await pending.wait(), Unconfirmed)


async def test_what_cannot_be_published_is_refused_before_anything_is_sent(
    broker: MemoryBroker, event: Event, autojump_clock: trio.testing.MockClock
) -> None:
    """A bad envelope and a routing key over 255 bytes raise at once, without a connection."""
    with pytest.raises(EnvelopeNotSerializable):
        await publish_event(broker, event("not a uuid"))
    with pytest.raises(DlqConfigError, match="routing_key"):
        await publish_event(broker, event(), routing_key="ä" * 128)
    assert not [record for record in broker.trace if isinstance(record, trace.MessagePublished)]


async def test_an_error_in_the_block_comes_out_as_it_was(
    broker: MemoryBroker, event: Event, autojump_clock: trio.testing.MockClock
) -> None:
    """An exception of the block's own passes bare, after what was under way has its outcome."""
    begun: list[Pending] = []

    async def fail() -> None:
        async with Publisher(broker) as publisher:
            begun.append(await publisher.submit(event()))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert [pending.outcome for pending in begun] == [Acked()]


@pytest.mark.parametrize(
    ("field", "value"), [("confirm_timeout", 0), ("patience", "soon"), ("max_in_flight", 0)]
)
def test_options_are_validated(field: str, value: object) -> None:
    """A bound out of range is refused with the field's name."""
    with pytest.raises(DlqConfigError) as caught:
        PublisherOptions(**{field: value})  # type: ignore[arg-type]
    assert caught.value.field == field
