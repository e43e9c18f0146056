"""Copies of deliveries on their way: made and handed off many at a time, where nothing must be waited for.

Doing one thing for many deliveries before the next is a third cheaper than doing all of it for each: what
a step needs stays in the processor's caches. So workers leave the copies they owe here and go on.
"""

# flake8: noqa: ASYNC910 - between evidence and settlement there must be no checkpoint (S43)
from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec
import trio

from craig_mq.core.delivery import Publication
from craig_mq.core.outcome import Confirmation
from craig_mq.runtime.on_demand import nobody
from craig_mq.runtime.publishing import Publishing
from supervisors.flag import Flag


class Copy(msgspec.Struct, eq=False):
    """One publication. ``told`` hears its outcome; ``act`` performs the effect that follows from it."""

    publishing: Publishing
    publication: Publication
    told: Callable[[Confirmation], None]
    act: Callable[[], None]

    def hand_off(self, now: float) -> bool:
        """Publish, where nothing must be waited for: its confirm then performs what follows. Else False."""
        return self.publishing.publish_nowait(self.publication, self._told_last, now)

    async def publish(self, scope: trio.CancelScope) -> None:
        """Publish; ``told`` hears the outcome with no task switch behind the confirm, ``act`` is not called.

        Waits inside ``scope``, which is cancelled where no confirm comes in time. Cancelled from outside:
        the outcome is unknown and the delivery stays unacked.
        """
        await self.publishing.publish_within(scope, self.publication, self.told)

    def _told_last(self, confirmation: Confirmation) -> None:
        self.told(confirmation)
        self.act()


F = TypeVar("F")


class Copies(Generic[F]):
    """What one session's workers have left to be copied; ``make`` makes the copy of a delivery.

    A worker that pauses calls ``flush``; one that goes on to what may hold it, such as its next handler,
    calls ``leave``, and ``run`` flushes if it has not come back one scheduling pass later.
    """

    def __init__(self, publishing: Publishing, make: Callable[[F], Copy]) -> None:
        self._publishing = publishing
        self._make = make
        self._owed: list[F] = []
        self._idle: trio.lowlevel.Task | None = None
        self._waiting: list[Copy] = []
        self._waits = 0
        self._done = Flag()
        self.wanted: Callable[[], None] = nobody

    def owe(self, flight: F) -> bool:
        """Leave a delivery to be copied. False where its worker must wait for something, and do it itself."""
        if not self._publishing.ready:
            return False
        self._owed.append(flight)
        return True

    def leave(self) -> None:
        """Have ``run`` flush what is owed: whoever calls may be held up from here on."""
        if self._owed:
            self._wake()

    def flush(self) -> None:
        """Make everything owed, then hand it off."""
        if not self._owed:
            return
        owed, self._owed = self._owed, []
        copies = [self._make(flight) for flight in owed]
        now = trio.current_time()
        for copy in copies:
            if not copy.hand_off(now):
                self._waiting.append(copy)
                self._wake()

    async def run(self) -> None:
        """Flush what no worker flushes; see the copies through that must wait after all. Until cancelled."""
        async with trio.open_nursery() as waiting:
            while True:
                self.flush()
                while self._waiting:
                    self._waits += 1
                    waiting.start_soon(self._wait, self._waiting.pop())
                await self._sleep()

    async def wait_done(self) -> None:
        """Return once nothing is owed and no copy waits to be published."""
        while self._owed or self._waiting or self._waits:
            self.flush()
            if self._waiting or self._waits:
                if self._done.is_set():  # Else somebody waits for it already, and must be woken, too.
                    self._done = Flag()
                await self._done.wait()

    async def _wait(self, copy: Copy) -> None:
        with trio.CancelScope() as scope:
            await copy.publish(scope)
        copy.act()
        self._waits -= 1
        self._done.set()

    def _wake(self) -> None:
        self.wanted()
        if self._idle is not None:
            task, self._idle = self._idle, None
            trio.lowlevel.reschedule(task)

    async def _sleep(self) -> None:
        def leave(_: object) -> trio.lowlevel.Abort:
            self._idle = None
            return trio.lowlevel.Abort.SUCCEEDED

        self._idle = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(leave)
