"""A subscription that settles very many messages and watches its own size.

``python -m benchmarks.own.soak URL QUEUE MESSAGES`` ends once every message is acked or quarantined. Prints
one JSON object for each fiftieth of the messages: what is done, resident KiB, tasks, descriptors.
"""

from __future__ import annotations

import json
import os
import sys
import time
from functools import partial
from pathlib import Path

import trio

from benchmarks.own.loop import Down
from craig_mq.core.config import DlqRetryConfig, SubscriptionOptions
from craig_mq.core.dead_letter import DeadLetter
from craig_mq.core.disposition import Disposition, DlqError
from craig_mq.runtime.handle import DlqSubscription
from craig_mq.runtime.subscribe import subscribe_dlq
from craig_mq.transport.opening import open_broker

SAMPLES = 50
PARK_EVERY, QUARANTINE_EVERY = 40, 100
PREFETCH = 256
LOOK_S = 0.1


class Mix:
    """A handler that parks each fortieth message once, quarantines each hundredth, and acks the others."""

    def __init__(self) -> None:
        self._seen = 0

    async def __call__(self, dead_letter: DeadLetter) -> None:
        """Deal with one dead letter; what comes back from parking is acked."""
        if dead_letter.park_count:
            return
        self._seen += 1
        if self._seen % PARK_EVERY == 0:
            raise DlqError(Disposition.TRANSIENT_PARK, source=Down())
        if self._seen % QUARANTINE_EVERY == 1:
            raise DlqError(Disposition.PERMANENT, source=Down())


def sample(began: float, subscription: DlqSubscription) -> dict[str, float]:
    """What the process holds now, and what it has done."""
    done = subscription.statistics()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    usage = os.times()
    return {
        "settled": done.acked + done.quarantined,
        "parked": done.parked,
        "replayed": done.returned,
        "quarantined": done.quarantined,
        "sessions": done.sessions,
        "settlement_failures": done.settlement_failures,
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(usage.user + usage.system, 1),
        "resident_kib": resident // 1024,
        "tasks": trio.lowlevel.current_statistics().tasks_living,
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
    }


async def soak(url: str, queue: str, messages: int) -> None:
    """Settle ``messages`` messages."""
    began, step = time.monotonic(), max(1, messages // SAMPLES)
    config, options = DlqRetryConfig(parking_ttl=1), SubscriptionOptions(prefetch=PREFETCH, concurrency=64)
    start = partial(subscribe_dlq, queue=queue, handler=Mix(), config=config, options=options)
    async with open_broker(url) as broker, trio.open_nursery() as nursery:
        subscription = await nursery.start(partial(start, broker, binding_keys=("dlq.#",)))
        due = step
        while due <= messages:
            await trio.sleep(LOOK_S)
            now = sample(began, subscription)
            if now["settled"] >= due:
                print(json.dumps(now), flush=True)
                due = now["settled"] // step * step + step
        subscription.shutdown()
        await subscription.wait_closed()


if __name__ == "__main__":
    trio.run(soak, sys.argv[1], sys.argv[2], int(sys.argv[3]))
