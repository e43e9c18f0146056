"""One subscription on either broker, whose next settlement can be made to go wrong."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import aiormq
import pytest
import trio
import trio.testing

from craig_mq import SubscriptionConfig, SubscriptionOptions, open_broker, subscribe
from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import Acked, Confirmation
from craig_mq.core.topology import BindingSpec, ExchangeSpec, QueueSpec
from craig_mq.observe.events import Event
from craig_mq.runtime.ladder_plan import EventStatistics
from craig_mq.runtime.ladder_subscribe import EventSubscription
from craig_mq.testing import MemoryBroker
from craig_mq.transport.aio_pika.bridge import DetachedTasks, open_bridge
from craig_mq.transport.broker import Broker, ConnectionOptions

E = TypeVar("E", bound=Event)

QUICK = SubscriptionOptions(backoff_base=0.1, backoff_cap=0.2)
CLASSIC = {"x-queue-type": "classic"}
FAILURES = {"ok": 0, "once": 1, "twice": 99, "malformed": 0}


class Sabotage:
    """Satisfies ``Broker`` around another one; a connection is reset just before ``fails`` is written.

    ``hold`` keeps back the confirms of every publish until the event is set.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.fails: str | None = None
        self.hold: trio.Event | None = None
        self.holding = trio.Event()

    @property
    def display_url(self) -> str:
        return self._broker.display_url

    @asynccontextmanager
    async def connect(self, options: ConnectionOptions) -> AsyncGenerator[Any]:
        async with self._broker.connect(options) as connection:
            yield _Connection(connection, self)

    def struck(self, settlement: str) -> bool:
        """Whether this one is to go wrong; once."""
        strikes = self.fails == settlement
        if strikes:
            self.fails = None
        return strikes


class _Connection:
    def __init__(self, inner: Any, sabotage: Sabotage) -> None:
        self._inner, self._sabotage = inner, sabotage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def open_channel(self, *, confirms: bool = False) -> Any:
        return _Channel(await self._inner.open_channel(confirms=confirms), self._inner, self._sabotage)


class _Channel:
    def __init__(self, inner: Any, connection: Any, sabotage: Sabotage) -> None:
        self._inner, self._connection, self._sabotage = inner, connection, sabotage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def publish(self, publication: Publication) -> Confirmation:
        confirmation: Confirmation = await self._inner.publish(publication)
        if self._sabotage.hold is not None:
            self._sabotage.holding.set()
            await self._sabotage.hold.wait()
        return confirmation

    def ack_nowait(self, delivery_tag: int, *, multiple: bool = False) -> bool:
        if self._sabotage.struck("ack"):
            self._connection.abort()
        written: bool = self._inner.ack_nowait(delivery_tag, multiple=multiple)
        return written

    def nack_nowait(self, delivery_tag: int, *, requeue: bool, multiple: bool = False) -> None:
        if self._sabotage.struck("requeue" if requeue else "reject"):
            self._connection.abort()
        self._inner.nack_nowait(delivery_tag, requeue=requeue, multiple=multiple)


@pytest.fixture(params=["memory", pytest.param("rabbitmq", marks=pytest.mark.broker)])
def kind(request: pytest.FixtureRequest) -> str:
    """Which broker."""
    return str(request.param)


@pytest.fixture
def clock(kind: str) -> trio.testing.MockClock | None:
    """Virtual time on the embedded broker, real time on the other."""
    return trio.testing.MockClock(autojump_threshold=0) if kind == "memory" else None


