"""The brokers that the conformance suite runs over.

A transport joins by adding one entry to ``TRANSPORTS``: its param id, its marks, and an async context
manager factory that yields a ``Broker`` on a vhost whose queues may be declared freely.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from craig_mq.transport.broker import Broker
from craig_mq.transport.memory import MemoryBroker
from craig_mq.transport.native import NativeBroker
from craig_mq.transport.opening import open_broker

BrokerFactory = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[Broker]]


@asynccontextmanager
async def memory_broker(request: pytest.FixtureRequest) -> AsyncIterator[Broker]:
    """An embedded broker."""
    yield MemoryBroker()


@asynccontextmanager
async def native_broker(request: pytest.FixtureRequest) -> AsyncIterator[Broker]:
    """The native transport on a fresh vhost of the session's node."""
    yield NativeBroker(request.getfixturevalue("vhost_url"))


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

_params = [pytest.param(factory, id=name, marks=marks) for name, (factory, marks) in TRANSPORTS.items()]
_numbers = itertools.count(1)


@pytest.fixture(params=_params)
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[Broker]:
    """The transport under test."""
    factory: BrokerFactory = request.param
    async with factory(request) as opened:
        yield opened


@pytest.fixture
def fresh_name() -> Callable[[str], str]:
    """Names that no other test uses, so that one node can serve the whole suite."""
    return lambda stem: f"{stem}.{uuid.uuid4().hex[:12]}.{next(_numbers)}"
