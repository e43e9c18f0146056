"""A program in a publish loop, run as a subprocess to be signalled: URL, transport, what else happens."""

from __future__ import annotations

import sys
import uuid
from typing import Any

import trio

from craig_mq import EventEnvelope, Publisher, open_broker
from craig_mq.service.signals import drain_then_leave


def exit_in_a_callback() -> None:
    """Raise SystemExit(3) inside the bridge's asyncio loop, as a library's callback might."""
    import trio_asyncio

    trio_asyncio.current_loop.get().call_soon(sys.exit, 3)


async def main(url: str, transport: Any, what: str) -> None:
    async with open_broker(url, transport=transport) as broker, trio.open_nursery() as nursery:
        await nursery.start(drain_then_leave, lambda name: nursery.cancel_scope.cancel(reason=name))
        async with Publisher(broker) as publisher:
            published = 0
            while True:
                envelope = EventEnvelope(
                    str(uuid.uuid4()), "shop", "order.placed", "2026-11-30T10:00:00Z", b"{}"
                )
                await publisher.publish(envelope)
                published += 1
                if published == 20:
                    print("publishing", flush=True)  # noqa: T201 - the test waits for it
                    if what == "exit":
                        exit_in_a_callback()


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:4])
