"""A rig for the runtime's tests: embedded broker, virtual time, scripted handler, everything heard."""

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

from craig_mq import DeadLetter, Disposition, DlqError, DlqRetryConfig, SubscriptionOptions, subscribe_dlq
from craig_mq.core.capture_format import CaptureKind
from craig_mq.core.delivery import NO_PROPERTIES, Delivery, Properties, Publication
from craig_mq.core.envelope import decode_envelope
from craig_mq.core.topology import QueueSpec
from craig_mq.core.unwrap import Capture, read_capture
from craig_mq.observe.events import Event
from craig_mq.runtime.handle import DlqSubscription
from craig_mq.runtime.sources import Sources
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.memory import MemoryBroker
from craig_mq.transport.opening import open_broker

E = TypeVar("E", bound=Event)
QUEUE = "security.dlq"
PARKING = QUEUE + ".parking"
QUARANTINE = QUEUE + ".quarantine"
NO_JITTER = 0.0


class Rig:
    """One embedded broker, one subscription's worth of evidence."""

    def __init__(self) -> None:
        self.broker = MemoryBroker(trace=True)
        self.events: list[tuple[float, Event]] = []
        self.calls: Counter[str] = Counter()
        self.called_at: list[tuple[float, str]] = []
        self.began = trio.current_time()
        self.wall_step_s = 0.0
        self.jitter = NO_JITTER
        self.letters: list[DeadLetter] = []

    @property
    def now(self) -> float:
        """Seconds of virtual time since the rig was made."""
        return trio.current_time() - self.began

    def wall(self) -> float:
        """The fake wall clock: it follows virtual time, plus whatever steps the test made."""
        return 1_800_000_000.0 + self.now + self.wall_step_s

    @property
    def sources(self) -> Sources:
        """Sources that follow virtual time."""
        return Sources(now=self.wall, jitter=lambda: self.jitter)

    def observe(self, event: Event) -> None:
        """Hear one event."""
        self.events.append((self.now, event))

    def heard(self, kind: type[E]) -> list[E]:
        """Return the events of one kind so far."""
        return [event for _, event in self.events if isinstance(event, kind)]

    def heard_at(self, kind: type[E]) -> list[float]:
        """Return when the events of one kind were heard."""
        return [round(at, 3) for at, event in self.events if isinstance(event, kind)]

    def envelope(self, envelope_id: str | None = None, **members: object) -> tuple[str, bytes]:
        """Return a fresh envelope's id and its bytes."""
        chosen = envelope_id or str(uuid.uuid4())
        document: dict[str, object] = {
            "id": chosen,
            "source_service": "billing",
            "event_type": "invoice.failed",
            "occurred_at": "2026-11-30T10:00:00Z",
            "payload": {"n": 1},
            **members,
        }
        return chosen, json.dumps(document).encode()

    def publish(
        self,
        key: str = "dlq.svc.a",
        *,
        token: bool = True,
        properties: Properties = NO_PROPERTIES,
        **members: object,
    ) -> str:
        """Dead-letter one message through craig.dlx; return its envelope id."""
        envelope_id = str(uuid.uuid4())
        if token:
            members["_dlx"] = self.dlx(envelope_id)
        _, body = self.envelope(envelope_id, **members)
        self.broker.publish("craig.dlx", key, body, properties)
        return envelope_id

    @staticmethod
    def dlx(envelope_id: str) -> dict[str, object]:
        """Return an explicit producer's ``_dlx`` with a token of its own."""
        return {
            "token": "occ1:inbox:" + uuid.UUID(envelope_id).hex,
            "queue": "invoices",
            "reason": "handler",
            "failed_at": "2026-11-30T10:00:00Z",
            "error": "boom",
        }

    @staticmethod
    async def after(seconds: float, outcome: object = None) -> object:
        """Let a handler take so long before its outcome."""
        await trio.sleep(seconds)
        return outcome

    def handler(
        self, script: Callable[[DeadLetter], object] = lambda _: None
    ) -> Callable[..., Awaitable[None]]:
        """Return a handler that counts, then does what ``script`` says (an exception is raised)."""

        async def handle(letter: DeadLetter) -> None:
            self.calls[letter.envelope.id] += 1
            self.called_at.append((self.now, letter.envelope.id))
            self.letters.append(letter)
            outcome = script(letter)
            if isinstance(outcome, Awaitable):
                outcome = await outcome
            if isinstance(outcome, Disposition):
                raise DlqError(outcome, source=ValueError("the reason"))
            if isinstance(outcome, BaseException):
                raise outcome

        return handle

    @asynccontextmanager
    async def subscribed(
        self, handler: Callable[..., Awaitable[None]] | None = None, **arguments: Any
    ) -> AsyncGenerator[DlqSubscription, None]:
        """Run a subscription for the length of the block, then shut it down gracefully."""
        async with trio.open_nursery() as nursery:
            subscription = await nursery.start(self.subscribe(handler, **arguments))
            yield subscription
            subscription.shutdown()

    def subscribe(self, handler: Callable[..., Awaitable[None]] | None = None, **arguments: Any) -> Any:
        """Return ``subscribe_dlq`` with the rig's broker, observer and sources filled in."""
        arguments.setdefault("queue", QUEUE)
        arguments.setdefault("broker", self.broker)
        arguments.setdefault("observer", self.observe)
        arguments.setdefault("sources", self.sources)
        return partial(subscribe_dlq, handler=handler or self.handler(), **arguments)

    def ready(self, queue: str = QUEUE) -> int:
        """Return how many messages are ready in a queue."""
        return self.broker.queue(queue).ready

    def captures(self, queue: str) -> list[Capture]:
        """Read every capture that is ready in a queue, head first."""
        found: list[Capture] = []
        for body in self.broker.queue(queue).bodies:
            capture = read_capture(decode_envelope(body))
            assert isinstance(capture, Capture), capture
            found.append(capture)
        return found

    @property
    def parked(self) -> list[Capture]:
        """The captures in the parking queue."""
        found = self.captures(PARKING)
        assert all(capture.kind is CaptureKind.PARKED for capture in found)
        return found

    @property
    def quarantined(self) -> list[Capture]:
        """The captures in the quarantine queue."""
        found = self.captures(QUARANTINE)
        assert all(capture.kind is CaptureKind.QUARANTINED for capture in found)
        return found


