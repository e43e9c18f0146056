"""Resident memory of idle subscriptions: ``python -m benchmarks.own.idle URL MANY TRANSPORT``.

Prints one JSON object: KiB with MANY subscriptions, per additional one with everything behind it, what
three idle connections with a channel each cost by themselves (so many has an idle subscription), and the
rest.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from functools import partial
from pathlib import Path

import trio

from benchmarks.own.loop import succeed
from craig_mq.runtime.subscribe import subscribe_dlq
from craig_mq.transport.broker import Broker, ConnectionOptions
from craig_mq.transport.opening import open_broker


def resident_kib() -> float:
    """What the process holds now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


CONNECTIONS_EACH = 3


async def hold(broker: Broker, *, task_status: trio.TaskStatus[None]) -> None:
    """One connection and one channel, until cancelled."""
    async with broker.connect(ConnectionOptions("idle")) as connection:
        await connection.open_channel()
        task_status.started()
        await trio.sleep_forever()


async def bare_kib(broker: Broker, nursery: trio.Nursery, many: int) -> float:
    """What one more idle connection costs."""
    for _ in range(5):
        await nursery.start(hold, broker)
    few = resident_kib()
    for _ in range(many):
        await nursery.start(hold, broker)
    return (resident_kib() - few) / many


async def idle(url: str, many: int, transport: str) -> None:
    """Start subscriptions on queues of their own and weigh them."""

    async def one_more(broker: Broker, nursery: trio.Nursery, number: int) -> None:
        queue, key = f"idle{number}.dlq", f"dlq.idle{number}"
        await nursery.start(partial(subscribe_dlq, broker, queue=queue, handler=succeed, binding_keys=(key,)))

    async with open_broker(url, transport=transport) as broker, trio.open_nursery() as nursery:
        for number in range(5):
            await one_more(broker, nursery, number)
        few, few_tasks = resident_kib(), trio.lowlevel.current_statistics().tasks_living
        for number in range(5, many):
            await one_more(broker, nursery, number)
        everything, tasks = resident_kib(), trio.lowlevel.current_statistics().tasks_living
        each = (everything - few) / (many - 5)
        sockets = CONNECTIONS_EACH * await bare_kib(broker, nursery, many)
        found = {
            "subscriptions": many,
            "tasks_each": round((tasks - few_tasks) / (many - 5), 1),
            "total_kib": everything,
            "kib_each": round(each, 1),
            "its_connections_alone_kib": round(sockets, 1),
            "kib_each_beyond_its_connections": round(each - sockets, 1),
        }
        print(json.dumps(found))
        nursery.cancel_scope.cancel(reason="weighed")


if __name__ == "__main__":
    trio.run(idle, sys.argv[1], int(sys.argv[2]), sys.argv[3])
