"""One subscription doing one workload with full semantics, measured like the peers' bare loops.

``python -m benchmarks.own.loop URL QUEUE COUNT PREFETCH TRANSPORT WORKLOAD`` prints one JSON object. The
clock runs from the first delivery handed to the handler to the last written settlement: a peer's, too,
begins once it is connected and everything is declared.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import trio

from benchmarks.peers.stopwatch import Stopwatch
from craig_mq.audit import open_store, record
from craig_mq.core.config import DlqRetryConfig, SubscriptionOptions
from craig_mq.core.dead_letter import DeadLetter
from craig_mq.core.disposition import Disposition, DlqError
from craig_mq.runtime.handle import DlqSubscription
from craig_mq.runtime.statistics import DlqStatistics
from craig_mq.runtime.subscribe import subscribe_dlq
from craig_mq.transport.opening import open_broker

POLL_S, SELDOM_S = 0.005, 0.5
DAY_S = 86_400
Handler = Callable[[DeadLetter], Awaitable[None]]


@dataclass(frozen=True)
class Job:
    """One run, from the command line."""

    url: str
    queue: str
    count: int
    prefetch: int
    transport: str
    workload: str


class Down(Exception):
    """What the failing workloads' handlers raise."""


async def succeed(_dead_letter: DeadLetter) -> None:
    """Settle: nothing to do but to ack."""


def failing(disposition: Disposition) -> Handler:
    """A handler that fails every message with ``disposition``."""

    async def handler(_dead_letter: DeadLetter) -> None:
        raise DlqError(disposition, source=Down())

    return handler


async def handler_for(workload: str, stack: AsyncExitStack) -> Handler:
    """The handler of a workload; ``audit`` writes to a fresh SQLite ledger with every guarantee on."""
    match workload:
        case "park":
            return failing(Disposition.TRANSIENT_PARK)
        case "quarantine":
            return failing(Disposition.PERMANENT)
        case "audit":
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="craig-mq-bench-"))
            store = await stack.enter_async_context(open_store(f"sqlite:///{Path(folder) / 'audit.db'}"))
            return record(store)
        case _:
            return succeed


def holding(released: trio.Event) -> Handler:
    """A handler that keeps what it is given until ``released``."""

    async def handler(_dead_letter: DeadLetter) -> None:
        await released.wait()

    return handler


def finished(workload: str, seen: DlqStatistics) -> int:
    """How many messages the workload has brought to its end; raises where a settlement failed.

    A settlement with an unknown outcome is in none of the counts, so waiting for them might never end.
    """
    if seen.settlement_failures:
        raise RuntimeError("a settlement failed: the machine is too busy to measure on")
    match workload:
        case "park":
            return seen.parked
        case "quarantine":
            return seen.quarantined
        case "replay":
            return seen.returned
        case _:
            return seen.acked


def timed_from_first(handler: Handler, watch: Stopwatch) -> Handler:
    """The same handler; its first call restarts the clock."""
    called = False

    async def call(dead_letter: DeadLetter) -> None:
        nonlocal called
        if not called:
            called = True
            watch.restart()
        await handler(dead_letter)

    return call


async def wait_finished(count: int, done: Callable[[], int]) -> None:
    """Return soon after ``done()`` has come to ``count``.

    Looks at half the time that seems left, so that a slow run is not measured looking at itself.
    """
    began = trio.current_time()
    while (so_far := done()) < count:
        left_s = (count - so_far) * (trio.current_time() - began) / so_far if so_far else POLL_S
        await trio.sleep(min(max(left_s / 2, POLL_S), SELDOM_S))


async def wait_handled_again(workload: str, count: int, subscription: DlqSubscription) -> None:
    """Return once everything that replaying returned was handled and acked, so that no queue holds it."""
    if workload == "replay":
        await wait_finished(count, lambda: subscription.statistics().acked)


async def measure(job: Job) -> None:
    """Run the subscription until every message is done and settled, then print the measurement."""
    # Parked messages wait a day, so that replaying does not run beside parking; for the replay
    # workload they were parked long ago and are all overdue.
    config = DlqRetryConfig(parking_ttl=1 if job.workload == "replay" else DAY_S)
    options = SubscriptionOptions(prefetch=job.prefetch, concurrency=job.prefetch)
    async with AsyncExitStack() as stack:
        handler = await handler_for(job.workload, stack)
        replayed = trio.Event()
        if job.workload == "replay":
            # What is returned waits in the queue meanwhile, as what a peer's loop publishes does.
            handler = holding(replayed)
        broker = await stack.enter_async_context(open_broker(job.url, transport=job.transport))
        nursery = await stack.enter_async_context(trio.open_nursery())
        watch = Stopwatch()
        subscription = await nursery.start(
            partial(
                subscribe_dlq,
                broker,
                queue=job.queue,
                handler=timed_from_first(handler, watch),
                config=config,
                options=options,
                binding_keys=("dlq.#",),
            )
        )
        await wait_finished(job.count, lambda: finished(job.workload, subscription.statistics()))
        watch.report()
        replayed.set()
        await wait_handled_again(job.workload, job.count, subscription)
        subscription.shutdown()
        await subscription.wait_closed()


if __name__ == "__main__":
    url, queue, count, prefetch, transport, workload = sys.argv[1:7]
    trio.run(measure, Job(url, queue, int(count), int(prefetch), transport, workload))