class Station:
    """One subscription to ``orders``, whose handler fails as often as its cell says."""

    def __init__(self, broker: Broker, url: str, cell: str, by: Any) -> None:
        self.broker, self.url, self.cell, self.by = broker, url, cell, by
        self.sabotage = Sabotage(broker)
        self.calls: list[bool] = []
        self.hold_call: int | None = None
        self.held, self.let_go = trio.Event(), trio.Event()
        self.events: list[Event] = []
        self.channel: Any = None
        self.subscription: EventSubscription

    async def handle(self, received: Any) -> None:
        self.calls.append(received.redelivered)
        if len(self.calls) == self.hold_call:
            self.held.set()
            await self.let_go.wait()
        if len(self.calls) <= FAILURES[self.cell]:
            raise ValueError("boom")

    def heard(self, what: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, what)]

    @property
    def statistics(self) -> EventStatistics:
        return self.subscription.statistics()

    @property
    def outcomes(self) -> tuple[int, int, int]:
        """How many were acked, requeued and dead-lettered."""
        return self.statistics.acked, self.statistics.requeued, self.statistics.dead_lettered

    async def bind(self) -> None:
        await self.channel.declare_exchange(ExchangeSpec("craig.dlx"))
        await self.channel.bind_queue(BindingSpec("craig.dlx", "dead", "dlq.#"))

    async def spoil(self, trouble: str) -> None:
        """Leave craig.dlx without a queue, or take it away."""
        if trouble == "unroutable":
            await self.channel.unbind_queue(BindingSpec("craig.dlx", "dead", "dlq.#"))
        else:
            await delete_dlx(self.broker, self.url)

    async def publish(self) -> None:
        body = json.dumps(
            {
                "id": str(uuid.uuid4()),
                "source_service": "shop",
                "event_type": "order.placed",
                "occurred_at": "2026-11-30T10:00:00Z",
                "payload": {},
            }
        ).encode()
        if self.cell == "malformed":
            body = b"\xff"
        publication = Publication("", "orders", body, Properties(message_id=uuid.uuid4().hex))
        assert await self.channel.publish(publication) == Acked()

    async def until(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(20):
            while not condition():
                await trio.sleep(0.02)

    async def settled(self) -> None:
        """Wait until the event has come to its end."""
        await self.until(lambda: self.statistics.acked + self.statistics.dead_lettered > 0)

    async def take(self, queue: str) -> int:
        """Take what is in a queue; how many there were. A broker's own dead letter may be on its way."""
        taken = 0
        for wait_s in (0.0, 0.05, 0.1):
            await trio.sleep(wait_s)
            while (delivery := await self.channel.get(queue)) is not None:
                self.channel.ack_nowait(delivery.delivery_tag)
                taken += 1
        return taken

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Subscribe for the length of the block."""
        async with self.broker.connect(ConnectionOptions("test")) as connection:
            self.channel = await connection.open_channel(confirms=True)
            await self.channel.declare_exchange(ExchangeSpec("craig.dlx"))
            await self.channel.declare_queue(QueueSpec("dead", arguments=CLASSIC))
            await self.bind()
            async with trio.open_nursery() as nursery:
                self.subscription = await nursery.start(
                    partial(
                        subscribe,
                        self.sabotage,
                        queue="orders",
                        handler=self.handle,
                        config=SubscriptionConfig(dead_letter_by=self.by),
                        options=QUICK,
                        observer=self.events.append,
                    )
                )
                yield
                self.subscription.shutdown()
            self.left = await self.take("orders"), await self.take("dead")
            await connection.aclose()


async def delete_dlx(broker: Any, url: str) -> None:
    """Delete craig.dlx as an operator would; the seam has no call for it."""
    if isinstance(broker, MemoryBroker):
        broker.delete_exchange("craig.dlx")
        return
    async with open_bridge() as bridge:
        tasks = DetachedTasks(bridge)
        connection = await tasks.detach(aiormq.connect(url)).wait()
        channel = await tasks.detach(connection.channel()).wait()
        await tasks.detach(channel.exchange_delete("craig.dlx")).wait()
        await tasks.detach(connection.close()).wait()


@pytest.fixture
async def station(kind: str, request: pytest.FixtureRequest) -> AsyncGenerator[Callable[[str, Any], Station]]:
    """Build the station of one cell."""
    url = "memory://" if kind == "memory" else request.getfixturevalue("vhost_url")
    async with open_broker(url) as broker:
        yield lambda cell, by: Station(broker, url, cell, by)
