"""An event for things of which there are many and for which hardly anybody waits."""

from __future__ import annotations

import trio


class Flag:
    """As ``trio.Event``, at a fifth of its size until somebody waits: Trio's holds a set of its waiters."""

    __slots__ = ("_awaited", "_raised")

    def __init__(self) -> None:
        self._raised = False
        self._awaited: trio.Event | None = None

    def is_set(self) -> bool:
        """True once set."""
        return self._raised

    def set(self) -> None:
        """Set it, for good, and wake every waiter."""
        self._raised = True
        if self._awaited is not None:
            self._awaited.set()

    async def wait(self) -> None:
        """Return once set; at least one checkpoint. Cancelling it leaves nothing behind."""
        if self._raised:
            await trio.lowlevel.checkpoint()
            return
        if self._awaited is None:
            self._awaited = trio.Event()
        await self._awaited.wait()
