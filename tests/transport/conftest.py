"""The brokers that the conformance suite runs over, and what its tests share.

A transport joins by adding one entry to ``TRANSPORTS``: its param id, its marks, and a factory for an
async context manager that yields a ``Broker`` on a vhost whose queues may be declared freely. The
factory gets the pytest request, to ask for a session's node with ``request.getfixturevalue``.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
import trio

from craig_mq.core.delivery import Delivery, Properties, Publication
from craig_mq.core.topology import QueueSpec
from craig_mq.transport.broker import Broker, Channel, Connection, ConnectionOptions, Consumer
from craig_mq.transport.memory import MemoryBroker
from craig_mq.transport.native import NativeBroker
from craig_mq.transport.opening import open_broker
from craig_mq.transport.url import parse_amqp_url

BrokerFactory = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[Broker]]

_numbers = itertools.count(1)


@asynccontextmanager
async def memory_broker(request: pytest.FixtureRequest) -> AsyncIterator[Broker]:
    """An embedded broker."""
    yield MemoryBroker()


@asynccontextmanager
async def native_broker(request: pytest.FixtureRequest) -> AsyncIterator[Broker]:
    """The native transport on a fresh vhost of the session's node."""
    yield NativeBroker(parse_amqp_url(request.getfixturevalue("vhost_url")))


@asynccontextmanager
async def aio_pika_broker(request: pytest.FixtureRequest) -> AsyncIterator[Broker]:
    """The session's RabbitMQ node, through aio-pika, in a vhost of the test's own."""
    async with open_broker(request.getfixturevalue("vhost_url"), transport="aio-pika") as opened:
        yield opened


TRANSPORTS: dict[str, tuple[BrokerFactory, tuple[pytest.MarkDecorator, ...]]] = {
    "memory": (memory_broker, ()),
    "native": (native_broker, (pytest.mark.broker,)),
    "aio-pika": (aio_pika_broker, (pytest.mark.broker,)),
}


@pytest.fixture(
    params=[pytest.param(factory, id=name, marks=marks) for name, (factory, marks) in TRANSPORTS.items()]
)
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[Broker]:
    """The transport under test."""
    async with request.param(request) as opened:
        yield opened


@pytest.fixture
def options() -> ConnectionOptions:
    """How the suite connects."""
    return ConnectionOptions(name="conformance")


@pytest.fixture
async def connection(broker: Broker, options: ConnectionOptions) -> AsyncIterator[Connection]:
    """A connection of the transport under test."""
    async with broker.connect(options) as opened:
        yield opened


@pytest.fixture
async def channel(connection: Connection) -> Channel:
    """A channel in confirm mode on ``connection``."""
    return await connection.open_channel(confirms=True)


@pytest.fixture
def fresh_name() -> Callable[[str], str]:
    """Names that no other test uses, so that one node can serve the whole suite."""
    return lambda stem: f"{stem}.{uuid.uuid4().hex[:12]}.{next(_numbers)}"


@pytest.fixture
async def new_queue(
    broker: Broker, options: ConnectionOptions, fresh_name: Callable[[str], str]
) -> AsyncIterator[Callable[..., Awaitable[str]]]:
    """Declare a fresh classic queue with these arguments, through a connection of its own."""
    names: list[str] = []
    async with broker.connect(options) as own:
        admin = await own.open_channel()

        async def declare(**arguments: object) -> str:
            names.append(fresh_name("q"))
            wired = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
            await admin.declare_queue(QueueSpec(names[-1], arguments={"x-queue-type": "classic", **wired}))
            return names[-1]

        yield declare
        for name in names:
            await admin.delete_queue(name)
        await own.aclose()


@pytest.fixture
def to_queue() -> Callable[..., Publication]:
    """Build a persistent publication to a queue, with a message_id of its own."""

    def build(queue: str, body: bytes = b"body", **properties: object) -> Publication:
        own = Properties(message_id=uuid.uuid4().hex, delivery_mode=2, **properties)
        return Publication("", queue, body, own)

    return build


@pytest.fixture
def take() -> Callable[[Consumer, int], Awaitable[list[Delivery]]]:
    """Receive exactly so many deliveries; fail if they do not come."""

    async def receive(consumer: Consumer, count: int) -> list[Delivery]:
        with trio.fail_after(10):
            return [await consumer.receive() for _ in range(count)]

    return receive


@pytest.fixture
def ready_count(broker: Broker, options: ConnectionOptions) -> Callable[[str], Awaitable[int]]:
    """Count the ready messages of a queue, through a connection of its own."""

    async def look(queue: str) -> int:
        async with broker.connect(options) as own:
            state = await (await own.open_channel()).declare_queue(QueueSpec(queue), passive=True)
            await own.aclose()
            return state.ready

    return look


@pytest.fixture
def eventually() -> Callable[[Callable[[], Awaitable[object]], object], Awaitable[object]]:
    """Ask for 10 s at most until the answer is the expected one: work after a close has no reply."""

    async def ask(question: Callable[[], Awaitable[object]], expected: object) -> object:
        answer: object = None
        with trio.move_on_after(10):
            while (answer := await question()) != expected:
                await trio.sleep(0.05)
        return answer

    return ask
