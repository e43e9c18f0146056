"""The graceful token: "finish what you hold, take nothing new" (S45). It is not a cancellation."""

from __future__ import annotations

from collections.abc import Callable

import trio

from supervisors.flag import Flag


class Shutdown:
    """A one-way request that goes from a parent to its children, never back.

    ``request()`` is synchronous, idempotent (the first reason stays) and never blocks.
    """

    __slots__ = ("_event", "_listeners", "_reason")

    def __init__(self) -> None:
        self._event = Flag()
        self._reason: str | None = None
        self._listeners: tuple[Callable[[str], None], ...] = ()

    @property
    def requested(self) -> bool:
        """True once a drain was requested."""
        return self._reason is not None

    @property
    def reason(self) -> str | None:
        """The first request's reason, or None."""
        return self._reason

    def request(self, reason: str) -> None:
        """Ask for a drain: wake every waiter and tell every child token."""
        if self._reason is not None:
            return
        self._reason = reason
        self._event.set()
        listeners, self._listeners = self._listeners, ()
        for listener in listeners:
            listener(reason)

    async def wait(self) -> None:
        """Return once requested. A checkpoint; cancelling it leaves nothing behind."""
        await self._event.wait()

    def child(self) -> Shutdown:
        """A token that is requested when this one is; requesting the child does not touch the parent."""
        token = Shutdown()
        self.listen(token.request)
        return token

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call ``listener(reason)`` synchronously at the request; at once if it was made already."""
        if self._reason is None:
            self._listeners = (*self._listeners, listener)
        else:
            listener(self._reason)


async def sleep_or_shutdown(seconds: float, shutdown: Shutdown) -> bool:
    """Sleep, but end within one scheduler step of a shutdown request. True if it slept in full.

    A checkpoint; cancelling it leaves nothing behind. Raises ValueError for negative seconds.
    """
    if seconds < 0:
        raise ValueError(f"seconds must be >= 0, not {seconds}")
    with trio.move_on_after(seconds):
        await shutdown.wait()
    return not shutdown.requested
