"""A subscription that says when it settles: ``python -m benchmarks.own.follow URL QUEUE``.

Prints one line a message: the envelope id, the monotonic clock when its handler was done, and the
seconds since it was published, by the publisher's clock in its payload (``at``).
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial

import trio

from benchmarks.own.loop import DAY_S
from craig_mq.core.config import DlqRetryConfig
from craig_mq.core.dead_letter import DeadLetter
from craig_mq.runtime.subscribe import subscribe_dlq
from craig_mq.transport.opening import open_broker


async def tell(dead_letter: DeadLetter) -> None:
    """Succeed, and say so."""
    now = time.monotonic()
    at = json.loads(dead_letter.envelope.payload).get("at", now)
    print(dead_letter.envelope.id, now, now - at, flush=True)


async def follow(url: str, queue: str) -> None:
    """Consume until killed."""
    async with open_broker(url) as broker, trio.open_nursery() as nursery:
        start = partial(
            subscribe_dlq,
            broker,
            queue=queue,
            handler=tell,
            config=DlqRetryConfig(parking_ttl=DAY_S),
            binding_keys=("dlq.#",),
        )
        await nursery.start(start)
        print("ready", flush=True)


if __name__ == "__main__":
    trio.run(follow, sys.argv[1], sys.argv[2])
