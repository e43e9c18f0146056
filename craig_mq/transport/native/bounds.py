"""How long a request may wait for its answer: one timer for all requests of a connection."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import trio


class RequestBounds:
    """Cancels what has waited ``seconds`` for an answer, while somebody is in ``sleep_until``.

    A deadline on each scope would do the same; but Trio keeps a scope that was left until its deadline has
    passed, and the start of a session makes some ten requests within milliseconds.
    """

    __slots__ = ("_alarm", "_waiting", "seconds")

    def __init__(self, seconds: float) -> None:
        """Nothing waits yet."""
        self.seconds = seconds
        self._waiting: list[tuple[float, trio.CancelScope]] = []
        """When each is due. All wait equally long, so the first to begin is the first to be due."""
        self._alarm: trio.CancelScope | None = None

    @contextmanager
    def bound(self) -> Generator[trio.CancelScope]:
        """Cancel the block ``seconds`` after its begin, as ``trio.move_on_after`` does."""
        entry = (trio.current_time() + self.seconds, trio.CancelScope())
        due, scope = entry
        self._waiting.append(entry)
        if self._alarm is not None and due < self._alarm.deadline:
            self._alarm.deadline = due
        try:
            with scope:
                yield scope
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)

    async def sleep_until(self, time: float) -> None:
        """Sleep until ``time`` of Trio's clock; cancel meanwhile, on time, whatever is due."""
        while (now := trio.current_time()) < time:
            self._cancel_due(now)
            until = min(self._waiting[0][0], time) if self._waiting else time
            with trio.CancelScope(deadline=until) as self._alarm:
                await trio.sleep_forever()
        self._cancel_due(now)
        await trio.lowlevel.checkpoint_if_cancelled()

    def _cancel_due(self, now: float) -> None:
        while self._waiting and self._waiting[0][0] <= now:
            _, scope = self._waiting.pop(0)
            scope.cancel(reason="the broker has not answered in time")