class Station:
    """A subscription on one vhost, and an onlooker's connection beside it."""

    def __init__(self, broker, onlooker):
        self.broker = broker
        self.onlooker = onlooker
        self.channel = None
        self.events = []
        self.letters = []
        self.script: Callable = lambda _: None

    async def handle(self, letter):
        """Do what the script says."""
        self.letters.append((trio.current_time(), letter))
        outcome = self.script(letter)
        if isinstance(outcome, Disposition):
            raise DlqError(outcome, source=ValueError("the reason"))

    @property
    def calls(self):
        """Count the invocations by envelope id."""
        return Counter(letter.envelope.id for _, letter in self.letters)

    def heard(self, kind):
        """Return the events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    async def publish(self, key="dlq.svc.a", exchange="craig.dlx", body=None):
        """Dead-letter one message; return its envelope id."""
        envelope_id = str(uuid.uuid4())
        document = {
            "id": envelope_id,
            "source_service": "billing",
            "event_type": "invoice.failed",
            "occurred_at": "2026-11-30T10:00:00Z",
            "payload": {"n": 1.10},
            "_dlx": {
                "token": "occ1:inbox:" + uuid.UUID(envelope_id).hex,
                "queue": "invoices",
                "reason": "handler",
                "failed_at": "2026-11-30T10:00:00Z",
                "error": "boom",
            },
        }
        properties = Properties(message_id=str(uuid.uuid4()), delivery_mode=2)
        if self.channel is None:
            self.channel = await self.onlooker.open_channel(confirms=True)
        await self.channel.publish(
            Publication(exchange, key, json.dumps(document).encode() if body is None else body, properties)
        )
        return envelope_id

    async def look(self, queue):
        """Return ready messages and consumers."""
        channel = await self.onlooker.open_channel()
        state = await channel.declare_queue(QueueSpec(queue), passive=True)
        await channel.aclose()
        return state.ready, state.consumers

    async def captures(self, queue):
        """Take and give back every capture of a queue."""
        channel = await self.onlooker.open_channel()
        found: list[Delivery] = []
        while (delivery := await channel.get(queue)) is not None:
            found.append(delivery)
        await channel.aclose()
        captures = [read_capture(decode_envelope(delivery.body)) for delivery in found]
        assert all(isinstance(capture, Capture) for capture in captures)
        return captures

    async def until(self, condition, *, seconds=30.0):
        """Wait for a condition, synchronous or not."""
        with trio.fail_after(seconds):
            while True:
                holds = condition()
                if not isinstance(holds, bool):
                    holds = await holds
                if holds:
                    return
                await trio.sleep(0.05)

    async def start(self, nursery, **arguments):
        """Subscribe."""
        return await nursery.start(
            partial(
                subscribe_dlq,
                self.broker,
                queue=QUEUE,
                handler=self.handle,
                observer=self.events.append,
                **{"config": DlqRetryConfig(parking_ttl=2), **arguments},
            )
        )


@pytest.fixture(params=["native", "aio-pika"])
async def station(request, vhost_url):
    """A station on a fresh vhost, once over each transport."""
    async with (
        open_broker(vhost_url, transport=request.param) as broker,
        open_broker(vhost_url) as beside,
        beside.connect(ConnectionOptions("onlooker")) as onlooker,
    ):
        yield Station(broker, onlooker)
        await onlooker.aclose()


@pytest.fixture
async def rig() -> Rig:
    """A rig; the test itself asks for ``autojump_clock``, as pytest-trio wants it."""
    return Rig()


@pytest.fixture
def short() -> DlqRetryConfig:
    """A configuration whose parking lasts ten seconds."""
    return DlqRetryConfig(parking_ttl=10)


@pytest.fixture
def one_worker() -> SubscriptionOptions:
    """Options under which deliveries are handled strictly one after the other."""
    return SubscriptionOptions(prefetch=1, concurrency=1)
