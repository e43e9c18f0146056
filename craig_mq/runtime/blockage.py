"""Whether the broker has blocked a connection that publishes, for whoever holds back meanwhile."""

# flake8: noqa: ASYNC910 - internal: it waits only where there is something to wait for
from __future__ import annotations

from collections.abc import Callable

from craig_mq.runtime.on_demand import nobody
from supervisors.flag import Flag


class Blockage:
    """Whether the broker has blocked the publishing connection, and why (decisions, 10).

    ``wanted`` is called when it was blocked: whoever holds back meanwhile then calls ``wait_over``.
    """

    def __init__(self, changed: Callable[[str | None], None]) -> None:
        self._changed = changed
        self._changing = Flag()
        self.reason: str | None = None
        self.wanted: Callable[[], None] = nobody

    def change(self, reason: str | None) -> None:
        """Take note of a block (the broker's reason) or its end (None)."""
        self.reason = reason
        self._changed(reason)
        changing, self._changing = self._changing, Flag()
        changing.set()
        if reason is not None:
            self.wanted()

    async def wait_over(self) -> None:
        """Return once the connection is not blocked."""
        while self.reason is not None:
            await self._changing.wait()
