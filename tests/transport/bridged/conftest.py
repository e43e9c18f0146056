"""What the tests of the bridged transport share: the broker, directly and through a proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import uuid4

import attrs
import pytest

from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import Acked
from craig_mq.core.topology import QueueSpec
from craig_mq.testing.proxy import TcpProxy, open_tcp_proxy
from craig_mq.testing.rabbitmq import RabbitNode
from craig_mq.transport.broker import Broker, ConnectionOptions
from craig_mq.transport.opening import open_broker


@attrs.define(frozen=True)
class Proxied:
    """A broker reached through a proxy, and the same vhost reached directly."""

    broker: Broker
    proxy: TcpProxy
    direct: Broker


@pytest.fixture
async def aio_proxied(rabbit: RabbitNode, vhost_url: str) -> AsyncIterator[Proxied]:
    """The aio-pika transport behind a proxy of the test's own."""
    async with (
        open_tcp_proxy("127.0.0.1", rabbit.port) as proxy,
        open_broker(proxy.url(vhost_url), transport="aio-pika") as broker,
        open_broker(vhost_url, transport="aio-pika") as direct,
    ):
        yield Proxied(broker, proxy, direct)


@pytest.fixture
async def aio_broker(vhost_url: str) -> AsyncIterator[Broker]:
    """The aio-pika transport, directly."""
    async with open_broker(vhost_url, transport="aio-pika") as broker:
        yield broker


@pytest.fixture
def fill() -> Callable[[Broker, str, int], Awaitable[None]]:
    """Declare a classic queue and publish bodies m0, m1, … to it."""

    async def publish(broker: Broker, queue: str, count: int) -> None:
        async with broker.connect(ConnectionOptions(name="fill")) as connection:
            channel = await connection.open_channel(confirms=True)
            await channel.declare_queue(QueueSpec(queue, arguments={"x-queue-type": "classic"}))
            for number in range(count):
                own = Properties(message_id=uuid4().hex, delivery_mode=2)
                assert await channel.publish(Publication("", queue, b"m%d" % number, own)) == Acked()
            await connection.aclose()

    return publish


@pytest.fixture
def ready() -> Callable[[Broker, str], Awaitable[int]]:
    """Count the ready messages of a queue, through a connection of its own."""

    async def look(broker: Broker, queue: str) -> int:
        async with broker.connect(ConnectionOptions(name="ready")) as connection:
            channel = await connection.open_channel()
            return (await channel.declare_queue(QueueSpec(queue), passive=True)).ready

    return look
