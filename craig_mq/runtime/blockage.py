"""Whether the broker has blocked a connection that publishes, for everybody who waits for it."""

# flake8: noqa: ASYNC910 - internal: it waits only where there is something to wait for
from __future__ import annotations

from collections.abc import Callable

import trio


class Blockage:
    """Whether the broker has blocked the publishing connection, and why (decisions, 10)."""

    def __init__(self, changed: Callable[[str | None], None]) -> None:
        self._changed = changed
        self._event = trio.Event()
        self.reason: str | None = None

    def change(self, reason: str | None) -> None:
        """Take note of a block (the broker's reason) or its end (None)."""
        self.reason = reason
        self._changed(reason)
        event, self._event = self._event, trio.Event()
        event.set()

    async def wait(self, *, blocked: bool) -> None:
        """Return once the connection is, or is not, blocked."""
        while (self.reason is not None) is not blocked:
            await self._event.wait()
