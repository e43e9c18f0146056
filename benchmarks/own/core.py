"""The settlement core alone, on the embedded broker: no socket, no frame, one process.

``python -m benchmarks.own.core WORKLOAD COUNT BODY_BYTES [SUBSCRIPTIONS]`` prints one JSON object. The
workloads ``bare_settle`` and ``bare_park`` move messages with the embedded broker's own calls and
nothing else: what they cost is the broker's share of the others.
"""

from __future__ import annotations

import json
import sys
from functools import partial

import trio

from benchmarks.filling import envelope
from benchmarks.own.loop import DAY_S, failing, finished, succeed, wait_finished
from benchmarks.peers.stopwatch import Stopwatch
from craig_mq.core.config import DlqRetryConfig, SubscriptionOptions
from craig_mq.core.delivery import PERSISTENT, Properties, Publication
from craig_mq.core.disposition import Disposition
from craig_mq.core.outcome import ACKED
from craig_mq.runtime.subscribe import subscribe_dlq
from craig_mq.testing import seed
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.memory import MemoryBroker

PREFETCH = 256
HANDLERS = {
    "settle": succeed,
    "park": failing(Disposition.TRANSIENT_PARK),
    "quarantine": failing(Disposition.PERMANENT),
}
PROPERTIES = Properties(content_type="application/json", delivery_mode=PERSISTENT)


def filled(queues: list[str], count: int, body_bytes: int) -> MemoryBroker:
    """An embedded broker with ``count`` messages spread over ``queues``."""
    broker = MemoryBroker()
    for queue in queues:
        bodies = [envelope(body_bytes) for _ in range(count // len(queues))]
        seed(broker, queue, *bodies, routing_key=f"dlq.{queue}", properties=PROPERTIES)
    return broker


async def settle_all(workload: str, broker: MemoryBroker, queues: list[str], count: int) -> None:
    """Run one subscription a queue until all messages are done."""
    options = SubscriptionOptions(prefetch=PREFETCH, concurrency=max(1, PREFETCH // len(queues)))
    config = DlqRetryConfig(parking_ttl=DAY_S)
    async with trio.open_nursery() as nursery:
        watch = Stopwatch()
        subscriptions = [
            await nursery.start(
                partial(
                    subscribe_dlq,
                    broker,
                    queue=queue,
                    handler=HANDLERS[workload],
                    config=config,
                    options=options,
                    binding_keys=(f"dlq.{queue}",),
                )
            )
            for queue in queues
        ]
        await wait_finished(count, lambda: sum(finished(workload, one.statistics()) for one in subscriptions))
        watch.report()
        for subscription in subscriptions:
            subscription.shutdown()


async def move_bare(broker: MemoryBroker, queue: str, count: int, *, publish: bool) -> None:
    """Consume, publish if asked, ack; PREFETCH tasks, no semantics."""
    broker.declare_queue("bench.target")
    left = count
    watch = Stopwatch()

    async def work(consumer, channel, outward) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            delivery = consumer.receive_nowait() or await consumer.receive()
            if publish:
                copy = Publication("", "bench.target", delivery.body, PROPERTIES)
                if await outward.publish(copy) != ACKED:
                    raise RuntimeError("not confirmed")
            channel.ack_nowait(delivery.delivery_tag)

    async with broker.connect(ConnectionOptions("bare")) as connection:
        channel = await connection.open_channel()
        outward = await connection.open_channel(confirms=True)
        consumer = await channel.consume(queue, prefetch=PREFETCH)
        async with trio.open_nursery() as nursery:
            for _ in range(PREFETCH):
                nursery.start_soon(work, consumer, channel, outward)
        await channel.flush()
        watch.report()
        await connection.aclose()


def main() -> None:
    workload, count, body_bytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    subscriptions = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    queues = [f"bench{number}.dlq" for number in range(subscriptions)]
    count -= count % subscriptions
    broker = filled(queues, count, body_bytes)
    if workload.startswith("bare_"):
        trio.run(partial(move_bare, broker, queues[0], count, publish=workload == "bare_park"))
    else:
        trio.run(settle_all, workload, broker, queues, count)
    print(json.dumps({"messages": count}), flush=True)


if __name__ == "__main__":
    main()
