"""The settlement core alone, on the embedded broker: no socket, no frame, one process.

``python -m benchmarks.own.core WORKLOAD COUNT BODY_BYTES SUBSCRIPTIONS PREFETCH [ALLOCATIONS]`` prints JSON
objects; ``ALLOCATIONS`` is the library that counts them (``benchmarks.own.allocations``). The workloads
``bare_settle`` and ``bare_park`` move messages with the embedded broker's own calls and nothing else: what
they cost is the broker's share of the others.
"""

from __future__ import annotations

import json
import sys
from contextlib import AsyncExitStack
from functools import partial

import trio

from benchmarks.filling import envelope
from benchmarks.own.allocations import Counter, counter
from benchmarks.own.loop import DAY_S, finished, handler_for, timed_from_first, wait_finished
from benchmarks.peers.stopwatch import Stopwatch
from craig_mq.core.config import DlqRetryConfig, SubscriptionOptions
from craig_mq.core.delivery import PERSISTENT, Properties, Publication
from craig_mq.core.outcome import ACKED
from craig_mq.runtime.subscribe import subscribe_dlq
from craig_mq.testing import seed
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.memory import MemoryBroker

OVERDUE_S = 1.1
PROPERTIES = Properties(content_type="application/json", delivery_mode=PERSISTENT)


def filled(queues: list[str], count: int, body_bytes: int) -> MemoryBroker:
    """An embedded broker with ``count`` messages spread over ``queues``."""
    broker = MemoryBroker()
    for queue in queues:
        bodies = [envelope(body_bytes) for _ in range(count // len(queues))]
        seed(broker, queue, *bodies, routing_key=f"dlq.{queue}", properties=PROPERTIES)
    return broker


async def settle_all(
    workload: str, broker: MemoryBroker, queues: list[str], prefetch: int, counted: Counter | None
) -> None:
    """Run one subscription a queue until all messages are done; for ``replay``, park them all first."""
    if workload == "replay":
        await _until_done("park", broker, queues, prefetch, Stopwatch())
        await trio.sleep(OVERDUE_S)
    watch, before = Stopwatch(), 0 if counted is None else counted()
    await _until_done(workload, broker, queues, prefetch, watch)
    watch.report()
    if counted is not None:
        print(json.dumps({"allocations": counted() - before}))


async def _until_done(
    workload: str, broker: MemoryBroker, queues: list[str], prefetch: int, watch: Stopwatch
) -> None:
    queue_names = [f"{queue}.parking" if workload == "replay" else queue for queue in queues]
    count = sum(broker.queue(name).ready for name in queue_names)
    options = SubscriptionOptions(prefetch=prefetch, concurrency=max(1, prefetch // len(queues)))
    config = DlqRetryConfig(parking_ttl=1 if workload == "replay" else DAY_S)
    async with AsyncExitStack() as stack:
        handler = await handler_for(workload, stack)
        if len(queues) == 1:  # Of many the start counts, and a run without messages tells how much.
            handler = timed_from_first(handler, watch)
        start = partial(
            subscribe_dlq,
            broker,
            handler=handler,
            config=config,
            options=options,
        )
        nursery = await stack.enter_async_context(trio.open_nursery())
        subscriptions = [
            await nursery.start(partial(start, queue=queue, binding_keys=(f"dlq.{queue}",)))
            for queue in queues
        ]
        await wait_finished(count, lambda: sum(finished(workload, one.statistics()) for one in subscriptions))
        for subscription in subscriptions:
            subscription.shutdown()


async def move_bare(broker: MemoryBroker, queue: str, count: int, prefetch: int, *, publish: bool) -> None:
    """Consume, publish if asked, ack; ``prefetch`` tasks, no semantics."""
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
        consumer = await channel.consume(queue, prefetch=prefetch)
        async with trio.open_nursery() as nursery:
            for _ in range(prefetch):
                nursery.start_soon(work, consumer, channel, outward)
        await channel.flush()
        watch.report()
        await connection.aclose()


def main() -> None:
    workload, *numbers = sys.argv[1:6]
    count, body_bytes, subscriptions, prefetch = map(int, numbers)
    counted = counter(sys.argv[6]) if len(sys.argv) > 6 else None
    queues = [f"bench{number}.dlq" for number in range(subscriptions)]
    count -= count % subscriptions
    broker = filled(queues, count, body_bytes)
    if workload.startswith("bare_"):
        publish = workload == "bare_park"
        trio.run(partial(move_bare, broker, queues[0], count, prefetch, publish=publish))
    else:
        trio.run(settle_all, workload, broker, queues, prefetch, counted)
    print(json.dumps({"messages": count}), flush=True)


if __name__ == "__main__":
    main()
