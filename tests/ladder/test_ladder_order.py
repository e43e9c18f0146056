"""Ordering per key, in-session retries, timeouts, names and the ladder's two disclosed bounds."""

from __future__ import annotations

from collections import Counter

import pytest
import trio

from craig_mq import (
    Disposition,
    DlqConfigError,
    DlqError,
    SubscribeError,
    SubscriptionConfig,
    SubscriptionOptions,
    subscribe_dlq,
)
from craig_mq.observe.events import SessionDown, TopologyDeclined
from craig_mq.runtime.errors import SubscribeErrorKind
from craig_mq.testing import Fault, FaultPlan, Raise


async def test_one_event_per_key_is_in_flight(ladder, autojump_clock):
    """With an ordering key, events of one key are handled one at a time and in order, keys side by side."""
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()
    total = [0]
    order: dict[str, list[str]] = {}

    async def handle(event: object) -> None:
        key = event.envelope.event_type  # type: ignore[attr-defined]
        running[key] += 1
        most[key] = max(most[key], running[key])
        total[0] = max(total[0], running.total())
        await trio.sleep(0.5)
        order.setdefault(key, []).append(event.envelope.id)  # type: ignore[attr-defined]
        running[key] -= 1

    published: dict[str, list[str]] = {}
    async with ladder.subscribed(
        handle, ordering_key=lambda envelope: envelope.event_type, options=SubscriptionOptions(prefetch=64)
    ) as subscription:
        for n in range(30):
            key = f"order.k{n % 3}"
            published.setdefault(key, []).append(ladder.publish(key))
        await trio.sleep(10)
        assert subscription.statistics().acked == 30
    assert set(most.values()) == {1}
    assert total[0] == 3
    assert order == published


async def test_a_retry_keeps_its_key(ladder, autojump_clock):
    """An in-session retry holds its key while it sleeps, so order survives it."""
    seen: list[tuple[str, int]] = []

    def script(event: object) -> object:
        seen.append((event.envelope.id, event.attempt))  # type: ignore[attr-defined]
        first = event.attempt == 1 and len(seen) == 1  # type: ignore[attr-defined]
        return DlqError(Disposition.TRANSIENT_RETRY, source=OSError("busy")) if first else None

    async with ladder.subscribed(
        ladder.handler(script),
        ordering_key=lambda envelope: envelope.event_type,
        config=SubscriptionConfig(handler_attempts=3),
    ):
        first, second = ladder.publish(), ladder.publish()
        await trio.sleep(2)
    assert seen == [(first, 1), (first, 2), (second, 1)]


async def test_a_blocked_publisher_gives_back_what_waits_for_its_key(ladder, autojump_clock):
    """While publishing is blocked nothing waits for a key here: all of it is requeued, then handled once."""
    async with ladder.subscribed(
        ladder.handler(lambda _: ladder.takes(5)), ordering_key=lambda _: "one"
    ) as subscription:
        ladder.publish(body=b"malformed, so that the publishing connection exists")
        await trio.sleep(1)
        ids = [ladder.publish() for _ in range(4)]
        await trio.sleep(1)
        ladder.broker.alarm(on=True)
        ladder.publish(body=b"another")
        await trio.sleep(1)
        assert ladder.ready() >= 3
        ladder.broker.alarm(on=False)
        await trio.sleep(60)
        assert subscription.statistics().acked == 4
    assert set(ladder.calls) == set(ids)


async def test_a_key_function_that_raises_is_a_failure(ladder, autojump_clock):
    """An event whose ordering key cannot be computed climbs the ladder like any other failure."""
    async with ladder.subscribed(ordering_key=lambda envelope: {}[envelope.id]):
        ladder.publish()
        await trio.sleep(1)
    assert ladder.calls == {}
    [dead] = ladder.dead_letters()
    assert dead.death is not None
    assert dead.death.error is not None


@pytest.mark.parametrize(
    ("failure", "calls"),
    [
        (DlqError(Disposition.TRANSIENT_RETRY, source=OSError("busy")), 6),
        (DlqError(Disposition.PERMANENT, source=ValueError("bad")), 2),
        (OSError("down"), 2),
    ],
)
async def test_in_session_retries(ladder, failure: Exception, calls: int, autojump_clock):
    """Only TRANSIENT_RETRY is tried again in the session, handler_attempts times in all, on each strike."""
    async with ladder.subscribed(
        ladder.handler(lambda _: failure), config=SubscriptionConfig(handler_attempts=3)
    ):
        ladder.publish()
        await trio.sleep(5)
    assert sum(ladder.calls.values()) == calls
    assert len(ladder.dead_letters()) == 1


