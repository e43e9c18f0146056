"""The process that is killed: a subscription with an SQLite ledger on a real broker, and one letter.

It ends by itself, gracefully, once the letter has met its fate; or at one step of one of its tasks, by
``os._exit``: no ``finally``, no flush, no close, as a kill -9 would have it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Final

import attrs
import trio

from craig_mq.audit import open_store, record
from craig_mq.audit.store import AuditStore
from craig_mq.core.config import DlqRetryConfig, SubscriptionOptions
from craig_mq.core.dead_letter import DeadLetter
from craig_mq.core.disposition import Disposition, DlqError
from craig_mq.observe.events import DeliveryFinished, Event
from craig_mq.runtime.handle import DlqSubscription
from craig_mq.runtime.subscribe import subscribe_dlq
from craig_mq.transport.opening import open_broker

KILLED: Final = 137
QUEUE: Final = "killed.dlq"
PATIENCE_S: Final = 60.0
_FAILS: Final = {
    "retry": Disposition.TRANSIENT_RETRY,
    "park": Disposition.TRANSIENT_PARK,
    "quarantine": Disposition.PERMANENT,
}


@attrs.define(frozen=True, slots=True)
class Errand:
    """What one process is to do: take the letter down ``path``, until one delivery ends as ``until``.

    ``kill_at`` is the step, counted over all tasks, at which it dies; None for a process that lives.
    """

    url: str
    ledger: str
    path: str
    until: str
    kill_at: int | None = None


class Steps(trio.abc.Instrument):
    """Counts the steps of all tasks and leaves the process at one of them."""

    def __init__(self, kill_at: int | None) -> None:
        """Start with none."""
        self.count = 0
        self._kill_at = kill_at

    def before_task_step(self, task: trio.lowlevel.Task) -> None:  # noqa: ARG002 - Trio's own signature
        """Count one step, or die."""
        if self.count == self._kill_at:
            os._exit(KILLED)
        self.count += 1


def live(errand: Errand, report: Connection) -> None:
    """Be the process: report the number of steps taken, if it comes to that."""
    steps = Steps(errand.kill_at)
    trio.run(_subscribe, errand, instruments=[steps])
    report.send(steps.count)


async def _subscribe(errand: Errand) -> None:
    met = trio.Event()

    def observe(event: Event) -> None:
        if isinstance(event, DeliveryFinished) and event.outcome == errand.until:
            met.set()

    async with open_store(f"sqlite:///{errand.ledger}") as store, open_broker(errand.url) as broker:
        subscribe = partial(
            subscribe_dlq,
            broker,
            queue=QUEUE,
            handler=_handler(store, errand.path),
            config=DlqRetryConfig(parking_ttl=1, depth_sample_interval=3600),
            options=SubscriptionOptions(prefetch=1, concurrency=1, start_timeout=None),
            observer=observe,
        )
        async with trio.open_nursery() as nursery:
            subscription: DlqSubscription = await nursery.start(subscribe)
            with trio.fail_after(PATIENCE_S):
                await met.wait()
            subscription.shutdown("the letter has met its fate")


def _handler(store: AuditStore, path: str) -> Callable[[DeadLetter], Awaitable[None]]:
    recording = record(store)

    async def handle(letter: DeadLetter) -> None:
        disposition = _FAILS.get(path)
        first = letter.park_count == 0 and letter.attempt == 1
        if disposition is not None and (first or path == "quarantine"):
            raise DlqError(disposition, source=ValueError(path))
        await recording(letter)

    return handle
