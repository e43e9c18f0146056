"""Rows that somebody else's SQL has left in the outbox, and callers that fail when told of them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import trio

from craig_mq.outbox import RelayOptions, RowSetAside, create_outbox, run_relay
from craig_mq.service_database import connector
from craig_mq.testing import MemoryBroker

NOT_UTF8 = "CAST(x'ff61' AS TEXT)"


@pytest.fixture
async def url(tmp_path: Path) -> str:
    """An outbox of SQLite's."""
    url = f"sqlite:///{tmp_path}/service.db"
    await create_outbox(url)
    return url


def insert(url: str, *rows: tuple[str, str]) -> None:
    """Write rows of an ordering key and a routing key, both as SQL."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    for key, route in rows:
        connection.execute(
            f"INSERT INTO craig_outbox (ordering_key, routing_key, body) VALUES ({key}, {route}, x'7b7d')"
        )
    connection.commit()
    connection.close()


def relayed_to() -> MemoryBroker:
    broker = MemoryBroker()
    broker.declare_exchange("craig.events", "topic")
    broker.declare_queue("orders")
    broker.bind("craig.events", "orders", "#")
    return broker


async def test_text_that_is_not_utf8_sets_its_row_aside(url):
    """A key or routing key of SQLite's that is not UTF-8 sets its row aside, and others go out."""
    insert(url, (NOT_UTF8, "'order.placed'"), ("'a'", NOT_UTF8), ("'a'", "'late'"), ("'b'", "'order.placed'"))
    told: list[RowSetAside] = []
    async with trio.open_nursery() as nursery:
        options = RelayOptions(poll_interval=0.02, backoff_cap=0.05)
        relay = await nursery.start(
            lambda task_status: run_relay(
                relayed_to(), url, options=options, on_set_aside=told.append, task_status=task_status
            )
        )
        with trio.fail_after(20):
            while relay.statistics().published < 1:
                await trio.sleep(0.01)
        relay.shutdown()
    assert told == [
        RowSetAside(1, None, "its ordering_key is no UTF-8 text"),
        RowSetAside(2, "a", "its routing_key is no UTF-8 text"),
    ]
    assert relay.statistics().published == 1


async def test_every_row_set_aside_is_told_whatever_the_callback_raises(url, caplog):
    """A callback that raises is logged, and hears of every row; the relay goes on without a new start."""
    insert(url, ("NULL", "x'00'"), ("NULL", "x'00'"), ("NULL", "'order.placed'"))
    told: list[int] = []

    def fail(row: RowSetAside) -> None:
        told.append(row.seq)
        raise OSError("no line to the pager")

    async with trio.open_nursery() as nursery:
        relay = await nursery.start(
            lambda task_status: run_relay(relayed_to(), url, on_set_aside=fail, task_status=task_status)
        )
        with trio.fail_after(20):
            while relay.statistics().published < 1:
                await trio.sleep(0.01)
        relay.shutdown()
    assert told == [1, 2]
    assert relay.statistics().set_aside == 2
    assert [record.message.split(";")[0] for record in caplog.records if record.exc_info] == [
        "on_set_aside failed for outbox row 1",
        "on_set_aside failed for outbox row 2",
    ]
    assert "starts anew" not in caplog.text


@pytest.mark.postgres
def test_postgres_text_is_utf8_whatever_the_environment_says(database_url, monkeypatch):
    """A service whose environment asks for LATIN1 reads and writes every character all the same."""
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    database = connector(database_url)()
    try:
        assert database.fetch("SELECT ?::text", ("zażółć",)) == [("zażółć",)]
    finally:
        database.close()
