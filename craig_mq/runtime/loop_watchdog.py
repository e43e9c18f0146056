"""Notices a handler that blocks the thread: heartbeats stop with it (field failure HB-01)."""

from __future__ import annotations

import time
from collections.abc import Callable

import trio

from craig_mq.observe.events import LoopBlocked
from craig_mq.runtime.reporting import Reporter

TOLERATED_S = 1.0


class _LoopWatch(trio.abc.Instrument):
    """Times each pass of the loop over its ready tasks, in real seconds, once for all that listen."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.listeners: dict[tuple[Reporter, str], None] = {}
        self._monotonic = monotonic
        self._running_since = monotonic()

    def after_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - Trio's own signature
        """Tasks run from here on."""
        self._running_since = self._monotonic()

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - Trio's own signature
        """Every ready task has had its step."""
        seconds = self._monotonic() - self._running_since
        if seconds > TOLERATED_S:
            for reporter, queue in list(self.listeners):
                reporter.emit(LoopBlocked(queue, seconds))


_watches: trio.lowlevel.RunVar[dict[Callable[[], float], _LoopWatch]] = trio.lowlevel.RunVar("watches")


class WatchingLoop:
    """Reports each pass of Trio's loop that took over a second of real time, for the length of the block.

    Without a ``monotonic`` clock (in seconds) nothing is watched. All that use one clock share one watch.
    """

    __slots__ = ("_listener", "_monotonic")

    def __init__(
        self, reporter: Reporter, queue: str, *, monotonic: Callable[[], float] | None = time.monotonic
    ) -> None:
        self._listener = (reporter, queue)
        self._monotonic = monotonic

    def __enter__(self) -> None:
        if self._monotonic is None:
            return
        watches = _watches.get({})
        _watches.set(watches)
        watch = watches.get(self._monotonic)
        if watch is None:
            watch = watches[self._monotonic] = _LoopWatch(self._monotonic)
            trio.lowlevel.add_instrument(watch)
        watch.listeners[self._listener] = None

    def __exit__(self, *_: object) -> None:
        if self._monotonic is None:
            return
        watches = _watches.get()
        watch = watches[self._monotonic]
        del watch.listeners[self._listener]
        if not watch.listeners:
            del watches[self._monotonic]
            trio.lowlevel.remove_instrument(watch)
