"""Things the broker does by itself at a time: expiry, consumer_timeout, missed heartbeats."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable

import trio


class Timer:
    """One appointment; ``cancel`` makes it void."""

    __slots__ = ("_action", "due")

    def __init__(self, due: float, action: Callable[[], None]) -> None:
        """Due on Trio's clock."""
        self.due = due
        self._action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """Do nothing when the time comes."""
        self._action = None

    def fire(self) -> None:
        """Do it, once."""
        action, self._action = self._action, None
        if action is not None:
            action()

    @property
    def void(self) -> bool:
        """Whether nothing will happen."""
        return self._action is None


class Timers:
    """All appointments of one node, kept by whichever connections are open, or by one keeper for them all."""

    def __init__(self) -> None:
        """Start with none."""
        self.kept = False
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._keepers: set[trio.CancelScope] = set()

    def after(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Make an appointment."""
        timer = Timer(trio.current_time() + seconds, action)
        heapq.heappush(self._heap, (timer.due, next(self._order), timer))
        if self._heap[0][2] is timer:
            for until_due in self._keepers:
                until_due.deadline = timer.due
        return timer

    def run_due(self) -> None:
        """Do everything whose time has come, in order."""
        while self._heap and (self._heap[0][2].void or self._heap[0][0] <= trio.current_time()):
            heapq.heappop(self._heap)[2].fire()

    async def keep_for_all(self) -> None:
        """Be the one keeper, until cancelled: connections opened meanwhile bring none, and end sooner."""
        self.kept = True
        try:
            await self.keep()
        finally:
            self.kept = False

    async def keep(self) -> None:
        """Do things when they are due, until cancelled."""
        while True:
            self.run_due()
            with trio.CancelScope(deadline=self._next_due) as until_due:
                self._keepers.add(until_due)
                try:
                    await trio.sleep_forever()
                finally:
                    self._keepers.discard(until_due)

    @property
    def _next_due(self) -> float:
        return self._heap[0][0] if self._heap else math.inf
