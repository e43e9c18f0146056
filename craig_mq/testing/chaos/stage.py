"""What a trouble acts on: the nodes, the network in front of them, and the traffic."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypeVar

import attrs
import trio

from craig_mq.core.config import PARKING_SUFFIX, QUARANTINE_SUFFIX
from craig_mq.runtime.handle import DlqSubscription
from craig_mq.testing.chaos.workload import Behaving, Producer
from craig_mq.testing.proxy import TcpProxy
from craig_mq.testing.rabbitmq import RabbitNode
from craig_mq.transport.broker import Broker, Channel, ConnectionOptions

T = TypeVar("T")

QUEUE: Final = "chaos.dlq"
PARKING: Final = QUEUE + PARKING_SUFFIX
QUARANTINE: Final = QUEUE + QUARANTINE_SUFFIX
UNDO_S: Final = 30.0
"""What a trouble did is undone even when the campaign is cancelled, within this."""
APPLIED_S: Final = 0.5
"""How long a policy takes to reach every queue, with much to spare."""
HEARTBEAT_S: Final = 2
SETTLED_S: Final = 2.0
"""No kill comes sooner after a declare: a younger quorum queue can lose what it confirmed, a named bound."""


@attrs.define(slots=True)
class Stage:
    """Where a campaign plays. ``direct`` is a way to the broker that no trouble of the network touches.

    ``destroyed``: the messages an operator destroyed, by number. ``outages``: when a node went down
    (Unix time). ``declared_at``: when a queue was last declared (Trio's clock).
    """

    nodes: tuple[RabbitNode, ...]
    proxy: TcpProxy
    direct: Broker
    producer: Producer
    behaving: Behaving
    subscription: DlqSubscription
    random: random.Random
    destroyed: set[int] = attrs.Factory(set[int])
    outages: list[float] = attrs.Factory(list[float])
    declared_at: float = attrs.Factory(trio.current_time)

    @property
    def node(self) -> RabbitNode:
        """A node that runs."""
        return next(node for node in self.nodes if node.running)

    def moment(self) -> float:
        """Return how many seconds a trouble lasts: long enough to hurt, short enough to have many."""
        return 0.3 + self.random.random()

    def silence(self) -> float:
        """Return how many seconds a peer is silent: every other time for longer than two heartbeats."""
        return self.moment() + self.random.choice((0.0, HEARTBEAT_S * 2.5))

    async def eval(self, erlang: str) -> str:
        """Evaluate Erlang in a node that runs."""
        return await self.call(partial(self.node.eval, erlang))

    async def call(self, deed: Callable[[], T]) -> T:
        """Do something blocking with the nodes."""
        return await trio.to_thread.run_sync(deed)

    async def before_outage(self) -> None:
        """Wait until what was declared last is old enough to survive, and note that a node goes down."""
        await trio.sleep_until(self.declared_at + SETTLED_S)
        self.outages.append(time.time())

    async def until_consuming(self, seconds: float = 20.0) -> None:  # noqa: ASYNC910 - or gave up waiting
        """Wait until both arms consume again, or give up."""
        with trio.move_on_after(seconds):  # noqa: ASYNC912 - the sleep
            while True:
                look = self.subscription.snapshot()
                if look.main.consuming and look.parking.consuming:
                    break
                await trio.sleep(0.1)

    @asynccontextmanager
    async def operator(self) -> AsyncGenerator[Channel, None]:
        """Open a channel, with confirms, that an operator would use."""
        async with self.direct.connect(ConnectionOptions("chaos operator")) as connection:
            yield await connection.open_channel(confirms=True)
            await connection.aclose()


@asynccontextmanager
async def undone(
    undo: Callable[[], Awaitable[object]], bound_s: float = UNDO_S
) -> AsyncGenerator[None, None]:
    """Undo what was done after the block, however it ends, within ``bound_s``."""
    try:
        yield
    finally:
        with trio.move_on_after(bound_s, shield=True):
            await undo()