async def test_a_handler_that_takes_too_long_has_its_strike(ladder, autojump_clock):
    """A handler is cancelled after handler_timeout, and that counts as a failure, twice as two."""
    async with ladder.subscribed(
        ladder.handler(lambda _: ladder.takes(600)), options=SubscriptionOptions(handler_timeout=2)
    ):
        ladder.publish()
        await trio.sleep(5)
    [dead] = ladder.dead_letters()
    assert dead.death is not None
    assert dead.death.error == "the handler was cancelled after 2 s"


async def test_teardown_uses_the_first_strike(ladder, autojump_clock):
    """Disclosed and counted: after a teardown what was in flight is redelivered, one failure from death."""
    ladder.broker.inject(FaultPlan((Fault("ack", Raise(), name="orders"),)))
    gate = trio.Event()

    async def wait(event: object) -> object:
        if not event.redelivered:  # type: ignore[attr-defined]
            await gate.wait()
        return ValueError("boom") if event.redelivered else None  # type: ignore[attr-defined]

    async with ladder.subscribed(ladder.handler(wait)) as subscription:
        ids = {ladder.publish() for _ in range(3)}
        await trio.sleep(1)
        gate.set()
        await trio.sleep(5)
        statistics = subscription.statistics()
    assert statistics.strikes_spent_elsewhere == 3
    assert {dead.envelope.id for dead in ladder.dead_letters()} == ids
    assert statistics.requeued == 0


async def test_two_producers_two_tokens(ladder, autojump_clock):
    """The named bound: a client's and a broker's dead letter of one failure carry two different tokens."""
    gate = trio.Event()
    copies: list[str | None] = []

    async def record(letter: object) -> None:
        copies.append(letter.token)  # type: ignore[attr-defined]

    # A replica whose ack is lost after its confirmed dead letter, and which is then gone for good ...
    client = ladder.subscribe(ladder.handler(lambda _: ValueError("boom")), queue="orders")
    ladder.broker.declare_queue(
        "orders",
        {
            "x-queue-type": "classic",
            "x-dead-letter-exchange": "craig.dlx",
            "x-dead-letter-routing-key": "dlq.orders",
        },
    )
    ladder.broker.inject(FaultPlan((Fault("ack", Raise(), name="orders"),)))
    async with trio.open_nursery() as nursery:
        await nursery.start(client)
        envelope_id = ladder.publish()
        while not ladder.heard(SessionDown):
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel(reason="the replica is gone")
    assert any(isinstance(event, TopologyDeclined) for event in ladder.events)
    # ... and one that leaves the redelivery to the broker's dead-lettering.
    async with ladder.subscribed(
        ladder.handler(lambda _: ValueError("boom")), config=SubscriptionConfig(dead_letter_by="broker")
    ):
        await trio.sleep(1)
    async with trio.open_nursery() as nursery:
        dlq = await nursery.start(
            lambda task_status: subscribe_dlq(
                ladder.broker, queue="dead", handler=record, task_status=task_status
            )
        )
        await trio.sleep(1)
        dlq.shutdown()
    gate.set()
    assert {token.split(":")[1] for token in copies if token} == {"inbox", "broker"}
    assert len(set(copies)) == 2
    assert set(ladder.calls) == {envelope_id}


async def test_a_queue_without_our_dlx_is_refused_where_the_broker_dead_letters(ladder, autojump_clock):
    """With "broker", a queue that exists without craig.dlx is refused: rejecting would drop messages."""
    ladder.broker.declare_queue("orders", {"x-queue-type": "classic"})
    with pytest.raises(SubscribeError, match="x-dead-letter-exchange") as caught:
        await ladder.subscribe(config=SubscriptionConfig(dead_letter_by="broker"))()
    assert caught.value.kind is SubscribeErrorKind.AMQP
    assert ladder.broker.connections == ()


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"queue": ""}, "queue"),
        ({"queue": "q" * 256}, "queue"),
        ({"binding_keys": "order.#"}, "binding_keys"),
        ({"exchange": "e" * 256}, "exchange"),
        ({"binding_keys": iter(["order.#"])}, "binding_keys"),
        ({"config": SubscriptionOptions()}, "config"),
        ({"options": None}, "options"),
        ({"handler": "handle"}, "handler"),
    ],
)
async def test_arguments_are_checked_before_anything_is_dialled(
    ladder, arguments, field: str, autojump_clock
):
    """A name or a kind that cannot be is a SubscribeError of kind CONFIG, naming the field."""
    with pytest.raises(SubscribeError) as caught:
        await ladder.subscribe(**arguments)()
    assert caught.value.kind is SubscribeErrorKind.CONFIG
    assert isinstance(caught.value.source, DlqConfigError)
    assert caught.value.source.field == field


async def test_a_snapshot_is_legal_at_any_time(ladder, autojump_clock):
    """The snapshot says that it consumes while it does, and that it is closed after the end."""
    async with ladder.subscribed() as subscription:
        assert subscription.snapshot().main.consuming
        assert not subscription.snapshot().closed
    await subscription.wait_closed()
    assert subscription.snapshot().closed
    assert subscription.snapshot().error is None
