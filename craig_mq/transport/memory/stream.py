"""One direction of a connection: things that take effect in order, now or when it flows again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from craig_mq.transport.memory.timers import Timers


class Stream:
    """Carries items in order. ``free`` is true while an item would take effect at once."""

    def __init__(self, timers: Timers) -> None:
        """Start flowing."""
        self.free = True
        self._timers = timers
        self._stops: set[object] = set()
        self._waiting: deque[Callable[[], None]] = deque()
        self._held: Callable[[], None] | None = None

    @property
    def flowing(self) -> bool:
        """Whether nothing stops it."""
        return not self._stops

    def push(self, item: Callable[[], None]) -> None:
        """Let an item take effect in its turn."""
        if self.free:
            item()
            return
        held, self._held = self._held, None
        self._waiting.append(item)
        if held is not None:
            self._waiting.append(held)
        self._run()

    def hold(self, item: Callable[[], None]) -> None:
        """Let an item take effect only after the next one (both at once if one is held already)."""
        if self._held is not None:
            self.push(item)
            return
        self._held = item
        self.free = False

    def stop(self, cause: object) -> None:
        """Let nothing take effect until this cause is gone."""
        self._stops.add(cause)
        self.free = False

    def start(self, cause: object) -> None:
        """Take a cause away; when it was the last, what waited takes effect."""
        self._stops.discard(cause)
        self._run()

    def stall(self, seconds: float) -> None:
        """Stop for so long."""
        cause = object()
        self.stop(cause)
        self._timers.after(seconds, lambda: self.start(cause))

    def clear(self) -> None:
        """Lose everything that has not taken effect."""
        self._waiting.clear()
        self._held = None
        self._run()

    def _run(self) -> None:
        while self._waiting and not self._stops:
            self._waiting.popleft()()
        self.free = not self._stops and not self._waiting and self._held is None
