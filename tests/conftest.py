"""Fixtures every room shares: a private RabbitMQ node per test session, a fresh vhost per test, a browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import settings

from craig_mq.testing.postgres import PostgresServer
from craig_mq.testing.rabbitmq import RabbitNode

# How long one example takes says something of the machine, and nothing of the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_addoption(parser):
    """`--update-screenshots` writes the committed screenshots anew; without it they must merely exist."""
    parser.addoption(
        "--update-screenshots", action="store_true", help="write the documentation's screenshots anew"
    )


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


@pytest.fixture(scope="session")
def axe_script() -> str:
    """The text of axe-core, from the pinned package that carries it."""
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium; CHROMIUM names another binary than Debian's."""
    from playwright.sync_api import sync_playwright

    binary = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    if not Path(binary).exists():
        pytest.fail(f"no Chromium at {binary}: install Debian's chromium or set CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=FLAGS)
        yield browser
        browser.close()
