"""kill -9 of the relay at every step, on a real RabbitMQ."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import uuid
from contextlib import closing
from pathlib import Path

import pytest
import trio

from craig_mq import EventEnvelope, open_broker
from craig_mq.core.topology import BindingSpec, ExchangeSpec, QueueSpec
from craig_mq.outbox import create_outbox, enqueue, run_relay
from craig_mq.transport.broker import ConnectionOptions

pytestmark = pytest.mark.broker

STEPS = ("after read", "before publish", "before confirm", "after confirm", "before mark", "after mark")


def waiting(path: Path) -> set[int]:
    """The numbers of the rows that are not marked."""
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute("SELECT body FROM craig_outbox WHERE published_at IS NULL").fetchall()
    return {json.loads(body)["payload"] for (body,) in rows}


@pytest.mark.parametrize("step", STEPS)
async def test_a_killed_relay_loses_nothing(vhost_url, tmp_path, step: str):
    """A relay killed at this step loses no row; only rows it had not marked come twice."""
    path = tmp_path / "service.db"
    url = f"sqlite:///{path}"
    await create_outbox(url)
    with closing(sqlite3.connect(path)) as connection, connection:
        for n in range(4):
            envelope = EventEnvelope(
                str(uuid.uuid4()), "shop", "order.placed", "2026-11-30T10:00:00Z", json.dumps(n).encode()
            )
            enqueue(connection, envelope, ordering_key="one")
    async with open_broker(vhost_url) as broker, broker.connect(ConnectionOptions("test")) as connection:
        channel = await connection.open_channel()
        await channel.declare_exchange(ExchangeSpec("craig.events"))
        await channel.declare_queue(QueueSpec("orders", arguments={"x-queue-type": "classic"}))
        await channel.bind_queue(BindingSpec("craig.events", "orders", "#"))
        script = Path(__file__).with_name("relay_to_kill.py")
        killed = await trio.run_process(
            [sys.executable, str(script), vhost_url, url, step], check=False, stderr=subprocess.DEVNULL
        )
        assert killed.returncode == -signal.SIGKILL
        left = waiting(path)
        async with trio.open_nursery() as nursery:
            relay = await nursery.start(run_relay, broker, url)
            with trio.fail_after(20):
                while waiting(path):
                    await trio.sleep(0.02)
            relay.shutdown()
        seen: list[int] = []
        while (delivery := await channel.get("orders")) is not None:
            seen.append(json.loads(delivery.body)["payload"])
    assert set(seen) == {0, 1, 2, 3}
    assert {n for n in seen if seen.count(n) > 1} <= left
    assert max(seen.count(n) for n in seen) <= 2
    assert list(dict.fromkeys(seen)) == [0, 1, 2, 3]
