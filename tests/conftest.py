"""Fixtures every room shares: a private RabbitMQ node per test session, a fresh vhost per test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from craig_mq.testing.postgres import PostgresServer
from craig_mq.testing.rabbitmq import RabbitNode


@pytest.fixture(scope="session")
def rabbit() -> Iterator[RabbitNode]:
    """One running node for the whole session; a test that kills it starts it again itself."""
    with RabbitNode() as node:
        yield node


@pytest.fixture
def vhost_url(rabbit: RabbitNode) -> Iterator[str]:
    """The AMQP URL of a vhost of the test's own, deleted afterwards."""
    if not rabbit.running:
        rabbit.start()
    vhost = rabbit.add_vhost()
    yield rabbit.vhost_url(vhost)
    if not rabbit.running:
        rabbit.start()
    rabbit.delete_vhost(vhost)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for the session; a test that stops it starts it again itself."""
    with PostgresServer({"max_connections": "60"}) as server:
        yield server


@pytest.fixture
def database_url(postgres: PostgresServer) -> str:
    """The URL of an empty PostgreSQL database of the test's own."""
    if not postgres.running:
        postgres.start()
    return postgres.url(database=postgres.add_database())
