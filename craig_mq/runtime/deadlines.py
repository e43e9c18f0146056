"""One bound, the same for many things that wait, watched by one task.

A deadline on each scope would change Trio's timers twice per delivery, and each change costs more
than the rest of the scope. Where every bound is equally long, the first to begin is the first to be
due: one task that sleeps until then is enough, and beginning and ending a bound touch one mapping.
"""

# flake8: noqa: ASYNC910 - internal: it waits only where there is something to wait for
from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Protocol

import trio

from craig_mq.runtime.on_demand import nobody
from supervisors.flag import Flag


class Bounded(Protocol):
    """What can be bounded: a cancel scope, or anything that is told as one."""

    def cancel(self, *, reason: str) -> None:
        """Hear that the time has come."""
        ...


class Deadlines:
    """Scopes, and what is told like one, cancelled ``seconds`` after ``begin`` unless ``end`` came first.

    Nothing is cancelled while the clock stands still, or while ``run`` does not run: ``wanted`` is called
    when there is something to watch and nobody does. ``run`` ends once there has been nothing to watch for
    ``patience`` seconds.
    """

    def __init__(self, seconds: float, reason: str, *, patience: float = math.inf) -> None:
        self.seconds = seconds
        self._reason = reason
        self._patience = patience
        self._due: dict[Bounded, float] = {}
        self._still_since: float | None = None
        self._went_on = Flag()
        self._watched = False
        self._idle: trio.CancelScope | None = None
        self.wanted: Callable[[], None] = nobody

    def __len__(self) -> int:
        return len(self._due)

    def __iter__(self) -> Iterator[Bounded]:
        return iter(self._due)

    def begin(self, scope: Bounded, now: float) -> None:
        """Bound ``scope``, counted from ``now`` by Trio's clock, or from when the clock goes on again."""
        since = now if self._still_since is None else self._still_since
        due = self._due[scope] = since + self.seconds
        if self._idle is not None:
            # Whatever begins until then is not due before; so short bounds, one after the other, wake nobody.
            self._idle.deadline = due
            self._idle = None
        elif not self._watched:
            self.wanted()

    def end(self, scope: Bounded) -> None:
        """Bound ``scope`` no longer."""
        self._due.pop(scope, None)

    def stand_still(self) -> None:
        """Stop the clock for every bound."""
        self._still_since = trio.current_time()

    def go_on(self) -> None:
        """Let the clock go on: what was left of each bound when it stopped is left now."""
        if self._still_since is not None:
            held = trio.current_time() - self._still_since
            self._still_since = None
            for scope in self._due:
                self._due[scope] += held
            self._went_on.set()

    async def run(self) -> None:
        """Cancel what is due, until there has been nothing to watch for ``patience`` seconds."""
        self._watched = True
        try:
            while await self._something_to_watch():
                await self._watch()
        finally:
            self._watched = False
            self._idle = None

    async def _something_to_watch(self) -> bool:
        """Wait while there is nothing; at most until what begins meanwhile is due."""
        if self._due:
            return True
        with trio.CancelScope(deadline=trio.current_time() + self._patience) as idle:
            self._idle = idle
            await trio.sleep_forever()
        return self._idle is not idle  # Then something began meanwhile, be it over or not.

    async def _watch(self) -> None:
        while self._due:
            if self._still_since is not None:
                self._went_on = Flag()
                await self._went_on.wait()
                continue
            scope, due = next(iter(self._due.items()))
            if due > trio.current_time():
                await trio.sleep_until(due)
            else:
                del self._due[scope]
                scope.cancel(reason=self._reason)
