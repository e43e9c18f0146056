"""The supervisor's one mailbox, and its timers. Posting is synchronous; only the supervisor takes."""

from __future__ import annotations

import heapq
import math
from collections.abc import Awaitable

from supervisors.flag import Flag
from supervisors.inputs import Input


class Mailbox:
    """Inputs in the order they were posted."""

    __slots__ = ("_items", "_wakeup")

    def __init__(self) -> None:
        self._items: list[Input] = []
        self._wakeup = Flag()

    def post(self, event: Input) -> None:
        """Add an input and wake the supervisor. Never blocks, callable from any task of this Trio run."""
        self._items.append(event)
        self._wakeup.set()

    def take_all(self) -> list[Input]:
        """Everything posted so far. What is posted meanwhile waits a turn, so no turn is endless."""
        taken, self._items = self._items, []
        self._wakeup = Flag()
        return taken

    def wait(self) -> Awaitable[None]:
        """Return once something is posted; at least one checkpoint, also if something is already there."""
        return self._wakeup.wait()


class Timers:
    """At most one timer per child; a replaced timer is skipped when it comes up."""

    __slots__ = ("_due", "_heap", "_set")

    def __init__(self) -> None:
        self._due: dict[str, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._set = 0

    def set(self, child: str, at: float | None) -> None:
        """Arm, move or (None) drop the child's timer."""
        self._due.pop(child, None)
        if at is not None:
            self._set += 1
            entry = (at, self._set)
            self._due[child] = entry
            heapq.heappush(self._heap, (*entry, child))

    def pending(self) -> list[tuple[float, str]]:
        """Every armed timer in the order they will fire."""
        armed = sorted((entry, child) for child, entry in self._due.items())
        return [(at, child) for (at, _), child in armed]

    def next_at(self) -> float:
        """When the next timer is due; inf if none."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][:2]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf

    def pop_due(self, now: float) -> str | None:
        """Take one child whose timer is due, earliest first."""
        if self.next_at() > now:
            return None
        _, _, child = heapq.heappop(self._heap)
        del self._due[child]
        return child
