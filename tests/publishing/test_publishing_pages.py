"""What the how-to pages show but cannot run offline: aio-pika beside us, and the topology file."""

from __future__ import annotations

import asyncio
import re
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from craig_mq import Acked, EventEnvelope, ReceivedEvent, open_broker, publish_event, subscribe
from craig_mq.cli.topology_file import load_topologies
from craig_mq.core.topology import BindingSpec, QueueSpec
from craig_mq.transport.broker import ConnectionOptions

PAGES = Path(__file__).resolve().parent.parent.parent / "docs" / "how-to"


def block(page: str, language: str) -> str:
    """Return the page's blocks of one language, joined."""
    text = (PAGES / page).read_text(encoding="utf-8")
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


def test_the_topology_file_of_the_page_is_valid(tmp_path: Path) -> None:
    """The file that the page shows is read, and names three queues."""
    path = tmp_path / "topology.toml"
    path.write_text(block("topology.md", "toml"), encoding="utf-8")
    assert [topology.queue_name for topology in load_topologies(path)] == ["orders", "mails", "security.dlq"]


@pytest.mark.broker
async def test_aio_pika_code_and_ours_share_a_broker(vhost_url: str) -> None:
    """The page's aio-pika code publishes what subscribe handles, and consumes what publish_event sends."""
    page: dict[str, Any] = {}
    exec(compile(block("mix_with_aio_pika.md", "py"), "mix_with_aio_pika.md", "exec"), page)
    received: list[EventEnvelope] = []

    async def handle(event: ReceivedEvent) -> None:
        received.append(event.envelope)

    def event() -> EventEnvelope:
        return EventEnvelope(
            str(uuid.uuid4()), "shop", "order.placed", "2026-11-30T10:00:00Z", b'{"n": 1.50}'
        )

    theirs, ours = event(), event()
    async with open_broker(vhost_url) as broker, trio.open_nursery() as nursery:
        orders = await nursery.start(
            partial(subscribe, broker, queue="orders", binding_keys=["order.#"], handler=handle)
        )
        await trio.to_thread.run_sync(lambda: asyncio.run(page["publish"](vhost_url, theirs)))
        with trio.fail_after(10):
            while not received:
                await trio.sleep(0.01)
        orders.shutdown()
        async with broker.connect(ConnectionOptions("test")) as connection:
            channel = await connection.open_channel()
            await channel.declare_queue(QueueSpec("legacy", arguments={"x-queue-type": "classic"}))
            await channel.bind_queue(BindingSpec("craig.events", "legacy", "order.#"))
        assert await publish_event(broker, ours) == Acked()
    taken = await trio.to_thread.run_sync(lambda: asyncio.run(page["consume_one"](vhost_url, "legacy")))
    assert (received, taken) == ([theirs], ours)
