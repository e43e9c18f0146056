"""A rig for ordinary queues on the embedded broker: one queue, one dead-letter queue, virtual time."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import pytest
import trio

from craig_mq import ReceivedEvent, subscribe
from craig_mq.core.dead_letter import DeadLetterDelivery, build_dead_letter_delivery
from craig_mq.core.delivery import Delivery, Properties
from craig_mq.observe.events import Event
from craig_mq.runtime.ladder_subscribe import EventSubscription
from craig_mq.runtime.sources import Sources
from craig_mq.transport.memory import MemoryBroker

E = TypeVar("E", bound=Event)


class Ladder:
    """One embedded broker with the queue ``orders`` and the dead-letter queue ``dead``."""

    def __init__(self) -> None:
        self.broker = MemoryBroker(trace=True)
        self.broker.declare_exchange("craig.events", "topic")
        self.broker.declare_exchange("craig.dlx", "topic")
        self.broker.declare_queue("dead")
        self.broker.bind("craig.dlx", "dead", "dlq.#")
        self.calls: Counter[str] = Counter()
        self.received: list[ReceivedEvent] = []
        self.events: list[Event] = []
        self.began = trio.current_time()

    @property
    def now(self) -> float:
        """Seconds of virtual time since the rig was made."""
        return trio.current_time() - self.began

    def heard(self, kind: type[E]) -> list[E]:
        """Return the events of one kind so far."""
        return [event for event in self.events if isinstance(event, kind)]

    def publish(self, event_type: str = "order.placed", body: bytes | None = None) -> str:
        """Publish one event to craig.events; return its id."""
        envelope_id = str(uuid.uuid4())
        document = {
            "id": envelope_id,
            "source_service": "shop",
            "event_type": event_type,
            "occurred_at": "2026-11-30T10:00:00Z",
            "payload": {"n": 1},
        }
        self.broker.publish("craig.events", event_type, body or json.dumps(document).encode(), Properties())
        return envelope_id

    def handler(
        self, script: Callable[[ReceivedEvent], object] = lambda _: None
    ) -> Callable[..., Awaitable[None]]:
        """Return a handler that counts, then does what ``script`` says (an exception is raised)."""

        async def handle(event: ReceivedEvent) -> None:
            self.calls[event.envelope.id] += 1
            self.received.append(event)
            outcome = script(event)
            if isinstance(outcome, Awaitable):
                outcome = await outcome
            if isinstance(outcome, BaseException):
                raise outcome

        return handle

    @staticmethod
    async def takes(seconds: float) -> None:
        """Let a handler take so long."""
        await trio.sleep(seconds)

    def subscribe(self, handler: Callable[..., Awaitable[None]] | None = None, **arguments: Any) -> Any:
        """Return ``subscribe`` with the rig's broker, observer and sources filled in."""
        arguments.setdefault("queue", "orders")
        arguments.setdefault("binding_keys", ("order.#",))
        arguments.setdefault("observer", self.events.append)
        arguments.setdefault("sources", Sources(now=lambda: 1_800_000_000.0 + self.now, jitter=lambda: 0.0))
        return partial(subscribe, self.broker, handler=handler or self.handler(), **arguments)

    @asynccontextmanager
    async def subscribed(
        self, handler: Callable[..., Awaitable[None]] | None = None, **arguments: Any
    ) -> AsyncGenerator[EventSubscription, None]:
        """Run a subscription for the length of the block, then shut it down gracefully."""
        async with trio.open_nursery() as nursery:
            subscription = await nursery.start(self.subscribe(handler, **arguments))
            yield subscription
            subscription.shutdown()

    def ready(self, queue: str = "orders") -> int:
        """Return how many messages are ready in a queue."""
        return self.broker.queue(queue).ready

    def dead_letters(self) -> list[DeadLetterDelivery]:
        """Read every dead letter in ``dead``, as the dead-letter queue's own subscription would."""
        found: list[DeadLetterDelivery] = []
        for message in self.broker.queue("dead").messages:
            delivery = Delivery(1, "craig.dlx", message.routing_key, False, message.body, message.properties)
            subject = build_dead_letter_delivery(delivery, queue="dead")
            assert isinstance(subject, DeadLetterDelivery), subject
            found.append(subject)
        return found


@pytest.fixture
async def ladder() -> Ladder:
    """A rig; the test itself asks for ``autojump_clock``, as pytest-trio wants it."""
    return Ladder()
