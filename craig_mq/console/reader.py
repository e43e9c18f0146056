"""The console's look at quarantine: one exclusive lease, held while the page is there, then handed back."""

from __future__ import annotations

from typing import Final

import attrs
import trio

from craig_mq.console.refused import refusals
from craig_mq.console.settings import ConsoleSettings
from craig_mq.operator.errors import OperatorError
from craig_mq.operator.lease import WINDOW_S, Lease, lease_queue
from craig_mq.operator.scan import Scan, scan_lease
from craig_mq.transport.broker import Broker
from craig_mq.transport.errors import TransportError

ABSENT_S: Final = 60.0
"""A page that has not asked for anything for so long is gone: its lease blocks other operators."""


@attrs.define(slots=True, eq=False)
class Reading:
    """Every row that was in quarantine at ``at_s`` (Unix epoch), fields only, no bodies.

    ``deadline`` is on Trio's clock. ``ended`` says why all was handed back, None while it is held.
    """

    number: int
    at_s: float
    scan: Scan
    deadline: float
    ended: str | None = None

    def seconds_left(self) -> float:
        """How long the lease will be held at most; 0 once it ended."""
        return 0.0 if self.ended is not None else max(0.0, self.deadline - trio.current_time())


class Reader:
    """Holds at most one lease. Its tasks live in the nursery it is given."""

    def __init__(self, broker: Broker, settings: ConsoleSettings, nursery: trio.Nursery) -> None:
        self._broker = broker
        self._settings = settings
        self._nursery = nursery
        self._number = 0
        self._seen_at = trio.current_time()
        self._wanted: str | None = None
        self._woken = trio.Event()
        self._released = trio.Event()
        self._released.set()
        self.reading: Reading | None = None
        self.progress: tuple[int, int] | None = None
        self.held = 0

    def seen(self) -> None:
        """The page is there: it asked for something."""
        self._seen_at = trio.current_time()

    async def look(self) -> Reading:
        """Hand back what is held, lease the queue anew and read it. Raises Refused. One call at a time.

        Cancelled: everything is handed back.
        """
        await self.hand_back("read again")
        self._released = trio.Event()
        self._woken, self._wanted = trio.Event(), None
        try:
            with refusals():
                reading: Reading = await self._nursery.start(self._hold)
        finally:
            self.progress = None
        return reading

    async def hand_back(self, why: str) -> None:
        """Give everything back, and return once it is. Cancelled: it is given back all the same."""
        self._wanted = self._wanted or why
        self._woken.set()
        await self._released.wait()

    async def _hold(  # noqa: ASYNC114 - only ever started with nursery.start
        self, task_status: trio.TaskStatus[Reading]
    ) -> None:
        """Lease, read, report the reading, and hold until nobody wants it, looks at it, or time is up."""
        settings, released = self._settings, self._released
        reading: Reading | None = None
        try:
            async with lease_queue(
                self._broker,
                settings.quarantine,
                limit=settings.max_scan,
                accept_delivery_count=settings.accept_delivery_count,
            ) as lease:
                self._number += 1
                scan = await scan_lease(lease, now_s=settings.now(), on_progress=self._on_progress)
                deadline = min(lease.deadline, trio.current_time() + WINDOW_S)
                reading = self.reading = Reading(self._number, settings.now(), scan, deadline)
                task_status.started(reading)
                reading.ended = await self._until_unwanted(lease) if scan.seen else "it is empty"
        except (TransportError, OperatorError) as error:
            if reading is None:
                raise
            reading.ended = f"the broker ended the lease: {error}"
            await trio.lowlevel.checkpoint()
        finally:
            self.held = 0
            released.set()

    async def _until_unwanted(self, lease: Lease) -> str:
        """Wait for the first reason to give it all back."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._wake_when_closed, lease)
            while self._wanted is None:
                gone_at = self._seen_at + ABSENT_S
                with trio.CancelScope(deadline=min(lease.deadline, gone_at)):
                    await self._woken.wait()
                if trio.current_time() >= lease.deadline:
                    self._wanted = "its time was up"
                elif trio.current_time() >= self._seen_at + ABSENT_S:
                    self._wanted = "no page was looking any more"
            nursery.cancel_scope.cancel(reason="the lease is not wanted any more")
        return self._wanted

    async def _wake_when_closed(self, lease: Lease) -> None:
        reason = await lease.channel.wait_closed()
        self._wanted = self._wanted or f"the broker closed the channel: {reason}"
        self._woken.set()

    def _on_progress(self, done: int, total: int) -> None:
        self.progress, self.held = (done, total), done
